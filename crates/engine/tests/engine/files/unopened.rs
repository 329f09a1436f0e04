//! Promised: a table that cannot be opened is an error of the statements that use it, until its
//! files are repaired; other tables work.

use std::fs;
use std::sync::Arc;

use arrow::array::Int64Array;

use super::{batch, run, write};
use crate::common::{self, rows};

#[tokio::test(flavor = "multi_thread")]
async fn other_tables_work_and_it_is_opened_once_it_can_be() {
    let root = tempfile::tempdir().unwrap();
    let (fine, bad) = (root.path().join("fine"), root.path().join("bad"));
    let row = batch(vec![("a", Arc::new(Int64Array::from(vec![1])))]);
    write(&fine.join("0.parquet"), &row);
    fs::create_dir(&bad).unwrap();
    fs::write(bad.join("0.parquet"), b"PAR1 not really PAR1").unwrap();
    let session = common::session(common::config(), &[]).await;
    for (name, path) in [("fine", &fine), ("bad", &bad)] {
        let error = session.declare(name, path.to_str().unwrap()).await;
        assert_eq!(error.is_some(), name == "bad", "{error:?}");
    }
    let other = session.engine().session();
    for session in [&session, &other] {
        for sql in [
            "SELECT * FROM bad",
            "SELECT * FROM fine JOIN bad USING (a)",
            "INSERT INTO bad VALUES (1)",
        ] {
            let refused = run(session, sql).await.unwrap_err().to_string();
            assert!(refused.contains("bad/0.parquet"), "{sql}: {refused}");
        }
        assert_eq!(rows(session, "SELECT a FROM fine").await, ["1"]);
        let names =
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
        assert_eq!(rows(session, names).await, ["fine"]);
    }
    write(&bad.join("0.parquet"), &row);
    assert_eq!(rows(&other, "SELECT a FROM bad").await, ["1"]);
    assert_eq!(rows(&session, "SELECT a FROM bad").await, ["1"]);
}
