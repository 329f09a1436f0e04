//! Types of constants and of values that stand in one column.
//!
//! | from | to |
//! |---|---|
//! | `pg_case(c, x, …)`, `coalesce(…)`, `greatest(…)`, `nullif(…)` | DataFusion's, of values of the common type |
//! | `x IN ('1', …)`, `x BETWEEN '1' AND …`, `x IS DISTINCT FROM '1'` | constants of the type of `x` |
//! | a cast that DataFusion made (INSERT) and that loses digits | `pg_cast` |
//! | `pg_typeof(x)` | the type's name |

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, lit};

use crate::casts::{self, Context, PgCast, Target, cast_expr};
use crate::numbers::common::Common;
use crate::operators::{is_unknown, typed};

use super::lists;

#[derive(Debug)]
pub(super) struct Semantics;

impl FunctionRewrite for Semantics {
    fn name(&self) -> &'static str {
        "postgres_semantics"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(call) => {
                let inner = call.func.inner();
                if let Some(cast) = inner.downcast_ref::<PgCast>() {
                    // The planner's casts were made with the settings of the session's start.
                    if *cast.context() == Context::of(config) {
                        return Ok(Transformed::no(Expr::ScalarFunction(call)));
                    }
                    return Ok(Transformed::yes(casts::udf(config).call(call.args)));
                }
                if let Some(common) = inner.downcast_ref::<Common>() {
                    let expr = common.expand(call.args, schema, config)?;
                    return Ok(Transformed::yes(expr));
                }
                if call.func.name() == crate::numbers::TYPEOF
                    && let [value] = call.args.as_slice()
                {
                    return Ok(Transformed::yes(lit(type_of(value, schema)?)));
                }
                Ok(Transformed::no(Expr::ScalarFunction(call)))
            }
            Expr::InList(list) if list.list.iter().any(is_unknown) => {
                let field = list.expr.to_field(schema)?.1;
                let values = list.list.into_iter().map(|value| {
                    if is_unknown(&value) {
                        typed(value, &field, config)
                    } else {
                        value
                    }
                });
                let list = InList::new(list.expr, values.collect(), list.negated);
                lists::in_list(list, schema, config)
            }
            Expr::InList(list) => lists::in_list(list, schema, config),
            Expr::Between(between) if is_unknown(&between.low) || is_unknown(&between.high) => {
                let field = between.expr.to_field(schema)?.1;
                let bound = |value: Box<Expr>| {
                    if is_unknown(&value) {
                        Box::new(typed(*value, &field, config))
                    } else {
                        value
                    }
                };
                let (low, high) = (bound(between.low), bound(between.high));
                let between = Between::new(between.expr, between.negated, low, high);
                lists::between(between, schema)
            }
            Expr::Between(between) => lists::between(between, schema),
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
                    && is_unknown(&left) != is_unknown(&right) =>
            {
                let (left, right) = if is_unknown(&left) {
                    let field = right.to_field(schema)?.1;
                    (Box::new(typed(*left, &field, config)), right)
                } else {
                    let field = left.to_field(schema)?.1;
                    (left, Box::new(typed(*right, &field, config)))
                };
                let compared = BinaryExpr::new(left, op, right);
                Ok(Transformed::yes(Expr::BinaryExpr(compared)))
            }
            Expr::BinaryExpr(binary)
                if matches!(
                    binary.op,
                    Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
                ) =>
            {
                lists::distinct(binary, schema)
            }
            Expr::Cast(cast) => lossless(cast, schema, config),
            other => Ok(Transformed::no(other)),
        }
    }
}

/// A cast that DataFusion made, as PostgreSQL's where they differ.
fn lossless(cast: Cast, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
    let to = cast.field.data_type().clone();
    let from = cast.expr.get_type(schema)?;
    let target = match Target::of_arrow(&to) {
        Some(Target::NumericOf(precision, scale)) => Some(Target::Numeric(Some((
            u16::from(precision),
            i16::from(scale),
        )))),
        other => other,
    };
    let held = |target: &Target| target.arrow(&from) == to;
    let literal = matches!(cast.expr.as_ref(), Expr::Literal(..)) && from.is_integer();
    match target {
        Some(target)
            if !literal
                && (target.is_number() || target == Target::Bool)
                && Target::of_arrow(&from).is_some()
                && held(&target)
                && !casts::is_arrows(&from, &target, &to) =>
        {
            Ok(Transformed::yes(cast_expr(*cast.expr, &target, config)))
        }
        _ => Ok(Transformed::no(Expr::Cast(cast))),
    }
}

/// What PostgreSQL calls the type of an expression.
fn type_of(value: &Expr, schema: &DFSchema) -> Result<String> {
    let field = value.to_field(schema)?.1;
    if is_unknown(value) || field.data_type().is_null() {
        return Ok("unknown".to_owned());
    }
    Ok(match Target::of_field(&field) {
        Some(target) => target.name(),
        None => crate::output::pg_type(&field).name().to_owned(),
    })
}
