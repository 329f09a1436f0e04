//! `typed(x, NULL)`: an operand in a key of an order, whose range has the type of the NULL.
//!
//! DataFusion derives from the ranges of a key's parts whether rows have an order. The range of a
//! function, of CASE and of a subquery has no type, and comparing or negating such a range is an
//! error (55.2, `Interval::gt`). The order is then unproven, so that `ORDER BY length(s) > 3` is
//! refused by `SanityCheckPlan`, and a window with such a key where it runs. So these operands
//! become calls of a function whose range has a type.
//!
//! The rule runs last, when functions such as `coalesce` have become CASE. Delete this file once
//! ranges without a type compare.
//! Not here: comparisons outside of keys, where nothing depends on an order.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;

use crate::trees::{PlanTree, Tree};

const TYPED: &str = "typed";

/// See the file's header.
#[derive(Debug)]
pub(crate) struct TypedOperands;

impl OptimizerRule for TypedOperands {
    fn name(&self) -> &'static str {
        "coscan_typed_operands"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match node {
            LogicalPlan::Sort(mut sort) => {
                let schema = Arc::clone(sort.input.schema());
                let changed = order_by(&mut sort.expr, &schema)?;
                Ok(Transformed::new_transformed(
                    LogicalPlan::Sort(sort),
                    changed,
                ))
            }
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
                let schema = merge_schema(&node.inputs());
                let names = NamePreserver::new(&node);
                node.change_expressions(|expr| {
                    let name = names.save(&expr);
                    let changed = expr.change_up(|expr| call(expr, &schema))?;
                    Ok(changed.update_data(|expr| name.restore(expr)))
                })
            }
            node => Ok(Transformed::no(node)),
        }
    }
}

/// Gives types to the operands in the keys of an aggregate or a window function.
fn call(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        // The sort key of an ordered-set aggregate is also its argument.
        Expr::AggregateFunction(mut call) if !call.func.supports_within_group_clause() => {
            let changed = order_by(&mut call.params.order_by, schema)?;
            let call = Expr::AggregateFunction(call);
            Ok(Transformed::new_transformed(call, changed))
        }
        Expr::WindowFunction(mut window) => {
            let mut changed = order_by(&mut window.params.order_by, schema)?;
            for key in &mut window.params.partition_by {
                changed |= in_key(key, schema)?;
            }
            let window = Expr::WindowFunction(window);
            Ok(Transformed::new_transformed(window, changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn order_by(sorts: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    for sort in sorts {
        changed |= in_key(&mut sort.expr, schema)?;
    }
    Ok(changed)
}

/// Gives types to the operands in a key, and says whether there were any without.
fn in_key(key: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let found = std::mem::take(key).change_up(|expr| operands(expr, schema))?;
    *key = found.data;
    Ok(found.transformed)
}

/// Gives types to the operands of a comparison or a negation.
fn operands(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares_ranges(*op) => {
            // The types of both sides are equal, or the ranges could not be compared.
            match left.get_type(schema) {
                Ok(held) => {
                    let is_left_changed = give_type(left, &held, schema)?;
                    give_type(right, &held, schema)? || is_left_changed
                }
                Err(_) => false,
            }
        }
        Expr::Negative(of) => match of.get_type(schema) {
            Ok(held) => give_type(of, &held, schema)?,
            Err(_) => false,
        },
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// The operators for which DataFusion compares the ranges of both sides.
fn compares_ranges(op: Operator) -> bool {
    matches!(
        op,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    )
}

/// Gives an operand's range this type, unless it has it.
fn give_type(operand: &mut Expr, held: &DataType, schema: &DFSchema) -> Result<bool> {
    if range_type(operand, schema).is_some_and(|own| own == *held) {
        return Ok(false);
    }
    let null = Expr::Literal(ScalarValue::try_from(held)?, None);
    *operand = called().call(vec![std::mem::take(operand), null]);
    Ok(true)
}

/// The type that an expression's range is known to have.
fn range_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let typed = match expr {
        Expr::Column(_) | Expr::Literal(..) => expr,
        Expr::ScalarFunction(call) if call.name() == TYPED => call.args.get(1)?,
        _ => return None,
    };
    typed.get_type(schema).ok()
}

/// The function that gives a range a type.
pub(super) fn called() -> ScalarUDF {
    ScalarUDF::from(Typed::new())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Typed {
    signature: Signature,
}

impl Typed {
    fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &'static str {
        TYPED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first() {
            // The field may name a type that Arrow lacks.
            Some(field) => Ok(Arc::new(Field::clone(field).with_name(self.name()))),
            None => internal_err!("{} takes a value", self.name()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }

    fn evaluate_bounds(&self, ranges: &[&Interval]) -> Result<Interval> {
        match ranges {
            [_, held] => Interval::make_unbounded(&held.data_type()),
            _ => internal_err!("{} takes a value and a NULL", self.name()),
        }
    }
}
