//! What does DataFusion's planner ask while it plans: which function an operator is, which type a
//! declaration means?
//!
//! | file | question |
//! |---|---|
//! | `planners/text_planner.rs` | operators and subscripts of texts, arrays and JSON |
//! | `planners/time_planner.rs` | `+ - * /` of dates, times and intervals |
//! | `planners/types.rs` | which Arrow type holds a column that SQL declares? |
//! | `planners/file_types.rs` | columns of files whose Arrow types PostgreSQL does not have |

mod file_types;
mod text_planner;
mod time_planner;
mod types;

pub(super) use file_types::FileTypes;
pub(super) use text_planner::TextPlanner;
pub(super) use time_planner::TimePlanner;
pub(super) use types::Types;
