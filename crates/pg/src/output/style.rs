//! `IntervalStyle`: how intervals look as text.
//!
//! PostgreSQL's default is `text.rs`'s. In another style the intervals of a column are replaced by
//! their texts before the column is written ([`in_style`]), as timestamps are by those of a zone.
//! Not here: `sql_standard`, which changes how intervals are read, too (`-1 2:03` has a negative
//! time of day). SET refuses it.

use std::any::Any;
use std::fmt::{self, Write};
use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, MapArray,
    StringBuilder, StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};

use super::cell::spans;

/// The style in which a session shows intervals. It is an extension of the session's options,
/// where whoever opens the session puts it; without it the style is `postgres`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days +04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons -3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `P1Y2M-3DT4H5M6S`
    Iso8601,
}

impl IntervalStyle {
    /// The option's name in a session's configuration.
    pub const OPTION: &'static str = "coscan_intervals.style";
    /// PostgreSQL's names of the styles.
    pub const NAMES: &'static [&'static str] = &["postgres", "postgres_verbose", "iso_8601"];

    /// The style of a session with these options.
    #[must_use]
    pub fn of(options: &ConfigOptions) -> Self {
        let style = options.extensions.get::<Self>();
        style.copied().unwrap_or_default()
    }

    /// The style of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Postgres, Self::PostgresVerbose, Self::Iso8601];
        all.into_iter().find(|style| style.name() == name)
    }

    /// PostgreSQL's name of the style.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::PostgresVerbose => "postgres_verbose",
            Self::Iso8601 => "iso_8601",
        }
    }
}

impl ConfigExtension for IntervalStyle {
    const PREFIX: &'static str = "coscan_intervals";
}

impl ExtensionOptions for IntervalStyle {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(*self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match (key, Self::named(value)) {
            ("style", Some(style)) => {
                *self = style;
                Ok(())
            }
            ("style", None) => config_err!("no style of intervals: {value:?}"),
            _ => config_err!("no setting: {key:?}"),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![ConfigEntry {
            key: Self::OPTION.to_owned(),
            value: Some(self.name().to_owned()),
            description: "IntervalStyle",
        }]
    }
}

/// The same values with their intervals, at any depth, as texts of this style.
///
/// # Errors
/// A valid array causes none.
pub fn in_style(array: &ArrayRef, style: IntervalStyle) -> Result<ArrayRef> {
    if style == IntervalStyle::Postgres || !has_intervals(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    let nulls = || array.nulls().cloned();
    Ok(match array.data_type() {
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            let values = in_style(list.values(), style)?;
            let (field, offsets) = (changed(field, &values), list.offsets().clone());
            Arc::new(ListArray::try_new(field, offsets, values, nulls())?)
        }
        DataType::LargeList(field) => {
            let list = array.as_list::<i64>();
            let values = in_style(list.values(), style)?;
            let (field, offsets) = (changed(field, &values), list.offsets().clone());
            Arc::new(LargeListArray::try_new(field, offsets, values, nulls())?)
        }
        DataType::FixedSizeList(field, width) => {
            let values = in_style(array.as_fixed_size_list().values(), style)?;
            let field = changed(field, &values);
            Arc::new(FixedSizeListArray::try_new(field, *width, values, nulls())?)
        }
        DataType::Map(entry, sorted) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = in_style(&entries, style)?;
            let (entry, offsets) = (changed(entry, &entries), map.offsets().clone());
            let entries = entries.as_struct().clone();
            Arc::new(MapArray::try_new(
                entry,
                offsets,
                entries,
                nulls(),
                *sorted,
            )?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter();
            let columns = columns.map(|column| in_style(column, style));
            let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
            let pairs = fields.iter().zip(&columns);
            let fields = pairs.map(|(field, column)| changed(field, column));
            Arc::new(StructArray::try_new(fields.collect(), columns, nulls())?)
        }
        _ => shown(array, style)?,
    })
}

fn has_intervals(of: &DataType) -> bool {
    match of {
        DataType::Interval(_) | DataType::Duration(_) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_intervals(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_intervals(field.data_type())),
        _ => false,
    }
}

/// The field of a list or a row whose values became `values`.
fn changed(field: &Field, values: &ArrayRef) -> FieldRef {
    let held = values.data_type().clone();
    Arc::new(field.clone().with_data_type(held))
}

/// The texts of a column of intervals.
fn shown(array: &ArrayRef, style: IntervalStyle) -> Result<ArrayRef> {
    let nulls = array.logical_nulls();
    let span = spans(array)?;
    let mut texts = StringBuilder::new();
    let mut out = BytesMut::new();
    for row in 0..array.len() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            texts.append_null();
            continue;
        }
        out.clear();
        let (months, days, micros) = span(row);
        let put = match style {
            IntervalStyle::Iso8601 => put_iso(months, days, micros, &mut out),
            _ => put_verbose(months, days, micros, &mut out),
        };
        put.map_err(|error| DataFusionError::External(error.into()))?;
        texts.append_value(String::from_utf8_lossy(&out));
    }
    Ok(Arc::new(texts.finish()))
}

/// `P1Y2M-3DT4H5M6.789S`
fn put_iso(months: i32, days: i32, micros: i64, out: &mut BytesMut) -> fmt::Result {
    if (months, days, micros) == (0, 0, 0) {
        return out.write_str("PT0S");
    }
    let (hours, minutes, rest) = clock(micros);
    out.write_char('P')?;
    let whole = [
        (i64::from(months / 12), "Y"),
        (i64::from(months % 12), "M"),
        (i64::from(days), "D"),
    ];
    put_parts(&whole, out)?;
    if micros != 0 {
        out.write_char('T')?;
    }
    put_parts(&[(hours, "H"), (minutes, "M")], out)?;
    if rest == 0 {
        return Ok(());
    }
    let sign = if rest < 0 { "-" } else { "" };
    write!(out, "{sign}{}S", seconds(rest))
}

fn put_parts(parts: &[(i64, &str)], out: &mut BytesMut) -> fmt::Result {
    let mut parts = parts.iter().filter(|(count, _)| *count != 0);
    parts.try_for_each(|(count, unit)| write!(out, "{count}{unit}"))
}

/// `@ 1 year 2 mons -3 days`. If the first part is negative, all signs are turned, and `ago` ends
/// the text.
fn put_verbose(months: i32, days: i32, micros: i64, out: &mut BytesMut) -> fmt::Result {
    let (hours, minutes, rest) = clock(micros);
    let parts = [
        (i64::from(months / 12), "year"),
        (i64::from(months % 12), "mon"),
        (i64::from(days), "day"),
        (hours, "hour"),
        (minutes, "min"),
    ];
    let mut counts = parts.iter().map(|(count, _)| *count).chain([rest]);
    let is_before = counts
        .find(|count| *count != 0)
        .is_some_and(|count| count < 0);
    out.write_char('@')?;
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count != 0) {
        let count = if is_before { -count } else { count };
        let plural = if count == 1 { "" } else { "s" };
        write!(out, " {count} {unit}{plural}")?;
    }
    if rest != 0 {
        let sign = if (rest < 0) == is_before { "" } else { "-" };
        let plural = if rest.abs() == MICROS { "" } else { "s" };
        write!(out, " {sign}{} sec{plural}", seconds(rest))?;
    }
    if (months, days, micros) == (0, 0, 0) {
        out.write_str(" 0")?;
    }
    out.write_str(if is_before { " ago" } else { "" })
}

/// Microseconds of a second.
const MICROS: i64 = 1_000_000;

/// Hours, minutes and the microseconds that are left, all of one sign.
fn clock(micros: i64) -> (i64, i64, i64) {
    let minutes = micros / (60 * MICROS);
    (minutes / 60, minutes % 60, micros % (60 * MICROS))
}

/// Seconds without their sign, with as many digits as they need.
fn seconds(micros: i64) -> String {
    let micros = micros.unsigned_abs();
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    if part == 0 {
        return whole.to_string();
    }
    let text = format!("{whole}.{part:06}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::IntervalMonthDayNanoArray;
    use datafusion::arrow::datatypes::{Float64Type, IntervalMonthDayNano};

    use super::*;

    fn text(months: i32, days: i32, micros: i64, style: IntervalStyle) -> String {
        let value = IntervalMonthDayNano::new(months, days, micros * 1000);
        let array: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![Some(value), None]));
        let texts = in_style(&array, style).unwrap();
        assert!(texts.is_null(1));
        texts.as_string::<i32>().value(0).to_owned()
    }

    /// The texts are PostgreSQL 15's.
    #[test]
    fn styles() {
        for (months, days, micros, iso, verbose) in [
            (0, 0, 0, "PT0S", "@ 0"),
            (
                14,
                -3,
                14_706_789_000,
                "P1Y2M-3DT4H5M6.789S",
                "@ 1 year 2 mons -3 days 4 hours 5 mins 6.789 secs",
            ),
            (0, -1, 0, "P-1D", "@ 1 day ago"),
            (0, 1, 0, "P1D", "@ 1 day"),
            (1, 0, -1_000_000, "P1MT-1S", "@ 1 mon -1 sec"),
            (
                -14,
                -3,
                -14_706_789_000,
                "P-1Y-2M-3DT-4H-5M-6.789S",
                "@ 1 year 2 mons 3 days 4 hours 5 mins 6.789 secs ago",
            ),
            (-1, 1, 1_000_000, "P-1M1DT1S", "@ 1 mon -1 days -1 sec ago"),
            (0, 0, -1, concat!("PT", "-0.000001S"), "@ 0.000001 secs ago"),
            (0, 0, 1_000_000, "PT1S", "@ 1 sec"),
            (0, 0, -1_000_000, "PT-1S", "@ 1 sec ago"),
            (0, 0, -61_500_000, "PT-1M-1.5S", "@ 1 min 1.5 secs ago"),
            (
                0,
                -1,
                7_380_000_000,
                "P-1DT2H3M",
                "@ 1 day -2 hours -3 mins ago",
            ),
            (12, 0, 0, "P1Y", "@ 1 year"),
            (-12, 0, 500_000, "P-1YT0.5S", "@ 1 year -0.5 secs ago"),
            (0, 0, 360_000_000_000, "PT100H", "@ 100 hours"),
        ] {
            assert_eq!(text(months, days, micros, IntervalStyle::Iso8601), iso);
            let found = text(months, days, micros, IntervalStyle::PostgresVerbose);
            assert_eq!(found, verbose);
        }
    }

    #[test]
    fn intervals_in_arrays_are_texts_and_other_arrays_stay() {
        let value = IntervalMonthDayNano::new(0, 1, 0);
        let values: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![Some(value)]));
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths([1]);
        let list: ArrayRef = Arc::new(ListArray::new(field, offsets, values, None));
        let texts = in_style(&list, IntervalStyle::Iso8601).unwrap();
        assert_eq!(
            texts.as_list::<i32>().value(0).as_string::<i32>().value(0),
            "P1D"
        );
        let plain = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(1.0)])]);
        let plain: ArrayRef = Arc::new(plain);
        let same = in_style(&plain, IntervalStyle::Iso8601).unwrap();
        assert_eq!(same.data_type(), plain.data_type());
    }

    #[test]
    fn names() {
        for name in IntervalStyle::NAMES {
            assert_eq!(
                IntervalStyle::named(name).map(IntervalStyle::name),
                Some(*name)
            );
        }
        assert_eq!(IntervalStyle::named("sql_standard"), None);
    }
}
