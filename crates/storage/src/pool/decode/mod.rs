//! How is a segment decoded once for all its readers?
//!
//! | file | what it answers |
//! |---|---|
//! | `decoded.rs` | which arrays a segment has, decoded by whoever needs them first |
//! | `decode_pool.rs` | on which threads decoding runs |
//! | `array_bytes.rs` | how many bytes an array holds |
//! | `column_request.rs` | which columns, of which rows, a consumer asks for |
//! | `few_batches.rs` | which few batches of a chunk a consumer wants, and which are picked |
//!
//! Not here: the bytes of Parquet (`../../parquet`), which arrays are dropped (`../segments`).

mod array_bytes;
mod column_request;
mod decode_pool;
mod decoded;
mod few_batches;

pub(super) use column_request::ArrayKey;
pub use column_request::ColumnRequest;
pub(super) use decode_pool::DecodePool;
pub(super) use decoded::{DecodedSegment, Idle, MakeDecoder, Reader};
pub(super) use few_batches::FewBatches;
