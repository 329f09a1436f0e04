//! Promised: nodes that are listed by a name are found at its addresses.

use coscan_cluster::{Cluster, Nodes};

use crate::common;
use crate::workers::{self, rows};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_found_by_their_names() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let workers = workers::start(2);
    let ports = workers.iter().map(|worker| worker.address.port());
    let names: Vec<String> = ports.map(|port| format!("dns:localhost:{port}")).collect();
    let nodes = Nodes::new(names.iter().map(String::as_str)).unwrap();
    let nodes = nodes.with_bytes_per_node(1);
    let cluster = Cluster::new(nodes.with_timeouts(workers::TIMEOUTS)).unwrap();
    let session = workers::session_on(&cluster, &tables).await;
    let sum = "SELECT sum(l_quantity), count(*) FROM lineitem";
    let alone = common::session(workers::config(), &tables).await;
    assert_eq!(rows(&session, sum).await, rows(&alone, sum).await);
    let plan = rows(&session, &format!("EXPLAIN {sum}")).await.unwrap();
    let plan = plan.concat();
    for worker in &workers {
        assert!(plan.contains(&worker.address.to_string()), "{plan}");
    }
    let shown = rows(&session, "SELECT state FROM coscan.nodes").await;
    assert_eq!(shown.unwrap(), ["present", "present"]);
    for health in cluster.health().await {
        health.is_well.unwrap();
    }
}
