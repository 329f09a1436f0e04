//! Functions in FROM whose arguments are columns: `t, generate_series(1, t.x)`, `t, unnest(t.a)`.
//!
//! DataFusion evaluates functions in FROM once. A function whose arguments contain columns becomes
//! a LATERAL subquery that unnests an array.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Select, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, Visitor,
};

use crate::dialect::ast::{call, last_word, template};
use crate::functions::time::SERIES;
use crate::numbers::aggregation::ARRAY;
use crate::visits::Look;

pub(super) fn rewrite(select: &mut Select) {
    for item in &mut select.from {
        lateral(&mut item.relation);
        item.joins
            .iter_mut()
            .for_each(|join| lateral(&mut join.relation));
    }
}

fn lateral(factor: &mut TableFactor) {
    let (name, values, alias) = match &*factor {
        TableFactor::UNNEST {
            array_exprs,
            alias,
            with_offset: false,
            with_ordinality: false,
            ..
        } => match array_exprs.as_slice() {
            [array] => ("unnest", array.clone(), alias),
            _ => return,
        },
        TableFactor::Table {
            name,
            args: Some(args),
            alias,
            with_ordinality: false,
            ..
        } => match array(last_word(name).as_deref(), &args.args) {
            Some((name, values)) => (name, values, alias),
            None => return,
        },
        TableFactor::Function {
            name,
            args,
            alias,
            with_ordinality: false,
            ..
        } => match array(last_word(name).as_deref(), args) {
            Some((name, values)) => (name, values, alias),
            None => return,
        },
        _ => return,
    };
    if !names_columns(&values) {
        return;
    }
    let Some(mut query) = template("SELECT 1") else {
        return;
    };
    let table = alias
        .as_ref()
        .map_or_else(|| Ident::new(name), |alias| alias.name.clone());
    let column = alias.as_ref().and_then(|alias| alias.columns.first());
    let column = column.map_or_else(|| table.clone(), |column| column.name.clone());
    if let SetExpr::Select(select) = query.body.as_mut() {
        let value = call("unnest", vec![written_as_call(values)]);
        select.projection = vec![SelectItem::ExprWithAlias {
            expr: value,
            alias: column.clone(),
        }];
    }
    *factor = TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query),
        alias: Some(TableAlias {
            explicit: true,
            name: table,
            columns: vec![TableAliasColumnDef {
                name: column,
                data_type: None,
            }],
            at: None,
        }),
        sample: None,
    };
}

/// The function, and the array of its rows.
fn array(name: Option<&str>, arguments: &[FunctionArg]) -> Option<(&'static str, Expr)> {
    let arguments = arguments.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let mut arguments: Vec<Expr> = arguments.collect::<Option<_>>()?;
    match name? {
        "generate_series" => Some(("generate_series", call(SERIES, arguments))),
        "unnest" if arguments.len() == 1 => Some(("unnest", arguments.remove(0))),
        _ => None,
    }
}

/// DataFusion does not resolve columns in `ARRAY[…]` to outer queries, but does so in a call.
fn written_as_call(expr: Expr) -> Expr {
    match expr {
        Expr::Array(array) => {
            let elements = array.elem.into_iter().map(written_as_call);
            call(ARRAY, elements.collect())
        }
        other => other,
    }
}

fn names_columns(expr: &Expr) -> bool {
    struct Columns;
    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.look(&mut Columns).is_break()
}
