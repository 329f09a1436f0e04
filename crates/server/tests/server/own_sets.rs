//! Promised: a table or a view made from a query with `unnest` has PostgreSQL's columns, also of
//! types that Arrow lacks. A set of more elements than a batch has rows keeps their order.

use crate::common::TestServer;
use crate::common::raw::RawClient;
use crate::own_tables::answers;

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_views_of_sets_have_the_elements_types() {
    answers(&[
        ("CREATE TABLE m (c char(2)[], j jsonb[], uu uuid[])", ""),
        (
            "INSERT INTO m VALUES ('{a}', '{1}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'), \
             (NULL, NULL, NULL)",
            "",
        ),
        (
            "CREATE TABLE a AS SELECT unnest(c) c, unnest(j) j, unnest(uu) uu FROM m",
            "",
        ),
        (
            "SELECT pg_typeof(c), pg_typeof(j), pg_typeof(uu), c || '|' FROM a",
            "character | jsonb | uuid | a|",
        ),
        // The elements of char(2)[] have no declared length.
        ("INSERT INTO a (c) VALUES ('abc')", ""),
        ("SELECT count(*) FROM a WHERE c = 'abc '", "1"),
        (
            "CREATE TEMP TABLE b AS SELECT DISTINCT unnest(uu) u FROM m ORDER BY u LIMIT 1",
            "",
        ),
        ("SELECT pg_typeof(u) FROM b", "uuid"),
        ("SELECT unnest(j) j INTO d FROM m", ""),
        ("SELECT pg_typeof(j) FROM d", "jsonb"),
        ("SELECT unnest(j), 1 + 1 INTO TEMP d2 FROM m", ""),
        (
            "SELECT unnest, pg_typeof(unnest), \"?column?\" FROM d2",
            "1 | jsonb | 2",
        ),
        (
            "CREATE TABLE e AS SELECT unnest(array_agg(uu)) u, \
             (SELECT unnest(j) FROM m LIMIT 1) j FROM a WHERE uu IS NOT NULL",
            "",
        ),
        ("SELECT pg_typeof(u), pg_typeof(j) FROM e", "uuid | jsonb"),
        (
            "CREATE VIEW v AS SELECT unnest(c) c, unnest(j) j, unnest(uu) uu FROM m",
            "",
        ),
        (
            "SELECT pg_typeof(c), pg_typeof(j), pg_typeof(uu), c = 'a  ' FROM v",
            "character | jsonb | uuid | t",
        ),
        ("CREATE TABLE f AS SELECT * FROM v", ""),
        (
            "SELECT pg_typeof(c), pg_typeof(j), pg_typeof(uu), c = 'a  ' FROM f",
            "character | jsonb | uuid | t",
        ),
        ("CREATE TABLE g (LIKE v)", ""),
        ("INSERT INTO g SELECT * FROM v", ""),
        (
            "SELECT pg_typeof(c), pg_typeof(j), pg_typeof(uu) FROM g",
            "character | jsonb | uuid",
        ),
    ])
    .await;
}

/// Also if another relation has a column of that name.
#[tokio::test(flavor = "multi_thread")]
async fn large_sets_keep_their_order() {
    answers(&[
        (
            "SELECT (array_agg(r))[8190:8195] \
             FROM regexp_split_to_table(repeat('a,b,c,', 10000), ',') r",
            "{c,a,b,c,a,b}",
        ),
        (
            "SELECT (array_agg(n))[8190:8195], (array_agg(n))[20000] \
             FROM (SELECT jsonb_array_elements_text(jsonb_agg(x))::int n \
             FROM generate_series(1, 20000) x) s",
            "{8190,8191,8192,8193,8194,8195} | 20000",
        ),
        (
            "SELECT bool_and(n > p) FROM (SELECT n, lag(n, 1, 0) OVER () p \
             FROM unnest((SELECT array_agg(x) FROM generate_series(1, 30000) x)) n \
             WHERE n % 2 = 0) s",
            "t",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stars_name_the_column_of_json_elements() {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let server = TestServer::start_on_engine(&engine).await;
    let addr = server.addr;
    let done = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(addr);
        client.simple("CREATE TABLE t AS SELECT 1 AS id, '[{\"k\": 2}]'::jsonb AS j");
        for (sql, names, row) in [
            (
                "SELECT * FROM t, jsonb_array_elements(t.j) e",
                "id, j, value",
                "1 | [{\"k\": 2}] | {\"k\": 2}",
            ),
            (
                "SELECT * FROM t LEFT JOIN jsonb_array_elements(t.j) WITH ORDINALITY e ON true \
                 ORDER BY e.value -> 'k'",
                "id, j, value, ordinality",
                "1 | [{\"k\": 2}] | {\"k\": 2} | 1",
            ),
            (
                "SELECT *, e -> 'k' AS k FROM t CROSS JOIN LATERAL json_array_elements('[3]') e",
                "id, j, value, k",
                "1 | [{\"k\": 2}] | 3 | NULL",
            ),
            (
                "SELECT * FROM (VALUES (1)) v(value), jsonb_array_elements('[5]') e",
                "value, value",
                "1 | 5",
            ),
            (
                "WITH w AS (SELECT * FROM t, jsonb_array_elements_text(t.j) e) \
                 SELECT id, value FROM w",
                "id, value",
                "1 | {\"k\": 2}",
            ),
            (
                "SELECT * FROM json_array_elements('[1]') e, json_array_elements('[2]') f",
                "value, value",
                "1 | 2",
            ),
            (
                "SELECT * FROM (SELECT * FROM t, jsonb_array_elements('[5]') e) q",
                "id, j, value",
                "1 | [{\"k\": 2}] | 5",
            ),
            (
                "SELECT * FROM (t AS a JOIN t AS b USING (id)) j",
                "id, j, j",
                "1 | [{\"k\": 2}] | [{\"k\": 2}]",
            ),
            (
                "SELECT * FROM (t AS a JOIN generate_series(1, 1) id ON true) j",
                "id, j, id",
                "1 | [{\"k\": 2}] | 1",
            ),
            (
                "SELECT * FROM (t AS a CROSS JOIN LATERAL (SELECT a.id, 2 AS k) l) j",
                "id, j, id, k",
                "1 | [{\"k\": 2}] | 1 | 2",
            ),
            (
                "SELECT * FROM t NATURAL JOIN (SELECT 1 AS id) u, jsonb_array_elements('[5]') e",
                "id, j, value",
                "1 | [{\"k\": 2}] | 5",
            ),
            ("SELECT (VALUES (3))", "column1", "3"),
        ] {
            let answer = client.simple(sql);
            assert_eq!(answer.shown(), row, "{sql}");
            let shown: Vec<&str> = answer
                .columns
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            assert_eq!(shown.join(", "), names, "{sql}");
        }
    });
    done.await.unwrap();
}
