//! What is the result of PostgreSQL's `CAST(x AS T)`, and when is it an error?
//!
//! The dialect rewrites each cast to `pg_cast(x, 'T')`. [`PgCast`] derives its type from `T` and
//! the type of `x`, refuses casts that PostgreSQL does not have (42846), and evaluates the others
//! by PostgreSQL's rules. Where DataFusion's own cast gives the same result for every value,
//! `simplify` replaces the call with it, so that pruning and comparisons with literals see a plain
//! cast.
//!
//! By target: `numbers.rs`, `time.rs`, `text.rs`; `json.rs` casts from `jsonb`; `allowed.rs` lists
//! the casts that exist.
//!
//! CAST-I1: the type of a cast depends only on `T` and the type of `x`, never on the value of `x`:
//! folding a constant changes no type. The digits of a literal are part of `T`
//! ([`Target::NumericOf`]).

mod allowed;
mod json;
mod named;
mod numbers;
mod target;
mod text;
mod time;

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, new_null_array};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{exec_err, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};

pub use named::{named_in_errors, named_in_notices};
pub(crate) use numbers::{overflow, parse_bool};
pub(crate) use target::extension;
pub(crate) use target::{OPEN_SCALE, decimal};
pub use target::{PG_TYPE, Target};

use crate::error::PgError;
use crate::functions::{first_value, mark_of};
use crate::moments::Moments;
use crate::numbers::numeric::Numeric;
use crate::output::IntervalStyle;

/// The function to which the dialect rewrites casts.
pub const CAST: &str = "pg_cast";

/// The settings on which a cast depends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Context {
    /// The session's time zone.
    pub(crate) zone: Arc<str>,
    /// How the session shows intervals.
    pub(crate) style: IntervalStyle,
    /// When the statement and its transaction began; never, if the session has no transactions.
    moments: Moments,
}

impl Context {
    /// The settings of a session.
    #[must_use]
    pub fn of(config: &ConfigOptions) -> Self {
        let zone = config.execution.time_zone.as_deref().unwrap_or("UTC");
        Self {
            moments: Moments::of(config).cloned().unwrap_or_default(),
            style: IntervalStyle::of(config),
            ..Self::in_zone(zone)
        }
    }

    /// The context of a session with this time zone, in which every statement is a transaction.
    pub(crate) fn in_zone(zone: &str) -> Self {
        Self {
            zone: zone.into(),
            style: IntervalStyle::default(),
            moments: Moments::default(),
        }
    }
}

/// The cast function for a session with these settings.
pub(crate) fn udf(config: &ConfigOptions) -> ScalarUDF {
    ScalarUDF::new_from_impl(PgCast {
        signature: Signature::any(2, Volatility::Immutable),
        context: Context::of(config),
    })
}

/// Casts `expr` to `target` in a session with these settings.
pub(crate) fn cast_expr(expr: Expr, target: &Target, config: &ConfigOptions) -> Expr {
    udf(config).call(vec![as_written(expr, target), lit(target.to_string())])
}

/// Casts a number to a type whose cast depends on no setting.
pub(crate) fn cast_number(expr: Expr, target: &Target) -> Expr {
    static UDF: LazyLock<ScalarUDF> = LazyLock::new(|| udf(&ConfigOptions::default()));
    UDF.call(vec![as_written(expr, target), lit(target.to_string())])
}

/// The text of a constant that would be a numeric before it becomes a float (`f > 1e300`): numerics
/// have fewer digits here than floats reach, and the float is the same.
fn as_written(expr: Expr, target: &Target) -> Expr {
    if matches!(target, Target::Float4 | Target::Float8)
        && let Expr::ScalarFunction(call) = &expr
        && call.name() == CAST
        && PgCast::target(&call.args) == Some(Target::Numeric(None))
        && let Some(Expr::Literal(value, None)) = call.args.first()
        && let Some(text) = value.try_as_str().flatten()
        && Numeric::parse(text).is_some()
    {
        return lit(text);
    }
    expr
}

/// Casts the values of `array` to `to`. `from` is the array's field, which may name a type that
/// Arrow lacks.
///
/// # Errors
/// PostgreSQL's error for a value that the target cannot represent.
pub fn cast_array(
    array: &ArrayRef,
    from: &Field,
    to: &Target,
    context: &Context,
) -> Result<ArrayRef> {
    let held = to.arrow(from.data_type());
    if array.data_type() == &DataType::Null {
        return Ok(new_null_array(&held, array.len()));
    }
    if let DataType::Dictionary(_, values) = from.data_type() {
        let plain = arrow_cast(array, values)?;
        let field = Field::new(from.name(), values.as_ref().clone(), from.is_nullable());
        return cast_array(&plain, &field, to, context);
    }
    match to {
        Target::Array(element) if from.data_type().is_list() => {
            cast_elements(array, from, element, &held, context)
        }
        Target::Bool
        | Target::Int2
        | Target::Int4
        | Target::Int8
        | Target::Float4
        | Target::Float8
        | Target::Numeric(_)
        | Target::NumericOf(..) => numbers::cast(array, from, to, &held),
        Target::Date
        | Target::Time(_)
        | Target::Timestamp(_)
        | Target::Timestamptz(_)
        | Target::Interval(..) => time::cast(array, from, to, &held, context),
        Target::Text
        | Target::Varchar(_)
        | Target::Bpchar(_)
        | Target::Name
        | Target::Bytea
        | Target::Uuid
        | Target::Json
        | Target::Jsonb
        | Target::JsonPath
        | Target::Array(_) => text::cast(array, from, to, &held, context),
    }
}

/// Casts the elements of an array.
fn cast_elements(
    array: &ArrayRef,
    from: &Field,
    element: &Target,
    held: &DataType,
    context: &Context,
) -> Result<ArrayRef> {
    let list = match from.data_type() {
        DataType::List(_) => Arc::clone(array),
        DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
            arrow_cast(array, &DataType::List(Arc::clone(inner)))?
        }
        other => return internal_err!("{other} is not a list"),
    };
    let list = list.as_list::<i32>();
    let (DataType::List(inner), DataType::List(field)) = (list.data_type(), held) else {
        return internal_err!("{held} is not a list");
    };
    let values = if inner.data_type().is_list() {
        let nested = Target::Array(Box::new(element.clone()));
        cast_array(list.values(), inner, &nested, context)?
    } else {
        cast_array(list.values(), inner, element, context)?
    };
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(field),
        offsets,
        values,
        nulls,
    )?))
}

/// Arrow's cast, in which a value that does not fit is an error.
pub(crate) fn arrow_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..Default::default()
    };
    Ok(cast_with_options(array, to, &options)?)
}

/// `pg_cast(x, 'T')`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct PgCast {
    signature: Signature,
    context: Context,
}

impl PgCast {
    /// The settings with which the cast was planned.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// The target named by a call's arguments.
    #[must_use]
    pub fn target(args: &[Expr]) -> Option<Target> {
        match args {
            [_, Expr::Literal(target, _)] => target.try_as_str().flatten()?.parse().ok(),
            _ => None,
        }
    }
}

impl ScalarUDFImpl for PgCast {
    fn name(&self) -> &str {
        CAST
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (Self::target(args), args.first()) {
            (Some(target), Some(expr)) => format!("{expr}::{target}"),
            _ => CAST.to_owned(),
        })
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (Self::target(args), args.first()) {
            (Some(target), Some(expr)) => format!("{}::{target}", expr.schema_name()),
            _ => CAST.to_owned(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {CAST} depends on its arguments")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let target = match args.scalar_arguments.get(1) {
            Some(Some(target)) => target
                .try_as_str()
                .flatten()
                .and_then(|text| text.parse().ok()),
            _ => None,
        };
        let (Some(target), Some(from)) = (target, args.arg_fields.first()) else {
            return internal_err!("{CAST} takes a value and a type");
        };
        let target: Target = target;
        check_modifier(&target)?;
        allowed::check(from, &target)?;
        let held = target.arrow(from.data_type());
        Ok(target.field(self.name(), held, from.is_nullable()).into())
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        Some(udf(config))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, ColumnarValue::Scalar(target)] = args.args.as_slice() else {
            return exec_err!("{CAST} takes a value and a type");
        };
        let target: Option<Target> = target
            .try_as_str()
            .flatten()
            .and_then(|text| text.parse().ok());
        let (Some(target), Some(from)) = (target, args.arg_fields.first()) else {
            return internal_err!("{CAST} takes a value and a type");
        };
        let mut from = FieldRef::clone(from);
        if target == Target::Uuid && *from.data_type() == DataType::FixedSizeBinary(16) {
            // A uuid of a file. If all rows have the same value, it is a constant that has lost
            // its mark.
            let mark = [(PG_TYPE.to_owned(), target.name())];
            from = Arc::new(from.as_ref().clone().with_metadata(mark.into()));
        }
        Ok(match value {
            ColumnarValue::Array(array) => {
                ColumnarValue::Array(cast_array(array, &from, &target, &self.context)?)
            }
            ColumnarValue::Scalar(value) => {
                let cast = cast_array(&value.to_array()?, &from, &target, &self.context)?;
                ColumnarValue::Scalar(first_value(&cast)?)
            }
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let (Some(target), [value, _]) = (Self::target(&args), args.as_slice()) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let field = value.to_field(info.schema().as_ref())?.1;
        let from = field.data_type().clone();
        let held = target.arrow(&from);
        // The text of a `json` must lose its mark, and that of a `character(n)` its padding.
        let is_marked = mark_of(&field).is_some();
        let is_literal = matches!(value, Expr::Literal(..));
        let plain = !is_marked && !is_literal && is_arrows(&from, &target, &held);
        if !plain {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let value = value.clone();
        Ok(if from != held {
            let cast = Cast::new(Box::new(value), held);
            ExprSimplifyResult::Simplified(Expr::Cast(cast))
        } else if field.metadata().contains_key(PG_TYPE) {
            // Without the cast the value would keep the type of its field, such as jsonb or uuid.
            ExprSimplifyResult::Original(args)
        } else {
            ExprSimplifyResult::Simplified(value)
        })
    }
}

/// Whether Arrow's cast gives PostgreSQL's result for every value of the type `from`, without
/// errors.
pub(crate) fn is_arrows(from: &DataType, target: &Target, held: &DataType) -> bool {
    use DataType::{
        Decimal128, Decimal256, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32,
    };
    let named = target.field("", held.clone(), true).metadata().len();
    if named > 0 {
        return false;
    }
    let digits = |data_type: &DataType| match data_type {
        Int8 | UInt8 => Some((3, 0)),
        Int16 | UInt16 => Some((5, 0)),
        Int32 | UInt32 => Some((10, 0)),
        Int64 => Some((19, 0)),
        Decimal128(precision, scale) | Decimal256(precision, scale) => {
            Some((i16::from(*precision), i16::from(*scale)))
        }
        _ => None,
    };
    match (from, held) {
        (
            Decimal128(..) | Decimal256(..) | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16
            | UInt32,
            Decimal128(..) | Decimal256(..),
        ) => {
            let (Some((from, from_scale)), Some((to, to_scale))) = (digits(from), digits(held))
            else {
                return false;
            };
            to_scale >= from_scale && to - to_scale >= from - from_scale
        }
        (from, held) if from == held => !target.has_modifier(),
        (from, held) => matches!(
            (from, held),
            (Int8 | UInt8 | Int16, Int32 | Int64 | Float32 | Float64)
                | (Int8 | UInt8, Int16)
                | (UInt16 | Int32, Int64 | Float64)
                | (UInt16, Int32)
                | (UInt32, Int64)
                | (Float32, Float64)
                | (DataType::LargeUtf8, DataType::Utf8 | DataType::Utf8View)
        ),
    }
}

/// Checks a modifier, with PostgreSQL's messages.
fn check_modifier(target: &Target) -> Result<()> {
    match target {
        Target::Numeric(Some((precision, scale))) => {
            if !(1..=1000).contains(precision) {
                let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
                return Err(PgError::new("22023", message).into());
            }
            if !(-1000..=1000).contains(scale) {
                let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
                return Err(PgError::new("22023", message).into());
            }
        }
        Target::Varchar(Some(0)) => {
            let message = "length for type varchar must be at least 1";
            return Err(PgError::new("22023", message).into());
        }
        Target::Bpchar(Some(0)) => {
            let message = "length for type char must be at least 1";
            return Err(PgError::new("22023", message).into());
        }
        Target::Array(element) => return check_modifier(element),
        _ => {}
    }
    Ok(())
}
