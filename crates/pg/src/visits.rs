//! How does a pass walk a statement's syntax tree?
//!
//! Idea: `visit` of sqlparser is compiled for each type of visitor and each type of node, with a
//! check of the stack in each. With fifty passes these checks, and those of walks over plans, were
//! 97,000 of this crate's 185,000 functions (`nm -C --size-sort`). Here a visitor is known by
//! pointer, so that the walk is compiled once for each type that a visitor breaks with, mostly
//! `()`.
//! Not here: what the passes change (`dialect/`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

/// A part of a syntax tree that visitors look at.
pub(crate) trait Look: Visit {
    /// Shows all nodes of this part to a visitor, until it breaks.
    fn look<B>(&self, visitor: &mut dyn Visitor<Break = B>) -> ControlFlow<B> {
        self.visit(&mut Reader(visitor))
    }
}

impl<T: Visit> Look for T {}

/// A part of a syntax tree that visitors change.
pub(crate) trait Walk: VisitMut {
    /// Shows all nodes of this part to a visitor that may change them, until it breaks.
    fn walk<B>(&mut self, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
        self.visit(&mut Writer(visitor))
    }
}

impl<T: VisitMut> Walk for T {}

/// Calls `f` with each expression of a part, the ones around others first, until it breaks.
pub(crate) fn visit_expressions<B>(
    part: &impl Visit,
    mut f: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let f: &mut dyn FnMut(&Expr) -> ControlFlow<B> = &mut f;
    ast::visit_expressions(part, f)
}

/// Calls `f`, which may change them, with each expression of a part, the inner ones first, until it
/// breaks.
pub(crate) fn visit_expressions_mut<B>(
    part: &mut impl VisitMut,
    mut f: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let f: &mut dyn FnMut(&mut Expr) -> ControlFlow<B> = &mut f;
    ast::visit_expressions_mut(part, f)
}

/// Calls `f` with each name of a relation in a part, until it breaks.
pub(crate) fn visit_relations<B>(
    part: &impl Visit,
    mut f: impl FnMut(&ObjectName) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let f: &mut dyn FnMut(&ObjectName) -> ControlFlow<B> = &mut f;
    ast::visit_relations(part, f)
}

struct Reader<'a, B>(&'a mut dyn Visitor<Break = B>);

struct Writer<'a, B>(&'a mut dyn VisitorMut<Break = B>);

/// Each hook calls the visitor's own.
macro_rules! hooks {
    ($($hook:ident($node:ty)),+) => {
        $(fn $hook(&mut self, node: $node) -> ControlFlow<B> {
            self.0.$hook(node)
        })+
    };
}

impl<B> Visitor for Reader<'_, B> {
    type Break = B;

    hooks!(
        pre_visit_query(&Query),
        post_visit_query(&Query),
        pre_visit_select(&Select),
        post_visit_select(&Select),
        pre_visit_relation(&ObjectName),
        post_visit_relation(&ObjectName),
        pre_visit_table_factor(&TableFactor),
        post_visit_table_factor(&TableFactor),
        pre_visit_expr(&Expr),
        post_visit_expr(&Expr),
        pre_visit_statement(&Statement),
        post_visit_statement(&Statement),
        pre_visit_value(&ValueWithSpan),
        post_visit_value(&ValueWithSpan)
    );
}

impl<B> VisitorMut for Writer<'_, B> {
    type Break = B;

    hooks!(
        pre_visit_query(&mut Query),
        post_visit_query(&mut Query),
        pre_visit_select(&mut Select),
        post_visit_select(&mut Select),
        pre_visit_relation(&mut ObjectName),
        post_visit_relation(&mut ObjectName),
        pre_visit_table_factor(&mut TableFactor),
        post_visit_table_factor(&mut TableFactor),
        pre_visit_expr(&mut Expr),
        post_visit_expr(&mut Expr),
        pre_visit_statement(&mut Statement),
        post_visit_statement(&mut Statement),
        pre_visit_value(&mut ValueWithSpan),
        post_visit_value(&mut ValueWithSpan)
    );
}
