//! Strings, patterns, JSON and ANY/ALL in PostgreSQL's syntax.
//!
//! | from | to |
//! |---|---|
//! | `substring(a from b for c)`, `trim(…)`, `overlay(…)`, `position(…)` | calls |
//! | `a LIKE b ESCAPE c`, `a ~~ b` | LIKE with a backslash, or `pg_like(a, b)` |
//! | `a IS NFD NORMALIZED` | `pg_is_normalized(a, 'NFD')` |
//! | `a SIMILAR TO b`, `a ~ b` | `textregexeq(a, …)` |
//! | `a op ANY (b)`, `a op ALL (b)` | `pg_any('op', a, b)`, `pg_all('op', a, b)` |
//! | `unnest(a)`, `regexp_matches(…)` and other sets | `unnest` of an array |
//! | `json_agg(a ORDER BY b)` | a function of `array_agg(a ORDER BY b)` |
//! | `B'101'`, `U&'…'`, `N'…'` | texts |
//! | `a[:2]` | `a[1:2]` |
//! | `ARRAY[a][1]`, which needs brackets around the array | an error |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Subscript, TrimWhereField, UnaryOperator, Value, ValueWithSpan, VisitorMut,
};

use super::sets::{array_of_set, holds_set, rows_of_set};
use crate::dialect::ast::{arguments, call, is_placeholder, last_word, literal_text, null, text};
use crate::functions::arrays::{ALL, ANY, FLAT};
use crate::functions::json::{COLLECT, ELEMENT, JOIN, PAIR, PAIRS};
use crate::functions::regex::like_escaped;
use crate::functions::time::SERIES;
use crate::functions::{FAIL, IS_NORMALIZED};
use crate::numbers::aggregation::ARRAY;

pub(in crate::dialect) struct Texts;

impl VisitorMut for Texts {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            // Must come before the rewrite of the inner literal.
            Expr::Cast {
                expr: inner,
                data_type,
                ..
            } => {
                if let Some(bits) = bits(inner)
                    && is_integer(data_type)
                    && let Ok(number) = i64::from_str_radix(&bits, 2)
                {
                    **inner = Expr::Value(Value::Number(number.to_string(), false).into());
                }
                if matches!(inner.as_ref(), Expr::Array(array) if array.elem.is_empty()) {
                    **inner = call("make_array", vec![]);
                }
            }
            Expr::CompoundFieldAccess { root, .. } if matches!(root.as_ref(), Expr::Array(_)) => {
                let message = "syntax error at or near \"[\"";
                *expr = call(FAIL, vec![text("42601"), text(message)]);
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                access_chain.iter_mut().for_each(bounded);
                // `(a[2:3])[1]` is an element of a slice, `a[2:3][1]` a slice in two dimensions.
                let mut within = root.as_ref();
                while let Expr::Nested(inner) = within {
                    within = inner.as_ref();
                }
                if matches!(root.as_ref(), Expr::Nested(_))
                    && matches!(within, Expr::CompoundFieldAccess { .. })
                {
                    let value = std::mem::replace(root.as_mut(), null());
                    **root = call("coalesce", vec![value]);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(other) = rewritten(expr) {
            *expr = other;
        }
        ControlFlow::Continue(())
    }
}

fn number(value: &str) -> Expr {
    Expr::Value(Value::Number(value.to_owned(), false).into())
}

/// Gives a slice both bounds.
fn bounded(access: &mut AccessExpr) {
    if let AccessExpr::Subscript(Subscript::Slice {
        lower_bound,
        upper_bound,
        ..
    }) = access
    {
        lower_bound.get_or_insert_with(|| number("1"));
        upper_bound.get_or_insert_with(|| number("2147483647"));
    }
}

fn is_integer(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int(_)
            | DataType::Integer(_)
            | DataType::Int4(_)
            | DataType::BigInt(_)
            | DataType::Int8(_)
    )
}

/// The digits of a bit string.
fn bits(expr: &Expr) -> Option<String> {
    let Expr::Value(value) = expr else {
        return None;
    };
    match &value.value {
        Value::SingleQuotedByteStringLiteral(bits) => bits
            .bytes()
            .all(|bit| matches!(bit, b'0' | b'1'))
            .then(|| bits.clone()),
        Value::HexStringLiteral(digits) => {
            let bits = digits
                .chars()
                .map(|digit| Some(format!("{:04b}", digit.to_digit(16)?)));
            bits.collect()
        }
        _ => None,
    }
}

fn rewritten(expr: &mut Expr) -> Option<Expr> {
    let take = |inner: &mut Box<Expr>| std::mem::replace(&mut **inner, null());
    Some(match expr {
        Expr::Value(value) => match &value.value {
            Value::UnicodeStringLiteral(plain) | Value::NationalStringLiteral(plain) => text(plain),
            _ => text(&bits(expr)?),
        },
        Expr::Substring {
            expr,
            substring_from,
            substring_for,
            shorthand,
            ..
        } => {
            let mut arguments = vec![take(expr)];
            match substring_from {
                Some(from) => arguments.push(take(from)),
                None => arguments.push(number("1")),
            }
            if let Some(length) = substring_for {
                arguments.push(take(length));
            }
            // Only `substring` accepts patterns.
            call(if *shorthand { "substr" } else { "substring" }, arguments)
        }
        Expr::Trim {
            trim_where,
            trim_what,
            expr,
            trim_characters,
        } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            };
            let mut arguments = vec![take(expr)];
            arguments.extend(trim_what.as_mut().map(take));
            arguments.extend(trim_characters.take().into_iter().flatten());
            call(name, arguments)
        }
        Expr::Overlay {
            expr,
            overlay_what,
            overlay_from,
            overlay_for,
        } => {
            let mut arguments = vec![take(expr), take(overlay_what), take(overlay_from)];
            arguments.extend(overlay_for.as_mut().map(take));
            call("overlay", arguments)
        }
        Expr::IsNormalized {
            expr,
            form,
            negated,
        } => {
            let form = form.map_or_else(|| "nfc".to_owned(), |form| form.to_string());
            negate(*negated, call(IS_NORMALIZED, vec![take(expr), text(&form)]))
        }
        Expr::Position { expr, r#in } => call("position", vec![take(r#in), take(expr)]),
        Expr::Like {
            negated,
            any: false,
            expr,
            pattern,
            escape_char,
        } => like(
            *negated,
            false,
            take(expr),
            take(pattern),
            escape_char.take(),
        ),
        Expr::ILike {
            negated,
            any: false,
            expr,
            pattern,
            escape_char,
        } => like(
            *negated,
            true,
            take(expr),
            take(pattern),
            escape_char.take(),
        ),
        Expr::SimilarTo {
            negated,
            expr,
            pattern,
            escape_char,
        } => {
            let mut arguments = vec![take(pattern)];
            arguments.extend(escape_char.take().map(Expr::Value));
            let pattern = call("similar_to_escape", arguments);
            let name = if *negated {
                "textregexne"
            } else {
                "textregexeq"
            };
            call(name, vec![take(expr), pattern])
        }
        Expr::BinaryOp { left, op, right } => {
            let name = match op {
                BinaryOperator::PGRegexMatch => "textregexeq",
                BinaryOperator::PGRegexIMatch => "texticregexeq",
                BinaryOperator::PGRegexNotMatch => "textregexne",
                BinaryOperator::PGRegexNotIMatch => "texticregexne",
                BinaryOperator::PGStartsWith => "starts_with",
                BinaryOperator::PGLikeMatch => {
                    return Some(like(false, false, take(left), take(right), None));
                }
                BinaryOperator::PGILikeMatch => {
                    return Some(like(false, true, take(left), take(right), None));
                }
                BinaryOperator::PGNotLikeMatch => {
                    return Some(like(true, false, take(left), take(right), None));
                }
                BinaryOperator::PGNotILikeMatch => {
                    return Some(like(true, true, take(left), take(right), None));
                }
                _ => return None,
            };
            call(name, vec![typed(take(left)), typed(take(right))])
        }
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } if !is_subquery(right) => call(
            ANY,
            vec![text(&compare_op.to_string()), take(left), take(right)],
        ),
        Expr::AllOp {
            left,
            compare_op,
            right,
        } if !is_subquery(right) => call(
            ALL,
            vec![text(&compare_op.to_string()), take(left), take(right)],
        ),
        Expr::Like {
            negated,
            any: true,
            expr,
            pattern,
            ..
        } if !is_subquery(pattern) => call(
            ANY,
            vec![
                text(like_operator(*negated, false)),
                take(expr),
                take(pattern),
            ],
        ),
        Expr::ILike {
            negated,
            any: true,
            expr,
            pattern,
            ..
        } if !is_subquery(pattern) => call(
            ANY,
            vec![
                text(like_operator(*negated, true)),
                take(expr),
                take(pattern),
            ],
        ),
        Expr::Function(function) => return function_call(function),
        // DataFusion's array literals do not resolve columns of outer queries; function calls do.
        Expr::Array(array) if array.elem.iter().any(super::sets::has_columns) => {
            call(ARRAY, std::mem::take(&mut array.elem))
        }
        Expr::Array(array) if array.elem.is_empty() && array.named => {
            let message = "cannot determine type of empty array";
            call(FAIL, vec![text("42P18"), text(message)])
        }
        _ => return None,
    })
}

fn is_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_subquery(inner),
        other => matches!(other, Expr::Subquery(_)),
    }
}

/// A parameter beside a pattern is a text.
fn typed(expr: Expr) -> Expr {
    if !is_placeholder(&expr) {
        return expr;
    }
    Expr::Cast {
        kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Text,
        array: false,
        format: None,
    }
}

fn negate(negated: bool, expr: Expr) -> Expr {
    if !negated {
        return expr;
    }
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(expr))),
    }
}

fn like_operator(negated: bool, any_case: bool) -> &'static str {
    match (negated, any_case) {
        (false, false) => "~~",
        (false, true) => "~~*",
        (true, false) => "!~~",
        (true, true) => "!~~*",
    }
}

/// LIKE or ILIKE. DataFusion's version needs patterns in which each backslash escapes a character.
fn like(
    negated: bool,
    any_case: bool,
    expr: Expr,
    pattern: Expr,
    escape: Option<ValueWithSpan>,
) -> Expr {
    let mut pattern = pattern;
    // The parser reads ALL as a function.
    if let Expr::Function(function) = &pattern
        && let Some(quantifier) = last_word(&function.name)
        && let Some([array]) = arguments(function).as_deref()
        && let name @ (ANY | ALL) = match quantifier.as_str() {
            "all" => ALL,
            "any" | "some" => ANY,
            _ => "",
        }
    {
        return call(
            name,
            vec![
                text(like_operator(negated, any_case)),
                expr,
                (*array).clone(),
            ],
        );
    }
    if let Some(escape) = escape {
        let escape = Expr::Value(escape);
        let known = (literal_text(&pattern), literal_text(&escape));
        pattern = match known {
            (Some(plain), Some(escape)) if let Ok(escaped) = like_escaped(plain, escape) => {
                text(&escaped)
            }
            _ => call("like_escape", vec![pattern, escape]),
        };
    }
    let as_datafusion = match literal_text(&pattern) {
        Some(pattern) => ends_plain(pattern) && (!any_case || pattern.is_ascii()),
        None => is_placeholder(&pattern),
    };
    if !as_datafusion {
        let name = if any_case { "pg_ilike" } else { "pg_like" };
        return negate(negated, call(name, vec![expr, pattern]));
    }
    let (expr, pattern) = (Box::new(expr), Box::new(pattern));
    if any_case {
        return Expr::ILike {
            negated,
            any: false,
            expr,
            pattern,
            escape_char: None,
        };
    }
    Expr::Like {
        negated,
        any: false,
        expr,
        pattern,
        escape_char: None,
    }
}

/// Whether the pattern does not end with a backslash that escapes nothing.
fn ends_plain(pattern: &str) -> bool {
    let behind = pattern.len() - pattern.trim_end_matches('\\').len();
    behind.is_multiple_of(2)
}

fn function_call(function: &mut Function) -> Option<Expr> {
    let name = last_word(&function.name)?;
    match name.as_str() {
        "json_agg" | "jsonb_agg" => Some(collected(function, name.trim_end_matches("_agg"))),
        "json_object_agg" | "jsonb_object_agg" => {
            let pair = call(PAIR, arguments(function)?.into_iter().cloned().collect());
            if let FunctionArguments::List(list) = &mut function.args {
                list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(pair))];
            }
            let pg_type = name.trim_end_matches("_object_agg");
            let function = renamed(function, "array_agg");
            Some(call(&format!("{PAIRS}{pg_type}"), vec![function]))
        }
        "unnest" => {
            let [array] = arguments(function)?[..] else {
                return None;
            };
            if let Expr::Function(inner) = array
                && last_word(&inner.name).is_some_and(|name| name == FLAT || holds_set(&name))
            {
                return None;
            }
            Some(rows_of_set("unnest", call(FLAT, vec![array.clone()])))
        }
        // The normal form is an identifier.
        "normalize" => {
            let [value, Expr::Identifier(form)] = arguments(function)?[..] else {
                return None;
            };
            let known = ["nfc", "nfd", "nfkc", "nfkd"];
            let word = form.value.to_lowercase();
            if form.quote_style.is_some() || !known.contains(&word.as_str()) {
                let message = format!("syntax error at or near \"{form}\"");
                return Some(call(FAIL, vec![text("42601"), text(&message)]));
            }
            Some(call("normalize", vec![value.clone(), text(&word)]))
        }
        // DataFusion names `count(*)` like `count(1)`, and refuses both in one list.
        "count" => {
            if let [Expr::Value(value)] = arguments(function)?[..]
                && matches!(value.value, Value::Number(..))
                && let FunctionArguments::List(list) = &mut function.args
                && list.duplicate_treatment.is_none()
            {
                list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
            }
            None
        }
        "generate_series" => {
            let given = arguments(function)?.into_iter().cloned().collect();
            Some(call("unnest", vec![call(SERIES, given)]))
        }
        "array_fill" => {
            let given = arguments(function)?;
            let [_, Expr::Array(lengths), ..] = given[..] else {
                return None;
            };
            let filled = match lengths.elem.len() {
                2 => "array_fill_2",
                3 => "array_fill_3",
                _ => return None,
            };
            Some(call(filled, given.into_iter().cloned().collect()))
        }
        _ => {
            let array = array_of_set(&name)?;
            let given = arguments(function)?.into_iter().cloned().collect();
            Some(rows_of_set(&name, call(&array, given)))
        }
    }
}

fn renamed(function: &mut Function, name: &str) -> Expr {
    let mut renamed = function.clone();
    if let Expr::Function(plain) = call(name, vec![]) {
        renamed.name = plain.name;
    }
    Expr::Function(renamed)
}

fn collected(function: &mut Function, pg_type: &str) -> Expr {
    let mut made = COLLECT;
    if let FunctionArguments::List(list) = &mut function.args
        && list.duplicate_treatment.is_none()
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_mut_slice()
    {
        *value = call(ELEMENT, vec![value.clone()]);
        made = JOIN;
    }
    let array = renamed(function, "array_agg");
    call(&format!("{made}{pg_type}"), vec![array])
}
