//! Aggregates to which DataFusion gives the same name.
//!
//! The name of `sum(x::int)` leaves out the cast, so `sum(x::int)` and `sum(x::bigint)` in one
//! SELECT are an error. All but the first get `FILTER (WHERE true)`, which only changes the name.
//! <https://github.com/apache/datafusion/issues/6543>

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Function, OrderBy, Select, VisitorMut};

use crate::dialect::ast::{boolean, is_aggregate, with_ands};
use crate::dialect::own_exprs::OwnExprs;
use crate::visits::Walk;

pub(super) fn rewrite(select: &mut Select, order_by: Option<&mut OrderBy>) {
    let mut alike = Alike::default();
    let mut own = OwnExprs::new(|expr| alike.tell_apart(expr));
    let _ = select.projection.walk(&mut own);
    let _ = select.having.walk(&mut own);
    let _ = select.qualify.walk(&mut own);
    if let Some(order_by) = order_by {
        let _ = order_by.walk(&mut own);
    }
}

#[derive(Default)]
struct Alike {
    /// Keyed by the call without casts: the calls of that name, in the order of their first use.
    calls: HashMap<String, Vec<String>>,
}

impl Alike {
    fn tell_apart(&mut self, expr: &mut Expr) {
        let Expr::Function(call) = expr else {
            return;
        };
        if !is_aggregate(call) {
            return;
        }
        let text = call.to_string();
        let calls = self.calls.entry(without_casts(call)).or_default();
        let place = calls.iter().position(|known| *known == text);
        let place = place.unwrap_or_else(|| {
            calls.push(text);
            calls.len() - 1
        });
        if place > 0 {
            let all = call.filter.take().map(|filter| *filter);
            let all = all.into_iter().chain((0..place).map(|_| boolean(true)));
            call.filter = Some(Box::new(with_ands(all.collect())));
        }
    }
}

fn without_casts(call: &Function) -> String {
    struct Casts;
    impl VisitorMut for Casts {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Cast { expr: inner, .. } | Expr::Nested(inner) => {
                    *expr = std::mem::replace(inner, boolean(true));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut call = Expr::Function(call.clone());
    let _ = call.walk(&mut Casts);
    call.to_string().to_lowercase()
}
