//! PostgreSQL's hidden columns of a table of `pg_catalog`: `tableoid`, the table's oid, and `xmin`,
//! the transaction that wrote the row.
//!
//! `c.tableoid` becomes the oid of the table that `c` refers to, and `c.xmin` the number of the
//! transaction that made PostgreSQL's own catalog, so the tables need no such columns, which
//! `SELECT *` would show. They are left alone if an outer join may fill the table with NULLs.
//! Not here: users' tables, whose files may have a column of this name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, VisitorMut,
};

use super::oids::OidKind;
use super::scope::Scope;
use crate::dialect::ast::{call, number, text};
use crate::visits::Walk;

/// Visits inner queries first; they may also name columns of the queries around them.
pub(in crate::dialect) struct HiddenColumns;

impl VisitorMut for HiddenColumns {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        body(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn body(set: &mut SetExpr) {
    match set {
        SetExpr::Select(select) => in_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            body(left);
            body(right);
        }
        _ => {}
    }
}

fn in_select(select: &mut Select) {
    let scope = Scope::of(select);
    for item in &mut select.projection {
        // The column keeps its name.
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some((column, expr)) = value_of(&scope, expr, true)
        {
            let alias = Ident::new(column);
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let mut replace = Replace { scope, depth: 0 };
    let _ = select.projection.walk(&mut replace);
    let _ = select.selection.walk(&mut replace);
    let _ = select.having.walk(&mut replace);
    let _ = select.group_by.walk(&mut replace);
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        if let JoinOperator::Join(JoinConstraint::On(on))
        | JoinOperator::Inner(JoinConstraint::On(on))
        | JoinOperator::Left(JoinConstraint::On(on))
        | JoinOperator::LeftOuter(JoinConstraint::On(on))
        | JoinOperator::Right(JoinConstraint::On(on))
        | JoinOperator::RightOuter(JoinConstraint::On(on)) = &mut join.join_operator
        {
            let _ = on.walk(&mut replace);
        }
    }
}

struct Replace {
    scope: Scope,
    /// The number of subqueries around. In a subquery, an unqualified column belongs to the
    /// subquery.
    depth: usize,
}

impl VisitorMut for Replace {
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
        if let Some((_, value)) = value_of(&self.scope, expr, self.depth == 0) {
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}

/// The name of a hidden column, and the value that replaces it. With `own`, an unqualified column
/// counts, too.
fn value_of(scope: &Scope, expr: &Expr, own: bool) -> Option<(&'static str, Expr)> {
    let (column, table) = match expr {
        Expr::CompoundIdentifier(words) => match words.as_slice() {
            [.., table, column] => (hidden(column)?, scope.table(&table.value)?),
            _ => return None,
        },
        Expr::Identifier(column) if own => (hidden(column)?, scope.only_table()?),
        _ => return None,
    };
    let value = match column {
        TABLE_OID => {
            let name = text(&format!("pg_catalog.{table}"));
            call(OidKind::Class.oid_function(), vec![name])
        }
        _ if HAVE_XMIN.contains(&table) => return None,
        _ => number(BOOTSTRAP),
    };
    Some((column, value))
}

fn hidden(column: &Ident) -> Option<&'static str> {
    let is = |name: &&str| match column.quote_style {
        Some(_) => column.value == *name,
        None => column.value.eq_ignore_ascii_case(name),
    };
    [TABLE_OID, XMIN].into_iter().find(is)
}

const TABLE_OID: &str = "tableoid";
const XMIN: &str = "xmin";
/// Tables with a column of this name that is not hidden.
const HAVE_XMIN: [&str; 1] = ["pg_replication_slots"];
/// `BootstrapTransactionId`.
const BOOTSTRAP: usize = 1;
