//! Values that stand in one column: CASE, coalesce, greatest, least and nullif.
//!
//! Their type is what PostgreSQL's `select_common_type` finds, so they are functions of ours when a
//! plan is made, and become DataFusion's, of values cast to that type, when it is analysed
//! (`rules/semantics.rs`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::core;
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::casts::Target;
use crate::error::PgError;
use crate::functions::marked_like;
use crate::operators::{common, is_unknown, typed};

/// Which of them.
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
}

/// See the file's header.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Common {
    kind: Kind,
    signature: Signature,
}

/// The name that the dialect writes for CASE without an operand.
pub(crate) const CASE: &str = "pg_case";
/// The name that the dialect writes for CASE with an operand.
pub(crate) const CASE_OF: &str = "pg_case_of";

/// The functions, by their names.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    [
        Kind::Case,
        Kind::CaseOf,
        Kind::Coalesce,
        Kind::Greatest,
        Kind::Least,
        Kind::NullIf,
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

    /// PostgreSQL looks at the value of ELSE first.
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
        }
    }

    /// The common type; `None` if there are only NULLs.
    fn field(&self, values: &[(Arc<Field>, bool)]) -> Result<FieldRef> {
        let named = values
            .iter()
            .filter(|(field, unknown)| !unknown && !field.data_type().is_null());
        let named: Vec<_> = named.map(|(field, _)| Target::of_field(field)).collect();
        match common(values) {
            Some(field) => Ok(field),
            None if named.is_empty() => {
                let held = if values.iter().any(|(_, unknown)| *unknown) {
                    DataType::Utf8
                } else {
                    DataType::Null
                };
                Ok(Arc::new(Field::new("value", held, true)))
            }
            None => {
                let mut names: Vec<String> = named.iter().flatten().map(Target::name).collect();
                names.dedup();
                let names = names.into_iter().take(2).collect::<Vec<_>>().join(" and ");
                let message = format!("{} types {names} cannot be matched", self.word());
                Err(PgError::new("42804", message).into())
            }
        }
    }

    /// DataFusion's expression, of values of the common type.
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
        let mut cast = vec![];
        for (at, arg) in args.into_iter().enumerate() {
            let held = arg.get_type(schema)?;
            cast.push(if !self.is_value(at, count) {
                arg
            } else if is_unknown(&arg) && self.kind == Kind::NullIf {
                typed(arg, &field, config)
            } else if is_unknown(&arg) {
                typed(arg, &unpadded(&field), config)
            } else if held == *field.data_type() {
                arg
            } else {
                Expr::Cast(Cast::new(Box::new(arg), field.data_type().clone()))
            });
        }
        let expr = match self.kind {
            Kind::Case => case(None, cast),
            Kind::CaseOf => {
                let operand = cast.remove(0);
                let field = operand.to_field(schema)?.1;
                let last = cast.len();
                let cast = cast.into_iter().enumerate().map(|(at, arg)| {
                    if at % 2 == 0 && at + 1 < last && is_unknown(&arg) {
                        typed(arg, &field, config)
                    } else {
                        arg
                    }
                });
                case(Some(operand), cast.collect())
            }
            Kind::Coalesce => core::coalesce().call(cast),
            Kind::Greatest => core::greatest().call(cast),
            Kind::Least => core::least().call(cast),
            // DataFusion's function takes -0.0 for another number than 0.0.
            Kind::NullIf => match <[Expr; 2]>::try_from(cast) {
                Ok([value, other]) => {
                    let equal =
                        BinaryExpr::new(Box::new(value.clone()), Operator::Eq, Box::new(other));
                    let null = Expr::Literal(ScalarValue::Null, None);
                    case(None, vec![Expr::BinaryExpr(equal), null, value])
                }
                Err(cast) => core::nullif().call(cast),
            },
        };
        Ok(marked_like(expr, &field))
    }
}

/// The type of a constant beside values of `char(n)`, which is not padded to their length.
fn unpadded(field: &FieldRef) -> FieldRef {
    match Target::of_field(field) {
        Some(Target::Bpchar(Some(_))) => {
            let held = field.data_type().clone();
            Arc::new(Target::Bpchar(None).field(field.name(), held, true))
        }
        _ => Arc::clone(field),
    }
}

/// Whether a field holds arrays without elements, which become arrays of any type: `ARRAY(SELECT
/// …)`
/// is a coalesce with one.
fn is_empty_array(field: &Field) -> bool {
    matches!(field.data_type(), DataType::List(element) if element.data_type().is_null())
}

/// `condition, value, …, else` as a CASE.
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
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} follows from its arguments", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let count = args.arg_fields.len();
        let unknown = |at: usize| {
            matches!(
                args.scalar_arguments.get(at),
                Some(Some(
                    ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_)
                ))
            )
        };
        let mut values: Vec<_> = (0..count)
            .filter(|at| self.is_value(*at, count))
            .map(|at| (Arc::clone(&args.arg_fields[at]), unknown(at)))
            .collect();
        self.else_first(count, &mut values);
        let field = self.field(&values)?;
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
