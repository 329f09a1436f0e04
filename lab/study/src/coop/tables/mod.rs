//! The experiments behind the tables of [CoopScans07], a file for each, and what Tables 2 and 3
//! have in common (`table.rs`).

mod table;
pub(crate) mod table2;
pub(crate) mod table3;
pub(crate) mod table4;
