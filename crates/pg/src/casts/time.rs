//! Casts to dates, times and intervals.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::Result;

use super::{Context, Target, arrow_cast};

/// Casts to date, time, timestamp, timestamptz or interval, held as `held`.
pub(super) fn cast(
    array: &ArrayRef,
    _from: &Field,
    _to: &Target,
    held: &DataType,
    _context: &Context,
) -> Result<ArrayRef> {
    arrow_cast(array, held)
}
