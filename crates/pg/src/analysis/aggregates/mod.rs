//! Rules for groups, aggregates and windows.
//!
//! | file | question |
//! |---|---|
//! | `dependencies.rs` | which columns determine others? |
//! | `grouping.rs` | which key of a grouping set does an expression mean? |
//! | `grouping_id.rs` | by which keys is a row of a grouping set grouped? |
//! | `single_distinct.rs` | which types have aggregates beside DISTINCT? |
//! | `window_frames.rs` | which rows are in a RANGE frame? |

mod dependencies;
mod grouping;
mod grouping_id;
mod single_distinct;
mod window_frames;

pub(crate) use dependencies::{Dependencies, without_keys};
pub(crate) use grouping::GroupingKeys;
pub(crate) use single_distinct::SingleDistinct;
pub(crate) use window_frames::WindowFrames;
pub use window_frames::typed_frames;

use datafusion::logical_expr::ScalarUDF;

/// The functions that these rules call.
pub(crate) fn called() -> impl Iterator<Item = ScalarUDF> {
    grouping_id::called()
        .into_iter()
        .chain([window_frames::called()])
}
