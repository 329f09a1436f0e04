//! Which of a footer's statistics are trusted?
//!
//! Every reader takes the footer from `../footer.rs`: pruning, aggregates that are answered from
//! footers, and DataFusion's own reader. So statistics that cannot be trusted are removed here,
//! once, and no reader has to judge. Writers erred in several ways: old ones compared text and
//! unsigned numbers as signed ones (`min` and `max`, which `min_value` and `max_value` replaced;
//! parquet-mr before 1.10, and Parquet issue 251 with wrong values too); some compare with NaN;
//! some write estimates as numbers of distinct values.
//! Not here: what correct bounds prove (coscan `read/prune/`).
//! S1: every value of a column chunk that is neither NULL nor NaN lies between the remaining
//! bounds. S2: a remaining null count is correct; a missing one is unknown, and stays missing
//! unless the column cannot be NULL. S3: no statistics remain that some writers estimate.
//! Source: parquet.thrift of parquet-format 2.12, `Statistics` and `ColumnOrder`; Parquet issue
//! 251, Parquet issue 686.

use parquet::basic::{ColumnOrder, ConvertedType, LogicalType, SortOrder, TimeUnit, Type};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescriptor;

/// `DuckDB`'s -infinity; it is read as the lowest date and timestamp (`../one_form.rs`).
const FIRST_DAY_OF_DUCKDB: i32 = i32::MIN + 1;
const FIRST_MOMENT_OF_DUCKDB: i64 = i64::MIN + 1;
/// The bytes of a decimal of 76 digits.
const DECIMAL_BYTES_MAX: usize = 32;

/// The metadata with only the trusted statistics of row groups.
pub(in crate::parquet) fn trusted(metadata: ParquetMetaData) -> ParquetMetaData {
    let known = metadata.file_metadata();
    let orders: Vec<bool> = (0..known.schema_descr().num_columns())
        .map(|leaf| {
            let orders = known.column_orders();
            let order = orders.and_then(|orders| orders.get(leaf));
            has_order(known.schema_descr().column(leaf).as_ref(), order)
        })
        .collect();
    let judge = |leaf: usize, column: &ColumnChunkMetaData| {
        let ordered = orders.get(leaf).copied().unwrap_or(false);
        column
            .statistics()
            .map(|statistics| judged(column, statistics, ordered))
    };
    with_statistics(metadata, judge)
}

/// The metadata without the statistics of columns that may be NULL and have no null counts, for
/// readers that take a missing count for zero.
#[must_use]
pub fn without_uncounted(metadata: ParquetMetaData) -> ParquetMetaData {
    with_statistics(metadata, |_, column| {
        let statistics = column.statistics()?;
        if statistics.null_count_opt().is_some() {
            return Some(statistics.clone());
        }
        None
    })
}

/// Whether some column may be NULL and has statistics without a null count.
#[must_use]
pub fn has_uncounted(metadata: &ParquetMetaData) -> bool {
    let groups = metadata.row_groups().iter();
    groups.flat_map(RowGroupMetaData::columns).any(|column| {
        let statistics = column.statistics();
        statistics.is_some_and(|statistics| statistics.null_count_opt().is_none())
    })
}

/// The metadata with the statistics that `judge` gives each column chunk by its leaf.
fn with_statistics(
    metadata: ParquetMetaData,
    judge: impl Fn(usize, &ColumnChunkMetaData) -> Option<Statistics>,
) -> ParquetMetaData {
    let differs = |group: &RowGroupMetaData| {
        let mut columns = group.columns().iter().enumerate();
        columns.any(|(leaf, column)| judge(leaf, column).as_ref() != column.statistics())
    };
    if !metadata.row_groups().iter().any(differs) {
        return metadata;
    }
    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let columns = group.columns().iter().enumerate().map(|(leaf, column)| {
            let wanted = judge(leaf, column);
            let column = column.clone().into_builder();
            match wanted {
                Some(statistics) => column.set_statistics(statistics).build(),
                None => column.clear_statistics().build(),
            }
        });
        let columns = columns.collect::<parquet::errors::Result<Vec<_>>>();
        // Rebuilding a valid row group does not fail; if it did, the group would stay as it is.
        match columns {
            Ok(columns) => {
                let rebuilt = group.clone().into_builder().set_column_metadata(columns);
                rebuilt.build().unwrap_or(group)
            }
            Err(_) => group,
        }
    });
    let groups = groups.collect();
    builder.set_row_groups(groups).build()
}

/// Whether the format defines how values of this column are compared, in a way that parquet knows.
fn has_order(column: &ColumnDescriptor, order: Option<&ColumnOrder>) -> bool {
    // A file without a list of orders is older than the list, or its writer means the type's own
    // order.
    order != Some(&ColumnOrder::UNKNOWN) && column.sort_order() != SortOrder::UNDEFINED
}

/// The trusted part of the statistics. `ordered`: the column's values have a defined order.
fn judged(column: &ColumnChunkMetaData, statistics: &Statistics, ordered: bool) -> Statistics {
    let descriptor = column.column_descr();
    let values = column.num_values().unsigned_abs();
    let nulls = match statistics.null_count_opt() {
        None if descriptor.max_def_level() == 0 => Some(0),
        nulls => nulls.filter(|nulls| *nulls <= values),
    };
    let signed = descriptor.sort_order() == SortOrder::SIGNED;
    let numeric = matches!(
        descriptor.physical_type(),
        Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE
    );
    // Old writers compared everything as signed numbers.
    let comparable = !statistics.is_min_max_deprecated()
        || (signed && numeric)
        || descriptor.physical_type() == Type::BOOLEAN;
    let keep = ordered && comparable && nulls.is_none_or(|nulls| nulls < values || values == 0);
    rebuilt(statistics, descriptor, nulls, keep)
}

/// The statistics without a number of distinct values, and with bounds only if `keep` and if the
/// bounds make sense. Longer than a screen: one arm per type.
fn rebuilt(
    statistics: &Statistics,
    column: &ColumnDescriptor,
    nulls: Option<u64>,
    keep: bool,
) -> Statistics {
    let unsigned = column.sort_order() == SortOrder::UNSIGNED;
    let old_fields = statistics.is_min_max_deprecated();
    macro_rules! with {
        ($variant:ident, $old:expr, $bounds:expr) => {{
            let (low, high) = match ($old.min_opt(), $old.max_opt()) {
                _ if !keep => (None, None),
                (low, high) => $bounds(low.cloned(), high.cloned()),
            };
            let exact = (
                low.is_some() && $old.min_is_exact(),
                high.is_some() && $old.max_is_exact(),
            );
            let new = ValueStatistics::new(low, high, None, nulls, old_fields)
                .with_min_is_exact(exact.0)
                .with_max_is_exact(exact.1);
            Statistics::$variant(new)
        }};
    }
    match statistics {
        Statistics::Boolean(old) => with!(Boolean, old, in_order(|a: &bool, b: &bool| a <= b)),
        Statistics::Int32(old) if unsigned => {
            let unsigned = |a: &i32, b: &i32| a.cast_unsigned() <= b.cast_unsigned();
            with!(Int32, old, in_order(unsigned))
        }
        Statistics::Int32(old) => with!(Int32, old, |low: Option<i32>, high: Option<i32>| {
            let one = |bound: i32| match bound {
                FIRST_DAY_OF_DUCKDB if has_infinity(column) => i32::MIN,
                bound => bound,
            };
            in_order(|a: &i32, b: &i32| a <= b)(low.map(one), high.map(one))
        }),
        Statistics::Int64(old) if unsigned => {
            let unsigned = |a: &i64, b: &i64| a.cast_unsigned() <= b.cast_unsigned();
            with!(Int64, old, in_order(unsigned))
        }
        Statistics::Int64(old) => with!(Int64, old, |low: Option<i64>, high: Option<i64>| {
            let one = |bound: i64| match bound {
                FIRST_MOMENT_OF_DUCKDB if has_infinity(column) => i64::MIN,
                bound => bound,
            };
            in_order(|a: &i64, b: &i64| a <= b)(low.map(one), high.map(one))
        }),
        Statistics::Int96(old) => with!(Int96, old, |_, _| (None, None)),
        Statistics::Float(old) => with!(Float, old, |low, high| {
            sensible(
                low,
                high,
                |bound: &f32| !bound.is_nan(),
                |low, high| low <= high,
            )
        }),
        Statistics::Double(old) => with!(Double, old, |low, high| {
            sensible(
                low,
                high,
                |bound: &f64| !bound.is_nan(),
                |low, high| low <= high,
            )
        }),
        Statistics::ByteArray(old) => with!(ByteArray, old, |low, high| {
            let fits = |bound: &ByteArray| fits(bound.data(), column);
            let ordered = |a: &ByteArray, b: &ByteArray| ordered(a.data(), b.data(), column);
            sensible(low, high, fits, ordered)
        }),
        Statistics::FixedLenByteArray(old) => with!(FixedLenByteArray, old, |low, high| {
            type Bytes = FixedLenByteArray;
            let fits = |bound: &Bytes| fits(bound.data(), column);
            let ordered = |a: &Bytes, b: &Bytes| ordered(a.data(), b.data(), column);
            sensible(low, high, fits, ordered)
        }),
    }
}

/// Whether bytes can be a bound of the column: not NaN, and no longer than the column's values.
fn fits(bound: &[u8], column: &ColumnDescriptor) -> bool {
    if is_half(column) {
        return half(bound).is_some_and(|value| !value.is_nan());
    }
    let length = match column.physical_type() {
        Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).unwrap_or(0),
        // Strings and bytes have any length.
        _ if column.sort_order() == SortOrder::UNSIGNED => return true,
        _ => DECIMAL_BYTES_MAX,
    };
    bound.len() <= length
}

/// Whether `low` is not above `high`.
fn ordered(low: &[u8], high: &[u8], column: &ColumnDescriptor) -> bool {
    if is_half(column) {
        return half(low) <= half(high);
    }
    match column.sort_order() {
        SortOrder::UNSIGNED => low <= high,
        SortOrder::SIGNED => digits_in_order(low, high),
        SortOrder::UNDEFINED => true,
    }
}

/// The same for big-endian numbers in two's complement.
fn digits_in_order(low: &[u8], high: &[u8]) -> bool {
    let width = low.len().max(high.len());
    let digits = |number: &[u8]| -> Vec<u8> {
        let is_negative = number.first().is_some_and(|first| first >> 7 == 1);
        let sign = if is_negative { 0xff } else { 0 };
        let mut digits = vec![sign; width + 1 - number.len()];
        // With the sign bit inverted, the order of the bytes is the order of the numbers.
        digits[0] ^= 0x80;
        digits.extend_from_slice(number);
        digits
    };
    digits(low) <= digits(high)
}

fn is_half(column: &ColumnDescriptor) -> bool {
    column.logical_type_ref() == Some(&LogicalType::Float16)
}

/// Whether values of the column may be infinite dates or timestamps (`../one_form.rs`).
fn has_infinity(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(LogicalType::Date) => true,
        Some(LogicalType::Timestamp(of)) => of.unit == TimeUnit::MICROS,
        _ => matches!(
            column.converted_type(),
            ConvertedType::DATE | ConvertedType::TIMESTAMP_MICROS
        ),
    }
}

/// The bounds, or none if the lower one is above the upper one.
fn in_order<T>(
    ordered: impl Fn(&T, &T) -> bool,
) -> impl Fn(Option<T>, Option<T>) -> (Option<T>, Option<T>) {
    move |low, high| match (low, high) {
        (Some(low), Some(high)) if !ordered(&low, &high) => (None, None),
        bounds => bounds,
    }
}

/// The bounds, or none if they are out of order or one of them cannot be a bound.
fn sensible<T>(
    low: Option<T>,
    high: Option<T>,
    fits: impl Fn(&T) -> bool,
    ordered: impl Fn(&T, &T) -> bool,
) -> (Option<T>, Option<T>) {
    if low.iter().chain(&high).all(fits) {
        in_order(ordered)(low, high)
    } else {
        (None, None)
    }
}

/// The value of a half-precision float; `None` if it does not have two bytes.
fn half(bytes: &[u8]) -> Option<f64> {
    let bits = u16::from_le_bytes(bytes.try_into().ok()?);
    let (exponent, fraction) = ((bits >> 10) & 31, f64::from(bits & 0x3ff) / 1024.0);
    let size = match exponent {
        0 => fraction * 2_f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + fraction) * 2_f64.powi(i32::from(exponent) - 15),
    };
    Some(if bits >> 15 == 0 { size } else { -size })
}

/// The metadata with the trusted page bounds: for each column of a row group, all page bounds or
/// none.
pub(in crate::parquet) fn trusted_pages(metadata: ParquetMetaData) -> ParquetMetaData {
    let schema = metadata.file_metadata().schema_descr_ptr();
    let believed = |leaf: usize, index: &ColumnIndexMetaData| {
        let column = schema.column(leaf);
        column.sort_order() != SortOrder::UNDEFINED && make_sense(index, &column)
    };
    let Some(index) = metadata.column_index() else {
        return metadata;
    };
    let all = index.iter().all(|columns| {
        let mut columns = columns.iter().enumerate();
        columns.all(|(leaf, index)| believed(leaf, index))
    });
    if all {
        return metadata;
    }
    let index = index.iter().map(|columns| {
        let columns = columns.iter().enumerate().map(|(leaf, index)| {
            if believed(leaf, index) {
                index.clone()
            } else {
                ColumnIndexMetaData::NONE
            }
        });
        columns.collect()
    });
    let index = index.collect();
    metadata
        .into_builder()
        .set_column_index(Some(index))
        .build()
}

/// Whether the bounds of all pages make sense.
fn make_sense(index: &ColumnIndexMetaData, column: &ColumnDescriptor) -> bool {
    let unsigned = column.sort_order() == SortOrder::UNSIGNED;
    let infinite = has_infinity(column);
    macro_rules! pages {
        ($index:expr, $ordered:expr) => {{
            let mut pages = $index.min_values_iter().zip($index.max_values_iter());
            pages.all(|bounds| match bounds {
                (Some(low), Some(high)) => $ordered(low, high),
                _ => true,
            })
        }};
    }
    match index {
        ColumnIndexMetaData::INT32(index) => pages!(index, |low: &i32, high: &i32| {
            if unsigned {
                return low.cast_unsigned() <= high.cast_unsigned();
            }
            low <= high && !(infinite && *low == FIRST_DAY_OF_DUCKDB)
        }),
        ColumnIndexMetaData::INT64(index) => pages!(index, |low: &i64, high: &i64| {
            if unsigned {
                return low.cast_unsigned() <= high.cast_unsigned();
            }
            low <= high && !(infinite && *low == FIRST_MOMENT_OF_DUCKDB)
        }),
        ColumnIndexMetaData::FLOAT(index) => pages!(index, |low: &f32, high: &f32| low <= high),
        ColumnIndexMetaData::DOUBLE(index) => pages!(index, |low: &f64, high: &f64| low <= high),
        ColumnIndexMetaData::BYTE_ARRAY(index)
        | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) => {
            pages!(index, |low: &[u8], high: &[u8]| {
                fits(low, column) && fits(high, column) && ordered(low, high, column)
            })
        }
        _ => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::sync::Arc;

    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    /// The trusted part of the statistics of a column declared like this, with 10 values.
    #[expect(clippy::needless_pass_by_value, reason = "made for the call")]
    fn of(column: &str, statistics: Statistics) -> Statistics {
        let message = parse_message_type(&format!("message m {{ {column}; }}")).unwrap();
        let schema = SchemaDescriptor::new(Arc::new(message));
        let column = schema.column(0);
        let ordered = has_order(&column, None);
        let chunk = ColumnChunkMetaData::builder(column)
            .set_num_values(10)
            .build()
            .unwrap();
        judged(&chunk, &statistics, ordered)
    }

    fn bounds(statistics: &Statistics) -> (Option<&[u8]>, Option<&[u8]>) {
        (statistics.min_bytes_opt(), statistics.max_bytes_opt())
    }

    fn text(low: &str, high: &str, old: bool) -> Statistics {
        Statistics::byte_array(Some(low.into()), Some(high.into()), None, Some(0), old)
    }

    #[test]
    fn old_bounds_count_where_values_are_signed_numbers() {
        let number = Statistics::int32(Some(-1), Some(7), None, Some(0), true);
        assert_eq!(of("required int32 c", number.clone()), number);
        assert_eq!(
            bounds(&of("required int32 c (UINT_32)", number.clone())),
            (None, None)
        );
        let text = |old| of("required binary c (UTF8)", text("a", "z", old));
        assert_eq!(bounds(&text(true)), (None, None));
        assert_eq!(bounds(&text(false)), (Some(&b"a"[..]), Some(&b"z"[..])));
    }

    #[test]
    fn nan_and_disordered_bounds_are_dropped() {
        let double = |low, high| {
            let both = Statistics::double(Some(low), Some(high), None, Some(0), false);
            bounds(&of("required double c", both)) != (None, None)
        };
        assert!(double(-0.0, 0.0) && double(0.0, -0.0) && double(1.0, f64::INFINITY));
        assert!(!double(f64::NAN, 1.0) && !double(1.0, f64::NAN) && !double(2.0, 1.0));
        let half = |low: u16, high: u16| {
            let value = |bits: u16| Some(ByteArray::from(bits.to_le_bytes().to_vec()).into());
            let both =
                Statistics::fixed_len_byte_array(value(low), value(high), None, Some(0), false);
            let column = "required fixed_len_byte_array(2) c (FLOAT16)";
            bounds(&of(column, both)) != (None, None)
        };
        assert!(half(0xbc00, 0x3c00) && !half(0x3c00, 0x7e00) && !half(0x3c00, 0xbc00));
        assert_eq!(
            bounds(&of("required binary c (UTF8)", text("z", "a", false))),
            (None, None)
        );
        let unsigned = Statistics::int32(Some(1), Some(-1), None, Some(0), false);
        assert_eq!(of("required int32 c (UINT_32)", unsigned.clone()), unsigned);
        assert_eq!(bounds(&of("required int32 c", unsigned)), (None, None));
    }

    #[test]
    fn a_missing_null_count_is_unknown_unless_nulls_are_impossible() {
        let uncounted = || Statistics::int64(Some(1), Some(2), Some(7), None, false);
        let optional = of("optional int64 c", uncounted());
        assert_eq!(optional.null_count_opt(), None);
        assert!(optional.min_bytes_opt().is_some());
        assert_eq!(optional.distinct_count_opt(), None);
        assert_eq!(
            of("required int64 c", uncounted()).null_count_opt(),
            Some(0)
        );
        let too_many = Statistics::int64(None, None, None, Some(11), false);
        assert_eq!(of("optional int64 c", too_many).null_count_opt(), None);
    }

    #[test]
    fn bounds_of_decimals_are_numbers_of_their_length() {
        let fixed = |low: &[u8], high: &[u8]| {
            let value = |bytes: &[u8]| Some(ByteArray::from(bytes.to_vec()).into());
            let both =
                Statistics::fixed_len_byte_array(value(low), value(high), None, Some(0), false);
            bounds(&of(
                "required fixed_len_byte_array(2) c (DECIMAL(4,2))",
                both,
            )) != (None, None)
        };
        assert!(fixed(&[0xff, 0], &[0, 1]) && fixed(&[0, 1], &[1, 0]) && fixed(&[0, 7], &[0, 7]));
        assert!(!fixed(&[0, 1], &[0xff, 0]) && !fixed(&[1, 0], &[0, 1]));
        assert!(!fixed(&[0, 0, 1], &[0, 0, 2]));
        let any = |low: &[u8], high: &[u8]| {
            let value = |bytes: &[u8]| Some(ByteArray::from(bytes.to_vec()));
            let both = Statistics::byte_array(value(low), value(high), None, Some(0), false);
            bounds(&of("required binary c (DECIMAL(9,2))", both)) != (None, None)
        };
        assert!(any(&[0xff], &[0, 1]) && any(&[7], &[0, 8]) && any(&[0xfe, 0], &[0xff]));
        assert!(!any(&[0, 1], &[0xff]) && !any(&[0xff], &[0xfe, 0]));
    }

    #[test]
    fn the_first_moment_of_duckdb_is_infinity() {
        let both = || Statistics::int64(Some(i64::MIN + 1), Some(7), None, Some(0), false);
        let low = |column: &str| match of(column, both()) {
            Statistics::Int64(known) => known.min_opt().copied(),
            _ => None,
        };
        assert_eq!(
            low("required int64 c (TIMESTAMP(MICROS,true))"),
            Some(i64::MIN)
        );
        assert_eq!(low("required int64 c"), Some(i64::MIN + 1));
        let day = Statistics::int32(Some(i32::MIN + 1), Some(7), None, Some(0), false);
        let day = of("required int32 c (DATE)", day);
        assert_eq!(bounds(&day).0, Some(&i32::MIN.to_le_bytes()[..]));
    }

    #[test]
    fn intervals_have_no_order() {
        let value = || Some(ByteArray::from(vec![0_u8; 12]).into());
        let both = Statistics::fixed_len_byte_array(value(), value(), None, Some(0), false);
        let column = "required fixed_len_byte_array(12) c (INTERVAL)";
        assert_eq!(bounds(&of(column, both)), (None, None));
    }
}
