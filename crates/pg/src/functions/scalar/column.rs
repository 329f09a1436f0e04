//! The arguments of a call, row by row.

use std::any::Any;
use std::cell::OnceCell;
use std::rc::Rc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;

use super::{Take, is_bytes, is_text, marked_type};
use crate::output::{CellWriter, IntervalStyle, field_writer, in_style, in_zone};
use crate::values::{Json, bytea_from_text};

/// One argument, for all rows.
pub(super) struct Column {
    field: FieldRef,
    array: ArrayRef,
    constant: bool,
    /// Whether it is a `character(n)`.
    is_padded: bool,
    cells: Cells,
    nulls: Option<datafusion::arrow::buffer::NullBuffer>,
}

enum Cells {
    Text(datafusion::arrow::array::StringArray),
    LargeText(datafusion::arrow::array::LargeStringArray),
    TextView(datafusion::arrow::array::StringViewArray),
    Int(Int64Array),
    Float(Float64Array),
    Bool(BooleanArray),
    Bytes(BinaryArray),
    Other(CellWriter),
}

impl Column {
    /// With settings, timestamps and intervals are as a session with them shows them.
    pub(super) fn new(
        value: &ColumnarValue,
        field: &FieldRef,
        take: Take,
        settings: Option<&ConfigOptions>,
    ) -> Result<Self> {
        let (array, constant) = match value {
            ColumnarValue::Array(array) => (array.clone(), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
        };
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => as_type(&array, values)?,
            _ => array,
        };
        let array = match settings {
            Some(settings) => {
                let zone = settings.execution.time_zone.as_deref();
                let array = in_zone(&array, zone.unwrap_or("UTC"))?;
                in_style(&array, IntervalStyle::of(settings))?
            }
            None => array,
        };
        let cells = match (take, array.data_type()) {
            (Take::List, _) | (Take::Any, DataType::Null) => Cells::Other(Box::new(|_, _| Ok(()))),
            (Take::Any | Take::Text | Take::Json, DataType::Utf8) => {
                Cells::Text(array.as_string::<i32>().clone())
            }
            (Take::Any | Take::Text | Take::Json, DataType::LargeUtf8) => {
                Cells::LargeText(array.as_string::<i64>().clone())
            }
            (Take::Any | Take::Text | Take::Json, DataType::Utf8View) => {
                Cells::TextView(array.as_string_view().clone())
            }
            (Take::Jsonb, _) => {
                let texts = as_type(&array, &DataType::Utf8)?.as_string::<i32>().clone();
                if marked_type(field) == Some("jsonb") {
                    Cells::Text(texts)
                } else {
                    let normal = |text: &str| Json::parse(text).map(|it| it.normal().to_string());
                    let texts = texts.iter().map(|text| text.map(normal).transpose());
                    Cells::Text(texts.collect::<Result<Vec<_>, _>>()?.into())
                }
            }
            (Take::Text | Take::Json, _) => {
                Cells::Text(as_type(&array, &DataType::Utf8)?.as_string::<i32>().clone())
            }
            (Take::Int, _) => Cells::Int(
                as_type(&array, &DataType::Int64)?
                    .as_primitive::<Int64Type>()
                    .clone(),
            ),
            (Take::Float, _) => Cells::Float(
                as_type(&array, &DataType::Float64)?
                    .as_primitive::<Float64Type>()
                    .clone(),
            ),
            (Take::Bool, _) => {
                let array = as_type(&array, &DataType::Boolean)?;
                Cells::Bool(array.as_boolean().clone())
            }
            (Take::Bytes, given) if is_text(given) => {
                let texts = as_type(&array, &DataType::Utf8)?;
                let bytes = texts
                    .as_string::<i32>()
                    .iter()
                    .map(|text| text.map(bytea_from_text).transpose())
                    .collect::<Result<Vec<_>, _>>()?;
                Cells::Bytes(bytes.iter().map(Option::as_deref).collect())
            }
            (Take::Bytes, _) => {
                let array = as_type(&array, &DataType::Binary)?;
                Cells::Bytes(array.as_binary::<i32>().clone())
            }
            (Take::Any, _) => Cells::Other(field_writer(field, &array, false)?),
        };
        Ok(Self {
            field: field.clone(),
            constant,
            is_padded: marked_type(field) == Some("bpchar"),
            cells,
            nulls: array.logical_nulls(),
            array,
        })
    }

    pub(super) fn has_nulls(&self) -> bool {
        self.nulls
            .as_ref()
            .is_some_and(|nulls| nulls.null_count() > 0)
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        let row = self.at(row);
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn at(&self, row: usize) -> usize {
        if self.constant { 0 } else { row }
    }
}

/// Not safe: a value that does not fit is an error, not NULL.
fn as_type(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(array.clone());
    }
    let options = CastOptions {
        safe: false,
        ..Default::default()
    };
    Ok(cast_with_options(array, target, &options)?)
}

/// The arguments of one row. Omitted arguments are NULL.
pub(crate) struct Row<'a> {
    pub(super) columns: &'a [Column],
    pub(super) row: usize,
    pub(super) function: &'a str,
    pub(super) kept: &'a OnceCell<Rc<dyn Any>>,
}

impl<'a> Row<'a> {
    /// The name of the called function.
    pub(crate) fn function(&self) -> &'a str {
        self.function
    }

    /// A value computed from some arguments, only once if these are constant.
    pub(crate) fn made_of<T: 'static>(
        &self,
        arguments: &[usize],
        make: impl FnOnce() -> Result<Rc<T>>,
    ) -> Result<Rc<T>> {
        let kept = self.kept.get().cloned();
        if let Some(Ok(kept)) = kept.map(Rc::downcast::<T>) {
            return Ok(kept);
        }
        let made = make()?;
        let is_constant = |at: &usize| self.columns.get(*at).is_none_or(|column| column.constant);
        if arguments.iter().all(is_constant) {
            let _ = self.kept.set(Rc::<T>::clone(&made));
        }
        Ok(made)
    }

    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn is_null(&self, argument: usize) -> bool {
        self.columns
            .get(argument)
            .is_none_or(|column| column.is_null(self.row))
    }

    pub(crate) fn field(&self, argument: usize) -> &'a Field {
        &self.columns[argument].field
    }

    /// The array that holds an argument, and the index of this row's value in it.
    pub(crate) fn array(&self, argument: usize) -> (&'a ArrayRef, usize) {
        let column = &self.columns[argument];
        (&column.array, column.at(self.row))
    }

    /// A text argument, without the trailing blanks of `character(n)`.
    pub(crate) fn text(&self, argument: usize) -> &'a str {
        let text = self.padded(argument);
        let column = self.columns.get(argument);
        if column.is_some_and(|column| column.is_padded) {
            text.trim_end_matches(' ')
        } else {
            text
        }
    }

    /// A text argument with its padding.
    pub(crate) fn padded(&self, argument: usize) -> &'a str {
        let Some(column) = self.columns.get(argument) else {
            return "";
        };
        let row = column.at(self.row);
        match &column.cells {
            Cells::Text(cells) => cells.value(row),
            Cells::LargeText(cells) => cells.value(row),
            Cells::TextView(cells) => cells.value(row),
            _ => "",
        }
    }

    /// A text argument, if it is present and not NULL.
    pub(crate) fn text_opt(&self, argument: usize) -> Option<&'a str> {
        (!self.is_null(argument)).then(|| self.text(argument))
    }

    pub(crate) fn int(&self, argument: usize) -> i64 {
        match self
            .columns
            .get(argument)
            .map(|column| (&column.cells, column.at(self.row)))
        {
            Some((Cells::Int(cells), row)) => cells.value(row),
            _ => 0,
        }
    }

    pub(crate) fn int_opt(&self, argument: usize) -> Option<i64> {
        (!self.is_null(argument)).then(|| self.int(argument))
    }

    #[expect(
        dead_code,
        reason = "the enum is complete, although some variants are unused"
    )]
    pub(crate) fn float(&self, argument: usize) -> f64 {
        match self
            .columns
            .get(argument)
            .map(|column| (&column.cells, column.at(self.row)))
        {
            Some((Cells::Float(cells), row)) => cells.value(row),
            _ => 0.0,
        }
    }

    pub(crate) fn bool(&self, argument: usize) -> bool {
        match self
            .columns
            .get(argument)
            .map(|column| (&column.cells, column.at(self.row)))
        {
            Some((Cells::Bool(cells), row)) => cells.value(row),
            _ => false,
        }
    }

    pub(crate) fn bytes(&self, argument: usize) -> &'a [u8] {
        match self
            .columns
            .get(argument)
            .map(|column| (&column.cells, column.at(self.row)))
        {
            Some((Cells::Bytes(cells), row)) => cells.value(row),
            _ => &[],
        }
    }

    /// Any argument in its output format; `None` for NULL.
    pub(crate) fn shown(&self, argument: usize) -> Result<Option<String>> {
        if self.is_null(argument) {
            return Ok(None);
        }
        let column = &self.columns[argument];
        match &column.cells {
            Cells::Text(_) | Cells::LargeText(_) | Cells::TextView(_) => {
                Ok(Some(self.padded(argument).to_owned()))
            }
            Cells::Int(cells) => Ok(Some(cells.value(column.at(self.row)).to_string())),
            Cells::Other(write) => {
                let mut out = bytes::BytesMut::new();
                let wrong = || DataFusionError::Execution("a value cannot be written".to_owned());
                write(column.at(self.row), &mut out).map_err(|_| wrong())?;
                String::from_utf8(out.to_vec())
                    .map(Some)
                    .map_err(|_| wrong())
            }
            _ => {
                let write = field_writer(&column.field, &column.array, false)?;
                let mut out = bytes::BytesMut::new();
                let wrong = || DataFusionError::Execution("a value cannot be written".to_owned());
                write(column.at(self.row), &mut out).map_err(|_| wrong())?;
                String::from_utf8(out.to_vec())
                    .map(Some)
                    .map_err(|_| wrong())
            }
        }
    }
}

/// Whether a form accepts an argument of this type.
pub(super) fn fits(take: Take, field: &Field) -> bool {
    let given = field.data_type();
    if *given == DataType::Null {
        return true;
    }
    match take {
        Take::Jsonb if marked_type(field) == Some("json") => false,
        Take::Any => true,
        Take::Text | Take::Json | Take::Jsonb => is_text(given),
        Take::Int => given.is_integer(),
        Take::Float => given.is_numeric(),
        Take::Bool => *given == DataType::Boolean,
        Take::Bytes => is_bytes(given) || is_text(given),
        Take::List => matches!(
            given,
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
        ),
    }
}
