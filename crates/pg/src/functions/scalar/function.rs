//! A function with several forms, as a DataFusion UDF.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use postgres_types::Type;

use super::column::{Column, Row, fits};
use super::untyped::untyped_arrays;
use super::value::{Give, Value, array};
use super::{Take, is_text, type_name};
use crate::PgError;
use crate::functions::{first_value, marked_like};
use crate::output::pg_type;
use crate::resolve::{self, Oid, UNKNOWN, Undecided};

/// Computes the value of one row.
pub(crate) type Body = fn(&Row<'_>) -> Result<Value>;

/// Computes the text of one row, which may borrow from an argument.
pub(crate) type TextBody = for<'a> fn(&Row<'a>) -> Result<Cow<'a, str>>;

/// Computes the boolean of one row.
pub(crate) type TestBody = fn(&Row<'_>) -> Result<bool>;

/// How a form computes the value of one row.
#[derive(Debug, Clone, Copy)]
enum Computes {
    Value(Body),
    /// Texts are appended to the result without a `String` of their own.
    Text(TextBody),
    Test(TestBody),
}

/// What a form returns for NULL arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// A NULL argument gives NULL.
    Strict,
    /// The body decides.
    Called,
}

/// A form of a function: the types of its arguments and how it is computed.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    takes: &'static [Take],
    /// The number of arguments that may be omitted, counted from the last.
    optional: usize,
    /// Whether the last argument may be repeated.
    repeated: bool,
    gives: Give,
    nulls: Nulls,
    body: Computes,
}

impl Form {
    /// A strict form.
    pub(crate) fn new(takes: &'static [Take], gives: Give, body: Body) -> Self {
        Self::computed(takes, gives, Computes::Value(body))
    }

    /// A strict form that returns a text.
    pub(crate) fn text(takes: &'static [Take], body: TextBody) -> Self {
        Self::computed(takes, Give::Text, Computes::Text(body))
    }

    /// A strict form that returns a boolean.
    pub(crate) fn test(takes: &'static [Take], body: TestBody) -> Self {
        Self::computed(takes, Give::Bool, Computes::Test(body))
    }

    fn computed(takes: &'static [Take], gives: Give, body: Computes) -> Self {
        Self {
            takes,
            optional: 0,
            repeated: false,
            gives,
            nulls: Nulls::Strict,
            body,
        }
    }

    pub(crate) fn optional(mut self, optional: usize) -> Self {
        self.optional = optional;
        self
    }

    /// Allows the last argument to be repeated or omitted.
    pub(crate) fn repeated(mut self) -> Self {
        self.repeated = true;
        self.optional = 1;
        self
    }

    pub(crate) fn called(mut self) -> Self {
        self.nulls = Nulls::Called;
        self
    }

    fn take(&self, argument: usize) -> Take {
        self.takes[argument.min(self.takes.len().saturating_sub(1))]
    }

    /// The values of the first `rows` rows.
    fn compute(
        &self,
        function: &str,
        columns: &[Column],
        rows: usize,
        field: &FieldRef,
    ) -> Result<ArrayRef> {
        let strict = self.nulls == Nulls::Strict;
        let nullable = columns.iter().filter(|column| strict && column.has_nulls());
        let nullable: Vec<_> = nullable.collect();
        let kept = OnceCell::new();
        let rows = (0..rows).map(|row| {
            let is_null = nullable.iter().any(|column| column.is_null(row));
            (!is_null).then_some(Row {
                columns,
                row,
                function,
                kept: &kept,
            })
        });
        match self.body {
            Computes::Value(body) => {
                let values = rows.map(|row| row.map_or(Ok(Value::Null), |row| body(&row)));
                array(values.collect::<Result<_>>()?, field)
            }
            Computes::Test(body) => {
                let tests = rows.map(|row| row.map(|row| body(&row)).transpose());
                let tests: BooleanArray = tests.collect::<Result<_>>()?;
                Ok(Arc::new(tests))
            }
            Computes::Text(body) => {
                let mut texts = StringBuilder::with_capacity(rows.len(), 0);
                for row in rows {
                    match row {
                        Some(row) => texts.append_value(body(&row)?),
                        None => texts.append_null(),
                    }
                }
                Ok(Arc::new(texts.finish()))
            }
        }
    }

    fn takes(&self, given: &[FieldRef]) -> bool {
        let most = if self.repeated {
            usize::MAX
        } else {
            self.takes.len()
        };
        given.len() + self.optional >= self.takes.len()
            && given.len() <= most
            && given
                .iter()
                .enumerate()
                .all(|(at, given)| fits(self.take(at), given))
    }
}

/// A function of `PostgreSQL`'s.
#[derive(Debug)]
pub(crate) struct Function {
    name: String,
    forms: Vec<Form>,
    signature: Signature,
    simplified: Option<Simplify>,
}

/// Returns an expression that replaces a call, if there is one.
pub(crate) type Simplify = fn(&[Expr], &SimplifyContext) -> Result<Option<Expr>>;

impl Function {
    pub(crate) fn new(name: &str, forms: Vec<Form>) -> Self {
        Self {
            name: name.to_owned(),
            forms,
            signature: Signature::user_defined(Volatility::Immutable),
            simplified: None,
        }
    }

    pub(crate) fn simplified(mut self, simplified: Simplify) -> Self {
        self.simplified = Some(simplified);
        self
    }

    pub(crate) fn udf(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }

    fn form(&self, given: &[FieldRef]) -> Result<&Form> {
        let form = self.forms.iter().find(|form| form.takes(given));
        let names = given.iter().map(|field| type_name(field));
        form.ok_or_else(|| self.undefined(names).into())
    }

    fn undefined(&self, names: impl Iterator<Item = String>) -> PgError {
        let names: Vec<_> = names.collect();
        let signature = format!("function {}({})", self.name, names.join(", "));
        PgError::undefined_function(&signature)
    }

    /// Whether a call is NULL without being evaluated, as decided by `evaluate_function` in
    /// PostgreSQL's `optimizer/util/clauses.c`.
    fn is_null_of(&self, args: &[Expr]) -> bool {
        let is_null = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if value.is_null());
        let is_constant = |arg: &Expr| matches!(arg, Expr::Literal(..));
        self.forms.iter().all(|form| form.nulls == Nulls::Strict)
            && args.iter().any(is_null)
            && !args.iter().all(is_constant)
    }

    /// Refuses calls that a form accepts but PostgreSQL does not, such as `left(text, bigint)`.
    fn check(&self, args: &ReturnFieldArgs) -> Result<(), PgError> {
        // The list of PostgreSQL's functions lacks those without arguments.
        if args.arg_fields.is_empty() || !resolve::is_function(&self.name) {
            return Ok(());
        }
        let given = args.arg_fields.iter().zip(args.scalar_arguments);
        let given: Vec<_> = given.map(|(field, value)| oid(field, *value)).collect();
        if resolve::function(&self.name, &given) != Err(Undecided::None) {
            return Ok(());
        }
        let names = args.arg_fields.iter().zip(given);
        let names = names.map(|(field, oid)| match oid {
            UNKNOWN => "unknown".to_owned(),
            _ => type_name(field),
        });
        Err(self.undefined(names))
    }
}

/// The PostgreSQL type of an argument.
fn oid(field: &Field, value: Option<&ScalarValue>) -> Oid {
    match value {
        Some(ScalarValue::Int64(Some(value))) if i32::try_from(*value).is_ok() => Type::INT4.oid(),
        Some(value) if is_text(&value.data_type()) && field.metadata().is_empty() => UNKNOWN,
        _ => match field.data_type() {
            DataType::Null => UNKNOWN,
            // An empty array matches an array of any type.
            DataType::List(element) if element.data_type().is_null() => UNKNOWN,
            _ => pg_type(field).oid(),
        },
    }
}

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

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{} needs its arguments' fields", self.name)
    }

    /// Accepts every type, because DataFusion replaces an error raised here with its own. The form
    /// is chosen, or refused, in `return_field_from_args`.
    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_untyped = |at: usize| {
            let field = &args.arg_fields[at];
            is_text(field.data_type()) && oid(field, args.scalar_arguments[at]) == UNKNOWN
        };
        let mut given = Cow::Borrowed(args.arg_fields);
        // `rules/semantics.rs` casts these texts.
        for (at, field) in untyped_arrays(&self.name, args.arg_fields, is_untyped) {
            given.to_mut()[at] = field;
        }
        let form = self.form(&given)?;
        self.check(&args)?;
        form.gives.field(&self.name, &given)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let found = match self.simplified {
            _ if self.is_null_of(&args) => {
                let given = args.iter().map(|arg| Ok(arg.to_field(info.schema())?.1));
                let given: Vec<FieldRef> = given.collect::<Result<_>>()?;
                let field = self.form(&given)?.gives.field(&self.name, &given)?;
                let null = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
                Some(marked_like(null, &field))
            }
            Some(simplified) => simplified(&args, info)?,
            None => None,
        };
        Ok(match found {
            Some(expr) => ExprSimplifyResult::Simplified(expr),
            None => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let form = self.form(&args.arg_fields)?;
        let settings = args.config_options.as_ref();
        let columns = args
            .args
            .iter()
            .zip(&args.arg_fields)
            .enumerate()
            .map(|(at, (value, field))| {
                let take = form.take(at);
                // The text of a timestamp is in the session's zone, an interval's in its style.
                let is_shown = matches!(take, Take::Any | Take::List)
                    && matches!(form.gives, Give::Text | Give::Marked(_));
                Column::new(value, field, take, is_shown.then_some(settings))
            })
            .collect::<Result<Vec<_>>>()?;
        let is_constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let constant = !columns.is_empty() && args.args.iter().all(is_constant);
        let rows = if constant { 1 } else { args.number_rows };
        let array = form.compute(&self.name, &columns, rows, &args.return_field)?;
        if constant {
            return Ok(ColumnarValue::Scalar(first_value(&array)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}
