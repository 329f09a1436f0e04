//! Which type does a column have if its files store it differently?
//!
//! The wider one: the type that holds every value of both exactly, as DuckDB's `union_by_name`
//! chooses it. Text is one type, whether it is stored plain, large, as views or as a dictionary,
//! and so is binary. A column that some files lack is NULL there.
//! Not here: converting a file's values (DataFusion's expression adapter casts them, and a value
//! that does not fit is an error); INT96 and forced views (`../parquet_format.rs`).
//! W1: the wider type holds each value of both types, so a cast to it changes no value; only a
//! time that a finer unit cannot hold makes the cast fail. Types without such a type are refused:
//! 64-bit integers and floats, integers and text, times with and without a zone.

use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields,
    IntervalUnit, Schema, TimeUnit,
};

/// Two types of a column that have no wider type.
#[derive(Debug, PartialEq)]
pub(in crate::tables) struct Conflict {
    pub(in crate::tables) column: String,
    pub(in crate::tables) one: DataType,
    pub(in crate::tables) other: DataType,
}

/// The columns of both schemas, first those of `one`, in order, then the others of `other`.
///
/// # Errors
/// The first column that has no wider type.
pub(in crate::tables) fn merged(one: &Schema, other: &Schema) -> Result<Schema, Box<Conflict>> {
    let fields = union(one.fields(), other.fields()).map_err(|(one, other)| {
        Box::new(Conflict {
            column: one.name().clone(),
            one: one.data_type().clone(),
            other: other.data_type().clone(),
        })
    })?;
    Ok(Schema::new(fields))
}

/// The union of two sets of fields by name, or the first two that have no wider type.
fn union<'a>(one: &'a Fields, other: &'a Fields) -> Result<Fields, (&'a FieldRef, &'a FieldRef)> {
    let find = |fields: &'a Fields, name: &str| fields.iter().find(|field| field.name() == name);
    let optional = |field: &FieldRef| Arc::new(Field::clone(field).with_nullable(true));
    let mut all = Vec::with_capacity(one.len().max(other.len()));
    for field in one {
        all.push(match find(other, field.name()) {
            Some(same) => {
                let merged = wider_field(field, same).ok_or((field, same))?;
                Arc::new(merged)
            }
            None => optional(field),
        });
    }
    let new = other
        .iter()
        .filter(|field| find(one, field.name()).is_none());
    all.extend(new.map(optional));
    Ok(all.into())
}

/// One field for both, with the name of the first.
fn wider_field(one: &Field, other: &Field) -> Option<Field> {
    let data_type = wider(one.data_type(), other.data_type())?;
    let nullable = one.is_nullable() || other.is_nullable();
    let same = *one.data_type() == data_type && one.metadata() == other.metadata();
    let mut field = one
        .clone()
        .with_data_type(data_type)
        .with_nullable(nullable);
    if !same {
        // Metadata describes a type.
        field.metadata_mut().clear();
    }
    Some(field)
}

/// The type that holds all values of both (W1).
pub(in crate::tables) fn wider(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType as T;
    if one == other {
        return Some(one.clone());
    }
    if is_text(one) && is_text(other) {
        return Some(text(one, other));
    }
    if is_binary(one) && is_binary(other) {
        return Some(binary(one, other));
    }
    Some(match (one, other) {
        (T::Null, known) | (known, T::Null) => known.clone(),
        (T::Dictionary(_, value), other) | (other, T::Dictionary(_, value)) => {
            return wider(value, other);
        }
        (T::RunEndEncoded(_, value), other) | (other, T::RunEndEncoded(_, value)) => {
            return wider(value.data_type(), other);
        }
        (a, b) if a.is_integer() && b.is_integer() => integer(a, b),
        (a, b) if a.is_floating() && b.is_floating() => float(a, b),
        (a, b) if a.is_integer() && b.is_floating() => return integer_in_float(a, b),
        (a, b) if a.is_floating() && b.is_integer() => return integer_in_float(b, a),
        (a, b) if decimal_of(a).is_some() && decimal_of(b).is_some() => return decimal(a, b),
        (T::Date32, T::Date64) | (T::Date64, T::Date32) => T::Date64,
        (T::Date32 | T::Date64, T::Timestamp(unit, None))
        | (T::Timestamp(unit, None), T::Date32 | T::Date64) => T::Timestamp(*unit, None),
        (T::Timestamp(a, None), T::Timestamp(b, None)) => T::Timestamp(*a.max(b), None),
        (T::Timestamp(a, Some(zone)), T::Timestamp(b, Some(other))) => {
            let zone = if zone == other {
                zone
            } else {
                &Arc::from("UTC")
            };
            T::Timestamp(*a.max(b), Some(Arc::clone(zone)))
        }
        (T::Time32(a) | T::Time64(a), T::Time32(b) | T::Time64(b)) => match *a.max(b) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => T::Time32(unit),
            unit => T::Time64(unit),
        },
        (T::Duration(a), T::Duration(b)) => T::Duration(*a.max(b)),
        (T::Interval(_), T::Interval(_)) => T::Interval(IntervalUnit::MonthDayNano),
        (T::Struct(a), T::Struct(b)) => T::Struct(union(a, b).ok()?),
        (T::Map(a, sorted), T::Map(b, other)) => {
            T::Map(Arc::new(entries(a, b)?), *sorted && *other)
        }
        (a, b) => return list(a, b),
    })
}

/// The field of a map's entries: keys and values by position, because writers give them various
/// names.
fn entries(one: &Field, other: &Field) -> Option<Field> {
    use DataType as T;
    let (T::Struct(a), T::Struct(b)) = (one.data_type(), other.data_type()) else {
        return None;
    };
    let fields = a.iter().zip(b).map(|(a, b)| wider_field(a, b));
    let fields: Vec<Field> = fields.collect::<Option<_>>()?;
    Some(one.clone().with_data_type(T::Struct(fields.into())))
}

fn list(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType as T;
    let element = |list: &'_ DataType| match list {
        T::List(of) | T::LargeList(of) | T::ListView(of) | T::LargeListView(of) => {
            Some(Arc::clone(of))
        }
        T::FixedSizeList(of, _) => Some(Arc::clone(of)),
        _ => None,
    };
    let large = |list: &DataType| matches!(list, T::LargeList(_) | T::LargeListView(_));
    let of = Arc::new(wider_field(&*element(one)?, &*element(other)?)?);
    Some(if large(one) || large(other) {
        T::LargeList(of)
    } else {
        T::List(of)
    })
}

/// Whether values of this type are text, however they are stored.
pub(in crate::tables) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_text(value),
        DataType::RunEndEncoded(_, value) => is_text(value.data_type()),
        other => other.is_string(),
    }
}

pub(super) fn is_binary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_binary(value),
        DataType::RunEndEncoded(_, value) => is_binary(value.data_type()),
        other => other.is_binary() || matches!(other, DataType::FixedSizeBinary(_)),
    }
}

/// The plain form, because every reader knows it; the large form if one of them has it.
fn text(one: &DataType, other: &DataType) -> DataType {
    if [one, other].contains(&&DataType::LargeUtf8) {
        DataType::LargeUtf8
    } else {
        DataType::Utf8
    }
}

fn binary(one: &DataType, other: &DataType) -> DataType {
    if [one, other].contains(&&DataType::LargeBinary) {
        DataType::LargeBinary
    } else {
        DataType::Binary
    }
}

fn integer(one: &DataType, other: &DataType) -> DataType {
    use DataType as T;
    let signed = one.is_signed_integer() || other.is_signed_integer();
    let bits = |of: &DataType| {
        let own = of.primitive_width().unwrap_or(8) * 8;
        // A signed type needs one bit more for the same unsigned values.
        own + usize::from(signed && of.is_unsigned_integer())
    };
    match (bits(one).max(bits(other)), signed) {
        (..=8, true) => T::Int8,
        (..=16, true) => T::Int16,
        (..=32, true) => T::Int32,
        (..=64, true) => T::Int64,
        (_, true) => T::Decimal128(20, 0),
        (..=8, false) => T::UInt8,
        (..=16, false) => T::UInt16,
        (..=32, false) => T::UInt32,
        (_, false) => T::UInt64,
    }
}

fn float(one: &DataType, other: &DataType) -> DataType {
    if [one, other].contains(&&DataType::Float64) {
        DataType::Float64
    } else {
        DataType::Float32
    }
}

/// A float type whose mantissa holds each integer; 64-bit integers have none.
fn integer_in_float(integer: &DataType, float: &DataType) -> Option<DataType> {
    match (integer.primitive_width()?, float) {
        (1 | 2, DataType::Float16 | DataType::Float32) => Some(DataType::Float32),
        (1 | 2 | 4, _) => Some(DataType::Float64),
        _ => None,
    }
}

/// The numbers of digits before and after the point.
fn decimal_of(data_type: &DataType) -> Option<(i16, i16)> {
    use DataType as T;
    let (precision, scale) = match data_type {
        T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s) => {
            (*p, *s)
        }
        T::Int8 | T::UInt8 => (3, 0),
        T::Int16 | T::UInt16 => (5, 0),
        T::Int32 | T::UInt32 => (10, 0),
        T::Int64 => (19, 0),
        T::UInt64 => (20, 0),
        _ => return None,
    };
    Some((i16::from(precision) - i16::from(scale), i16::from(scale)))
}

fn decimal(one: &DataType, other: &DataType) -> Option<DataType> {
    let ((whole, scale), (other_whole, other_scale)) = (decimal_of(one)?, decimal_of(other)?);
    let scale = scale.max(other_scale);
    let precision = u8::try_from(whole.max(other_whole) + scale).ok()?;
    let scale = i8::try_from(scale).ok()?;
    if precision <= DECIMAL128_MAX_PRECISION {
        return Some(DataType::Decimal128(precision, scale));
    }
    (precision <= DECIMAL256_MAX_PRECISION).then_some(DataType::Decimal256(precision, scale))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use DataType as T;
    use arrow::datatypes::TimeUnit::{Microsecond, Millisecond, Nanosecond};

    use super::*;

    fn dictionary(of: DataType) -> DataType {
        T::Dictionary(Box::new(T::Int8), Box::new(of))
    }

    fn list_of(of: DataType) -> DataType {
        T::new_list(of, true)
    }

    #[test]
    fn the_wider_type_holds_both() {
        let cases = [
            (T::Int32, T::Int64, T::Int64),
            (T::UInt8, T::Int8, T::Int16),
            (T::UInt32, T::Int32, T::Int64),
            (T::UInt16, T::UInt64, T::UInt64),
            (T::UInt64, T::Int8, T::Decimal128(20, 0)),
            (T::Float32, T::Float64, T::Float64),
            (T::Int16, T::Float32, T::Float32),
            (T::Int32, T::Float32, T::Float64),
            (
                T::Timestamp(Millisecond, None),
                T::Timestamp(Microsecond, None),
                T::Timestamp(Microsecond, None),
            ),
            (
                T::Timestamp(Nanosecond, Some("UTC".into())),
                T::Timestamp(Microsecond, Some("Europe/Rome".into())),
                T::Timestamp(Nanosecond, Some("UTC".into())),
            ),
            (
                T::Date32,
                T::Timestamp(Millisecond, None),
                T::Timestamp(Millisecond, None),
            ),
            (
                T::Time32(Millisecond),
                T::Time64(Microsecond),
                T::Time64(Microsecond),
            ),
            (T::Utf8, T::Utf8View, T::Utf8),
            (T::LargeUtf8, dictionary(T::Utf8), T::LargeUtf8),
            (dictionary(T::Utf8), T::Utf8, T::Utf8),
            (T::FixedSizeBinary(4), T::BinaryView, T::Binary),
            (T::Null, T::Int8, T::Int8),
            (
                T::Decimal128(10, 2),
                T::Decimal64(12, 4),
                T::Decimal128(12, 4),
            ),
            (T::Int64, T::Decimal128(10, 2), T::Decimal128(21, 2)),
            (
                list_of(T::Utf8),
                list_of(T::LargeUtf8),
                list_of(T::LargeUtf8),
            ),
        ];
        for (one, other, both) in cases {
            assert_eq!(wider(&one, &other).as_ref(), Some(&both), "{one} {other}");
            assert_eq!(wider(&other, &one).as_ref(), Some(&both), "{other} {one}");
            assert!(arrow::compute::can_cast_types(&one, &both), "{one} {both}");
            assert!(
                arrow::compute::can_cast_types(&other, &both),
                "{other} {both}"
            );
        }
    }

    #[test]
    fn types_without_a_wider_type_are_refused() {
        for (one, other) in [
            (T::Int64, T::Float64),
            (T::Int32, T::Utf8),
            (T::Utf8, T::Binary),
            (T::Boolean, T::Int8),
            (
                T::Timestamp(Microsecond, None),
                T::Timestamp(Microsecond, Some("UTC".into())),
            ),
            (list_of(T::Int64), T::Int64),
            (T::Decimal128(38, 0), T::Float64),
        ] {
            assert_eq!(wider(&one, &other), None, "{one} {other}");
            assert_eq!(wider(&other, &one), None, "{other} {one}");
        }
    }

    #[test]
    fn a_column_that_a_file_lacks_may_be_null() {
        let one = Schema::new(vec![Field::new("a", T::Int32, false)]);
        let other = Schema::new(vec![
            Field::new("a", T::Int64, false),
            Field::new("b", T::Utf8, false),
        ]);
        let both = merged(&one, &other).unwrap();
        assert_eq!(*both.field(0), Field::new("a", T::Int64, false));
        assert_eq!(*both.field(1), Field::new("b", T::Utf8, true));
        let third = Schema::new(vec![Field::new("b", T::Int8, false)]);
        let conflict = merged(&both, &third).unwrap_err();
        assert_eq!(conflict.column, "b");
        assert_eq!((&conflict.one, &conflict.other), (&T::Utf8, &T::Int8));
    }
}
