//! Which index serves a scan, and with which condition?
//!
//! An index serves a scan if it covers files of the scan, at the listed versions, its keys have
//! the column's type, and the predicate has a conjunct on its column that ranges of keys can
//! answer: =, IN, BETWEEN, <, <=, >, >=, LIKE with a prefix, and OR of those. Of several indexes
//! the one with the narrowest kind of conjunct comes first, and others that cover the same files
//! are opened with it. The scan then uses the index whose leaves that may match have the fewest
//! entries, the first one if these are equal. A scan in the order of an index uses only that
//! index. All conjuncts on the column go to the index. Every row is also tested with the whole
//! predicate, so it does no harm if an index cannot decide a condition. Files that the index does
//! not cover are scanned separately.
//! Not here: when an index is used (`plan/swap_scans.rs`), how (`execution.rs`).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use coscan_core::smooth::{AccessPath, SmoothPolicy, SmoothTrigger};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterTracking, InListExpr, LikeExpr, Literal,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, conjunction, split_conjunction};

use crate::index::ASCENDING;
use crate::index_catalog::Index;
use crate::read::scan::{Delivery, ScanPlan};

/// The plan of an index scan.
#[derive(Clone)]
pub(crate) struct SmoothPlan {
    pub(crate) path: AccessPath,
    /// The condition with the narrowest kind of conjunct.
    pub(crate) condition: IndexCondition,
    /// Conditions of other indexes that cover the same files: once all are open, the scan uses the
    /// one with the fewest entries. At most [`CANDIDATES_MAX`], with the first.
    pub(crate) others: Vec<IndexCondition>,
    /// The scan of the files that the index covers.
    pub(crate) covered: Arc<ScanPlan>,
    /// The scan of the other files.
    pub(crate) rest: Option<Arc<ScanPlan>>,
    /// The number of rows that the query needs.
    pub(crate) limit: Option<usize>,
    /// The order in which rows must come, if any; there is then one partition.
    pub(crate) ordered_by: Option<KeyOrder>,
}

/// An index, and the condition on its keys.
#[derive(Clone)]
pub(crate) struct IndexCondition {
    pub(crate) index: Arc<Index>,
    /// The conjuncts on the indexed column, over the table.
    pub(crate) predicate: Arc<dyn PhysicalExpr>,
    /// The column's type in the table.
    pub(crate) key: DataType,
}

/// The order of the indexed column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyOrder {
    /// The column's position in the output.
    pub(crate) column: usize,
    /// Ascending or descending. NULL keys match no predicate that an index serves, so their place
    /// does not matter.
    pub(crate) options: SortOptions,
}

impl SmoothPlan {
    /// The plan for a scan; `None` if no index serves it.
    pub(crate) fn choose(plan: &ScanPlan) -> Option<Self> {
        let predicate = plan.table.predicate.as_ref()?;
        let mut candidates: Vec<(Kind, Arc<Index>)> = usable_indexes(plan)
            .filter_map(|index| {
                let column = index.manifest.column.as_str();
                let conjuncts = split_conjunction(predicate).into_iter();
                let kind = conjuncts
                    .filter_map(|conjunct| kind(conjunct, column))
                    .max()?;
                Some((kind, index))
            })
            .collect();
        candidates.sort_by_key(|(kind, _)| Reverse(*kind));
        let mut columns: BTreeSet<String> = BTreeSet::new();
        candidates.retain(|(_, index)| columns.insert(index.manifest.column.clone()));
        let asked = |index: &Index| {
            let column = index.manifest.column.as_str();
            let conjuncts = split_conjunction(predicate).into_iter();
            conjunction(conjuncts.filter(|c| kind(c, column).is_some()).cloned())
        };
        let mut candidates = candidates.into_iter().map(|(_, index)| index);
        let first = candidates.next()?;
        let alike = |index: &Arc<Index>| {
            let mut files = plan.files.iter();
            files.all(|file| covers(index, plan, file) == covers(&first, plan, file))
        };
        let others = candidates.filter(alike).take(CANDIDATES_MAX - 1);
        let others =
            others.filter_map(|index| IndexCondition::new(plan, Arc::clone(&index), asked(&index)));
        Some(Self {
            others: others.collect(),
            ..Self::new(plan, Arc::clone(&first), asked(&first))?
        })
    }

    /// The plan that uses `index` for `predicate`; `None` if the index covers no file.
    pub(crate) fn new(
        plan: &ScanPlan,
        index: Arc<Index>,
        predicate: Arc<dyn PhysicalExpr>,
    ) -> Option<Self> {
        Some(Self {
            path: plan.settings.access_path,
            covered: Arc::new(plan.only(|file| covers(&index, plan, file))?),
            rest: plan.only(|file| !covers(&index, plan, file)).map(Arc::new),
            limit: plan.limit,
            ordered_by: None,
            condition: IndexCondition::new(plan, index, predicate)?,
            others: Vec::new(),
        })
    }

    /// The conditions of all candidates, one of which is used.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &IndexCondition> {
        std::iter::once(&self.condition).chain(&self.others)
    }

    /// The number of output partitions.
    pub(crate) fn partitions(&self) -> usize {
        match self.ordered_by {
            Some(_) => 1,
            None => self.covered.partitions.len(),
        }
    }

    /// Whether leaves may be sampled for the number of pages before the first page is read. Not
    /// under a limit: a query for a few rows wants the first of them soon.
    pub(crate) fn may_look_first(&self) -> bool {
        let settings = &self.covered.settings;
        self.path == AccessPath::Smooth
            && settings.smooth_policy == SmoothPolicy::Elastic
            && settings.smooth_trigger == SmoothTrigger::Eager
            && self.limit.is_none()
    }

    /// The order of the output rows, if they have one.
    pub(crate) fn ordering(&self) -> Option<Vec<PhysicalSortExpr>> {
        let KeyOrder { column, options } = self.ordered_by?;
        let field = self.covered.schema.fields().get(column)?;
        let column = Arc::new(Column::new(field.name(), column));
        Some(vec![PhysicalSortExpr::new(column, options)])
    }

    /// The order in which the index is read.
    pub(crate) fn key_order(&self) -> SortOptions {
        self.ordered_by.map_or(ASCENDING, |order| order.options)
    }

    /// The same scan with its rows in this order; `None` if it cannot return them in this order.
    pub(crate) fn in_order(&self, order: &[PhysicalSortExpr]) -> Option<Self> {
        let one_by_one = matches!(self.path, AccessPath::Index | AccessPath::Smooth);
        let [order] = order else { return None };
        let column = order.expr.downcast_ref::<Column>()?;
        if !one_by_one || self.rest.is_some() {
            return None;
        }
        let output = self.covered.table.projection.iter().nth(column.index())?;
        let table_column = output.expr.downcast_ref::<Column>()?;
        // The other indexes do not list rows in this order.
        (table_column.name() == self.condition.index.manifest.column).then(|| Self {
            others: Vec::new(),
            ordered_by: Some(KeyOrder {
                column: column.index(),
                options: order.options,
            }),
            ..self.clone()
        })
    }
}

impl IndexCondition {
    /// `None` if the table has no such column.
    fn new(plan: &ScanPlan, index: Arc<Index>, predicate: Arc<dyn PhysicalExpr>) -> Option<Self> {
        let schema = plan.table.schema.table_schema();
        let column = schema.field_with_name(&index.manifest.column).ok()?;
        Some(Self {
            key: column.data_type().clone(),
            index,
            predicate,
        })
    }
}

impl fmt::Display for SmoothPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.covered.settings;
        let IndexCondition {
            index, predicate, ..
        } = &self.condition;
        let manifest = &index.manifest;
        match self.path {
            AccessPath::Smooth => write!(
                f,
                "SmoothScan: index={}, smooth_policy={}, trigger={}",
                manifest.name,
                settings.smooth_policy.name(),
                settings.smooth_trigger.name()
            )?,
            path => write!(
                f,
                "IndexScan: index={}, access_path={}",
                manifest.name,
                path.name()
            )?,
        }
        write!(f, ", key=[{predicate}]")?;
        for IndexCondition {
            index, predicate, ..
        } in &self.others
        {
            let name = &index.manifest.name;
            write!(f, ", or index={name}, key=[{predicate}]")?;
        }
        if let Some(rest) = &self.rest {
            write!(f, ", files_not_covered={}", rest.files.len())?;
        }
        match self.ordered_by {
            Some(order) if order.options.descending => write!(f, ", ordered descending")?,
            Some(_) => write!(f, ", ordered")?,
            None => {}
        }
        Ok(())
    }
}

/// The indexes that a scan may use: they are not broken, they cover files that it reads, and their
/// keys have the column's type in this table.
pub(super) fn usable_indexes(plan: &ScanPlan) -> impl Iterator<Item = Arc<Index>> + '_ {
    let may_use =
        plan.settings.access_path != AccessPath::Full && plan.delivery == Delivery::Shared;
    let all = may_use.then(|| plan.resources.indexes().all());
    all.into_iter().flatten().filter(|index| {
        index.broken().is_none()
            && has_its_keys(index, plan)
            && plan.files.iter().any(|file| covers(index, plan, file))
    })
}

fn has_its_keys(index: &Index, plan: &ScanPlan) -> bool {
    let schema = plan.table.schema.table_schema();
    let column = schema.field_with_name(&index.manifest.column);
    column.is_ok_and(|column| index.has_keys_of(column.data_type()))
}

fn covers(index: &Index, plan: &ScanPlan, file: &PartitionedFile) -> bool {
    index.manifest.covers(&plan.key(file))
}

/// The most indexes that are opened to find the one with the fewest entries. Each costs a read of
/// its page index; all are read at once.
const CANDIDATES_MAX: usize = 4;

/// How narrow a conjunct is, judged by its form alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// One end of a range.
    Bound,
    /// A prefix, or both ends.
    Range,
    /// A list of values.
    List,
    /// One value.
    Equal,
}

/// The kind of a conjunct on the column; `None` if ranges of keys cannot answer it.
fn kind(conjunct: &Arc<dyn PhysicalExpr>, column: &str) -> Option<Kind> {
    let columns = collect_columns(conjunct);
    if columns.len() != 1 || columns.iter().any(|c| c.name() != column) {
        return None;
    }
    if DynamicFilterTracking::classify(conjunct).contains_dynamic_filter() {
        return None;
    }
    let mut answered = true;
    let walked = conjunct.apply(|node| {
        answered &= node.is::<Column>() || node.is::<Literal>() || simple(node).is_some();
        Ok(if answered {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    if !answered || walked.is_err() {
        return None;
    }
    simple(conjunct)
}

/// The kind of one node, without regard to its children.
fn simple(node: &Arc<dyn PhysicalExpr>) -> Option<Kind> {
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        let is_leaf = |e: &Arc<dyn PhysicalExpr>| e.is::<Column>() || e.is::<Literal>();
        let leaves = is_leaf(binary.left()) && is_leaf(binary.right());
        return match binary.op() {
            Operator::Eq if leaves => Some(Kind::Equal),
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq if leaves => {
                Some(Kind::Bound)
            }
            Operator::And if !leaves => Some(Kind::Range),
            Operator::Or if !leaves => Some(Kind::List),
            _ => None,
        };
    }
    if let Some(list) = node.downcast_ref::<InListExpr>() {
        let literals = list.list().iter().all(|value| value.is::<Literal>());
        return (!list.negated() && literals && list.expr().is::<Column>()).then_some(Kind::List);
    }
    let like = node.downcast_ref::<LikeExpr>()?;
    let pattern = like
        .pattern()
        .downcast_ref::<Literal>()?
        .value()
        .try_as_str()
        .flatten()?;
    let has_prefix = !pattern.is_empty() && !pattern.starts_with(['%', '_']);
    (!like.negated() && !like.case_insensitive() && like.expr().is::<Column>() && has_prefix)
        .then_some(Kind::Range)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    fn compare(op: Operator, value: i32) -> Arc<dyn PhysicalExpr> {
        let schema = Schema::new(vec![Field::new("c", DataType::Int32, true)]);
        binary(col("c", &schema).unwrap(), op, lit(value), &schema).unwrap()
    }

    fn both(
        a: Arc<dyn PhysicalExpr>,
        op: Operator,
        b: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(a, op, b))
    }

    #[test]
    fn ranges_of_keys_answer_comparisons_and_nothing_else() {
        assert_eq!(kind(&compare(Operator::Eq, 1), "c"), Some(Kind::Equal));
        assert_eq!(kind(&compare(Operator::Lt, 1), "c"), Some(Kind::Bound));
        assert_eq!(kind(&compare(Operator::NotEq, 1), "c"), None);
        assert_eq!(kind(&compare(Operator::Eq, 1), "d"), None);
        let sum = both(compare(Operator::Plus, 1), Operator::Eq, lit(3));
        assert_eq!(kind(&sum, "c"), None);
        let either = both(
            compare(Operator::Eq, 1),
            Operator::Or,
            compare(Operator::Gt, 9),
        );
        assert_eq!(kind(&either, "c"), Some(Kind::List));
        let not = both(
            compare(Operator::Eq, 1),
            Operator::Or,
            compare(Operator::NotEq, 9),
        );
        assert_eq!(kind(&not, "c"), None);
    }
}
