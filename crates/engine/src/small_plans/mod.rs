//! Which plans have one partition, however many cores there are?
//!
//! DataFusion divides every table of more than 8,192 rows among the cores, and puts exchanges
//! around its scans, joins and groups. Each partition is a task, and each exchange wakes threads:
//! for a plan of some milliseconds that costs more than it saves, above all beside programs that
//! compute, where each thread that is woken waits for a slice. So a plan whose tables are small
//! together is planned for one partition.
//!
//! | file | question |
//! |---|---|
//! | `planner.rs` | is a plan small? |
//! | `opened.rs` | how large are its tables, before it is planned? |
//! | `configured.rs` | the session that plans it |
//!
//! Also: a statement that writes what volatile functions compute keeps the order of its rows, which
//! an exchange below these functions would lose. The numbers of a sequence follow it.
//! Not here: scans of small tables, which are left to DataFusion's reader (`plan/swap_scans.rs`);
//! the plans of a cluster's queries, whose nodes are chosen otherwise.
//! SP1: the decision depends on the statement, the session's settings and the tables' files and
//! rows, and on nothing that runs: sums of floats in another order are another answer.

mod configured;
mod opened;
mod planner;

pub(crate) use planner::{allow, plan_small};
