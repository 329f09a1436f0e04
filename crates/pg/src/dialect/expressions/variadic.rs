//! VARIADIC: an array in place of the last arguments of a call.
//!
//! | from | to |
//! |---|---|
//! | `concat(VARIADIC a)` | `array_to_string(a, '')` |
//! | `concat_ws(s, VARIADIC a)` | `array_to_string(a, s)` |
//! | `format(t, VARIADIC a)` | `pg_format_array(t, a)` |
//! | `json_extract_path(j, VARIADIC a)`, also of jsonb | `j #> a` |
//! | `json_extract_path_text(j, VARIADIC a)`, also of jsonb | `j #>> a` |
//! | `num_nulls(VARIADIC ARRAY[a, b])` and others that take any values | `num_nulls(a, b)` |
//!
//! `lexical/phrases.rs` writes `VARIADIC a` as a call of [`VARIADIC`].
//! Not here: other functions with such arguments, which are refused (0A000).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitorMut};

use crate::dialect::ast::{arguments, call, last_word, literal_text, text};
use crate::dialect::lexical::VARIADIC;
use crate::functions::FAIL;
use crate::functions::text::FORMAT_ARRAY;

pub(in crate::dialect) struct Variadic;

impl VisitorMut for Variadic {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = &*expr
            && let Some(name) = last_word(&function.name)
            && let Some(given) = arguments(function)
            && let Some((last, first)) = given.split_last()
            && let Some(array) = array_of(last)
        {
            let first: Vec<Expr> = first.iter().map(|argument| (*argument).clone()).collect();
            *expr = replaced(&name, first, array.clone());
        }
        ControlFlow::Continue(())
    }
}

/// The array behind the word.
fn array_of(argument: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = argument else {
        return None;
    };
    match arguments(function)?[..] {
        [array] if last_word(&function.name)? == VARIADIC => Some(array),
        _ => None,
    }
}

fn replaced(name: &str, first: Vec<Expr>, array: Expr) -> Expr {
    let takes_any = matches!(name, "concat" | "concat_ws" | "format");
    if takes_any && is_untyped(&array) {
        let message = "VARIADIC argument must be an array";
        return call(FAIL, vec![text("42804"), text(message)]);
    }
    if let Expr::Array(elements) = &array
        && first.is_empty()
        && TAKE_VALUES.contains(&name)
        && !elements
            .elem
            .iter()
            .any(|element| matches!(element, Expr::Array(_)))
    {
        return call(name, elements.elem.clone());
    }
    match (name, <[Expr; 1]>::try_from(first)) {
        ("concat", Err(none)) if none.is_empty() => call("array_to_string", vec![array, text("")]),
        ("concat_ws", Ok([separator])) => call("array_to_string", vec![array, separator]),
        ("format", Ok([template])) => call(FORMAT_ARRAY, vec![template, array]),
        ("json_extract_path" | "jsonb_extract_path", Ok([json])) => {
            path(json, BinaryOperator::HashArrow, array)
        }
        ("json_extract_path_text" | "jsonb_extract_path_text", Ok([json])) => {
            path(json, BinaryOperator::HashLongArrow, array)
        }
        _ => {
            let message = format!("VARIADIC is not supported in {name}() with these arguments");
            call(FAIL, vec![text("0A000"), text(&message)])
        }
    }
}

/// Functions of any number of values of any types.
const TAKE_VALUES: [&str; 6] = [
    "json_build_array",
    "json_build_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "num_nonnulls",
    "num_nulls",
];

fn path(json: Expr, op: BinaryOperator, steps: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(json))),
        op,
        right: Box::new(Expr::Nested(Box::new(steps))),
    }))
}

/// Whether this is a constant without a type, which is no array.
fn is_untyped(array: &Expr) -> bool {
    match array {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(value) if matches!(value.value, Value::Null) => true,
        other => literal_text(other).is_some(),
    }
}
