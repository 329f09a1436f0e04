//! The common type of dates beside timestamps, and of floats beside numerics.
//!
//! DataFusion's are timestamps of nanoseconds, which end in the year 2262, and numerics of 15
//! digits behind the point. Other types are left to it.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Cast, Expr};

use crate::functions::time::{Kind, value_of};
use crate::numbers::arithmetic::digits;

/// PostgreSQL's common type of values.
#[derive(Clone)]
pub(crate) enum Common {
    Time(Kind),
    Float(DataType),
}

impl Common {
    /// `None` if the values have one type, or are not of these.
    pub(crate) fn of(types: &[DataType]) -> Option<Self> {
        let known = || types.iter().filter(|held| !held.is_null());
        if known().any(|held| digits(held).is_some()) && known().all(DataType::is_numeric) {
            let floats = known().filter(|held| held.is_floating());
            return floats.max().cloned().map(Self::Float);
        }
        let kinds: Vec<Kind> = known().map(Kind::of).collect::<Option<_>>()?;
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

    /// Whether a value of this type has the common type.
    pub(crate) fn is(&self, held: &DataType) -> bool {
        match self {
            Self::Time(kind) => Kind::of(held) == Some(*kind),
            Self::Float(float) => held == float,
        }
    }

    /// A value of the type `held` in the common type.
    pub(crate) fn cast(&self, expr: Expr, held: &DataType) -> Expr {
        match self {
            _ if self.is(held) => expr,
            Self::Time(kind) => value_of(expr, *kind),
            Self::Float(float) => Expr::Cast(Cast::new(Box::new(expr), float.clone())),
        }
    }
}
