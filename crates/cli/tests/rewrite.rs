//! Promised: `coscan rewrite` keeps rows and their order (or sorts them), aligns the pages of all
//! columns, keeps metadata, and prints one line about what it wrote; every failure ends with a
//! message that names the file, exit code 1, and leaves only what was there before.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests: a failure is a panic, and numbers are small"
)]

mod common;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::{KeyValue, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;

use common::{coscan, failure, stdout};

/// `rows` rows from `first` on: n counts up, key = n * 7919 % 1009 with NULLs, text is long with
/// many distinct values, list has NULLs and empty lists.
fn table(first: i64, rows: i64) -> RecordBatch {
    let numbers = || first..first + rows;
    let key = |n: i64| (n % 13 > 0).then_some(n * 7919 % 1009);
    let list = |n: i64| {
        (n % 5 > 0).then(|| {
            (0..(n % 4) as i32)
                .map(|i| (i > 0).then_some(i))
                .collect::<Vec<_>>()
        })
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers())),
        Arc::new(numbers().map(key).collect::<Int64Array>()),
        Arc::new(StringArray::from_iter_values(numbers().map(|n| {
            format!("row {n} {}", "x".repeat((n * n % 101) as usize))
        }))),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            numbers().map(list),
        )),
        Arc::new(
            TimestampMillisecondArray::from_iter_values(numbers()).with_timezone("Europe/Paris"),
        ),
    ];
    let of_field = HashMap::from([("unit".to_owned(), "rows".to_owned())]);
    let schema = Schema::new(vec![
        Field::new("n", DataType::Int64, false).with_metadata(of_field),
        Field::new("Key", DataType::Int64, true),
        Field::new("text", DataType::Utf8, false),
        Field::new("list", columns[3].data_type().clone(), true),
        Field::new("at", columns[4].data_type().clone(), false),
    ]);
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// Writes a file as most writers do, with row groups and pages of different sizes than ours.
fn write(path: &Path, rows: &RecordBatch, key_values: &[(&str, &str)]) {
    let pairs = key_values
        .iter()
        .map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(3_000))
        .set_data_page_size_limit(10_000)
        .set_key_value_metadata(Some(pairs.collect()))
        .build();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

fn read(path: &Path) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let schema = Arc::clone(builder.schema());
    let batches: Vec<_> = builder.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

/// Reports the first difference rather than all rows.
fn assert_same_rows(ours: &RecordBatch, expected: &RecordBatch) {
    assert_eq!(ours.num_rows(), expected.num_rows());
    for (number, (ours, expected)) in ours.columns().iter().zip(expected.columns()).enumerate() {
        let row = |row: &usize| ours.slice(*row, 1) != expected.slice(*row, 1);
        let first = (0..ours.len()).find(row);
        assert!(ours == expected, "column {number}, row {first:?}");
    }
}

fn footer(path: &Path) -> ParquetMetaData {
    ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&File::open(path).unwrap())
        .unwrap()
}

/// Every page of every leaf begins at a multiple of `page_rows` in its row group, and has a
/// minimum and a maximum.
fn assert_aligned(path: &Path, page_rows: i64) {
    let footer = footer(path);
    let (offsets, columns) = (
        footer.offset_index().unwrap(),
        footer.column_index().unwrap(),
    );
    let (last, before) = footer.row_groups().split_last().unwrap();
    assert!(before.iter().all(|group| group.num_rows() % page_rows == 0));
    assert!(last.num_rows() > 0);
    for (group, rows) in footer.row_groups().iter().enumerate() {
        let expected: Vec<i64> = (0..rows.num_rows()).step_by(page_rows as usize).collect();
        for (leaf, pages) in offsets[group].iter().enumerate() {
            let first_rows: Vec<i64> = pages
                .page_locations()
                .iter()
                .map(|page| page.first_row_index)
                .collect();
            assert_eq!(first_rows, expected, "row group {group}, leaf {leaf}");
            assert_eq!(columns[group][leaf].num_pages() as usize, expected.len());
        }
    }
}

fn rewrite(source: &Path, target: &Path, options: &[&str]) -> Output {
    let paths = [source.to_str().unwrap(), target.to_str().unwrap()];
    let arguments = [&["rewrite"], &paths[..], options].concat();
    coscan(Path::new("."), &arguments)
}

fn done(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "a pipe receives no progress bar");
    stdout(output).replace('\u{202f}', " ")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn rows_stay_in_order_and_pages_align() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (
        folder.path().join("s.parquet"),
        folder.path().join("t.parquet"),
    );
    write(
        &source,
        &table(0, 10_000),
        &[("made by", "a test"), ("empty", "")],
    );
    let summary = done(&rewrite(&source, &target, &[]));
    let bytes = target.metadata().unwrap().len();
    assert!(
        summary.contains("t.parquet: 10 000 rows in 1 row group and 5 pages of 2 048 rows, ")
            && summary.lines().count() == 1,
        "{summary}"
    );
    assert!(bytes > 0);
    assert_aligned(&target, 2048);
    let rows = read(&target);
    assert_eq!(
        rows,
        read(&source),
        "rows, types, and the metadata of columns"
    );
    assert_eq!(rows.schema().field(0).metadata()["unit"], "rows");
    let pairs = footer(&target)
        .file_metadata()
        .key_value_metadata()
        .unwrap()
        .clone();
    let value = |key: &str| {
        pairs
            .iter()
            .filter(|pair| pair.key == key)
            .map(|pair| pair.value.clone().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (value("made by"), value("empty")),
        (vec!["a test".to_owned()], vec![String::new()])
    );
    assert_eq!(value("ARROW:schema").len(), 1);
    assert!(footer(&target).row_group(0).sorting_columns().is_none());

    let options = [
        "--page-rows",
        "100",
        "--row-group-rows",
        "950",
        "--compression",
        "none",
        "--force",
    ];
    let summary = done(&rewrite(&source, &target, &options));
    assert!(
        summary.contains("10 000 rows in 10 row groups and 100 pages of 100 rows"),
        "{summary}"
    );
    assert_aligned(&target, 100);
    assert_same_rows(&read(&target), &read(&source));
    assert!(target.metadata().unwrap().len() > bytes);
}

#[test]
fn several_files_become_one_in_the_order_of_their_paths() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("s");
    for (name, first) in [("c", 0), ("b", 5_000), ("a", 10_000)] {
        let path = source.join(format!("{name}.parquet"));
        write(&path, &table(first, 5_000), &[("made by", "a test")]);
    }
    let target = folder.path().join("t.parquet");
    done(&rewrite(&source, &target, &["--page-rows", "999"]));
    assert_aligned(&target, 999);
    let parts = [table(10_000, 5_000), table(5_000, 5_000), table(0, 5_000)];
    let rows = read(&target);
    assert_same_rows(&rows, &concat_batches(&parts[0].schema(), &parts).unwrap());
    assert_eq!(
        rows.schema().field(0).metadata()["unit"],
        "rows",
        "files agree about it"
    );

    // Files that disagree about their metadata still form one table, without that metadata.
    write(
        &source.join("c.parquet"),
        &table(0, 5_000),
        &[("made by", "another")],
    );
    let glob = source.join("[ac].parquet");
    done(&rewrite(&glob, &target, &["--force"]));
    let parts = [&parts[0], &parts[2]];
    let rows = read(&target);
    assert_same_rows(&rows, &concat_batches(&parts[0].schema(), parts).unwrap());
    assert!(rows.schema().field(0).metadata().is_empty());
}

#[test]
fn folders_named_by_values_become_a_column() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("s"), folder.path().join("t.parquet"));
    write(&source.join("part=2/x.parquet"), &table(100, 50), &[]);
    write(&source.join("part=1/y.parquet"), &table(0, 100), &[]);
    done(&rewrite(&source, &target, &["--page-rows", "30"]));
    assert_aligned(&target, 30);
    let rows = read(&target);
    assert_eq!(rows.schema().field(5).name(), "part");
    let numbers = rows.column(0).as_primitive::<Int64Type>();
    assert!(numbers.values().iter().copied().eq(0..150));
    let parts = arrow::compute::cast(rows.column(5), &DataType::Int64).unwrap();
    let parts = parts.as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(parts, [vec![1; 100], vec![2; 50]].concat());
}

#[test]
fn rows_are_sorted_and_the_footer_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (
        folder.path().join("s.parquet"),
        folder.path().join("t.parquet"),
    );
    write(&source, &table(0, 60_000), &[]);
    // Less memory than the rows take: the sort spills.
    let options = [
        "--sort-by",
        "Key,n",
        "--memory",
        "8MiB",
        "--page-rows",
        "512",
    ];
    done(&rewrite(&source, &target, &options));
    assert_aligned(&target, 512);
    let rows = read(&target);
    assert_eq!(rows.num_rows(), 60_000);
    let keys: Vec<(bool, Option<i64>, i64)> = {
        let (n, key) = (
            rows.column(0).as_primitive::<Int64Type>(),
            rows.column(1).as_primitive::<Int64Type>(),
        );
        key.iter()
            .zip(n.values())
            .map(|(key, n)| (key.is_none(), key, *n))
            .collect()
    };
    assert!(keys.is_sorted());
    // Sorted back, the rows equal the source.
    let back = folder.path().join("b.parquet");
    done(&rewrite(&target, &back, &["--sort-by", "n"]));
    assert_same_rows(&read(&back), &read(&source));
    let footer = footer(&target);
    for group in footer.row_groups() {
        let sorting = group.sorting_columns().unwrap();
        let sorting: Vec<_> = sorting
            .iter()
            .map(|by| (by.column_idx, by.descending, by.nulls_first))
            .collect();
        assert_eq!(sorting, [(1, false, false), (0, false, false)]);
    }
    let query = format!("t={}", target.display());
    let output = coscan(
        Path::new("."),
        &[
            "sql",
            "-t",
            &query,
            "--format",
            "csv",
            "--small-table-bytes",
            "0",
            "SELECT count(*) AS c FROM t WHERE \"Key\" = 7",
        ],
    );
    let expected = keys.iter().filter(|(_, key, _)| *key == Some(7)).count();
    assert_eq!(done(&output), format!("c\n{expected}\n"));
}

#[test]
fn a_file_may_be_replaced_by_itself_but_not_added_to_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.parquet");
    write(&path, &table(0, 10_000), &[("kept", "yes")]);
    let before = read(&path);
    let message = failure(&rewrite(&path, &path, &[]), 1);
    assert!(
        message.contains("s.parquet exists already; --force replaces it"),
        "{message}"
    );
    done(&rewrite(&path, &path, &["--force", "--page-rows", "64"]));
    assert_aligned(&path, 64);
    assert_eq!(read(&path), before);

    write(&folder.path().join("r.parquet"), &table(0, 10), &[]);
    for (source, target) in [
        ("", "new.parquet"),
        ("*.parquet", "new.parquet"),
        ("", "r.parquet"),
    ] {
        let source = folder.path().join(source);
        let message = failure(
            &rewrite(&source, &folder.path().join(target), &["--force"]),
            1,
        );
        assert!(
            message.contains(target) && message.contains("twice"),
            "{message}"
        );
    }
    done(&rewrite(
        &folder.path().join("?.parquet"),
        &folder.path().join("new.parquet"),
        &[],
    ));
    assert_eq!(
        names(folder.path()),
        ["new.parquet", "r.parquet", "s.parquet"]
    );
}

#[test]
fn invalid_requests_are_refused_with_the_files_name() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (
        folder.path().join("s.parquet"),
        folder.path().join("t.parquet"),
    );
    write(&source, &table(0, 100), &[]);
    let here = |name: &str, content: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let broken = here("broken.parquet", "not Parquet at all, but long enough");
    let csv = here("rows.csv", "a,b\n1,2\n");
    let cut = here("cut.parquet", "");
    std::fs::write(&cut, &std::fs::read(&source).unwrap()[..2_000]).unwrap();
    for (source, why) in [
        (folder.path().join("missing.parquet"), "no such file"),
        (broken, "broken.parquet"),
        (cut, "cut.parquet"),
        (csv, "it is not Parquet"),
        (folder.path().join("*.orc"), "no files"),
    ] {
        let message = failure(&rewrite(&source, &target, &[]), 1);
        assert!(
            message.contains(source.to_str().unwrap()) && message.contains(why),
            "{message}"
        );
    }
    let by = |columns| failure(&rewrite(&source, &target, &["--sort-by", columns]), 1);
    let message = by("key");
    assert!(
        message.contains("s.parquet")
            && message.contains("'key'")
            && message.contains("n, Key, text, list, at"),
        "{message}"
    );
    let message = by("n,list");
    assert!(
        message.contains("'list'") && message.contains("List"),
        "{message}"
    );
    for (option, value, why) in [
        ("--page-rows", "0", "1 to 1048576"),
        ("--page-rows", "1048577", "1 to 1048576"),
        ("--row-group-rows", "0", "from 1"),
        ("--compression", "lzma", "snappy, zstd or none"),
        ("--memory", "much", "2GB"),
        ("--row-group-bytes", "big", "64MiB"),
    ] {
        let message = failure(&rewrite(&source, &target, &[option, value]), 2);
        assert!(
            message.contains(option) && message.contains(why),
            "{message}"
        );
    }
    let message = failure(&rewrite(&source, folder.path(), &[]), 1);
    assert!(message.contains("is a folder"), "{message}");
    let message = failure(
        &rewrite(&source, &folder.path().join("no/t.parquet"), &[]),
        1,
    );
    assert!(
        message.contains("no/t.parquet") && message.contains("No such file"),
        "{message}"
    );
    assert!(!target.exists());
}

/// A limit on file size stands in for a full disk: both make a write fail halfway.
#[cfg(unix)]
#[test]
fn a_full_disk_is_reported_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (
        folder.path().join("s.parquet"),
        folder.path().join("t.parquet"),
    );
    write(&source, &table(0, 20_000), &[]);
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_coscan"))
        .arg("rewrite")
        .args([&source, &target])
        .args(["--compression", "none"])
        .output()
        .unwrap();
    let message = failure(&output, 1);
    assert!(
        message.contains("t.parquet: ") && message.contains("File too large"),
        "{message}"
    );
    assert_eq!(names(folder.path()), ["s.parquet"]);
}
