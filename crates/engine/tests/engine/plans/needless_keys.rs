//! Promised: a key of GROUP BY, ORDER BY or of a window that has one value in all rows, or that of
//! an earlier key, is removed from the plan. The rows are those of plain DataFusion.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Field;
use coscan::Session;
use datafusion::prelude::SessionContext;

use crate::common::{self, config, plain, plain_rows, rows, rows_in_order, session};

/// `sales` has 40 rows for each of 3 years, and `items` a row for two of three items.
async fn tables(folder: &std::path::Path) -> (Session, SessionContext) {
    let rows = 120_i64;
    let int = |of: fn(i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(of)))
    };
    let zeros = (0..rows).map(|k| if k % 2 == 0 { 0.0 } else { -0.0 });
    let shops = (0..rows).map(|k| ["north", "south"][k as usize % 2]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("year", int(|k| 2000 + k % 3)),
        ("item", int(|k| k % 6)),
        ("customer", int(|k| k * 7 % 10)),
        ("price", int(|k| k * 13 % 29)),
        ("zero", Arc::new(Float64Array::from_iter_values(zeros))),
        ("shop", Arc::new(StringArray::from_iter_values(shops))),
    ];
    let sales = folder.join("sales.parquet");
    write(&sales, columns);
    let items = folder.join("items.parquet");
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 3, 4]));
    let colours: ArrayRef = Arc::new(Int64Array::from(vec![5, 5, 5, 8]));
    write(&items, vec![("id", ids), ("colour", colours)]);
    let tables = [("sales", sales.as_path()), ("items", items.as_path())];
    (session(config(), &tables).await, plain(&tables).await)
}

fn write(path: &std::path::Path, columns: Vec<(&str, ArrayRef)>) {
    let fields = columns.iter();
    let fields = fields.map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema = common::schema(fields.collect::<Vec<Field>>());
    let columns = columns.into_iter().map(|(_, values)| values).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    common::write(path, schema, &[batch], 16);
}

/// The logical and the physical plan.
async fn plans(session: &Session, sql: &str) -> String {
    rows_in_order(session, &format!("EXPLAIN {sql}"))
        .await
        .join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constant_and_repeated_keys_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plain) = tables(folder.path()).await;
    // Statement, what its plans have, what they do not have.
    let cases = [
        (
            "SELECT year, item, customer, sum(price) FROM sales WHERE year = 2000 GROUP BY 1, 2, 3",
            "gby=[item@",
            "gby=[year",
        ),
        (
            "SELECT DISTINCT shop, item, customer FROM sales WHERE shop = 'north'",
            "gby=[item@",
            "gby=[shop",
        ),
        (
            "SELECT colour, customer, item, sum(price) FROM sales JOIN items ON id = item
             WHERE colour = 5 GROUP BY 1, 2, 3",
            "gby=[customer@",
            "gby=[colour",
        ),
        (
            "SELECT item, id, customer, sum(price) FROM sales JOIN items ON id = item
             GROUP BY 1, 2, 3",
            "gby=[item@",
            "id@1 as id",
        ),
        (
            "SELECT * FROM (SELECT year, item, customer, sum(price) FROM
               (SELECT year, item, customer, price FROM sales
                UNION ALL SELECT year, id, colour, 1 FROM items JOIN sales ON id = item) AS u
             GROUP BY 1, 2, 3) AS sums WHERE year = 2001",
            "gby=[item@",
            "gby=[year",
        ),
        (
            "SELECT year, item, price FROM sales WHERE year = 2000
             ORDER BY year, price, item LIMIT 7",
            "Sort: sales.price",
            "Sort: sales.year",
        ),
        (
            "SELECT year, item, price, row_number() OVER
               (PARTITION BY year, item ORDER BY shop, price, customer) FROM sales
             WHERE year = 2000 AND shop = 'south'",
            "row_number() PARTITION BY [sales.item] ORDER BY [sales.price",
            "windowExpr=[[row_number() PARTITION BY [sales.year",
        ),
    ];
    for (sql, has, has_not) in cases {
        let shown = plans(&session, sql).await;
        assert!(!shown.contains("PartiallySorted"), "{sql}\n{shown}");
        assert!(!shown.contains(has_not), "{sql}\n{shown}");
        assert!(shown.contains(has), "{sql}\n{shown}");
        let expected = plain_rows(&plain, sql).await;
        assert_eq!(rows(&session, sql).await, expected, "{sql}");
        assert!(!expected.is_empty(), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_keys_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, plain) = tables(folder.path()).await;
    for sql in [
        // No group without a row.
        "SELECT year, count(*) FROM sales WHERE year = 1900 GROUP BY year",
        "SELECT year, shop, count(*) FROM sales WHERE year = 2000 AND shop = 'x' GROUP BY 1, 2",
        "SELECT year, shop, count(*) FROM sales WHERE year = 2000 AND shop = 'north' GROUP BY 1, 2",
        // 0 equals -0, and they are two values.
        "SELECT zero, item, count(*) FROM sales WHERE zero = 0 GROUP BY 1, 2",
        // The other side of an outer join is NULL where it has no row.
        "SELECT id, item, count(*) FROM sales LEFT JOIN items ON id = item GROUP BY 1, 2",
        "SELECT colour, item, count(*) FROM sales
           LEFT JOIN (SELECT * FROM items WHERE colour = 5) AS i ON id = item GROUP BY 1, 2",
        "SELECT colour, item, count(*) FROM sales LEFT JOIN items ON id = item AND colour = 5
           GROUP BY 1, 2",
        "SELECT item, customer, count(*) FROM sales WHERE year = 2000 OR item = 3 GROUP BY 1, 2",
        "SELECT year, item, count(*) FROM (SELECT * FROM sales WHERE year = 2000
           UNION ALL SELECT * FROM sales WHERE year = 2001) AS u GROUP BY 1, 2",
        "SELECT year, item, count(*) FROM sales WHERE year = 2000 GROUP BY ROLLUP (year, item)",
        "SELECT item, rank() OVER (PARTITION BY item ORDER BY year),
           sum(price) OVER (PARTITION BY year, item ORDER BY price RANGE 3 PRECEDING)
           FROM sales WHERE year = 2000",
        "SELECT sum(price) OVER (ORDER BY year RANGE 1 PRECEDING) FROM sales WHERE year = 2000",
    ] {
        let expected = plain_rows(&plain, sql).await;
        assert_eq!(rows(&session, sql).await, expected, "{sql}");
    }
}
