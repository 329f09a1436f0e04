//! How are rows that are fetched one by one taken out of pages?
//!
//! | file | question |
//! |---|---|
//! | `kept_pages.rs` | which pages are in memory, decoded, for the rows that follow? |
//! | `decoded_page.rs` | how do single rows come out of such a page? |
//!
//! Not here: reading a page (`../execution.rs`), which rows are next (`coscan_core::smooth`).

mod decoded_page;
mod kept_pages;

pub(super) use decoded_page::{DecodedPage, PickedRows};
pub(super) use kept_pages::KeptPages;
