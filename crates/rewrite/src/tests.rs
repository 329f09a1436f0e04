//! Promised: pages begin at multiples of `page_rows` in every leaf, whatever the types, the values
//! and the batches; rows and their order are preserved; memory bounds row groups; a file becomes
//! visible complete or not at all, on disk and in a store.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use coscan::EngineConfig;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Int32Array, Int64Array, ListArray, NullArray,
    RecordBatch, StringArray, StructArray,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int32Type, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use url::Url;

use super::*;

fn engine(memory_bytes: u64) -> Engine {
    Engine::new(EngineConfig {
        memory_bytes: Some(memory_bytes),
        ..EngineConfig::default()
    })
    .unwrap()
}

/// Columns of every kind that could misalign pages in its own way.
fn rows(count: usize, random: &mut StdRng) -> RecordBatch {
    let mut column = |make: &mut dyn FnMut(&mut StdRng, usize) -> Option<String>| -> ArrayRef {
        let values: StringArray = (0..count).map(|row| make(random, row)).collect();
        Arc::new(values)
    };
    // Distinct values of very different lengths: the dictionary becomes full within a page.
    let long = column(&mut |random, row| {
        Some(format!("{row}{}", "x".repeat(random.random_range(0..200))))
    });
    let few = column(&mut |random, _| {
        let value = random.random_range(0..20);
        (value > 3).then(|| format!("value {value}"))
    });
    // One value at first, then distinct values: the first row groups do not predict the later
    // ones.
    let late = column(&mut |_, row| Some(format!("{}", row.saturating_sub(count / 2))));
    let list = || {
        let mut random = StdRng::seed_from_u64(7);
        let lists = (0..count).map(|_| {
            let values = random.random_range(0..9_i32);
            (values > 0).then(|| Vec::from_iter((1..values).map(|n| (n != 4).then_some(n))))
        });
        ListArray::from_iter_primitive::<Int32Type, _, _>(lists)
    };
    let fields = Fields::from(vec![
        Field::new("text", DataType::Utf8, true),
        Field::new("list", list().data_type().clone(), true),
    ]);
    let nested = StructArray::new(fields, vec![Arc::clone(&long), Arc::new(list())], None);
    let numbers = 0..i64::try_from(count).unwrap();
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        (
            "number",
            Arc::new(Int64Array::from_iter_values(numbers.clone())),
            false,
        ),
        ("long", long, true),
        ("few", few, true),
        ("late", late, true),
        ("list", Arc::new(list()), true),
        ("nested", Arc::new(nested), true),
        ("nothing", Arc::new(NullArray::new(count)), true),
        (
            "yes",
            Arc::new(BooleanArray::from_iter(
                numbers.clone().map(|n| (n % 3 > 0).then_some(n % 5 > 0)),
            )),
            true,
        ),
        ("none", Arc::new(Int32Array::from(vec![None; count])), true),
        (
            "money",
            Arc::new(Decimal128Array::from_iter_values(
                numbers.map(|n| i128::from(n % 977)),
            )),
            false,
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The rows in batches of random lengths, some of them empty.
fn batches(rows: &RecordBatch, random: &mut StdRng) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    let mut from = 0;
    while from < rows.num_rows() {
        let length = random.random_range(0..3000).min(rows.num_rows() - from);
        batches.push(rows.slice(from, length));
        from += length;
    }
    batches
}

fn stream(
    schema: SchemaRef,
    batches: Vec<Result<RecordBatch, DataFusionError>>,
) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(
        schema,
        futures::stream::iter(batches),
    ))
}

/// The rows in random batches, written as a file.
async fn written(
    engine: &Engine,
    rows: &RecordBatch,
    path: &Path,
    layout: PageLayout,
    random: &mut StdRng,
) -> Rewritten {
    let parts = batches(rows, random).into_iter().map(Ok).collect();
    let rows = stream(rows.schema(), parts);
    let target = path.to_str().unwrap();
    write_pages(engine, rows, target, false, layout, |_| ())
        .await
        .unwrap()
}

fn footer(path: &Path) -> ParquetMetaData {
    ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&File::open(path).unwrap())
        .unwrap()
}

fn read(path: &Path) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let schema = Arc::clone(builder.schema());
    let batches: Vec<_> = builder.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

/// The first page of any leaf that does not begin at a multiple of `page_rows`; `None` if all do.
fn misaligned(footer: &ParquetMetaData, page_rows: usize) -> Option<String> {
    let index = footer.offset_index().unwrap();
    for (number, group) in footer.row_groups().iter().enumerate() {
        let rows = usize::try_from(group.num_rows()).unwrap();
        let expected: Vec<_> = (0..rows).step_by(page_rows).collect();
        for (leaf, pages) in index[number].iter().enumerate() {
            let first_rows = pages
                .page_locations()
                .iter()
                .map(|page| page.first_row_index);
            let first_rows: Vec<_> = first_rows
                .map(|row| usize::try_from(row).unwrap())
                .collect();
            if first_rows != expected {
                let path = group.column(leaf).column_path();
                return Some(format!("row group {number}, {path}: {first_rows:?}"));
            }
        }
    }
    None
}

#[tokio::test]
async fn pages_begin_at_the_same_rows_in_every_column() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(256 << 20);
    for (seed, (page_rows, row_group_rows)) in [
        (2048, 1 << 20),
        (2048, 5000),
        (1000, 1),
        (64, 3000),
        (7, 100),
    ]
    .into_iter()
    .enumerate()
    {
        let mut random = StdRng::seed_from_u64(seed as u64);
        let all = rows(if page_rows < 64 { 2_000 } else { 20_000 }, &mut random);
        let layout = PageLayout {
            page_rows,
            row_group_rows,
            ..PageLayout::default()
        };
        let path = folder.path().join(format!("{seed}.parquet"));
        let report = written(&engine, &all, &path, layout, &mut random).await;

        let footer = footer(&path);
        assert_eq!(misaligned(&footer, page_rows), None, "seed {seed}");
        let groups = footer.row_groups();
        let pages = |rows: i64| usize::try_from(rows).unwrap().div_ceil(page_rows);
        let full = i64::try_from(row_group_rows.div_ceil(page_rows) * page_rows).unwrap();
        let (last, before) = groups.split_last().unwrap();
        assert!(before.iter().all(|group| group.num_rows() == full));
        assert!(last.num_rows() <= full);
        assert_eq!(report.rows, all.num_rows() as u64);
        assert_eq!(report.row_groups, groups.len() as u64);
        let all_pages: usize = groups.iter().map(|group| pages(group.num_rows())).sum();
        assert_eq!(report.pages, all_pages as u64);
        assert_eq!(report.bytes, path.metadata().unwrap().len());
        assert_eq!(read(&path), all, "seed {seed}");
    }
}

#[tokio::test]
async fn dictionaries_hold_whole_chunks_and_are_small() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let all = rows(40_000, &mut random);
    let path = folder.path().join("t.parquet");
    let layout = PageLayout {
        row_group_rows: 10_240,
        compression: PageCompression::None,
        ..PageLayout::default()
    };
    written(&engine(256 << 20), &all, &path, layout, &mut random).await;
    let footer = footer(&path);
    let dictionaries = |name: &str| -> Vec<Option<i64>> {
        let of = |group: &parquet::file::metadata::RowGroupMetaData| {
            let columns = group.columns().iter();
            let mut named = columns.filter(|column| column.column_path().string() == name);
            let column = named.next().unwrap();
            let begins = column.dictionary_page_offset();
            begins.map(|begins| column.data_page_offset() - begins)
        };
        footer.row_groups().iter().map(of).collect()
    };
    let most = i64::try_from(layout::DICTIONARY_BYTES_MAX).unwrap() + 100;
    let small = |bytes: &Option<i64>| bytes.is_some_and(|bytes| bytes <= most);
    assert!(dictionaries("few").iter().all(small));
    assert!(dictionaries("list.list.item").iter().all(small));
    assert!(dictionaries("long").iter().all(Option::is_none));
    // Half of the column is one value. Row groups with more values use plain pages, and no later
    // row group tries a dictionary.
    let late = dictionaries("late");
    assert!(
        small(&late[0]) && late[2].is_none() && late[3].is_none(),
        "{late:?}"
    );
}

/// The reasons why rows are cut at the ends of pages, and why a column with a full dictionary is
/// encoded a second time. If this fails, parquet's writer has changed, and `row_group.rs` may be
/// simplified.
#[test]
fn parquets_own_writer_misaligns_lists_and_full_dictionaries() {
    let folder = tempfile::tempdir().unwrap();
    let all = rows(20_000, &mut StdRng::seed_from_u64(1));
    let layout = PageLayout::default();
    let misaligned = |column: &str, dictionaries: bool, batch_rows: usize| {
        let all = all
            .project(&[all.schema().index_of(column).unwrap()])
            .unwrap();
        let path = folder.path().join("t.parquet");
        let properties = layout
            .properties(dictionaries, Vec::new(), Vec::new())
            .unwrap();
        let mut writer =
            ArrowWriter::try_new(File::create(&path).unwrap(), all.schema(), Some(properties))
                .unwrap();
        for from in (0..all.num_rows()).step_by(batch_rows) {
            writer
                .write(&all.slice(from, batch_rows.min(all.num_rows() - from)))
                .unwrap();
        }
        writer.close().unwrap();
        misaligned(&footer(&path), layout.page_rows).is_some()
    };
    assert!(
        misaligned("list", false, 8192),
        "parts of lists are counted by values"
    );
    assert!(!misaligned("list", false, layout.page_rows));
    assert!(
        misaligned("long", true, layout.page_rows),
        "a full dictionary ends a page"
    );
    assert!(!misaligned("long", false, layout.page_rows));
    assert!(
        misaligned("number", false, 3000),
        "a batch may begin anywhere in a page and end in the next one"
    );
}

#[tokio::test]
async fn short_memory_ends_row_groups_early_and_at_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut random = StdRng::seed_from_u64(2);
    let all = rows(20_000, &mut random);
    let engine = engine(4 << 20);
    let layout = PageLayout {
        page_rows: 500,
        ..PageLayout::default()
    };
    let report = written(&engine, &all, &path, layout, &mut random).await;
    assert!(report.row_groups > 3);
    assert_eq!(misaligned(&footer(&path), 500), None);
    assert_eq!(read(&path), all);
    assert_eq!(engine.metrics().operator_bytes, 0, "all of it is freed");
}

#[tokio::test]
async fn row_groups_have_about_the_requested_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut random = StdRng::seed_from_u64(3);
    let all = rows(60_000, &mut random);
    let layout = PageLayout {
        page_rows: 100,
        row_group_bytes: 300_000,
        ..PageLayout::default()
    };
    written(&engine(256 << 20), &all, &path, layout, &mut random).await;
    let footer = footer(&path);
    let (_, groups) = footer.row_groups().split_last().unwrap();
    assert!(groups.len() > 3);
    for group in groups {
        let bytes = group.compressed_size();
        assert!(bytes < 400_000, "{bytes}");
    }
    assert!(groups[2].compressed_size() > 200_000);
}

/// The names in the folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn a_failed_write_leaves_nothing_and_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    std::fs::write(&path, "before").unwrap();
    let engine = engine(64 << 20);
    let all = rows(5_000, &mut StdRng::seed_from_u64(4));
    let layout = PageLayout {
        row_group_rows: 2048,
        ..PageLayout::default()
    };
    let failing = || {
        let broken = Err(DataFusionError::Execution("broken".to_owned()));
        stream(all.schema(), vec![Ok(all.clone()), broken])
    };
    let target = path.to_str().unwrap();
    let failed = write_pages(&engine, failing(), target, true, layout, |_| ()).await;
    assert!(failed.unwrap_err().to_string().contains("broken"));
    let refused = write_pages(&engine, failing(), target, false, layout, |_| ()).await;
    assert!(matches!(refused, Err(RewriteError::Exists { .. })));
    // Dropped after a row group was written, with more to come.
    let forever = futures::StreamExt::chain(
        futures::stream::iter([Ok(all.clone())]),
        futures::stream::pending(),
    );
    let forever = Box::pin(RecordBatchStreamAdapter::new(all.schema(), forever));
    let dropped = write_pages(&engine, forever, target, true, layout, |_| ());
    let waited = tokio::time::timeout(Duration::from_millis(500), dropped).await;
    assert!(waited.is_err());
    // A write that was under way removes its file when it ends.
    for _ in 0..1_000 {
        if names(folder.path()) == ["t.parquet"] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(names(folder.path()), ["t.parquet"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
}

#[tokio::test]
async fn a_file_that_appears_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let all = rows(10, &mut StdRng::seed_from_u64(5));
    let rows = stream(all.schema(), vec![Ok(all.clone())]);
    let target = path.to_str().unwrap();
    let meanwhile = |_| std::fs::write(&path, "other").unwrap();
    let engine = engine(64 << 20);
    let refused = write_pages(
        &engine,
        rows,
        target,
        false,
        PageLayout::default(),
        meanwhile,
    )
    .await;
    assert!(matches!(refused, Err(RewriteError::Exists { .. })));
    assert_eq!(names(folder.path()), ["t.parquet"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"other");
}

#[tokio::test]
async fn an_object_appears_when_it_is_complete() {
    let engine = engine(64 << 20);
    let store = Arc::new(InMemory::new());
    let url = Url::parse("memory://bucket").unwrap();
    engine
        .runtime()
        .register_object_store(&url, Arc::clone(&store) as Arc<dyn ObjectStore>);
    let folder = tempfile::tempdir().unwrap();
    let local = folder.path().join("t.parquet");
    let all = rows(5_000, &mut StdRng::seed_from_u64(6));
    let rows = || stream(all.schema(), vec![Ok(all.clone())]);
    let (local, remote) = (local.to_str().unwrap(), "memory://bucket/a/t.parquet");
    let layout = PageLayout::default();
    write_pages(&engine, rows(), local, false, layout, |_| ())
        .await
        .unwrap();
    write_pages(&engine, rows(), remote, false, layout, |_| ())
        .await
        .unwrap();
    let object = store
        .get(&"a/t.parquet".into())
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    assert!(object == std::fs::read(local).unwrap());

    let again = write_pages(&engine, rows(), remote, false, layout, |_| ()).await;
    assert!(matches!(again, Err(RewriteError::Exists { .. })));
    let broken = Err(DataFusionError::Execution("broken".to_owned()));
    let failing = stream(all.schema(), vec![Ok(all.clone()), broken]);
    let other = "memory://bucket/a/u.parquet";
    assert!(
        write_pages(&engine, failing, other, false, layout, |_| ())
            .await
            .is_err()
    );
    assert!(store.head(&"a/u.parquet".into()).await.is_err());
    // Read from a store, sorted, and written over itself.
    let options = RewriteOptions {
        sort_by: vec!["few".to_owned()],
        replace: true,
        ..RewriteOptions::default()
    };
    let sorted = rewrite(&engine, remote, remote, &options, |_| ())
        .await
        .unwrap();
    assert_eq!(sorted.rows, 5_000);
    for (wrong, why) in [
        ("memory://bucket/a/", "folder"),
        ("memory://bucket", "folder"),
        ("gopher://bucket/x", "gopher"),
        (folder.path().to_str().unwrap(), "folder"),
        ("/no/such/folder/t.parquet", "/no/such/folder"),
    ] {
        let failed = write_pages(&engine, rows(), wrong, false, layout, |_| ()).await;
        let message = failed.unwrap_err().to_string();
        assert!(
            message.contains(wrong) && message.contains(why),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_table_without_rows_is_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let none = rows(10, &mut StdRng::seed_from_u64(5)).slice(0, 0);
    let rows = stream(none.schema(), vec![Ok(none.clone())]);
    let target = path.to_str().unwrap();
    let engine = engine(64 << 20);
    let report = write_pages(&engine, rows, target, false, PageLayout::default(), |_| ()).await;
    assert_eq!(report.unwrap().row_groups, 0);
    assert_eq!(read(&path), none);
}
