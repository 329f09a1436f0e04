//! Which type has an untyped constant that is an argument of an aggregate: `covar_pop(y, '1')`,
//! `bool_and('t')`?
//!
//! Idea: PostgreSQL has one aggregate of each of these names, so the name gives the type.
//! Not here: names of several aggregates. An untyped constant is a text to `max` and `min`, and an
//! error to `sum`.

use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Expr;

use super::is_unknown;
use crate::casts::{Target, cast_expr};

/// Casts the untyped constants among the arguments of an aggregate.
pub(super) fn type_arguments(aggregate: &str, args: &mut [Expr], config: &ConfigOptions) {
    let target = match aggregate {
        "bool_and" | "bool_or" | "every" => Target::Bool,
        "corr" => Target::Float8,
        name if name.starts_with("covar_") || name.starts_with("regr_") => Target::Float8,
        _ => return,
    };
    for arg in args.iter_mut().filter(|arg| is_unknown(arg)) {
        *arg = cast_expr(std::mem::take(arg), &target, config);
    }
}
