//! Which value is less, and may an optimizer compare another one instead?
//!
//! | file | question |
//! |---|---|
//! | `float_extremes.rs` | which of some floats is the least or the greatest? |
//! | `lossy_casts.rs` | in which comparisons does a cast have to be carried out? |

mod float_extremes;
mod lossy_casts;

pub(crate) use float_extremes::FloatExtremes;
pub(crate) use lossy_casts::KeepLossyCasts;
