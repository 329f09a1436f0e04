//! Which orders and constants does DataFusion state for the rows of a join, though they lack them?
//!
//! A sort above such a join is dropped, and a window in the order of its keys sees the same key
//! several times (DataFusion 55.2, `join_equivalence_properties`):
//! - What is constant on a side of an outer join is stated to be constant above it, though rows
//!   without a partner have NULL there: `… LEFT JOIN (SELECT … WHERE c = 5) x … ORDER BY x.c`.
//! - A join that keeps the order of one side is stated to keep that of the other side behind it.
//!   The rows of the other side begin again with each row: `ORDER BY` a key with ties, `x.a`.
//!
//! While sorts and partitions are placed, a node above such a join states what holds. It goes
//! where the join's properties turn out to be right: a build side whose partitions were merged has
//! no order. To be deleted when DataFusion states what holds.
//! Not covered: merge joins whose inputs are sorted only while sorts are placed.
//! Not here: files whose rows are not in the order that they promise (the engine).

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::{
    EquivalenceClass, ProjectionMapping, join_equivalence_properties,
};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

use super::{PLACES_SORTS, Rule};
use crate::trees::Tree;

/// `rule`, held if it is that one.
pub(super) fn around(rule: Rule) -> Rule {
    if rule.name() == PLACES_SORTS {
        return Arc::new(Overstated(rule));
    }
    rule
}

/// See the file's header.
#[derive(Debug)]
struct Overstated(Rule);

impl PhysicalOptimizerRule for Overstated {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stated = plan.change_up(|node| {
            Ok(match what_holds(&node)? {
                Some(_) => Transformed::yes(Arc::new(StatedExec::new(node)?) as _),
                None => Transformed::no(node),
            })
        })?;
        let placed = self.0.optimize(stated.data, config)?;
        if !stated.transformed {
            return Ok(placed);
        }
        let needed = placed.change_up(|node| {
            let Some(stated) = node.downcast_ref::<StatedExec>() else {
                return Ok(Transformed::no(node));
            };
            Ok(match Join::of(&stated.child) {
                Some(join) if !join.overstates() => Transformed::yes(Arc::clone(&stated.child)),
                _ => Transformed::no(node),
            })
        });
        needed.data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// The properties that the rows of a join have; `None` if it states no others, or for another
/// node.
fn what_holds(node: &Arc<dyn ExecutionPlan>) -> Result<Option<EquivalenceProperties>> {
    match Join::of(node) {
        Some(join) if join.overstates() => join.what_holds(node).map(Some),
        _ => Ok(None),
    }
}

/// What the properties of a join follow from.
struct Join<'a> {
    left: &'a EquivalenceProperties,
    right: &'a EquivalenceProperties,
    kind: JoinType,
    on: &'a [(PhysicalExprRef, PhysicalExprRef)],
    /// The side whose order the join keeps.
    keeps: Option<JoinSide>,
    projection: Option<&'a [usize]>,
}

impl<'a> Join<'a> {
    fn of(node: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (kind, on, projection): (_, &[_], _) =
            if let Some(join) = node.downcast_ref::<HashJoinExec>() {
                (*join.join_type(), join.on(), join.projection.as_deref())
            } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
                (join.join_type(), join.on(), None)
            } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                (*join.join_type(), &[], join.projection().as_deref())
            } else {
                return None;
            };
        let &[left, right] = node.children().as_slice() else {
            return None;
        };
        let keeps = match node.maintains_input_order().as_slice() {
            [true, false] => Some(JoinSide::Left),
            [false, true] => Some(JoinSide::Right),
            _ => None,
        };
        Some(Self {
            left: left.equivalence_properties(),
            right: right.equivalence_properties(),
            kind,
            on,
            keeps,
            projection,
        })
    }

    fn sides(&self) -> [(JoinSide, &'a EquivalenceProperties); 2] {
        [(JoinSide::Left, self.left), (JoinSide::Right, self.right)]
    }

    /// Whether a side has NULLs in rows without a partner.
    fn is_optional(&self, side: JoinSide) -> bool {
        match side {
            JoinSide::Left => matches!(self.kind, JoinType::Right | JoinType::Full),
            JoinSide::Right => matches!(self.kind, JoinType::Left | JoinType::Full),
            JoinSide::None => false,
        }
    }

    /// Whether DataFusion states more than what holds.
    fn overstates(&self) -> bool {
        let both = matches!(
            self.kind,
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
        );
        let orders = self
            .sides()
            .iter()
            .all(|(_, side)| !side.oeq_class().is_empty());
        let is_lost = |class: &EquivalenceClass| class.iter().any(|expr| !expr.is::<Column>());
        let loses = self.sides().into_iter().any(|(side, properties)| {
            let mut classes = properties.eq_group().iter();
            self.is_optional(side) && (!properties.constants().is_empty() || classes.any(is_lost))
        });
        both && (loses || orders && self.keeps.is_some())
    }

    /// What holds above the join of what holds on one side of it.
    fn of_side(
        &self,
        side: JoinSide,
        properties: &EquivalenceProperties,
    ) -> Result<EquivalenceProperties> {
        let mut holds = if self.is_optional(side) {
            without_partner(properties)?
        } else {
            properties.clone()
        };
        if self.keeps != Some(side) {
            holds.clear_orderings();
        }
        Ok(holds)
    }

    fn what_holds(&self, node: &Arc<dyn ExecutionPlan>) -> Result<EquivalenceProperties> {
        let [left, right] = self
            .sides()
            .map(|(side, properties)| self.of_side(side, properties));
        let (left, right) = (left?, right?);
        let (schema, _) = build_join_schema(left.schema(), right.schema(), &self.kind);
        let schema = Arc::new(schema);
        let joined = join_equivalence_properties(
            left,
            right,
            &self.kind,
            Arc::clone(&schema),
            &node.maintains_input_order(),
            self.keeps,
            self.on,
        )?;
        let Some(projection) = self.projection else {
            return Ok(joined);
        };
        let mapping = ProjectionMapping::from_indices(projection, &schema)?;
        Ok(joined.project(&mapping, node.schema()))
    }
}

/// What of a side's properties also holds for its NULLs in rows without a partner: columns are
/// still equal, other expressions need not be (`coalesce(a, 0) = b`).
fn without_partner(properties: &EquivalenceProperties) -> Result<EquivalenceProperties> {
    let mut holds = EquivalenceProperties::new(Arc::clone(properties.schema()));
    for class in properties.eq_group().iter() {
        let mut columns = class.iter().filter(|expr| expr.is::<Column>());
        if let Some(first) = columns.next() {
            for other in columns {
                holds.add_equal_conditions(Arc::clone(first), Arc::clone(other))?;
            }
        }
    }
    holds.add_orderings(properties.oeq_class().iter().cloned());
    Ok(holds)
}

/// Stands above a join whose properties are overstated, and states what holds.
#[derive(Debug)]
pub struct StatedExec {
    child: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl StatedExec {
    /// # Errors
    /// If what the join's inputs state cannot be combined: a bug.
    pub fn new(child: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(match what_holds(&child)? {
            Some(holds) => Self::stating(child, holds),
            None => Self {
                properties: Arc::clone(child.properties()),
                child,
            },
        })
    }

    fn stating(child: Arc<dyn ExecutionPlan>, holds: EquivalenceProperties) -> Self {
        let stated = PlanProperties::clone(child.properties());
        Self {
            child,
            properties: Arc::new(stated.with_eq_properties(holds)),
        }
    }

    /// The same above another child. A later rule puts a node above the join, or another join in
    /// its place: its rows are the same, and it states as much as the join did.
    fn above(&self, child: Arc<dyn ExecutionPlan>) -> Result<Self> {
        if Join::of(&child).is_some() {
            return Self::new(child);
        }
        let mut holds = self.properties.equivalence_properties().clone();
        if child.equivalence_properties().oeq_class().is_empty() {
            holds.clear_orderings();
        }
        Ok(Self::stating(child, holds))
    }
}

impl DisplayAs for StatedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for StatedExec {
    fn name(&self) -> &'static str {
        "StatedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.child]
    }

    /// It does, but a sort above must not be pushed down to the join, which would find its keys
    /// constant.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(child), true) => Ok(Arc::new(self.above(child)?)),
            _ => internal_err!("a StatedExec has one child"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.child.execute(partition, context)
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [child] => Ok(Arc::clone(child)),
            _ => internal_err!("a StatedExec has one child"),
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.child.fetch()
    }
}
