//! Promised: each row of the source is in one file, however it is spread; the source is unchanged;
//! the next spread finishes or removes an interrupted one; an impossible spread is refused with an
//! error that names the problem.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::sync::Arc;

use coscan::EngineConfig;
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tempfile::TempDir;

use super::*;

const ROWS: i64 = 300_000;
const COUNT: usize = 300_000;

fn engine() -> Engine {
    Engine::new(EngineConfig {
        memory_bytes: Some(256 << 20),
        ..EngineConfig::default()
    })
    .unwrap()
}

/// A source with unordered keys, and three folders.
fn world() -> (TempDir, String, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let keys = Int64Array::from_iter_values((0..ROWS).map(|k| k * 7919 % ROWS));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys)]).unwrap();
    let source = folder.path().join("li.parquet");
    let mut writer = ArrowWriter::try_new(File::create(&source).unwrap(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let folders = ["a", "b", "c"].map(|name| folder.path().join(name));
    for folder in &folders {
        fs::create_dir(folder).unwrap();
    }
    let source = source.display().to_string();
    (folder, source, folders.to_vec())
}

fn keys(file: &Path) -> Vec<i64> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
    let batches = reader.build().unwrap().map(std::result::Result::unwrap);
    let keys = batches.flat_map(|batch| {
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    });
    keys.collect()
}

async fn run(source: &str, folders: &[PathBuf], by: &SpreadBy) -> Result<Spread> {
    let options = SpreadOptions {
        by: by.clone(),
        ..SpreadOptions::default()
    };
    spread(&engine(), source, folders, &options, |_| {}).await
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_row_is_in_one_file() {
    let (_folder, source, folders) = world();
    let before = fs::read(&source).unwrap();
    let done = run(&source, &folders, &SpreadBy::RoundRobin).await.unwrap();
    let files: Vec<Vec<i64>> = done.files.iter().map(|(file, _)| keys(file)).collect();
    assert_eq!(
        done.files[1].0,
        fs::canonicalize(&folders[1]).unwrap().join("li-2.parquet")
    );
    let all: BTreeSet<i64> = files.iter().flatten().copied().collect();
    let rows: usize = files.iter().map(Vec::len).sum();
    assert_eq!((all.len(), rows), (COUNT, COUNT));
    assert!(
        files.iter().all(|file| file.len() > 60_000),
        "a fair part each"
    );
    assert_eq!(fs::read(&source).unwrap(), before, "S1");
    let again = run(&source, &folders, &SpreadBy::RoundRobin).await;
    assert!(
        matches!(again, Err(RewriteError::Exists { .. })),
        "{again:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_folder_has_a_range() {
    let (_folder, source, folders) = world();
    let by = SpreadBy::Range("k".to_owned());
    let done = run(&source, &folders, &by).await.unwrap();
    let files = done.files.iter().map(|(file, _)| keys(file));
    assert_eq!(
        files.flatten().collect::<Vec<_>>(),
        (0..ROWS).collect::<Vec<_>>()
    );
    assert!(
        done.files
            .iter()
            .all(|(_, written)| written.rows == 100_000)
    );
    let by = SpreadBy::Range("none".to_owned());
    let error = run(&source, &folders, &by).await.unwrap_err();
    assert!(matches!(error, RewriteError::NoColumn { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_spread_is_finished_or_removed() {
    for renamed in 0..=3 {
        let (_folder, source, folders) = world();
        let folders = real(&folders).unwrap();
        let done = run(&source, &folders, &SpreadBy::RoundRobin).await.unwrap();
        let whole: Vec<Vec<i64>> = done.files.iter().map(|(file, _)| keys(file)).collect();
        // The state after a process was killed when this many files had their names.
        let entries: Vec<String> = done
            .files
            .iter()
            .enumerate()
            .map(|(at, (file, written))| {
                let draft = file.with_file_name(format!(".li-{at}.parquet.abcdef.part"));
                if at >= renamed {
                    fs::rename(file, &draft).unwrap();
                }
                let (draft, file, bytes) = (draft.display(), file.display(), written.bytes);
                format!(r#"{{"draft": "{draft}", "file": "{file}", "bytes": {bytes}}}"#)
            })
            .collect();
        let journal = folders[0].join(".li.spread.json");
        fs::write(&journal, format!("[{}]", entries.join(","))).unwrap();
        let again = run(&source, &folders, &SpreadBy::RoundRobin).await.unwrap();
        assert!(again.finished && again.files.len() == 3);
        for ((file, _), whole) in again.files.iter().zip(whole) {
            assert_eq!(keys(file), whole);
        }
        assert_eq!(names(&folders[0]), ["li-1.parquet"], "no journal, no draft");
    }
    // Killed before there was a journal: an unlocked draft.
    let (_folder, source, folders) = world();
    let draft = folders[1].join(".li-2.parquet.abcdef.part");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(600);
    File::create(&draft)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    run(&source, &folders, &SpreadBy::RoundRobin).await.unwrap();
    assert_eq!(names(&folders[1]), ["li-2.parquet"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_spreads_are_refused() {
    let (folder, source, folders) = world();
    let nowhere = folder.path().join("nowhere");
    let error = run(&source, &[nowhere], &SpreadBy::RoundRobin)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    let file = PathBuf::from(&source);
    let error = run(&source, &[file], &SpreadBy::RoundRobin)
        .await
        .unwrap_err();
    assert!(matches!(error, RewriteError::NoFolder { .. }), "{error}");
    let twice = [
        folders[0].clone(),
        folders[1].clone(),
        folders[0].join("../a"),
    ];
    let error = run(&source, &twice, &SpreadBy::RoundRobin)
        .await
        .unwrap_err();
    assert!(matches!(error, RewriteError::FolderTwice { .. }), "{error}");
    let inside = folder.path().to_owned();
    fs::copy(&source, folder.path().join("more.parquet")).unwrap();
    let all = format!("{}/", inside.display());
    let error = run(&all, &[inside], &SpreadBy::RoundRobin)
        .await
        .unwrap_err();
    assert!(
        matches!(error, RewriteError::InsideSource { .. }),
        "{error}"
    );
    let journal = folders[0].join(".li.spread.json");
    fs::write(
        &journal,
        r#"[{"draft": "/x/y", "file": "/x/z", "bytes": 1}]"#,
    )
    .unwrap();
    let error = run(&source, &folders, &SpreadBy::RoundRobin)
        .await
        .unwrap_err();
    assert!(error.to_string().contains(".li.spread.json"), "{error}");
    assert!(names(&folders[1]).is_empty(), "nothing is left");
}

#[test]
fn sources_have_names() {
    for (source, name) in [
        ("/data/lineitem/", "lineitem"),
        ("li.parquet", "li"),
        ("s3://bucket/t/*.parquet", "t"),
        ("*", "table"),
        ("/x/_hidden.parquet", "hidden"),
    ] {
        assert_eq!(stem(source), name);
    }
}
