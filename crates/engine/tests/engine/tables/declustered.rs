//! Promised: files in several places are one table, whose rows are plain DataFusion's over all of
//! them. Places that do not fit together are refused by name. Each device has its own queue and
//! meters, and is identified by its number or by configuration. A device that fails makes only the
//! queries that need it fail, with its name; a slow device slows down no other device.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::{Engine, EngineConfig, NamedDevice, Policy, Session, StorageModel, Throttle};
use coscan_storage::device::{Fault, Faulty, LocalDevice, LocalOptions, Rule, When};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tempfile::TempDir;

use crate::common::{self, collect, config, plain_rows, rows, session};

const ROWS: i64 = 20_000;

/// Writes a file of several row groups, whose keys begin at `from`.
pub(crate) fn write(path: &Path, from: i64) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("x", DataType::Int64, false),
    ]);
    let keys = || from..from + ROWS;
    let scrambled = keys().map(|k| k.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys())),
        Arc::new(Int64Array::from_iter_values(scrambled)),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    common::write(path, schema, &[batch], 2000);
}

/// Three folders with one or two files each.
pub(crate) fn three() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("a/1.parquet"), 0);
    write(&folder.path().join("b/1.parquet"), 1_000_000);
    write(&folder.path().join("b/2.parquet"), 2_000_000);
    write(&folder.path().join("c/1.parquet"), 3_000_000);
    folder
}

pub(crate) fn places(folder: &Path, names: &[&str]) -> String {
    let places = names
        .iter()
        .map(|name| folder.join(name).display().to_string());
    places.collect::<Vec<_>>().join(",")
}

/// Devices named as the folders, each limited to its given rate.
pub(crate) fn devices(folder: &Path, names: &[(&str, Option<u64>)]) -> Vec<NamedDevice> {
    let device = |(name, rate): &(&str, Option<u64>)| NamedDevice {
        name: (*name).to_owned(),
        path: folder.join(name),
        throttle: rate.map(|bytes_per_second| Throttle {
            bytes_per_second,
            latency: Duration::ZERO,
        }),
    };
    names.iter().map(device).collect()
}

pub(crate) const QUERIES: [&str; 4] = [
    "SELECT count(*), sum(k), min(x), max(x) FROM t",
    "SELECT k % 7, count(*), sum(x % 1000) FROM t WHERE x % 3 <> 1 GROUP BY 1",
    "SELECT k, x FROM t WHERE k BETWEEN 1019000 AND 2000100 ORDER BY k LIMIT 5000",
    "SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.k < 5000 OR b.k > 3019000",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_places_are_one_table() {
    let folder = three();
    let plain = SessionContext::new();
    let all = ["a", "b", "c"].map(|name| folder.path().join(name).display().to_string() + "/");
    let frame = plain.read_parquet(all.to_vec(), ParquetReadOptions::default());
    let view = frame.await.expect("read").into_view();
    plain.register_table("t", view).expect("registered");
    for policy in [Policy::Relevance, Policy::Elevator, Policy::Normal] {
        for model in [StorageModel::Dsm, StorageModel::Nsm] {
            for parallelism in [None, Some(1), Some(2)] {
                let session = session(
                    EngineConfig {
                        policy,
                        model,
                        parallelism,
                        chunk_bytes: 16 << 10,
                        devices: devices(folder.path(), &[("a", None), ("b", None), ("c", None)]),
                        ..config()
                    },
                    &[],
                )
                .await;
                let places = places(folder.path(), &["a", "b", "c"]);
                session.register("t", &places).await.expect("registered");
                for sql in QUERIES {
                    let about = format!("{policy} {model} {parallelism:?} {sql}");
                    assert_eq!(
                        rows(&session, sql).await,
                        plain_rows(&plain, sql).await,
                        "{about}"
                    );
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_table_has_several_places_too() {
    let folder = three();
    let session = session(config(), &[]).await;
    let at = |name: &str| folder.path().join(name).join("").display().to_string();
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION ('{}', '{}')",
        at("a"),
        at("b")
    );
    rows(&session, &sql).await;
    assert_eq!(
        rows(&session, "SELECT count(*), max(k) FROM t").await,
        ["60000|2019999"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_that_do_not_fit_together_are_refused_by_name() {
    let folder = three();
    let other = folder.path().join("d/2.parquet");
    let schema = common::schema(vec![
        Field::new("k", DataType::Int32, false),
        Field::new("x", DataType::Int64, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1])),
        Arc::new(Int64Array::from(vec![1])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    std::fs::create_dir(other.parent().expect("a folder")).expect("made");
    common::write(&other, schema, &[batch], 10);
    let session = session(config(), &[]).await;
    let refused = async |text: &str| {
        let refused = session.register("t", text).await;
        refused.expect_err(text).to_string()
    };
    let text = refused(&places(folder.path(), &["a", "b", "d"])).await;
    let (ours, theirs) = (folder.path().join("a/1.parquet"), other);
    assert!(text.contains(&ours.display().to_string()), "{text}");
    assert!(text.contains(&theirs.display().to_string()), "{text}");
    assert!(text.contains("k is Int64 and Int32"), "{text}");
    let text = refused(&places(folder.path(), &["a", "nowhere"])).await;
    assert!(
        text.contains("nowhere") && text.contains("no such file"),
        "{text}"
    );
    std::fs::create_dir_all(folder.path().join("e/p=1")).expect("made");
    std::fs::copy(&ours, folder.path().join("e/p=1/1.parquet")).expect("copied");
    let text = refused(&places(folder.path(), &["a", "e"])).await;
    assert!(text.contains("key=value"), "{text}");
    let text = refused(&format!("{},ftp://b/t", folder.path().join("a").display())).await;
    assert!(text.contains("ftp://b"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_device_has_its_meters_and_a_number_identifies_disks() {
    let folder = three();
    let mut named = devices(folder.path(), &[("a", None), ("b", None)]);
    named.push(NamedDevice {
        name: "b".to_owned(),
        path: folder.path().join("c"),
        throttle: None,
    });
    let on_devices = EngineConfig {
        devices: named,
        chunk_bytes: 16 << 10,
        ..config()
    };
    for (config, names) in [(on_devices, vec!["a", "b"]), (config(), vec![""])] {
        let session = session(config, &[]).await;
        let all = places(folder.path(), &["a", "b", "c"]);
        session.register("t", &all).await.expect("registered");
        let sql = "SELECT count(*) FROM t WHERE x % 2 < 2";
        assert_eq!(rows(&session, sql).await, ["80000"]);
        let sql = "SELECT name, paths, bytes > 0, requests > 0, utilisation > 0, queue_depth, \
                   workers FROM coscan.devices ORDER BY name";
        // A worker that has read the last chunk may end some time after the rows have arrived.
        let mut found = rows(&session, sql).await;
        for _ in 0..100 {
            if found.iter().all(|row| row.ends_with("|0|0")) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            found = rows(&session, sql).await;
        }
        let rows = found;
        assert_eq!(rows.len(), names.len(), "{rows:?}");
        for (row, name) in rows.iter().zip(names) {
            assert!(row.starts_with(name), "{row}");
            assert!(row.ends_with("|true|true|true|0|0"), "{row}");
        }
        if rows.len() == 2 {
            let paths = places(folder.path(), &["b", "c"]);
            assert!(rows[1].contains(&paths), "{rows:?}");
        }
    }
}

/// `t` is on three devices; the second fails by the rules of the returned `Faulty`.
pub(crate) async fn with_faulty(folder: &Path) -> (Session, Arc<Faulty>) {
    let engine = Engine::new(EngineConfig {
        chunk_bytes: 16 << 10,
        devices: devices(folder, &[("a", None), ("c", None)]),
        ..config()
    });
    let engine = engine.expect("an engine");
    let device = LocalDevice::open(&folder.join("b"), &LocalOptions::default());
    let device = device.expect("a device").called("b");
    let device = Arc::new(Faulty::new(Arc::new(device), Vec::new()));
    let url = format!("file://{}", folder.join("b").display());
    let known = engine.devices().register(&url, Arc::clone(&device) as _);
    known.expect("registered");
    let session = engine.session();
    let all = places(folder, &["a", "b", "c"]);
    session.register("t", &all).await.expect("registered");
    let sql = "SELECT count(*) FROM t WHERE k >= 0";
    assert_eq!(rows(&session, sql).await, ["80000"]);
    (session, device)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_disappears_fails_its_own_queries_and_comes_back() {
    let folder = three();
    let (session, device) = with_faulty(folder.path()).await;
    let needs = "SELECT count(x), min(k) FROM t WHERE x % 2 < 2";
    let spared = "SELECT count(x), min(k) FROM t WHERE x % 2 < 2 AND (k < 20000 OR k >= 3000000)";
    device.add(Rule {
        when: When::Always,
        fault: Fault::Error(std::io::ErrorKind::NotConnected),
        times: 1,
    });
    let struck = async {
        let stream = session.sql(needs).await.expect("planned");
        collect(stream)
            .await
            .expect_err("the device is gone")
            .to_string()
    };
    let (text, of_others) = tokio::join!(struck, rows(&session, spared));
    assert!(
        text.contains("(device b)") && text.contains("/b/"),
        "{text}"
    );
    assert_eq!(of_others, ["40000|0"]);
    assert_eq!(rows(&session, needs).await, ["80000|0"], "it is back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_device_holds_up_only_queries_that_need_it() {
    let folder = three();
    let (session, device) = with_faulty(folder.path()).await;
    session.set("coscan.share_operators", "off").expect("set");
    device.add(Rule::new(When::Always, Fault::Held));
    let slow = {
        let session = session.clone();
        tokio::spawn(async move { rows(&session, "SELECT count(x), sum(x % 5) FROM t").await })
    };
    let is_held = async {
        while device.struck() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let is_held = tokio::time::timeout(Duration::from_secs(60), is_held).await;
    is_held.expect("the query needs the slow device");
    for turn in 0..5 {
        let sql = format!(
            "SELECT count(x) FROM t WHERE k % 2 <> {} AND k < 20000",
            turn + 2
        );
        assert_eq!(rows(&session, &sql).await, ["20000"]);
    }
    assert!(
        !slow.is_finished(),
        "queries of the slow device still wait for it"
    );
    device.heal();
    let slow = slow.await.expect("it ends");
    assert!(slow[0].starts_with("80000|"), "{slow:?}");
}
