//! Types of constants, and of expressions over several values.
//!
//! | from | to |
//! |---|---|
//! | `pg_case(c, x, …)`, `coalesce(…)`, `greatest(…)`, `nullif(…)` | DataFusion's, with values cast to the common type |
//! | `x IN ('1', …)`, `x BETWEEN '1' AND …`, `x IS DISTINCT FROM '1'` | constants of the type of `x` |
//! | `'1' IN (x, …)`, `'1' BETWEEN x AND …` | the same (`open_left.rs`) |
//! | `array_position(a, '1')`, `array_append(a, '1')` | constants of the type of the elements |
//! | `array_cat(a, '{1}')`, `array_position('{1}', x)` | arrays of the type of `a` or of `x` |
//! | a cast by DataFusion (INSERT) that loses digits | `pg_cast` |
//! | `string_agg(x, …)`, `md5(x)` of `character(n)` | `string_agg(x::text, …)`, `md5(x::text)` |
//! | `x IS NULL` of a struct | whether each field is NULL |
//! | `pg_typeof(x)` | the type's name |
//! | `(SELECT j …)` of json | the same, marked (`functions/marked.rs`) |

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction, Sort};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, lit};

use crate::PgError;
use crate::casts::{self, Context, PgCast, Target, cast_expr};
use crate::functions::scalar::{of_any_digits, type_name, untyped_arrays};
use crate::functions::{arrays, fields_null, mark_of, marked_like};
use crate::numbers::aggregation::Common;
use crate::operators::padded;
use crate::operators::{is_unknown, typed};

use super::{distinct, lists, open_left};

#[derive(Debug)]
pub(super) struct Semantics;

impl Semantics {
    /// Whether the rewrite below may change or refuse a part of an expression.
    pub(super) fn concerns(part: &Expr) -> bool {
        match part {
            Expr::ScalarFunction(_)
            | Expr::InList(_)
            | Expr::Between(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::ScalarSubquery(_) => true,
            Expr::BinaryExpr(given) => matches!(
                given.op,
                Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
            ),
            Expr::Cast(cast) => !is_whole(&cast.expr),
            Expr::AggregateFunction(call) => call.func.name() == STRING_AGG,
            Expr::WindowFunction(call) => call.fun.name() == STRING_AGG,
            _ => false,
        }
    }
}

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
            Expr::ScalarFunction(call) => of_call(call, schema, config),
            Expr::InList(list) => in_list(list, schema, config),
            Expr::Between(bounds) => between(bounds, schema, config),
            Expr::BinaryExpr(binary)
                if matches!(
                    binary.op,
                    Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
                ) =>
            {
                distinct_from(binary, schema, config)
            }
            Expr::Cast(cast) => lossless(cast, schema, config),
            Expr::IsNull(row) if is_row(&row, schema) => {
                Ok(Transformed::yes(fields_null(*row, true)))
            }
            Expr::IsNotNull(row) if is_row(&row, schema) => {
                Ok(Transformed::yes(fields_null(*row, false)))
            }
            Expr::AggregateFunction(mut call) if call.func.name() == STRING_AGG => {
                let params = &mut call.params;
                let given = params.args.clone();
                let changed = unpadded(&mut params.args, schema, config)?;
                if changed && params.distinct {
                    follow_arguments(&mut params.order_by, &given, &params.args)?;
                }
                let call = Expr::AggregateFunction(call);
                Ok(Transformed::new_transformed(call, changed))
            }
            Expr::WindowFunction(mut call) if call.fun.name() == STRING_AGG => {
                let changed = unpadded(&mut call.params.args, schema, config)?;
                let call = Expr::WindowFunction(call);
                Ok(Transformed::new_transformed(call, changed))
            }
            Expr::ScalarSubquery(query) if mark_of(query.subquery.schema().field(0)).is_some() => {
                let field = Arc::clone(&query.subquery.schema().fields()[0]);
                let value = Expr::ScalarSubquery(query);
                Ok(Transformed::yes(marked_like(value, &field)))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

const STRING_AGG: &str = "string_agg";
/// DataFusion's functions of texts that PostgreSQL has, too. (Ours know `character(n)`.)
const TAKE_TEXTS: [&str; 2] = ["md5", "starts_with"];

/// A call whose arguments have the types that PostgreSQL gives them.
fn of_call(
    mut call: ScalarFunction,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let inner = call.func.inner();
    if let Some(cast) = inner.downcast_ref::<PgCast>() {
        // The planner's casts have the settings from the session's start.
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
    if TAKE_TEXTS.contains(&call.func.name()) {
        let changed = padded_as_text(&mut call.args, schema, config);
        let call = Expr::ScalarFunction(call);
        return Ok(Transformed::new_transformed(call, changed));
    }
    let is_read = read_arrays(&mut call, schema, config)?;
    let (list, elements): (_, &[usize]) = match call.func.name() {
        "array_append" | "array_position" | "array_positions" | "array_remove" => (0, &[1]),
        "array_prepend" => (1, &[0]),
        "array_replace" => (0, &[1, 2]),
        _ => {
            let call = Expr::ScalarFunction(call);
            return Ok(Transformed::new_transformed(call, is_read));
        }
    };
    let mut typed = elements_typed(call, list, elements, schema, config)?;
    typed.transformed |= is_read;
    Ok(typed)
}

fn in_list(list: InList, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
    if is_unknown(&list.expr) {
        return open_left::in_list(list, schema, config);
    }
    if !list.list.iter().any(is_unknown) {
        return lists::in_list(list, schema, config);
    }
    let field = lists::constants_type(&list, schema)?;
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

fn between(
    between: Between,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    if is_unknown(&between.expr) {
        return open_left::between(between, schema, config);
    }
    if !is_unknown(&between.low) && !is_unknown(&between.high) {
        return lists::between(between, schema);
    }
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

fn distinct_from(
    compared: BinaryExpr,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    if is_unknown(&compared.left) == is_unknown(&compared.right) {
        return lists::distinct(compared, schema);
    }
    let BinaryExpr { left, op, right } = compared;
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

fn is_row(expr: &Expr, schema: &DFSchema) -> bool {
    let held = expr.get_type(schema);
    held.is_ok_and(|held| matches!(held, DataType::Struct(_)))
}

/// `string_agg` takes texts, without the trailing blanks of `character(n)`.
fn unpadded(args: &mut [Expr], schema: &DFSchema, config: &ConfigOptions) -> Result<bool> {
    let fields = args.iter().map(|arg| Ok(arg.to_field(schema)?.1));
    let fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
    // DataFusion would join the bytes as texts.
    let is_bytes = |field: &FieldRef| Target::of_field(field) == Some(Target::Bytea);
    if fields.iter().any(is_bytes) {
        let message = format!("{STRING_AGG} of bytea is not supported");
        return Err(PgError::unsupported(message).into());
    }
    let is_other = |target: Target| !target.is_text();
    if fields
        .iter()
        .any(|field| Target::of_field(field).is_some_and(is_other))
    {
        let names: Vec<_> = fields.iter().map(|field| type_name(field)).collect();
        let signature = format!("function {STRING_AGG}({})", names.join(", "));
        return Err(PgError::undefined_function(&signature).into());
    }
    Ok(padded_as_text(args, schema, config))
}

/// Removes the trailing blanks of `character(n)`. Returns whether an argument was changed.
fn padded_as_text(args: &mut [Expr], schema: &DFSchema, config: &ConfigOptions) -> bool {
    let mut changed = false;
    for arg in args {
        let field = arg.to_field(schema);
        if field.is_ok_and(|(_, field)| padded::is_padded(&field)) {
            *arg = cast_expr(std::mem::take(arg), &Target::Text, config);
            changed = true;
        }
    }
    changed
}

/// With DISTINCT, the keys of ORDER BY are arguments: they change as these do.
fn follow_arguments(order: &mut [Sort], given: &[Expr], made: &[Expr]) -> Result<()> {
    for sort in order {
        let mut pairs = given.iter().zip(made);
        let same = pairs.find(|(given, _)| **given == sort.expr);
        let (_, made) = same.ok_or_else(distinct::no_argument)?;
        sort.expr = made.clone();
    }
    Ok(())
}

/// Casts the arguments of a function that are arrays written as texts.
fn read_arrays(
    call: &mut ScalarFunction,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<bool> {
    if !call.name().starts_with("array_") || !call.args.iter().any(is_unknown) {
        return Ok(false);
    }
    let given = call.args.iter().map(|arg| Ok(arg.to_field(schema)?.1));
    let given: Vec<FieldRef> = given.collect::<Result<_>>()?;
    let found = untyped_arrays(call.name(), &given, |at| is_unknown(&call.args[at]));
    for (at, field) in &found {
        let text = std::mem::take(&mut call.args[*at]);
        let (leaf, depth) = arrays::leaf(field);
        // Numerics in a text have digits of their own.
        let is_exact = !leaf.data_type().is_decimal();
        call.args[*at] = match (arrays::written_out(&text), Target::of_field(field)) {
            (Some((array, dimensions)), Some(target)) if dimensions == depth && is_exact => {
                cast_expr(array, &target.unmodified(), config)
            }
            _ => typed(text, field, config),
        };
    }
    Ok(!found.is_empty())
}

/// Constants that become elements, or are compared with them, get the type of the elements. Those
/// that become elements of a `character(n)[]` are not padded: the array's elements have no length.
fn elements_typed(
    mut call: ScalarFunction,
    list: usize,
    elements: &[usize],
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let field = call.args.get(list).map(|list| list.to_field(schema));
    let inner = match field
        .transpose()?
        .as_ref()
        .map(|(_, field)| field.data_type())
    {
        Some(DataType::List(inner)) if !inner.data_type().is_nested() => Arc::clone(inner),
        _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
    };
    let mut changed = false;
    for at in elements {
        if let Some(value) = call.args.get_mut(*at).filter(|value| is_unknown(value)) {
            let is_searched = *at == 1 && call.func.name() != "array_append";
            let like = if inner.data_type().is_decimal() {
                Arc::new(of_any_digits(&inner))
            } else if is_searched {
                Arc::clone(&inner)
            } else {
                padded::unpadded(&inner)
            };
            *value = typed(value.clone(), &like, config);
            changed = true;
        }
    }
    let call = Expr::ScalarFunction(call);
    Ok(Transformed::new_transformed(call, changed))
}

/// Replaces a cast made by DataFusion with PostgreSQL's, if they differ.
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
    let literal = is_whole(&cast.expr);
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

/// Whether an expression is a literal integer.
fn is_whole(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.data_type().is_integer())
}

/// PostgreSQL's name for the type of an expression.
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

/// Replaces casts from numerics to floats made by DataFusion's coercion, which may be off by one
/// digit, with PostgreSQL's.
#[derive(Debug)]
pub(super) struct Floats;

impl Floats {
    /// Whether the rewrite below may change a part of an expression.
    pub(super) fn concerns(part: &Expr) -> bool {
        let Expr::Cast(cast) = part else {
            return false;
        };
        matches!(
            cast.field.data_type(),
            DataType::Float32 | DataType::Float64
        )
    }
}

impl FunctionRewrite for Floats {
    fn name(&self) -> &'static str {
        "postgres_floats"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::Cast(cast) = expr else {
            return Ok(Transformed::no(expr));
        };
        let target = match cast.field.data_type() {
            DataType::Float32 => Target::Float4,
            DataType::Float64 => Target::Float8,
            _ => return Ok(Transformed::no(Expr::Cast(cast))),
        };
        if !cast.expr.get_type(schema)?.is_decimal() {
            return Ok(Transformed::no(Expr::Cast(cast)));
        }
        Ok(Transformed::yes(casts::cast_number(*cast.expr, &target)))
    }
}
