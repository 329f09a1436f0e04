//! What becomes of measurements?
//!
//! | file | question |
//! |---|---|
//! | `results.rs` | in which form are the results of a run over the selectivities kept? |
//! | `figures.rs` | in which form are an experiment's results kept? |
//! | `verdict.rs` | is a smooth scan as good as promised? |
//! | `table.rs` | how are the results shown? |

pub mod figures;
pub mod results;
pub mod table;
pub mod verdict;
