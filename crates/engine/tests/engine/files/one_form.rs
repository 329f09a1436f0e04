//! Promised: values that mean the same to PostgreSQL are one value, however a file has them: dates,
//! moments of another zone or unit, infinities, dictionaries.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date64Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Int32Array, Int64Array, TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::datatypes::Int32Type;
use parquet::basic::{ConvertedType, LogicalType};
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{batch, one, open, open_small, run, write};

/// 2020-01-01 00:00:00 in milliseconds.
const NEW_YEAR: i64 = 1_577_836_800_000;

#[tokio::test(flavor = "multi_thread")]
async fn constants_keep_their_digits_beside_files_of_milliseconds() {
    let folder = tempfile::tempdir().unwrap();
    let coarse = TimestampMillisecondArray::from(vec![NEW_YEAR, NEW_YEAR + 1, NEW_YEAR + 2]);
    let fine = TimestampMicrosecondArray::from(vec![NEW_YEAR * 1000 + 1500]);
    for (name, at) in [("0", Arc::new(coarse) as ArrayRef), ("1", Arc::new(fine))] {
        let path = folder.path().join(format!("{name}.parquet"));
        write(&path, &batch(vec![("at", at)]));
    }
    for (condition, expected) in [
        ("at = '2020-01-01 00:00:00.0012'", "0"),
        ("at <> '2020-01-01 00:00:00.0012'", "4"),
        ("at < '2020-01-01 00:00:00.0015'", "2"),
        ("at <= '2020-01-01 00:00:00.0015'", "3"),
        ("at >= '2020-01-01 00:00:00.0012'", "2"),
        ("'2020-01-01 00:00:00.0012' <= at", "2"),
        ("at is distinct from '2020-01-01 00:00:00.0015'", "3"),
        (
            "at in ('2020-01-01 00:00:00.0015', '2020-01-01 00:00:00.0012')",
            "1",
        ),
        (
            "at between '2020-01-01 00:00:00.0005' and '2020-01-01 00:00:00.0017'",
            "2",
        ),
        ("at = '2020-01-01 00:00:00.001'", "1"),
        ("at < 'infinity'", "4"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(one(folder.path(), &sql).await, expected, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_file_cannot_hold_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let at = TimestampMillisecondArray::from(vec![NEW_YEAR]);
    write(
        &folder.path().join("0.parquet"),
        &batch(vec![("at", Arc::new(at))]),
    );
    let session = open(folder.path()).await;
    for value in ["infinity", "-infinity", "2020-01-01 00:00:00.0005"] {
        for source in [
            format!("VALUES (timestamp '{value}')"),
            format!("VALUES ('{value}')"),
            format!("SELECT timestamp '{value}' FROM t"),
        ] {
            let refused = run(&session, &format!("INSERT INTO t {source}")).await;
            assert!(refused.is_err(), "{source}: {refused:?}");
        }
    }
    let stored = run(&session, "INSERT INTO t VALUES ('2020-01-01 00:00:00.5')").await;
    assert_eq!(stored.unwrap(), ["1"]);
    let sql = "SELECT count(*), max(at) FROM t";
    assert_eq!(one(folder.path(), sql).await, "2|2020-01-01T00:00:00.500");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_moment_of_duckdb_is_infinity() {
    let folder = tempfile::tempdir().unwrap();
    let at = TimestampMicrosecondArray::from(vec![i64::MIN + 1, 0, i64::MAX]);
    let day = arrow::array::Date32Array::from(vec![i32::MIN + 1, 0, i32::MAX]);
    let columns: Vec<(&str, ArrayRef)> = vec![("at", Arc::new(at)), ("day", Arc::new(day))];
    write(&folder.path().join("0.parquet"), &batch(columns));
    for (condition, expected) in [
        ("at = '-infinity'", "1"),
        ("day = '-infinity'", "1"),
        ("isfinite(at)", "1"),
        ("isfinite(day)", "1"),
        ("at > '-infinity'", "2"),
        ("at = (SELECT min(at) FROM t) AND at = '-infinity'", "1"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(one(folder.path(), &sql).await, expected, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dictionaries_are_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let keys = || Int32Array::from(vec![Some(0), Some(1), None, Some(0)]);
    let of = |values: ArrayRef| -> ArrayRef {
        Arc::new(DictionaryArray::<Int32Type>::try_new(keys(), values).unwrap())
    };
    let decimals = Decimal128Array::from(vec![150, 275]);
    let decimals = decimals.with_precision_and_scale(9, 2).unwrap();
    let bytes: [&[u8]; 2] = [b"ab", b"cd"];
    let bytes = FixedSizeBinaryArray::try_from_iter(bytes.into_iter()).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", of(Arc::new(Int64Array::from(vec![5, 7])))),
        ("d", of(Arc::new(decimals))),
        ("b", of(Arc::new(bytes))),
    ];
    let plain: Vec<(&str, ArrayRef)> = columns
        .iter()
        .map(|(name, column)| {
            let dictionary = column.as_any().downcast_ref::<DictionaryArray<Int32Type>>();
            let values = dictionary.unwrap().values();
            let types = values.data_type();
            (*name, arrow::compute::cast(column, types).unwrap())
        })
        .collect();
    let path = folder.path().join("0.parquet");
    // Only Arrow's note says that columns are dictionaries, so the writer is given plain ones.
    noted(&path, &batch(columns), &batch(plain));
    for session in [open(folder.path()).await, open_small(folder.path()).await] {
        for (sql, expected) in [
            ("SELECT count(*) FROM t a JOIN t b ON a.i = b.i", "5"),
            ("SELECT count(*) FROM t WHERE i IN (SELECT i FROM t)", "3"),
            ("SELECT sum(coalesce(i, 100)) FROM t", "117"),
            ("SELECT sum(d), count(DISTINCT d) FROM t", "5.75|2"),
            ("SELECT count(*) FROM t WHERE d > 2", "1"),
        ] {
            assert_eq!(run(&session, sql).await.unwrap(), [expected], "{sql}");
        }
        let refused = run(&session, "SELECT b FROM t").await.unwrap_err();
        assert!(refused.to_string().contains('b'), "{refused}");
    }
}

/// Writes `plain` with the note that Arrow's writers make of `meant`.
fn noted(
    path: &std::path::Path,
    meant: &arrow::array::RecordBatch,
    plain: &arrow::array::RecordBatch,
) {
    let schema = meant.schema();
    let mut properties = parquet::file::properties::WriterProperties::builder().build();
    parquet::arrow::add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
    let options = parquet::arrow::arrow_writer::ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    let file = std::fs::File::create(path).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new_with_options(file, plain.schema(), options).unwrap();
    writer.write(plain).unwrap();
    writer.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn days_are_days_and_moments_have_the_zone_of_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let day = Date64Array::from(vec![NEW_YEAR]);
    let at = TimestampMicrosecondArray::from(vec![NEW_YEAR * 1000]).with_timezone("Europe/Rome");
    let columns: Vec<(&str, ArrayRef)> = vec![("day", Arc::new(day)), ("at", Arc::new(at))];
    write(&table.join("0.parquet"), &batch(columns));
    let sql = "SELECT count(*) FROM t WHERE day = '2020-01-01' AND day < '2020-01-02' \
               AND at = '2020-01-01 00:00:00+00'";
    assert_eq!(one(&table, sql).await, "1");
    let sql = "SELECT concat(at), format('%s', at), day::text FROM t";
    let shown = "2020-01-01 00:00:00+00|2020-01-01 00:00:00+00|2020-01-01";
    assert_eq!(one(&table, sql).await, shown);
    let session = open_small(&table).await;
    let copy = folder.path().join("copy.parquet");
    let sql = format!("COPY (SELECT day FROM t) TO '{}'", copy.display());
    assert_eq!(run(&session, &sql).await.unwrap(), ["1"]);
    let file = SerializedFileReader::new(std::fs::File::open(copy).unwrap()).unwrap();
    let column = file.metadata().file_metadata().schema_descr().column(0);
    let is_date = column.logical_type_ref() == Some(&LogicalType::Date)
        || column.converted_type() == ConvertedType::DATE;
    assert!(is_date, "{column:?}");
}
