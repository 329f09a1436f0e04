//! `d IN (0, …)` over floats.
//!
//! DataFusion looks a list up by the bits of its values, and -0 has other bits than 0, to which it
//! is equal. Where a list has a zero, 0 is added to the value: that turns -0 into 0 and nothing else.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

/// Makes lists of floats hold both zeros. It runs after types are coerced.
#[derive(Debug, Default)]
pub(crate) struct FloatLists;

impl AnalyzerRule for FloatLists {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expr
                    .transform_up(|part| Ok(with_zeros(part)))?
                    .update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "float_lists"
    }
}

fn with_zeros(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(mut given) = expr else {
        return Transformed::no(expr);
    };
    let Some(zero) = given.list.iter().find_map(zero) else {
        return Transformed::no(Expr::InList(given));
    };
    for item in &mut given.list {
        if self::zero(item).is_some() {
            *item = zero.clone();
        }
    }
    let InList {
        expr,
        list,
        negated,
    } = given;
    let expr = Box::new(*expr + zero);
    Transformed::yes(Expr::InList(InList {
        expr,
        list,
        negated,
    }))
}

/// 0 in the type of a literal that is 0 or -0.
fn zero(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) if *value == 0.0 => Some(lit(0.0_f64)),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) if *value == 0.0 => Some(lit(0.0_f32)),
        Expr::Cast(cast) => {
            let float = cast.field.data_type();
            match (cast.expr.as_ref(), float) {
                (Expr::Literal(value, _), DataType::Float32 | DataType::Float64) => {
                    zero(&Expr::Literal(value.cast_to(float).ok()?, None))
                }
                _ => None,
            }
        }
        _ => None,
    }
}
