//! Promised: damaged bytes give an error that names the file, and never a panic, a hang, or rows
//! that do not exist.

#![allow(clippy::unwrap_used)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]
#![allow(missing_docs, dead_code)]

mod files;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arrow::array::Array;
use bytes::Bytes;
use coscan_storage::{FileChunks, StorageError};
use files::{File, Shape, buffers_of, decoder, footer_of};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use proptest::prelude::*;

/// One file of every combination of page version, dictionary and compression.
static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    (0..12)
        .map(|i| {
            let shape = Shape {
                seed: i,
                rows: 700,
                row_group_rows: 400,
                page_rows: 60,
                page_bytes: 1000,
                dictionary: i % 2 == 0,
                v2: i / 2 % 2 == 0,
                compression: (i / 4) as u8,
                index: true,
            };
            shape.write()
        })
        .collect()
});

/// Far longer than decoding takes: milliseconds, even in a debug build on a busy machine.
const HANG: Duration = Duration::from_secs(20);

fn flipped(bytes: &Bytes, at: usize, mask: u8) -> Bytes {
    let mut damaged = bytes.to_vec();
    damaged[at] ^= mask;
    damaged.into()
}

fn footer_start(bytes: &Bytes) -> usize {
    let length = bytes[bytes.len() - 8..][..4]
        .try_into()
        .map(u32::from_le_bytes)
        .unwrap();
    bytes.len() - 8 - length as usize
}

/// Decodes all segments, or those of one column, of a file whose metadata passed validation;
/// returns the errors.
fn decode(
    file: &File,
    bytes: &Bytes,
    metadata: &Arc<ParquetMetaData>,
    target: u64,
    only: Option<usize>,
) -> Vec<StorageError> {
    let map = FileChunks::new(metadata, target);
    let columns = file.batch.num_columns();
    let mut errors = Vec::new();
    let started = Instant::now();
    for (number, chunk) in map.chunks.iter().enumerate() {
        assert_eq!(
            chunk.columns.len(),
            metadata
                .file_metadata()
                .schema_descr()
                .root_schema()
                .get_fields()
                .len()
        );
        for column in 0..columns.min(chunk.columns.len()) {
            if only.is_some_and(|only| only != column) {
                continue;
            }
            let buffers = buffers_of(bytes, &map, number, column);
            let mut decoder = match decoder(file, metadata, chunk, column, buffers, 100) {
                Ok(decoder) => decoder,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            let mut rows = 0;
            loop {
                match decoder.next_batch() {
                    Ok(Some(array)) => {
                        array.to_data().validate_full().unwrap();
                        rows += array.len() as u64;
                    }
                    Ok(None) => {
                        assert_eq!(rows, chunk.rows);
                        break;
                    }
                    Err(error) => {
                        assert!(matches!(error, StorageError::BadPage { .. }), "{error}");
                        assert!(decoder.next_batch().unwrap().is_none());
                        errors.push(error);
                        break;
                    }
                }
                assert!(rows <= chunk.rows, "I1: more rows than the chunk has");
            }
            assert!(started.elapsed() < HANG, "hangs");
        }
    }
    errors
}

/// Where the last column chunk ends and the page indexes begin.
fn data_end(metadata: &ParquetMetaData) -> usize {
    let columns = metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns);
    let ends = columns.map(|column| column.byte_range().0 + column.byte_range().1);
    ends.max().unwrap() as usize
}

/// The root column that a byte belongs to.
fn column_at(metadata: &ParquetMetaData, at: usize) -> usize {
    let schema = metadata.file_metadata().schema_descr();
    let holds = |range: (u64, u64)| (range.0..range.0 + range.1).contains(&(at as u64));
    metadata
        .row_groups()
        .iter()
        .find_map(|g| {
            g.columns()
                .iter()
                .position(|column| holds(column.byte_range()))
        })
        .map(|leaf| schema.get_column_root_idx(leaf))
        .unwrap()
}

/// The footer is either refused with `BadFooter`, or gives metadata that causes no later panic.
fn check_footer(file: &File, bytes: &Bytes) {
    let started = Instant::now();
    match footer_of(bytes) {
        Ok(metadata) => {
            for target in [1000, u64::MAX] {
                decode(file, bytes, &metadata, target, None);
            }
        }
        Err(StorageError::BadFooter { file, reason }) => {
            assert_eq!(file, "t.parquet");
            assert!(!reason.is_empty());
        }
        Err(error) => panic!("{error}"),
    }
    assert!(started.elapsed() < HANG, "hangs");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_flipped_byte_in_the_footer(which in 0..12_usize, at in any::<prop::sample::Index>(), mask in 1..=255_u8) {
        let file = &FILES[which];
        let start = footer_start(&file.bytes);
        let at = start + at.index(file.bytes.len() - start);
        check_footer(file, &flipped(&file.bytes, at, mask));
    }

    #[test]
    fn a_flipped_byte_in_a_page_index(which in 0..12_usize, at in any::<prop::sample::Index>(), mask in 1..=255_u8) {
        let file = &FILES[which];
        let metadata = file.metadata();
        let start = data_end(&metadata);
        let at = start + at.index(footer_start(&file.bytes) - start);
        check_footer(file, &flipped(&file.bytes, at, mask));
    }

    #[test]
    fn a_truncated_file(which in 0..12_usize, length in any::<prop::sample::Index>()) {
        let file = &FILES[which];
        let damaged = file.bytes.slice(..length.index(file.bytes.len()));
        let error = footer_of(&damaged).unwrap_err();
        prop_assert!(matches!(error, StorageError::BadFooter { .. }), "{}", error);
    }

    #[test]
    fn a_flipped_byte_in_a_page(which in 0..12_usize, at in any::<prop::sample::Index>(), mask in 1..=255_u8, split in any::<bool>()) {
        let file = &FILES[which];
        let metadata = file.metadata();
        let at = 4 + at.index(data_end(&metadata) - 4);
        let damaged = flipped(&file.bytes, at, mask);
        decode(file, &damaged, &metadata, if split { 1000 } else { u64::MAX }, Some(column_at(&metadata, at)));
    }
}

#[test]
fn whole_files_have_no_errors() {
    for file in FILES.iter() {
        assert!(decode(file, &file.bytes, &file.metadata(), 1000, None).is_empty());
    }
}

#[test]
fn other_files_are_not_parquet() {
    for bytes in [
        &b""[..],
        b"PAR1",
        b"PAR1PAR1PAR1",
        b"a,b\n1,2\n3,4\n5,6\n",
        &[0; 10_000],
    ] {
        let error = footer_of(&Bytes::copy_from_slice(bytes)).unwrap_err();
        assert!(matches!(error, StorageError::BadFooter { .. }), "{error}");
    }
}

/// How often each text follows "panicked" in an error.
type Panics = std::collections::BTreeMap<String, usize>;

fn count_panic(panics: &mut Panics, error: &StorageError) {
    if let Some((_, text)) = error.to_string().split_once("panicked") {
        *panics.entry(text.to_owned()).or_insert(0) += 1;
    }
}

/// Flips every bit of the footer and the indexes: `footer.rs` relies on parquet refusing them
/// without a panic. `cargo test --release -p coscan-storage --test damage -- --ignored
/// --nocapture`
#[test]
#[ignore = "minutes"]
fn every_flipped_bit_in_a_footer() {
    for file in &FILES[..2] {
        for at in data_end(&file.metadata())..file.bytes.len() {
            for bit in 0..8 {
                if let Ok(metadata) = footer_of(&flipped(&file.bytes, at, 1 << bit)) {
                    let map = FileChunks::new(&metadata, 1000);
                    assert!(map.chunks.iter().all(|chunk| chunk.rows > 0));
                }
            }
        }
    }
}

/// Damages every byte of the pages, and counts the panics that became errors: they are why
/// `decode.rs` catches panics.
#[test]
#[ignore = "minutes"]
fn every_damaged_byte_in_a_page() {
    let mut panics = Panics::new();
    for file in FILES.iter() {
        let metadata = file.metadata();
        for at in 4..data_end(&metadata) {
            let damaged = flipped(&file.bytes, at, 1 << (at % 8));
            let column = Some(column_at(&metadata, at));
            for error in decode(file, &damaged, &metadata, u64::MAX, column) {
                count_panic(&mut panics, &error);
            }
        }
    }
    println!("{panics:#?}");
}
