//! Promised: for every type of column that a writer has, rows are the same after an INSERT, a COPY
//! and a CREATE TABLE AS, each followed by a restart, whichever program reads them.
//!
//! The files are committed (`tests/data/writers/make.py` makes them). In the ignored test, other
//! programs read Coscan's files; it needs a Python with duckdb and pyarrow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{files, open, open_small, run, types};
use crate::common::rows_in_order;

/// The columns that all writers have.
const COLUMNS: &str = "k, flag, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, price, wide, word, \
                       raw, day, tod, at, at_ms, at_ns, atz, kind, numbers, words, pair";

/// The values of these columns, row by row.
const ROWS: [&str; 3] = [
    "1|true|1|1|1|1|1|1|1|1|0.5|0.25|12.50|0.0001|word|6162|2024-02-29|01:02:03.000004|\
     2024-02-29T12:34:56.789|2024-02-29T12:34:56.789|2024-02-29T12:34:56.789|\
     2024-02-29T12:34:56.789Z|a|[1, NULL, 3]|[a, b c]|{n: 1, s: x}",
    "2|false|-128|-32768|-2147483648|-9223372036854775808|255|65535|4294967295|\
     18446744073709551615|-inf|NaN|-9999999999.99|1000000000000000000000000000000000.0000|\
     é\t\"'\\|00ff|9999-12-31|23:59:59.999999|9999-12-31T00:00:00|0001-01-01T00:00:00|\
     1900-01-01T00:00:00|9999-12-31T00:00:00Z|b|[]|[NULL]|{n: NULL, s: }",
    "3|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|\
     NULL|NULL|NULL|NULL|NULL|NULL|NULL",
];

const WRITERS: [&str; 3] = ["duckdb", "pyarrow", "polars"];

fn data() -> PathBuf {
    PathBuf::from("tests/data/writers")
}

/// A table's folder with one file of a writer.
fn table_of(writer: &str, root: &Path) -> PathBuf {
    let folder = root.join(writer);
    fs::create_dir_all(&folder).unwrap();
    fs::copy(
        data().join(format!("{writer}.parquet")),
        folder.join("0.parquet"),
    )
    .unwrap();
    folder
}

/// Checks with both readers that, after a restart, the table has each row this many times.
async fn has_rows(folder: &Path, times: usize, context: &str) {
    let expected: Vec<&str> = ROWS.iter().flat_map(|row| vec![*row; times]).collect();
    for session in [open(folder).await, open_small(folder).await] {
        let sql = format!("SELECT {COLUMNS} FROM t ORDER BY k");
        assert_eq!(rows_in_order(&session, &sql).await, expected, "{context}");
        let one = "SELECT count(*) FROM t WHERE i64 = 1 AND u64 = 1 AND word = 'word' AND kind = 'a' \
                   AND day = date '2024-02-29' AND price = 12.5 AND flag AND f64 = 0.25";
        assert_eq!(
            rows_in_order(&session, one).await,
            [times.to_string()],
            "{context}"
        );
        let all = "SELECT count(*), count(i8), count(word), count(raw), count(numbers), count(pair), \
                   min(i64), max(u64), min(word), max(day), min(at_ms), max(atz) FROM t";
        let expected = format!(
            "{0}|{1}|{1}|{1}|{1}|{1}|-9223372036854775808|18446744073709551615|word|9999-12-31|\
             0001-01-01T00:00:00|9999-12-31T00:00:00Z",
            3 * times,
            2 * times,
        );
        assert_eq!(rows_in_order(&session, all).await, [expected], "{context}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_the_same_after_every_statement_and_a_restart() {
    let root = tempfile::tempdir().unwrap();
    for writer in WRITERS {
        let folder = table_of(writer, root.path());
        has_rows(&folder, 1, writer).await;

        let session = open(&folder).await;
        run(&session, "INSERT INTO t SELECT * FROM t")
            .await
            .unwrap();
        has_rows(&folder, 2, &format!("{writer}, INSERT")).await;

        let session = open(&folder).await;
        run(&session, "CREATE TABLE c AS SELECT * FROM t")
            .await
            .unwrap();
        run(&session, "INSERT INTO t SELECT * FROM c")
            .await
            .unwrap();
        has_rows(&folder, 4, &format!("{writer}, CREATE TABLE AS and INSERT")).await;
        let all = files(&folder);
        assert_eq!(all.len(), 3, "{writer}");
        for file in &all {
            assert_eq!(types(file), types(&folder.join("0.parquet")), "{writer}");
        }

        let copy = root.path().join(format!("{writer}-copy"));
        fs::create_dir(&copy).unwrap();
        let target = copy.join("0.parquet");
        let session = open(&folder).await;
        let sql = format!(
            "COPY (SELECT * FROM t) TO '{}' STORED AS PARQUET",
            target.display()
        );
        run(&session, &sql).await.unwrap();
        has_rows(&copy, 4, &format!("{writer}, COPY")).await;
        let views = types(&target).iter().any(|stored| stored.contains("View"));
        assert!(!views, "{writer}: {:?}", types(&target));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_several_writers_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    for writer in WRITERS {
        let from = data().join(format!("{writer}.parquet"));
        fs::copy(from, folder.path().join(format!("{writer}.parquet"))).unwrap();
    }
    for session in [open(folder.path()).await, open_small(folder.path()).await] {
        let sql = "SELECT count(*), count(DISTINCT i64), count(word), count(kind), max(at_ns), \
                   min(i8), count(id) FROM t";
        let found = rows_in_order(&session, sql).await;
        assert_eq!(found, ["9|2|6|6|2024-02-29T12:34:56.789|-128|2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_one_writer_has() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(
        data().join("duckdb-interval.parquet"),
        folder.path().join("0.parquet"),
    )
    .unwrap();
    for session in [open(folder.path()).await, open_small(folder.path()).await] {
        let found = rows_in_order(&session, "SELECT k, span FROM t ORDER BY k").await;
        assert_eq!(
            found,
            ["1|14 mons 3 days 4.500000000 secs", "2|1200 mons", "3|NULL"]
        );
    }
    let folder = table_of("duckdb", folder.path());
    for session in [open(&folder).await, open_small(&folder).await] {
        let table = session.context().table("t").await.unwrap();
        let id = table.schema().field_with_unqualified_name("id").unwrap();
        assert_eq!(
            id.metadata().get("ARROW:extension:name").unwrap(),
            "arrow.uuid"
        );
        let found = rows_in_order(&session, "SELECT id, names FROM t ORDER BY k").await;
        let expected = [
            "0b9f1f6a-8f0e-4c5b-9d1a-3c2f1e0d9c8b|{a: 1}",
            "ffffffff-ffff-ffff-ffff-ffffffffffff|{}",
            "NULL|NULL",
        ];
        assert_eq!(found, expected);
        let one = "SELECT count(*) FROM t WHERE id = '0B9F1F6A-8F0E-4C5B-9D1A-3C2F1E0D9C8B'";
        assert_eq!(rows_in_order(&session, one).await, ["1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_arrow_does_not_have_is_an_error_of_its_column() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(
        data().join("polars-int128.parquet"),
        folder.path().join("0.parquet"),
    )
    .unwrap();
    for session in [open(folder.path()).await, open_small(folder.path()).await] {
        assert_eq!(rows_in_order(&session, "SELECT k FROM t").await, ["1"]);
        let refused = run(&session, "SELECT huge FROM t")
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("huge"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Python with duckdb and pyarrow: COSCAN_PYTHON"]
async fn other_programs_read_coscans_files() {
    let python = std::env::var("COSCAN_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let root = tempfile::tempdir().unwrap();
    for writer in WRITERS {
        let folder = table_of(writer, root.path());
        let session = open(&folder).await;
        run(&session, "INSERT INTO t SELECT * FROM t")
            .await
            .unwrap();
        let copy = root.path().join(format!("{writer}-copy"));
        fs::create_dir(&copy).unwrap();
        let target = copy.join("0.parquet").display().to_string();
        let sql = format!("COPY (SELECT * FROM t) TO '{target}' STORED AS PARQUET");
        run(&session, &sql).await.unwrap();
        for folder in [&folder, &copy] {
            let checked = Command::new(&python)
                .arg(data().join("check.py"))
                .arg(folder)
                .output();
            let checked = checked.unwrap();
            let text = String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{}: {text}", folder.display());
        }
    }
}
