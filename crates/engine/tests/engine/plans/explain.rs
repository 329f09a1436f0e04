//! Promised: EXPLAIN ANALYZE shows for every scan where its chunks came from, what was read and
//! decoded for it, what it got from the work of other scans, and how long it waited. Scans are
//! left to DataFusion's reader only if their data is small on disk and as arrays.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session, Throttle};
use coscan_storage::device::{Fault, Faulty, LocalDevice, LocalOptions, Rule, Throttled, When};

use crate::common::{self, config, rows_in_order, session};

const CHUNKS: u64 = 16;
const GROUP_ROWS: i64 = 4000;

/// The metrics that EXPLAIN ANALYZE shows of a query's scan.
struct Shown(String);

impl Shown {
    async fn of(session: &Session, sql: &str) -> Self {
        let plan = rows_in_order(session, &format!("EXPLAIN ANALYZE {sql}")).await;
        let scan = plan.iter().flat_map(|row| row.lines());
        let scan = scan.filter(|line| line.contains("CScan")).collect();
        Self(scan)
    }

    fn text(&self, name: &str) -> &str {
        let start = self.0.find(&format!("{name}=")).expect(name) + name.len() + 1;
        let end = self.0[start..].find([',', ']']).expect("an end");
        &self.0[start..start + end]
    }

    fn count(&self, name: &str) -> u64 {
        let text = self.text(name);
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        let factor = match unit {
            "" => 1.0,
            "K" => 1e3,
            "M" => 1e6,
            other => panic!("{name}: {other}"),
        };
        (number.parse::<f64>().expect(name) * factor) as u64
    }

    /// Whether a time is at least a millisecond.
    fn is_long(&self, name: &str) -> bool {
        let unit = self
            .text(name)
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        ["ms", "s", "m"].contains(&unit.trim())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_the_share_of_each_of_two_scans() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let schema = common::schema(vec![Field::new("x", DataType::Int64, false)]);
    let rows = CHUNKS as i64 * GROUP_ROWS;
    let values = (0..rows).map(|k| k.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let values = Int64Array::from_iter_values(values);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]);
    common::write(
        &path,
        schema,
        &[batch.expect("a batch")],
        GROUP_ROWS as usize,
    );
    let bytes = std::fs::metadata(&path).expect("there").len();
    let small_chunks = EngineConfig {
        // One chunk per row group.
        chunk_bytes: 16 << 10,
        ..config()
    };
    let session = session(small_chunks, &[]).await;
    let device = LocalDevice::open(folder.path(), &LocalOptions::default()).expect("a device");
    let device = Arc::new(Faulty::new(Arc::new(device), Vec::new()));
    let throttle = Throttle {
        // All chunks take half a second.
        bytes_per_second: bytes * 2,
        latency: Duration::ZERO,
    };
    let slow = Throttled::new(Arc::clone(&device) as _, throttle);
    let url = format!("file://{}", folder.path().display());
    let known = session.engine().devices().register(&url, Arc::new(slow));
    known.expect("registered");
    let file = path.to_str().expect("UTF-8");
    session.register("t", file).await.expect("registered");
    // If two queries shared chunk jobs, one of them would be handed no chunk.
    session.set("coscan.share_fragments", "off").expect("set");
    // No read ends before both scans wait; the file is open by then.
    let (sum, max) = ("SELECT sum(x % 10) FROM t", "SELECT max(x % 10) FROM t");
    session.explain(sum).await.expect("planned");
    device.add(Rule::new(When::Always, Fault::Held));
    let both_wait = async {
        let waiting = || {
            let pools = session.engine().snapshots();
            let scans = pools.iter().flat_map(|pool| &pool.scans);
            scans.filter(|scan| scan.waiting > 0).count()
        };
        let wait = async {
            while waiting() < 2 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let wait = tokio::time::timeout(Duration::from_secs(60), wait).await;
        wait.expect("both scans wait");
        device.heal();
    };
    let (a, b, ()) = tokio::join!(
        Shown::of(&session, sum),
        Shown::of(&session, max),
        both_wait,
    );
    let both = |name| a.count(name) + b.count(name);
    for shown in [&a, &b] {
        assert_eq!(shown.count("chunks_wanted"), CHUNKS, "{}", shown.0);
        let handed_out = shown.count("chunks_from_buffer")
            + shown.count("chunks_loaded_for_me")
            + shown.count("chunks_loaded_for_others");
        assert_eq!(handed_out, CHUNKS, "{}", shown.0);
        assert!(shown.is_long("chunk_wait_time"), "{}", shown.0);
    }
    // Every chunk is loaded once, for one of the scans; the other scan gets it without a load.
    assert_eq!(both("chunks_loaded_for_me"), CHUNKS, "{}\n{}", a.0, b.0);
    assert!(both("chunks_loaded_for_others") > 0, "{}\n{}", a.0, b.0);
    let read = both("bytes_read");
    assert!(read > bytes * 9 / 10 && read < bytes * 11 / 10, "{read}");
    assert!(both("decode_shared") > 0, "{}\n{}", a.0, b.0);
    // Each chunk is decoded at least once, but not once per scan: a batch may leave memory before
    // the slower scan reaches it.
    let begun = both("decode_begun");
    assert!((CHUNKS..2 * CHUNKS).contains(&begun), "{begun}");

    // Chunks in memory are neither loaded nor waited for.
    let c = Shown::of(&session, "SELECT min(x % 10) FROM t").await;
    assert_eq!(c.count("chunks_from_buffer"), CHUNKS, "{}", c.0);
    for none in [
        "chunks_loaded_for_me",
        "chunks_loaded_for_others",
        "bytes_read",
    ] {
        assert_eq!(c.count(none), 0, "{none}: {}", c.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_small_if_it_is_so_on_disk_and_as_arrays() {
    let folder = tempfile::tempdir().expect("a folder");
    let number = Field::new("n", DataType::Int64, false);
    let text = Field::new("s", DataType::Utf8, false);
    let schema = common::schema(vec![number, text]);
    let session = session(EngineConfig::default(), &[]).await;
    // A row of arrays takes eight bytes for a number and sixteen for a text's view.
    for (rows, column, is_small) in [
        (1_000_000, "n", true),
        (1_100_000, "n", false),
        (400_000, "s", true),
        (600_000, "s", false),
        (300_000, "n, s", true),
        (400_000, "n, s", false),
    ] {
        let path = folder.path().join(format!("{rows}.parquet"));
        let numbers = Int64Array::from_iter_values(std::iter::repeat_n(7, rows));
        let texts = StringArray::from_iter_values(std::iter::repeat_n("of a few letters", rows));
        let columns: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(texts)];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
        common::write(&path, Arc::clone(&schema), &[batch], rows);
        assert!(path.metadata().expect("written").len() < 100 << 10);
        let path = path.to_str().expect("UTF-8");
        session.register("t", path).await.expect("registered");
        let plan = session.explain(&format!("SELECT {column} FROM t")).await;
        let plan = plan.expect("a plan");
        assert_eq!(plan.contains("CScan"), !is_small, "{rows} {column}: {plan}");
    }
}
