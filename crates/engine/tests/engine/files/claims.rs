//! Promised: a footer's false or missing claims change no result, neither of Coscan's reader nor
//! of DataFusion's, neither by pruning nor by aggregates that are computed from footers.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int32Array, RecordBatch, StringArray, UInt32Array,
};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;

use super::{batch, one, open, open_small, run};

/// Writes a file of row groups of two rows, then changes what it claims of each column chunk.
fn write_claiming(
    path: &Path,
    rows: &RecordBatch,
    claim: impl Fn(usize, &str) -> Option<Statistics>,
) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    let end = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
    let footer = bytes.split_off(end - length);
    let metadata = ParquetMetaDataReader::decode_metadata(&footer[..length]).unwrap();
    let mut builder = metadata.into_builder();
    let groups = builder
        .take_row_groups()
        .into_iter()
        .enumerate()
        .map(|(number, group)| {
            let columns = group.columns().iter().map(|column| {
                let claimed = claim(number, &column.column_path().string());
                let column = column.clone().into_builder();
                match claimed {
                    Some(statistics) => column.set_statistics(statistics).build().unwrap(),
                    None => column.clear_statistics().build().unwrap(),
                }
            });
            let columns = columns.collect();
            group
                .clone()
                .into_builder()
                .set_column_metadata(columns)
                .build()
                .unwrap()
        });
    let groups = groups.collect();
    let metadata = builder.set_row_groups(groups).build();
    ParquetMetaDataWriter::new(&mut bytes, &metadata)
        .finish()
        .unwrap();
    fs::write(path, bytes).unwrap();
}

async fn answers(
    rows: RecordBatch,
    claim: impl Fn(usize, &str) -> Option<Statistics>,
    asked: &[(&str, &str)],
) {
    let folder = tempfile::tempdir().unwrap();
    write_claiming(&folder.path().join("0.parquet"), &rows, claim);
    for (sql, expected) in asked {
        assert_eq!(one(folder.path(), sql).await, *expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_bounds_of_text_and_of_unsigned_numbers_are_not_used() {
    let text = StringArray::from(vec!["a", "é", "b", "z"]);
    let numbers = UInt32Array::from(vec![1, u32::MAX, 2, 3]);
    let rows = batch(vec![("s", Arc::new(text)), ("u", Arc::new(numbers))]);
    // parquet-mr before 1.10 compared bytes and numbers as signed ones (Parquet issue 686).
    let claim = |group: usize, column: &str| match (column, group) {
        ("s", 0) => Some(Statistics::byte_array(
            Some("é".into()),
            Some("a".into()),
            None,
            Some(0),
            true,
        )),
        ("s", _) => Some(Statistics::byte_array(
            Some("m".into()),
            Some("n".into()),
            None,
            Some(0),
            true,
        )),
        (_, 0) => Some(Statistics::int32(Some(-1), Some(1), None, Some(0), true)),
        _ => Some(Statistics::int32(Some(2), Some(3), None, Some(0), true)),
    };
    answers(
        rows,
        claim,
        &[
            ("SELECT count(*) FROM t WHERE s = 'a'", "1"),
            ("SELECT count(*) FROM t WHERE s > 'y'", "2"),
            ("SELECT min(s), max(s) FROM t", "a|é"),
            ("SELECT count(*) FROM t WHERE u > 100", "1"),
            ("SELECT min(u), max(u) FROM t", "1|4294967295"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_null_count_is_unknown() {
    let rows = batch(vec![(
        "c",
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)])),
    )]);
    let claim = |group: usize, _: &str| {
        let low = i32::try_from(1 + 2 * group).unwrap();
        let high = if group == 0 { 1 } else { 4 };
        Some(Statistics::int32(Some(low), Some(high), None, None, false))
    };
    answers(
        rows,
        claim,
        &[
            ("SELECT count(c), count(*) FROM t", "3|4"),
            ("SELECT count(*) FROM t WHERE c IS NULL", "1"),
            ("SELECT count(*) FROM t WHERE c IS NOT NULL", "3"),
            ("SELECT count(*) FROM t WHERE c < 2 IS NOT TRUE", "3"),
            ("SELECT count(*) FROM t WHERE c <= 4", "3"),
            ("SELECT min(c), max(c) FROM t", "1|4"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_is_no_bound() {
    let nan = f64::NAN;
    let wide = Float64Array::from(vec![1.0, nan, 3.0, 4.0]);
    let narrow = Float32Array::from(vec![1.0, f32::NAN, 3.0, 4.0]);
    let rows = batch(vec![("d", Arc::new(wide)), ("f", Arc::new(narrow))]);
    let claim = |group: usize, column: &str| match (group, column) {
        (0, "d") => Some(Statistics::double(
            Some(nan),
            Some(nan),
            None,
            Some(0),
            false,
        )),
        (0, _) => Some(Statistics::float(
            Some(f32::NAN),
            Some(f32::NAN),
            None,
            Some(0),
            false,
        )),
        (_, "d") => Some(Statistics::double(
            Some(3.0),
            Some(nan),
            None,
            Some(0),
            false,
        )),
        _ => Some(Statistics::float(
            Some(f32::NAN),
            Some(4.0),
            None,
            Some(0),
            false,
        )),
    };
    answers(
        rows,
        claim,
        &[
            ("SELECT count(*) FROM t WHERE d = 1", "1"),
            ("SELECT count(*) FROM t WHERE f = 1", "1"),
            ("SELECT count(*) FROM t WHERE d < 2 AND f < 2", "1"),
            (
                "SELECT count(*) FROM t WHERE d BETWEEN 3 AND 4 AND f BETWEEN 3 AND 4",
                "2",
            ),
            ("SELECT min(d), min(f) FROM t", "1.0|1.0"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn estimates_and_gaps_answer_nothing() {
    let rows = batch(vec![(
        "c",
        Arc::new(Int32Array::from(vec![5, 6, 1, 9])) as ArrayRef,
    )]);
    // The number of distinct values is an estimate, and the second row group has no statistics.
    let claim = |group: usize, _: &str| {
        (group == 0).then(|| Statistics::int32(Some(5), Some(6), Some(7), Some(0), false))
    };
    answers(
        rows.clone(),
        claim,
        &[
            ("SELECT min(c), max(c), count(c) FROM t", "1|9|4"),
            ("SELECT count(DISTINCT c) FROM t", "4"),
            ("SELECT count(*) FROM t WHERE c < 3", "1"),
        ],
    )
    .await;
    let claim =
        |_: usize, _: &str| Some(Statistics::int32(Some(1), Some(9), Some(7), Some(0), false));
    answers(
        rows.slice(0, 2),
        claim,
        &[("SELECT count(DISTINCT c) FROM t", "2")],
    )
    .await;
}

/// A file of the Parquet project, as a table's only file.
fn known(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new("tests/data/parquet-testing");
    fs::copy(data.join(name), folder.path().join(name)).unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_parquet_project_are_read_as_others_read_them() {
    for (file, sql, expected) in [
        (
            "int96_from_spark.parquet",
            "SELECT count(*), count(a), min(a) FROM t",
            "6|5|2024-01-01T01:00:00",
        ),
        (
            "int96_from_spark.parquet",
            "SELECT a FROM t WHERE a > timestamp '2100-01-01 00:00:00' AND extract(year from a) < 10000",
            "9999-12-31T03:00:00",
        ),
        (
            "int96_from_spark.parquet",
            "SELECT max(arrow_cast(a, 'Int64')) FROM t",
            "9089380393200000000",
        ),
        (
            "dict-page-offset-zero.parquet",
            "SELECT count(*), min(l_partkey), max(l_partkey) FROM t",
            "39|1552|1552",
        ),
        (
            "nan_in_stats.parquet",
            "SELECT count(*) FROM t WHERE x = 1",
            "1",
        ),
        (
            "float16_nonzeros_and_nans.parquet",
            "SELECT count(*), count(x) FROM t",
            "8|7",
        ),
        (
            "single_nan.parquet",
            "SELECT count(*) FROM t WHERE mycol > 0",
            "0",
        ),
        (
            "repeated_no_annotation.parquet",
            "SELECT count(*), count(\"phoneNumbers\") FROM t",
            "6|4",
        ),
        (
            "repeated_primitive_no_list.parquet",
            "SELECT count(*) FROM t",
            "4",
        ),
        (
            "old_list_structure.parquet",
            "SELECT a FROM t",
            "[[1, 2], [3, 4]]",
        ),
        (
            "page_v2_empty_compressed.parquet",
            "SELECT count(*), count(integer_column) FROM t",
            "10|0",
        ),
        (
            "unknown-logical-type.parquet",
            "SELECT count(*), count(\"column with known type\") FROM t",
            "3|3",
        ),
    ] {
        let folder = known(file);
        assert_eq!(one(folder.path(), sql).await, expected, "{file}: {sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checksums_of_pages_are_verified() {
    for fine in [
        "plain-dict-uncompressed-checksum.parquet",
        "rle-dict-snappy-checksum.parquet",
    ] {
        let folder = known(fine);
        let sql =
            "SELECT count(long_field), count(binary_field) FROM t WHERE long_field IS NOT NULL";
        assert_eq!(one(folder.path(), sql).await, "1000|1000", "{fine}");
    }
    let folder = known("rle-dict-uncompressed-corrupt-checksum.parquet");
    for session in [open(folder.path()).await, open_small(folder.path()).await] {
        let sql =
            "SELECT max(long_field), max(length(binary_field)) FROM t WHERE long_field > -1000";
        let refused = run(&session, sql).await.unwrap_err().to_string();
        for part in ["corrupt-checksum.parquet", "_field", "checksum"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
