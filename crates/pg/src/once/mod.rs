//! The plan node for a query in WITH that is computed once for all its mentions.
//!
//! Each mention has a node of its own, because the optimizer works on each separately. Nodes with
//! the same key are the same computation: the physical planner computes the input of one of them
//! and passes its rows to all (`docs/design/with.md`). A node needs all columns and lets neither
//! filters nor limits through, so the inputs of all mentions have the same rows.
//! Not here: which mentions get a node (`relations/mentions.rs`), and which plans need one
//! (`unstable.rs`).

mod unstable;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchemaRef, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::trees::PlanTree;

pub(crate) use unstable::{is_ordered, is_unstable, scans_work_table};

/// A mention of a query in WITH that is computed once.
#[derive(Clone)]
pub struct Once {
    /// The plan below the query's alias, which all mentions share during planning. Holding it
    /// keeps its address from being reused for another plan.
    key: Arc<LogicalPlan>,
    name: Arc<str>,
    input: Arc<LogicalPlan>,
}

impl Once {
    /// A mention of the query `name` with the plan `query`.
    pub(crate) fn new(name: &str, query: &Arc<LogicalPlan>) -> Self {
        Self {
            key: Arc::clone(query),
            name: name.into(),
            input: Arc::clone(query),
        }
    }

    /// The node, if a plan is one.
    #[must_use]
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The query's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The query's plan, optimized for this mention.
    #[must_use]
    pub fn input(&self) -> &Arc<LogicalPlan> {
        &self.input
    }

    /// Whether two mentions are of the same query.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.key, &other.key)
    }
}

/// Whether the plan calls volatile functions outside of parts that are computed once.
///
/// # Errors
/// DataFusion's error for an inconsistent plan.
pub fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_with_subqueries(|node| {
        if Once::of(node).is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.each_expression(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Once");
        shown.field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Once {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) && self.input == other.input
    }
}

impl Eq for Once {}

impl PartialOrd for Once {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for Once {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.key).hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for Once {
    fn name(&self) -> &'static str {
        "Once"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Once: {}", self.name)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return internal_err!("a Once has one input");
        };
        Ok(Self {
            input: Arc::new(input),
            ..self.clone()
        })
    }
}
