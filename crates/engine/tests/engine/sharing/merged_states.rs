//! Promised: an aggregate over a table of many chunks equals the one over a single chunk, for
//! every function, with FILTER, DISTINCT and GROUP BY, also for a user's function that merges one
//! state per call.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type};
use coscan::Session;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, Volatility, create_udaf};

use crate::common::{self, collect, rows, schema};

/// Five files of two rows: x is 1 to 10, one of them NULL in `n`; `g` groups them by parity.
fn write(folder: &Path) {
    let schema = schema(vec![
        Field::new("x", DataType::Int64, false),
        Field::new("f", DataType::Float64, false),
        Field::new("y", DataType::Float64, true),
        Field::new("n", DataType::Int64, true),
        Field::new("b", DataType::Boolean, true),
        Field::new("c", DataType::Int64, false),
        Field::new("g", DataType::Int64, false),
    ]);
    for file in 0..5i64 {
        let of = |f: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
            Arc::new(Int64Array::from_iter((1..3).map(|n| f(file * 2 + n))))
        };
        let floats = |f: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
            let values = (1..3).map(|n| f(file * 2 + n).map(|n| n as f64));
            Arc::new(Float64Array::from_iter(values))
        };
        let truths = (1..3).map(|n| ((file + n) % 4 != 0).then_some(file % 2 == 0));
        let columns: Vec<ArrayRef> = vec![
            of(&Some),
            floats(&|n| Some(n * 10_000 + 10_000)),
            floats(&|n| (n != 3).then_some(n * n)),
            of(&|n| (n % 4 != 3).then_some(n / 2)),
            Arc::new(BooleanArray::from_iter(truths)),
            of(&|_| Some(7)),
            of(&|n| Some(n % 2)),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let path = folder.join(format!("{file}.parquet"));
        common::write(&path, Arc::clone(&schema), &[batch], 2);
    }
}

/// The sum of the values, but a call of `merge_batch` sees only the first state.
#[derive(Debug, Default)]
struct FirstStateOnly {
    sum: Option<i64>,
}

impl FirstStateOnly {
    fn add(&mut self, value: Option<i64>) {
        if let Some(value) = value {
            self.sum = Some(self.sum.unwrap_or(0) + value);
        }
    }
}

impl Accumulator for FirstStateOnly {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Int64Type>();
        values.iter().for_each(|value| self.add(value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = states[0].as_primitive::<Int64Type>();
        self.add(states.is_valid(0).then(|| states.value(0)));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(self.sum)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(self.sum))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

async fn open(folder: &Path, partitions: usize, shares: bool) -> Session {
    let config = coscan::EngineConfig {
        target_partitions: Some(partitions),
        ..common::config()
    };
    let session = common::session(config, &[("t", &folder.join(""))]).await;
    let shares = if shares { "on" } else { "off" };
    session.set("coscan.share_fragments", shares).unwrap();
    let own = create_udaf(
        "first_state_only",
        vec![DataType::Int64],
        Arc::new(DataType::Int64),
        Volatility::Immutable,
        Arc::new(|_| Ok(Box::<FirstStateOnly>::default())),
        Arc::new(vec![DataType::Int64]),
    );
    session.context().register_udaf(own);
    session
}

/// Every aggregate of DataFusion's, in a form whose result is exact and independent of order. `{}`
/// stands for a FILTER.
const AGGREGATES: [&str; 47] = [
    "count(*){}",
    "count(n){}",
    "count(DISTINCT n){}",
    "count(DISTINCT f){}",
    "count(DISTINCT b){}",
    "sum(x){}",
    "sum(n){}",
    "sum(f){}",
    "sum(DISTINCT n){}",
    "avg(n){}",
    "avg(f){}",
    "avg(DISTINCT f){}",
    "min(n){}",
    "max(n){}",
    "min(f){}",
    "max(y){}",
    "min(b){}",
    "bit_and(n){}",
    "bit_or(n){}",
    "bit_xor(n){}",
    "bit_xor(DISTINCT n){}",
    "bool_and(b){}",
    "bool_or(b){}",
    "median(f){}",
    "median(DISTINCT y){}",
    "percentile_cont(f, 0.5){}",
    "percentile_cont(f, 0.25){}",
    "percentile_cont(DISTINCT y, 0.5){}",
    "percentile_cont(0.75) WITHIN GROUP (ORDER BY f){}",
    "approx_distinct(n){}",
    "round(approx_median(f){})",
    "round(approx_percentile_cont(f, 0.9){})",
    "round(stddev(f){}::numeric, 3)",
    "round(stddev_pop(y){}::numeric, 3)",
    "round(var_samp(f){}::numeric, 3)",
    "round(var_pop(y){}::numeric, 3)",
    "round(covar_samp(f, y){}::numeric, 3)",
    "round(covar_pop(f, y){}::numeric, 3)",
    "round(corr(f, y){}::numeric, 6)",
    "round(regr_slope(f, y){}::numeric, 3)",
    "regr_count(f, y){}",
    "round(regr_r2(f, y){}::numeric, 6)",
    "cardinality(array_agg(x){})",
    "array_sort(array_agg(DISTINCT n){})",
    "length(string_agg(x::text, ','){})",
    "first_value(c){}",
    "first_state_only(n){}",
];

/// The rows, each as text. The aggregates are DataFusion's, in its dialect.
async fn sorted(session: &Session, sql: &str) -> Result<Vec<String>> {
    let query = session.context().sql(sql).await?;
    let mut rows = collect(query.execute_stream().await?).await?;
    rows.sort_unstable();
    Ok(rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_of_many_chunks_is_that_of_one() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    // One partition and no fragments: one accumulator sees every row, and no state is merged.
    let oracle = open(folder.path(), 1, false).await;
    let mut shared = 0;
    for partitions in [1, 4] {
        let session = open(folder.path(), partitions, true).await;
        for aggregate in AGGREGATES {
            let filters = [
                "",
                " FILTER (WHERE x > 2)",
                " FILTER (WHERE x > 8)",
                " FILTER (WHERE x > 10)",
                " FILTER (WHERE n IS NULL)",
            ];
            for filter in filters {
                let call = aggregate.replace("{}", filter);
                for sql in [
                    format!("SELECT {call} FROM t"),
                    format!("SELECT {call} FROM t WHERE x > 1"),
                    format!("SELECT g, {call} FROM t GROUP BY g"),
                    format!("SELECT count(*), {call}, percentile_cont(f, 0.5) FROM t"),
                ] {
                    // DataFusion's own final aggregate merges states of a group in one call.
                    let of_datafusion = ["first_state", "bit_xor(DISTINCT"];
                    let of_datafusion = of_datafusion.iter().any(|name| sql.contains(name));
                    if sql.contains("GROUP BY") && of_datafusion && partitions > 1 {
                        continue;
                    }
                    let Ok(expected) = sorted(&oracle, &sql).await else {
                        // DataFusion has no such form of the function.
                        assert!(sorted(&session, &sql).await.is_err(), "{sql}");
                        continue;
                    };
                    let found = sorted(&session, &sql).await.unwrap();
                    assert_eq!(found, expected, "{partitions}: {sql}");
                }
            }
            let explained = format!("EXPLAIN SELECT {} FROM t", aggregate.replace("{}", ""));
            let plan = sorted(&session, &explained).await.unwrap();
            shared += usize::from(plan.join("\n").contains("FragmentExec"));
        }
    }
    assert!(shared > AGGREGATES.len(), "{shared} of them were fragments");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_percentile_is_of_all_chunks() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for partitions in [1, 2, 4] {
        let session = open(folder.path(), partitions, true).await;
        for (sql, expected) in [
            ("SELECT percentile_cont(f, 0.5) FROM t", "65000.0"),
            ("SELECT quantile_cont(f, 0.5) FROM t", "65000.0"),
            (
                "SELECT percentile_cont(f, 0.5) FILTER (WHERE x = 10) FROM t",
                "110000.0",
            ),
            ("SELECT first_state_only(x) FROM t", "55"),
            (
                "SELECT first_state_only(x) FILTER (WHERE x > 9) FROM t",
                "10",
            ),
        ] {
            assert_eq!(rows(&session, sql).await, [expected], "{partitions}: {sql}");
        }
        let grouped = "SELECT g, first_state_only(x) FROM t GROUP BY g";
        if partitions == 1 {
            assert_eq!(rows(&session, grouped).await, ["0|30", "1|25"]);
        }
        let plan = rows(&session, &format!("EXPLAIN {grouped}"))
            .await
            .join("\n");
        assert!(!plan.contains("FragmentExec"), "{plan}");
        let plan = rows(&session, "EXPLAIN SELECT first_state_only(x) FROM t").await;
        assert!(plan.join("\n").contains("FragmentExec"), "{plan:?}");
    }
}
