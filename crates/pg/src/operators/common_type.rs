//! The common type of dates and timestamps, and of mixed numbers, in comparisons.
//!
//! DataFusion would choose timestamps in nanoseconds, which end in 2262, and numerics with 15
//! decimal places. Other types are left to it.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;

use super::meeting::{Meeting, decimal_of, meeting, met};
use crate::functions::time::{Kind, value_of};
use crate::numbers::arithmetic::digits;

/// The type in which PostgreSQL compares values.
#[derive(Clone)]
pub(crate) enum ComparedIn {
    Time(Kind),
    Number(DataType),
}

impl ComparedIn {
    /// `None` if all values have one type, or other types than these.
    pub(crate) fn of(types: &[DataType]) -> Option<Self> {
        if let Meeting::In(held) = meeting(types) {
            return Some(Self::Number(held));
        }
        let known = types.iter().filter(|held| !held.is_null());
        let kinds: Vec<Kind> = known.map(Kind::of).collect::<Option<_>>()?;
        let times = [Kind::Date, Kind::Timestamp, Kind::Timestamptz];
        if !kinds.iter().all(|kind| times.contains(kind)) || kinds.windows(2).all(|k| k[0] == k[1])
        {
            return None;
        }
        Some(Self::Time(if kinds.contains(&Kind::Timestamptz) {
            Kind::Timestamptz
        } else {
            Kind::Timestamp
        }))
    }

    /// A numeric with all decimal places, for numerics that no type holds completely. A value that
    /// does not fit is an error.
    pub(crate) fn widest(types: &[DataType]) -> Option<Self> {
        if meeting(types) != Meeting::Apart {
            return None;
        }
        let decimals = types.iter().filter_map(decimal_of);
        let scales = decimals
            .filter_map(|held| digits(&held))
            .map(|(_, scale)| scale);
        let scale = i8::try_from(scales.max()?).ok()?;
        Some(Self::Number(DataType::Decimal256(76, scale)))
    }

    /// Casts a value of the type `held` to the common type.
    pub(crate) fn cast(&self, expr: Expr, held: &DataType) -> Expr {
        match self {
            Self::Time(kind) if Kind::of(held) == Some(*kind) => expr,
            Self::Time(kind) => value_of(expr, *kind),
            Self::Number(number) => met(expr, held, number),
        }
    }
}
