//! In which comparisons must a cast be evaluated?
//!
//! `DataFusion` 55.2 replaces `CAST(p AS numeric(10,1)) = 5.0` with `p = 5.00`, and prunes files
//! by the casts of a column's minimum and maximum. The former is right only if the cast is
//! injective, the latter only if it keeps the order: 4.96 also becomes 5.0, and the time of a
//! timestamp does not grow with it. So the results of other casts are wrapped in a function that
//! returns its argument, which hides them from optimizers.
//! Not here: casts by our own functions, which optimizers do not recognize.
//! C1: only [`transparent`] casts are visible inside a comparison.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNode, TreeNodeRecursion, TreeNodeRewriter,
};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::units;
use crate::functions::as_it_is;
use crate::parts::has_part;
use crate::trees::{PlanTree, Tree};

/// Hides lossy casts in comparisons.
#[derive(Debug)]
pub(crate) struct KeepLossyCasts;

impl AnalyzerRule for KeepLossyCasts {
    fn name(&self) -> &'static str {
        "coscan_keep_lossy_casts"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let kept = plan.change_up_with_subqueries(|node| {
            if !has_part(&node, is_comparison) {
                return Ok(Transformed::no(node));
            }
            let schema = match &node {
                LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
                _ => merge_schema(&node.inputs()),
            };
            let names = NamePreserver::new(&node);
            node.change_expressions(|expr| {
                let name = names.save(&expr);
                let mut rewriter = Comparisons {
                    schema: &schema,
                    options,
                };
                let hidden = expr.rewrite(&mut rewriter)?;
                Ok(hidden.update_data(|expr| name.restore(expr)))
            })
        });
        kept.data()
    }
}

/// Visits comparisons.
struct Comparisons<'a> {
    schema: &'a DFSchema,
    options: &'a ConfigOptions,
}

impl TreeNodeRewriter for Comparisons<'_> {
    type Node = Expr;

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let hide = |side: Box<Expr>| -> Result<Transformed<Box<Expr>>> {
            let hidden = hidden(*side, self.schema)?;
            Ok(hidden.update_data(Box::new))
        };
        let exact = match &expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
                units::compared(left, *op, right, self.schema, self.options)
            }
            Expr::Between(given) => units::between(given, self.schema, self.options),
            Expr::InList(given) => units::within(given, self.schema),
            _ => None,
        };
        if let Some(exact) = exact {
            return Ok(Transformed::yes(exact));
        }
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let (left, right) = (hide(left)?, hide(right)?);
                let changed = left.transformed || right.transformed;
                let (left, right) = (left.data, right.data);
                let whole = Expr::BinaryExpr(BinaryExpr { left, op, right });
                Transformed::new_transformed(whole, changed)
            }
            Expr::InList(InList {
                expr,
                list,
                negated,
            }) => hide(expr)?.update_data(|expr| {
                Expr::InList(InList {
                    expr,
                    list,
                    negated,
                })
            }),
            Expr::Between(Between {
                expr,
                negated,
                low,
                high,
            }) => hide(expr)?.update_data(|expr| {
                Expr::Between(Between {
                    expr,
                    negated,
                    low,
                    high,
                })
            }),
            other => Transformed::no(other),
        })
    }
}

fn is_comparison(part: &Expr) -> bool {
    match part {
        Expr::BinaryExpr(given) => compares(given.op),
        other => matches!(other, Expr::InList(_) | Expr::Between(_)),
    }
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
    )
}

/// A side of a comparison with its lossy casts hidden. Only casts of casts are visited, because
/// optimizers do not search below other expressions.
fn hidden(side: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    side.change_down(|expr| {
        let (inner, to) = match &expr {
            Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
            Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
            Expr::Negative(_) => return Ok(Transformed::no(expr)),
            // The simplifier turns this call into a cast.
            Expr::ScalarFunction(call) if call.func.name() == "arrow_cast" => {
                let hidden = as_it_is(expr);
                return Ok(Transformed::new(hidden, true, TreeNodeRecursion::Stop));
            }
            _ => return Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop)),
        };
        if matches!(inner.as_ref(), Expr::Literal(..)) {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop));
        }
        if transparent(&inner.get_type(schema)?, to) {
            return Ok(Transformed::no(expr));
        }
        let hidden = as_it_is(expr);
        Ok(Transformed::new(hidden, true, TreeNodeRecursion::Stop))
    })
}

/// Whether the cast, where it succeeds, is injective and keeps the order of values, or
/// `DataFusion` leaves it alone for not doing so.
fn transparent(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, Float32, Float64,
        Timestamp,
    };
    let scale = |of: &DataType| match of {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            Some(*scale)
        }
        of if of.is_integer() => Some(0),
        _ => None,
    };
    match (from, to) {
        _ if from == to => true,
        (Dictionary(_, from), to) => transparent(from, to),
        (from, Dictionary(_, to)) => transparent(from, to),
        (Float32, Float64) => true,
        (from, to) if from.is_string() && to.is_string() => true,
        // DataFusion does not look into casts between texts and other types.
        (from, to) if from.is_string() != to.is_string() => true,
        (Timestamp(_, from), Timestamp(_, to)) => from == to,
        (Date32 | Date64 | Timestamp(_, None), Date32 | Date64 | Timestamp(_, None)) => true,
        (from, to) => match (scale(from), scale(to)) {
            (Some(from), Some(to)) => to >= from,
            // Large integers or long decimals may map to the same float, which pruning tolerates.
            (Some(_), None) => to.is_floating(),
            _ => false,
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    async fn count(sql: &str) -> String {
        let builder = SessionStateBuilder::new().with_default_features();
        let context = SessionContext::new_with_state(crate::install(builder).build());
        let values = "CREATE TABLE dec AS SELECT arrow_cast(column1, 'Decimal128(10, 2)') AS p, \
                      arrow_cast(column1, 'Float64') AS f, column2 AS i \
                      FROM (VALUES ('4.96', 1), ('5.01', -1), ('5.40', 0), ('6.00', 2)) AS v";
        context.sql(values).await.unwrap().collect().await.unwrap();
        let times = "CREATE TABLE ts AS SELECT arrow_cast(column1, 'Timestamp(Microsecond, None)') \
                     AS t FROM (VALUES ('2024-01-01 13:00:00'), ('2024-01-02 09:00:00'), \
                     ('2024-01-02 10:00:00'), ('2024-01-03 20:00:00')) AS v";
        context.sql(times).await.unwrap().collect().await.unwrap();
        let found = context.sql(sql).await.unwrap().collect().await.unwrap();
        let text = datafusion::arrow::util::pretty::pretty_format_batches(&found).unwrap();
        text.to_string()
            .lines()
            .nth(3)
            .unwrap()
            .replace(['|', ' '], "")
    }

    #[tokio::test]
    async fn comparisons_use_the_result_of_the_cast() {
        for (condition, expected) in [
            ("p::decimal(10,1) = 5.0", "2"),
            ("5.0 = p::decimal(10,1)", "2"),
            ("p::decimal(10,1) < 5.0", "0"),
            ("p::decimal(10,1) <= 5.0", "2"),
            ("p::decimal(10,1) IN (5.0, 6.0)", "3"),
            ("p::decimal(10,1) BETWEEN 5.0 AND 5.0", "2"),
            ("p::decimal(10,1)::decimal(12,4) = 5.0", "2"),
            ("p::decimal(10,0) = 5", "3"),
            ("p::decimal(12,4) = 5.01", "1"),
            ("p = 5.01", "1"),
        ] {
            let sql = format!("SELECT count(*) FROM dec WHERE {condition}");
            assert_eq!(count(&sql).await, expected, "{condition}");
            let case = format!("SELECT sum(CASE WHEN {condition} THEN 1 ELSE 0 END) FROM dec");
            assert_eq!(count(&case).await, expected, "{case}");
        }
        let before_noon = "SELECT count(*) FROM ts WHERE arrow_cast(t, 'Time64(Microsecond)') < \
                           arrow_cast('12:00:00', 'Time64(Microsecond)')";
        assert_eq!(count(before_noon).await, "2");
    }
}
