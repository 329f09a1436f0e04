//! Promised: DELETE and UPDATE change exactly the rows for which the condition is true, as in
//! PostgreSQL, whatever the condition contains; a statement that fails changes nothing; EXPLAIN
//! changes nothing.

use coscan::{Engine, Session};
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::{self, rows};

async fn run(session: &Session, sql: &str) -> datafusion::error::Result<Vec<String>> {
    let stream = session.sql(sql).await.map_err(|error| match error {
        coscan::Error::Query(error) => error,
        other => datafusion::error::DataFusionError::External(Box::new(other)),
    })?;
    common::collect(stream).await
}

/// Tables whose values test every edge of a condition: a NULL, a value twice, a value that the
/// other table lacks.
async fn world() -> Session {
    let session = Engine::new(common::config()).unwrap().session();
    for sql in [
        "CREATE TABLE t (id BIGINT, v BIGINT, s TEXT)",
        "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (NULL, 30, NULL)",
        "INSERT INTO t VALUES (4, NULL, 'a'), (4, 40, 'd')",
        "CREATE TABLE u (x BIGINT, w BIGINT)",
        "INSERT INTO u VALUES (1, 10), (NULL, 20), (5, 50)",
        "CREATE TABLE none (x BIGINT)",
    ] {
        run(&session, sql).await.unwrap();
    }
    session
}

const ALL: &[&str] = &["1|10|a", "2|20|b", "4|40|d", "4|NULL|a", "NULL|30|NULL"];

/// A condition, and the rows that PostgreSQL 15 leaves after `DELETE FROM t` with it.
const CONDITIONS: &[(&str, &[&str])] = &[
    (
        "id IN (SELECT x FROM u)",
        &["2|20|b", "4|40|d", "4|NULL|a", "NULL|30|NULL"],
    ),
    ("id NOT IN (SELECT x FROM u)", ALL),
    (
        "id NOT IN (SELECT x FROM u WHERE x IS NOT NULL)",
        &["1|10|a", "NULL|30|NULL"],
    ),
    ("id NOT IN (SELECT x FROM none)", &[]),
    (
        "EXISTS (SELECT 1 FROM u WHERE u.x = t.id)",
        &["2|20|b", "4|40|d", "4|NULL|a", "NULL|30|NULL"],
    ),
    ("NOT EXISTS (SELECT 1 FROM u WHERE u.x = t.id)", &["1|10|a"]),
    ("EXISTS (SELECT 1 FROM none)", ALL),
    ("1=0", ALL),
    ("1=1", &[]),
    ("NULL", ALL),
    ("id = NULL", ALL),
    ("id <> NULL", ALL),
    ("id IS NULL", &["1|10|a", "2|20|b", "4|40|d", "4|NULL|a"]),
    ("v = 10 AND NULL", ALL),
    (
        "v = 10 OR NULL",
        &["2|20|b", "4|40|d", "4|NULL|a", "NULL|30|NULL"],
    ),
    (
        "v > 10 AND id IN (SELECT x + 1 FROM u)",
        &["1|10|a", "4|40|d", "4|NULL|a", "NULL|30|NULL"],
    ),
    ("v > 15 AND id IN (SELECT x + 1 FROM u) AND s = 'c'", ALL),
    ("v > (SELECT min(w) FROM u)", &["1|10|a", "4|NULL|a"]),
    (
        "v = (SELECT max(w) FROM u WHERE u.x = t.id)",
        &["2|20|b", "4|40|d", "4|NULL|a", "NULL|30|NULL"],
    ),
    ("v < (SELECT max(x) FROM none)", ALL),
    ("id = 4", &["1|10|a", "2|20|b", "NULL|30|NULL"]),
    (
        "id IN (SELECT id FROM t WHERE v IS NULL)",
        &["1|10|a", "2|20|b", "NULL|30|NULL"],
    ),
    ("NOT (id = 1)", &["1|10|a", "NULL|30|NULL"]),
    ("s LIKE 'a%'", &["2|20|b", "4|40|d", "NULL|30|NULL"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_table_has_the_rows_in_the_order_of_its_query() {
    let session = common::session(common::config(), &[]).await;
    let made = "CREATE TABLE s AS SELECT n FROM generate_series(1, 50000) g (n) ORDER BY n DESC";
    session.sql(made).await.unwrap();
    let first = common::rows_in_order(&session, "SELECT n FROM s LIMIT 3").await;
    assert_eq!(first, ["50000", "49999", "49998"]);
    // Inserts go to the partitions in turn.
    for n in 1..=5 {
        let one = format!("INSERT INTO s VALUES ({n})");
        run(&session, &one).await.unwrap();
    }
    run(&session, "DELETE FROM s WHERE n > 5").await.unwrap();
    let first = common::rows_in_order(&session, "SELECT n FROM s LIMIT 7").await;
    assert_eq!(first, ["5", "4", "3", "2", "1", "1", "2"]);
    for empty in ["SELECT 1 AS x WHERE false", "SELECT * FROM s WHERE n < 0"] {
        let made = format!("CREATE OR REPLACE TABLE e AS {empty}");
        session.sql(&made).await.unwrap();
        let count = common::rows_in_order(&session, "SELECT count(*) FROM e").await;
        assert_eq!(count, ["0"], "{empty}");
    }
}

/// A query over four partitions makes a table of four, of which one has all of the few rows.
#[tokio::test(flavor = "multi_thread")]
async fn empty_partitions_are_not_scanned() {
    let session = Engine::new(common::config()).unwrap().session();
    let made = "CREATE TABLE p AS SELECT x, x % 2 AS k FROM generate_series(1, 100) AS s(x)";
    run(&session, made).await.unwrap();
    let plan = "EXPLAIN SELECT k, count(*) FROM p GROUP BY k";
    let plan = run(&session, plan).await.unwrap().join("\n");
    assert!(plan.contains("partitions=1, partition_sizes=[1]"), "{plan}");
    let groups = "SELECT k, count(*), sum(x) FROM p GROUP BY k";
    assert_eq!(rows(&session, groups).await, ["0|50|2550", "1|50|2500"]);
    run(&session, "DELETE FROM p").await.unwrap();
    assert_eq!(rows(&session, groups).await, [""; 0]);
    assert_eq!(rows(&session, "SELECT count(*) FROM p").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_deleted_where_the_condition_is_true() {
    for (condition, left) in CONDITIONS {
        let session = world().await;
        let gone = ALL.len() - left.len();
        let plan = format!("EXPLAIN DELETE FROM t WHERE {condition}");
        run(&session, &plan).await.unwrap();
        assert_eq!(rows(&session, "SELECT * FROM t").await, ALL, "{plan}");
        let count = run(&session, &format!("DELETE FROM t WHERE {condition}")).await;
        assert_eq!(count.unwrap(), [gone.to_string()], "{condition}");
        assert_eq!(
            rows(&session, "SELECT * FROM t").await,
            *left,
            "{condition}"
        );
        assert_eq!(rows(&session, "SELECT count(*) FROM u").await, ["3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_updated_where_the_condition_is_true() {
    for (condition, left) in CONDITIONS {
        let session = world().await;
        let changed = ALL.len() - left.len();
        let update = format!("UPDATE t SET s = 'new', v = v + 1 WHERE {condition}");
        assert_eq!(
            run(&session, &update).await.unwrap(),
            [changed.to_string()],
            "{condition}"
        );
        let stay = rows(&session, "SELECT * FROM t WHERE s IS DISTINCT FROM 'new'").await;
        assert_eq!(stay, *left, "{condition}");
        let new = "SELECT id, v - 1 FROM t WHERE s = 'new'";
        let mut all: Vec<String> = rows(&session, new).await;
        all.extend(left.iter().map(|row| {
            let values: Vec<&str> = row.split('|').take(2).collect();
            values.join("|")
        }));
        all.sort_unstable();
        let before: Vec<String> = rows(&world().await, "SELECT id, v FROM t").await;
        assert_eq!(all, before, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assigned_value_may_be_a_query() {
    for (update, expected) in [
        (
            "UPDATE t SET v = (SELECT max(w) FROM u WHERE u.x = t.id)",
            &[
                "1|10|a",
                "2|NULL|b",
                "4|NULL|a",
                "4|NULL|d",
                "NULL|NULL|NULL",
            ][..],
        ),
        (
            "UPDATE t SET v = (SELECT sum(v) FROM t), s = 'x' WHERE id < 3",
            &["1|100|x", "2|100|x", "4|40|d", "4|NULL|a", "NULL|30|NULL"],
        ),
        (
            "UPDATE t SET id = v, v = id",
            &["10|1|a", "20|2|b", "30|NULL|NULL", "40|4|d", "NULL|4|a"],
        ),
        (
            "UPDATE t AS o SET v = NULL WHERE EXISTS (SELECT 1 FROM u WHERE u.x = o.id)",
            &["1|NULL|a", "2|20|b", "4|40|d", "4|NULL|a", "NULL|30|NULL"],
        ),
        (
            "UPDATE t SET v = 0 WHERE id IN (SELECT x FROM u) OR s = 'd'",
            &["1|0|a", "2|20|b", "4|0|d", "4|NULL|a", "NULL|30|NULL"],
        ),
        // The alias is the name of a column, too.
        (
            "UPDATE t AS s SET s = 'z' WHERE EXISTS (SELECT 1 FROM t x WHERE x.v = s.v + 10)",
            &["1|10|z", "2|20|z", "4|40|d", "4|NULL|a", "NULL|30|z"],
        ),
        (
            "DELETE FROM t AS v USING u AS w WHERE w.x = v.id AND EXISTS \
             (SELECT 1 FROM u WHERE u.w = w.w AND u.w = v.v)",
            &["2|20|b", "4|40|d", "4|NULL|a", "NULL|30|NULL"],
        ),
    ] {
        let session = world().await;
        run(&session, update).await.unwrap();
        assert_eq!(
            rows(&session, "SELECT * FROM t").await,
            expected,
            "{update}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_happens_as_a_whole_or_not_at_all() {
    let session = world().await;
    for refused in [
        "UPDATE t SET v = 100 / (v - 40)",
        "DELETE FROM t WHERE 100 / (v - 40) > 0",
        "UPDATE t SET v = (SELECT w FROM u)",
    ] {
        assert!(run(&session, refused).await.is_err(), "{refused}");
        assert_eq!(rows(&session, "SELECT * FROM t").await, ALL, "{refused}");
    }
    run(&session, "CREATE TABLE n (a BIGINT NOT NULL)")
        .await
        .unwrap();
    run(&session, "INSERT INTO n VALUES (1), (2)")
        .await
        .unwrap();
    let refused = run(&session, "UPDATE n SET a = NULL WHERE a = 2").await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("violates not-null constraint"),
        "{refused}"
    );
    assert_eq!(rows(&session, "SELECT * FROM n").await, ["1", "2"]);
    assert_eq!(run(&session, "DELETE FROM t").await.unwrap(), ["5"]);
    assert_eq!(run(&session, "DELETE FROM t").await.unwrap(), ["0"]);
    run(&session, "INSERT INTO t VALUES (7, 7, 'g')")
        .await
        .unwrap();
    run(&session, "TRUNCATE TABLE n").await.unwrap();
    assert_eq!(
        rows(&session, "SELECT * FROM n").await,
        Vec::<String>::new()
    );
    assert_eq!(rows(&session, "SELECT * FROM t").await, ["7|7|g"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_deleted_rows_is_given_back() {
    let session = Engine::new(common::config()).unwrap().session();
    let pool = session.engine().runtime().memory_pool.clone();
    let before = pool.reserved();
    run(
        &session,
        "CREATE TABLE big AS SELECT a FROM generate_series(1::bigint, 100000) s (a)",
    )
    .await
    .unwrap();
    let full = pool.reserved();
    assert!(full - before >= 800_000, "{full}");
    run(&session, "UPDATE big SET a = a + 1 WHERE a % 2 = 0")
        .await
        .unwrap();
    run(&session, "DELETE FROM big WHERE a > 1000")
        .await
        .unwrap();
    assert!(pool.reserved() < before + 200_000, "{}", pool.reserved());
    run(&session, "DELETE FROM big").await.unwrap();
    assert_eq!(rows(&session, "SELECT count(*) FROM big").await, ["0"]);
    run(&session, "DROP TABLE big").await.unwrap();
    assert_eq!(pool.reserved(), before);
}

/// A condition over a row of `t` and the table `u`, in three-valued logic.
#[derive(Clone, Debug)]
enum Condition {
    Compare(Column, &'static str, Option<i64>),
    IsNull(Column),
    /// IN or, if false, NOT IN a query whose values are these.
    In(Column, bool, Vec<Option<i64>>),
    Exists(bool, i64),
    Constant(Option<bool>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
}

#[derive(Clone, Copy, Debug)]
enum Column {
    Id,
    V,
}

type Row = (Option<i64>, Option<i64>);

impl Column {
    fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::V => "v",
        }
    }

    fn of(self, row: Row) -> Option<i64> {
        match self {
            Self::Id => row.0,
            Self::V => row.1,
        }
    }
}

fn text(value: Option<i64>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

impl Condition {
    fn sql(&self) -> String {
        match self {
            Self::Compare(column, op, value) => {
                format!("{} {op} {}", column.name(), text(*value))
            }
            Self::IsNull(column) => format!("{} IS NULL", column.name()),
            Self::In(column, wanted, values) => {
                let not = if *wanted { "" } else { "NOT " };
                let rows: Vec<String> = values
                    .iter()
                    .map(|value| format!("(CAST({} AS BIGINT))", text(*value)))
                    .collect();
                let query = if rows.is_empty() {
                    "SELECT x FROM none".to_owned()
                } else {
                    format!("SELECT column1 FROM (VALUES {}) AS l", rows.join(", "))
                };
                format!("{} {not}IN ({query})", column.name())
            }
            Self::Exists(wanted, least) => {
                let not = if *wanted { "" } else { "NOT " };
                format!("{not}EXISTS (SELECT 1 FROM u WHERE u.x = t.id AND u.w >= {least})")
            }
            Self::Constant(value) => match value {
                Some(true) => "1 = 1".to_owned(),
                Some(false) => "1 = 0".to_owned(),
                None => "NULL".to_owned(),
            },
            Self::And(a, b) => format!("({} AND {})", a.sql(), b.sql()),
            Self::Or(a, b) => format!("({} OR {})", a.sql(), b.sql()),
            Self::Not(a) => format!("(NOT ({}))", a.sql()),
        }
    }

    fn value(&self, row: Row, u: &[Row]) -> Option<bool> {
        match self {
            Self::Compare(column, op, value) => {
                let (a, b) = (column.of(row)?, (*value)?);
                Some(match *op {
                    "=" => a == b,
                    "<>" => a != b,
                    "<" => a < b,
                    _ => a >= b,
                })
            }
            Self::IsNull(column) => Some(column.of(row).is_none()),
            Self::In(column, wanted, values) => {
                let found = match column.of(row) {
                    _ if values.is_empty() => Some(false),
                    None => None,
                    value if values.contains(&value) => Some(true),
                    _ if values.contains(&None) => None,
                    _ => Some(false),
                };
                found.map(|found| found == *wanted)
            }
            Self::Exists(wanted, least) => {
                let matches = |(x, w): &Row| x.is_some() && *x == row.0 && *w >= Some(*least);
                Some(u.iter().any(matches) == *wanted)
            }
            Self::Constant(value) => *value,
            Self::And(a, b) => match (a.value(row, u), b.value(row, u)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(a, b) => match (a.value(row, u), b.value(row, u)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::Not(a) => a.value(row, u).map(|value| !value),
        }
    }
}

fn value() -> impl Strategy<Value = Option<i64>> {
    proptest::option::weighted(0.8, 0..6i64)
}

fn column() -> impl Strategy<Value = Column> {
    prop_oneof![Just(Column::Id), Just(Column::V)]
}

/// Subqueries are conjuncts: below OR and NOT they test queries, not changes.
fn condition() -> impl Strategy<Value = Condition> {
    let plain = prop_oneof![
        4 => (column(), select(vec!["=", "<>", "<", ">="]), value())
            .prop_map(|(column, op, value)| Condition::Compare(column, op, value)),
        1 => column().prop_map(Condition::IsNull),
        1 => proptest::option::of(any::<bool>()).prop_map(Condition::Constant),
    ];
    let plain = plain.prop_recursive(2, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Condition::And(a.into(), b.into())),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Condition::Or(a.into(), b.into())),
            inner.prop_map(|a| Condition::Not(a.into())),
        ]
    });
    let subquery = prop_oneof![
        (
            column(),
            any::<bool>(),
            proptest::collection::vec(value(), 0..4)
        )
            .prop_map(|(column, wanted, values)| Condition::In(column, wanted, values)),
        (any::<bool>(), 0..6i64).prop_map(|(wanted, least)| Condition::Exists(wanted, least)),
    ];
    let part = prop_oneof![plain, subquery];
    proptest::collection::vec(part, 1..4).prop_map(|parts| {
        let parts = parts.into_iter();
        let all = parts.reduce(|a, b| Condition::And(a.into(), b.into()));
        all.unwrap_or(Condition::Constant(None))
    })
}

fn table() -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec((value(), value()), 0..12)
}

async fn fill(session: &Session, name: &str, columns: &str, rows: &[Row]) {
    run(session, &format!("CREATE TABLE {name} ({columns})"))
        .await
        .unwrap();
    // Several batches: positions count over all of them.
    for rows in rows.chunks(3) {
        let values: Vec<String> = rows
            .iter()
            .map(|(a, b)| format!("({}, {})", text(*a), text(*b)))
            .collect();
        let insert = format!("INSERT INTO {name} VALUES {}", values.join(", "));
        run(session, &insert).await.unwrap();
    }
}

fn shown(rows: impl Iterator<Item = Row>) -> Vec<String> {
    let mut rows: Vec<String> = rows
        .map(|(a, b)| format!("{}|{}", text(a), text(b)))
        .collect();
    rows.sort_unstable();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_changes_are_those_of_the_model(
        t in table(),
        u in table(),
        condition in condition(),
        deletes in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let session = Engine::new(common::config()).unwrap().session();
            fill(&session, "t", "id BIGINT, v BIGINT", &t).await;
            fill(&session, "u", "x BIGINT, w BIGINT", &u).await;
            run(&session, "CREATE TABLE none (x BIGINT)").await.unwrap();
            let holds = |row: &Row| condition.value(*row, &u) == Some(true);
            let statement = if deletes {
                format!("DELETE FROM t WHERE {}", condition.sql())
            } else {
                format!("UPDATE t SET v = id, id = coalesce(v, 0) + 100 WHERE {}", condition.sql())
            };
            let expected = if deletes {
                shown(t.iter().copied().filter(|row| !holds(row)))
            } else {
                shown(t.iter().map(|row| {
                    if holds(row) { (Some(row.1.unwrap_or(0) + 100), row.0) } else { *row }
                }))
            };
            let count = run(&session, &statement).await;
            let count = count.unwrap_or_else(|error| panic!("{statement}: {error}"));
            let changed = t.iter().filter(|row| holds(row)).count();
            assert_eq!(rows(&session, "SELECT id, v FROM t").await, expected, "{statement}");
            assert_eq!(count, [changed.to_string()], "{statement}");
        });
    }
}

/// A statement of PostgreSQL's dialect: its rows, or its error.
async fn postgres(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    let statement = session.prepare(sql, &[]).await.map_err(|e| e.to_string())?;
    let rows = statement.execute(vec![]).await.map_err(|e| e.to_string())?;
    common::collect(rows).await.map_err(|e| e.to_string())
}

/// PostgreSQL's answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_subquery_may_assign_several_columns_beside_defaults() {
    let session = Engine::new(common::config()).unwrap().session();
    for (sql, expected) in [
        (
            "CREATE TABLE t (k int, x text DEFAULT 'd', y int DEFAULT 1 + 1)",
            Ok(&[][..]),
        ),
        (
            "INSERT INTO t VALUES ((SELECT 4), DEFAULT, 7), (5, 'r', DEFAULT)",
            Ok(&["2"]),
        ),
        (
            "INSERT INTO t (y, k) VALUES (DEFAULT, (SELECT max(k) + 1 FROM t))",
            Ok(&["1"]),
        ),
        (
            "SELECT * FROM t ORDER BY k",
            Ok(&["4|d|7", "5|r|2", "6|d|2"]),
        ),
        (
            "UPDATE t SET (x, y) = (SELECT p.x || '!', p.y + 1 FROM t p WHERE p.k = t.k AND p.k > 4)",
            Ok(&["3"]),
        ),
        (
            "SELECT * FROM t ORDER BY k",
            Ok(&["4|NULL|NULL", "5|r!|3", "6|d!|3"]),
        ),
        (
            "UPDATE t SET (x, y) = (SELECT p.x, p.y FROM t p)",
            Err("more than one row"),
        ),
        (
            "UPDATE t SET (x, y) = (SELECT p.x, p.y FROM t p LIMIT 1)",
            Err("no volatile function, and LIMIT and DISTINCT ON only with ORDER BY"),
        ),
        (
            "UPDATE t SET (x, y) = (SELECT p.x, p.y FROM t p ORDER BY random() LIMIT 1)",
            Err("no volatile function, and LIMIT and DISTINCT ON only with ORDER BY"),
        ),
        (
            "UPDATE t SET (x, y) = (SELECT DISTINCT ON (p.x) p.x, p.y FROM t p)",
            Err("no volatile function, and LIMIT and DISTINCT ON only with ORDER BY"),
        ),
        (
            "UPDATE t SET (x, y) = (SELECT 'a', 1), y = 2",
            Err("multiple assignments"),
        ),
    ] {
        let found = postgres(&session, sql).await;
        match (found, expected) {
            (Ok(rows), Ok(expected)) => assert_eq!(rows, expected, "{sql}"),
            (Err(text), Err(expected)) => assert!(text.contains(expected), "{sql}: {text}"),
            (found, _) => panic!("{sql}: {found:?}"),
        }
    }
}

/// PostgreSQL checks queries in WITH even if no other query reads them.
#[tokio::test(flavor = "multi_thread")]
async fn unread_queries_of_with_are_checked() {
    let session = world().await;
    for (sql, expected) in [
        (
            "WITH c AS (SELECT '1'::int[] AS a) SELECT 1",
            "malformed array literal",
        ),
        (
            "WITH c AS (SELECT (SELECT max(t.v) WHERE t.id = 1) FROM t) SELECT 1",
            "ungrouped column",
        ),
    ] {
        let text = postgres(&session, sql).await.unwrap_err();
        assert!(text.contains(expected), "{sql}: {text}");
    }
    for sql in [
        "WITH c AS (SELECT 1 / 0 AS a) SELECT 1",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT 1",
        "WITH c AS (SELECT 1 AS a), d AS (SELECT a FROM c) SELECT 1",
    ] {
        assert_eq!(postgres(&session, sql).await.unwrap(), ["1"], "{sql}");
    }
}
