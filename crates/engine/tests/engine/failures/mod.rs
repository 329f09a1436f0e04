//! Files, devices and processes that fail: which queries fail, and what remains.
//!
//! | file | what is tested |
//! |---|---|
//! | `bad_files.rs` | files that are missing, truncated or damaged |
//! | `replaced.rs`, `same_stamp.rs` | files that are overwritten or replaced |
//! | `faults.rs`, `devices_under_load.rs` | devices that fail or are slow |
//! | `power_loss.rs` | power that fails at any step |
//! | `left_behind.rs` | files that killed processes left |

mod bad_files;
mod devices_under_load;
mod faults;
mod left_behind;
mod power_loss;
mod replaced;
mod same_stamp;
