//! Drops unreachable parts of catalog queries before planning.
//!
//! Clients query everything that PostgreSQL might have: the sequence of a column, the policies of
//! a table, the fields of a row type, often in subqueries that DataFusion cannot plan. By
//! `facts.rs` such a subquery has no rows, or stands in a branch of CASE that no row takes.
//! Dropping it keeps the rows (D1) and leaves a query that can be planned.
//!
//! A query is empty if it reads an empty table by inner joins, or if its condition is false, and
//! if no aggregate produces a row for empty input. Its condition then becomes `false`, and those
//! parts of its columns that DataFusion may be unable to plan become NULL, which no row will show.
//!
//! Not here: anything about tables outside `pg_catalog`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArguments, GroupByExpr, Ident, JoinConstraint,
    JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor, TableWithJoins, UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::facts::{EMPTY, Fact};
use super::oids::OidKind;
use super::scope::{Scope, catalog_table};
use crate::dialect::Grammar;
use crate::dialect::ast::{
    aggregates, arguments, boolean, call, children, is_number, item_expr, item_expr_mut, last_word,
    literal_text, null, qualifier, text,
};
use crate::dialect::expressions::SUBSCRIPTS;
use crate::visits::Walk;

/// Visits inner queries before outer ones.
#[derive(Default)]
pub(in crate::dialect) struct Folding {
    /// The names that the current query's WITH gives to empty queries.
    empty: HashSet<String>,
}

impl VisitorMut for Folding {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if orders_by_aggregate(query) {
            return ControlFlow::Continue(());
        }
        // A recursive query reads itself, so it is never taken for empty.
        if let Some(with) = query.with.as_ref().filter(|with| !with.recursive) {
            for cte in &with.cte_tables {
                if self.query_is_empty(&cte.query) {
                    self.empty.insert(cte.alias.name.value.to_lowercase());
                }
            }
        }
        self.body(&mut query.body);
        self.empty.clear();
        ControlFlow::Continue(())
    }
}

impl Folding {
    fn body(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            _ => {}
        }
    }

    fn select(&self, select: &mut Select) {
        let scope = Scope::of(select);
        let mut folded = Expressions {
            folding: self,
            scope: &scope,
            depth: 0,
        };
        for item in &mut select.projection {
            if let Some(expr) = item_expr_mut(item) {
                let _ = expr.walk(&mut folded);
            }
        }
        if let Some(condition) = &mut select.selection {
            let _ = condition.walk(&mut folded);
        }
        if !self.select_is_empty(select) {
            return;
        }
        select.selection = Some(boolean(false));
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            if let Some(on) = condition(&mut join.join_operator)
                && is_unplannable(on)
            {
                *on = boolean(false);
            }
        }
        for from in &mut select.from {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut from.relation).chain(joined) {
                if let Some(empty) = without_rows(factor) {
                    *factor = empty;
                }
            }
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && is_unplannable(expr)
            {
                *expr = null();
            }
        }
    }

    fn query_is_empty(&self, query: &Query) -> bool {
        // A name that this query's WITH redefines does not refer to the empty query.
        let renames = query.with.as_ref().is_some_and(|with| {
            let mut names = with.cte_tables.iter().map(|cte| &cte.alias.name.value);
            names.any(|name| self.empty.contains(&name.to_lowercase()))
        });
        !renames && !orders_by_aggregate(query) && self.body_is_empty(&query.body)
    }

    fn body_is_empty(&self, body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => self.select_is_empty(select),
            SetExpr::Query(inner) => self.query_is_empty(inner),
            SetExpr::SetOperation { left, right, .. } => {
                self.body_is_empty(left) && self.body_is_empty(right)
            }
            _ => false,
        }
    }

    fn select_is_empty(&self, select: &Select) -> bool {
        let makes_a_row = match &select.group_by {
            GroupByExpr::Expressions(keys, with) if keys.is_empty() && with.is_empty() => {
                let mut columns = select.projection.iter().filter_map(item_expr);
                select.having.is_some() || columns.any(aggregates)
            }
            // ROLLUP and similar keys produce a row for the total, even for empty input.
            GroupByExpr::Expressions(keys, with) => !with.is_empty() || !keys.iter().all(is_key),
            GroupByExpr::All(_) => true,
        };
        !makes_a_row
            && (select.selection.as_ref().is_some_and(is_false)
                || select.from.iter().any(|from| self.tables_are_empty(from)))
    }

    fn tables_are_empty(&self, from: &TableWithJoins) -> bool {
        let mut empty = self.factor_is_empty(&from.relation);
        for join in &from.joins {
            let right = self.factor_is_empty(&join.relation);
            empty = match &join.join_operator {
                JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_) => {
                    empty || right
                }
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => empty,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => right,
                JoinOperator::FullOuter(_) => empty && right,
                _ => false,
            };
        }
        empty
    }

    fn factor_is_empty(&self, factor: &TableFactor) -> bool {
        match factor {
            TableFactor::Table {
                name, args: None, ..
            } => match catalog_table(name) {
                Some(table) => EMPTY.contains(&table.as_str()),
                None => {
                    name.0.len() == 1
                        && last_word(name).is_some_and(|name| self.empty.contains(&name))
                }
            },
            TableFactor::Derived { subquery, .. } => self.query_is_empty(subquery),
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => self.tables_are_empty(table_with_joins),
            _ => false,
        }
    }
}

/// Whether the query orders by an aggregate. Such a query has a row for empty input even if its
/// SELECT has no aggregate.
fn orders_by_aggregate(query: &Query) -> bool {
    let keys = query.order_by.as_ref().map(|order| &order.kind);
    matches!(keys, Some(OrderByKind::Expressions(keys)) if keys.iter().any(|key| aggregates(&key.expr)))
}

/// Whether a part of GROUP BY is a plain key, with one group per value and no others.
fn is_key(expr: &Expr) -> bool {
    match expr {
        Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_) => false,
        Expr::Tuple(parts) => !parts.is_empty(),
        _ => true,
    }
}

/// Folds expressions, innermost first.
struct Expressions<'a> {
    folding: &'a Folding,
    scope: &'a Scope,
    /// The number of subqueries around. Expressions in subqueries are folded with their own query.
    depth: usize,
}

impl VisitorMut for Expressions<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Some(folded) = self.folded(expr)
        {
            *expr = folded;
        }
        ControlFlow::Continue(())
    }
}

impl Expressions<'_> {
    fn folded(&self, expr: &mut Expr) -> Option<Expr> {
        match expr {
            Expr::Subquery(query) if self.folding.query_is_empty(query) => Some(null()),
            Expr::Exists { subquery, negated } if self.folding.query_is_empty(subquery) => {
                Some(boolean(*negated))
            }
            Expr::InSubquery {
                subquery, negated, ..
            } if self.folding.query_is_empty(subquery) => Some(boolean(*negated)),
            Expr::Function(function) => self.folded_call(function),
            Expr::IsNotNull(column) if self.scope.fact(column) == Some(Fact::Null) => {
                Some(boolean(false))
            }
            Expr::IsNull(column) if self.scope.fact(column) == Some(Fact::Null) => {
                Some(boolean(true))
            }
            Expr::Nested(inner) if is_false(inner) || is_null(inner) => {
                Some(std::mem::replace(&mut **inner, null()))
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } if is_false(expr) || self.scope.fact(expr) == Some(Fact::False) => {
                Some(boolean(true))
            }
            Expr::BinaryOp { left, op, right } => self.folded_operation(left, op, right),
            Expr::Case {
                operand: None,
                conditions,
                else_result,
                ..
            } => self.folded_case(conditions, else_result.as_deref()),
            _ => None,
        }
    }

    fn folded_call(&self, function: &datafusion::sql::sqlparser::ast::Function) -> Option<Expr> {
        match last_word(&function.name)?.as_str() {
            // An ARRAY(SELECT …) that was not rewritten as an aggregate is empty if its query is.
            "array" => match &function.args {
                FunctionArguments::Subquery(query) if self.folding.query_is_empty(query) => {
                    Some(call("make_array", vec![]))
                }
                _ => None,
            },
            "coalesce" => {
                let arguments = arguments(function)?;
                match arguments[..] {
                    [Expr::Subquery(query), last] if self.collects_nothing(query) => {
                        Some(last.clone())
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a query is a single `array_agg` over no rows, which is NULL.
    fn collects_nothing(&self, query: &Query) -> bool {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return false;
        };
        let [SelectItem::UnnamedExpr(Expr::Function(function))] = select.projection.as_slice()
        else {
            return false;
        };
        last_word(&function.name).as_deref() == Some("array_agg")
            && (select.selection.as_ref().is_some_and(is_false)
                || select
                    .from
                    .iter()
                    .any(|from| self.folding.tables_are_empty(from) || self.unnests_null(from)))
    }

    /// Whether this is `FROM unnest(column)` of an outer query's column that is always NULL.
    fn unnests_null(&self, from: &TableWithJoins) -> bool {
        let arguments = match &from.relation {
            TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter().collect(),
            TableFactor::Table {
                name,
                args: Some(args),
                ..
            } if last_word(name).as_deref() == Some("unnest") => {
                use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr};
                args.args
                    .iter()
                    .filter_map(|argument| match argument {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                        _ => None,
                    })
                    .collect()
            }
            _ => vec![],
        };
        matches!(arguments[..], [array] if self.scope.fact(array) == Some(Fact::Null))
    }

    fn folded_operation(
        &self,
        left: &mut Expr,
        op: &BinaryOperator,
        right: &mut Expr,
    ) -> Option<Expr> {
        match op {
            BinaryOperator::And if is_false(left) || is_false(right) => Some(boolean(false)),
            BinaryOperator::And => {
                let known = |expr: &Expr| self.scope.fact(expr) == Some(Fact::False);
                (known(left) || known(right)).then(|| boolean(false))
            }
            BinaryOperator::Or if is_false(left) => Some(std::mem::replace(right, null())),
            BinaryOperator::Or if is_false(right) => Some(std::mem::replace(left, null())),
            BinaryOperator::Eq | BinaryOperator::NotEq => {
                let equal = *op == BinaryOperator::Eq;
                match (self.scope.fact(left)?, literal_text(right)) {
                    (Fact::OneOf(values), Some(value)) if !values.contains(&value) => {
                        Some(boolean(!equal))
                    }
                    (Fact::OneOf([only]), Some(value)) if *only == value => Some(boolean(equal)),
                    (Fact::Procedure, None) if is_procedure(right) => {
                        if let Expr::Function(function) = right {
                            let name = OidKind::Procedure.name_function();
                            function.name = ObjectName::from(vec![Ident::new(name)]);
                        }
                        None
                    }
                    // In PostgreSQL oid 0 refers to no function, and its name is a dash.
                    (Fact::Procedure, None) if is_number(right, "0") => {
                        *right = text("-");
                        None
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn folded_case(&self, conditions: &mut Vec<CaseWhen>, other: Option<&Expr>) -> Option<Expr> {
        conditions.retain(|when| !self.is_never_true(&when.condition));
        conditions
            .is_empty()
            .then(|| other.cloned().unwrap_or_else(null))
    }
}

impl Expressions<'_> {
    /// Whether a condition is false or NULL in every row.
    fn is_never_true(&self, condition: &Expr) -> bool {
        match condition {
            Expr::Nested(inner) => self.is_never_true(inner),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => self.is_never_true(left) || self.is_never_true(right),
            Expr::BinaryOp { left, op, right } => {
                let Some(value) = literal_text(right) else {
                    return false;
                };
                match (self.scope.fact_or_null(left), op) {
                    (Some(Fact::OneOf(values)), BinaryOperator::Eq) => !values.contains(&value),
                    (Some(Fact::OneOf(values)), BinaryOperator::NotEq) => *values == [value],
                    _ => false,
                }
            }
            other => is_false(other) || self.scope.fact_or_null(other) == Some(Fact::False),
        }
    }
}

/// A table without rows that replaces `unnest(column) AS name`, with the columns that the alias
/// names. DataFusion cannot plan an `unnest` of a column of a table in the same FROM.
fn without_rows(factor: &TableFactor) -> Option<TableFactor> {
    let (is_unnest, alias) = match factor {
        TableFactor::UNNEST { alias, .. } => (true, alias),
        TableFactor::Table {
            name,
            args: Some(_),
            alias,
            ..
        } => (last_word(name).as_deref() == Some("unnest"), alias),
        _ => return None,
    };
    let name = Ident::with_quote('"', qualifier(factor).filter(|_| is_unnest)?);
    let named = alias.iter().flat_map(|alias| &alias.columns);
    let mut columns: Vec<String> = named
        .map(|column| format!("NULL AS {}", column.name))
        .collect();
    if columns.is_empty() {
        columns.push(format!("NULL AS {name}"));
    }
    let columns = columns.join(", ");
    let sql = format!("SELECT 1 FROM (SELECT {columns} WHERE false) AS {name}");
    let parsed = Parser::parse_sql(&Grammar::new(), &sql).ok()?.pop()?;
    let Statement::Query(query) = parsed else {
        return None;
    };
    let SetExpr::Select(select) = *query.body else {
        return None;
    };
    select.from.into_iter().next().map(|from| from.relation)
}

/// The condition of a join.
fn condition(join: &mut JoinOperator) -> Option<&mut Expr> {
    match join {
        JoinOperator::Join(JoinConstraint::On(on))
        | JoinOperator::Inner(JoinConstraint::On(on))
        | JoinOperator::Left(JoinConstraint::On(on))
        | JoinOperator::LeftOuter(JoinConstraint::On(on)) => Some(on),
        _ => None,
    }
}

fn is_false(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Boolean(false))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}

/// Whether the expression looks up a function's oid by name.
fn is_procedure(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function)
    if last_word(&function.name).is_some_and(|name| {
        [OidKind::Procedure, OidKind::Signature].iter().any(|kind| kind.oid_function() == name)
    }))
}

/// Whether DataFusion may be unable to plan an expression of a query without rows.
fn is_unplannable(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_)
        | Expr::Exists { .. }
        | Expr::InSubquery { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::CompoundFieldAccess { .. } => true,
        Expr::Function(function) => {
            let name = last_word(&function.name);
            matches!(
                name.as_deref(),
                Some("unnest" | "array" | "_pg_expandarray" | SUBSCRIPTS)
            ) || children(expr).into_iter().any(is_unplannable)
        }
        _ => children(expr).into_iter().any(is_unplannable),
    }
}
