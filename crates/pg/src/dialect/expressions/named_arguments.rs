//! Arguments by name: `jsonb_path_query(j, '$', silent => true)`.
//!
//! The functions that this crate registers in DataFusion have no argument names, so named
//! arguments are put in order here.
//! Not here: `make_interval` (`times.rs`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, TableFactor, VisitorMut,
};

use crate::dialect::ast::{boolean, last_word, text};

pub(in crate::dialect) struct NamedArguments;

impl VisitorMut for NamedArguments {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name,
                args: Some(arguments),
                ..
            } => place(last_word(name).as_deref(), &mut arguments.args),
            TableFactor::Function { name, args, .. } => place(last_word(name).as_deref(), args),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let FunctionArguments::List(list) = &mut function.args
        {
            place(last_word(&function.name).as_deref(), &mut list.args);
        }
        ControlFlow::Continue(())
    }
}

/// The parameter names of a function, with the default values of optional ones.
fn parameters(function: &str) -> Option<Vec<(&'static str, Option<Expr>)>> {
    let change = |last, default| {
        vec![
            ("jsonb_in", None),
            ("path", None),
            ("replacement", None),
            (last, Some(boolean(default))),
        ]
    };
    Some(match function {
        "jsonb_set" => change("create_if_missing", true),
        "jsonb_insert" => change("insert_after", false),
        path if path.starts_with("jsonb_path_") => vec![
            ("target", None),
            ("path", None),
            ("vars", Some(text("{}"))),
            ("silent", Some(boolean(false))),
        ],
        _ => return None,
    })
}

fn named(argument: &FunctionArg) -> Option<(String, &FunctionArgExpr)> {
    match argument {
        FunctionArg::Named { name, arg, .. } => Some((name.value.to_lowercase(), arg)),
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg,
            ..
        } => Some((name.value.to_lowercase(), arg)),
        _ => None,
    }
}

/// Puts named arguments into their positions. A call that PostgreSQL refuses is left alone.
fn place(function: Option<&str>, arguments: &mut Vec<FunctionArg>) {
    let by_name: Vec<_> = arguments.iter().filter_map(named).collect();
    let Some(parameters) = function
        .filter(|_| !by_name.is_empty())
        .and_then(parameters)
    else {
        return;
    };
    let first = arguments.len() - by_name.len();
    let is_behind = arguments[..first]
        .iter()
        .all(|given| named(given).is_none());
    let is_known = by_name.iter().all(|(name, _)| {
        let place = parameters.iter().position(|(known, _)| known == name);
        place.is_some_and(|place| place >= first)
    });
    if !is_behind || !is_known {
        return;
    }
    let mut placed = arguments[..first].to_vec();
    for (parameter, default) in parameters.into_iter().skip(first) {
        let given = by_name.iter().find(|(name, _)| name == parameter);
        let value = match (given, default) {
            (Some((_, value)), _) => (*value).clone(),
            (None, Some(default)) => FunctionArgExpr::Expr(default),
            (None, None) => return,
        };
        placed.push(FunctionArg::Unnamed(value));
    }
    *arguments = placed;
}
