//! Promised: a query that needs several nodes has fewer of them while the tasks of other queries
//! wait for processors, and the least busy ones; while devices are busy, it stays wide; a
//! node without memory gets no part. What goes to and fro between two bounds changes nothing. The
//! answer is the same on whatever nodes, and EXPLAIN says how many there are and why.
//! Workers say of their load what a test wants, but in the last tests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan::Session;
use coscan_cluster::NodeReport;
use datafusion::execution::memory_pool::MemoryConsumer;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::common;
use crate::workers::{self, Worker, rows};

const SUM: &str = "SELECT l_returnflag, count(*), sum(l_tax) FROM lineitem GROUP BY 1";

const IDLE: NodeReport = NodeReport {
    tasks: 0,
    processors: 4,
    device_permille: 0,
    free_permille: 1_000,
};

/// Until nodes were asked again. They are asked ten times a second.
const WITHIN: Duration = Duration::from_secs(30);

/// Four nodes that say what a test wants, in the order of the cluster.
struct Reporting {
    nodes: Vec<(Worker, Arc<Mutex<NodeReport>>)>,
    session: Session,
    expected: Vec<String>,
}

impl Reporting {
    /// Nodes that are idle, and a session whose queries want all of them.
    async fn start() -> Self {
        let tables = common::tpch_tables(&common::tpch(0.05));
        let tables = common::borrowed(&tables);
        let nodes = (0..4).map(|_| {
            let report = Arc::new(Mutex::new(IDLE));
            let worker = Worker::start_reporting(workers::config(), &report);
            (worker, report)
        });
        let mut nodes: Vec<_> = nodes.collect();
        let addresses: Vec<_> = nodes.iter().map(|(worker, _)| worker.address).collect();
        let session = workers::session_on(&workers::cluster(&addresses, 1), &tables).await;
        let mut order = vec![];
        for place in 1..=4 {
            let sql = format!("SELECT node FROM coscan.nodes WHERE place = {place}");
            order.extend(rows(&session, &sql).await.unwrap());
        }
        nodes.sort_by_key(|(worker, _)| {
            let address = worker.address.to_string();
            order.iter().position(|node| *node == address)
        });
        let alone = common::session(workers::config(), &tables).await;
        let expected = rows(&alone, SUM).await.unwrap();
        session.set("coscan.cluster_width", "load").unwrap();
        Self {
            nodes,
            session,
            expected,
        }
    }

    /// From now on all nodes say this.
    fn say(&self, said: NodeReport) {
        for (_, report) in &self.nodes {
            *report.lock() = said;
        }
    }

    fn say_tasks(&self, tasks: [u32; 4]) {
        for ((_, report), tasks) in self.nodes.iter().zip(tasks) {
            *report.lock() = NodeReport { tasks, ..IDLE };
        }
    }

    /// The places in the order of the nodes that the query has now, and its plan.
    async fn places(&self) -> (Vec<usize>, String) {
        let plan = rows(&self.session, &format!("EXPLAIN {SUM}")).await;
        let plan = plan.unwrap().concat();
        let has = |at: &usize| plan.contains(&format!("node={},", self.nodes[*at].0.address));
        let places = (0..self.nodes.len()).filter(has).collect();
        (places, plan)
    }

    /// Waits until the query has such nodes, for this reason; then its answer is right.
    async fn has(&self, nodes: impl Fn(&[usize]) -> bool, why: &str) {
        let begun = Instant::now();
        loop {
            let (places, plan) = self.places().await;
            if nodes(&places) && plan.contains(why) {
                break;
            }
            assert!(begun.elapsed() < WITHIN, "not {why}: {places:?} {plan}");
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(rows(&self.session, SUM).await.unwrap(), self.expected);
    }

    /// The query keeps so many nodes.
    async fn keeps(&self, nodes: usize) {
        for _ in 0..5 {
            sleep(Duration::from_millis(120)).await;
            let (places, plan) = self.places().await;
            assert_eq!(places.len(), nodes, "{plan}");
        }
    }

    fn set_width(&self, width: &str) {
        self.session.set("coscan.cluster_width", width).unwrap();
    }
}

fn are_all(places: &[usize]) -> bool {
    places == [0, 1, 2, 3]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_narrow_while_processors_are_busy() {
    let cluster = Reporting::start().await;
    cluster.has(are_all, "Nodes: 4 of 4 (by size)").await;
    cluster.say_tasks([64, 64, 16, 16]);
    let why = "Nodes: 2 of 4 (10.0 tasks per processor)";
    cluster.has(|places| places == [2, 3], why).await;
    let is_block = |places: &[usize]| places == [0, 1] || places == [2, 3];
    cluster.say_tasks([32; 4]);
    cluster.has(is_block, "(8.0 tasks per processor)").await;
    // Less, but not so much less.
    cluster.say_tasks([28; 4]);
    cluster.keeps(2).await;
    cluster.has(is_block, "(7.0 tasks per processor)").await;
    cluster.say_tasks([64; 4]);
    let why = "Nodes: 1 of 4 (16.0 tasks per processor)";
    cluster.has(|places| places.len() == 1, why).await;
    cluster.say(IDLE);
    cluster.has(are_all, "(by size)").await;
    // More, but not so much more.
    cluster.say_tasks([28; 4]);
    cluster.keeps(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_waits_for_devices_stays_wide() {
    let cluster = Reporting::start().await;
    cluster.say(NodeReport {
        tasks: 64,
        device_permille: 1_000,
        ..IDLE
    });
    let why = "Nodes: 4 of 4 (by size: 16.0 tasks per processor, but busy devices)";
    cluster.has(are_all, why).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_memory_gets_no_part() {
    let cluster = Reporting::start().await;
    let say_free = |free_permille: u32| {
        *cluster.nodes[1].1.lock() = NodeReport {
            free_permille,
            ..IDLE
        };
    };
    say_free(10);
    let why = "Nodes: 3 of 4 (by size; 1 without memory)";
    cluster.has(|places| places == [0, 2, 3], why).await;
    say_free(100);
    cluster.keeps(3).await;
    say_free(500);
    cluster.has(are_all, "Nodes: 4 of 4 (by size)").await;
    cluster.say(NodeReport {
        free_permille: 0,
        ..IDLE
    });
    // A query has nodes, whatever they say.
    cluster.keeps(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_nodes_may_be_set() {
    let cluster = Reporting::start().await;
    cluster.say_tasks([64; 4]);
    cluster
        .has(|places| places.len() == 1, "Nodes: 1 of 4")
        .await;
    cluster.set_width("size");
    assert!(are_all(&cluster.places().await.0));
    cluster.set_width("2");
    let (places, plan) = cluster.places().await;
    assert_eq!(places, [0, 1], "{plan}");
    assert!(
        plan.contains("Nodes: 2 of 4 (coscan.cluster_width)"),
        "{plan}"
    );
    cluster.set_width("9");
    assert!(are_all(&cluster.places().await.0));
    let refused = cluster.session.set("coscan.cluster_width", "0");
    assert!(refused.unwrap_err().to_string().contains("a number from 1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_say_what_their_meters_say() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    rows(&session, SUM).await.unwrap();
    let said = "SELECT count(*) FROM coscan.nodes WHERE tasks >= 0 AND processors > 0 \
                AND device_busy BETWEEN 0 AND 1 AND memory_free BETWEEN 0.5 AND 1";
    let begun = Instant::now();
    while rows(&session, said).await.unwrap() != ["2"] {
        assert!(begun.elapsed() < WITHIN, "a worker says nothing");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_memory_another_query_has_gets_no_part() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let session = workers::session(&workers, &tables).await;
    session.set("coscan.cluster_width", "load").unwrap();
    let expected = rows(&session, SUM).await.unwrap();
    let memory = &workers[0].engine.runtime().memory_pool;
    let other = MemoryConsumer::new("another query").register(memory);
    while other.try_grow(1 << 20).is_ok() {}
    let begun = Instant::now();
    loop {
        let plan = rows(&session, &format!("EXPLAIN {SUM}")).await;
        let plan = plan.unwrap().concat();
        if plan.contains("Nodes: 1 of 2 (by size; 1 without memory)") {
            let address = workers[1].address;
            assert!(plan.contains(&format!("node={address},")), "{plan}");
            break;
        }
        assert!(begun.elapsed() < WITHIN, "{plan}");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(rows(&session, SUM).await.unwrap(), expected);
}
