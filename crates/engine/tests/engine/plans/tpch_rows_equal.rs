//! Promised: all 22 TPC-H queries return plain DataFusion's rows, under every policy and storage
//! model, while eight sessions run them at once in random order with a buffer that holds a small
//! part of the tables.

use std::collections::HashMap;

use crate::common::{borrowed, config, plain, plain_rows, rows, tpch, tpch_tables};
use coscan::{Engine, EngineConfig, Policy, StorageModel};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tokio::sync::OnceCell;

const SCALE: f64 = 0.1;
const SESSIONS: u64 = 8;

static EXPECTED: OnceCell<HashMap<i32, Vec<String>>> = OnceCell::const_new();

/// The texts of the queries, from `tests/tpch`.
pub(crate) fn text(query: i32) -> String {
    let path = format!("tests/tpch/q{query:02}.sql");
    std::fs::read_to_string(path).expect("there are 22")
}

async fn expected() -> &'static HashMap<i32, Vec<String>> {
    EXPECTED
        .get_or_init(|| async {
            let tables = tpch_tables(&tpch(SCALE));
            let context = plain(&borrowed(&tables)).await;
            let mut expected = HashMap::new();
            for query in 1..=22 {
                expected.insert(query, plain_rows(&context, &text(query)).await);
            }
            expected
        })
        .await
}

async fn check(policy: Policy, model: StorageModel) {
    let expected = expected().await;
    let engine = Engine::new(EngineConfig {
        policy,
        model,
        chunk_bytes: 256 << 10,
        buffer_bytes_max: Some(4 << 20),
        ..config()
    })
    .expect("an engine");
    let first = engine.session();
    for (name, path) in tpch_tables(&tpch(SCALE)) {
        first
            .register(name, path.to_str().expect("UTF-8"))
            .await
            .expect("registered");
    }
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|seed| {
            let session = engine.session();
            tokio::spawn(async move {
                let mut order: Vec<i32> = (1..=22).collect();
                order.shuffle(&mut StdRng::seed_from_u64(seed));
                for query in order {
                    let rows = rows(&session, &text(query)).await;
                    assert_eq!(
                        rows, expected[&query],
                        "query {query}, seed {seed}, {policy:?}, {model:?}"
                    );
                }
            })
        })
        .collect();
    for session in sessions {
        session.await.expect("no panic");
    }
}

macro_rules! combination {
    ($name:ident, $policy:ident, $model:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $name() {
            check(Policy::$policy, StorageModel::$model).await;
        }
    };
}

combination!(normal_nsm, Normal, Nsm);
combination!(normal_dsm, Normal, Dsm);
combination!(attach_nsm, Attach, Nsm);
combination!(attach_dsm, Attach, Dsm);
combination!(elevator_nsm, Elevator, Nsm);
combination!(elevator_dsm, Elevator, Dsm);
combination!(relevance_nsm, Relevance, Nsm);
combination!(relevance_dsm, Relevance, Dsm);
