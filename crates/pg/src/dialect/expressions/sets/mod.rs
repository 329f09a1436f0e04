//! Set-returning functions in FROM, rewritten to subqueries that unnest arrays.
//!
//! | from | to |
//! |---|---|
//! | `FROM f(…) AS a` | `FROM (SELECT unnest(f_array(…)) AS a) AS a` |
//! | `FROM unnest(a, b) WITH ORDINALITY` | `FROM (SELECT unnest(a), unnest(b), unnest(1, 2, …))` |
//! | `FROM json_each(…)` | `FROM (SELECT unnest(keys) AS key, unnest(values) AS value)` |
//! | `FROM json_to_record(…) AS t(a int)` | `FROM (SELECT member(…, 'a')::int AS a) AS t` |
//! | `e.value FROM json_array_elements(…) AS e` | `e.e AS value FROM …` |
//! | `FROM lower('A') AS a` | `FROM (SELECT lower('A') AS a) AS a` |
//! | `FROM current_date` | `FROM (SELECT current_date AS current_date) AS current_date` |

mod records;
mod values;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectNamePart, Query, SelectItem, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::casts::Target;
use crate::dialect::ast::{arguments, call, is_placeholder, last_word, null_cast, text};
use crate::dialect::{Grammar, SUBSCRIPTS};
use crate::functions::arrays::FLAT;
use crate::functions::time::SERIES;
use crate::functions::{MARKED, is_scalar, mark_of};
use crate::resolve;
use crate::visits::visit_expressions;

/// The function that returns a set's rows as an array; `None` if the function returns no set, or
/// if DataFusion supports it.
pub(in crate::dialect) fn array_of_set(name: &str) -> Option<String> {
    // PostgreSQL has another function named `jsonb_path_query_array`.
    if matches!(name, "jsonb_path_query" | "jsonb_path_query_tz") {
        return Some(format!("{name}_rows_array"));
    }
    let found = match name {
        "regexp_matches" | "regexp_split_to_table" | "string_to_table" => true,
        other => {
            let of = other
                .strip_prefix("jsonb_")
                .or_else(|| other.strip_prefix("json_"));
            let sets = [
                "each",
                "each_text",
                "array_elements",
                "array_elements_text",
                "object_keys",
            ];
            of.is_some_and(|of| sets.contains(&of))
        }
    };
    found.then(|| format!("{name}_array"))
}

/// Whether a function returns the rows of a set, or a column of them, as an array. `unnest` of it
/// gives these rows, also where they are arrays (`regexp_matches`).
pub(super) fn holds_set(function: &str) -> bool {
    let Some(set) = function.strip_suffix("_array") else {
        return false;
    };
    let set = set.strip_suffix("_rows").unwrap_or(set);
    function == SERIES
        || function.ends_with(COLUMN)
        || array_of_set(set).is_some_and(|array| array == function)
}

/// The suffix of functions that return a column of a set as an array.
const COLUMN: &str = "_column_array";

/// The rows of a set, from the array that holds them.
pub(super) fn rows_of_set(name: &str, array: Expr) -> Expr {
    let is_json = name.ends_with("_array_elements") || name.starts_with("jsonb_path_query");
    let mark = match name.split_once('_') {
        Some((pg_type, _)) if is_json => Some(pg_type.to_owned()),
        _ => element_mark(&array).map(|target| target.to_string()),
    };
    let rows = call("unnest", vec![array]);
    match mark {
        Some(mark) => call(MARKED, vec![rows, text(&mark)]),
        None => rows,
    }
}

/// The type of an array's elements, if Arrow has no such type and a cast names it.
fn element_mark(array: &Expr) -> Option<Target> {
    let element = match array {
        Expr::Nested(inner) => return element_mark(inner),
        Expr::Function(call) if last_word(&call.name).as_deref() == Some(FLAT) => {
            return element_mark(arguments(call)?.first()?);
        }
        Expr::Array(array) => array.elem.iter().find_map(|element| match element {
            Expr::Cast { data_type, .. } => Target::of_sql(data_type),
            _ => None,
        })?,
        Expr::Cast { data_type, .. } => match Target::of_sql(data_type)? {
            Target::Array(element) => *element,
            _ => return None,
        },
        _ => return None,
    };
    let held = element.arrow(&datafusion::arrow::datatypes::DataType::Utf8);
    mark_of(&element.field("", held, true))
}

/// The unnested arrays of the keys and the values of `json_each`.
fn each(name: &str, given: &[Expr]) -> Vec<SelectItem> {
    let (pg_type, _) = name.split_once('_').unwrap_or_default();
    let rows = |of: &str| {
        let array = call(&format!("{name}_{of}{COLUMN}"), given.to_vec());
        call("unnest", vec![array])
    };
    let values = match name.ends_with("_text") {
        true => rows("value"),
        false => call(MARKED, vec![rows("value"), text(pg_type)]),
    };
    vec![named(rows("key"), "key"), named(values, "value")]
}

/// Rewrites the sets of a statement.
pub(in crate::dialect) struct Sets {
    /// Whether the columns of the outermost query may have marked names: those of a result may,
    /// but not those of a table that a statement makes.
    marks: bool,
    /// The number of queries around.
    depth: usize,
}

impl Sets {
    pub(in crate::dialect) fn new(marks: bool) -> Self {
        Self { marks, depth: 0 }
    }

    /// Whether the columns of the next query may have marked names: all relations but tables are
    /// named when they are planned.
    fn may_mark(&self) -> bool {
        self.marks || self.depth > 0
    }
}

impl VisitorMut for Sets {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        values::rewrite(query, self.may_mark());
        self.depth += 1;
        ControlFlow::Continue(())
    }

    /// Names around a query in brackets, and around a set operation, mean the columns inside.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        let is_result = self.marks && self.depth == 0 && query.order_by.is_none();
        match query.body.as_mut() {
            SetExpr::Select(_) => {}
            SetExpr::Query(_) if is_result => {}
            body => values::unmark(body, !self.may_mark()),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(derived) = rewritten(factor) {
            *factor = derived;
        } else {
            name_series(factor);
        }
        ControlFlow::Continue(())
    }
}

/// Names the column of a series after its table. Whole numbers are integers where they fit, as
/// elsewhere.
fn name_series(factor: &mut TableFactor) {
    let (name, args, alias) = match factor {
        TableFactor::Table {
            name,
            args: Some(args),
            alias,
            ..
        } => (name, &mut args.args, alias),
        TableFactor::Function {
            name, args, alias, ..
        } => (name, args, alias),
        _ => return,
    };
    if last_word(name).as_deref() != Some(SERIES_OF_FROM) {
        return;
    }
    for argument in args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument
            && value.to_string().parse::<i32>().is_ok()
            && let Some(mut cast) = null_cast("int4")
        {
            if let Expr::Cast { expr, .. } = &mut cast {
                std::mem::swap(expr.as_mut(), value);
            }
            *value = cast;
        }
    }
    let alias = alias.get_or_insert_with(|| plain_alias(Ident::new(SERIES_OF_FROM)));
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        });
    }
}

/// DataFusion's function for the rows of a series.
const SERIES_OF_FROM: &str = "generate_series";

fn plain_alias(name: Ident) -> TableAlias {
    TableAlias {
        explicit: true,
        name,
        columns: vec![],
        at: None,
    }
}

fn rewritten(factor: &TableFactor) -> Option<TableFactor> {
    let (name, given, alias, ordinality) = match factor {
        TableFactor::Table {
            name,
            args: Some(args),
            alias,
            with_ordinality,
            ..
        } => (
            last_word(name)?,
            plain(&args.args)?,
            alias,
            *with_ordinality,
        ),
        TableFactor::Function {
            name,
            args,
            alias,
            with_ordinality,
            ..
        } => (last_word(name)?, plain(args)?, alias, *with_ordinality),
        TableFactor::UNNEST {
            alias,
            array_exprs,
            with_offset: false,
            with_ordinality,
            ..
        } => (
            "unnest".to_owned(),
            array_exprs.clone(),
            alias,
            *with_ordinality,
        ),
        TableFactor::Table {
            name,
            args: None,
            alias,
            ..
        } => {
            let [ObjectNamePart::Identifier(word)] = name.0.as_slice() else {
                return None;
            };
            let value = without_brackets(word)?;
            let name = last_word(name)?;
            return one_row(&name, value, alias.as_ref(), false, false);
        }
        _ => return None,
    };
    let lateral = given.iter().any(has_columns);
    if let Some((items, alias)) = records::items(&name, &given, alias.as_ref()) {
        return derived(select(items)?, &name, Some(&alias), lateral);
    }
    let arrays: Vec<Expr> = if name == "unnest" {
        given
            .into_iter()
            .map(|array| call(FLAT, vec![array]))
            .collect()
    } else if name == "generate_subscripts" {
        vec![call(SUBSCRIPTS, given)]
    } else if let Some(set) = array_of_set(&name) {
        vec![call(&set, given)]
    } else if name == SERIES_OF_FROM && (ordinality || given.iter().any(is_computed)) {
        vec![call(SERIES, given)]
    } else if gives_one_value(&name) {
        let value = call(&name, given);
        return one_row(&name, value, alias.as_ref(), ordinality, lateral);
    } else {
        return None;
    };
    let several = arrays.len() > 1;
    let is_each = name.starts_with("json") && name.contains("_each");
    let column = if several {
        "unnest".to_owned()
    } else {
        column_name(&name, alias.as_ref())
    };
    let first = arrays.first()?.clone();
    let places = if several {
        let lengths = arrays
            .iter()
            .map(|array| call("cardinality", vec![array.clone()]));
        let longest = call("greatest", lengths.collect());
        call(SERIES, vec![text_number(1), longest])
    } else {
        call(SUBSCRIPTS, vec![first, text_number(1)])
    };
    let (mut items, arrays) = match arrays.as_slice() {
        [Expr::Function(call)] if is_each => {
            let given = arguments(call)?.into_iter().cloned().collect::<Vec<_>>();
            (each(&name, &given), vec![])
        }
        _ => (vec![], arrays),
    };
    for (at, array) in arrays.into_iter().enumerate() {
        let column = if at == 0 {
            column.clone()
        } else {
            format!("{column}_{at}")
        };
        items.push(named(rows_of_set(&name, array), &column));
    }
    if ordinality {
        let places = call("unnest", vec![places]);
        items.push(named(bigint(places), "ordinality"));
    }
    derived(select(items)?, &name, alias.as_ref(), lateral)
}

/// Whether a function returns a single value.
fn gives_one_value(name: &str) -> bool {
    is_scalar(name) || resolve::is_scalar(name) || MORE_SCALARS.contains(&name)
}

/// More functions that return a single value: those without arguments, and keywords.
const MORE_SCALARS: [&str; 22] = [
    "clock_timestamp",
    "coalesce",
    "current_database",
    "current_schema",
    "gen_random_uuid",
    "getdatabaseencoding",
    "greatest",
    "inet_client_addr",
    "inet_server_addr",
    "least",
    "now",
    "nullif",
    "pg_backend_pid",
    "pg_client_encoding",
    "pg_is_in_recovery",
    "pg_postmaster_start_time",
    "pi",
    "random",
    "statement_timestamp",
    "timeofday",
    "transaction_timestamp",
    "version",
];

/// The call of a function that is written without brackets.
fn without_brackets(word: &Ident) -> Option<Expr> {
    use Keyword::{
        CURRENT_CATALOG, CURRENT_DATE, CURRENT_ROLE, CURRENT_TIME, CURRENT_TIMESTAMP, CURRENT_USER,
        LOCALTIME, LOCALTIMESTAMP, SESSION_USER, USER,
    };
    const WORDS: [Keyword; 10] = [
        CURRENT_CATALOG,
        CURRENT_DATE,
        CURRENT_ROLE,
        CURRENT_TIME,
        CURRENT_TIMESTAMP,
        CURRENT_USER,
        LOCALTIME,
        LOCALTIMESTAMP,
        SESSION_USER,
        USER,
    ];
    let is_word = match Token::make_word(&word.value, word.quote_style) {
        Token::Word(word) => WORDS.contains(&word.keyword),
        _ => false,
    };
    if !is_word {
        return None;
    }
    let dialect = Grammar::new();
    let mut parser = Parser::new(&dialect).try_with_sql(&word.value).ok()?;
    parser.parse_expr().ok()
}

/// The relation of one row for a function that returns a single value.
fn one_row(
    function: &str,
    value: Expr,
    alias: Option<&TableAlias>,
    ordinality: bool,
    lateral: bool,
) -> Option<TableFactor> {
    let mut items = vec![named(value, &column_name(function, alias))];
    if ordinality {
        items.push(named(bigint(text_number(1)), "ordinality"));
    }
    derived(select(items)?, function, alias, lateral)
}

/// Whether an argument is more than an integer, which is all that DataFusion's series accepts.
fn is_computed(expr: &Expr) -> bool {
    use datafusion::sql::sqlparser::ast::Value;
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.contains('.'),
            Value::Placeholder(_) => true,
            _ => false,
        },
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_computed(expr),
        Expr::Cast { expr, .. } => is_computed(expr),
        other => has_query(other),
    }
}

fn has_query(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |inner| match inner {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        placeholder if is_placeholder(placeholder) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn bigint(expr: Expr) -> Expr {
    Expr::Cast {
        kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type: datafusion::sql::sqlparser::ast::DataType::BigInt(None),
        array: false,
        format: None,
    }
}

fn text_number(value: u32) -> Expr {
    use datafusion::sql::sqlparser::ast::Value;
    Expr::Value(Value::Number(value.to_string(), false).into())
}

/// The name of the only column of a function: its table's name.
fn column_name(function: &str, alias: Option<&TableAlias>) -> String {
    match alias {
        Some(alias) if alias.name.quote_style.is_some() => alias.name.value.clone(),
        Some(alias) => alias.name.value.to_lowercase(),
        None if function.contains("array_elements") => "value".to_owned(),
        None => function.to_owned(),
    }
}

fn named(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias {
        expr,
        alias: Ident::with_quote('"', name),
    }
}

fn plain(given: &[FunctionArg]) -> Option<Vec<Expr>> {
    let given = given.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    given.collect()
}

/// Whether an expression names columns.
pub(super) fn has_columns(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |inner| match inner {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// `SELECT items`.
fn select(items: Vec<SelectItem>) -> Option<Box<Query>> {
    let parsed = Parser::parse_sql(&Grammar::new(), "SELECT 1").ok()?;
    let datafusion::sql::sqlparser::ast::Statement::Query(mut query) = parsed.into_iter().next()?
    else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    select.projection = items;
    Some(query)
}

fn derived(
    query: Box<Query>,
    name: &str,
    alias: Option<&TableAlias>,
    lateral: bool,
) -> Option<TableFactor> {
    let alias = alias.cloned();
    let alias = alias.unwrap_or_else(|| plain_alias(Ident::new(name)));
    Some(TableFactor::Derived {
        lateral,
        subquery: query,
        alias: Some(alias),
        sample: None,
    })
}
