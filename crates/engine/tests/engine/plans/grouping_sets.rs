//! Promised: rows that are grouped by several sets of keys are aggregated once by all keys, and the
//! sets' groups are made of those groups. The rows are those of plain DataFusion.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Field;
use coscan::Session;
use datafusion::prelude::SessionContext;

use crate::common::{self, config, plain, plain_rows, rows, rows_in_order, session};

/// `sales` has 600 rows; a tenth of each key is NULL, and so is a seventh of the values.
async fn tables(folder: &Path) -> (Session, SessionContext) {
    let count = 600_i64;
    let null = |k: i64, every: i64, value: i64| (k % every != 0).then_some(value);
    let int = |of: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        Arc::new((0..count).map(of).collect::<Int64Array>())
    };
    let shop = |k: i64| null(k, 10, k).map(|k| ["north", "south", "west"][k as usize % 3]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("year", int(&|k| null(k + 3, 10, 2000 + k % 4))),
        ("item", int(&|k| null(k + 7, 10, k % 6))),
        ("price", int(&|k| null(k, 7, k * 13 % 29 - 9))),
        (
            "weight",
            Arc::new(Float64Array::from_iter_values(
                (0..count).map(|k| k as f64 / 8.0),
            )),
        ),
        (
            "shop",
            Arc::new((0..count).map(shop).collect::<StringArray>()),
        ),
        (
            "open",
            Arc::new(
                (0..count)
                    .map(|k| Some(k % 5 > 0))
                    .collect::<BooleanArray>(),
            ),
        ),
    ];
    let fields = columns.iter();
    let fields = fields.map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema = common::schema(fields.collect::<Vec<Field>>());
    let columns = columns.into_iter().map(|(_, values)| values).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    let path = folder.join("sales.parquet");
    common::write(&path, schema, &[batch], 64);
    let tables = [("sales", path.as_path())];
    (session(config(), &tables).await, plain(&tables).await)
}

/// Checks the rows; returns whether the plan aggregates by all keys first.
async fn is_in_two_steps(session: &Session, plain: &SessionContext, sql: &str) -> bool {
    let expected = plain_rows(plain, sql).await;
    assert_eq!(rows(session, sql).await, expected, "{sql}");
    assert!(!expected.is_empty(), "{sql}");
    let shown = rows_in_order(session, &format!("EXPLAIN {sql}")).await;
    shown.join("\n").matches("Aggregate: groupBy").count() == 2
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_sets_are_made_of_the_finest_groups() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plain) = tables(folder.path()).await;
    let aggregates = "count(*), count(price), sum(price), min(price), max(shop), bool_and(open),
        bit_or(price), sum(price) FILTER (WHERE open), count(*) FILTER (WHERE item > 2),
        sum(CAST(item AS DECIMAL(12, 3))) AS narrow, sum(CAST(year AS DECIMAL(38, 3))) AS wide";
    for sets in [
        "ROLLUP (year, item, shop)",
        "CUBE (year, item)",
        "GROUPING SETS ((year, shop), (item), ())",
        "GROUPING SETS ((year), (year), (item))",
        "year, ROLLUP (item, shop)",
        "ROLLUP (year % 2, upper(shop))",
    ] {
        for rows in ["sales", "(SELECT * FROM sales WHERE price > 3) AS sales"] {
            let sql = format!("SELECT {aggregates} FROM {rows} GROUP BY {sets}");
            assert!(is_in_two_steps(&session, &plain, &sql).await, "{sql}");
        }
    }
    for sql in [
        "SELECT year, item, grouping(year), grouping(item), sum(price) AS total,
           avg(price) AS mean FROM sales GROUP BY ROLLUP (year, item)",
        "SELECT year AS y, shop, count(*) AS n FROM sales AS s GROUP BY CUBE (year, shop)
           HAVING count(*) > 20 ORDER BY n, 1, 2",
    ] {
        assert!(is_in_two_steps(&session, &plain, sql).await, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_aggregates_are_of_the_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plain) = tables(folder.path()).await;
    for sql in [
        // What a sum of floats is depends on the order of the additions.
        "SELECT year, sum(weight) FROM sales GROUP BY ROLLUP (year, item)",
        "SELECT year, count(DISTINCT price) FROM sales GROUP BY ROLLUP (year, item)",
        "SELECT year, count(*), array_agg(price ORDER BY price) FROM sales
           GROUP BY ROLLUP (year, item)",
        "SELECT year, stddev(weight) FROM sales GROUP BY CUBE (year)",
        "SELECT year, count(*) FROM sales GROUP BY GROUPING SETS ((year, item))",
    ] {
        assert!(!is_in_two_steps(&session, &plain, sql).await, "{sql}");
    }
}
