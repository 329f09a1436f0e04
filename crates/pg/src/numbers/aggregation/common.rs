//! Expressions over values with a common type: CASE, coalesce, greatest, least, nullif and ARRAY.
//!
//! PostgreSQL determines that type by `select_common_type`. These expressions are our own
//! functions until analysis replaces them with DataFusion's, with the values cast to the common
//! type (`rules/semantics.rs`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::core;
use datafusion::logical_expr::{
    BinaryExpr, Case, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, binary_expr, cast,
};
use datafusion::scalar::ScalarValue;

use super::float_key::float_key;
use crate::functions::{arrays, marked_like};
use crate::operators::{
    ComparedIn, Meeting, as_common, check_comparable, common, compared, is_unknown, meeting, met,
    mismatch, no_equality, padded, typed,
};
use crate::output::pg_type;
use crate::resolve;

/// The kind of expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// `condition, value, …, else`.
    Case,
    /// `operand, when, value, …, else`.
    CaseOf,
    Coalesce,
    Greatest,
    Least,
    NullIf,
    /// `ARRAY[value, …]`.
    Array,
}

/// See the file's header.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Common {
    kind: Kind,
    signature: Signature,
}

/// The function to which the dialect rewrites CASE without an operand.
pub(crate) const CASE: &str = "pg_case";
/// The function to which the dialect rewrites CASE with an operand.
pub(crate) const CASE_OF: &str = "pg_case_of";

/// The function to which the dialect rewrites an array of columns. (DataFusion's array literals do
/// not resolve columns of outer queries.)
pub(crate) const ARRAY: &str = "pg_array";

/// The functions by name.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    [
        Kind::Case,
        Kind::CaseOf,
        Kind::Coalesce,
        Kind::Greatest,
        Kind::Least,
        Kind::NullIf,
        Kind::Array,
    ]
    .map(|kind| {
        ScalarUDF::new_from_impl(Common {
            kind,
            signature: Signature::variadic_any(Volatility::Immutable),
        })
    })
    .into()
}

impl Common {
    /// Whether the argument at this position is a value, not a condition.
    fn is_value(&self, at: usize, count: usize) -> bool {
        match self.kind {
            Kind::Case => at % 2 == 1 || at + 1 == count,
            Kind::CaseOf => at > 0 && (at.is_multiple_of(2) || at + 1 == count),
            _ => true,
        }
    }

    /// The arguments that have one type, by their positions: the values, and what CASE compares.
    pub(crate) fn alike(&self, count: usize) -> [Vec<usize>; 2] {
        let (values, others): (Vec<_>, Vec<_>) =
            (0..count).partition(|at| self.is_value(*at, count));
        let compared = match self.kind {
            Kind::CaseOf => others,
            _ => vec![],
        };
        [values, compared]
    }

    /// Moves ELSE to the front, because PostgreSQL considers it first.
    fn else_first(&self, count: usize, values: &mut [(Arc<Field>, bool)]) {
        let has_else = match self.kind {
            Kind::Case => count % 2 == 1,
            Kind::CaseOf => count.is_multiple_of(2),
            _ => false,
        };
        if has_else {
            values.rotate_right(1);
        }
    }

    fn word(&self) -> &'static str {
        match self.kind {
            Kind::Case | Kind::CaseOf => "CASE",
            Kind::Coalesce => "COALESCE",
            Kind::Greatest => "GREATEST",
            Kind::Least => "LEAST",
            Kind::NullIf => "NULLIF",
            Kind::Array => "ARRAY",
        }
    }

    /// Whether this is a `nullif` whose `=` accepts both types without a cast: then it returns the
    /// first value unchanged.
    fn keeps_first(&self, values: &[(FieldRef, bool)]) -> bool {
        let (Kind::NullIf, [(first, false), (second, false)]) = (self.kind, values) else {
            return false;
        };
        let [first, second] = [first, second].map(|field| pg_type(field).oid());
        let chosen = resolve::binary("=", first, second);
        first != second && chosen.is_ok_and(|chosen| chosen.arguments[0] == first)
    }

    /// The field of the common type; untyped if all values are NULL.
    fn field(&self, values: &[(Arc<Field>, bool)]) -> Result<FieldRef> {
        if let Some(field) = common(values) {
            return Ok(field);
        }
        let error = match self.kind {
            Kind::NullIf => no_equality(values),
            _ => mismatch(self.word(), values),
        };
        if let Some(error) = error {
            return Err(error.into());
        }
        let typed = values
            .iter()
            .filter(|(field, unknown)| !unknown && !field.data_type().is_null());
        // The first one with the most dimensions.
        let deepest = typed.rev().max_by_key(|(field, _)| arrays::depth(field));
        if let Some((field, _)) = deepest {
            return Ok(Arc::clone(field));
        }
        let held = if values.iter().any(|(_, unknown)| *unknown) {
            DataType::Utf8
        } else {
            DataType::Null
        };
        Ok(Arc::new(Field::new("value", held, true)))
    }

    /// DataFusion's expression, with the values cast to the common type.
    pub(crate) fn expand(
        &self,
        args: Vec<Expr>,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Expr> {
        let count = args.len();
        let mut values = vec![];
        for (at, arg) in args.iter().enumerate() {
            if self.is_value(at, count) {
                let field = arg.to_field(schema)?.1;
                let has_no_type = is_unknown(arg) || is_empty_array(&field);
                values.push((field, has_no_type));
            }
        }
        self.else_first(count, &mut values);
        let field = self.field(&values)?;
        let first = self.keeps_first(&values).then(|| args[0].clone());
        let texts = match (self.kind, args.as_slice()) {
            (Kind::NullIf, [value, other]) => padded::compared(value, Operator::Eq, other, schema),
            _ => None,
        };
        let mut cast = vec![];
        for (at, arg) in args.into_iter().enumerate() {
            let held = arg.to_field(schema)?.1;
            let held = match padded::is_padded(&held) {
                true => held,
                false => Arc::new(Field::new("", held.data_type().clone(), true)),
            };
            cast.push(if !self.is_value(at, count) {
                arg
            } else if is_unknown(&arg) && self.kind == Kind::NullIf {
                typed(arg, &field, config)
            } else if is_unknown(&arg) {
                typed(arg, &padded::unpadded(&field), config)
            } else {
                as_common(arg, &held, &field, config)
            });
        }
        let expr = match self.kind {
            Kind::Case => case(None, cast),
            Kind::CaseOf => {
                let operand = cast.remove(0);
                case_of(operand, cast, schema, config)?
            }
            Kind::Coalesce => core::coalesce().call(cast),
            Kind::Greatest => core::greatest().call(cast),
            Kind::Least => core::least().call(cast),
            Kind::Array => arrays::make_array(cast, &field),
            // DataFusion's function treats -0.0 and 0.0 as different.
            Kind::NullIf => match <[Expr; 2]>::try_from(cast) {
                Ok([value, other]) => {
                    let equal =
                        BinaryExpr::new(Box::new(value.clone()), Operator::Eq, Box::new(other));
                    let equal = texts.unwrap_or(Expr::BinaryExpr(equal));
                    let null = Expr::Literal(ScalarValue::Null, None);
                    let value = match first.clone() {
                        Some(first) => first,
                        None => held_like(value, &field, schema)?,
                    };
                    case(None, vec![equal, null, value])
                }
                Err(cast) => core::nullif().call(cast),
            },
        };
        let result = match (self.kind, first) {
            (Kind::Array, _) => &array_of(&field),
            (_, Some(_)) => &values[0].0,
            (_, None) => &field,
        };
        Ok(marked_like(expr, result))
    }
}

/// A text as a column of the field holds it: a constant stays DataFusion's text, and nothing else
/// gives the result of `nullif` the type that it was planned with.
fn held_like(value: Expr, field: &Field, schema: &DFSchema) -> Result<Expr> {
    let held = field.data_type();
    if held.is_string() && value.get_type(schema)? != *held {
        return Ok(cast(value, held.clone()));
    }
    Ok(value)
}

/// A field of an array with elements of this field's type.
fn array_of(field: &Field) -> FieldRef {
    let element = field.clone().with_name(Field::LIST_FIELD_DEFAULT_NAME);
    let list = DataType::List(Arc::new(element.with_nullable(true)));
    Arc::new(Field::new(ARRAY, list, true))
}

/// Whether a field holds arrays without an element type, which adapt to any array type:
/// `ARRAY(SELECT …)` is a coalesce with such an array.
fn is_empty_array(field: &Field) -> bool {
    matches!(field.data_type(), DataType::List(element) if element.data_type().is_null())
}

/// `CASE operand WHEN …`: compares the operand with each value like `=`.
fn case_of(
    operand: Expr,
    mut args: Vec<Expr>,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Expr> {
    let field = operand.to_field(schema)?.1;
    let last = args.len();
    let mut types = vec![field.data_type().clone()];
    for at in (0..last.saturating_sub(1)).step_by(2) {
        if is_unknown(&args[at]) {
            args[at] = typed(std::mem::take(&mut args[at]), &field, config);
        }
        check_comparable("=", &operand, &args[at], schema)?;
        types.push(args[at].get_type(schema)?);
    }
    if let Some(args) = texts_of(&operand, &args, schema) {
        return Ok(case(None, args));
    }
    let mut pairs = types[1..]
        .iter()
        .map(|held| meeting(&[types[0].clone(), held.clone()]));
    let all = meeting(&types);
    // DataFusion's CASE compares floats by their bits.
    let whens = || (0..last.saturating_sub(1)).step_by(2);
    if let Some(times @ ComparedIn::Time(_)) = ComparedIn::of(&types) {
        let whens = whens().zip(&types[1..]);
        whens.for_each(|(at, held)| args[at] = times.cast(std::mem::take(&mut args[at]), held));
        return Ok(case(Some(times.cast(operand, &types[0])), args));
    }
    if all == Meeting::AsTheyAre {
        if types[0].is_floating() {
            whens().for_each(|at| args[at] = float_key(std::mem::take(&mut args[at])));
            return Ok(case(Some(float_key(operand)), args));
        }
        return Ok(case(Some(operand), args));
    }
    let one = match all {
        Meeting::In(held) => {
            let is_exact = |pair: Meeting| pair == Meeting::In(held.clone());
            (!held.is_floating() || pairs.all(is_exact)).then_some(held)
        }
        _ => None,
    };
    let whens = whens().zip(&types[1..]);
    Ok(match one {
        Some(common) => {
            let met = |value: Expr, held: &DataType| {
                let met = met(value, held, &common);
                if common.is_floating() {
                    float_key(met)
                } else {
                    met
                }
            };
            whens.for_each(|(at, held)| args[at] = met(std::mem::take(&mut args[at]), held));
            case(Some(met(operand, &types[0])), args)
        }
        None => {
            whens.for_each(|(at, held)| {
                let value = std::mem::take(&mut args[at]);
                let operand = (operand.clone(), &types[0]);
                args[at] = compared(Operator::Eq, operand, (value, held));
            });
            case(None, args)
        }
    })
}

/// The arguments of a CASE without an operand, if one of the compared texts is `character(n)`.
fn texts_of(operand: &Expr, args: &[Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
    let mut conditions = args.to_vec();
    let mut is_any = false;
    for at in (0..args.len().saturating_sub(1)).step_by(2) {
        let compared = padded::compared(operand, Operator::Eq, &args[at], schema);
        is_any |= compared.is_some();
        let plain = || binary_expr(operand.clone(), Operator::Eq, args[at].clone());
        conditions[at] = compared.unwrap_or_else(plain);
    }
    is_any.then_some(conditions)
}

/// Builds a CASE from `condition, value, …, else`.
fn case(operand: Option<Expr>, mut args: Vec<Expr>) -> Expr {
    let other = if args.len() % 2 == 1 {
        args.pop()
    } else {
        None
    };
    let mut when_then = vec![];
    let mut rest = args.into_iter();
    while let (Some(when), Some(then)) = (rest.next(), rest.next()) {
        when_then.push((Box::new(when), Box::new(then)));
    }
    Expr::Case(Case::new(
        operand.map(Box::new),
        when_then,
        other.map(Box::new),
    ))
}

impl ScalarUDFImpl for Common {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Case => CASE,
            Kind::CaseOf => CASE_OF,
            Kind::Coalesce => "coalesce",
            Kind::Greatest => "greatest",
            Kind::Least => "least",
            Kind::NullIf => "nullif",
            Kind::Array => ARRAY,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} depends on its arguments", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let count = args.arg_fields.len();
        // The value of a parameter may be marked with its type.
        let unknown = |at: usize| {
            matches!(
                args.scalar_arguments.get(at),
                Some(Some(
                    ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_)
                ))
            ) && args.arg_fields[at].metadata().is_empty()
        };
        let mut values: Vec<_> = (0..count)
            .filter(|at| self.is_value(*at, count))
            .map(|at| (Arc::clone(&args.arg_fields[at]), unknown(at)))
            .collect();
        self.else_first(count, &mut values);
        let field = match self.keeps_first(&values) {
            true => Arc::clone(&values[0].0),
            false => self.field(&values)?,
        };
        if self.kind == Kind::Array {
            return Ok(array_of(&field));
        }
        Ok(Arc::new(
            field
                .as_ref()
                .clone()
                .with_name(self.name())
                .with_nullable(true),
        ))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} is replaced when a plan is analysed", self.name())
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        let (first, rest) = args.split_first()?;
        Some((vec![first], rest.iter().collect()))
    }
}
