//! SQL/JSON paths: `jsonb_path_query` and related functions.
//!
//! `steps.rs` follows a path, `predicates.rs` evaluates its conditions, `methods.rs` implements
//! the methods of values, `moment.rs` those of times, and `layout.rs` the ids of objects. The
//! language itself is parsed in `values/json_path`.

mod layout;
mod methods;
mod moment;
mod outcome;
mod predicates;
mod steps;

use std::cell::RefCell;
use std::rc::Rc;

use datafusion::error::Result;

use crate::PgError;
use crate::functions::regex::Regex;
use crate::functions::scalar::Take::{Bool, Jsonb, Text};
use crate::functions::scalar::{Body, Form, Function, Give, Row, Take, Value};
use crate::values::{Json, JsonPath};
use outcome::Stop;
use predicates::letters;
use steps::Evaluation;

const TAKES: &[Take] = &[Jsonb, Text, Jsonb, Bool];

pub(super) fn functions() -> Vec<Function> {
    let mut all = vec![];
    for zone in ["", "_tz"] {
        let mut add = |name: &str, gives, body: Body| {
            let form = Form::new(TAKES, gives, body).optional(2);
            all.push(Function::new(&format!("{name}{zone}"), vec![form]));
        };
        add("jsonb_path_exists", Give::Bool, |row| {
            exists(row, row.bool(3))
        });
        add("jsonb_path_match", Give::Bool, |row| {
            matches(row, row.bool(3))
        });
        add("jsonb_path_query_array", Give::Marked("jsonb"), |row| {
            let found = found(row, row.bool(3))?;
            Ok(Value::Text(Json::Array(found).to_string()))
        });
        add("jsonb_path_query_first", Give::Marked("jsonb"), |row| {
            let first = found(row, row.bool(3))?.into_iter().next();
            Ok(first.map(|first| first.to_string()).into())
        });
    }
    for name in [
        "jsonb_path_query_rows_array",
        "jsonb_path_query_tz_rows_array",
    ] {
        let form = Form::new(TAKES, Give::Marks("jsonb"), |row| {
            let found = found(row, row.bool(3))?.into_iter();
            let texts = found.map(|value| Some(value.to_string()));
            Ok(Value::Texts(texts.collect()))
        });
        all.push(Function::new(name, vec![form.optional(2)]));
    }
    let operator = |name: &str, body: Body| {
        let form = Form::new(&[Jsonb, Text], Give::Bool, body);
        Function::new(name, vec![form])
    };
    all.push(operator("jsonb_path_exists_opr", |row| exists(row, true)));
    all.push(operator("jsonb_path_match_opr", |row| matches(row, true)));
    all
}

/// A path with the arguments of its evaluation.
struct Question {
    path: Rc<JsonPath>,
    value: Json,
    variables: Json,
    with_zone: bool,
}

impl Question {
    fn of(row: &Row<'_>) -> Result<Self> {
        let variables = match row.text_opt(2) {
            Some(text) => Json::parse(text)?,
            None => Json::Object(vec![]),
        };
        if !matches!(variables, Json::Object(_)) {
            return Err(PgError::new("22023", "\"vars\" argument is not an object").into());
        }
        Ok(Self {
            path: parsed(row.text(1))?,
            value: Json::parse(row.text(0))?,
            variables: variables.normal(),
            with_zone: row.function().contains("_tz"),
        })
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation::new(&self.path, &self.value, &self.variables, self.with_zone)
    }
}

/// `None` for an error that is suppressed.
fn silenced<T>(result: Result<T, Stop>, is_silent: bool) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Soft(_)) if is_silent => Ok(None),
        Err(Stop::Soft(error) | Stop::Hard(error)) => Err(error.into()),
    }
}

fn exists(row: &Row<'_>, is_silent: bool) -> Result<Value> {
    let question = Question::of(row)?;
    let found = silenced(question.evaluation().exists(), is_silent)?;
    Ok(found.map_or(Value::Null, Value::Bool))
}

/// The values that a path finds; up to an error, if it is suppressed.
fn found(row: &Row<'_>, is_silent: bool) -> Result<Vec<Json>> {
    let question = Question::of(row)?;
    let mut found = vec![];
    let outcome = question.evaluation().query(&mut found);
    silenced(outcome, is_silent)?;
    Ok(found.into_iter().map(steps::Found::into_json).collect())
}

fn matches(row: &Row<'_>, is_silent: bool) -> Result<Value> {
    match found(row, is_silent)?.as_slice() {
        [Json::Bool(value)] => Ok(Value::Bool(*value)),
        [Json::Null] => Ok(Value::Null),
        _ if is_silent => Ok(Value::Null),
        _ => Err(PgError::new("22038", "single boolean result is expected").into()),
    }
}

thread_local! {
    /// The path parsed last.
    static LAST: RefCell<Option<(String, Rc<JsonPath>)>> = const { RefCell::new(None) };
}

/// Parses a path.
pub(crate) fn read(text: &str) -> Result<JsonPath, PgError> {
    JsonPath::parse(text, |pattern, flags| {
        Regex::cached(pattern, &letters(flags)).map(|_| ())
    })
}

fn parsed(text: &str) -> Result<Rc<JsonPath>, PgError> {
    LAST.with_borrow_mut(|last| match last {
        Some((known, path)) if known == text => Ok(Rc::clone(path)),
        _ => {
            let path = Rc::new(read(text)?);
            *last = Some((text.to_owned(), Rc::clone(&path)));
            Ok(path)
        }
    })
}
