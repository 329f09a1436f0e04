//! Which types can PostgreSQL's SQL cast to, and which Arrow type holds each?
//!
//! Plans contain a [`Target`] as text (`pg_cast(x, 'numeric(10,2)')`), so [`Target::from_str`] and
//! `Display` are inverse to each other.
//!
//! Arrow lacks some of PostgreSQL's types. They are held in the nearest Arrow type, and the field
//! names the type in its metadata under [`PG_TYPE`].

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, IntervalUnit, TimeUnit,
};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as SqlType, ExactNumberInfo, TimezoneInfo,
};

use crate::dialect::last_word;

/// The key of a field's metadata that names a PostgreSQL type which Arrow lacks.
pub const PG_TYPE: &str = "pg.type";

/// The name of a field's extension type in Arrow.
pub(crate) fn extension(field: &Field) -> Option<&str> {
    let named = field.metadata().get("ARROW:extension:name")?;
    Some(named)
}

/// The scale of a numeric whose digits are not known when the query is planned.
pub(crate) const OPEN_SCALE: i8 = 38;

/// The target type of a cast, with its modifier.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// `boolean`.
    Bool,
    /// `smallint`.
    Int2,
    /// `integer`.
    Int4,
    /// `bigint`.
    Int8,
    /// `real`.
    Float4,
    /// `double precision`.
    Float8,
    /// `numeric`, with its declared precision and scale.
    Numeric(Option<(u16, i16)>),
    /// `numeric` without a declared precision, with the known digits of a literal.
    NumericOf(u8, i8),
    /// `text`.
    Text,
    /// `varchar`, with its maximum length.
    Varchar(Option<u32>),
    /// `char(n)`, padded with blanks.
    Bpchar(Option<u32>),
    /// `name`.
    Name,
    /// `bytea`.
    Bytea,
    /// `date`.
    Date,
    /// `time`, with its number of fractional digits.
    Time(Option<u8>),
    /// `timestamp`, with its number of fractional digits.
    Timestamp(Option<u8>),
    /// `timestamptz`, with its number of fractional digits.
    Timestamptz(Option<u8>),
    /// `interval`: the fields that a cast keeps (`day to second`), and its fractional digits.
    Interval(Option<String>, Option<u8>),
    /// `uuid`.
    Uuid,
    /// `json`.
    Json,
    /// `jsonb`.
    Jsonb,
    /// `jsonpath`.
    JsonPath,
    /// An array.
    Array(Box<Target>),
}

impl Target {
    /// The target named by a type in a statement; `None` if its casts are left to DataFusion or to
    /// the catalog's passes.
    #[must_use]
    pub(crate) fn of_sql(sql: &SqlType) -> Option<Self> {
        Some(match sql {
            SqlType::Boolean | SqlType::Bool => Self::Bool,
            SqlType::SmallInt(None) | SqlType::Int2(None) => Self::Int2,
            SqlType::Int(None) | SqlType::Integer(None) | SqlType::Int4(None) => Self::Int4,
            SqlType::BigInt(None) | SqlType::Int8(None) => Self::Int8,
            SqlType::Real | SqlType::Float4 => Self::Float4,
            SqlType::Double(ExactNumberInfo::None)
            | SqlType::DoublePrecision
            | SqlType::Float8
            | SqlType::Float(ExactNumberInfo::None) => Self::Float8,
            SqlType::Float(ExactNumberInfo::Precision(1..=24)) => Self::Float4,
            SqlType::Float(ExactNumberInfo::Precision(25..=53)) => Self::Float8,
            SqlType::Numeric(info) | SqlType::Decimal(info) | SqlType::Dec(info) => {
                Self::Numeric(match info {
                    ExactNumberInfo::None => None,
                    ExactNumberInfo::Precision(precision) => {
                        Some((u16::try_from(*precision).ok()?, 0))
                    }
                    ExactNumberInfo::PrecisionAndScale(precision, scale) => {
                        Some((u16::try_from(*precision).ok()?, i16::try_from(*scale).ok()?))
                    }
                })
            }
            SqlType::Text => Self::Text,
            SqlType::Varchar(length)
            | SqlType::CharacterVarying(length)
            | SqlType::CharVarying(length) => Self::Varchar(characters(length.as_ref())?),
            SqlType::Char(length) | SqlType::Character(length) => {
                Self::Bpchar(Some(characters(length.as_ref())?.unwrap_or(1)))
            }
            SqlType::Bytea => Self::Bytea,
            SqlType::Date => Self::Date,
            SqlType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                Self::Time(fractional(*digits)?)
            }
            SqlType::Timestamp(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
                Self::Timestamptz(fractional(*digits)?)
            }
            SqlType::Timestamp(digits, _) => Self::Timestamp(fractional(*digits)?),
            SqlType::Interval { fields, precision } => Self::Interval(
                fields
                    .as_ref()
                    .map(|fields| fields.to_string().to_lowercase()),
                fractional(*precision)?,
            ),
            SqlType::Uuid => Self::Uuid,
            SqlType::JSON => Self::Json,
            SqlType::JSONB => Self::Jsonb,
            SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
                match Self::of_sql(element)? {
                    // PostgreSQL has one type for arrays of any number of dimensions.
                    array @ Self::Array(_) => array,
                    element => Self::Array(Box::new(element)),
                }
            }
            SqlType::Custom(name, modifiers) => {
                let word = last_word(name)?;
                match (word.as_str(), modifiers.as_slice()) {
                    ("bpchar", []) => Self::Bpchar(None),
                    (_, []) => word.parse().ok()?,
                    (_, modifiers) => format!("{word}({})", modifiers.join(",")).parse().ok()?,
                }
            }
            _ => return None,
        })
    }

    /// The target whose values a field already holds; `None` for types of the catalog and types
    /// that PostgreSQL lacks.
    #[must_use]
    pub fn of_field(field: &Field) -> Option<Self> {
        if let Some(name) = field.metadata().get(PG_TYPE)
            && let Ok(target) = name.parse()
        {
            return Some(target);
        }
        match extension(field) {
            Some("arrow.uuid") => Some(Self::Uuid),
            Some("arrow.json") => Some(Self::Json),
            _ => Self::of_arrow(field.data_type()),
        }
    }

    /// See [`Target::of_field`].
    #[must_use]
    pub fn of_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Self::Int2,
            DataType::UInt16 | DataType::Int32 => Self::Int4,
            DataType::UInt32 | DataType::Int64 => Self::Int8,
            DataType::UInt64 => Self::NumericOf(20, 0),
            DataType::Float16 | DataType::Float32 => Self::Float4,
            DataType::Float64 => Self::Float8,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => Self::NumericOf(*precision, *scale),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytea,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time(None),
            DataType::Timestamp(_, None) => Self::Timestamp(None),
            DataType::Timestamp(_, Some(_)) => Self::Timestamptz(None),
            DataType::Interval(_) | DataType::Duration(_) => Self::Interval(None, None),
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::FixedSizeList(element, _) => match Self::of_field(element)? {
                array @ Self::Array(_) => array,
                element => Self::Array(Box::new(element)),
            },
            DataType::Dictionary(_, values) => Self::of_arrow(values)?,
            DataType::RunEndEncoded(_, values) => Self::of_arrow(values.data_type())?,
            _ => return None,
        })
    }

    /// The Arrow type that holds a value of type `from` cast to this type.
    #[must_use]
    pub fn arrow(&self, from: &DataType) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int2 => DataType::Int16,
            Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Float4 => DataType::Float32,
            Self::Float8 => DataType::Float64,
            Self::Numeric(Some((precision, scale))) => declared(*precision, *scale),
            Self::Numeric(None) => open(from),
            Self::NumericOf(precision, scale) => decimal(*precision, *scale),
            Self::Text
            | Self::Varchar(_)
            | Self::Bpchar(_)
            | Self::Name
            | Self::Uuid
            | Self::Json
            | Self::Jsonb
            | Self::JsonPath => match from {
                DataType::Utf8View => DataType::Utf8View,
                _ => DataType::Utf8,
            },
            Self::Bytea => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Time(_) => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            // The zone is always UTC: the session's zone only matters where texts are read and
            // written.
            Self::Timestamptz(_) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Interval(..) => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Array(element) => {
                let from = match from {
                    DataType::List(element)
                    | DataType::LargeList(element)
                    | DataType::FixedSizeList(element, _) => element.data_type(),
                    other => other,
                };
                match from {
                    // A list of lists stays one, and its elements are cast.
                    DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                        DataType::new_list(self.arrow(from), true)
                    }
                    from => {
                        let held = element.field("item", element.arrow(from), true);
                        DataType::List(Arc::new(held))
                    }
                }
            }
        }
    }

    /// A field of this type, marked with its name if Arrow lacks the type or its digits.
    #[must_use]
    pub fn field(&self, name: &str, held: DataType, nullable: bool) -> Field {
        let field = Field::new(name, held, nullable);
        match self {
            Self::Time(Some(0..=5))
            | Self::Timestamp(Some(0..=5))
            | Self::Timestamptz(Some(0..=5))
            | Self::Interval(Some(_), _)
            | Self::Interval(None, Some(0..=5))
            | Self::Varchar(_)
            | Self::Bpchar(_)
            | Self::Name
            | Self::Uuid
            | Self::Json
            | Self::Jsonb
            | Self::JsonPath => {
                field.with_metadata(HashMap::from([(PG_TYPE.to_owned(), self.to_string())]))
            }
            _ => field,
        }
    }

    /// PostgreSQL's name of the type in messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Numeric(_) | Self::NumericOf(..) => "numeric",
            Self::Text => "text",
            Self::Varchar(_) => "character varying",
            Self::Bpchar(_) => "character",
            Self::Name => "name",
            Self::Bytea => "bytea",
            Self::Date => "date",
            Self::Time(_) => "time without time zone",
            Self::Timestamp(_) => "timestamp without time zone",
            Self::Timestamptz(_) => "timestamp with time zone",
            Self::Interval(..) => "interval",
            Self::Uuid => "uuid",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::JsonPath => "jsonpath",
            Self::Array(element) => return format!("{}[]", element.name()),
        }
        .to_owned()
    }

    /// The type without its modifier.
    #[must_use]
    pub fn unmodified(&self) -> Self {
        match self {
            Self::Numeric(_) => Self::Numeric(None),
            Self::Varchar(_) => Self::Varchar(None),
            Self::Bpchar(_) => Self::Bpchar(None),
            Self::Time(_) => Self::Time(None),
            Self::Timestamp(_) => Self::Timestamp(None),
            Self::Timestamptz(_) => Self::Timestamptz(None),
            Self::Interval(..) => Self::Interval(None, None),
            Self::Array(element) => Self::Array(Box::new(element.unmodified())),
            other => other.clone(),
        }
    }

    /// Whether this is a type of numbers.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.is_integer()
            || matches!(
                self,
                Self::Float4 | Self::Float8 | Self::Numeric(_) | Self::NumericOf(..)
            )
    }

    /// Whether this is a type of integers.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::Int2 | Self::Int4 | Self::Int8)
    }

    /// Whether this is a type of character strings.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Text | Self::Varchar(_) | Self::Bpchar(_) | Self::Name
        )
    }

    /// Whether the type has a modifier that may change a value of that type.
    #[must_use]
    pub fn has_modifier(&self) -> bool {
        match self {
            Self::Numeric(modifier) => modifier.is_some(),
            Self::Varchar(length) | Self::Bpchar(length) => length.is_some(),
            Self::Time(digits) | Self::Timestamp(digits) | Self::Timestamptz(digits) => {
                digits.is_some()
            }
            Self::Interval(fields, digits) => fields.is_some() || digits.is_some(),
            Self::Array(element) => element.has_modifier(),
            _ => false,
        }
    }
}

/// `Decimal128`, or `Decimal256` if that is too narrow.
#[must_use]
pub(crate) fn decimal(precision: u8, scale: i8) -> DataType {
    if precision <= DECIMAL128_MAX_PRECISION {
        DataType::Decimal128(precision.max(1), scale)
    } else {
        DataType::Decimal256(precision.min(DECIMAL256_MAX_PRECISION), scale)
    }
}

/// The Arrow type for `numeric(precision, scale)`. PostgreSQL allows 1000 digits; here a value of
/// more than 76 digits is an error.
fn declared(precision: u16, scale: i16) -> DataType {
    let max = u16::from(DECIMAL256_MAX_PRECISION);
    let digits = match scale {
        ..0 => precision.saturating_add(scale.unsigned_abs()),
        0.. => precision.max(scale.unsigned_abs()),
    };
    let scale = scale.clamp(0, i16::from(DECIMAL256_MAX_PRECISION.cast_signed()));
    decimal(
        u8::try_from(digits.min(max)).unwrap_or(DECIMAL256_MAX_PRECISION),
        i8::try_from(scale).unwrap_or(OPEN_SCALE),
    )
}

/// The Arrow type for a `numeric` without a declared precision, cast from the type `from`.
fn open(from: &DataType) -> DataType {
    match from {
        DataType::Boolean | DataType::Null => DataType::Decimal128(1, 0),
        DataType::Int8 | DataType::UInt8 => DataType::Decimal128(3, 0),
        DataType::Int16 | DataType::UInt16 => DataType::Decimal128(5, 0),
        DataType::Int32 | DataType::UInt32 => DataType::Decimal128(10, 0),
        DataType::Int64 => DataType::Decimal128(19, 0),
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
        DataType::Decimal256(precision, scale) => DataType::Decimal256(*precision, *scale),
        DataType::Dictionary(_, values) => open(values),
        _ => DataType::Decimal256(DECIMAL256_MAX_PRECISION, OPEN_SCALE),
    }
}

/// The inner `None` means no length, the outer one a length that PostgreSQL does not support.
#[expect(clippy::option_option, reason = "absent is not invalid")]
fn characters(length: Option<&CharacterLength>) -> Option<Option<u32>> {
    match length {
        None => Some(None),
        Some(CharacterLength::IntegerLength { length, .. }) => {
            Some(Some(u32::try_from(*length).ok()?))
        }
        Some(CharacterLength::Max) => None,
    }
}

/// See [`characters`]. More than six digits count as six, as in PostgreSQL.
#[expect(clippy::option_option, reason = "absent is not invalid")]
fn fractional(digits: Option<u64>) -> Option<Option<u8>> {
    Some(match digits {
        Some(digits) => Some(u8::try_from(digits).ok()?.min(6)),
        None => None,
    })
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int2 => f.write_str("int2"),
            Self::Int4 => f.write_str("int4"),
            Self::Int8 => f.write_str("int8"),
            Self::Float4 => f.write_str("float4"),
            Self::Float8 => f.write_str("float8"),
            Self::Numeric(None) => f.write_str("numeric"),
            Self::Numeric(Some((precision, scale))) => write!(f, "numeric({precision},{scale})"),
            Self::NumericOf(precision, scale) => write!(f, "numeric:{precision},{scale}"),
            Self::Text => f.write_str("text"),
            Self::Varchar(length) => modified(f, "varchar", length.as_ref()),
            Self::Bpchar(length) => modified(f, "bpchar", length.as_ref()),
            Self::Name => f.write_str("name"),
            Self::Bytea => f.write_str("bytea"),
            Self::Date => f.write_str("date"),
            Self::Time(digits) => modified(f, "time", digits.as_ref()),
            Self::Timestamp(digits) => modified(f, "timestamp", digits.as_ref()),
            Self::Timestamptz(digits) => modified(f, "timestamptz", digits.as_ref()),
            Self::Interval(None, digits) => modified(f, "interval", digits.as_ref()),
            Self::Interval(Some(fields), digits) => {
                write!(f, "interval:{fields}")?;
                modified(f, "", digits.as_ref())
            }
            Self::Uuid => f.write_str("uuid"),
            Self::Json => f.write_str("json"),
            Self::Jsonb => f.write_str("jsonb"),
            Self::JsonPath => f.write_str("jsonpath"),
            Self::Array(element) => write!(f, "{element}[]"),
        }
    }
}

fn modified(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    modifier: Option<&impl fmt::Display>,
) -> fmt::Result {
    match modifier {
        Some(modifier) => write!(f, "{name}({modifier})"),
        None => f.write_str(name),
    }
}

impl FromStr for Target {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(element) = text.strip_suffix("[]") {
            return Ok(Self::Array(Box::new(element.parse()?)));
        }
        if let Some(digits) = text.strip_prefix("numeric:") {
            let (precision, scale) = digits.split_once(',').ok_or(())?;
            return Ok(Self::NumericOf(number(precision)?, number(scale)?));
        }
        let (name, modifier) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((name, modifier)) => (name, Some(modifier)),
            None => (text, None),
        };
        if let Some(fields) = name.strip_prefix("interval:") {
            return Ok(Self::Interval(
                Some(fields.to_owned()),
                modifier.map(number).transpose()?,
            ));
        }
        Ok(match (name, modifier) {
            ("bool" | "boolean", None) => Self::Bool,
            ("int2" | "smallint", None) => Self::Int2,
            ("int4" | "integer" | "int", None) => Self::Int4,
            ("int8" | "bigint", None) => Self::Int8,
            ("float4" | "real", None) => Self::Float4,
            ("float8", None) => Self::Float8,
            ("numeric" | "decimal", None) => Self::Numeric(None),
            ("numeric" | "decimal", Some(modifier)) => {
                let (precision, scale) = modifier.split_once(',').unwrap_or((modifier, "0"));
                Self::Numeric(Some((number(precision)?, number(scale)?)))
            }
            ("text", None) => Self::Text,
            ("varchar", length) => Self::Varchar(length.map(number).transpose()?),
            ("bpchar", length) => Self::Bpchar(length.map(number).transpose()?),
            ("name", None) => Self::Name,
            ("bytea", None) => Self::Bytea,
            ("date", None) => Self::Date,
            ("time", digits) => Self::Time(digits.map(number).transpose()?),
            ("timestamp", digits) => Self::Timestamp(digits.map(number).transpose()?),
            ("timestamptz", digits) => Self::Timestamptz(digits.map(number).transpose()?),
            ("interval", digits) => Self::Interval(None, digits.map(number).transpose()?),
            ("uuid", None) => Self::Uuid,
            ("json", None) => Self::Json,
            ("jsonb", None) => Self::Jsonb,
            ("jsonpath", None) => Self::JsonPath,
            _ => return Err(()),
        })
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, ()> {
    text.trim().parse().map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_survive_the_round_trip() {
        for text in [
            "bool",
            "int4",
            "numeric",
            "numeric(10,2)",
            "numeric(3,-2)",
            "numeric:3,2",
            "varchar(5)",
            "bpchar",
            "timestamptz(3)",
            "interval",
            "interval(2)",
            "interval:day to second(2)",
            "text[]",
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
        }
        assert!("oid".parse::<Target>().is_err());
    }
}
