//! Promised: where a process may open few files, a device closes the files that are not being
//! read, and continues to work. A test binary of its own, because the limit is per process.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::single_range_in_vec_init,
    reason = "a read takes a list of ranges"
)]

use coscan_storage::device::{Device, LocalDevice, LocalOptions};
use object_store::path::Path;

#[tokio::test]
async fn idle_files_are_closed_when_descriptors_run_out() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    for n in 0..100_u8 {
        std::fs::write(folder.path().join(format!("{n}")), [n; 100]).unwrap();
    }
    let device = LocalDevice::open(folder.path(), &LocalOptions::default()).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let limit = libc::rlimit {
        rlim_cur: open + 20,
        rlim_max: open + 20,
    };
    // SAFETY: the call reads `limit` and no other memory.
    assert_eq!(
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) },
        0
    );
    for _ in 0..2 {
        for n in 0..100_u8 {
            let path = folder.path().join(format!("{n}"));
            let location = Path::from_absolute_path(&path).unwrap();
            let version = device.stat(&location).await.unwrap();
            let answers = device.read(&version, &[10..20]).await.unwrap();
            assert_eq!(answers[0], vec![n; 10]);
        }
    }
}
