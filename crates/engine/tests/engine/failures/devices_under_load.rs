//! Promised: with many queries at once, a device that disappears makes only those queries fail
//! that need data it did not deliver, with its name. A device that is a hundred times slower than
//! the others gets requests from the first moment. Rows are right with more devices than workers
//! and with more workers than devices, and no worker is left when queries have ended.

use std::io::ErrorKind;
use std::time::Duration;

use coscan::{EngineConfig, Session};
use coscan_storage::device::{Fault, Rule, When};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::future::join_all;

use crate::common::{collect, config, loads_end, plain_rows, rows, session};
use crate::tables::{QUERIES, devices, places, three, with_faulty, write};

/// A query that needs all devices; a different statement for each number.
fn needs_all(number: usize) -> String {
    format!(
        "SELECT count(x), min(k) FROM t WHERE x % 2 < {}",
        number + 2
    )
}

/// A query that needs nothing from the second device.
fn spares_it(number: usize) -> String {
    format!("{} AND (k < 20000 OR k >= 3000000)", needs_all(number))
}

async fn outcome(session: &Session, sql: String) -> Result<Vec<String>, String> {
    let stream = session.sql(&sql).await.expect("planned");
    collect(stream).await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_disappears_under_load_fails_the_queries_that_need_it_and_comes_back() {
    let folder = three();
    let (session, device) = with_faulty(folder.path()).await;
    // A few reads are answered, but so late that all queries are running by then.
    device.add(Rule {
        when: When::Always,
        fault: Fault::Stall(Duration::from_millis(20)),
        times: 4,
    });
    device.add(Rule::new(
        When::Always,
        Fault::Error(ErrorKind::NotConnected),
    ));
    let needing = join_all((0..6).map(|number| outcome(&session, needs_all(number))));
    let spared = join_all((0..6).map(|number| outcome(&session, spares_it(number))));
    let (needing, spared) = tokio::join!(needing, spared);
    for outcome in needing {
        let text = outcome.expect_err("the device is gone");
        assert!(
            text.contains("(device b)") && text.contains("/b/"),
            "{text}"
        );
    }
    for outcome in spared {
        assert_eq!(outcome, Ok(vec!["40000|0".to_owned()]));
    }
    device.heal();
    loads_end(session.engine()).await;
    let again = join_all((0..6).map(|number| outcome(&session, needs_all(number)))).await;
    for outcome in again {
        assert_eq!(outcome, Ok(vec!["80000|0".to_owned()]), "it is back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_a_hundred_times_slower_gets_requests_from_the_first_moment() {
    let folder = three();
    let rate = 20_000_000;
    let limits = [
        ("a", Some(rate)),
        ("b", Some(rate / 100)),
        ("c", Some(rate)),
    ];
    let session = session(
        EngineConfig {
            chunk_bytes: 16 << 10,
            devices: devices(folder.path(), &limits),
            record_trace: true,
            ..config()
        },
        &[],
    )
    .await;
    let all = places(folder.path(), &["a", "b", "c"]);
    session.register("t", &all).await.expect("registered");
    assert_eq!(rows(&session, &needs_all(0)).await, ["80000|0"]);
    let loads = session.engine().trace();
    // Four files with equally many chunks; the second and the third are on the slow device.
    let chunks = 1 + loads.iter().map(|load| load.chunk).max().expect("loads");
    let is_slow = |chunk: u32| (1..3).contains(&(chunk * 4 / chunks));
    let per_device = EngineConfig::default().loads_max;
    let first = &loads[..3 * per_device];
    let slow = first.iter().filter(|load| is_slow(load.chunk));
    assert_eq!(slow.count(), per_device, "{first:?}");
    let last = loads.last().expect("loads");
    assert!(
        is_slow(last.chunk),
        "the others were not held up: {loads:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_and_workers_may_be_few_or_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let names: Vec<String> = (0..12).map(|number| format!("d{number:02}")).collect();
    for (number, name) in (0_i64..).zip(&names) {
        write(
            &folder.path().join(name).join("1.parquet"),
            number * 250_000,
        );
    }
    // (devices, partitions, threads that decode, parallelism, MiB of memory)
    for (count, partitions, decode_threads, parallelism, memory) in [
        (12, 1, 1, None, 512),
        (12, 2, 1, Some(3), 512),
        // Memory for the chunks of one worker.
        (12, 2, 2, None, 96),
        (2, 16, 4, None, 512),
        (2, 8, 4, Some(8), 512),
    ] {
        let about = format!("{count} {partitions} {decode_threads} {parallelism:?} {memory}");
        let names: Vec<&str> = names[..count].iter().map(String::as_str).collect();
        let limits: Vec<(&str, Option<u64>)> = names.iter().map(|name| (*name, None)).collect();
        let session = session(
            EngineConfig {
                chunk_bytes: 16 << 10,
                memory_bytes: Some(memory << 20),
                target_partitions: Some(partitions),
                decode_threads: Some(decode_threads),
                parallelism,
                devices: devices(folder.path(), &limits),
                ..config()
            },
            &[],
        )
        .await;
        let all = places(folder.path(), &names);
        session.register("t", &all).await.expect("registered");
        let plain = SessionContext::new();
        let paths = names.iter().map(|name| folder.path().join(name).join(""));
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        let frame = plain.read_parquet(paths, ParquetReadOptions::default());
        let view = frame.await.expect("read").into_view();
        plain.register_table("t", view).expect("registered");
        let asked = QUERIES.iter().cycle().take(2 * QUERIES.len());
        let answers = join_all(asked.clone().map(|sql| rows(&session, sql))).await;
        for (sql, answer) in asked.zip(answers) {
            assert_eq!(answer, plain_rows(&plain, sql).await, "{about}: {sql}");
        }
        let sql = "SELECT count(*), min(bytes) > 0, max(queue_depth), max(workers) \
                   FROM coscan.devices";
        // A worker that has read the last chunk may end some time after the rows have arrived.
        let expected = [format!("{count}|true|0|0")];
        let mut left = rows(&session, sql).await;
        for _ in 0..500 {
            if left == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            left = rows(&session, sql).await;
        }
        assert_eq!(left, expected, "{about}");
    }
}
