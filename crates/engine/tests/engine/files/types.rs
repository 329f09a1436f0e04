//! Promised: if the files of a folder store a column differently, it is read as the wider type; if
//! there is none, the error names file and column. Files with short dictionaries may together have
//! any number of values.

use std::fs;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};
use arrow::datatypes::{Int8Type, Int32Type};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::{batch, files, one, open, open_small, run, types, write};
use crate::common;

#[tokio::test(flavor = "multi_thread")]
async fn files_that_differ_are_read_as_the_wider_type() {
    let folder = tempfile::tempdir().unwrap();
    // 9999-12-31 00:00:00.
    let far = 253_402_214_400_000;
    let narrow: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int32Array::from(vec![Some(1), None]))),
        (
            "at",
            Arc::new(TimestampMillisecondArray::from(vec![Some(far), None])),
        ),
        ("f", Arc::new(Float32Array::from(vec![Some(0.5), None]))),
        (
            "s",
            Arc::new(
                [Some("a"), None]
                    .into_iter()
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        ("only", Arc::new(StringArray::from(vec![Some("x"), None]))),
    ];
    let wide: Vec<(&str, ArrayRef)> = vec![
        ("s", Arc::new(LargeStringArray::from(vec![Some("b")]))),
        ("f", Arc::new(Float64Array::from(vec![0.25]))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(5)])),
        ),
        ("i", Arc::new(Int64Array::from(vec![1_i64 << 40]))),
        ("more", Arc::new(BooleanArray::from(vec![true]))),
    ];
    let view: Vec<(&str, ArrayRef)> = vec![("s", Arc::new(StringViewArray::from(vec!["c"])))];
    write(&folder.path().join("0.parquet"), &batch(narrow));
    write(&folder.path().join("1.parquet"), &batch(wide));
    write(&folder.path().join("2.parquet"), &batch(view));
    for (sql, expected) in [
        (
            "SELECT count(*), count(i), count(only), count(more), count(s) FROM t",
            "4|2|1|1|3",
        ),
        (
            "SELECT min(i), max(i), sum(i) FROM t",
            "1|1099511627776|1099511627777",
        ),
        (
            "SELECT min(s), max(s), min(only), max(only) FROM t",
            "a|c|x|x",
        ),
        (
            "SELECT max(at), min(at) FROM t",
            "9999-12-31T00:00:00|1970-01-01T00:00:00.000005",
        ),
        ("SELECT sum(f), bool_and(more) FROM t", "0.75|true"),
        ("SELECT i FROM t WHERE i > 5", "1099511627776"),
        (
            "SELECT count(*) FROM t WHERE i = 1 AND s = 'a' AND f = 0.5",
            "1",
        ),
        ("SELECT count(*) FROM t WHERE i IS NULL", "2"),
        (
            "SELECT s FROM t WHERE only IS NULL AND more IS NULL AND s > 'b'",
            "c",
        ),
        (
            "SELECT count(*) FROM t WHERE at > timestamp '2000-01-01 00:00:00'",
            "1",
        ),
    ] {
        assert_eq!(one(folder.path(), sql).await, expected, "{sql}");
    }
    let session = open(folder.path()).await;
    run(&session, "INSERT INTO t SELECT * FROM t")
        .await
        .unwrap();
    let new = files(folder.path()).pop().unwrap();
    let new = if new.ends_with("2.parquet") {
        files(folder.path()).swap_remove(3)
    } else {
        new
    };
    let _ = types(&new);
    assert_eq!(
        one(folder.path(), "SELECT count(*), sum(i) FROM t").await,
        "8|2199023255554"
    );
}

/// A hundred hosts, which refer to a dictionary with keys of 8 bits, as pandas writes categories.
fn hosts(first: i64) -> RecordBatch {
    let ids = first..first + 100;
    let names: Vec<String> = ids.clone().map(|id| format!("h{id:03}")).collect();
    let names = names.iter().map(|name| Some(name.as_str()));
    let names: DictionaryArray<Int8Type> = names.collect();
    let ids: Int64Array = ids.map(Some).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(ids)), ("host", Arc::new(names))];
    batch(columns)
}

#[tokio::test(flavor = "multi_thread")]
async fn dictionaries_may_have_more_values_together_than_each_key_counts() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let path = folder.path().join(format!("{file}.parquet"));
        write(&path, &hosts(file * 100));
    }
    for (sql, expected) in [
        (
            "SELECT count(*), count(DISTINCT host), min(host), max(host) FROM t",
            "300|300|h000|h299",
        ),
        (
            "SELECT count(*), sum(n) FROM (SELECT host, count(*) n FROM t GROUP BY host)",
            "300|300",
        ),
        (
            "SELECT cardinality(array_agg(host ORDER BY id)) FROM t",
            "300",
        ),
        (
            "SELECT (array_agg(host ORDER BY id DESC))[1] FROM t",
            "h299",
        ),
        ("SELECT id FROM t WHERE host = 'h250'", "250"),
        (
            "SELECT host, id FROM t ORDER BY host DESC, id LIMIT 1 OFFSET 150",
            "h149|149",
        ),
        (
            "SELECT count(*), max(earlier) FROM \
             (SELECT lag(host) OVER (ORDER BY id) AS earlier FROM t) WHERE earlier < 'h900'",
            "299|h298",
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT ON (id / 2) host FROM t ORDER BY id / 2, id)",
            "150",
        ),
        (
            "SELECT count(*) FROM t AS a JOIN t AS b ON a.host = b.host",
            "300",
        ),
    ] {
        assert_eq!(one(folder.path(), sql).await, expected, "{sql}");
    }
    let session = open(folder.path()).await;
    run(&session, "CREATE TABLE own AS SELECT * FROM t")
        .await
        .unwrap();
    let grouped = "SELECT count(*) FROM (SELECT host FROM own GROUP BY host)";
    assert_eq!(run(&session, grouped).await.unwrap(), ["300"]);
    // The rows of an INSERT are one file, whatever the keys of the others.
    run(&session, "INSERT INTO t SELECT id, host || 'x' FROM t")
        .await
        .unwrap();
    let counts = "SELECT count(*), count(DISTINCT host), max(host) FROM t";
    assert_eq!(one(folder.path(), counts).await, "600|600|h299x");
}

/// The row groups of one file have dictionaries of their own.
#[tokio::test(flavor = "multi_thread")]
async fn dictionaries_of_one_file_may_have_more_values_than_a_key_counts() {
    let folder = tempfile::tempdir().unwrap();
    let batches = [hosts(0), hosts(100)];
    let path = folder.path().join("0.parquet");
    common::write(&path, batches[0].schema(), &batches, 100);
    let session = open(folder.path()).await;
    for (sql, expected) in [
        (
            "SELECT arrow_typeof(host) FROM t LIMIT 1",
            "Dictionary(Int32, Utf8)",
        ),
        (
            "SELECT count(*), count(DISTINCT host), max(host) FROM t",
            "200|200|h199",
        ),
        ("SELECT id FROM t WHERE host = 'h150'", "150"),
    ] {
        assert_eq!(run(&session, sql).await.unwrap(), [expected], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn types_without_a_wider_type_name_file_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let number = batch(vec![
        ("k", Arc::new(Int64Array::from(vec![1]))),
        ("c", Arc::new(Int64Array::from(vec![1]))),
    ]);
    let text = batch(vec![("c", Arc::new(StringArray::from(vec!["x"])))]);
    write(&folder.path().join("0.parquet"), &number);
    write(&folder.path().join("1.parquet"), &text);
    let session = common::session(common::config(), &[]).await;
    let refused = session
        .register("t", folder.path().to_str().unwrap())
        .await
        .unwrap_err();
    let refused = refused.to_string();
    for part in ["1.parquet", "\"c\"", "Utf8", "Int64"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_columns_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let one = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let schema = common::schema(vec![
        arrow::datatypes::Field::new("a", arrow::datatypes::DataType::Int64, true),
        arrow::datatypes::Field::new("a", arrow::datatypes::DataType::Int64, true),
    ]);
    let rows = RecordBatch::try_new(schema, vec![Arc::clone(&one), one]).unwrap();
    write(&folder.path().join("0.parquet"), &rows);
    let session = common::session(common::config(), &[]).await;
    let refused = session
        .register("t", folder.path().to_str().unwrap())
        .await
        .unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("0.parquet") && refused.contains("two columns named \"a\""),
        "{refused}"
    );
}

/// A value of one file may not fit into the table's wider type.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_a_finer_unit_cannot_hold_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let coarse = batch(vec![(
        "at",
        Arc::new(TimestampMillisecondArray::from(vec![253_402_214_400_000])),
    )]);
    let fine = arrow::array::TimestampNanosecondArray::from(vec![1]);
    write(&folder.path().join("0.parquet"), &coarse);
    write(
        &folder.path().join("1.parquet"),
        &batch(vec![("at", Arc::new(fine))]),
    );
    for session in [open(folder.path()).await, open_small(folder.path()).await] {
        for sql in [
            "SELECT at FROM t",
            "SELECT max(at) FROM t",
            "SELECT count(*) FROM t WHERE at > '2020-01-01'",
        ] {
            let answer = run(&session, sql).await;
            let right = answer.as_ref().is_ok_and(|rows| rows == &["1"]);
            assert!(answer.is_err() || right, "{sql}: {answer:?}");
        }
    }
}

/// A text that the file calls JSON is `json`: it has the functions of that type, and cannot be
/// compared.
#[tokio::test(flavor = "multi_thread")]
async fn json_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let schema = parse_message_type("message m { optional binary doc (JSON); }").unwrap();
    let file = fs::File::create(folder.path().join("0.parquet")).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let docs = ["{\"a\": 1}", "[1, 2]"].map(ByteArray::from);
    let typed = column.typed::<ByteArrayType>();
    typed.write_batch(&docs, Some(&[1, 0, 1]), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let sql = "SELECT count(*), max(json_typeof(doc)), max(pg_typeof(doc)) FROM t";
    assert_eq!(one(folder.path(), sql).await, "3|object|json");
    let session = open(folder.path()).await;
    let compared = session.sql("SELECT count(*) FROM t WHERE doc = doc").await;
    let text = compared.err().unwrap().to_string();
    assert!(
        text.contains("operator does not exist: json = json"),
        "{text}"
    );
}
