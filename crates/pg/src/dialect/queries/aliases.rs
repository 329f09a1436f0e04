//! `(VALUES (1, 2)) AS t(a)`: columns that the alias does not name keep their names.

use datafusion::sql::sqlparser::ast::{Ident, Select, SetExpr, TableAliasColumnDef, TableFactor};

pub(super) fn rewrite(select: &mut Select) {
    for item in &mut select.from {
        name_rest(&mut item.relation);
        item.joins
            .iter_mut()
            .for_each(|join| name_rest(&mut join.relation));
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
