//! `e.value FROM json_array_elements(…) AS e`: the column of a set whose table has an alias.
//!
//! PostgreSQL names the column `value`, and resolves `e` to it, too. Here the column is named
//! after the alias, so that a column `e` of another table makes `e` ambiguous instead of changing
//! its meaning, and `value` is written as `e.e`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut,
};

use crate::dialect::ast::last_word;

const VALUE: &str = "value";

pub(super) fn rewrite(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let aliases = aliases(select);
    if aliases.is_empty() {
        return;
    }
    let only = match aliases.as_slice() {
        [alias] => Some(alias.clone()),
        _ => None,
    };
    let is_named = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == VALUE);
    let is_output = select.projection.iter().any(is_named);
    let mut values = Values {
        aliases,
        only,
        depth: 0,
    };
    let _ = select.visit(&mut values);
    if let Some(order_by) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order_by.kind
    {
        if is_output {
            values.only = None;
        }
        for key in keys {
            let _ = key.expr.visit(&mut values);
        }
    }
}

/// The aliases of the sets whose column is named `value`.
fn aliases(select: &Select) -> Vec<Ident> {
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let found = factors.filter_map(|factor| {
        let (TableFactor::Table {
            name,
            args: Some(_),
            alias: Some(alias),
            ..
        }
        | TableFactor::Function {
            name,
            alias: Some(alias),
            ..
        }) = factor
        else {
            return None;
        };
        let is_set = last_word(name).is_some_and(|name| {
            let of = name
                .strip_prefix("jsonb_")
                .or_else(|| name.strip_prefix("json_"));
            matches!(of, Some("array_elements" | "array_elements_text"))
        });
        let is_other = alias.columns.is_empty() && alias.name.value != VALUE;
        (is_set && is_other).then(|| alias.name.clone())
    });
    found.collect()
}

struct Values {
    aliases: Vec<Ident>,
    /// The set to which an unqualified `value` belongs.
    only: Option<Ident>,
    /// The number of queries around.
    depth: usize,
}

impl VisitorMut for Values {
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
        let alias = match expr {
            Expr::Identifier(name) if name.value == VALUE && self.depth == 0 => self.only.clone(),
            Expr::CompoundIdentifier(words) => match words.as_slice() {
                [table, column] if column.value == VALUE => {
                    let mut aliases = self.aliases.iter();
                    aliases.find(|alias| alias.value == table.value).cloned()
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(alias) = alias {
            *expr = Expr::CompoundIdentifier(vec![alias.clone(), alias]);
        }
        ControlFlow::Continue(())
    }
}
