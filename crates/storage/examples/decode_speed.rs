//! What does decoding one column at a time, chunk by chunk, cost compared with parquet's own
//! reader of all columns at once?
//!
//! ```text
//! cargo run --release -p coscan-storage --example decode_speed [SCALE] [none|snappy|zstd] [TARGET_MIB] [ROUNDS]
//! ```
//! Rounds alternate between the contestants, and times are CPU times of the thread, so that other
//! work on the machine disturbs the ratio little. Reported: the median of each, and the median of
//! the ratios of neighbouring rounds.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, RecordBatchReader};
use bytes::Bytes;
use coscan_storage::threads::processor_time;
use coscan_storage::{FileChunks, RangeRead, Result, SegmentDecoder, read_footer};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

const BATCH_ROWS: usize = 8192;
/// The columns of TPC-H Q1 and Q6 in lineitem.
const QUERIES: [(&str, &[usize]); 3] = [
    ("Q1", &[4, 5, 6, 7, 8, 9, 10]),
    ("Q6", &[4, 5, 6, 10]),
    (
        "all",
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    ),
];

struct InMemory(Bytes);

impl RangeRead for InMemory {
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        Ok(ranges.iter().map(|range| slice(&self.0, range)).collect())
    }
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> Bytes {
    bytes.slice(range.start as usize..range.end as usize)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let scale: f64 = args.first().map_or(0.5, |arg| arg.parse().unwrap());
    let codec = args.get(1).map_or("snappy", String::as_str);
    let target: u64 = args.get(2).map_or(16, |arg| arg.parse().unwrap());
    let rounds: usize = args.get(3).map_or(11, |arg| arg.parse().unwrap());

    let bytes = lineitem(scale, codec);
    let metadata = futures::executor::block_on(read_footer(
        &InMemory(bytes.clone()),
        "lineitem",
        bytes.len() as u64,
        u64::MAX,
    ))
    .unwrap();
    let rows = metadata.file_metadata().num_rows();
    let map = FileChunks::new(&metadata, target << 20);
    println!(
        "{codec}, {rows} rows, {} MB, {} row groups, {} chunks, {} shared extents",
        bytes.len() / 1_000_000,
        metadata.num_row_groups(),
        map.chunks.len(),
        map.shared.len()
    );
    let reader =
        ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new()).unwrap();
    for (query, columns) in QUERIES {
        let mut times: [Vec<f64>; 3] = Default::default();
        for round in 0..=rounds {
            let run = [
                time(|| at_once(&bytes, &reader, columns)),
                time(|| by_segment(&bytes, &metadata, &reader, &map, columns)),
                time(|| in_step(&bytes, &metadata, &reader, &map, columns)),
            ];
            // The first round warms caches and the allocator.
            for (times, (seconds, got)) in times.iter_mut().zip(run).filter(|_| round > 0) {
                assert_eq!(i64::try_from(got).unwrap(), rows);
                times.push(seconds * 1e9 / rows as f64);
            }
        }
        let disk = bytes_on_disk(&metadata, columns);
        let ratio = |i: usize| {
            median(
                times[i]
                    .iter()
                    .zip(&times[0])
                    .map(|(own, plain)| own / plain)
                    .collect(),
            )
        };
        println!(
            "{query:4} {:5.1} B/row   all at once {:6.2} ns/row   by segment {:6.2} ({:.3})   in step {:6.2} ({:.3})",
            disk as f64 / rows as f64,
            median(times[0].clone()),
            median(times[1].clone()),
            ratio(1),
            median(times[2].clone()),
            ratio(2)
        );
    }
}

fn bytes_on_disk(metadata: &ParquetMetaData, columns: &[usize]) -> i64 {
    metadata
        .row_groups()
        .iter()
        .flat_map(|group| {
            columns
                .iter()
                .map(|&column| group.column(column).compressed_size())
        })
        .sum()
}

/// Parquet's own reader: all columns, batch by batch.
fn at_once(bytes: &Bytes, metadata: &ArrowReaderMetadata, columns: &[usize]) -> usize {
    let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
    ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata.clone())
        .with_batch_size(BATCH_ROWS)
        .with_projection(mask)
        .build()
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum()
}

fn decoders(
    bytes: &Bytes,
    metadata: &Arc<ParquetMetaData>,
    reader: &ArrowReaderMetadata,
    map: &FileChunks,
    chunk: usize,
    columns: &[usize],
) -> Vec<SegmentDecoder> {
    let decoder = |&column: &usize| {
        let buffers = map
            .ranges_of(chunk, column)
            .into_iter()
            .map(|range| (range.clone(), slice(bytes, &range)))
            .collect();
        let field = &reader.schema().fields()[column];
        SegmentDecoder::new(
            "lineitem",
            metadata,
            column,
            field,
            &map.chunks[chunk],
            buffers,
            BATCH_ROWS,
        )
        .unwrap()
    };
    columns.iter().map(decoder).collect()
}

/// One whole segment after another.
fn by_segment(
    bytes: &Bytes,
    metadata: &Arc<ParquetMetaData>,
    reader: &ArrowReaderMetadata,
    map: &FileChunks,
    columns: &[usize],
) -> usize {
    let mut rows = 0;
    for chunk in 0..map.chunks.len() {
        for mut decoder in decoders(bytes, metadata, reader, map, chunk, columns) {
            while let Some(array) = decoder.next_batch().unwrap() {
                rows += array.len();
            }
        }
    }
    rows / columns.len()
}

/// One batch of each column of a chunk, then the next batch of each.
fn in_step(
    bytes: &Bytes,
    metadata: &Arc<ParquetMetaData>,
    reader: &ArrowReaderMetadata,
    map: &FileChunks,
    columns: &[usize],
) -> usize {
    let mut rows = 0;
    for chunk in 0..map.chunks.len() {
        let mut decoders = decoders(bytes, metadata, reader, map, chunk, columns);
        loop {
            let arrays: Vec<_> = decoders
                .iter_mut()
                .filter_map(|decoder| decoder.next_batch().unwrap())
                .collect();
            let Some(array) = arrays.first() else { break };
            rows += array.len();
        }
    }
    rows
}

fn lineitem(scale: f64, codec: &str) -> Bytes {
    let compression = match codec {
        "none" => Compression::UNCOMPRESSED,
        "snappy" => Compression::SNAPPY,
        "zstd" => Compression::ZSTD(ZstdLevel::default()),
        other => panic!("unknown codec {other}"),
    };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .build();
    let batches =
        LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS);
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batches.schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.close().unwrap();
    bytes.into()
}

fn time(run: impl FnOnce() -> usize) -> (f64, usize) {
    let before = processor_time();
    let rows = run();
    let took = processor_time().saturating_sub(before);
    (took.as_secs_f64(), rows)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
