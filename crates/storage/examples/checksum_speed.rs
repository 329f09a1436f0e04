//! What does verifying the checksums of pages cost, compared with decoding them?
//!
//! ```text
//! cargo run --release -p coscan-storage --example checksum_speed FILE [ROUNDS]
//! ```
//! The file must have checksums (pyarrow writes them with `write_page_checksum=True`). Rounds
//! alternate between verifying and not verifying, and times are CPU times of the thread. Reported:
//! the median of each, per column.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_storage::threads::processor_time;
use coscan_storage::{FileChunks, PageRules, RangeRead, Result, SegmentDecoder, read_footer};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

struct InMemory(Bytes);

impl RangeRead for InMemory {
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let slice = |range: &Range<u64>| self.0.slice(range.start as usize..range.end as usize);
        Ok(ranges.iter().map(slice).collect())
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().expect("a file");
    let rounds: usize = args.get(1).map_or(11, |arg| arg.parse().unwrap());
    let file = InMemory(std::fs::read(path).unwrap().into());
    let bytes = file.0.len() as u64;
    let metadata = futures::executor::block_on(read_footer(&file, path, bytes, u64::MAX)).unwrap();
    let map = FileChunks::new(&metadata, 16 << 20);
    let reader = ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new());
    let schema = Arc::clone(reader.unwrap().schema());
    for (column, field) in schema.fields().iter().enumerate() {
        let decode = |checksums: bool| {
            let before = processor_time();
            for chunk in &map.chunks {
                let whole = vec![(0..bytes, file.0.clone())];
                let decoder =
                    SegmentDecoder::new(path, &metadata, column, field, chunk, whole, 8192);
                let rules = PageRules {
                    checksums,
                    ..PageRules::WITHOUT_BUDGET
                };
                let mut decoder = decoder.unwrap().with_page_rules(rules);
                while decoder.next_batch().unwrap().is_some() {}
            }
            processor_time().checked_sub(before).unwrap().as_secs_f64()
        };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            with.push(decode(true));
            without.push(decode(false));
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (with, without) = (median(&mut with), median(&mut without));
        println!(
            "{}: {:.2} ms, {:.2} ms without checksums: {:.3} times",
            field.name(),
            with * 1e3,
            without * 1e3,
            with / without
        );
    }
}
