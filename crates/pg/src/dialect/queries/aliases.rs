//! The names of relations and their columns.
//!
//! `(VALUES (1, 2)) AS t(a)`: columns that the alias does not name keep their names. `SELECT t.*
//! FROM public.t`: the columns of a table that FROM qualifies with its schema.

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAliasColumnDef, TableFactor,
};

pub(super) fn rewrite(select: &mut Select) {
    let mut whole = vec![];
    for item in &select.from {
        let joined = item.joins.iter().map(|join| &join.relation);
        whole.extend(
            std::iter::once(&item.relation)
                .chain(joined)
                .filter_map(with_schema),
        );
    }
    for item in &mut select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) =
            item
            && let [table] = of.0.as_slice()
            && let Some(full) = whole.iter().find(|full| full.0.last() == Some(table))
        {
            *of = full.clone();
        }
    }
    for item in &mut select.from {
        name_rest(&mut item.relation);
        item.joins
            .iter_mut()
            .for_each(|join| name_rest(&mut join.relation));
    }
}

/// The name of a table that FROM qualifies with its schema and gives no alias.
fn with_schema(factor: &TableFactor) -> Option<ObjectName> {
    match factor {
        TableFactor::Table {
            name,
            alias: None,
            args: None,
            ..
        } if name.0.len() > 1 => Some(name.clone()),
        _ => None,
    }
}

fn name_rest(factor: &mut TableFactor) {
    let TableFactor::Derived {
        subquery,
        alias: Some(alias),
        ..
    } = factor
    else {
        return;
    };
    let SetExpr::Values(values) = subquery.body.as_ref() else {
        return;
    };
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let named = alias.columns.len();
    if named > 0 {
        let rest = (named..width).map(|at| TableAliasColumnDef {
            name: Ident::new(format!("column{}", at + 1)),
            data_type: None,
        });
        alias.columns.extend(rest);
    }
}
