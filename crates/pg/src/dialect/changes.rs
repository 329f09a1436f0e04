//! INSERT, UPDATE, TRUNCATE, CREATE TABLE, ADD COLUMN and SELECT INTO, rewritten to the forms that
//! DataFusion plans.
//!
//! | from | to |
//! |---|---|
//! | `SELECT a INTO t FROM …` | `CREATE TABLE t AS SELECT a FROM …` |
//! | `WITH q AS (…) INSERT INTO t SELECT …` | `INSERT INTO t WITH q AS (…) SELECT …` |
//! | `UPDATE t SET (a, b) = (1, 2)`, `= ROW(1, 2)` | `UPDATE t SET a = 1, b = 2` |
//! | `UPDATE t SET a = 1, a = 2` | an error |
//! | `UPDATE t SET (a, b) = (SELECT x, y …)` | `UPDATE t SET a = (SELECT a FROM (SELECT x, y …) q (a, b)), …` |
//! | `TRUNCATE ONLY t CASCADE` | `TRUNCATE t` |
//! | `CREATE TABLE t (a character varying)`, also ADD COLUMN | `CREATE TABLE t (a varchar)` |
//!
//! Dropping ONLY and CASCADE changes nothing: there is no inheritance, and there are no foreign
//! keys.
//!
//! Not here: forms for which the table's columns must be known (the engine's
//! `statement/changes/`).

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, Assignment, AssignmentTarget, DataType, Distinct, Expr, OrderByExpr,
    OrderByKind, OrderByOptions, Query, SetExpr, Statement, TableFactor, TableWithJoins, Update,
    With,
};

use super::ast::{call, last_word, number, template, text};
use super::expressions::fields;
use super::names::{first_select, folded, is_wild};
use super::relations::query_of;
use crate::functions::FAIL;
use crate::visits::visit_expressions;

/// Functions whose value differs from call to call.
const VOLATILE: [&str; 3] = ["random", "clock_timestamp", "gen_random_uuid"];

/// The error for a row assignment that cannot be split into columns.
const NOT_BY_COLUMN: &str = "SET (a, b) = (SELECT …) is supported where the subquery has as many \
    columns, all named, no volatile function, and LIMIT and DISTINCT ON only with ORDER BY";

pub(super) fn rewrite(statement: &mut Statement) {
    if let Statement::Query(query) = statement
        && let SetExpr::Insert(Statement::Insert(insert)) = query.body.as_mut()
    {
        if let (Some(with), Some(source)) = (query.with.take(), &mut insert.source) {
            within(with, source);
        }
        *statement = Statement::Insert(insert.clone());
    }
    into_table(statement);
    match statement {
        Statement::Update(update) => single_columns(update),
        Statement::CreateTable(create) => {
            for column in &mut create.columns {
                short_varchar(&mut column.data_type);
            }
        }
        Statement::AlterTable(alter) => {
            for operation in &mut alter.operations {
                if let AlterTableOperation::AddColumn { column_def, .. } = operation {
                    short_varchar(&mut column_def.data_type);
                }
            }
        }
        Statement::Truncate(truncate) => {
            truncate.cascade = None;
            for target in &mut truncate.table_names {
                target.only = false;
            }
        }
        Statement::Query(query) => {
            if let SetExpr::Update(Statement::Update(update)) = query.body.as_mut() {
                single_columns(update);
            }
        }
        _ => {}
    }
}

/// `varchar` for its long names.
fn short_varchar(held: &mut DataType) {
    if matches!(
        held,
        DataType::CharacterVarying(None) | DataType::CharVarying(None)
    ) {
        *held = DataType::Varchar(None);
    }
}

/// SELECT INTO becomes CREATE TABLE AS, whose columns have PostgreSQL's names and types.
fn into_table(statement: &mut Statement) {
    if let Statement::Query(query) = statement
        && let Some(into) = first_select(&mut query.body).and_then(|select| select.into.take())
    {
        let create = CreateTableBuilder::new(into.name)
            .temporary(into.temporary)
            .query(Some(query.clone()));
        *statement = Statement::CreateTable(create.build());
    }
}

/// Puts the queries of a WITH around the source of an INSERT. An inner WITH that hides one of them
/// stays inside.
fn within(outer: With, source: &mut Query) {
    let inner = source.with.iter().flat_map(|with| &with.cte_tables);
    let inner: HashSet<String> = inner.map(|cte| folded(&cte.alias.name)).collect();
    let mut names = outer.cte_tables.iter().map(|cte| folded(&cte.alias.name));
    if names.any(|name| inner.contains(&name)) {
        *source = query_of(SetExpr::Query(Box::new(source.clone())));
    }
    source.with = Some(merged(outer, source.with.take()));
}

/// Appends the queries of an inner WITH to those of the outer one, which they may name.
pub(super) fn merged(mut outer: With, inner: Option<With>) -> With {
    if let Some(inner) = inner {
        outer.recursive |= inner.recursive;
        outer.cte_tables.extend(inner.cte_tables);
    }
    outer
}

fn single_columns(update: &mut Update) {
    let assignments = std::mem::take(&mut update.assignments);
    for Assignment { target, value } in assignments {
        let values = match &target {
            AssignmentTarget::Tuple(columns) => {
                fields(&value).or_else(|| columns_of(&value, columns.len()))
            }
            AssignmentTarget::ColumnName(_) => None,
        };
        match (target, values) {
            (AssignmentTarget::Tuple(columns), Some(values)) if columns.len() == values.len() => {
                let pairs = columns.into_iter().zip(values);
                update
                    .assignments
                    .extend(pairs.map(|(column, value)| Assignment {
                        target: AssignmentTarget::ColumnName(column),
                        value,
                    }));
            }
            (AssignmentTarget::Tuple(columns), _) if matches!(value, Expr::Subquery(_)) => {
                let refused = call(FAIL, vec![text("0A000"), text(NOT_BY_COLUMN)]);
                update
                    .assignments
                    .extend(columns.into_iter().take(1).map(|column| Assignment {
                        target: AssignmentTarget::ColumnName(column),
                        value: refused.clone(),
                    }));
            }
            (target, _) => update.assignments.push(Assignment { target, value }),
        }
    }
    let mut known = HashSet::new();
    for Assignment { target, value } in &mut update.assignments {
        let AssignmentTarget::ColumnName(column) = target else {
            continue;
        };
        let last = column.0.last().and_then(|part| part.as_ident());
        if let Some(name) = last.map(folded)
            && !known.insert(name.clone())
        {
            let message = format!("multiple assignments to same column \"{name}\"");
            *value = call(FAIL, vec![text("42601"), text(&message)]);
        }
    }
}

/// The columns of a subquery, each as a subquery of its own, which returns the same row; `None` if
/// they might not all come from the same row.
fn columns_of(value: &Expr, width: usize) -> Option<Vec<Expr>> {
    let Expr::Subquery(query) = value else {
        return None;
    };
    let mut rows = query.as_ref().clone();
    let is_volatile = |inner: &Expr| match inner {
        Expr::Function(call) => {
            last_word(&call.name).is_some_and(|name| VOLATILE.contains(&name.as_str()))
        }
        _ => false,
    };
    let varies = visit_expressions(query.as_ref(), |inner| match is_volatile(inner) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    let is_open = is_wild(&rows.body);
    let select = first_select(&mut rows.body)?;
    let has_firsts = matches!(select.distinct, Some(Distinct::On(_)));
    if is_open || select.projection.len() != width || varies.is_break() {
        return None;
    }
    if has_firsts || rows.limit_clause.is_some() || rows.fetch.is_some() {
        order_by_all(&mut rows, width)?;
    }
    let names: Vec<String> = (0..width).map(|at| format!("c{at}")).collect();
    let all = names.join(", ");
    let each = names.iter().map(|name| {
        let mut one = template(&format!("SELECT {name} FROM (SELECT 1) AS __rows ({all})"))?;
        if let SetExpr::Select(select) = one.body.as_mut()
            && let Some(TableWithJoins {
                relation: TableFactor::Derived { subquery, .. },
                ..
            }) = select.from.first_mut()
        {
            **subquery = rows.clone();
        }
        Some(Expr::Subquery(Box::new(one)))
    });
    each.collect()
}

/// Orders a query that picks some of its rows by all its columns, too: each column's copy of it
/// then picks the same ones, of which PostgreSQL may take any. `None` if the query does not order
/// them itself, because it may pick them in the order of a relation.
fn order_by_all(rows: &mut Query, width: usize) -> Option<()> {
    if let SetExpr::Select(select) = rows.body.as_ref()
        && select.from.is_empty()
    {
        return Some(());
    }
    if rows.fetch.as_ref().is_some_and(|fetch| fetch.with_ties) {
        return None;
    }
    let OrderByKind::Expressions(keys) = &mut rows.order_by.as_mut()?.kind else {
        return None;
    };
    keys.extend((1..=width).map(|column| OrderByExpr {
        expr: number(column),
        options: OrderByOptions {
            asc: None,
            nulls_first: None,
        },
        with_fill: None,
    }));
    Some(())
}
