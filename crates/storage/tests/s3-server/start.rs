//! Builds and starts the S3 server beside this file, for tests of any crate (`#[path]` to here).

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The S3 server on loopback; dropping the value stops it. Key `test`, secret `test-secret`, one
/// bucket named `bucket`.
pub(crate) struct S3Server {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl S3Server {
    /// `package` is the folder with this file; the server keeps its objects under `disk`.
    pub(crate) fn start(package: &Path, disk: &Path) -> Self {
        let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/s3-server");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--manifest-path"])
            .arg(package.join("Cargo.toml"))
            .args(["--target-dir", target])
            .status()
            .unwrap();
        assert!(built.success(), "the S3 server does not build");
        let folder = TempDir::new_in(disk).unwrap();
        fs::create_dir(folder.path().join("bucket")).unwrap();
        let mut process = Command::new(format!("{target}/debug/coscan-test-s3-server"))
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut port).unwrap();
        Self {
            process,
            port: port.trim().parse().unwrap(),
            folder,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The folder that is served as the bucket.
    #[allow(dead_code, reason = "not every test writes past the protocol")]
    pub(crate) fn bucket(&self) -> PathBuf {
        self.folder.path().join("bucket")
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // Closing the server's input ends the server; killing it only makes sure.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
