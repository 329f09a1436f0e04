//! A table of `pg_catalog` that is built row by row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_pg::datatypes::{PG_CHAR_KEY, PG_OID_ALIAS_KEY};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::scalar::ScalarValue;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Oid,
    Text,
    /// PostgreSQL's `"char"`: one letter.
    Char,
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    /// `timestamptz`.
    Time,
    Texts,
}

impl Kind {
    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Oid | Self::Int4 => DataType::Int32,
            Self::Text | Self::Char => DataType::Utf8,
            Self::Bool => DataType::Boolean,
            Self::Int2 => DataType::Int16,
            Self::Int8 => DataType::Int64,
            Self::Float4 => DataType::Float32,
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Texts => DataType::new_list(DataType::Utf8, true),
        }
    }

    fn field(self, name: &str) -> Field {
        let field = Field::new(name, self.data_type(), true);
        let mark = match self {
            Self::Oid => (PG_OID_ALIAS_KEY, "oid"),
            Self::Char => (PG_CHAR_KEY, "char"),
            _ => return field,
        };
        field.with_metadata(HashMap::from([(mark.0.to_owned(), mark.1.to_owned())]))
    }
}

/// A value of a row.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Null,
    /// An oid or an integer of any width.
    Number(i32),
    Text(String),
    Texts(Vec<String>),
    Bool(bool),
    /// In microseconds since 1970.
    Time(i64),
}

impl From<i32> for Cell {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<String>> for Cell {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

/// The columns of a table, by name and type.
pub(super) type Columns = &'static [(&'static str, Kind)];

pub(super) fn schema(columns: Columns) -> SchemaRef {
    let fields = columns.iter().map(|(name, kind)| kind.field(name));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Makes a batch of the rows. A row has one cell for each column.
pub(super) fn batch(columns: Columns, rows: &[Vec<Cell>]) -> Result<RecordBatch> {
    let arrays = columns
        .iter()
        .enumerate()
        .map(|(index, (_, kind))| {
            let cells = rows.iter().map(|row| match row.get(index) {
                Some(cell) => scalar(*kind, cell),
                None => ScalarValue::try_from(kind.data_type()),
            });
            let cells = cells.collect::<Result<Vec<_>>>()?;
            if cells.is_empty() {
                return Ok(datafusion::arrow::array::new_empty_array(&kind.data_type()));
            }
            ScalarValue::iter_to_array(cells)
        })
        .collect::<Result<Vec<ArrayRef>>>()?;
    Ok(RecordBatch::try_new(schema(columns), arrays)?)
}

fn scalar(kind: Kind, cell: &Cell) -> Result<ScalarValue> {
    Ok(match (kind, cell) {
        (Kind::Oid | Kind::Int4, Cell::Number(n)) => ScalarValue::Int32(Some(*n)),
        (Kind::Int2, Cell::Number(n)) => ScalarValue::Int16(i16::try_from(*n).ok()),
        (Kind::Int8, Cell::Number(n)) => ScalarValue::Int64(Some(i64::from(*n))),
        (Kind::Float4, Cell::Number(n)) => ScalarValue::Float32(Some(*n as f32)),
        (Kind::Text | Kind::Char, Cell::Text(text)) => ScalarValue::from(text.as_str()),
        (Kind::Bool, Cell::Bool(value)) => ScalarValue::from(*value),
        (Kind::Time, Cell::Time(us)) => {
            ScalarValue::TimestampMicrosecond(Some(*us), Some("UTC".into()))
        }
        (Kind::Texts, Cell::Texts(texts)) => {
            let texts: Vec<_> = texts
                .iter()
                .map(|text| ScalarValue::from(text.as_str()))
                .collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&texts, &DataType::Utf8))
        }
        _ => ScalarValue::try_from(kind.data_type())?,
    })
}
