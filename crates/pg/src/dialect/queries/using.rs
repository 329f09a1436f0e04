//! The merged columns of `JOIN … USING`.
//!
//! An unqualified merged column becomes the left side's: DataFusion finds two columns of that name,
//! and in a subquery it takes one of the query around instead.
//!
//! In `RIGHT JOIN` and `FULL JOIN` DataFusion takes the left side's column for the merged one,
//! which is NULL in rows that only the right side has. So the joins of a FROM with such a join get
//! ON, the merged column becomes the right side's or a `coalesce` of both, and `*` is written out:
//! the merged columns, then those of each table.
//! <https://github.com/apache/datafusion/issues/22019>
//!
//! It takes the syntax only: NATURAL joins and columns whose table is not known by the syntax stay
//! as they are, and the plan is refused (`analysis/checks.rs`).

use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    OrderBy, OrderByKind, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    TableWithJoins, VisitMut, WildcardAdditionalOptions,
};

use crate::dialect::ast::{call, compared, with_ands};
use crate::dialect::own_exprs::OwnExprs;
use crate::names::MARK;

/// The columns of one item of FROM.
struct Columns {
    /// In the order of `*`.
    merged: Vec<(Ident, Expr)>,
    /// Tables, and their columns that are merged.
    tables: Vec<(Ident, Vec<Ident>)>,
    conditions: Vec<Option<Expr>>,
}

pub(super) fn rewrite(select: &mut Select, order_by: Option<&mut OrderBy>) {
    let is_outer = |join: &Join| {
        matches!(
            &join.join_operator,
            JoinOperator::Right(on) | JoinOperator::RightOuter(on) | JoinOperator::FullOuter(on)
                if matches!(on, JoinConstraint::Using(_))
        )
    };
    let mut joins = select.from.iter().flat_map(|item| &item.joins);
    if !joins.any(|join| merges(&join.join_operator)) {
        return;
    }
    let Some(items) = select.from.iter().map(columns).collect::<Option<Vec<_>>>() else {
        return;
    };
    let mut joins = select.from.iter().flat_map(|item| &item.joins);
    if joins.any(is_outer) {
        for (item, found) in select.from.iter_mut().zip(&items) {
            for (join, condition) in item.joins.iter_mut().zip(&found.conditions) {
                if let (Some(condition), Some(on)) =
                    (condition, constraint(&mut join.join_operator))
                {
                    *on = JoinConstraint::On(condition.clone());
                }
            }
        }
    }
    write_out(select, &items);
    let merged = Merged {
        columns: items
            .iter()
            .flat_map(|item| item.merged.iter().cloned())
            .collect(),
    };
    name_columns(select, &merged);
    let outputs = outputs(select);
    let mut own = OwnExprs::new(|expr| merged.replace(expr));
    let _ = select.projection.visit(&mut own);
    let _ = select.selection.visit(&mut own);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        let _ = keys.visit(&mut own);
    }
    let _ = select.having.visit(&mut own);
    for item in &mut select.from {
        for join in &mut item.joins {
            if let Some(JoinConstraint::On(on)) = constraint(&mut join.join_operator) {
                let _ = on.visit(&mut own);
            }
        }
    }
    if let Some(OrderByKind::Expressions(keys)) = order_by.map(|by| &mut by.kind) {
        for key in keys {
            // A name alone is the result's column.
            if !matches!(&key.expr, Expr::Identifier(name) if outputs.contains(&folded(name))) {
                let _ = key.expr.visit(&mut own);
            }
        }
    }
}

/// A merged column keeps its name, and a table's column of that name gets another.
fn name_columns(select: &mut Select, merged: &Merged) {
    for (position, item) in select.projection.iter_mut().enumerate() {
        let (expr, alias) = match &*item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) if merged.value(name).is_some() => {
                (Expr::Identifier(name.clone()), name.clone())
            }
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(words)) => match words.last() {
                Some(name) if merged.value(name).is_some() => {
                    let alias = format!("{}{MARK}{position}", folded(name));
                    let expr = Expr::CompoundIdentifier(words.clone());
                    (expr, Ident::with_quote('"', alias))
                }
                _ => continue,
            },
            _ => continue,
        };
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

fn outputs(select: &Select) -> Vec<String> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name))
        | SelectItem::ExprWithAlias { alias: name, .. } => Some(folded(name)),
        _ => None,
    });
    named.collect()
}

fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

fn same(one: &Ident, other: &Ident) -> bool {
    folded(one) == folded(other)
}

fn merges(operator: &JoinOperator) -> bool {
    let mut operator = operator.clone();
    matches!(constraint(&mut operator), Some(JoinConstraint::Using(_)))
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on) => Some(on),
        _ => None,
    }
}

/// The name by which a table's columns are qualified.
fn table(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            alias: None, name, ..
        } => name.0.last()?.as_ident().cloned(),
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Function { alias, .. } => Some(alias.as_ref()?.name.clone()),
        _ => None,
    }
}

/// `None` if the syntax does not tell which table has a column.
fn columns(item: &TableWithJoins) -> Option<Columns> {
    let mut found = Columns {
        merged: vec![],
        tables: vec![(table(&item.relation)?, vec![])],
        conditions: vec![],
    };
    for join in &item.joins {
        let right = table(&join.relation)?;
        let mut operator = join.join_operator.clone();
        let names = match constraint(&mut operator) {
            Some(JoinConstraint::Using(names)) => std::mem::take(names),
            Some(JoinConstraint::Natural) => return None,
            _ => vec![],
        };
        let mut conditions = vec![];
        let mut dropped = vec![];
        let mut merged = vec![];
        for name in names {
            let name = name.0.first()?.as_ident()?.clone();
            let column =
                |table: &Ident| Expr::CompoundIdentifier(vec![table.clone(), name.clone()]);
            let known = found
                .merged
                .iter()
                .position(|(known, _)| same(known, &name));
            let left = match (known, found.tables.as_mut_slice()) {
                (Some(known), _) => found.merged.remove(known).1,
                (None, [(table, merged)]) => {
                    merged.push(name.clone());
                    column(table)
                }
                _ => return None,
            };
            conditions.push(compared(left.clone(), "=", column(&right)));
            let value = match operator {
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => column(&right),
                JoinOperator::FullOuter(_) => call("coalesce", vec![left, column(&right)]),
                _ => left,
            };
            merged.push((name.clone(), value));
            dropped.push(name);
        }
        merged.append(&mut found.merged);
        found.merged = merged;
        found.tables.push((right, dropped));
        let some = !conditions.is_empty();
        found.conditions.push(some.then(|| with_ands(conditions)));
    }
    Some(found)
}

/// `*` as the merged columns and those of each table.
fn write_out(select: &mut Select, items: &[Columns]) {
    let given = std::mem::take(&mut select.projection);
    for item in given {
        match item {
            SelectItem::Wildcard(options) if options == WildcardAdditionalOptions::default() => {
                for found in items {
                    select
                        .projection
                        .extend(found.merged.iter().map(|(name, value)| {
                            SelectItem::ExprWithAlias {
                                expr: value.clone(),
                                alias: name.clone(),
                            }
                        }));
                    let tables = found.tables.iter();
                    select
                        .projection
                        .extend(tables.map(|(table, merged)| all_but(table, merged)));
                }
            }
            other => select.projection.push(other),
        }
    }
}

fn all_but(table: &Ident, merged: &[Ident]) -> SelectItem {
    let name = ObjectName::from(vec![table.clone()]);
    let except = merged.split_first().map(|(first, rest)| ExceptSelectItem {
        first_element: first.clone(),
        additional_elements: rest.to_vec(),
    });
    SelectItem::QualifiedWildcard(
        SelectItemQualifiedWildcardKind::ObjectName(name),
        WildcardAdditionalOptions {
            opt_except: except,
            ..WildcardAdditionalOptions::default()
        },
    )
}

/// Replaces merged columns by their values.
struct Merged {
    columns: Vec<(Ident, Expr)>,
}

impl Merged {
    fn value(&self, name: &Ident) -> Option<&Expr> {
        let mut columns = self.columns.iter();
        columns
            .find(|(known, _)| same(known, name))
            .map(|(_, value)| value)
    }

    fn replace(&self, expr: &mut Expr) {
        if let Expr::Identifier(name) = &*expr
            && let Some(value) = self.value(name)
        {
            *expr = value.clone();
        }
    }
}
