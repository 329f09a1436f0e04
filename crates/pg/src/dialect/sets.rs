//! Functions that give sets of rows, in FROM: subqueries that unnest arrays.
//!
//! | from | to |
//! |---|---|
//! | `FROM f(…) AS a` | `FROM (SELECT unnest(f_array(…)) AS a) AS a` |
//! | `FROM unnest(a, b) WITH ORDINALITY` | `FROM (SELECT unnest(a), unnest(b), unnest(1, 2, …))` |
//! | `FROM json_each(…)` | `FROM (SELECT p['key'] AS key, p['value'] AS value FROM (…))` |
//! | `FROM lower('A') AS a` | `FROM (SELECT lower('A') AS a) AS a` |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, Ident, Query, SelectItem, SetExpr, Subscript,
    TableAlias, TableAliasColumnDef, TableFactor, VisitorMut, visit_expressions,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::SUBSCRIPTS;
use super::ast::{call, is_placeholder, last_word, text};
use crate::functions::arrays::FLAT;
use crate::functions::is_scalar;
use crate::functions::time::SERIES;

/// The function that gives a set's rows as an array; `None` if the function gives no set, or
/// DataFusion knows it.
pub(super) fn array_of_set(name: &str) -> Option<String> {
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

pub(super) struct Sets;

impl VisitorMut for Sets {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(derived) = rewritten(factor) {
            *factor = derived;
        } else {
            name_series(factor);
        }
        ControlFlow::Continue(())
    }
}

/// The column of a series has its table's name.
fn name_series(factor: &mut TableFactor) {
    let (TableFactor::Table {
        name,
        args: Some(_),
        alias,
        ..
    }
    | TableFactor::Function { name, alias, .. }) = factor
    else {
        return;
    };
    if last_word(name).as_deref() != Some(SERIES_OF_FROM) {
        return;
    }
    let alias = alias.get_or_insert_with(|| plain_alias(Ident::new(SERIES_OF_FROM)));
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        });
    }
}

/// DataFusion's function of the rows of a series.
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
        _ => return None,
    };
    let lateral = given.iter().any(has_columns);
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
    } else if is_scalar(&name) && !ordinality {
        let column = column_name(&name, alias.as_ref());
        let items = vec![named(call(&name, given), &column)];
        return derived(select(items, None)?, &name, alias.as_ref(), lateral);
    } else {
        return None;
    };
    let several = arrays.len() > 1;
    let of_pairs = name.contains("_each");
    let column = if of_pairs {
        "pair".to_owned()
    } else if several {
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
    let mut items: Vec<SelectItem> = vec![];
    for (at, array) in arrays.into_iter().enumerate() {
        let column = if at == 0 {
            column.clone()
        } else {
            format!("{column}_{at}")
        };
        items.push(named(call("unnest", vec![array]), &column));
    }
    if ordinality {
        let places = call("unnest", vec![places]);
        items.push(named(bigint(places), "ordinality"));
    }
    let mut query = select(items, None)?;
    if of_pairs {
        let pair = Expr::CompoundIdentifier(vec![Ident::new("pairs"), Ident::new(column)]);
        let mut items = vec![member(&pair, "key"), member(&pair, "value")];
        if ordinality {
            let place = Expr::Identifier(Ident::new("ordinality"));
            items.push(named(place, "ordinality"));
        }
        let inner = derived(query, "pairs", None, false)?;
        query = select(items, Some(inner))?;
    }
    derived(query, &name, alias.as_ref(), lateral)
}

/// Whether this is more than a whole number, which is all that DataFusion's series takes.
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

fn member(pair: &Expr, name: &str) -> SelectItem {
    let value = Expr::CompoundFieldAccess {
        root: Box::new(pair.clone()),
        access_chain: vec![AccessExpr::Subscript(Subscript::Index {
            index: text(name),
        })],
    };
    named(value, name)
}

/// The column of a function that gives single values has the table's name.
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

/// `SELECT items FROM from`.
fn select(items: Vec<SelectItem>, from: Option<TableFactor>) -> Option<Box<Query>> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT 1 FROM t").ok()?;
    let datafusion::sql::sqlparser::ast::Statement::Query(mut query) = parsed.into_iter().next()?
    else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    select.projection = items;
    match from {
        Some(from) => select.from.first_mut()?.relation = from,
        None => select.from.clear(),
    }
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
