//! Small Parquet files of awkward kinds: every encoding, compression and page version that the
//! writer supports, dictionaries, nulls, nested columns; with and without page indexes and bloom
//! filters.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int32Array,
    Int32Builder, Int64Array, ListBuilder, MapBuilder, RecordBatch, StringArray, StringBuilder,
    StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::random::Random;

pub(crate) const ROWS: usize = 240;

/// One file of each kind.
pub(crate) fn files() -> Vec<Vec<u8>> {
    (0..COMPRESSIONS.len() * 4).map(file).collect()
}

const COMPRESSIONS: [fn() -> Compression; 7] = [
    || Compression::UNCOMPRESSED,
    || Compression::SNAPPY,
    || Compression::GZIP(GzipLevel::default()),
    || Compression::LZ4_RAW,
    || Compression::ZSTD(ZstdLevel::default()),
    || Compression::BROTLI(BrotliLevel::default()),
    || Compression::LZ4,
];

fn file(kind: usize) -> Vec<u8> {
    let batch = batch(kind as u64);
    let (v2, dictionary) = (kind % 2 == 1, kind / 2 % 2 == 1);
    let index = kind % 3 != 1;
    let mut properties = WriterProperties::builder()
        .set_compression(COMPRESSIONS[kind / 4]())
        .set_writer_version(if v2 {
            WriterVersion::PARQUET_2_0
        } else {
            WriterVersion::PARQUET_1_0
        })
        .set_max_row_group_row_count(Some(100))
        .set_data_page_row_count_limit(30)
        .set_write_batch_size(10)
        .set_dictionary_enabled(dictionary)
        .set_bloom_filter_enabled(kind % 4 == 2)
        .set_bloom_filter_max_ndv(50)
        .set_offset_index_disabled(!index)
        .set_statistics_enabled(if index {
            EnabledStatistics::Page
        } else {
            EnabledStatistics::Chunk
        });
    if !dictionary {
        for (column, encoding) in [
            ("i", Encoding::DELTA_BINARY_PACKED),
            ("s1", Encoding::DELTA_LENGTH_BYTE_ARRAY),
            ("s2", Encoding::DELTA_BYTE_ARRAY),
            ("f", Encoding::BYTE_STREAM_SPLIT),
            ("code", Encoding::DELTA_BYTE_ARRAY),
            ("yes", Encoding::RLE),
        ] {
            properties = properties.set_column_encoding(ColumnPath::from(column), encoding);
        }
    }
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn batch(seed: u64) -> RecordBatch {
    let mut random = Random(seed);
    let rows = || 0..ROWS as i64;
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    columns.push(("id", Arc::new(Int64Array::from_iter_values(rows()))));
    let i: Int32Array = rows()
        .map(|_| (random.below(7) > 0).then(|| random.below(1000) as i32))
        .collect();
    columns.push(("i", Arc::new(i)));
    for name in ["s1", "s2", "s3"] {
        let text: StringArray = rows()
            .map(|row| {
                let number = random.below(40);
                (number > 3).then(|| format!("text {} {number}", row / 10))
            })
            .collect();
        columns.push((name, Arc::new(text)));
    }
    let f = Float64Array::from_iter_values(rows().map(|row| row as f64 / 3.0));
    columns.push(("f", Arc::new(f)));
    let code = rows().map(|_| (random.below(300) as u32).to_be_bytes());
    let code = FixedSizeBinaryArray::try_from_iter(code).unwrap();
    columns.push(("code", Arc::new(code)));
    let yes: BooleanArray = rows()
        .map(|_| (random.below(5) > 0).then(|| random.below(2) > 0))
        .collect();
    columns.push(("yes", Arc::new(yes)));
    let price: Decimal128Array = rows().map(|row| Some(i128::from(row * 100))).collect();
    let price = price.with_precision_and_scale(15, 2).unwrap();
    columns.push(("price", Arc::new(price)));
    let at = TimestampMicrosecondArray::from_iter_values(rows().map(|row| row * 1_000_000));
    columns.push(("at", Arc::new(at)));

    let mut tags = ListBuilder::new(Int32Builder::new());
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for _ in rows() {
        for number in 0..random.below(4) {
            tags.values()
                .append_option((number > 0).then_some(number as i32));
            map.keys().append_value(format!("key {number}"));
            map.values().append_option((number > 0).then_some(3));
        }
        tags.append(random.below(5) > 0);
        map.append(random.below(5) > 0).unwrap();
    }
    let tags: ArrayRef = Arc::new(tags.finish());
    let x: ArrayRef = Arc::new(Float64Array::from_iter(
        rows().map(|row| (row % 4 > 0).then_some(row as f64)),
    ));
    let point = StructArray::from(vec![
        (Arc::new(Field::new("x", DataType::Float64, true)), x),
        (
            Arc::new(Field::new("tags", tags.data_type().clone(), true)),
            Arc::clone(&tags),
        ),
    ]);
    columns.push(("tags", tags));
    columns.push(("map", Arc::new(map.finish())));
    columns.push(("point", Arc::new(point)));
    columns.push(("nothing", Arc::new(Int64Array::new_null(ROWS))));
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}
