//! Correlated scalar subqueries that have no aggregate: `(SELECT u.x FROM u WHERE u.k = t.k)`.
//!
//! DataFusion decorrelates only aggregates, because nothing else is sure to give one row. Such a
//! subquery is made an aggregate by `only_value`, which returns the one value that it was fed and
//! fails on a second, as PostgreSQL fails on a second row.
//!
//! Subqueries that are not correlated run once and are left to DataFusion, which checks their rows
//! itself.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, Query, SelectItem, SetExpr, TableFactor, Visit,
    VisitMut, Visitor, VisitorMut,
};

use super::ast::{aggregates, call, item_expr, null, qualifier};

pub(super) struct Subqueries;

impl VisitorMut for Subqueries {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = expr {
            let mut seen = Qualifiers::default();
            // The call names its trait because both visitor traits have a `visit`. This one only
            // reads.
            let _ = Visit::visit(query.as_ref(), &mut seen);
            if seen.used.iter().any(|used| !seen.read.contains(used)) {
                compare_once(query, &seen.read);
                hold_to_one_row(query);
            }
        }
        ControlFlow::Continue(())
    }
}

fn hold_to_one_row(query: &mut Query) {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if limited || grouped || select.having.is_some() || select.distinct.is_some() {
        return;
    }
    let [item] = select.projection.as_mut_slice() else {
        return;
    };
    if item_expr(item).is_none_or(aggregates) {
        return;
    }
    let value = match std::mem::replace(item, SelectItem::UnnamedExpr(null())) {
        SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => value,
        other => {
            *item = other;
            return;
        }
    };
    query.order_by = None;
    *item = SelectItem::UnnamedExpr(call(ONLY_VALUE, vec![value]));
}

/// Leaves an outer column only in the one comparison `inner = outer`. Elsewhere in the condition
/// the inner column replaces it, because the two are equal in every row that passes. DataFusion
/// decorrelates subqueries by such comparisons alone. Subqueries within the condition are left
/// alone: there the inner column's name may mean another column.
fn compare_once(query: &mut Query, read: &HashSet<String>) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let Some(condition) = &mut select.selection else {
        return;
    };
    let mut conjuncts = vec![];
    collect(condition, &mut conjuncts);
    let mut inner_of = HashMap::new();
    conjuncts.retain(|conjunct| match pair(conjunct, read) {
        Some((inner, outer)) => {
            inner_of.entry(outer).or_insert(inner);
            false
        }
        None => true,
    });
    let mut replace = Replace {
        inner_of: &inner_of,
        depth: 0,
    };
    for conjunct in conjuncts {
        let _ = conjunct.visit(&mut replace);
    }
}

/// The parts of a condition that AND joins.
fn collect<'a>(condition: &'a mut Expr, parts: &mut Vec<&'a mut Expr>) {
    match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            collect(left, parts);
            collect(right, parts);
        }
        other => parts.push(other),
    }
}

/// The inner and the outer column of `inner = outer`.
fn pair(conjunct: &Expr, read: &HashSet<String>) -> Option<(Vec<Ident>, Vec<Ident>)> {
    let Expr::BinaryOp {
        left,
        op: BinaryOperator::Eq,
        right,
    } = conjunct
    else {
        return None;
    };
    let (Expr::CompoundIdentifier(left), Expr::CompoundIdentifier(right)) =
        (left.as_ref(), right.as_ref())
    else {
        return None;
    };
    let is_inner = |words: &[Ident]| {
        let table = words.iter().rev().nth(1)?;
        Some(read.contains(&table.value.to_lowercase()))
    };
    match (is_inner(left)?, is_inner(right)?) {
        (true, false) => Some((left.clone(), right.clone())),
        (false, true) => Some((right.clone(), left.clone())),
        _ => None,
    }
}

struct Replace<'a> {
    inner_of: &'a HashMap<Vec<Ident>, Vec<Ident>>,
    /// How many subqueries deep.
    depth: usize,
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::CompoundIdentifier(words) = expr
            && let Some(inner) = self.inner_of.get(words)
        {
            words.clone_from(inner);
        }
        ControlFlow::Continue(())
    }
}

/// The tables that a query and its subqueries read, and the qualifiers of the columns that they
/// use. A qualifier that is used and not read belongs to a query around this one. Columns without a
/// qualifier are taken for the query's own.
#[derive(Default)]
struct Qualifiers {
    read: HashSet<String>,
    used: HashSet<String>,
}

impl Visitor for Qualifiers {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.read
            .extend(qualifier(factor).map(|name| name.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(words) = expr
            && let [.., qualifier, _] = words.as_slice()
        {
            self.used.insert(qualifier.value.to_lowercase());
        }
        ControlFlow::Continue(())
    }
}

/// `only_value(x)`: the value of the only row; NULL if there is no row, an error if there are more.
pub(crate) const ONLY_VALUE: &str = "only_value";
