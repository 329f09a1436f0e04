//! Which value is less, and may an optimizer compare another one instead?
//!
//! | file | question |
//! |---|---|
//! | `distinct_elements.rs` | which values does `array_agg(DISTINCT x)` keep? |
//! | `float_extremes.rs` | which float is the minimum or maximum? |
//! | `float_keys.rs` | when do two floats form the same group or row, or match in a join? |
//! | `list_key.rs` | by which bytes are arrays and rows joined, sorted and counted? |
//! | `lossy_casts.rs` | in which comparisons must a cast be evaluated? |
//! | `marked_elements.rs` | how are arrays returned whose elements have a type of their own? |
//! | `sort_keys.rs` | by which keys are intervals, jsonb, arrays and rows compared? |
//! | `typed_operands.rs` | which comparisons in keys would hide an order from DataFusion? |
//! | `units.rs` | how are timestamps of other units compared with constants? |

mod distinct_elements;
mod float_extremes;
mod float_keys;
mod list_key;
mod lossy_casts;
mod marked_elements;
mod sort_keys;
mod typed_operands;
mod units;

pub(crate) use distinct_elements::distinct_elements;
pub(crate) use float_extremes::FloatExtremes;
pub(crate) use float_keys::FloatKeys;
pub(crate) use lossy_casts::KeepLossyCasts;
pub(crate) use marked_elements::MarkedElements;
pub(crate) use sort_keys::SortKeys;
pub(crate) use typed_operands::TypedOperands;

use datafusion::logical_expr::ScalarUDF;

/// The functions that these rules call.
pub(crate) fn called() -> impl Iterator<Item = ScalarUDF> {
    float_extremes::called().into_iter().chain([
        list_key::called(),
        distinct_elements::called(),
        typed_operands::called(),
    ])
}
