//! Which value is less, and may an optimizer compare another one instead?
//!
//! | file | question |
//! |---|---|
//! | `float_extremes.rs` | which of some floats is the least or the greatest? |
//! | `float_keys.rs` | when are two floats the same group or row, or keys of a join that match? |
//! | `lossy_casts.rs` | in which comparisons does a cast have to be carried out? |

mod float_extremes;
mod float_keys;
mod lossy_casts;

pub(crate) use float_extremes::FloatExtremes;
pub(crate) use float_keys::{FloatKeys, as_float_key, key as float_key};
pub(crate) use lossy_casts::KeepLossyCasts;
