//! Parquet files of many shapes, made in memory from a [`Shape`].

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float64Array, Int32Builder, Int64Array, ListArray, ListBuilder, RecordBatch, StringArray,
    StringBuilder, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use bytes::Bytes;
use coscan_storage::{FileChunk, FileChunks, RangeRead, Result, SegmentDecoder, read_footer};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use proptest::prelude::*;

/// Everything that determines a test file.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) rows: usize,
    pub(crate) row_group_rows: usize,
    pub(crate) page_rows: usize,
    pub(crate) page_bytes: usize,
    pub(crate) dictionary: bool,
    pub(crate) v2: bool,
    pub(crate) compression: u8,
    /// Whether the file has an offset index.
    pub(crate) index: bool,
}

impl Shape {
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let rows = prop_oneof![1 => Just(0_usize), 4 => 1..300_usize, 8 => 300..3000_usize];
        let layout = (
            1..1500_usize,
            1..400_usize,
            prop_oneof![200..4000_usize, Just(1 << 20)],
        );
        let flags = (
            any::<bool>(),
            any::<bool>(),
            0..3_u8,
            prop::bool::weighted(0.8),
        );
        (any::<u64>(), rows, layout, flags).prop_map(
            |(seed, rows, (row_group_rows, page_rows, page_bytes), flags)| Self {
                seed,
                rows,
                // With more than 60 row groups the test would be slow.
                row_group_rows: row_group_rows.max(rows / 60 + 1),
                page_rows,
                page_bytes,
                dictionary: flags.0,
                v2: flags.1,
                compression: flags.2,
                index: flags.3,
            },
        )
    }

    pub(crate) fn write(&self) -> File {
        let batch = batch(self.seed, self.rows);
        let compression = match self.compression {
            0 => Compression::UNCOMPRESSED,
            1 => Compression::SNAPPY,
            _ => Compression::ZSTD(ZstdLevel::default()),
        };
        let version = if self.v2 {
            WriterVersion::PARQUET_2_0
        } else {
            WriterVersion::PARQUET_1_0
        };
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(self.row_group_rows))
            .set_data_page_row_count_limit(self.page_rows)
            .set_data_page_size_limit(self.page_bytes)
            .set_dictionary_page_size_limit(self.page_bytes * 2)
            .set_write_batch_size(16)
            .set_dictionary_enabled(self.dictionary)
            .set_writer_version(version)
            .set_compression(compression)
            .set_offset_index_disabled(!self.index)
            .set_statistics_enabled(if self.index {
                EnabledStatistics::Page
            } else {
                EnabledStatistics::Chunk
            })
            .build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        File {
            bytes: bytes.into(),
            batch,
        }
    }
}

/// A file and the rows that were written to it.
pub(crate) struct File {
    pub(crate) bytes: Bytes,
    pub(crate) batch: RecordBatch,
}

impl File {
    pub(crate) fn metadata(&self) -> Arc<ParquetMetaData> {
        footer_of(&self.bytes).unwrap()
    }

    pub(crate) fn field(&self, column: usize) -> FieldRef {
        Arc::clone(&self.batch.schema().fields()[column])
    }

    /// The rows of a column in a chunk, as they were written.
    pub(crate) fn rows_of(
        &self,
        metadata: &ParquetMetaData,
        chunk: &FileChunk,
        column: usize,
    ) -> ArrayRef {
        let base = |row_group: usize| -> usize {
            metadata.row_groups()[..row_group]
                .iter()
                .map(|g| g.num_rows() as usize)
                .sum()
        };
        let parts: Vec<ArrayRef> = chunk
            .pieces
            .iter()
            .map(|piece| {
                let start = base(piece.row_group) + piece.rows.start as usize;
                let rows = (piece.rows.end - piece.rows.start) as usize;
                self.batch.column(column).slice(start, rows)
            })
            .collect();
        concat(&parts.iter().map(|part| &**part).collect::<Vec<_>>()).unwrap()
    }
}

pub(crate) fn footer_of(bytes: &Bytes) -> Result<Arc<ParquetMetaData>> {
    futures::executor::block_on(read_footer(
        &InMemory(bytes.clone()),
        "t.parquet",
        bytes.len() as u64,
        u64::MAX,
    ))
}

pub(crate) struct InMemory(pub(crate) Bytes);

impl RangeRead for InMemory {
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        Ok(ranges.iter().map(|range| part(&self.0, range)).collect())
    }
}

pub(crate) fn part(bytes: &Bytes, range: &Range<u64>) -> Bytes {
    bytes.slice(range.start as usize..range.end as usize)
}

/// The own and the shared ranges of a segment, each in its own buffer.
pub(crate) fn buffers_of(
    bytes: &Bytes,
    map: &FileChunks,
    chunk: usize,
    column: usize,
) -> Vec<(Range<u64>, Bytes)> {
    let own = map.chunks[chunk].columns[column].iter();
    let shared = map
        .shared_of(chunk, column)
        .flat_map(|shared| &shared.ranges);
    own.chain(shared)
        .map(|range| (range.clone(), part(bytes, range)))
        .collect()
}

pub(crate) fn decoder(
    file: &File,
    metadata: &Arc<ParquetMetaData>,
    chunk: &FileChunk,
    column: usize,
    buffers: Vec<(Range<u64>, Bytes)>,
    batch_rows: usize,
) -> Result<SegmentDecoder> {
    let field = file.field(column);
    SegmentDecoder::new(
        "t.parquet",
        metadata,
        column,
        &field,
        chunk,
        buffers,
        batch_rows,
    )
}

fn random(state: &mut u64) -> u64 {
    // splitmix64
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn schema() -> SchemaRef {
    let point = Fields::from(vec![
        Field::new("x", DataType::Float64, true),
        Field::new(
            "names",
            DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
            true,
        ),
    ]);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("flag", DataType::Utf8, false),
        Field::new("comment", DataType::Utf8, true),
        Field::new(
            "tags",
            DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
            true,
        ),
        Field::new("point", DataType::Struct(point), true),
        Field::new("day", DataType::Date32, true),
        Field::new("yes", DataType::Boolean, true),
        Field::new("code", DataType::FixedSizeBinary(5), false),
        Field::new("nothing", DataType::Int64, true),
    ]))
}

fn batch(seed: u64, rows: usize) -> RecordBatch {
    let mut state = seed;
    let mut next = move |below: u64| random(&mut state) % below;
    let schema = schema();
    let mut columns: Vec<ArrayRef> = Vec::new();
    columns.push(Arc::new((0..rows as i64).collect::<Int64Array>()));
    let price: Decimal128Array = (0..rows)
        .map(|_| (next(7) > 0).then(|| i128::from(next(100_000))))
        .collect();
    columns.push(Arc::new(price.with_precision_and_scale(15, 2).unwrap()));
    let flag: Vec<&str> = (0..rows)
        .map(|_| ["A", "N", "R"][next(3) as usize])
        .collect();
    columns.push(Arc::new(StringArray::from(flag)));
    let comment: StringArray = (0..rows)
        .map(|_| (next(9) > 0).then(|| format!("{:x}", next(1 << 40)).repeat(next(8) as usize)))
        .collect();
    columns.push(Arc::new(comment));

    let mut tags = ListBuilder::new(Int32Builder::new());
    let mut names = ListBuilder::new(StringBuilder::new());
    for _ in 0..rows {
        for _ in 0..next(5) {
            tags.values()
                .append_option((next(4) > 0).then(|| next(1000) as i32));
            names
                .values()
                .append_option((next(4) > 0).then(|| format!("name {}", next(50))));
        }
        tags.append(next(6) > 0);
        names.append(next(6) > 0);
    }
    let tags: ListArray = tags.finish();
    columns.push(Arc::new(tags));
    let x: Float64Array = (0..rows)
        .map(|_| (next(5) > 0).then(|| next(1 << 30) as f64))
        .collect();
    let DataType::Struct(fields) = schema.field(5).data_type().clone() else {
        unreachable!()
    };
    let nulls = NullBuffer::from((0..rows).map(|_| next(8) > 0).collect::<Vec<_>>());
    let names: ArrayRef = Arc::new(names.finish());
    let point = StructArray::try_new(fields, vec![Arc::new(x), names], Some(nulls)).unwrap();
    columns.push(Arc::new(point));

    let day: Date32Array = (0..rows)
        .map(|i| (next(5) > 0).then_some(i as i32 / 10))
        .collect();
    columns.push(Arc::new(day));
    let yes: BooleanArray = (0..rows)
        .map(|_| (next(5) > 0).then(|| next(2) > 0))
        .collect();
    columns.push(Arc::new(yes));
    let code: Vec<[u8; 5]> = (0..rows)
        .map(|_| next(1 << 20).to_le_bytes()[..5].try_into().unwrap())
        .collect();
    let code: ArrayRef = if rows == 0 {
        Arc::new(FixedSizeBinaryArray::new_null(5, 0))
    } else {
        Arc::new(FixedSizeBinaryArray::try_from_iter(code.into_iter()).unwrap())
    };
    columns.push(code);
    columns.push(Arc::new(Int64Array::new_null(rows)));
    RecordBatch::try_new(schema, columns).unwrap()
}
