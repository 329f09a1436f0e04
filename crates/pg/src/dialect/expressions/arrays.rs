//! PostgreSQL's array syntax: texts in braces, and arrays collected from subqueries.
//!
//! | from | to |
//! |---|---|
//! | `'{1,NULL}'::int[]` | `ARRAY['1', NULL]::int[]` |
//! | `x = ANY('{…}')`, `x = ANY($1)` | `x = ANY(as_array(…, x))`, which takes the type of `x` |
//! | `x = ANY('{{…},{…}}')` | the same with the elements of all dimensions |
//! | `x LIKE ANY('{…}')`, `x LIKE ALL('{…}')` | the same with `as_array(…, '')` |
//! | `ARRAY(SELECT e FROM …)` | `pg_or_empty((SELECT array_agg(e) FROM …))` |
//! | `generate_subscripts(a, 1)` | `unnest(subscripts(a, 1))` |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, OrderByKind, Query, SelectItem, SetExpr, Statement, TableFactor, Value,
    VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::dialect::ast::{
    aggregates, arguments, boolean, call, is_placeholder, last_word, literal_text, null, text,
};
use crate::dialect::names::folded;
use crate::dialect::{Grammar, SUBSCRIPTS};
use crate::visits::{Walk, visit_expressions};

pub(in crate::dialect) struct Arrays;

impl VisitorMut for Arrays {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast {
                expr: inner,
                data_type: DataType::Array(element),
                ..
            } if !matches!(element, ArrayElemTypeDef::None) => {
                if let Some(array) = literal_text(inner).and_then(literal) {
                    **inner = array;
                }
            }
            Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. }
                if (is_placeholder(right) || literal_text(right).is_some()) && !has_any(left) =>
            {
                let array = flat(std::mem::replace(&mut **right, null()));
                **right = call(AS_ARRAY, vec![array, left.as_ref().clone()]);
            }
            Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } => {
                let array = if *any {
                    Some(&mut **pattern)
                } else {
                    quantified(pattern)
                };
                if let Some(array) = array.filter(|array| is_open(array)) {
                    let patterns = flat(std::mem::replace(array, null()));
                    *array = call(AS_ARRAY, vec![patterns, text("")]);
                }
            }
            Expr::Function(function) => match last_word(&function.name).as_deref() {
                Some("array") => {
                    if let FunctionArguments::Subquery(query) = &function.args
                        && let Some(made) = collected(query)
                    {
                        *expr = made;
                    }
                }
                Some("generate_subscripts") => {
                    if let Some([array, dimension]) = arguments(function).as_deref() {
                        let arguments = vec![(*array).clone(), (*dimension).clone()];
                        let subscripts = call(SUBSCRIPTS, arguments);
                        *expr = call("unnest", vec![subscripts]);
                    }
                }
                _ => {}
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The array of a pattern `ALL (array)`, which the parser reads as a function.
fn quantified(pattern: &mut Expr) -> Option<&mut Expr> {
    let Expr::Function(function) = pattern else {
        return None;
    };
    let word = last_word(&function.name)?;
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]
            if matches!(word.as_str(), "all" | "any" | "some") =>
        {
            Some(array)
        }
        _ => None,
    }
}

/// Whether an array is an untyped constant or a parameter.
fn is_open(array: &Expr) -> bool {
    match array {
        Expr::Nested(inner) => is_open(inner),
        other => is_placeholder(other) || literal_text(other).is_some(),
    }
}

/// Whether an expression contains ANY or ALL. The rewrite writes an expression that is compared
/// with an array twice, so nested ones would double the size at each level.
fn has_any(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |inner| match inner {
        Expr::AnyOp { .. } | Expr::AllOp { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The array of a subquery's rows; empty if there are no rows.
fn collected(query: &Query) -> Option<Expr> {
    plainly_collected(query).or_else(|| collected_in_order(query))
}

/// See [`collected`]; works for any subquery of one column.
fn collected_in_order(query: &Query) -> Option<Expr> {
    let mut ordered = query.clone();
    if ordered.order_by.is_some() && ordered.limit_clause.is_none() && ordered.fetch.is_none() {
        // DataFusion drops the ORDER BY of a subquery without a limit.
        let Statement::Query(limited) = one_statement("SELECT 1 LIMIT 9223372036854775807")? else {
            return None;
        };
        ordered.limit_clause = limited.limit_clause;
    }
    let made = "SELECT pg_or_empty((SELECT array_agg(v ORDER BY n) FROM (SELECT v, row_number() \
                OVER () AS n FROM (SELECT 1) AS q(v)) AS p))";
    let Statement::Query(mut made) = one_statement(made)? else {
        return None;
    };
    let mut place = Some(ordered);
    let _ = made.walk(&mut Inner { place: &mut place });
    match made.body.as_mut() {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) if place.is_none() => Some(expr.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Replaces the subquery named `q` with a query.
struct Inner<'a> {
    place: &'a mut Option<Query>,
}

impl VisitorMut for Inner<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = factor
            && alias.name.value == "q"
            && let Some(query) = self.place.take()
        {
            **subquery = query;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn one_statement(sql: &str) -> Option<Statement> {
    let parsed = Parser::parse_sql(&Grammar::new(), sql).ok()?;
    parsed.into_iter().next()
}

fn plainly_collected(query: &Query) -> Option<Expr> {
    let mut query = query.clone();
    let ordered = query.order_by.take();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let plain = query.limit_clause.is_none() && query.fetch.is_none() && select.distinct.is_none();
    let [item] = select.projection.as_mut_slice() else {
        return None;
    };
    let (value, name) = match &*item {
        SelectItem::UnnamedExpr(value) => (value, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(folded(alias))),
        _ => return None,
    };
    let is_set = |function: &str| {
        matches!(
            function,
            "unnest" | "generate_series" | "generate_subscripts"
        ) || super::sets::array_of_set(function).is_some()
    };
    // Set-returning functions and windows cannot stand inside an aggregate.
    let apart = visit_expressions(value, |inner| match inner {
        Expr::Function(function)
            if function.over.is_some()
                || last_word(&function.name).is_some_and(|name| is_set(&name)) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    let grouped = aggregates(value)
        || select.having.is_some()
        || !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !plain || grouped || apart.is_break() {
        return None;
    }
    let value = value.clone();
    let mut aggregate = call("array_agg", vec![value.clone()]);
    // The FILTER distinguishes this call from an `array_agg` of the statement
    // (`analysis/checks.rs`).
    if let Expr::Function(function) = &mut aggregate {
        function.filter = Some(Box::new(boolean(true)));
    }
    if let (Some(order), Expr::Function(function)) = (ordered, &mut aggregate)
        && let OrderByKind::Expressions(mut keys) = order.kind
        && let FunctionArguments::List(list) = &mut function.args
    {
        for key in &mut keys {
            let is_value = match &key.expr {
                Expr::Value(number) => matches!(number.value, Value::Number(..)),
                Expr::Identifier(word) => Some(folded(word)) == name,
                _ => false,
            };
            if is_value {
                key.expr = value.clone();
            }
        }
        let by = datafusion::sql::sqlparser::ast::FunctionArgumentClause::OrderBy(keys);
        list.clauses.push(by);
    }
    *item = SelectItem::UnnamedExpr(aggregate);
    let rows = Expr::Subquery(Box::new(query));
    Some(call(OR_EMPTY, vec![rows]))
}

/// The `ARRAY[…]` for an array written as text; `None` if the text is not an array, or its inner
/// arrays differ in length or are empty, which PostgreSQL 15 refuses.
fn literal(array: &str) -> Option<Expr> {
    let elem = match elements(array) {
        Some(elements) => elements
            .into_iter()
            .map(|element| element.map_or_else(null, |element| text(&element)))
            .collect::<Vec<_>>(),
        None => nested(array)?
            .into_iter()
            .map(|inner| literal(inner).filter(|inner| matches!(inner, Expr::Array(_))))
            .collect::<Option<Vec<_>>>()?,
    };
    if elem.is_empty() {
        return Some(call("make_array", vec![]));
    }
    let mut inner = elem.iter().map(lengths);
    let first = inner.next();
    if inner.any(|other| Some(other) != first) {
        return None;
    }
    Some(Expr::Array(Array { elem, named: true }))
}

/// An array that is written as a text, with the elements of all its dimensions in one.
fn flat(array: Expr) -> Expr {
    let flat = literal_text(&array).and_then(flattened);
    flat.map_or(array, |flat| text(&flat))
}

/// The text of an array of one dimension with the elements of one of several.
fn flattened(array: &str) -> Option<String> {
    nested(array)?;
    let mut found = vec![];
    leaves(&literal(array)?, &mut found);
    Some(format!("{{{}}}", found.join(",")))
}

fn leaves(array: &Expr, found: &mut Vec<String>) {
    match array {
        Expr::Array(array) => array.elem.iter().for_each(|inner| leaves(inner, found)),
        leaf => found.push(match literal_text(leaf) {
            Some(text) => {
                let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
                format!("\"{escaped}\"")
            }
            None => "NULL".to_owned(),
        }),
    }
}

/// The lengths of the dimensions of an array that is written out.
fn lengths(array: &Expr) -> Vec<usize> {
    let Expr::Array(array) = array else {
        return vec![];
    };
    let inner = array.elem.first().map(lengths).unwrap_or_default();
    [vec![array.elem.len()], inner].concat()
}

/// The texts of the inner arrays of an array of arrays.
pub(crate) fn nested(array: &str) -> Option<Vec<&str>> {
    let inside = array.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (mut parts, mut start, mut depth) = (vec![], 0, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if std::mem::take(&mut escaped) => {}
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let balanced = depth == 0 && !quoted;
    (balanced && parts.iter().all(|part| part.trim().starts_with('{'))).then_some(parts)
}

/// The elements of a text such as `{a,"b c",NULL}`. `None` if the text is not an array of one
/// dimension.
#[must_use]
pub fn elements(array: &str) -> Option<Vec<Option<String>>> {
    let inside = array.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inside.trim().is_empty() {
        return Some(vec![]);
    }
    let mut found = vec![];
    let mut rest = inside.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let mut element = String::new();
        let quoted = rest.next_if_eq(&'"').is_some();
        if quoted {
            loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => element.push(rest.next()?),
                    other => element.push(other),
                }
            }
            while rest.next_if(|c| c.is_whitespace()).is_some() {}
        } else {
            while let Some(c) = rest.next_if(|c| *c != ',') {
                match c {
                    '{' | '}' | '"' => return None,
                    '\\' => element.push(rest.next()?),
                    other => element.push(other),
                }
            }
            element.truncate(element.trim_end().len());
            if element.is_empty() {
                return None;
            }
        }
        let is_null = !quoted && element.eq_ignore_ascii_case("null");
        found.push((!is_null).then_some(element));
        match rest.next() {
            None => return Some(found),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// `as_array(text, x)`: the array written in a text, with elements of the type of `x`.
pub const AS_ARRAY: &str = "as_array";
/// `pg_or_empty(array)`: the array, or an empty one for NULL.
pub(crate) const OR_EMPTY: &str = "pg_or_empty";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_text() {
        let read = |array| elements(array).map(Shown::join_shown);
        assert_eq!(read("{}").as_deref(), Some(""));
        assert_eq!(read("{1, 2,NULL}").as_deref(), Some("<1><2>-"));
        assert_eq!(
            read(r#"{"a,b","NULL","q\"\\",null, x y }"#).as_deref(),
            Some(r#"<a,b><NULL><q"\>-<x y>"#)
        );
        for wrong in ["", "1,2", "{1", "{,}", "{a\"b}", "{{1},{2}}", "{\"a}"] {
            assert_eq!(elements(wrong), None, "{wrong}");
        }
    }

    trait Shown {
        fn join_shown(self) -> String;
    }

    impl Shown for Vec<Option<String>> {
        fn join_shown(self) -> String {
            self.into_iter()
                .map(|element| element.map_or_else(|| "-".to_owned(), |text| format!("<{text}>")))
                .collect()
        }
    }
}
