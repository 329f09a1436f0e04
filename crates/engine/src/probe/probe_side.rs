//! When does a scan on the probe side of a join use an index?
//!
//! A hash join with a small build side tells the probe side which keys it wants before it reads
//! the first row (DataFusion's dynamic filters). If the keys come as a list and their column has
//! an index, the scan looks all of them up at once: an index nested-loops join that reads no page
//! twice. Otherwise the scan is a cooperative scan. The first stream of an execution that is
//! polled decides, for all its streams.
//! Not here: the catalogue of indexes (`crate::index_catalog`), how an index is read
//! (`execution.rs`).
//! Source: [SmoothScan18 §4.2], smooth scan as the inner input of a join; we differ: all keys are
//! looked up together, not one by one.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::ScalarValue;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, DynamicFilterTracking, InListExpr, Literal,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use super::execution::SmoothExecution;
use super::plan::{SmoothPlan, usable_indexes};
use crate::index_catalog::Index;
use crate::read::scan::{self, Execution, ScanPlan};

/// The longest list of keys that is looked up in an index; a full scan answers longer lists.
const KEYS_MAX: usize = 100_000;

/// The plan of a scan on the probe side.
pub(crate) struct ProbeSidePlan {
    /// The full scan.
    pub(crate) whole: Arc<ScanPlan>,
    candidates: Vec<Candidate>,
}

/// An index, and the conjunct that may become a list of its keys.
struct Candidate {
    index: Arc<Index>,
    conjunct: Arc<dyn PhysicalExpr>,
}

impl ProbeSidePlan {
    /// The plan for a scan; `None` if no dynamic filter is on the column of a usable index.
    pub(crate) fn choose(plan: &ScanPlan) -> Option<Self> {
        let predicate = plan.table.predicate.as_ref()?;
        let mut candidates = Vec::new();
        for index in usable_indexes(plan) {
            let column = index.manifest.column.as_str();
            let conjuncts = split_conjunction(predicate).into_iter();
            candidates.extend(
                conjuncts
                    .filter(|conjunct| is_dynamic_over(conjunct, column))
                    .map(|conjunct| Candidate {
                        index: Arc::clone(&index),
                        conjunct: Arc::clone(conjunct),
                    }),
            );
        }
        (!candidates.is_empty()).then(|| Self {
            whole: Arc::new(plan.clone()),
            candidates,
        })
    }

    /// The index scan for the shortest current list of keys; `None` if there is no list, or if it
    /// is empty or too long.
    fn by_index(&self) -> Option<SmoothPlan> {
        let lists = self.candidates.iter().filter_map(|candidate| {
            let wanted = snapshot_physical_expr(Arc::clone(&candidate.conjunct)).ok()?;
            let keys = keys(&wanted, &candidate.index.manifest.column)?;
            Some((candidate, keys))
        });
        let (candidate, keys) = lists.min_by_key(|(_, keys)| keys.len())?;
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return None;
        }
        let schema = self.whole.table.schema.table_schema();
        let name = candidate.index.manifest.column.as_str();
        let column = Column::new(name, schema.index_of(name).ok()?);
        let keys = ScalarValue::iter_to_array(keys).ok()?;
        let list = InListExpr::try_new_from_array(Arc::new(column), keys, false, schema).ok()?;
        SmoothPlan::new(&self.whole, Arc::clone(&candidate.index), Arc::new(list))
    }
}

impl fmt::Display for ProbeSidePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.candidates.iter();
        let names: Vec<&str> = names.map(|c| c.index.manifest.name.as_str()).collect();
        write!(
            f,
            "CScan: or by index for few keys of a join=[{}]",
            names.join(", ")
        )
    }
}

fn is_dynamic_over(conjunct: &Arc<dyn PhysicalExpr>, column: &str) -> bool {
    let columns = collect_columns(conjunct);
    columns.len() == 1
        && columns.iter().all(|c| c.name() == column)
        && DynamicFilterTracking::classify(conjunct).contains_dynamic_filter()
}

/// Keys of which a row must have one for `expr` to be true; `None` if `expr` has no such list. (A
/// hash join over several partitions lists the keys of each hash.)
fn keys(expr: &Arc<dyn PhysicalExpr>, column: &str) -> Option<Vec<ScalarValue>> {
    let value =
        |expr: &Arc<dyn PhysicalExpr>| Some(expr.downcast_ref::<Literal>()?.value().clone());
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let is_key = list.expr().downcast_ref::<Column>()?.name() == column;
        let values = list.list().iter().map(value);
        return (is_key && !list.negated()).then(|| values.collect())?;
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let sides = [binary.left(), binary.right()].map(|side| keys(side, column));
        return match (binary.op(), sides) {
            (Operator::And, [Some(left), Some(right)]) => Some(if left.len() < right.len() {
                left
            } else {
                right
            }),
            (Operator::And, [left, right]) => left.or(right),
            (Operator::Or, [Some(left), Some(right)]) => Some([left, right].concat()),
            _ => None,
        };
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        let thens = case.when_then_expr().iter().map(|(_, then)| then);
        let mut all = Vec::new();
        for branch in thens.chain(case.else_expr()) {
            all.extend(keys(branch, column)?);
        }
        // Without ELSE, a row that takes no branch is NULL, which is not true.
        return Some(all);
    }
    // FALSE is true for no row, so no key is wanted.
    (value(expr)? == ScalarValue::Boolean(Some(false))).then(Vec::new)
}

/// The state that the streams of one execution share.
pub(crate) struct ProbeSideExecution {
    plan: Arc<ProbeSidePlan>,
    whole: Arc<Execution>,
    metrics: ExecutionPlanMetricsSet,
    by_index: OnceLock<Option<Arc<SmoothExecution>>>,
}

impl ProbeSideExecution {
    pub(crate) fn new(plan: Arc<ProbeSidePlan>, metrics: ExecutionPlanMetricsSet) -> Self {
        let whole = Execution::new(Arc::clone(&plan.whole), metrics.clone());
        Self {
            plan,
            whole: Arc::new(whole),
            metrics,
            by_index: OnceLock::new(),
        }
    }

    fn by_index(&self) -> Option<Arc<SmoothExecution>> {
        let chosen = self.by_index.get_or_init(|| {
            let plan = Arc::new(self.plan.by_index()?);
            Some(Arc::new(SmoothExecution::new(plan, self.metrics.clone())))
        });
        chosen.clone()
    }
}

/// The stream of one partition.
pub(crate) fn open(
    execution: Arc<ProbeSideExecution>,
    partition: usize,
    context: &Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(&execution.plan.whole.schema);
    let (context, metrics) = (Arc::clone(context), metrics.clone());
    let rows = stream::once(async move {
        match execution.by_index() {
            Some(by_index) => super::open(by_index, partition, &context, &metrics),
            None => {
                let batch_rows = context.session_config().batch_size();
                let whole = Arc::clone(&execution.whole);
                scan::open(whole, partition, batch_rows, &metrics)
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows.flatten()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, in_list, lit};

    use super::*;

    #[test]
    fn keys_are_those_that_every_row_must_have_one_of() {
        let fields = ["k", "other"].map(|name| Field::new(name, DataType::Int32, true));
        let schema = Schema::new(fields.to_vec());
        let k = || col("k", &schema).unwrap();
        let list = |of: Arc<dyn PhysicalExpr>, values: &[i32]| {
            let values = values.iter().map(|value| lit(*value)).collect();
            in_list(of, values, &false, &schema).unwrap()
        };
        let two = |a, op, b| binary(a, op, b, &schema).unwrap();
        let bounds = two(k(), Operator::Gt, lit(0));
        let found = |expr: &Arc<dyn PhysicalExpr>| {
            let keys = keys(expr, "k")?.into_iter();
            let value = |key| match key {
                ScalarValue::Int32(value) => value,
                _ => None,
            };
            Some(keys.map(|key| value(key).unwrap()).collect::<Vec<i32>>())
        };
        let of_join = two(Arc::clone(&bounds), Operator::And, list(k(), &[1, 2, 3]));
        assert_eq!(found(&of_join), Some(vec![1, 2, 3]));
        assert_eq!(found(&bounds), None);
        assert_eq!(found(&lit(true)), None);
        let shorter = two(of_join.clone(), Operator::And, list(k(), &[9]));
        assert_eq!(found(&shorter), Some(vec![9]));
        let either = two(of_join.clone(), Operator::Or, list(k(), &[9]));
        assert_eq!(found(&either), Some(vec![1, 2, 3, 9]));
        // A row without a listed key may pass too, by the bounds or by the other column.
        let or_bounds = two(of_join.clone(), Operator::Or, Arc::clone(&bounds));
        assert_eq!(found(&or_bounds), None);
        assert_eq!(found(&list(col("other", &schema).unwrap(), &[1])), None);
        let by_hash = |other: Arc<dyn PhysicalExpr>| -> Arc<dyn PhysicalExpr> {
            let branches = vec![(lit(0_i32), of_join.clone()), (lit(1_i32), list(k(), &[7]))];
            Arc::new(CaseExpr::try_new(Some(k()), branches, Some(other)).unwrap())
        };
        assert_eq!(found(&by_hash(lit(false))), Some(vec![1, 2, 3, 7]));
        assert_eq!(found(&by_hash(lit(true))), None);
    }
}
