//! Replaces spellings with plainer ones of the same meaning.
//!
//! All functions and operators are in one namespace, so qualifiers are dropped. Strings are
//! compared byte by byte, as in PostgreSQL's collation `C`, so COLLATE is dropped too.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, TableFactor, VisitorMut,
};

use super::ast::{arguments, call, expression, last_word, literal_text, null, null_cast, text};
use super::catalog::is_catalog_table;
use super::json_calls;
use super::lexical::VARIADIC;
use crate::functions::FAIL;
use crate::visits::visit_expressions_mut;

#[derive(Default)]
pub(super) struct Spelling {
    /// Whether the statement names a table of `pg_catalog`.
    pub(super) reads_catalog: bool,
    /// Whether the statement has a string.
    pub(super) has_texts: bool,
    /// Whether the statement has TABLESAMPLE.
    pub(super) has_samples: bool,
    /// The forms of the statement's calls.
    pub(super) calls: Calls,
    /// The names of queries in WITH, which take precedence over tables.
    given: HashSet<String>,
}

/// Forms of calls for which there are passes of their own.
#[derive(Default)]
pub(super) struct Calls {
    /// `f(x => 1)`
    pub(super) name_arguments: bool,
    /// `f(VARIADIC a)`
    pub(super) spread_arrays: bool,
    /// `f(x) WITHIN GROUP (ORDER BY y)`
    pub(super) order_groups: bool,
}

impl Calls {
    fn note(&mut self, function: &Function) {
        self.order_groups |= !function.within_group.is_empty();
        self.spread_arrays |= last_word(&function.name).as_deref() == Some(VARIADIC);
        if let FunctionArguments::List(list) = &function.args {
            self.note_arguments(&list.args);
        }
    }

    fn note_arguments(&mut self, arguments: &[FunctionArg]) {
        let is_named = |argument: &FunctionArg| !matches!(argument, FunctionArg::Unnamed(_));
        self.name_arguments |= arguments.iter().any(is_named);
    }
}

impl VisitorMut for Spelling {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.given
            .extend(ctes.map(|cte| cte.alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { sample, .. } = factor {
            self.has_samples |= sample.is_some();
        }
        match factor {
            TableFactor::Table {
                name,
                args: Some(arguments),
                ..
            } => {
                self.calls.note_arguments(&arguments.args);
                unqualify(name);
                fold(name);
            }
            TableFactor::Function { name, args, .. } => {
                self.calls.note_arguments(args);
                unqualify(name);
                fold(name);
            }
            TableFactor::Table { name, .. } => {
                let words: Vec<_> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
                match words[..] {
                    // `pg_catalog` is first on every search path.
                    [table]
                        if is_catalog_table(&table.value)
                            && !self.given.contains(&table.value.to_lowercase()) =>
                    {
                        self.reads_catalog = true;
                        name.0
                            .insert(0, ObjectNamePart::Identifier(Ident::new("pg_catalog")));
                    }
                    [.., schema, _] if schema.value.eq_ignore_ascii_case("pg_catalog") => {
                        self.reads_catalog = true;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        while let Expr::Collate {
            expr: inner,
            collation,
        } = expr
        {
            let plain = std::mem::replace(&mut **inner, null());
            *expr = match last_word(collation) {
                Some(known) if KNOWN_COLLATIONS.contains(&known.as_str()) => plain,
                _ => {
                    let name = collation.to_string().replace('"', "");
                    let message =
                        format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
                    call(FAIL, vec![text("42704"), text(&message)])
                }
            };
        }
        self.has_texts |= literal_text(expr).is_some();
        match expr {
            Expr::Identifier(word)
                if word.quote_style.is_none()
                    && word.value.eq_ignore_ascii_case("current_schema") =>
            {
                *expr = call("current_schema", vec![]);
            }
            Expr::Function(function) => {
                json_calls::rewrite(function);
                self.calls.note(function);
                unqualify(&mut function.name);
                rename(function);
                let other = without_over(function).or_else(|| as_cast(function));
                if let Some(other) = other.or_else(|| asleep(function)) {
                    *expr = other;
                }
            }
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(words) = op
                    && let Some(plain) = words.last().and_then(|word| operator(word))
                {
                    *op = plain;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The collations that compare byte by byte.
const KNOWN_COLLATIONS: &[&str] = &["c", "posix", "default", "ucs_basic", "c.utf8", "c.utf-8"];

/// Drops a function's qualifier: all functions are in one namespace.
fn unqualify(name: &mut ObjectName) {
    if name.0.len() > 1
        && let Some(last) = name.0.pop()
    {
        name.0 = vec![last];
    }
}

/// Folds the name of a function in FROM. DataFusion looks it up as it is written.
fn fold(name: &mut ObjectName) {
    if let Some(ObjectNamePart::Identifier(word)) = name.0.last_mut()
        && word.quote_style.is_none()
    {
        word.value.make_ascii_lowercase();
    }
}

/// Renames keywords and functions that are synonyms of another function.
fn rename(function: &mut Function) {
    let name = match last_word(&function.name).as_deref() {
        Some("current_user" | "current_role" | "user" | "session_user") => "session_user",
        Some("current_catalog") => "current_database",
        Some("variance") => "var_samp",
        Some("every") => "bool_and",
        _ => return,
    };
    if matches!(function.args, FunctionArguments::None) {
        let Expr::Function(plain) = call(name, vec![]) else {
            return;
        };
        *function = plain;
    } else {
        function.name = ObjectName::from(vec![Ident::new(name)]);
    }
}

/// An error if a function is a window function in PostgreSQL but is called without OVER:
/// DataFusion has aggregates of these names.
fn without_over(function: &Function) -> Option<Expr> {
    let name = last_word(&function.name)?;
    let only_over = matches!(name.as_str(), "first_value" | "last_value" | "nth_value");
    if !only_over || function.over.is_some() {
        return None;
    }
    let message = format!("window function {name} requires an OVER clause");
    Some(call(FAIL, vec![text("42809"), text(&message)]))
}

/// `date(x)` is `x::date`: PostgreSQL lets a type's name be called with one argument.
fn as_cast(function: &Function) -> Option<Expr> {
    let name = last_word(&function.name)?;
    let [argument] = arguments(function)?[..] else {
        return None;
    };
    if !CASTS.contains(&name.as_str()) || function.filter.is_some() || function.over.is_some() {
        return None;
    }
    let mut cast = null_cast(&name)?;
    if let Expr::Cast { expr, .. } = &mut cast {
        **expr = argument.clone();
    }
    Some(cast)
}

/// `pg_sleep_for(i)` and `pg_sleep_until(t)` as calls of `pg_sleep`, as PostgreSQL defines them,
/// and the number in `pg_sleep('1')`, which could not be found by a text.
fn asleep(function: &Function) -> Option<Expr> {
    let [given] = arguments(function)?[..] else {
        return None;
    };
    let seconds = match last_word(&function.name)?.as_str() {
        "pg_sleep_for" => {
            "extract(epoch FROM clock_timestamp() + CAST(x AS interval)) \
             - extract(epoch FROM clock_timestamp())"
        }
        "pg_sleep_until" => {
            "extract(epoch FROM CAST(x AS timestamptz)) - extract(epoch FROM clock_timestamp())"
        }
        "pg_sleep" if literal_text(given).is_some() => "x",
        _ => return None,
    };
    let mut made = expression(&format!("pg_sleep(CAST({seconds} AS double precision))"))?;
    let _ = visit_expressions_mut(&mut made, |expr| {
        if matches!(expr, Expr::Identifier(word) if word.value == "x") {
            *expr = given.clone();
        }
        ControlFlow::<()>::Continue(())
    });
    Some(made)
}

/// The types whose names are neither keywords nor names of other functions.
const CASTS: &[&str] = &[
    "bool",
    "bpchar",
    "bytea",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "json",
    "jsonb",
    "numeric",
    "text",
    "timestamptz",
    "uuid",
    "varchar",
];

/// The operator named by `OPERATOR(pg_catalog.…)`.
fn operator(word: &str) -> Option<BinaryOperator> {
    Some(match word {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}
