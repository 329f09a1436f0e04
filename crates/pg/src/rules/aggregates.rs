//! PostgreSQL's `sum`, `avg`, `variance` and `stddev`, by DataFusion's `sum` and `count`.
//!
//! | from | to |
//! |---|---|
//! | `sum(int8)` | `sum` of decimals |
//! | `avg(x)` of integers and numerics | `sum(x) / count(x)`, PostgreSQL's division |
//! | `var_samp(x)` … of integers and numerics | a function of `count(x)`, `sum(x)`, `sum(x * x)` |
//! | any of these of floats | DataFusion's aggregate |
//! | `array_agg` of json and other types that Arrow lacks | DataFusion's, marked with the type |
//! | `array_agg(DISTINCT x)` of what is compared by keys | a list whose equal elements are removed |
//! | `array_agg` of arrays | DataFusion's, checked (`functions/arrays/of_arrays.rs`) |
//! | `percentile_cont(g)` with GROUP BY g, or of an outer query's g | `array_agg`, and a function of the list and `g` |
//!
//! Equal sums and counts of one aggregation are computed once. A projection above it computes the
//! results, with the original names of the aggregates.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::{array_agg, average, count, stddev, sum, variance};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, Operator,
    Projection, Window, WindowFunctionDefinition, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::casts::{Target, cast_number};
use crate::comparisons::distinct_elements;
use crate::error::PgError;
use crate::functions::arrays;
use crate::functions::scalar::{marked_type, type_name};
use crate::functions::{has_key, mark_of, marked_like};
use crate::numbers::aggregation::{Kind, Marker, list_of, percentile_of_list, variance_of};
use crate::numbers::arithmetic::{self, Op, as_decimal, digits};
use crate::numbers::decimal_sum;
use crate::trees::{PlanTree, Tree};

#[derive(Debug)]
pub(super) struct Aggregates;

impl AnalyzerRule for Aggregates {
    fn name(&self) -> &'static str {
        "postgres_aggregates"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.change_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
            LogicalPlan::Window(window) => of_window(window),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

/// The state of replacing one aggregate with DataFusion's aggregates and an expression over them.
struct Parts<'a> {
    /// Builds an aggregate over the same rows.
    make: &'a dyn Fn(Arc<AggregateUDF>, Expr) -> Expr,
    /// The aggregates of the whole node so far.
    found: &'a mut Vec<Expr>,
    /// Whether each distinct value counts once.
    distinct: bool,
}

impl Parts<'_> {
    /// The column with the result of an aggregate.
    fn column(&mut self, function: Arc<AggregateUDF>, value: Expr) -> Expr {
        let made = (self.make)(function, value);
        self.keep(made)
    }

    fn keep(&mut self, made: Expr) -> Expr {
        let is_made = |known: &&Expr| {
            **known == made || matches!(known, Expr::Alias(alias) if *alias.expr == made)
        };
        if let Some(known) = self.found.iter().find(is_made) {
            return Expr::Column(Column::new_unqualified(known.schema_name().to_string()));
        }
        let mut name = made.schema_name().to_string();
        let mut names = self
            .found
            .iter()
            .map(|known| known.schema_name().to_string());
        // The name of a cast is that of its value: `count(*)` and the count of `avg(1)`.
        if names.any(|known| known == name) {
            name = format!("{name} {}", self.found.len());
            self.found.push(made.alias(name.as_str()));
        } else {
            self.found.push(made);
        }
        Expr::Column(Column::new_unqualified(name))
    }
}

fn of_aggregate(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let input_schema = Arc::clone(aggregate.input.schema());
    for expr in &aggregate.aggr_expr {
        if let Expr::AggregateFunction(function) = unaliased(expr) {
            check(&function.func, &function.params.args, &input_schema)?;
        }
    }
    let aggregate = plain_lists(aggregate)?;
    let is_ours = |expr: &Expr| match unaliased(expr) {
        Expr::AggregateFunction(function) => {
            function.func.inner().downcast_ref::<Marker>().is_some() || follows_keys(function)
        }
        _ => false,
    };
    if !aggregate.aggr_expr.iter().any(is_ours) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let mut found = vec![];
    let mut results = vec![];
    for expr in &aggregate.aggr_expr {
        let Expr::AggregateFunction(function) = unaliased(expr) else {
            let mut parts = Parts {
                make: &|_, value| value,
                found: &mut found,
                distinct: false,
            };
            results.push(parts.keep(expr.clone()));
            continue;
        };
        if follows_keys(function) {
            results.push(percentile(function, &aggregate, &mut found)?);
            continue;
        }
        let Some(marker) = function.func.inner().downcast_ref::<Marker>() else {
            let mut parts = Parts {
                make: &|_, value| value,
                found: &mut found,
                distinct: false,
            };
            results.push(parts.keep(expr.clone()));
            continue;
        };
        let params = &function.params;
        let make = |func: Arc<AggregateUDF>, value: Expr| {
            let params = AggregateFunctionParams {
                args: vec![value],
                ..params.clone()
            };
            Expr::AggregateFunction(AggregateFunction { func, params })
        };
        let mut parts = Parts {
            make: &make,
            found: &mut found,
            distinct: params.distinct,
        };
        results.push(result(
            marker.kind(),
            &params.args,
            &input_schema,
            &mut parts,
        )?);
    }
    let schema = Arc::clone(&aggregate.schema);
    let groups = aggregate.group_expr.len();
    let inner = Aggregate::try_new(aggregate.input, aggregate.group_expr, found)?;
    // Grouping sets add a column.
    let kept = schema.fields().len() - aggregate.aggr_expr.len();
    debug_assert!(kept >= groups || groups > 0);
    project(LogicalPlan::Aggregate(inner), &schema, kept, results)
}

/// Whether an aggregate is a percentile whose fraction is not constant: it names keys of the groups
/// or columns of an outer query.
fn follows_keys(function: &AggregateFunction) -> bool {
    let varies = |fraction: &Expr| fraction.any_column_refs() || fraction.contains_outer();
    let fraction = function.params.args.get(1);
    fraction.is_some_and(varies) && percentile_of_list(&function.func, false).is_some()
}

/// The percentile of a list of the group's values, at a fraction that follows the group's keys or
/// an outer query's row.
fn percentile(
    function: &AggregateFunction,
    aggregate: &Aggregate,
    found: &mut Vec<Expr>,
) -> Result<Expr> {
    let params = &function.params;
    let is_descending = params.order_by.first().is_some_and(|sort| !sort.asc);
    let ([value, fraction], Some(of_list)) = (
        params.args.as_slice(),
        percentile_of_list(&function.func, is_descending),
    ) else {
        return internal_err!("a percentile has a value and a fraction");
    };
    let schema: &DFSchema = aggregate.input.schema();
    let field = value.to_field(schema)?.1;
    if mark_of(&field).is_some() || field.data_type().is_list() {
        let message = "percentiles of such values at a fraction that is not constant";
        return Err(PgError::unsupported(format!("{message} are not supported")).into());
    }
    let is_interpolated = function.func.name() == PERCENTILE_CONT;
    let value = match is_interpolated && field.data_type().is_numeric() {
        true => Expr::Cast(Cast::new(Box::new(value.clone()), DataType::Float64)),
        false => value.clone(),
    };
    let params = AggregateFunctionParams {
        args: vec![value],
        order_by: vec![],
        ..params.clone()
    };
    let func = array_agg::array_agg_udaf();
    let mut parts = Parts {
        make: &|_, value| value,
        found,
        distinct: false,
    };
    let list = parts.keep(Expr::AggregateFunction(AggregateFunction { func, params }));
    Ok(of_list.call(vec![list, of_keys(fraction.clone(), aggregate)?]))
}

const PERCENTILE_CONT: &str = "percentile_cont";

/// An expression of the keys of GROUP BY, above the groups.
///
/// # Errors
/// 42803, if it names another column.
fn of_keys(expr: Expr, aggregate: &Aggregate) -> Result<Expr> {
    let keys = aggregate.group_expr.as_slice();
    if matches!(keys, [Expr::GroupingSet(_)]) && expr.any_column_refs() {
        let message = "a fraction that is not constant beside grouping sets is not supported";
        return Err(PgError::unsupported(message).into());
    }
    let above = expr.change_down(|part| {
        if let Some(at) = keys.iter().position(|key| *unaliased(key) == part) {
            let key = Column::from(aggregate.schema.qualified_field(at));
            let key = Expr::Column(key);
            return Ok(Transformed::new(key, true, TreeNodeRecursion::Jump));
        }
        match part {
            Expr::Column(column) => Err(ungrouped(&column).into()),
            other => Ok(Transformed::no(other)),
        }
    })?;
    Ok(above.data)
}

fn ungrouped(column: &Column) -> PgError {
    let name = match &column.relation {
        Some(table) => format!("{}.{}", table.table(), column.name),
        None => column.name.clone(),
    };
    let message = format!(
        "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
    );
    PgError::new("42803", message)
}

/// Leaves `array_agg` to DataFusion for types that Arrow has. Distinct values are sorted.
fn plain_lists(mut aggregate: Aggregate) -> Result<Aggregate> {
    let schema = Arc::clone(aggregate.input.schema());
    let exprs = std::mem::take(&mut aggregate.aggr_expr).into_iter();
    let exprs = exprs.map(|expr| {
        let name = NamePreserver::new_for_projection().save(&expr);
        let plain = expr.change_down(|expr| match expr {
            Expr::AggregateFunction(mut function) if is_plain_list(&function, &schema)? => {
                function.func = array_agg::array_agg_udaf();
                sort_distinct(&mut function.params, &schema)?;
                let plain = Expr::AggregateFunction(function);
                Ok(Transformed::new(plain, true, TreeNodeRecursion::Jump))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok::<_, DataFusionError>(name.restore(plain?.data))
    });
    aggregate.aggr_expr = exprs.collect::<Result<_>>()?;
    Ok(aggregate)
}

fn sort_distinct(params: &mut AggregateFunctionParams, schema: &DFSchema) -> Result<()> {
    if let [value] = params.args.as_slice()
        && params.distinct
        && params.order_by.is_empty()
        && !value.get_type(schema)?.is_nested()
    {
        params.order_by = vec![value.clone().sort(true, false)];
    }
    Ok(())
}

fn is_plain_list(function: &AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let marker = function.func.inner().downcast_ref::<Marker>();
    let is_list = marker.is_some_and(|marker| marker.kind() == Kind::List);
    match function.params.args.as_slice() {
        [value] if is_list => {
            let field = value.to_field(schema)?.1;
            let by_keys = function.params.distinct && has_key(&field);
            Ok(mark_of(&field).is_none() && !field.data_type().is_list() && !by_keys)
        }
        _ => Ok(false),
    }
}

fn of_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    let input_schema = Arc::clone(window.input.schema());
    let marker = |expr: &Expr| match unaliased(expr) {
        Expr::WindowFunction(function) => match &function.fun {
            WindowFunctionDefinition::AggregateUDF(udaf) => {
                udaf.inner().downcast_ref::<Marker>().map(Marker::kind)
            }
            WindowFunctionDefinition::WindowUDF(_) => None,
        },
        _ => None,
    };
    for expr in &window.window_expr {
        if let Expr::WindowFunction(function) = unaliased(expr) {
            check_window(function, &input_schema)?;
        }
    }
    if !window.window_expr.iter().any(|expr| marker(expr).is_some()) {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let mut found = vec![];
    let mut results = vec![];
    for expr in &window.window_expr {
        let (Some(kind), Expr::WindowFunction(function)) = (marker(expr), unaliased(expr)) else {
            let mut parts = Parts {
                make: &|_, value| value,
                found: &mut found,
                distinct: false,
            };
            results.push(parts.keep(expr.clone()));
            continue;
        };
        let params = &function.params;
        let make = |func: Arc<AggregateUDF>, value: Expr| {
            let params = WindowFunctionParams {
                args: vec![value],
                ..params.clone()
            };
            let fun = WindowFunctionDefinition::AggregateUDF(func);
            Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
        };
        let mut parts = Parts {
            make: &make,
            found: &mut found,
            distinct: params.distinct,
        };
        results.push(result(kind, &params.args, &input_schema, &mut parts)?);
    }
    let schema = Arc::clone(&window.schema);
    let kept = schema.fields().len() - window.window_expr.len();
    let inner = Window::try_new(found, window.input)?;
    project(LogicalPlan::Window(inner), &schema, kept, results)
}

/// The first `kept` columns of `inner`, and the results with their names in `schema`.
pub(super) fn project(
    inner: LogicalPlan,
    schema: &DFSchema,
    kept: usize,
    results: Vec<Expr>,
) -> Result<Transformed<LogicalPlan>> {
    let columns =
        (0..kept).map(|at| Expr::Column(Column::from(inner.schema().qualified_field(at))));
    let mut exprs: Vec<Expr> = columns.collect();
    for (at, result) in results.into_iter().enumerate() {
        let (qualifier, field) = schema.qualified_field(kept + at);
        exprs.push(match qualifier {
            Some(qualifier) => result.alias_qualified(Some(qualifier.clone()), field.name()),
            None => result.alias(field.name()),
        });
    }
    let projection = Projection::try_new(exprs, Arc::new(inner))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

pub(super) fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// Refuses window functions that are errors in PostgreSQL.
fn check_window(function: &WindowFunction, schema: &DFSchema) -> Result<()> {
    if function.params.distinct {
        let message = "DISTINCT is not implemented for window functions";
        return Err(PgError::unsupported(message).into());
    }
    if let WindowFunctionDefinition::AggregateUDF(aggregate) = &function.fun {
        check(aggregate, &function.params.args, schema)?;
    }
    let (code, at) = match function.fun.name() {
        "nth_value" => ("22016", 1),
        "ntile" => ("22014", 0),
        _ => return Ok(()),
    };
    if function
        .params
        .args
        .get(at)
        .and_then(whole)
        .is_some_and(|count| count <= 0)
    {
        let name = function.fun.name();
        let message = format!("argument of {name} must be greater than zero");
        return Err(PgError::new(code, message).into());
    }
    Ok(())
}

/// The value of an integer constant.
fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Cast(cast) => whole(&cast.expr),
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(value)) => value,
            _ => None,
        },
        _ => None,
    }
}

/// 42883 for aggregates that PostgreSQL lacks.
fn check(function: &AggregateUDF, args: &[Expr], schema: &DFSchema) -> Result<()> {
    if matches!(function.name(), "min" | "max")
        && let [value] = args
    {
        let field = value.to_field(schema)?.1;
        let has_no_order = matches!(field.data_type(), DataType::Boolean | DataType::Struct(_))
            || matches!(marked_type(&field), Some("json" | "jsonb" | "uuid"))
            || Target::of_field(&field) == Some(Target::Bytea);
        if has_no_order {
            let signature = format!("function {}({})", function.name(), type_name(&field));
            return Err(PgError::undefined_function(&signature).into());
        }
    }
    Ok(())
}

/// The expression that computes a result from DataFusion's aggregates.
fn result(kind: Kind, args: &[Expr], schema: &DFSchema, parts: &mut Parts) -> Result<Expr> {
    let [value] = args else {
        return Err(PgError::undefined_function(&format!("function {}", kind.name())).into());
    };
    let held = value.get_type(schema)?;
    let cast = |value: Expr, to: DataType| Expr::Cast(Cast::new(Box::new(value), to));
    let value = value.clone();
    if kind == Kind::List {
        return list(value, schema, parts);
    }
    if held.is_floating() {
        let double = cast(value, DataType::Float64);
        return Ok(match kind {
            Kind::Sum if held == DataType::Float32 => {
                cast_number(parts.column(sum::sum_udaf(), double), &Target::Float4)
            }
            Kind::Sum | Kind::List => parts.column(sum::sum_udaf(), double),
            Kind::Avg => parts.column(average::avg_udaf(), double),
            Kind::Variance { sample, root } => {
                let function = match (sample, root) {
                    (true, false) => variance::var_samp_udaf(),
                    (false, false) => variance::var_pop_udaf(),
                    (true, true) => stddev::stddev_udaf(),
                    (false, true) => stddev::stddev_pop_udaf(),
                };
                // For a single NaN or infinity DataFusion returns 0.
                let nothing = parts.column(sum::sum_udaf(), double.clone()) * lit(0.0);
                parts.column(function, double) + nothing
            }
        });
    }
    if !held.is_numeric() {
        return Ok(match kind {
            Kind::Avg => parts.column(average::avg_udaf(), value),
            _ => parts.column(sum::sum_udaf(), value),
        });
    }
    Ok(match kind {
        Kind::Sum | Kind::List => total(value, &held, parts),
        Kind::Avg => {
            let rows = parts.column(count::count_udaf(), value.clone());
            let total = total(value, &held, parts);
            // The sum of narrow integers is an integer, whose quotient would be one, too.
            let total = match total_type(&held) {
                DataType::Int64 => cast(total, DataType::Decimal128(19, 0)),
                _ => total,
            };
            arithmetic::call(
                Op::Divide,
                vec![total, cast(rows, DataType::Decimal128(19, 0))],
            )
        }
        Kind::Variance { sample, root } => {
            let rows = parts.column(count::count_udaf(), value.clone());
            let plain = as_decimal(&held).unwrap_or(DataType::Decimal128(20, 0));
            let (precision, scale) = digits(&plain).unwrap_or((38, 0));
            let squares = if precision > 37 {
                arithmetic::call(Op::Multiply, vec![value.clone(), value.clone()])
            } else {
                let wide = match (u8::try_from(precision), i8::try_from(scale)) {
                    (Ok(precision), Ok(scale)) if precision > 13 => {
                        DataType::Decimal256(precision, scale)
                    }
                    _ => plain,
                };
                let factor = Box::new(cast(value.clone(), wide));
                Expr::BinaryExpr(BinaryExpr::new(factor.clone(), Operator::Multiply, factor))
            };
            let squares = if parts.distinct {
                squares_of_distinct(&value, &squares, schema, parts)?
            } else {
                parts.column(sum_of(&squares.get_type(schema)?), squares)
            };
            let total = total(value, &held, parts);
            variance_of(sample, root, vec![rows, total, squares])
        }
    })
}

/// `array_agg`, marked with the type of its elements. Arrays are collected only if they are alike.
fn list(value: Expr, schema: &DFSchema, parts: &mut Parts) -> Result<Expr> {
    let element = value.to_field(schema)?.1;
    let field = Field::new("", list_of(&element), true);
    let mut made = (parts.make)(array_agg::array_agg_udaf(), value);
    // Equal values of jsonb may have different texts.
    let mut distinct = None;
    if let Expr::AggregateFunction(function) = &mut made
        && function.params.distinct
        && has_key(&element)
    {
        function.params.distinct = false;
        let order = std::mem::take(&mut function.params.order_by);
        let order = order.first();
        let is_ascending = order.is_none_or(|order| order.asc);
        distinct = Some((is_ascending, order.is_some_and(|order| order.nulls_first)));
    }
    if let Expr::AggregateFunction(function) = &mut made {
        sort_distinct(&mut function.params, schema)?;
    }
    let mut list = marked_like(parts.keep(made), &field);
    if let Some((is_ascending, nulls_first)) = distinct {
        list = distinct_elements(list, is_ascending, nulls_first);
    }
    Ok(match element.data_type().is_list() {
        true => arrays::collected(list),
        false => list,
    })
}

/// The sum of the squares of distinct values: a value and its negative have the same square.
fn squares_of_distinct(
    value: &Expr,
    square: &Expr,
    schema: &DFSchema,
    parts: &mut Parts,
) -> Result<Expr> {
    let zero =
        |of: &Expr| -> Result<Expr> { Ok(lit(ScalarValue::new_zero(&of.get_type(schema)?)?)) };
    let none = zero(square)?;
    let held = square.get_type(schema)?;
    let mut sum = |of_sign: Expr| {
        let when_then = vec![(Box::new(of_sign), Box::new(square.clone()))];
        let squares = Case::new(None, when_then, Some(Box::new(none.clone())));
        parts.column(sum_of(&held), Expr::Case(squares))
    };
    let negative = sum(value.clone().lt(zero(value)?));
    Ok(negative + sum(value.clone().gt(zero(value)?)))
}

/// `sum(value)` in a type that cannot overflow.
fn total(value: Expr, held: &DataType, parts: &mut Parts) -> Expr {
    let cast = |value: Expr, to: DataType| Expr::Cast(Cast::new(Box::new(value), to));
    let value = match held {
        DataType::Int64 | DataType::UInt32 => cast(value, DataType::Decimal128(19, 0)),
        DataType::UInt64 => cast(value, DataType::Decimal128(20, 0)),
        held if held.is_integer() => cast(value, DataType::Int64),
        held if held.is_decimal() => without_plus(value),
        _ => value,
    };
    parts.column(sum_of(held), value)
}

/// Writes `x + c` as `x - (-c)`. For two sums such as `sum(x + c)` DataFusion 55.2 computes
/// `sum(x) + c * count(x)` and casts the count to the type of `c`, which may be too narrow.
fn without_plus(value: Expr) -> Expr {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Plus,
        right,
    }) = value
    else {
        return value;
    };
    let (value, constant) = match (left.any_column_refs(), right.any_column_refs()) {
        (true, false) => (left, right),
        (false, true) => (right, left),
        _ => return Expr::BinaryExpr(BinaryExpr::new(left, Operator::Plus, right)),
    };
    let negative = Box::new(Expr::Negative(constant));
    Expr::BinaryExpr(BinaryExpr::new(value, Operator::Minus, negative))
}

/// The `sum` function that is exact for a type.
fn sum_of(held: &DataType) -> Arc<AggregateUDF> {
    match held {
        DataType::Decimal128(precision, _) if *precision <= SUM_DIGITS_MAX => sum::sum_udaf(),
        DataType::Decimal128(..) | DataType::Decimal256(..) => decimal_sum(),
        _ => sum::sum_udaf(),
    }
}

/// The type of [`total`], if it is an integer.
fn total_type(held: &DataType) -> DataType {
    match held {
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => DataType::Decimal128(38, 0),
        held if held.is_integer() => DataType::Int64,
        held => held.clone(),
    }
}

/// Sums of decimals with at most this many digits fit 128 bits for any number of rows.
const SUM_DIGITS_MAX: u8 = 28;
