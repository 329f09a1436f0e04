//! Promised: a table on S3 is registered by its URL with the credentials of the environment,
//! scanned cooperatively, shared between queries, and read again when an object changes. A missing
//! or forbidden object is an error that names the URL. A table may have places on S3 and on local
//! disks at once.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session};

use crate::common::{self, config, plain, plain_rows, rows, session};
use crate::s3::S3Server;

fn write(path: &Path, from: i64) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    let keys = || from..from + 30_000;
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(keys())),
            Arc::new(StringArray::from_iter_values(
                keys().map(|k| format!("value {}", k * 7919 % 30_011)),
            )),
        ],
    );
    common::write(path, schema, &[batch.expect("a batch")], 3000);
}

/// Set for the child process that does the work: it finds the server by the variables of the AWS
/// tools.
const BUCKET: &str = "COSCAN_TEST_BUCKET";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_on_s3_end_to_end() {
    if let Ok(bucket) = std::env::var(BUCKET) {
        return on_s3(Path::new(&bucket)).await;
    }
    let package = "../storage/tests/s3-server";
    let server = S3Server::start(Path::new(package), &std::env::temp_dir());
    // The environment of a running process cannot be changed safely, so a child process gets it
    // from the start.
    let again = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "tables::object_store::a_table_on_s3_end_to_end",
            "--nocapture",
        ])
        .env(BUCKET, server.bucket())
        .env("AWS_ENDPOINT_URL", server.endpoint())
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test-secret")
        .env("AWS_REGION", "us-east-1")
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&again.stdout) + String::from_utf8_lossy(&again.stderr);
    assert!(
        again.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

async fn on_s3(bucket: &Path) {
    let folder = bucket.join("table");
    fs::create_dir(&folder).expect("a folder");
    write(&folder.join("0.parquet"), 0);
    write(&folder.join("1.parquet"), 30_000);
    let small = EngineConfig {
        chunk_bytes: 32 << 10,
        ..config()
    };
    let session: Session = session(small, &[("t", Path::new("s3://bucket/table/"))]).await;
    let local = plain(&[("t", &folder.join(""))]).await;
    let plan = session
        .explain("SELECT s FROM t WHERE k > 7")
        .await
        .expect("a plan");
    assert!(plan.contains("CScan"), "{plan}");
    let queries = [
        "SELECT count(*), sum(k), min(s), max(s) FROM t",
        "SELECT count(*), sum(k) FROM t WHERE s LIKE '%7'",
        "SELECT k, s FROM t WHERE k BETWEEN 29990 AND 30010",
        "SELECT count(*), max(s) FROM t WHERE k % 3 = 1",
    ];
    let (a, b, c, d) = tokio::join!(
        rows(&session, queries[0]),
        rows(&session, queries[1]),
        rows(&session, queries[2]),
        rows(&session, queries[3]),
    );
    for (sql, found) in queries.iter().zip([a, b, c, d]) {
        assert_eq!(found, plain_rows(&local, sql).await, "{sql}");
    }
    // Four queries, one read: each file's bytes once, and the footers.
    let bytes: u64 = ["0.parquet", "1.parquet"]
        .iter()
        .map(|name| fs::metadata(folder.join(name)).expect("there").len())
        .sum();
    let read = session.engine().metrics().io_bytes;
    assert!(
        read > bytes / 2 && read < bytes * 3 / 2,
        "{read} of {bytes}"
    );
    let devices = rows(&session, "SELECT name FROM coscan.devices WHERE bytes > 0").await;
    assert!(
        devices.iter().any(|name| name.contains("s3://bucket")),
        "{devices:?}"
    );
    // One object is replaced, one is added, one is removed.
    write(&folder.join("1.parquet"), 90_000);
    write(&folder.join("2.parquet"), 300_000);
    let sql = "SELECT count(*), min(k), max(k), count(s) FROM t";
    assert_eq!(rows(&session, sql).await, ["90000|0|329999|90000"]);
    fs::remove_file(folder.join("0.parquet")).expect("removed");
    assert_eq!(rows(&session, sql).await, ["60000|90000|329999|60000"]);
    on_s3_and_a_disk(bucket).await;
    // A missing object, and a missing bucket.
    for url in ["s3://bucket/nothing/", "s3://another/table/"] {
        let error = session.register("u", url).await.expect_err(url);
        assert!(error.to_string().contains(url), "{error}");
    }
}

/// One table of which one place is on S3 and the other on a disk. Chunks are large, so the first
/// session's scans are cooperative; the second session leaves them to DataFusion's reader.
async fn on_s3_and_a_disk(bucket: &Path) {
    let disk = tempfile::tempdir().expect("a folder");
    let (near, far) = (disk.path().join("near"), bucket.join("far"));
    for (folder, from) in [(&near, 0), (&far, 30_000)] {
        fs::create_dir(folder).expect("a folder");
        // The same name on both stores.
        write(&folder.join("1.parquet"), from);
    }
    let places = format!("{},s3://bucket/far/", near.display());
    let local = plain(&[("near", &near.join("")), ("far", &far.join(""))]).await;
    let view = "CREATE VIEW t AS SELECT * FROM near UNION ALL SELECT * FROM far";
    plain_rows(&local, view).await;
    let queries = [
        "SELECT count(*), sum(k), min(s), max(s) FROM t",
        "SELECT k % 7, count(*), min(s) FROM t WHERE s LIKE '%7%' GROUP BY 1",
        "SELECT k, s FROM t WHERE k BETWEEN 29990 AND 30010",
        "SELECT k, s FROM t ORDER BY k DESC LIMIT 20",
    ];
    for small_table_bytes in [0, 1 << 30] {
        let cooperative = small_table_bytes == 0;
        let about = |text: &str| format!("{text}, cooperative: {cooperative}");
        let config = EngineConfig {
            chunk_bytes: 32 << 10,
            small_table_bytes,
            ..config()
        };
        let session = session(config, &[]).await;
        session.register("t", &places).await.expect("registered");
        for sql in queries {
            let expected = plain_rows(&local, sql).await;
            assert_eq!(rows(&session, sql).await, expected, "{}", about(sql));
        }
        let sql = format!(
            "CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION ('{}/', 's3://bucket/far/')",
            near.display()
        );
        rows(&session, &sql).await;
        let sql = "SELECT count(*), min(k), max(k) FROM u";
        assert_eq!(
            rows(&session, sql).await,
            ["60000|0|59999"],
            "{}",
            about(sql)
        );
        if !cooperative {
            continue;
        }
        // Each file was read by the device of its own store.
        let sql = "SELECT count(*) FROM coscan.devices WHERE bytes > 100000";
        assert_eq!(rows(&session, sql).await, ["2"]);
        // The index is kept in the first place, and covers the files of both.
        rows(&session, "CREATE INDEX by_k ON t (k)").await;
        assert!(near.join("_coscan/by_k.index.json").exists());
        let sql = "SELECT k, s FROM t WHERE k IN (7, 30007, 59999)";
        let plan = session.explain(sql).await.expect("a plan");
        assert!(plan.contains("by_k"), "{plan}");
        assert_eq!(rows(&session, sql).await, plain_rows(&local, sql).await);
        // The error for an unreadable file names it as its own store does.
        fs::write(far.join("2.parquet"), "no Parquet").expect("written");
        let error = match session.sql(queries[0]).await {
            Ok(stream) => common::collect(stream)
                .await
                .expect_err("a bad file")
                .to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("s3://bucket/far/2.parquet"), "{error}");
        fs::remove_file(far.join("2.parquet")).expect("removed");
    }
}
