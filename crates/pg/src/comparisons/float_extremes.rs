//! The minimum and maximum of floats, with PostgreSQL's treatment of NaN.
//!
//! In `PostgreSQL` NaN equals itself and is greater than every number. For groups, `DataFusion`
//! 55.2 compares floats with `<`, which is false for NaN, so min and max depend on the order of
//! rows; without groups a NaN whose sign bit is set is the minimum. So `min(f)` is computed as
//! `float_of(min(float_order(f)))`, by the order of integers.
//! Not here: ORDER BY, which puts NaN last.
//! N1: `float_order` is strictly monotonic, except that all NaN map to one value. -0 is below 0,
//! although comparisons treat them as equal, so the result does not depend on which comes first.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::PlanTree;

/// Computes min and max of floats by integers.
#[derive(Debug)]
pub(crate) struct FloatExtremes;

impl AnalyzerRule for FloatExtremes {
    fn name(&self) -> &'static str {
        "coscan_float_extremes"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let planned = plan.change_up_with_subqueries(|node| match &node {
            LogicalPlan::Aggregate(aggregate) => Ok(match by_integers(aggregate)? {
                Some(plan) => Transformed::yes(plan),
                None => Transformed::no(node),
            }),
            _ => Ok(Transformed::no(node)),
        });
        planned.data()
    }
}

fn by_integers(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let schema = aggregate.input.schema();
    let functions = aggregate.aggr_expr.iter();
    let replaced = functions.map(|expr| of_integers(expr, schema));
    let replaced: Vec<Option<Expr>> = replaced.collect::<Result<_>>()?;
    if replaced.iter().all(Option::is_none) {
        return Ok(None);
    }
    let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let mut output: Vec<Expr> = Vec::with_capacity(aggregate.schema.fields().len());
    let mut functions = Vec::with_capacity(aggregate.aggr_expr.len());
    let mut names = HashSet::new();
    for at in 0..groups {
        output.push(Expr::Column(Column::from(
            aggregate.schema.qualified_field(at),
        )));
    }
    for (at, (expr, of_integers)) in aggregate.aggr_expr.iter().zip(replaced).enumerate() {
        let (relation, field) = aggregate.schema.qualified_field(groups + at);
        let column = |expr: &Expr| Expr::Column(Column::from_name(expr.schema_name().to_string()));
        let (function, value) = match of_integers {
            None => (expr.clone(), Expr::Column(Column::from((relation, field)))),
            Some(of_integers) => {
                let value = ScalarUDF::from(FloatOf::new()).call(vec![column(&of_integers)]);
                (
                    of_integers,
                    value.alias_qualified(relation.cloned(), field.name()),
                )
            }
        };
        if names.insert(function.schema_name().to_string()) {
            functions.push(function);
        }
        output.push(value);
    }
    let (input, group) = (Arc::clone(&aggregate.input), aggregate.group_expr.clone());
    let below = LogicalPlan::Aggregate(Aggregate::try_new(input, group, functions)?);
    let above = Projection::try_new(output, Arc::new(below))?;
    Ok(Some(LogicalPlan::Projection(above)))
}

/// The minimum or maximum of the integers for some floats; `None` for another aggregate.
fn of_integers(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let expr = match expr {
        Expr::Alias(alias) => &alias.expr,
        other => other,
    };
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
        return Ok(None);
    };
    let [arg] = params.args.as_slice() else {
        return Ok(None);
    };
    let is_extreme = **func == *min_udaf() || **func == *max_udaf();
    let floats = [DataType::Float32, DataType::Float64];
    if !is_extreme || !floats.contains(&arg.get_type(schema)?) {
        return Ok(None);
    }
    let order = ScalarUDF::from(FloatOrder::new()).call(vec![arg.clone()]);
    let params = AggregateFunctionParams {
        args: vec![order],
        ..params.clone()
    };
    Ok(Some(Expr::AggregateFunction(AggregateFunction {
        func: Arc::clone(func),
        params,
    })))
}

/// The functions that the rule calls.
pub(super) fn called() -> [ScalarUDF; 2] {
    [FloatOf::new().into(), FloatOrder::new().into()]
}

macro_rules! one_argument {
    ($(#[$doc:meta])* $name:ident, $text:literal, $type:ident => $of:expr, $values:ident => $made:expr) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $name {
            signature: Signature,
        }

        impl $name {
            fn new() -> Self {
                Self {
                    signature: Signature::any(1, Volatility::Immutable),
                }
            }
        }

        impl ScalarUDFImpl for $name {
            fn name(&self) -> &'static str {
                $text
            }

            fn signature(&self) -> &Signature {
                &self.signature
            }

            fn return_type(&self, types: &[DataType]) -> Result<DataType> {
                let $type = types.first();
                $of
            }

            fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
                let arrays = ColumnarValue::values_to_arrays(&args.args)?;
                let $values = &arrays[0];
                let made: ArrayRef = $made;
                Ok(ColumnarValue::Array(made))
            }
        }
    };
}

one_argument! {
    /// Maps floats to integers in the same order.
    FloatOrder, "float_order",
    of => match of {
        Some(DataType::Float64) => Ok(DataType::Int64),
        Some(DataType::Float32) => Ok(DataType::Int32),
        other => exec_err!("{other:?} is not a float"),
    },
    values => match values.data_type() {
        DataType::Float64 => Arc::new(
            values.as_primitive::<Float64Type>().unary::<_, Int64Type>(order_of_double),
        ),
        _ => Arc::new(values.as_primitive::<Float32Type>().unary::<_, Int32Type>(order_of_single)),
    }
}

one_argument! {
    /// Maps integers back to floats.
    FloatOf, "float_of",
    of => match of {
        Some(DataType::Int64) => Ok(DataType::Float64),
        Some(DataType::Int32) => Ok(DataType::Float32),
        other => exec_err!("{other:?} does not represent a float"),
    },
    values => match values.data_type() {
        DataType::Int64 => {
            let doubles: PrimitiveArray<Float64Type> =
                values.as_primitive::<Int64Type>().unary(double_of);
            Arc::new(doubles)
        }
        _ => {
            let singles: PrimitiveArray<Float32Type> =
                values.as_primitive::<Int32Type>().unary(single_of);
            Arc::new(singles)
        }
    }
}

fn order_of_double(value: f64) -> i64 {
    let value = if value.is_nan() {
        f64::NAN.abs()
    } else {
        value
    };
    turned_double(value.to_bits().cast_signed())
}

fn double_of(order: i64) -> f64 {
    f64::from_bits(turned_double(order).cast_unsigned())
}

/// The bits of negative floats are in reverse order; flipping them is its own inverse.
fn turned_double(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

fn order_of_single(value: f32) -> i32 {
    let value = if value.is_nan() {
        f32::NAN.abs()
    } else {
        value
    };
    turned_single(value.to_bits().cast_signed())
}

fn single_of(order: i32) -> f32 {
    f32::from_bits(turned_single(order).cast_unsigned())
}

fn turned_single(bits: i32) -> i32 {
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::arrow::array::{Float32Array, Float64Array, Int64Array, RecordBatch};
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    /// In `PostgreSQL`'s order; NaN with either sign are equal.
    const ASCENDING: [f64; 8] = [
        f64::NEG_INFINITY,
        f64::MIN,
        -1.5,
        -0.0,
        0.0,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NAN,
    ];

    #[test]
    #[allow(clippy::cast_possible_truncation, reason = "the same edges as f32")]
    fn integers_have_the_order_of_their_floats() {
        for pair in ASCENDING.windows(2) {
            assert!(
                order_of_double(pair[0]) < order_of_double(pair[1]),
                "{pair:?}"
            );
            let singles = (
                order_of_single(pair[0] as f32),
                order_of_single(pair[1] as f32),
            );
            assert!(singles.0 <= singles.1, "{pair:?}");
        }
        assert_eq!(order_of_double(f64::NAN), order_of_double(-f64::NAN));
        for value in ASCENDING {
            let back = double_of(order_of_double(value));
            assert!(back.to_bits() == value.to_bits() || back.is_nan() && value.is_nan());
        }
    }

    #[tokio::test]
    async fn extremes_do_not_depend_on_the_order_of_rows() {
        let nan = f64::NAN;
        let rows = [
            (1, vec![nan, 1.0, f64::INFINITY]),
            (2, vec![f64::INFINITY, nan, -nan, 2.0]),
            (3, vec![-nan, nan]),
            (4, vec![0.0, -0.0]),
        ];
        let mut shown = HashSet::new();
        for turned in [false, true] {
            let (mut keys, mut values) = (Vec::new(), Vec::<f64>::new());
            for (key, of_key) in &rows {
                keys.extend(vec![*key; of_key.len()]);
                values.extend(of_key);
            }
            if turned {
                keys.reverse();
                values.reverse();
            }
            #[allow(clippy::cast_possible_truncation, reason = "small numbers")]
            let singles: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            let batch = RecordBatch::try_from_iter([
                ("k", Arc::new(Int64Array::from(keys)) as ArrayRef),
                ("f", Arc::new(Float64Array::from(values))),
                ("g", Arc::new(Float32Array::from(singles))),
            ]);
            let config = SessionConfig::new().with_target_partitions(1);
            let builder = SessionStateBuilder::new()
                .with_config(config)
                .with_default_features();
            let context = SessionContext::new_with_state(crate::install(builder).build());
            context.register_batch("t", batch.unwrap()).unwrap();
            for sql in [
                "SELECT k, min(f), max(f), min(g), max(g), max(f) - 1 AS less FROM t \
                 GROUP BY k HAVING max(f) > 0 OR k = 4 ORDER BY k",
                "SELECT min(f), max(f), max(f) FILTER (WHERE k = 4), count(*) FROM t",
                "SELECT k, max(f) FROM t GROUP BY ROLLUP (k) ORDER BY k NULLS FIRST",
                "SELECT (SELECT min(f) FROM t AS s WHERE s.k = t.k) AS m FROM t WHERE k = 1",
            ] {
                let found = context.sql(sql).await.unwrap().collect().await.unwrap();
                shown.insert((sql, pretty_format_batches(&found).unwrap().to_string()));
            }
        }
        assert_eq!(shown.len(), 4, "{shown:#?}");
        let grouped = shown
            .iter()
            .find(|(sql, _)| sql.contains("HAVING"))
            .unwrap();
        let lines: Vec<String> = grouped.1.lines().map(|l| l.replace(' ', "")).collect();
        assert_eq!(lines[3], "|1|1.0|NaN|1.0|NaN|NaN|");
        assert_eq!(lines[4], "|2|2.0|NaN|2.0|NaN|NaN|");
        assert_eq!(lines[5], "|3|NaN|NaN|NaN|NaN|NaN|");
    }
}
