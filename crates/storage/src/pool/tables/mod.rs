//! What do queries see of the pool's tables: chunks and pages?
//!
//! | file | what it answers |
//! |---|---|
//! | `table_view.rs` | which chunks a query over some files sees |
//! | `versions.rs` | when the tables of replaced files are dropped |
//! | `page_map.rs`, `page_read.rs` | which pages can be read alone; how a smooth scan reads them |
//!
//! Not here: the files (`../files`), the core's tables (`../state`).

mod page_map;
mod page_read;
mod table_view;
mod versions;

pub use page_map::{PageMap, PagePiece, TablePage, bytes_of_rows};
pub(super) use page_read::Counted;
pub use page_read::{PageBytes, PageRequest};
pub use table_view::{ChunkInfo, TableView};
