//! One of PostgreSQL's scalar functions: its arguments, its result and how it computes a row.

use std::cell::OnceCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_pg::datatypes::PG_OID_ALIAS_KEY;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type, Int64Type};
use datafusion::common::plan_err;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::catalog::model::{Model, Relation};

/// The type that an argument is cast to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// A number, or a text of its digits.
    Number,
    Text,
    Bool,
    /// A number stays a number; anything else becomes text.
    NumberOrText,
}

/// The type of a function's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Give {
    Oid,
    Number,
    Text,
    Texts,
    Bool,
}

impl Give {
    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Oid => DataType::Int32,
            Self::Number => DataType::Int64,
            Self::Text => DataType::Utf8,
            Self::Texts => DataType::new_list(DataType::Utf8, true),
            Self::Bool => DataType::Boolean,
        }
    }
}

/// One row's arguments, and the session's configuration.
pub(super) struct Row<'a> {
    arguments: &'a [ArrayRef],
    row: usize,
    relations: &'a OnceCell<Vec<Relation>>,
    pub(super) options: &'a ConfigOptions,
}

impl Row<'_> {
    pub(super) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// The relations at the time when the first row of a batch asks for them.
    pub(super) fn relations(&self, model: &Model) -> &[Relation] {
        self.relations.get_or_init(|| model.relations())
    }

    pub(super) fn text(&self, index: usize) -> Option<&str> {
        let texts = self.arguments.get(index)?.as_string_opt::<i32>()?;
        texts.is_valid(self.row).then(|| texts.value(self.row))
    }

    pub(super) fn number(&self, index: usize) -> Option<i64> {
        let numbers = self.arguments.get(index)?.as_primitive_opt::<Int64Type>()?;
        numbers.is_valid(self.row).then(|| numbers.value(self.row))
    }

    /// An oid as a signed number: values above the signed range become negative.
    pub(super) fn oid(&self, index: usize) -> Option<i32> {
        let number = self.number(index)?;
        i32::try_from(number)
            .ok()
            .or_else(|| u32::try_from(number).ok().map(u32::cast_signed))
    }

    pub(super) fn bool(&self, index: usize) -> Option<bool> {
        let values = self.arguments.get(index)?.as_boolean_opt()?;
        values.is_valid(self.row).then(|| values.value(self.row))
    }
}

type Body = Arc<dyn Fn(&Row<'_>) -> Result<ScalarValue> + Send + Sync>;

/// See the file's header.
pub(super) struct Function {
    name: &'static str,
    takes: &'static [Take],
    /// Which arguments a call may leave out.
    optional: Optional,
    gives: Give,
    body: Body,
    signature: Signature,
}

/// Which arguments a call may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Optional {
    Last(usize),
    /// The first one, as in `has_…_privilege(user, …)`.
    First,
}

impl Function {
    pub(super) fn new(
        name: &'static str,
        takes: &'static [Take],
        gives: Give,
        body: impl Fn(&Row<'_>) -> Result<ScalarValue> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            takes,
            optional: Optional::Last(0),
            gives,
            body: Arc::new(body),
            signature: Signature::user_defined(Volatility::Stable),
        }
    }

    pub(super) fn optional(mut self, optional: Optional) -> Self {
        self.optional = optional;
        self
    }

    /// Makes the function volatile: it runs for each row, and never while a query is planned.
    pub(super) fn volatile(mut self) -> Self {
        self.signature = Signature::user_defined(Volatility::Volatile);
        self
    }

    pub(super) fn into_udf(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }

    /// The types that `given` arguments are cast to; `None` if the function does not take that
    /// many.
    fn taken(&self, given: usize) -> Option<Vec<Take>> {
        let all = self.takes.len();
        match self.optional {
            Optional::Last(left) => (all.saturating_sub(left)..=all)
                .contains(&given)
                .then(|| self.takes[..given].to_vec()),
            Optional::First if given == all => Some(self.takes.to_vec()),
            Optional::First if given + 1 == all => Some(self.takes[1..].to_vec()),
            Optional::First => None,
        }
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.gives.data_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let mut field = Field::new(self.name, self.gives.data_type(), true);
        if self.gives == Give::Oid {
            field.set_metadata([(PG_OID_ALIAS_KEY.to_owned(), "oid".to_owned())].into());
        }
        Ok(Arc::new(field))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let Some(takes) = self.taken(given.len()) else {
            return plan_err!("{}() does not take {} arguments", self.name, given.len());
        };
        Ok(takes
            .into_iter()
            .zip(given)
            .map(|(take, given)| match take {
                Take::Number => DataType::Int64,
                Take::Text => DataType::Utf8,
                Take::Bool => DataType::Boolean,
                Take::NumberOrText if given.is_integer() => DataType::Int64,
                Take::NumberOrText => DataType::Utf8,
            })
            .collect())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args
            .args
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if constant && self.signature.volatility != Volatility::Volatile {
            1
        } else {
            args.number_rows
        };
        let arguments = args
            .args
            .iter()
            .map(|argument| {
                let array = argument.to_array(rows)?;
                // Coercion leaves a bare NULL untyped.
                if array.data_type() == &DataType::Null {
                    return Ok(cast(&array, &DataType::Utf8)?);
                }
                Ok(array)
            })
            .collect::<Result<Vec<_>>>()?;
        let relations = OnceCell::new();
        let values = (0..rows)
            .map(|row| {
                (self.body)(&Row {
                    arguments: &arguments,
                    row,
                    relations: &relations,
                    options: &args.config_options,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        if values.is_empty() {
            let empty = datafusion::arrow::array::new_empty_array(&self.gives.data_type());
            return Ok(ColumnarValue::Array(empty));
        }
        if constant && rows == 1 {
            return values
                .into_iter()
                .next()
                .map(ColumnarValue::Scalar)
                .ok_or_else(|| DataFusionError::Internal("no row".to_owned()));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.name).finish()
    }
}

/// Within one session a name identifies one function.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

pub(super) fn text(value: Option<impl Into<String>>) -> ScalarValue {
    ScalarValue::Utf8(value.map(Into::into))
}

pub(super) fn oid(value: Option<i32>) -> ScalarValue {
    ScalarValue::Int32(value)
}

pub(super) fn boolean(value: Option<bool>) -> ScalarValue {
    ScalarValue::Boolean(value)
}

/// The oid and the text in the column `name` of every row that has both.
pub(super) fn oids_by_name<'a>(
    batch: &'a datafusion::arrow::record_batch::RecordBatch,
    name: &str,
) -> impl Iterator<Item = (i32, &'a str)> {
    let oids = batch
        .column_by_name("oid")
        .and_then(|column| column.as_primitive_opt::<Int32Type>());
    let names = batch
        .column_by_name(name)
        .and_then(|column| column.as_string_opt::<i32>());
    oids.zip(names)
        .into_iter()
        .flat_map(|(oids, names)| oids.iter().zip(names.iter()))
        .filter_map(|(oid, name)| Some((oid?, name?)))
}

/// The name, quoted if PostgreSQL requires quotes.
pub(super) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}
