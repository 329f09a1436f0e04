//! Parts of syntax trees that several passes take apart or build.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, JoinConstraint, JoinOperator, ObjectName, Query, SelectItem, SetExpr,
    TableFactor, Value, Visitor,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::visits::Look;

/// `name(arguments)`.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments
        .into_iter()
        .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
        .collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        args: FunctionArguments::List(FunctionArgumentList {
            args,
            duplicate_treatment: None,
            clauses: vec![],
        }),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// The arguments of a call, if they are all plain expressions.
pub(super) fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    list.args
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

/// The last part of a qualified name, in lower case.
pub(crate) fn last_word(name: &ObjectName) -> Option<String> {
    let ident = name.0.last()?.as_ident()?;
    Some(ident.value.to_lowercase())
}

/// Parses a query.
pub(super) fn template(sql: &str) -> Option<Query> {
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(sql).ok()?;
    parser.parse_query().ok().map(|query| *query)
}

/// Parses an expression.
pub(super) fn expression(sql: &str) -> Option<Expr> {
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(sql).ok()?;
    parser.parse_expr().ok()
}

/// `NULL::of`, parsed.
pub(super) fn null_cast(of: &str) -> Option<Expr> {
    expression(&format!("NULL::{of}"))
}

pub(super) fn number(value: usize) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}

/// `left op right`, in brackets.
pub(super) fn compared(left: Expr, op: &str, right: Expr) -> Expr {
    let op = match op {
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        "+" => BinaryOperator::Plus,
        _ => BinaryOperator::And,
    };
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }))
}

/// The conjunction of the conditions; true if there are none.
pub(super) fn with_ands(conditions: Vec<Expr>) -> Expr {
    let all = conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    });
    all.unwrap_or_else(|| boolean(true))
}

pub(super) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

pub(super) fn boolean(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

pub(crate) fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

/// The text of a string literal.
pub(super) fn literal_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text) => Some(text),
            Value::DollarQuotedString(quoted) => Some(&quoted.value),
            _ => None,
        },
        Expr::Nested(inner) => literal_text(inner),
        _ => None,
    }
}

/// Whether an expression is this number, possibly in brackets or a cast.
pub(super) fn is_number(expr: &Expr, number: &str) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_number(inner, number),
        Expr::Value(value) => {
            matches!(&value.value, Value::Number(digits, _) if digits == number)
        }
        _ => false,
    }
}

pub(super) fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

/// The expression of a result's column; `None` if the item is not a single expression.
pub(super) fn item_expr(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// See [`item_expr`].
pub(super) fn item_expr_mut(item: &mut SelectItem) -> Option<&mut Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Calls `each` on every branch of a set operation. It does not descend into a query in brackets.
pub(super) fn each_branch(body: &mut SetExpr, each: &mut impl FnMut(&mut SetExpr)) {
    let mut branches = vec![body];
    while let Some(body) = branches.pop() {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                branches.extend([right.as_mut(), left.as_mut()]);
            }
            branch => each(branch),
        }
    }
}

/// What a join is constrained by; `None` for CROSS JOIN.
pub(super) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on) => Some(on),
        _ => None,
    }
}

/// The qualifier of a table's columns: its alias, or the last part of its name.
pub(super) fn qualifier(factor: &TableFactor) -> Option<String> {
    let (alias, name) = match factor {
        TableFactor::Table { alias, name, .. } => (alias, Some(name)),
        TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => (alias, None),
        TableFactor::Function { alias, name, .. } => (alias, Some(name)),
        _ => return None,
    };
    match alias {
        Some(alias) => Some(alias.name.value.clone()),
        None => name?.0.last()?.as_ident().map(|ident| ident.value.clone()),
    }
}

/// `(SELECT expr)`.
pub(super) fn selected(expr: Expr) -> Expr {
    let Some(mut query) = template("SELECT 0") else {
        return expr;
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(expr)];
    }
    Expr::Subquery(Box::new(query))
}

/// Whether the expression contains an aggregate outside of its subqueries.
pub(super) fn aggregates(expr: &Expr) -> bool {
    let mut search = AggregateSearch { within: 0 };
    expr.look(&mut search).is_break()
}

struct AggregateSearch {
    /// The number of queries around the expression.
    within: usize,
}

impl Visitor for AggregateSearch {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.within += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.within -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call)
                if self.within == 0 && call.over.is_none() && is_aggregate(call) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether a function is an aggregate, judged by its name.
pub(super) fn is_aggregate(function: &Function) -> bool {
    last_word(&function.name)
        .is_some_and(|name| AGGREGATES.iter().any(|start| name.starts_with(start)))
}

/// The direct children of an expression, outside of subqueries.
pub(super) fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Function(function) => arguments(function).unwrap_or_default(),
        Expr::BinaryOp { left, right, .. }
        | Expr::AnyOp { left, right, .. }
        | Expr::AllOp { left, right, .. }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => vec![left, right],
        Expr::Nested(inner)
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::Cast { expr: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::Extract { expr: inner, .. }
        | Expr::Trim { expr: inner, .. }
        | Expr::Substring { expr: inner, .. }
        | Expr::InSubquery { expr: inner, .. }
        | Expr::CompoundFieldAccess { root: inner, .. } => vec![inner],
        Expr::Like { expr, pattern, .. } | Expr::ILike { expr, pattern, .. } => vec![expr, pattern],
        Expr::Between {
            expr, low, high, ..
        } => vec![expr, low, high],
        Expr::InList { expr, list, .. } => std::iter::once(&**expr).chain(list).collect(),
        Expr::Array(array) => array.elem.iter().collect(),
        Expr::Tuple(elements) => elements.iter().collect(),
        Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } => operand
            .iter()
            .chain(else_result)
            .map(AsRef::as_ref)
            .chain(
                conditions
                    .iter()
                    .flat_map(|when| [&when.condition, &when.result]),
            )
            .collect(),
        _ => vec![],
    }
}

/// Prefixes of the names of aggregates: PostgreSQL's, DataFusion's and ours. Mistaking a scalar
/// function for an aggregate only loses a simplification.
const AGGREGATES: &[&str] = &[
    "any_value",
    "approx_",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_",
    "corr",
    "count",
    "covar",
    "every",
    "first_value",
    "grouping",
    "json_agg",
    "json_arrayagg",
    "json_object_agg",
    "json_objectagg",
    "jsonb_agg",
    "jsonb_object_agg",
    "last_value",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "nth_value",
    "percentile",
    "quantile",
    "range_agg",
    "range_intersect_agg",
    "regr_",
    "stddev",
    "string_agg",
    "sum",
    "var",
    "xmlagg",
];
