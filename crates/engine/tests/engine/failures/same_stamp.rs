//! Promised: a file that replaces another one is another version, even if a tool keeps its size
//! and modification time (`cp -p`, `rsync -t`, `mv`): counts, bounds, rows and indexes are the new
//! file's, in every session that knew the old one.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use coscan::{EngineConfig, Session};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::common::{self, rows};
use crate::indexes::run;

/// A file of these numbers, with this many bytes of padding in its footer.
fn file_of(numbers: std::ops::Range<i64>, ballast: usize) -> Vec<u8> {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let batch = RecordBatch::try_from_iter([("v", column)]).unwrap();
    let ballast = KeyValue::new("ballast".to_owned(), "x".repeat(ballast));
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_key_value_metadata(Some(vec![ballast]))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// Two files of the same size.
fn twins() -> (Vec<u8>, Vec<u8>) {
    let old = file_of(0..100, 2000);
    let twin = (0..4000).map(|ballast| file_of(1000..1090, ballast));
    let twin = twin.into_iter().find(|file| file.len() == old.len());
    (old, twin.unwrap())
}

/// Replaces the file by these bytes, with the given times.
fn replace(path: &Path, bytes: &[u8], by_rename: bool, time: SystemTime) {
    let other = path.with_extension("other");
    let written = if by_rename { other.as_path() } else { path };
    fs::write(written, bytes).unwrap();
    let file = File::options().write(true).open(written).unwrap();
    file.set_modified(time).unwrap();
    if by_rename {
        fs::rename(&other, path).unwrap();
    }
}

async fn ask(session: &Session) -> Vec<Vec<String>> {
    let mut answers = Vec::new();
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT min(v), max(v) FROM t",
        "SELECT sum(v), count(*) FROM t",
        "SELECT count(*) FROM t WHERE v < 500",
        "SELECT v FROM t WHERE v = 1007 OR v = 7",
        "SELECT v FROM t ORDER BY v DESC LIMIT 1",
    ] {
        answers.push(rows(session, sql).await);
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn size_and_time_do_not_make_a_version() {
    let (old, new) = twins();
    for small_table_bytes in [0, u64::MAX] {
        for by_rename in [false, true] {
            for indexed in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("a.parquet");
                let time = SystemTime::now() - Duration::from_secs(1000);
                replace(&path, &old, false, time);
                let config = EngineConfig {
                    small_table_bytes,
                    ..common::config()
                };
                let table = folder.path().join("");
                let session = common::session(config.clone(), &[("t", &table)]).await;
                if indexed {
                    run(&session, "CREATE INDEX i ON t (v)").await.unwrap();
                }
                let first = ask(&session).await;
                assert_eq!(first[0], ["100"]);
                assert_eq!(first[1], ["0|99"]);

                // The file system's clock ticks every few milliseconds.
                tokio::time::sleep(Duration::from_millis(20)).await;
                replace(&path, &new, by_rename, time);
                let metadata = fs::metadata(&path).unwrap();
                assert_eq!(metadata.len(), old.len() as u64);
                assert_eq!(metadata.modified().unwrap(), time);
                let context = format!("{small_table_bytes}, rename: {by_rename}, {indexed}");
                let found = ask(&session).await;
                let fresh = common::session(config, &[("t", &table)]).await;
                assert_eq!(found, ask(&fresh).await, "{context}");
                assert_eq!(found[0], ["90"], "{context}");
                assert_eq!(found[1], ["1000|1089"], "{context}");
                assert_eq!(found[4], ["1007"], "{context}");
            }
        }
    }
}

/// Two folders with a file of the same name, size and modification time, and, where the file
/// system's clock ticks slowly enough, the same time of the last change.
fn twin_folders(above: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let (old, new) = twins();
    let time = SystemTime::now() - Duration::from_secs(1000);
    for attempt in 0..200 {
        let paths = ["old", "new"].map(|name| above.join(name).join("a.parquet"));
        for path in &paths {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(path);
        }
        let files = [&old, &new].into_iter().zip(&paths).map(|(bytes, path)| {
            fs::write(path, bytes).unwrap();
            File::options().write(true).open(path).unwrap()
        });
        let files: Vec<File> = files.collect();
        for file in &files {
            file.set_modified(time).unwrap();
        }
        let changed = paths.map(|path| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.ctime(), metadata.ctime_nsec(), metadata.len())
        });
        if changed[0] == changed[1] || attempt == 199 {
            return changed[0] == changed[1];
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switched_link_is_another_folder() {
    for small_table_bytes in [0, u64::MAX] {
        let above = tempfile::tempdir().unwrap();
        let same_times = twin_folders(above.path());
        let link = above.path().join("current");
        std::os::unix::fs::symlink(above.path().join("old"), &link).unwrap();
        let config = EngineConfig {
            small_table_bytes,
            ..common::config()
        };
        let table = link.join("");
        let session = common::session(config.clone(), &[("t", &table)]).await;
        assert_eq!(ask(&session).await[1], ["0|99"]);
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(above.path().join("new"), &link).unwrap();
        let found = ask(&session).await;
        let fresh = common::session(config, &[("t", &table)]).await;
        let context = format!("{small_table_bytes}, same times: {same_times}");
        assert_eq!(found, ask(&fresh).await, "{context}");
        assert_eq!(found[1], ["1000|1089"], "{context}");
    }
}
