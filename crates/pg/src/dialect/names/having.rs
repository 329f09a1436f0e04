//! Which columns do the names in HAVING refer to?
//!
//! For PostgreSQL to those of the input only. DataFusion resolves a name to a column of the result
//! if the input has none of this name, so such a column gets a name that HAVING cannot mention.
//!
//! | from | to |
//! |---|---|
//! | `SELECT count(*) AS n … HAVING n > 1` | the result's `n` gets a name that no expression has |
//!
//! Not here: names that GROUP BY or DISTINCT ON mention, which may be the result's, and columns
//! beside `*`, whose names get no marks (`column_names.rs`).

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, Statement, Visit, VisitorMut,
};

use super::column_names::folded;
use crate::names::{MARK, is_marked};
use crate::visits::{Walk, visit_expressions};

/// Names the columns of results so that HAVING does not find them.
pub(in crate::dialect) fn rewrite(statement: &mut Statement) {
    struct Selects;
    impl VisitorMut for Selects {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            if select.having.is_some() && select.into.is_none() {
                hide(select);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = statement.walk(&mut Selects);
}

fn hide(select: &mut Select) {
    let is_wild = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
        )
    };
    if select.projection.iter().any(is_wild) {
        return;
    }
    let mut hidden = names_in(&select.having);
    let kept = [names_in(&select.group_by), names_in(&select.distinct)];
    hidden.retain(|name| !kept.iter().any(|kept| kept.contains(name)));
    for (position, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { expr, alias } = item else {
            continue;
        };
        let name = folded(alias);
        let is_own = match expr {
            Expr::Identifier(own) => folded(own) == name,
            Expr::CompoundIdentifier(words) => words.last().map(folded).as_ref() == Some(&name),
            _ => false,
        };
        if !is_own && hidden.contains(&name) && !is_marked(&name) {
            *alias = Ident::with_quote('"', format!("{name}{MARK}{position}"));
        }
    }
}

/// The names without a qualifier in a part of a query.
fn names_in(part: &impl Visit) -> HashSet<String> {
    let mut names = HashSet::new();
    let _ = visit_expressions(part, |expr| {
        if let Expr::Identifier(name) = expr {
            names.insert(folded(name));
        }
        ControlFlow::<()>::Continue(())
    });
    names
}
