//! The result types of PostgreSQL's aggregates of numbers, and of `array_agg`.
//!
//! [`Marker`] represents such an aggregate until `rules/aggregates.rs` replaces it with
//! DataFusion's `sum` and `count`; it has PostgreSQL's type and computes nothing.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal256Array};
use datafusion::arrow::datatypes::{DataType, Decimal256Type, Field, FieldRef, Int64Type, i256};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use num_bigint::BigInt;

use crate::casts::{OPEN_SCALE, Target, arrow_cast, decimal, overflow};
use crate::error::PgError;
use crate::functions::mark_of;
use crate::numbers::arithmetic::{OPEN, digits};
use crate::numbers::numeric::{Numeric, PLAIN_SCALE_MAX, fits, shown_scale};
use crate::numbers::small::Small;

/// The aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Sum,
    Avg,
    Variance {
        /// Of a sample (`var_samp`), not of the population (`var_pop`).
        sample: bool,
        /// Whether the result is the square root: the standard deviation.
        root: bool,
    },
    /// `array_agg`, whose elements keep their marked type.
    List,
}

impl Kind {
    /// PostgreSQL's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::List => "array_agg",
            Self::Variance {
                sample: true,
                root: false,
            } => "var_samp",
            Self::Variance {
                sample: false,
                root: false,
            } => "var_pop",
            Self::Variance {
                sample: true,
                root: true,
            } => "stddev_samp",
            Self::Variance {
                sample: false,
                root: true,
            } => "stddev_pop",
        }
    }
}

/// The aggregates with PostgreSQL's names.
pub(crate) fn functions() -> Vec<AggregateUDF> {
    let variance = |sample, root| Kind::Variance { sample, root };
    vec![
        marker(Kind::Sum, &[]),
        marker(Kind::Avg, &["mean"]),
        marker(variance(true, false), &["var", "variance", "var_sample"]),
        marker(variance(false, false), &["var_population"]),
        marker(variance(true, true), &["stddev"]),
        marker(variance(false, true), &[]),
        marker(Kind::List, &[]),
    ]
}

fn marker(kind: Kind, aliases: &[&str]) -> AggregateUDF {
    AggregateUDF::new_from_impl(Marker {
        kind,
        // Not `with_aliases`, which would hide the type `Marker`.
        aliases: aliases.iter().map(ToString::to_string).collect(),
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// See the file's header.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Marker {
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

impl Marker {
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }
}

impl AggregateUDFImpl for Marker {
    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        let unknown = || {
            let names = given.iter().map(|given| match Target::of_arrow(given) {
                Some(target) => target.name(),
                None => "unknown".to_owned(),
            });
            let names = names.collect::<Vec<_>>().join(", ");
            PgError::undefined_function(&format!("function {}({names})", self.name()))
        };
        let [given] = given else {
            return Err(unknown().into());
        };
        let given = match given {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        Ok(match (self.kind, given) {
            (Kind::List, given) => DataType::new_list(given.clone(), true),
            (_, DataType::Null) => DataType::Float64,
            (Kind::Sum, DataType::Float16 | DataType::Float32) => DataType::Float32,
            (_, given) if given.is_floating() => DataType::Float64,
            (Kind::Sum, DataType::Int64 | DataType::UInt32) => DataType::Decimal128(29, 0),
            (Kind::Sum, DataType::UInt64) => DataType::Decimal128(30, 0),
            (Kind::Sum, given) if given.is_integer() => DataType::Int64,
            (Kind::Sum, DataType::Decimal32(p, s) | DataType::Decimal64(p, s)) => {
                DataType::Decimal128(p + 10, *s)
            }
            (Kind::Sum, DataType::Decimal128(p, s)) if *p <= 28 => DataType::Decimal128(p + 10, *s),
            (Kind::Sum, DataType::Decimal128(p, s) | DataType::Decimal256(p, s)) => {
                decimal((p + 10).max(39), *s)
            }
            (_, given) if given.is_numeric() => OPEN,
            (Kind::Sum | Kind::Avg, DataType::Interval(_) | DataType::Duration(_)) => given.clone(),
            _ => return Err(unknown().into()),
        })
    }

    fn return_field(&self, given: &[FieldRef]) -> Result<FieldRef> {
        if let (Kind::List, [given]) = (self.kind, given) {
            return Ok(Arc::new(Field::new(self.name(), list_of(given), true)));
        }
        let types: Vec<DataType> = given.iter().map(|it| it.data_type().clone()).collect();
        Ok(Arc::new(Field::new(
            self.name(),
            self.return_type(&types)?,
            true,
        )))
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        internal_err!("{} is replaced when a plan is analysed", self.name())
    }
}

/// The type of `array_agg(value)`.
pub(crate) fn list_of(value: &Field) -> DataType {
    let held = value.data_type().clone();
    let element = match mark_of(value) {
        Some(target) => target.field(Field::LIST_FIELD_DEFAULT_NAME, held, true),
        None => Field::new_list_field(held, true),
    };
    DataType::List(Arc::new(element))
}

/// The variance, or its square root, from `count(x)`, `sum(x)` and `sum(x * x)`.
pub(crate) fn variance_of(sample: bool, root: bool, args: Vec<Expr>) -> Expr {
    ScalarUDF::new_from_impl(Variance {
        sample,
        root,
        signature: Signature::any(3, Volatility::Immutable),
    })
    .call(args)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Variance {
    sample: bool,
    root: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Variance {
    fn name(&self) -> &str {
        match (self.sample, self.root) {
            (true, false) => "pg_var_samp",
            (false, false) => "pg_var_pop",
            (true, true) => "pg_stddev_samp",
            (false, true) => "pg_stddev_pop",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(OPEN)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [rows, sums, squares] = arrays.as_slice() else {
            return internal_err!("{} takes three numbers", self.name());
        };
        let rows = arrow_cast(rows, &DataType::Int64)?;
        let rows = rows.as_primitive::<Int64Type>();
        let (sums, sum_scale) = wide(sums)?;
        let (squares, square_scale) = wide(squares)?;
        let (sums, squares) = (
            sums.as_primitive::<Decimal256Type>(),
            squares.as_primitive::<Decimal256Type>(),
        );
        let cells = (0..rows.len()).map(|row| {
            if sums.is_null(row) || squares.is_null(row) {
                return Ok(None);
            }
            let (rows, sum, square) = (rows.value(row), sums.value(row), squares.value(row));
            // A square has twice as many decimal places as its value.
            let declared = sum_scale * 2 == square_scale && sum_scale <= PLAIN_SCALE_MAX;
            let small = if declared {
                square
                    .to_i128()
                    .map(|digits| Small::new(digits, square_scale))
            } else {
                Small::shown(square, square_scale)
            };
            let small = Small::shown(sum, sum_scale).zip(small);
            if let Some(value) = small.and_then(|(sum, square)| self.of_small(rows, sum, square)) {
                return Ok(Some(value));
            }
            let sum = shown_scale(sum, sum_scale);
            let square = if declared {
                Numeric::of_i256(square, square_scale)
            } else {
                shown_scale(square, square_scale)
            };
            match self.of(rows, &sum, &square) {
                Some(value) => {
                    let scale = i64::from(value.scale).min(i64::from(OPEN_SCALE));
                    let held = value
                        .rounded(scale)
                        .to_i256(OPEN_SCALE.unsigned_abs().into());
                    held.map(Some).ok_or_else(overflow)
                }
                None => Ok(None),
            }
        });
        let cells = cells.collect::<Result<Decimal256Array, PgError>>()?;
        let cells = cells.with_precision_and_scale(76, OPEN_SCALE)?;
        Ok(ColumnarValue::Array(Arc::new(cells)))
    }
}

impl Variance {
    /// The result of [`Variance::of`] with [`OPEN_SCALE`], computed without big integers; `None` if
    /// digits do not fit, or if there is no result.
    fn of_small(&self, rows: i64, sum: Small, squares: Small) -> Option<i256> {
        if rows < 1 || (self.sample && rows < 2) {
            return None;
        }
        let n = i128::from(rows);
        let left = Small::new(n.checked_mul(squares.digits)?, squares.scale);
        let right = Small::new(sum.digits.checked_mul(sum.digits)?, sum.scale * 2);
        let scale = left.scale.max(right.scale);
        let numerator = left.raised(scale)?.checked_sub(right.raised(scale)?)?;
        if !numerator.is_positive() {
            return Some(i256::ZERO);
        }
        let numerator = Small::new(numerator.to_i128()?, scale);
        let below = Small::new(n * if self.sample { n - 1 } else { n }, 0);
        let held = OPEN_SCALE.unsigned_abs().into();
        let (digits, scale) = numerator.quotient(&below, u32::MAX)?;
        let variance = Small::new(digits, scale);
        let value = if self.root {
            variance.sqrt_at(scale)?
        } else {
            variance
        };
        value.raised(held).filter(|value| fits(*value))
    }

    /// `numeric_stddev_internal`.
    fn of(&self, rows: i64, sum: &Numeric, squares: &Numeric) -> Option<Numeric> {
        if rows < 1 || (self.sample && rows < 2) {
            return None;
        }
        let n = Numeric::new(rows, 0);
        let numerator = n.mul(squares).sub(&sum.mul(sum));
        if numerator.is_zero() || numerator.is_negative() {
            return Some(Numeric::new(0, 0));
        }
        let below = BigInt::from(rows) * BigInt::from(if self.sample { rows - 1 } else { rows });
        let below = Numeric::new(below, 0);
        let scale = numerator.quotient_scale(&below);
        let variance = numerator.div_at(&below, scale);
        if self.root {
            return variance.sqrt_at(scale);
        }
        Some(variance)
    }
}

fn wide(array: &ArrayRef) -> Result<(ArrayRef, u32)> {
    let scale = digits(array.data_type()).map_or(0, |(_, scale)| scale);
    let held = DataType::Decimal256(76, i8::try_from(scale).unwrap_or(0));
    let array = if array.data_type() == &held {
        Arc::clone(array)
    } else {
        arrow_cast(array, &held)?
    };
    Ok((array, u32::try_from(scale).unwrap_or(0)))
}
