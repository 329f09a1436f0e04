//! Which value is less, and may an optimizer compare another one instead?
//!
//! | file | question |
//! |---|---|
//! | `float_extremes.rs` | which of some floats is the least or the greatest? |
//! | `float_keys.rs` | when are two floats the same group or row, or keys of a join that match? |
//! | `list_key.rs` | by which bytes does a join find equal arrays? |
//! | `lossy_casts.rs` | in which comparisons does a cast have to be carried out? |
//! | `sort_keys.rs` | by what do intervals and jsonb compare? |
//! | `units.rs` | how do timestamps of other units compare with constants? |

mod float_extremes;
mod float_keys;
mod list_key;
mod lossy_casts;
mod sort_keys;
mod units;

pub(crate) use float_extremes::FloatExtremes;
pub(crate) use float_keys::FloatKeys;
pub(crate) use lossy_casts::KeepLossyCasts;
pub(crate) use sort_keys::SortKeys;
