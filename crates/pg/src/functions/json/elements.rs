//! `array_remove` and `array_replace` of arrays of `jsonb`, whose elements are equal if their keys
//! (`key.rs`) are: `1` and `1.0` are, though their texts differ.

use std::sync::{Arc, LazyLock};

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ScalarUDF};

use super::key::{key, texts};
use crate::functions::scalar::Take::{Jsonb, List};
use crate::functions::scalar::{Form, Function, Give, Row, Value};

const REMOVE: &str = "pg_jsonb_array_remove";
const REPLACE: &str = "pg_jsonb_array_replace";

static REMOVE_UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(remove().udf()));
static REPLACE_UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(replace().udf()));

/// `array_remove(…)`, or else `array_replace(…)`, of an array of `jsonb`.
pub(crate) fn jsonb_elements(removes: bool, args: Vec<Expr>) -> Expr {
    let function = if removes { &REMOVE_UDF } else { &REPLACE_UDF };
    function.call(args)
}

pub(super) fn functions() -> Vec<Function> {
    vec![remove(), replace()]
}

fn remove() -> Function {
    let form = Form::new(&[List, Jsonb], Give::Marks("jsonb"), removed);
    Function::new(REMOVE, vec![form.called()])
}

fn replace() -> Function {
    let form = Form::new(&[List, Jsonb, Jsonb], Give::Marks("jsonb"), replaced);
    Function::new(REPLACE, vec![form.called()])
}

fn removed(row: &Row<'_>) -> Result<Value> {
    if row.is_null(0) {
        return Ok(Value::Null);
    }
    let gone = row.text_opt(1).map(key).transpose()?;
    let mut kept = vec![];
    for element in texts(row)? {
        if element.as_deref().map(key).transpose()? != gone {
            kept.push(element);
        }
    }
    Ok(Value::Texts(kept))
}

fn replaced(row: &Row<'_>) -> Result<Value> {
    if row.is_null(0) {
        return Ok(Value::Null);
    }
    let old = row.text_opt(1).map(key).transpose()?;
    let new = row.text_opt(2).map(str::to_owned);
    let mut all = texts(row)?;
    for element in &mut all {
        if element.as_deref().map(key).transpose()? == old {
            element.clone_from(&new);
        }
    }
    Ok(Value::Texts(all))
}
