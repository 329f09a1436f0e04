//! The smooth scan's micro-benchmark: one table, one indexed column, every selectivity, every access path.
//!
//! | file | question |
//! |---|---|
//! | `data.rs` | what is in the table? |
//! | `checksum.rs` | are these the rows that the query asked for? |
//! | `run.rs` | how long does a query take by each path, and what does it read? |
//! | `results.rs` | what did a run say, in the form in which it is kept? |
//! | `verdict.rs` | is a smooth scan as good as was promised? |
//! | `table.rs` | how does a person read it? |
//!
//! Source: [SmoothScan18 §7.3].

mod checksum;
pub mod data;
pub mod results;
pub mod run;
pub mod table;
pub mod verdict;
