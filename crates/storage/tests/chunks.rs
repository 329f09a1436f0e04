//! Promised: a file's chunks partition its rows and the bytes of its columns, and a chunk's own and
//! shared ranges alone decode to exactly its rows, for every shape of file.

#![allow(clippy::unwrap_used)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]
#![allow(missing_docs)]

mod files;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field};
use coscan_storage::{
    Batches, CHUNK_BYTES_DEFAULT, FileChunks, JOINED_ROWS_MAX, SegmentDecoder, StorageError,
};
use files::{File, Shape, buffers_of, decoder, footer_of, part};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use proptest::prelude::*;

fn shape() -> Shape {
    Shape {
        seed: 1,
        rows: 2000,
        row_group_rows: 2000,
        page_rows: 100,
        page_bytes: 1000,
        dictionary: true,
        v2: false,
        compression: 2,
        index: true,
    }
}

fn check_rows(metadata: &ParquetMetaData, map: &FileChunks) {
    let mut at = (0, 0);
    for chunk in &map.chunks {
        assert!(chunk.rows > 0);
        assert_eq!(
            chunk.rows,
            chunk
                .pieces
                .iter()
                .map(|p| p.rows.end - p.rows.start)
                .sum::<u64>()
        );
        for piece in &chunk.pieces {
            assert_eq!((piece.row_group, piece.rows.start), at);
            assert!(piece.rows.end > piece.rows.start);
            let rows = metadata.row_group(piece.row_group).num_rows() as u64;
            assert!(piece.rows.end <= rows);
            at = if piece.rows.end == rows {
                (piece.row_group + 1, 0)
            } else {
                (piece.row_group, piece.rows.end)
            };
        }
    }
    assert_eq!(
        at,
        (metadata.num_row_groups(), 0),
        "no row group of these files is empty"
    );
}

fn check_bytes(file: &File, metadata: &ParquetMetaData, map: &FileChunks) {
    let schema = metadata.file_metadata().schema_descr();
    let mut owners = vec![Vec::new(); file.bytes.len()];
    for chunk in &map.chunks {
        for (column, ranges) in chunk.columns.iter().enumerate() {
            assert!(
                ranges.windows(2).all(|pair| pair[0].end < pair[1].start),
                "merged, ascending"
            );
            for byte in ranges.iter().cloned().flatten() {
                owners[byte as usize].push(column);
            }
        }
    }
    for shared in &map.shared {
        assert!(shared.first < shared.last && shared.last < map.chunks.len());
        assert!(!shared.ranges.is_empty());
        for byte in shared.ranges.iter().cloned().flatten() {
            owners[byte as usize].push(shared.column);
        }
    }
    let mut expected = vec![Vec::new(); file.bytes.len()];
    for row_group in metadata.row_groups() {
        for (leaf, column) in row_group.columns().iter().enumerate() {
            let (start, length) = column.byte_range();
            for byte in start..start + length {
                expected[byte as usize].push(schema.get_column_root_idx(leaf));
            }
        }
    }
    assert!(
        owners == expected,
        "I2: each byte of a column chunk has one owner"
    );
}

fn check_decode(file: &File, metadata: &Arc<ParquetMetaData>, map: &FileChunks, batch_rows: usize) {
    for (number, chunk) in map.chunks.iter().enumerate() {
        for column in 0..file.batch.num_columns() {
            let mut buffers = buffers_of(&file.bytes, map, number, column);
            if batch_rows.is_multiple_of(2) {
                // Like a pool that reads touching ranges with one request.
                let ranges = map.ranges_of(number, column);
                buffers = ranges
                    .into_iter()
                    .map(|r| (r.clone(), part(&file.bytes, &r)))
                    .collect();
            } else if batch_rows.is_multiple_of(3) {
                // Like a pool with small frames.
                buffers = buffers
                    .into_iter()
                    .flat_map(|(range, bytes)| {
                        let cut = range.start + (range.end - range.start) / 3;
                        let at = (cut - range.start) as usize;
                        [
                            (range.start..cut, bytes.slice(..at)),
                            (cut..range.end, bytes.slice(at..)),
                        ]
                    })
                    .collect();
            }
            let again = buffers.clone();
            let mut decoder = decoder(file, metadata, chunk, column, buffers, batch_rows).unwrap();
            let mut arrays = Vec::new();
            while let Some(array) = decoder.next_batch().unwrap() {
                arrays.push(array);
            }
            assert!(
                decoder.next_batch().unwrap().is_none(),
                "it stays at the end"
            );
            let lengths: Vec<usize> = arrays.iter().map(Array::len).collect();
            assert_eq!(
                lengths,
                Batches::of(chunk, batch_rows).iter().collect::<Vec<_>>()
            );
            let array = concat(&arrays.iter().map(|array| &**array).collect::<Vec<_>>()).unwrap();
            let expected = file.rows_of(metadata, chunk, column);
            assert_eq!(array.data_type(), expected.data_type());
            let picking = files::decoder(file, metadata, chunk, column, again, batch_rows).unwrap();
            check_picked(picking, &expected, batch_rows);
            assert!(array == expected, "chunk {number}, column {column} differs");
        }
    }
}

/// Picks a tenth of the rows, in runs, some of which cross pieces.
fn check_picked(decoder: SegmentDecoder, all: &ArrayRef, run: usize) {
    let run = run.min(all.len() / 3 + 1);
    let wanted: Vec<_> = (run / 2..all.len())
        .step_by(10 * run)
        .map(|first| first..all.len().min(first + run))
        .collect();
    let mut decoder = decoder.with_rows(&wanted);
    let mut picked = vec![all.slice(0, 0)];
    while let Some(array) = decoder.next_batch().unwrap() {
        picked.push(array);
    }
    let mut expected = vec![all.slice(0, 0)];
    expected.extend(wanted.iter().map(|rows| all.slice(rows.start, rows.len())));
    let joined = |arrays: &[ArrayRef]| {
        concat(&arrays.iter().map(|array| &**array).collect::<Vec<_>>()).unwrap()
    };
    assert!(
        joined(&picked) == joined(&expected),
        "rows {wanted:?} differ"
    );
}

/// Pages of three rows, whose bytes look like the start of a header that continues in the next
/// page.
#[test]
fn a_small_page_is_not_taken_for_a_header() {
    let shape = Shape {
        seed: 5_686_600_144_641_851_090,
        rows: 1409,
        row_group_rows: 97,
        page_rows: 3,
        page_bytes: 204,
        dictionary: true,
        v2: true,
        compression: 1,
        index: false,
    };
    let file = shape.write();
    let metadata = file.metadata();
    let map = FileChunks::new(&metadata, 39_835);
    check_decode(&file, &metadata, &map, 162);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn chunks_partition_and_decode(
        shape in Shape::any(),
        target in prop_oneof![1..2000_u64, 2000..50_000_u64, Just(u64::MAX)],
        batch_rows in prop_oneof![1..5_usize, 5..1000_usize, Just(8192)],
    ) {
        let file = shape.write();
        let metadata = file.metadata();
        let map = FileChunks::new(&metadata, target);
        check_rows(&metadata, &map);
        check_bytes(&file, &metadata, &map);
        // Rows are decoded in groups, because single rows are slow and show no more than a few row
        // groups.
        if batch_rows >= 5 || shape.rows < 500 {
            check_decode(&file, &metadata, &map, batch_rows);
        }
    }
}

#[test]
fn a_large_row_group_is_split_near_the_target() {
    let file = shape().write();
    let metadata = file.metadata();
    let bytes: i64 = metadata.row_group(0).compressed_size();
    let map = FileChunks::new(&metadata, bytes as u64 / 5);
    assert_eq!(map.chunks.len(), 5);
    assert!(
        map.chunks.iter().all(|c| (200..=600).contains(&c.rows)),
        "{:?}",
        map.chunks
    );
    // The column's dictionary serves all chunks.
    assert!(
        map.shared
            .iter()
            .any(|s| (s.column, s.first, s.last) == (2, 0, 4))
    );
    check_decode(&file, &metadata, &map, 8192);
}

#[test]
fn without_an_offset_index_a_row_group_stays_whole() {
    let file = Shape {
        index: false,
        ..shape()
    }
    .write();
    let map = FileChunks::new(&file.metadata(), 1);
    assert_eq!(map.chunks.len(), 1);
    assert!(map.shared.is_empty());
}

#[test]
fn small_row_groups_are_joined_up_to_the_target() {
    let file = Shape {
        row_group_rows: 100,
        ..shape()
    }
    .write();
    let metadata = file.metadata();
    assert_eq!(metadata.num_row_groups(), 20);
    let bytes: i64 = metadata
        .row_groups()
        .iter()
        .map(RowGroupMetaData::compressed_size)
        .sum();
    let map = FileChunks::new(&metadata, bytes as u64 / 4);
    assert!((4..=7).contains(&map.chunks.len()), "{}", map.chunks.len());
    assert_eq!(FileChunks::new(&metadata, u64::MAX).chunks.len(), 1);
}

#[test]
fn joined_chunks_have_a_limited_number_of_rows() {
    let nulls: ArrayRef = Arc::new(Int64Array::new_null(1 << 20));
    let batch = RecordBatch::try_from_iter_with_nullable([("nothing", nulls, true)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    for _ in 0..6 {
        writer.write(&batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    let map = FileChunks::new(&footer_of(&bytes.into()).unwrap(), CHUNK_BYTES_DEFAULT);
    let rows: Vec<u64> = map.chunks.iter().map(|chunk| chunk.rows).collect();
    assert_eq!(rows, [JOINED_ROWS_MAX, 2 << 20]);
}

#[test]
fn a_decoder_can_be_sent_to_another_thread() {
    fn check<T: Send>() {}
    check::<SegmentDecoder>();
}

#[test]
fn a_file_without_rows_has_no_chunks() {
    let file = Shape { rows: 0, ..shape() }.write();
    let metadata = file.metadata();
    assert_eq!(metadata.num_row_groups(), 0);
    assert_eq!(FileChunks::new(&metadata, 1), FileChunks::default());
}

#[test]
fn tiny_row_groups_are_decoded_together() {
    for (rows, row_group_rows) in [(2000, 7), (2000, 60)] {
        let shape = Shape {
            rows,
            row_group_rows,
            ..shape()
        };
        let file = shape.write();
        let metadata = file.metadata();
        let map = FileChunks::new(&metadata, u64::MAX);
        let batches = Batches::of(&map.chunks[0], 300);
        let tiny = row_group_rows < 300 / 8;
        let whole = rows.div_ceil(300);
        assert_eq!(
            batches.len(),
            if tiny {
                whole
            } else {
                rows.div_ceil(row_group_rows)
            }
        );
        assert_eq!(batches.span_pieces(), tiny);
        for batch_rows in [300, 301, 303] {
            check_decode(&file, &metadata, &map, batch_rows);
        }
    }
}

#[test]
fn segments_decode_to_the_requested_type() {
    let file = shape().write();
    let metadata = file.metadata();
    let map = FileChunks::new(&metadata, 20_000);
    let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
    let types = [
        (3, DataType::Utf8View),
        (3, DataType::LargeUtf8),
        (
            3,
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        ),
        (1, DataType::Decimal64(15, 2)),
        (4, list(DataType::Int32)),
    ];
    for (column, data_type) in types {
        // The name does not matter: a query may have renamed the column.
        let field = Arc::new(Field::new("other", data_type.clone(), true));
        for (number, chunk) in map.chunks.iter().enumerate() {
            let buffers = buffers_of(&file.bytes, &map, number, column);
            let mut decoder =
                SegmentDecoder::new("f", &metadata, column, &field, chunk, buffers, 1 << 20)
                    .unwrap();
            let expected = cast(&file.rows_of(&metadata, chunk, column), &data_type).unwrap();
            assert_eq!(&decoder.next_batch().unwrap().unwrap(), &expected);
        }
    }
}

#[test]
fn an_impossible_type_is_an_error() {
    let file = shape().write();
    let metadata = file.metadata();
    let map = FileChunks::new(&metadata, u64::MAX);
    for (column, data_type) in [
        (0, DataType::Utf8),
        (4, DataType::Int64),
        (5, DataType::Utf8),
    ] {
        let field = Arc::new(Field::new("c", data_type, true));
        let buffers = buffers_of(&file.bytes, &map, 0, column);
        let error =
            SegmentDecoder::new("f", &metadata, column, &field, &map.chunks[0], buffers, 10)
                .and_then(|mut decoder| decoder.next_batch())
                .unwrap_err();
        assert!(matches!(error, StorageError::BadPage { .. }), "{error}");
    }
}

#[test]
fn missing_bytes_are_an_error_that_names_the_place() {
    let file = shape().write();
    let metadata = file.metadata();
    let map = FileChunks::new(&metadata, 20_000);
    let mut buffers = buffers_of(&file.bytes, &map, 1, 3);
    buffers.remove(0);
    let mut decoder = decoder(&file, &metadata, &map.chunks[1], 3, buffers, 8192).unwrap();
    let error = decoder.next_batch().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("t.parquet: row group 0, column comment: "),
        "{text}"
    );
    assert!(
        decoder.next_batch().unwrap().is_none(),
        "nothing comes after an error"
    );
}
