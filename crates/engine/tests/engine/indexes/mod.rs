//! Scans by an index: rows, order, faults.
//!
//! | file | what is tested |
//! |---|---|
//! | `index_scans.rs` | rows under every access path, policy and trigger |
//! | `random_queries.rs` | the same with random tables and queries |
//! | `index_order.rs` | ORDER BY the indexed column |
//! | `candidates.rs` | which of several indexes is used |
//! | `kept_pages.rs` | pages that are decoded once for rows that are fetched one by one |
//! | `read_ahead.rs` | the memory of pages that are read ahead |
//! | `index_faults.rs`, `index_fails_midway.rs` | builds and scans that fail |

mod candidates;
mod index_fails_midway;
mod index_faults;
mod index_order;
mod index_scans;
mod kept_pages;
mod random_queries;
mod read_ahead;

pub(super) use index_scans::{Layout, batch, run, write};
