//! What does a subtree of a plan compute?
//!
//! Each node on the list below has a key, made of what the node does and the keys of its inputs.
//! Columns are named by position, because outputs of joins repeat names.
//! I9: a node that is not on the list has no key, and neither has any node above it.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use coscan_core::operators::OperatorKind;
use coscan_pg::StatedExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use super::scan::{scan, scan_bytes};
use crate::fragment::{Elsewhere, FragmentExec, KeyWriter};
use crate::once::OnceExec;
use crate::operators::{KeptFunctions, PlanKey, dynamic_filter};
use crate::ordered::{ClusteredJoinExec, OrderedAggregateExec};
use crate::plan::checked_orders::CheckedOrderExec;
use crate::tasks::YieldingExec;

/// A node of a plan, and what is known of the subtree below it.
pub(super) struct Noted {
    pub(super) node: Arc<dyn ExecutionPlan>,
    /// The children that may be wrapped.
    pub(super) children: Vec<Noted>,
    /// What the subtree computes.
    pub(super) key: Option<Arc<PlanKey>>,
    /// The kind, if the node is shared wherever it stands.
    pub(super) kind: Option<OperatorKind>,
    /// The node does hardly any work.
    pub(super) is_thin: bool,
    /// The subtree has an operator that is shared wherever it stands.
    pub(super) works: bool,
    /// Bytes that the subtree's scans read.
    pub(super) cost_bytes: u64,
    /// What nodes of the subtree get from other nodes at run time, without results of subqueries
    /// that are made in the subtree.
    used: Vec<Elsewhere>,
    /// The dynamic filters that are made in the subtree.
    made: BTreeSet<u64>,
}

impl Noted {
    /// Whether all that the subtree gets at run time is made in it.
    pub(super) fn is_closed(&self) -> bool {
        self.used.iter().all(|used| match used {
            Elsewhere::Filter(id) => self.made.contains(id),
            Elsewhere::Subqueries(_) => false,
        })
    }

    /// Notes what a scan costs, and its key.
    fn reads(&mut self, source: &DataSourceExec) {
        let (cost_bytes, key) = scan(source).unwrap_or_default();
        self.cost_bytes = cost_bytes;
        self.key = key.map(|key| {
            self.uses(key.from_elsewhere);
            Arc::new(PlanKey::new(key.text, key.functions, Vec::new()))
        });
    }

    fn uses(&mut self, used: Vec<Elsewhere>) {
        for one in used {
            if !self.used.contains(&one) {
                self.used.push(one);
            }
        }
    }

    /// A subquery is named by its number, which does not tell to which of two sets it belongs.
    fn is_ambiguous(&self) -> bool {
        let subqueries = |used: &&Elsewhere| matches!(used, Elsewhere::Subqueries(_));
        self.used.iter().filter(subqueries).count() > 1
    }
}

/// Bytes that the scans of a plan read, as [`note`] counts them. It writes nothing down, so a short
/// statement finds out cheaply that it shares nothing.
pub(super) fn cost_bytes(node: &Arc<dyn ExecutionPlan>) -> u64 {
    if node.is::<RecursiveQueryExec>() || node.is::<OnceExec>() {
        return 0;
    }
    if let Some(fragment) = node.downcast_ref::<FragmentExec>() {
        return cost_bytes(fragment.partial());
    }
    if let Some(original) = computed_by_chunk(node) {
        return cost_bytes(original);
    }
    if let Some(source) = node.downcast_ref::<DataSourceExec>() {
        return scan_bytes(source);
    }
    let children = node.children().into_iter().map(cost_bytes);
    children.fold(0, u64::saturating_add)
}

/// What a node computes that works by chunk.
fn computed_by_chunk(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    match node.downcast_ref::<OrderedAggregateExec>() {
        Some(ordered) => Some(ordered.original()),
        None => node
            .downcast_ref::<ClusteredJoinExec>()
            .map(ClusteredJoinExec::original),
    }
}

/// What is known of a plan.
pub(super) fn note(node: &Arc<dyn ExecutionPlan>) -> Noted {
    let mut noted = Noted {
        node: Arc::clone(node),
        children: Vec::new(),
        key: None,
        kind: kind(node),
        is_thin: is_thin(node),
        works: false,
        cost_bytes: 0,
        used: Vec::new(),
        made: BTreeSet::new(),
    };
    noted.works = noted.kind.is_some();
    let made = node.dynamic_expressions_produced();
    noted
        .made
        .extend(made.iter().filter_map(|expr| expr.expression_id()));
    // A recursive query executes the plan below it several times. What `OnceExec` shows below
    // itself was planned by itself, and may be volatile.
    if node.is::<RecursiveQueryExec>() || node.is::<OnceExec>() {
        return noted;
    }
    if let Some(noted) = noted_by_original(node) {
        return noted;
    }
    if let Some(source) = node.downcast_ref::<DataSourceExec>() {
        noted.reads(source);
        return noted;
    }
    let mut writer = KeyWriter::of_operator();
    let mut has_key = write(&mut writer, node).is_some();
    let (text, functions, used) = writer.into_parts();
    noted.uses(used);
    let mut inputs = Vec::new();
    for child in node.children() {
        let child = note(child);
        noted.works |= child.works;
        noted.cost_bytes = noted.cost_bytes.saturating_add(child.cost_bytes);
        noted.uses(child.used.clone());
        noted.made.extend(&child.made);
        match &child.key {
            Some(key) => inputs.push(Arc::clone(key)),
            None => has_key = false,
        }
        noted.children.push(child);
    }
    has_key &= !noted.is_ambiguous();
    if let Some(subqueries) = node.downcast_ref::<ScalarSubqueryExec>() {
        let own = Elsewhere::Subqueries(subqueries.results().clone());
        noted.used.retain(|used| *used != own);
    }
    if has_key {
        noted.key = Some(Arc::new(PlanKey::new(text, functions, inputs)));
    }
    noted
}

/// What is known of a node that computes what the plan that it replaces computes; `None` for
/// another node.
fn noted_by_original(node: &Arc<dyn ExecutionPlan>) -> Option<Noted> {
    if let Some(fragment) = node.downcast_ref::<FragmentExec>() {
        return Some(noted_instead(node, fragment.partial()));
    }
    let mut noted = noted_instead(node, computed_by_chunk(node)?);
    // The rows are those of the original, but neither partitioned nor ordered as the original may
    // have them.
    let key = noted.key.take();
    noted.key = key.map(|key| {
        Arc::new(PlanKey::new(
            node.name().to_owned(),
            KeptFunctions::default(),
            vec![key],
        ))
    });
    Some(noted)
}

/// What is known of a node that replaces another.
fn noted_instead(node: &Arc<dyn ExecutionPlan>, original: &Arc<dyn ExecutionPlan>) -> Noted {
    Noted {
        node: Arc::clone(node),
        children: Vec::new(),
        ..note(original)
    }
}

/// The kind of a node that is shared wherever it stands.
fn kind(node: &Arc<dyn ExecutionPlan>) -> Option<OperatorKind> {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let single = aggregate.group_expr().is_true_no_grouping();
        return match aggregate.mode() {
            // The states of a chunk or a partition are merged above.
            AggregateMode::Partial | AggregateMode::PartialReduce => None,
            _ if single => Some(OperatorKind::SingleAggregate),
            _ => Some(OperatorKind::Aggregate),
        };
    }
    if node.is::<SortExec>() {
        return Some(OperatorKind::Sort);
    }
    if node.is::<HashJoinExec>() {
        return Some(OperatorKind::HashJoin);
    }
    if node.is::<SortMergeJoinExec>() {
        return Some(OperatorKind::MergeJoin);
    }
    let loops = node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>();
    loops.then_some(OperatorKind::LoopJoin)
}

fn is_thin(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<ProjectionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<RepartitionExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<CooperativeExec>()
        || node.is::<YieldingExec>()
        || node.is::<CheckedOrderExec>()
        || node.is::<StatedExec>()
}

/// Writes what a node does with its inputs; `None` if the node is not on the list.
fn write(writer: &mut KeyWriter, node: &Arc<dyn ExecutionPlan>) -> Option<()> {
    writer.word(node.name());
    writer.word(&format!("{:?}", node.fetch()));
    let input = || node.children().first().map(|child| child.schema());
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        writer.word(&format!("{:?}", filter.projection()));
        return writer.expr(filter.predicate(), &*input()?);
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let exprs = projection.expr().iter();
        let exprs: Vec<_> = exprs.map(|column| Arc::clone(&column.expr)).collect();
        return writer.list(&exprs, &*input()?);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return write_aggregate(writer, aggregate);
    }
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        writer.word(&sort.preserve_partitioning().to_string());
        return writer.order(sort.expr(), &*input()?);
    }
    if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
        return writer.order(merge.expr(), &*input()?);
    }
    if let Some(repartition) = node.downcast_ref::<RepartitionExec>() {
        return write_repartition(writer, repartition);
    }
    if let Some(limit) = node.downcast_ref::<GlobalLimitExec>() {
        writer.word(&limit.skip().to_string());
        return Some(());
    }
    if let Some(subqueries) = node.downcast_ref::<ScalarSubqueryExec>() {
        let numbers = subqueries
            .subqueries()
            .iter()
            .map(|link| link.index.as_usize());
        writer.word(&format!("{:?}", numbers.collect::<Vec<_>>()));
        return Some(());
    }
    if node.is::<EmptyExec>() || node.is::<PlaceholderRowExec>() {
        let partitions = node.output_partitioning().partition_count();
        writer.word(&format!("{partitions} {:?}", node.schema()));
        return Some(());
    }
    let plain = node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<YieldingExec>()
        || node.is::<CheckedOrderExec>()
        || node.is::<StatedExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<UnionExec>()
        || node.is::<InterleaveExec>()
        || node.is::<CrossJoinExec>();
    if plain {
        return Some(());
    }
    write_join(writer, node)
}

fn write_repartition(writer: &mut KeyWriter, repartition: &RepartitionExec) -> Option<()> {
    writer.word(&repartition.preserve_order().to_string());
    match repartition.partitioning() {
        Partitioning::RoundRobinBatch(count) => {
            writer.word(&format!("round robin {count}"));
            Some(())
        }
        Partitioning::Hash(exprs, count) => {
            writer.word(&format!("hash {count}"));
            writer.list(exprs, &repartition.input().schema())
        }
        Partitioning::Range(_) | Partitioning::UnknownPartitioning(_) => None,
    }
}

fn write_join(writer: &mut KeyWriter, node: &Arc<dyn ExecutionPlan>) -> Option<()> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        writer.word(&format!(
            "{:?} {:?} {:?} {} {:?}",
            join.join_type(),
            join.partition_mode(),
            join.null_equality(),
            join.null_aware,
            join.projection,
        ));
        let (left, right) = (join.left().schema(), join.right().schema());
        writer.word(&join.on().len().to_string());
        for (of_left, of_right) in join.on() {
            writer.expr(of_left, &left)?;
            writer.expr(of_right, &right)?;
        }
        return write_filter(writer, join.filter());
    }
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        writer.word(&format!(
            "{:?} {:?} {:?}",
            join.join_type(),
            join.null_equality(),
            join.sort_options(),
        ));
        let (left, right) = (join.left().schema(), join.right().schema());
        writer.word(&join.on().len().to_string());
        for (of_left, of_right) in join.on() {
            writer.expr(of_left, &left)?;
            writer.expr(of_right, &right)?;
        }
        return write_filter(writer, join.filter().as_ref());
    }
    let join = node.downcast_ref::<NestedLoopJoinExec>()?;
    writer.word(&format!("{:?} {:?}", join.join_type(), join.projection()));
    write_filter(writer, join.filter())
}

/// What the hash table of a join holds, if its rows are those that `build` computes.
pub(super) fn table_key(join: &HashJoinExec, build: &Arc<PlanKey>) -> Option<Arc<PlanKey>> {
    let mut writer = KeyWriter::of_operator();
    writer.word(&format!("table {:?}", join.null_equality()));
    // A table has bounds if a filter is made from it.
    writer.word(&dynamic_filter(join).is_some().to_string());
    let keys: Vec<_> = join.on().iter().map(|(key, _)| Arc::clone(key)).collect();
    writer.list(&keys, &join.left().schema())?;
    let (text, functions, used) = writer.into_parts();
    let key = || Arc::new(PlanKey::new(text, functions, vec![Arc::clone(build)]));
    used.is_empty().then(key)
}

fn write_filter(writer: &mut KeyWriter, filter: Option<&JoinFilter>) -> Option<()> {
    let Some(filter) = filter else {
        writer.word("no filter");
        return Some(());
    };
    let columns = filter.column_indices().iter();
    let columns = columns.map(|ColumnIndex { index, side }| format!("{index} {side:?}"));
    writer.word(&columns.collect::<Vec<_>>().join(","));
    writer.expr(filter.expression(), filter.schema())
}

fn write_aggregate(writer: &mut KeyWriter, aggregate: &AggregateExec) -> Option<()> {
    // A final aggregate's functions refer to the columns of the partial aggregate's input, but its
    // groups to those of its own input.
    let of_functions = aggregate.input_schema();
    let of_groups = aggregate.input().schema();
    let group = aggregate.group_expr();
    writer.word(&format!(
        "{:?} {:?} {} {:?} {:?}",
        aggregate.mode(),
        group.groups(),
        group.has_grouping_set(),
        aggregate.limit_options(),
        aggregate.input_order_mode(),
    ));
    let exprs = |pairs: &[(Arc<dyn datafusion::physical_expr::PhysicalExpr>, String)]| {
        pairs
            .iter()
            .map(|(expr, _)| Arc::clone(expr))
            .collect::<Vec<_>>()
    };
    let of_groups: &Schema = &of_groups;
    writer.list(&exprs(group.expr()), of_groups)?;
    writer.list(&exprs(group.null_expr()), of_groups)?;
    writer.word(&aggregate.aggr_expr().len().to_string());
    let filters = aggregate.filter_expr();
    for (function, filter) in aggregate.aggr_expr().iter().zip(filters) {
        let args = function.expressions();
        writer.aggregate(function, &args, filter.as_ref(), &of_functions)?;
    }
    Some(())
}
