//! Analyzer rules that run before DataFusion's coercion.
//!
//! `semantics.rs` types untyped constants, and expressions over several values (CASE, coalesce,
//! IN) by the common type; `lists.rs` does so for IN and BETWEEN over numbers, and `open_left.rs`
//! for IN and BETWEEN of an untyped constant. `aggregates.rs` turns PostgreSQL's aggregates into
//! DataFusion's `sum` and `count`, which fragments, sharing and statistics support. `distinct.rs`
//! sorts lists of values, `arrays.rs` compares arrays, and `shown_scales.rs` shows quotients with
//! PostgreSQL's digits.

mod aggregates;
mod arrays;
mod distinct;
mod lists;
mod open_left;
mod semantics;
mod shown_scales;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::{FunctionRewrite, NamePreserver};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::analyzer::function_rewrite::ApplyFunctionRewrites;
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use crate::operators::is_unknown;
use crate::parts::{has_part, plan_has_part};
use crate::trees::{PlanTree, Tree};

/// Puts the rules before DataFusion's rules that need types.
pub(crate) fn install(analyzer: &mut Analyzer) {
    analyzer
        .rules
        .insert(0, Arc::new(shown_scales::ShownScales));
    analyzer.rules.insert(0, Arc::new(aggregates::Aggregates));
    analyzer.rules.insert(0, Arc::new(distinct::Distinct));
}

/// The rule that types values. It changes the names of grouping sets' keys, so it is not a
/// function rewrite of the analyzer, which would run before every rule.
pub(crate) fn semantics() -> Concerned {
    Concerned {
        rule: ApplyFunctionRewrites::new(vec![Arc::new(semantics::Semantics)]),
        concerns: semantics::Semantics::concerns,
    }
}

/// Types the untyped constants in IN and BETWEEN of a view's query. DataFusion coerces it as soon
/// as there is the view, without any rule: to Arrow's common type of a text and the value.
///
/// # Errors
/// Those of the rule that types values.
pub fn typed_lists(query: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    query
        .change_up_with_subqueries(|node| {
            if !has_part(&node, is_untyped_list) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.change_expressions(|expr| {
                let name = names.save(&expr);
                let typed = expr.change_up(|part| {
                    if is_untyped_list(&part) {
                        semantics::Semantics.rewrite(part, &schema, options)
                    } else {
                        Ok(Transformed::no(part))
                    }
                })?;
                Ok(typed.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
}

fn is_untyped_list(part: &Expr) -> bool {
    match part {
        Expr::InList(given) => is_unknown(&given.expr) || given.list.iter().any(is_unknown),
        Expr::Between(given) => {
            is_unknown(&given.expr) || is_unknown(&given.low) || is_unknown(&given.high)
        }
        _ => false,
    }
}

/// The rule that runs after DataFusion's coercion.
pub(crate) fn coerced() -> Concerned {
    Concerned {
        rule: ApplyFunctionRewrites::new(vec![
            Arc::new(semantics::Floats),
            Arc::new(arrays::ArrayOrder),
        ]),
        concerns: |part| semantics::Floats::concerns(part) || arrays::ArrayOrder::concerns(part),
    }
}

/// Function rewrites, for the plans with a part that they may change.
#[derive(Debug)]
pub(crate) struct Concerned {
    rule: ApplyFunctionRewrites,
    /// True of whatever the rewrites change or refuse.
    concerns: fn(&Expr) -> bool,
}

impl AnalyzerRule for Concerned {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        if plan_has_part(&plan, self.concerns) {
            self.rule.analyze(plan, options)
        } else {
            Ok(plan)
        }
    }
}
