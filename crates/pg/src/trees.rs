//! How does a rule walk a plan or an expression?
//!
//! Idea: `DataFusion`'s walks are compiled for each closure and each type of node's children. Here
//! closures are known by pointer, so that a walk is compiled once for plans and once for
//! expressions. Each method does what `DataFusion`'s of the name in its comment does.
//! Not here: what the rules change.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// A plan or an expression, with all nodes below it.
pub(crate) trait Tree: TreeNode {
    /// `transform_up`.
    fn change_up(
        self,
        mut f: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        let f: &mut dyn FnMut(Self) -> Result<Transformed<Self>> = &mut f;
        self.transform_up(f)
    }

    /// `transform_down`.
    fn change_down(
        self,
        mut f: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        let f: &mut dyn FnMut(Self) -> Result<Transformed<Self>> = &mut f;
        self.transform_down(f)
    }

    /// `map_children`.
    fn change_children(
        self,
        mut f: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        let f: &mut dyn FnMut(Self) -> Result<Transformed<Self>> = &mut f;
        self.map_children(f)
    }

    /// `apply`.
    fn each<'n>(
        &'n self,
        mut f: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let f: &mut dyn FnMut(&'n Self) -> Result<TreeNodeRecursion> = &mut f;
        self.apply(f)
    }

    /// `exists`.
    fn has(&self, mut f: impl FnMut(&Self) -> Result<bool>) -> Result<bool> {
        let f: &mut dyn FnMut(&Self) -> Result<bool> = &mut f;
        self.exists(f)
    }
}

impl<T: TreeNode> Tree for T {}

/// A plan, with its expressions and the plans in these.
pub(crate) trait PlanTree: Sized {
    /// `transform_up_with_subqueries`.
    fn change_up_with_subqueries(
        self,
        f: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// `transform_down_with_subqueries`.
    fn change_down_with_subqueries(
        self,
        f: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// `apply_with_subqueries`.
    fn each_with_subqueries(
        &self,
        f: impl FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;

    /// `map_expressions`: of this node alone.
    fn change_expressions(
        self,
        f: impl FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>>;

    /// `apply_expressions`: of this node alone.
    fn each_expression(
        &self,
        f: impl FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;
}

impl PlanTree for LogicalPlan {
    fn change_up_with_subqueries(
        self,
        mut f: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        let f: &mut dyn FnMut(Self) -> Result<Transformed<Self>> = &mut f;
        self.transform_up_with_subqueries(f)
    }

    fn change_down_with_subqueries(
        self,
        mut f: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        let f: &mut dyn FnMut(Self) -> Result<Transformed<Self>> = &mut f;
        self.transform_down_with_subqueries(f)
    }

    fn each_with_subqueries(
        &self,
        mut f: impl FnMut(&Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let f: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion> = &mut f;
        self.apply_with_subqueries(f)
    }

    fn change_expressions(
        self,
        mut f: impl FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>> {
        let f: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>> = &mut f;
        self.map_expressions(f)
    }

    fn each_expression(
        &self,
        mut f: impl FnMut(&Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let f: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion> = &mut f;
        self.apply_expressions(f)
    }
}
