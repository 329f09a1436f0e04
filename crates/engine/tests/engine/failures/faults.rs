//! Promised: a device that fails, delivers too little or does not answer makes only the queries
//! fail that need data it did not deliver, with an error that names the file, the row group and
//! the column. Other queries get their rows, and once the device works again, the failed queries
//! do, too.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::{Engine, EngineConfig, Policy, Session, StorageError, StorageModel, storage_error};
use coscan_storage::device::{
    Fault, Faulty, LocalDevice, LocalOptions, ObjectDevice, ObjectOptions, Rule, When,
};
use datafusion::error::DataFusionError;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use url::Url;

use crate::common::{self, collect, config, rows};

const ROWS: i64 = 20_000;

fn write(path: &Path, from: i64) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("x", DataType::Int64, false),
    ]);
    let keys = || from..from + ROWS;
    let scrambled = keys().map(|k| k.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(keys())),
            Arc::new(Int64Array::from_iter_values(scrambled)),
        ],
    );
    common::write(path, schema, &[batch.expect("a batch")], 2000);
}

/// Two files behind a device with configurable faults, and a session that knows their footers.
struct World {
    folder: tempfile::TempDir,
    device: Arc<Faulty>,
    session: Session,
}

/// A query that needs the second file.
const STRUCK: &str = "SELECT count(x), min(k) FROM t WHERE x % 2 < 2";
/// A query that needs only the first file.
const SPARED: &str = "SELECT count(x), min(k) FROM t WHERE x % 2 < 2 AND k < 20000";

impl World {
    async fn new(policy: Policy, model: StorageModel) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder.path().join("a.parquet"), 0);
        write(&folder.path().join("b.parquet"), 1_000_000);
        let device = LocalDevice::open(folder.path(), &LocalOptions::default());
        let device = Faulty::new(Arc::new(device.expect("a device")), Vec::new());
        let device = Arc::new(device);
        let engine = Engine::new(EngineConfig {
            policy,
            model,
            chunk_bytes: 16 << 10,
            ..config()
        });
        let engine = engine.expect("an engine");
        let url = format!("file://{}", folder.path().display());
        let device_id = engine.devices().register(&url, Arc::clone(&device) as _);
        device_id.expect("registered");
        let session = engine.session();
        let path = folder.path().join("");
        let table = session.register("t", path.to_str().expect("UTF-8")).await;
        table.expect("registered");
        // Opens the files. The statistics prove that all rows count, so nothing else is read.
        let all = rows(&session, "SELECT count(*) FROM t WHERE k >= 0").await;
        assert_eq!(all, ["40000"]);
        Self {
            folder,
            device,
            session,
        }
    }

    /// From now on, reads of the second file fail.
    fn strike(&self, fault: Fault, times: u64) {
        let file = self.folder.path().join("b.parquet");
        let file = object_store::path::Path::from_absolute_path(file).expect("a path");
        self.device.add(Rule {
            when: When::File(file),
            fault,
            times,
        });
    }

    async fn spared(&self) {
        assert_eq!(rows(&self.session, SPARED).await, [format!("{ROWS}|0")]);
    }

    /// Waits until no scan is left: the scans of cancelled streams end with their tasks.
    async fn ended(&self) {
        let ended = async {
            let engine = self.session.engine();
            while engine.snapshots().iter().any(|pool| !pool.scans.is_empty()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
        ended.expect("the scans ended");
    }
}

async fn failure(session: &Session, sql: &str) -> DataFusionError {
    let stream = session.sql(sql).await.expect("planned");
    collect(stream).await.expect_err(sql)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_and_short_reads_fail_the_queries_that_need_the_bytes() {
    for (policy, model) in [
        (Policy::Relevance, StorageModel::Dsm),
        (Policy::Normal, StorageModel::Nsm),
        (Policy::Elevator, StorageModel::Dsm),
    ] {
        for fault in [Fault::Error(io::ErrorKind::Other), Fault::ShortRead(100)] {
            let about = format!("{policy:?} {model:?} {fault:?}");
            let world = World::new(policy, model).await;
            world.strike(fault, u64::MAX);
            let (error, again, (), ()) = tokio::join!(
                failure(&world.session, STRUCK),
                failure(&world.session, STRUCK),
                world.spared(),
                world.spared(),
            );
            for error in [error, again] {
                let text = error.to_string();
                assert!(text.contains("b.parquet"), "{about}: {text}");
                let Some(StorageError::Unread { column, reason, .. }) = storage_error(&error)
                else {
                    panic!("{about}: {text}")
                };
                assert!(["k", "x"].contains(&column.as_str()), "{about}: {text}");
                assert!(
                    matches!(
                        **reason,
                        StorageError::Read { .. } | StorageError::ShortRead { .. }
                    ),
                    "{about}: {text}"
                );
            }
            assert!(world.device.struck() > 0, "{about}");
            world.ended().await;
            world.device.heal();
            common::loads_end(world.session.engine()).await;
            let all = rows(&world.session, STRUCK).await;
            assert_eq!(all, [format!("{}|0", 2 * ROWS)], "{about}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_delays_the_queries_that_need_the_bytes() {
    let world = World::new(Policy::Relevance, StorageModel::Dsm).await;
    world.strike(Fault::Held, 1);
    let late = world.session.sql(STRUCK).await.expect("planned");
    let mut late = std::pin::pin!(collect(late));
    tokio::select! {
        biased;
        _ = &mut late => panic!("did not wait for the device"),
        () = async {
            while world.device.struck() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            world.spared().await;
        } => {}
    }
    world.device.heal();
    assert_eq!(late.await.expect("rows"), [format!("{}|0", 2 * ROWS)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_on_a_device_that_hangs_can_be_dropped() {
    let world = World::new(Policy::Relevance, StorageModel::Dsm).await;
    world.strike(Fault::Hang, u64::MAX);
    let hung = world.session.sql(STRUCK).await.expect("planned");
    let hung = tokio::spawn(collect(hung));
    while world.device.struck() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.spared().await;
    assert!(!hung.is_finished());
    hung.abort();
    assert!(hung.await.expect_err("dropped").is_cancelled());
    world.ended().await;
    world.spared().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_is_given_up_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.parquet");
    write(&path, 0);
    let store = ThrottledStore::new(InMemory::new(), ThrottleConfig::default());
    let bytes = std::fs::read(&path).expect("read");
    let object = object_store::path::Path::from("t/a.parquet");
    store.put(&object, bytes.into()).await.expect("put");
    let store = Arc::new(store);
    let engine = Engine::new(config()).expect("an engine");
    let url = Url::parse("mem://bucket").expect("a URL");
    engine
        .runtime()
        .register_object_store(&url, Arc::clone(&store) as _);
    let hasty = ObjectOptions {
        request_timeout: Duration::from_secs(1),
        attempts_max: 2,
        backoff_min: Duration::from_millis(1),
        ..ObjectOptions::default()
    };
    let device = ObjectDevice::new("mem://bucket", Arc::clone(&store) as _, hasty);
    let device = engine.devices().register("mem://bucket", Arc::new(device));
    device.expect("registered");
    let session = engine.session();
    session
        .register("t", "mem://bucket/t/")
        .await
        .expect("registered");
    let opened = rows(&session, "SELECT count(*) FROM t WHERE k >= 0").await;
    assert_eq!(opened, ["20000"]);

    let sql = "SELECT count(x) FROM t WHERE x % 2 < 2";
    let slow = |slow| store.config_mut(|config| config.wait_get_per_call = slow);
    slow(Duration::from_secs(60));
    let error = failure(&session, sql).await;
    let Some(StorageError::Unread { column, reason, .. }) = storage_error(&error) else {
        panic!("{error}")
    };
    assert_eq!(column, "x");
    assert!(
        matches!(&**reason, StorageError::TimedOut { file, .. } if file == "mem://bucket/t/a.parquet"),
        "{error}"
    );
    slow(Duration::ZERO);
    // Reads that began earlier may still be running, and fail every query that joins them.
    common::loads_end(&engine).await;
    assert_eq!(rows(&session, sql).await, [format!("{ROWS}")]);
}
