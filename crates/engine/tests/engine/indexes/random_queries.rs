//! Promised: whatever the table's pages, the predicate, the access path, policy, trigger, memory,
//! order and limit, an index scan returns plain DataFusion's rows, each once, in order if the
//! query needs one. A failing case is shrunk to the settings and queries that matter.

use coscan::EngineConfig;
use proptest::prelude::*;
use proptest::sample::select;

use super::index_scans::{PATHS, indexed, table};
use crate::common::{self, plain, plain_rows_in_order, rows_in_order};

/// A table, an engine, and the queries.
#[derive(Clone, Debug)]
struct World {
    table: u64,
    chunk_bytes: u64,
    memory_bytes: u64,
    partitions: usize,
    queries: Vec<Query>,
}

#[derive(Clone, Debug)]
struct Query {
    settings: [(&'static str, &'static str); 10],
    condition: String,
    columns: &'static str,
    order: &'static str,
    limit: &'static str,
}

fn settings() -> impl Strategy<Value = [(&'static str, &'static str); 10]> {
    let one = |name: &'static str, values: &'static [&'static str]| {
        select(values).prop_map(move |value| (name, value))
    };
    let of_scans = (
        one("access_path", &PATHS),
        one("policy", &["relevance", "normal", "elevator"]),
        one("storage_model", &["dsm", "nsm"]),
    );
    let of_smooth_scans = (
        one(
            "smooth_policy",
            &["elastic", "greedy", "selectivity_increase"],
        ),
        one("smooth_trigger", &["eager", "optimizer", "sla"]),
        one("smooth_estimate", &["0", "1", "40", "100000"]),
        one("smooth_sla", &["1ms", "50ms"]),
        one("smooth_region_max", &["16MiB", "16KiB", "1KiB"]),
        one("smooth_cache", &["unlimited", "200KiB"]),
        one("index_cache", &["64MiB", "20KiB", "0"]),
    );
    (of_scans, of_smooth_scans)
        .prop_map(|((a, b, c), (d, e, f, g, h, i, j))| [a, b, c, d, e, f, g, h, i, j])
}

fn condition() -> impl Strategy<Value = String> {
    let width = prop_oneof![Just(0), 0..8, 0..400];
    (-10..1000_i32, width, 0..5_u8).prop_map(|(low, width, form)| {
        let (high, text) = (low + width, low.rem_euclid(97));
        match form {
            0 => format!("k BETWEEN {low} AND {high}"),
            1 => format!("k >= {low}"),
            2 => format!("k < {high} AND id % 3 = 1"),
            3 => format!("s LIKE '{text}%'"),
            _ => format!("s = '{text:c>3}-{low}' OR s > '9' AND k > {high}"),
        }
    })
}

fn query() -> impl Strategy<Value = Query> {
    (
        settings(),
        condition(),
        select(&["*", "id, k, s", "k, s, id"][..]),
        select(
            &[
                "",
                " ORDER BY k",
                " ORDER BY s",
                " ORDER BY k DESC NULLS LAST",
                " ORDER BY s DESC NULLS LAST",
            ][..],
        ),
        select(&["", "", " LIMIT 7"][..]),
    )
        .prop_map(|(settings, condition, columns, order, limit)| Query {
            settings,
            condition,
            columns,
            order,
            limit,
        })
}

fn world() -> impl Strategy<Value = World> {
    (
        0..1_000_u64,
        select(&[1 << 20, 64 << 10, 8 << 10][..]),
        select(&[512 << 20, 24 << 20][..]),
        1..5_usize,
        prop::collection::vec(query(), 1..40),
    )
        .prop_map(
            |(table, chunk_bytes, memory_bytes, partitions, queries)| World {
                table,
                chunk_bytes,
                memory_bytes,
                partitions,
                queries,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn random_queries_give_the_same_rows_under_random_settings(world in world()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(ask(&world));
    }
}

async fn ask(world: &World) {
    let table = table(world.table);
    let config = EngineConfig {
        chunk_bytes: world.chunk_bytes,
        memory_bytes: Some(world.memory_bytes),
        target_partitions: Some(world.partitions),
        ..common::config()
    };
    let session = indexed(&table, config, &["k", "s"]).await;
    let plain = plain(&[("t", &table.path)]).await;
    for query in &world.queries {
        for (name, value) in query.settings {
            session.set(&format!("coscan.{name}"), value).unwrap();
        }
        let Query {
            condition,
            columns,
            order,
            limit,
            ..
        } = query;
        let sql = format!("SELECT {columns} FROM t WHERE {condition}{order}");
        let mut expected = plain_rows_in_order(&plain, &sql).await;
        let found = rows_in_order(&session, &format!("{sql}{limit}")).await;
        check_order(&found, &expected, columns, order, &sql);
        expected.sort_unstable();
        let mut sorted = found;
        sorted.sort_unstable();
        if limit.is_empty() {
            assert_eq!(sorted, expected, "{sql}");
            continue;
        }
        assert_eq!(sorted.len(), expected.len().min(7), "{sql}");
        for row in &sorted {
            assert!(expected.binary_search(row).is_ok(), "{row}: {sql}");
        }
        sorted.dedup();
        assert_eq!(sorted.len(), expected.len().min(7), "a row twice: {sql}");
    }
}

/// Checks that rows come in the order of the query, and with a limit that they are the first ones.
/// Rows with the same key may come in any order.
fn check_order(found: &[String], in_order: &[String], columns: &str, order: &str, context: &str) {
    let Some(column) = order.split_whitespace().nth(2) else {
        return;
    };
    let all: Vec<&str> = match columns {
        "*" => vec!["id", "k", "d", "s", "p", "t", "f"],
        list => list.split(", ").collect(),
    };
    let at = all.iter().position(|name| *name == column).unwrap();
    let keys = |rows: &[String]| -> Vec<String> {
        let key = |row: &String| row.split('|').nth(at).unwrap().to_owned();
        rows.iter().map(key).collect()
    };
    assert!(found.len() <= in_order.len(), "{context}");
    assert_eq!(keys(found), keys(&in_order[..found.len()]), "{context}");
}
