//! Numbers and casts with PostgreSQL's types and meaning.
//!
//! | from | to |
//! |---|---|
//! | `1` | `CAST(1 AS INT)`: an integer is the first of int4, int8 and numeric that holds it |
//! | `1e2` | `pg_cast('1e2', 'numeric:3,0')`: a number with a point or exponent is numeric |
//! | `x::T`, `CAST(x AS T)`, `T 'x'` | `pg_cast(x, 'T')` |
//! | `1e300::float8` | `pg_cast('1e300', 'float8')` |
//! | `x::"char"` | `left(x, 1)` |
//! | `LIMIT 1e1`, `DEFAULT 1e1` | `LIMIT 10.`, `DEFAULT 10.` |
//! | `-a ^ b` | `(-a) ^ b`: the sign binds tighter |
//! | `-(-2147483648)` | `2147483648` |
//! | `-x`, `~ x`, `@ x`, `|/ x` | functions |
//! | `x IS DISTINCT FROM 'a'` | `x <distinct> 'a'`, see `operators/distinct.rs` |
//! | CASE of values of different types | `pg_case(…)`, see `numbers/aggregation/common.rs` |
//!
//! Some numbers stay as they are: those of LIMIT, of positions in ORDER BY and GROUP BY, of window
//! frames, subscripts and table functions. A visitor does not see the context of a number, so they
//! are marked first, with the `L` suffix of sqlparser's numbers, which PostgreSQL does not have.
//! DataFusion reads one with an exponent as a decimal of negative scale, of which casts make
//! another number, so it is written without.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, AlterTableOperation, BinaryOperator, CastKind, ColumnDef, ColumnOption, DataType,
    Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    LimitClause, NamedWindowExpr, OrderByKind, Query, Select, Statement, Subscript,
    TableConstraint, TableFactor, UnaryOperator, Value, ValueWithSpan, VisitorMut,
    WindowFrameBound, WindowSpec, WindowType,
};

use crate::casts::{CAST, Target};
use crate::dialect::ast::{arguments, call, is_placeholder, last_word, literal_text, null, text};
use crate::numbers::aggregation::{CASE, CASE_OF};
use crate::numbers::numeric::Numeric;
use crate::visits::Walk;

/// The operators in place of IS DISTINCT FROM and IS NOT DISTINCT FROM.
pub(crate) const DISTINCT: &str = "\u{1f}distinct";
pub(crate) const NOT_DISTINCT: &str = "\u{1f}not distinct";

/// Rewrites the queries of a statement. Of other expressions, columns' defaults and CHECK
/// constraints are planned, others (`SET x = 1`) are not.
pub(in crate::dialect) fn rewrite(statement: &mut Statement) {
    match statement {
        Statement::CreateTable(create) => {
            create.columns.iter_mut().for_each(type_column_checks);
            create.constraints.iter_mut().for_each(type_check);
            let _ = create.columns.walk(&mut WithoutExponents);
            if let Some(query) = &mut create.query {
                let _ = query.walk(&mut Literals);
            }
        }
        // ADD COLUMN is planned as a column of CREATE TABLE.
        Statement::AlterTable(alter) => {
            for operation in &mut alter.operations {
                match operation {
                    AlterTableOperation::AddColumn { column_def, .. } => {
                        type_column_checks(column_def);
                    }
                    AlterTableOperation::AddConstraint { constraint, .. } => type_check(constraint),
                    _ => {}
                }
            }
            let _ = alter.operations.walk(&mut WithoutExponents);
        }
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::CreateView(_)
        | Statement::Explain { .. }
        | Statement::Copy { .. }
        | Statement::Declare { .. }
        | Statement::Prepare { .. } => {
            let _ = statement.walk(&mut Literals);
        }
        _ => {}
    }
}

/// As `rewrite`, for an expression that is planned outside of its statement.
pub fn with_types(expr: &mut Expr) {
    let _ = expr.walk(&mut Literals);
}

fn type_column_checks(column: &mut ColumnDef) {
    for option in &mut column.options {
        if let ColumnOption::Check(check) = &mut option.option {
            with_types(&mut check.expr);
        }
    }
}

fn type_check(constraint: &mut TableConstraint) {
    if let TableConstraint::Check(check) = constraint {
        with_types(&mut check.expr);
    }
}

struct Literals;

impl VisitorMut for Literals {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            for key in keys {
                keep(&mut key.expr);
            }
        }
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter_mut().for_each(keep_count);
                if let Some(offset) = offset {
                    keep_count(&mut offset.value);
                }
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                keep_count(offset);
                keep_count(limit);
            }
            None => {}
        }
        if let Some(fetch) = &mut query.fetch {
            fetch.quantity.iter_mut().for_each(keep_count);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            keys.iter_mut().for_each(keep_position);
        }
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            keys.iter_mut().for_each(keep);
        }
        for window in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
                keep_frame(window);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                args: Some(args), ..
            } => {
                let _ = args.args.walk(&mut WithoutExponents);
                let _ = args.args.walk(&mut KeepAll);
            }
            TableFactor::Function { args, .. } => {
                let _ = args.walk(&mut WithoutExponents);
                let _ = args.walk(&mut KeepAll);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(Function {
                over: Some(WindowType::WindowSpec(window)),
                ..
            }) => keep_frame(window),
            Expr::Interval(interval) => keep_all(&mut interval.value),
            Expr::Function(function) => keep_places(function),
            Expr::CompoundFieldAccess { access_chain, .. } => {
                for access in access_chain {
                    if let AccessExpr::Subscript(Subscript::Index { index }) = access {
                        keep(index);
                    }
                }
            }
            Expr::Between { .. } => symmetric(expr),
            // Numeric has fewer digits here than floats reach.
            Expr::Cast {
                expr: inner,
                data_type,
                array: false,
                ..
            } => {
                if let Expr::Value(value) = inner.as_ref()
                    && let Value::Number(digits, false) = &value.value
                    && matches!(
                        Target::of_sql(data_type),
                        Some(Target::Float4 | Target::Float8)
                    )
                {
                    **inner = text(digits);
                }
            }
            // The sign belongs to the number: -2147483648 is an int4.
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: inner,
            } => match signed(inner) {
                Some((digits, false)) => {
                    if let Some(typed) = typed(digits, true) {
                        *expr = typed;
                    }
                }
                // It is typed when it is left.
                Some((digits, true)) => *expr = number(digits, false),
                None => {}
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Value(value) => match &mut value.value {
                Value::Number(_, kept @ true) => *kept = false,
                Value::Number(digits, false) => {
                    if let Some(typed) = typed(digits, false) {
                        *expr = typed;
                    }
                }
                _ => {}
            },
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: inner,
                data_type,
                array: false,
                format: None,
            } => {
                if let Some(first) = as_char(inner, data_type) {
                    *expr = first;
                } else if !is_typed_integer(inner, data_type)
                    && let Some(target) = Target::of_sql(data_type)
                {
                    *expr = cast(std::mem::replace(inner, null()), &target);
                }
            }
            Expr::UnaryOp { op, expr: inner } => {
                if let Some(called) = unary(*op, inner) {
                    *expr = called;
                }
            }
            Expr::IsDistinctFrom(left, right) => {
                if let Some(compared) = beside_constant(left, DISTINCT, right) {
                    *expr = compared;
                }
            }
            Expr::IsNotDistinctFrom(left, right) => {
                if let Some(compared) = beside_constant(left, NOT_DISTINCT, right) {
                    *expr = compared;
                }
            }
            Expr::Case { .. } => {
                if let Some(called) = case(expr) {
                    *expr = called;
                }
            }
            Expr::TypedString(typed) => {
                if let Some(target) = Target::of_sql(&typed.data_type)
                    && let Some(value) = typed.value.clone().into_string()
                {
                    *expr = cast(text(&value), &target);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `left op right`, if one of them, and only one, is an untyped constant.
fn beside_constant(left: &mut Expr, op: &str, right: &mut Expr) -> Option<Expr> {
    if literal_text(left).is_some() == literal_text(right).is_some() {
        return None;
    }
    Some(Expr::BinaryOp {
        left: Box::new(std::mem::replace(left, null())),
        op: BinaryOperator::Custom(op.to_owned()),
        right: Box::new(std::mem::replace(right, null())),
    })
}

/// `x BETWEEN SYMMETRIC a AND b`, where `tokens.rs` has turned SYMMETRIC into a prefix operator of
/// `a`.
fn symmetric(expr: &mut Expr) {
    let Expr::Between {
        expr: value,
        negated,
        low,
        high,
    } = expr
    else {
        return;
    };
    if !strip_mark(low) {
        return;
    }
    let compare = |op: BinaryOperator, bound: &Expr| {
        let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
        Box::new(Expr::BinaryOp {
            left: nested(value),
            op,
            right: nested(bound),
        })
    };
    let between = |low: &Expr, high: &Expr| {
        Box::new(Expr::Nested(Box::new(Expr::BinaryOp {
            left: compare(BinaryOperator::GtEq, low),
            op: BinaryOperator::And,
            right: compare(BinaryOperator::LtEq, high),
        })))
    };
    let either = Expr::Nested(Box::new(Expr::BinaryOp {
        left: between(low, high),
        op: BinaryOperator::Or,
        right: between(high, low),
    }));
    *expr = if *negated {
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(either),
        }
    } else {
        either
    };
}

/// Removes the mark from the first operand of an expression.
fn strip_mark(expr: &mut Expr) -> bool {
    match expr {
        Expr::UnaryOp {
            op: UnaryOperator::PGPrefixFactorial,
            expr: inner,
        } => {
            *expr = std::mem::replace(inner, null());
            true
        }
        Expr::BinaryOp { left, .. } => strip_mark(left),
        Expr::Cast { expr: inner, .. } => strip_mark(inner),
        _ => false,
    }
}

/// Whether a cast was written by [`typed`] and not by the statement. The spelling of its type is
/// one that the parser never produces.
fn is_typed_integer(inner: &Expr, data_type: &DataType) -> bool {
    let number = match inner {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => expr,
        other => other,
    };
    *data_type == INT4
        && matches!(number, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// `x::"char"`: the first character of a text, as which the type of the catalog's letters is read.
/// (An integer is the code of a character in PostgreSQL, so it must not become a text: `left`
/// refuses it.)
fn as_char(value: &mut Expr, data_type: &DataType) -> Option<Expr> {
    let DataType::Custom(name, modifiers) = data_type else {
        return None;
    };
    if !modifiers.is_empty() || last_word(name).as_deref() != Some("char") {
        return None;
    }
    let one = typed("1", false)?;
    let text = std::mem::replace(value, null());
    Some(call("left", vec![text, one]))
}

const INT4: DataType = DataType::Int4(Some(0));

/// A number with its type; `None` if DataFusion already reads it as that type.
fn typed(digits: &str, negative: bool) -> Option<Expr> {
    let sign = if negative { "-" } else { "" };
    let signed = format!("{sign}{digits}");
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if signed.parse::<i32>().is_ok() {
            return Some(Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(number(digits, negative)),
                data_type: INT4,
                array: false,
                format: None,
            });
        }
        if signed.parse::<i64>().is_ok() {
            return negative.then(|| number(digits, true));
        }
    } else if let Some((whole, fraction)) = digits.split_once('.')
        && !whole.is_empty()
        && !fraction.is_empty()
        && whole.len() + fraction.len() <= 76
        && (whole.bytes().chain(fraction.bytes())).all(|byte| byte.is_ascii_digit())
    {
        return negative.then(|| number(digits, true));
    }
    Some(cast(text(&signed), &Target::Numeric(None)))
}

/// The digits of a number, and whether it has a sign: `-(-5)` is 5, as the grammar of PostgreSQL
/// negates constants.
fn signed(expr: &Expr) -> Option<(&str, bool)> {
    match expr {
        Expr::Nested(inner) => signed(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } => signed(inner).map(|(digits, negative)| (digits, !negative)),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => Some((digits.as_str(), false)),
            _ => None,
        },
        _ => None,
    }
}

/// A number that is not rewritten. The visitor also visits what replaces a signed number, so that
/// number is marked.
fn number(digits: &str, negative: bool) -> Expr {
    let value = Expr::Value(Value::Number(digits.to_owned(), negative).into());
    if negative {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(value),
        }
    } else {
        value
    }
}

fn cast(value: Expr, target: &Target) -> Expr {
    // A number that is too long for a decimal may still be a valid float.
    if matches!(target, Target::Float4 | Target::Float8)
        && let Expr::Function(inner) = &value
        && last_word(&inner.name).as_deref() == Some(CAST)
        && let Some([digits, of]) = arguments(inner).as_deref()
        && literal_text(of).is_some_and(|of| of.starts_with("numeric"))
        && literal_text(digits).is_some()
    {
        let digits = (*digits).clone();
        return call(CAST, vec![digits, text(&target.to_string())]);
    }
    let target = match target {
        Target::Numeric(None) => digits_of(&value).unwrap_or(Target::Numeric(None)),
        other => other.clone(),
    };
    call(CAST, vec![value, text(&target.to_string())])
}

/// The precision and scale of a constant: a text, or a number as [`typed`] writes it.
fn digits_of(value: &Expr) -> Option<Target> {
    let number = match value {
        Expr::Nested(inner) => return digits_of(inner),
        Expr::Cast {
            expr, data_type, ..
        } if is_typed_integer(expr, data_type) => {
            Numeric::parse(&expr.to_string().replace('L', ""))
        }
        other => Numeric::parse(literal_text(other)?),
    }?;
    let count = number.digits.magnitude().to_string().len();
    let precision = count.max(number.scale as usize);
    if precision > 76 {
        return None;
    }
    Some(Target::NumericOf(
        u8::try_from(precision).ok()?,
        i8::try_from(number.scale).ok()?,
    ))
}

/// The function for a prefix operator. Takes the operand out of the tree.
fn unary(op: UnaryOperator, operand: &mut Expr) -> Option<Expr> {
    if op == UnaryOperator::Minus && matches!(operand, Expr::Value(_) | Expr::Interval(_)) {
        return None;
    }
    let is_parameter = is_placeholder(operand);
    let mut take = || std::mem::replace(operand, null());
    Some(match op {
        UnaryOperator::Minus => call("pg_negate", vec![take()]),
        UnaryOperator::Plus if is_parameter => call("pg_plus", vec![take()]),
        UnaryOperator::BitwiseNot => call("pg_bit_not", vec![take()]),
        UnaryOperator::PGAbs => call("abs", vec![take()]),
        UnaryOperator::PGSquareRoot => call("sqrt", vec![cast(take(), &Target::Float8)]),
        UnaryOperator::PGCubeRoot => call("cbrt", vec![cast(take(), &Target::Float8)]),
        _ => return None,
    })
}

/// CASE as one of our functions, which finds the common type of the values; `None` if DataFusion
/// finds it from the first value.
fn case(expr: &mut Expr) -> Option<Expr> {
    let Expr::Case {
        operand,
        conditions,
        else_result,
        ..
    } = expr
    else {
        return None;
    };
    let is_null = |value: &Expr| matches!(value, Expr::Value(value) if value.value == Value::Null);
    let results = conditions.iter().map(|when| &when.result);
    let results = results.chain(else_result.as_deref());
    let mut typed = results.filter(|value| !is_null(value));
    let first = typed.next()?;
    let kind = |value: &Expr| match value {
        Expr::Cast { data_type, .. } if *data_type == INT4 => 1,
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => 2,
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => 3,
        _ => 0,
    };
    let texts = operand.is_some();
    if !texts && kind(first) != 0 && typed.all(|value| kind(value) == kind(first)) {
        return None;
    }
    let name = match operand {
        Some(_) => CASE_OF,
        None => CASE,
    };
    let mut args = vec![];
    args.extend(operand.take().map(|operand| *operand));
    for when in std::mem::take(conditions) {
        args.extend([when.condition, when.result]);
    }
    args.extend(else_result.take().map(|value| *value));
    Some(call(name, args))
}

/// Marks a number that is not rewritten.
fn keep(expr: &mut Expr) {
    if let Expr::Value(value) = expr
        && let Value::Number(_, kept) = &mut value.value
    {
        *kept = true;
    }
}

/// Marks the number of decimal places of `round(x, 2)`.
fn keep_places(function: &mut Function) {
    if let Some("round" | "trunc") = last_word(&function.name).as_deref()
        && let FunctionArguments::List(list) = &mut function.args
        && let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(places))] = list.args.as_mut_slice()
    {
        keep(places);
    }
}

/// Marks every number in an expression.
fn keep_all(expr: &mut Expr) {
    let _ = expr.walk(&mut KeepAll);
}

struct KeepAll;

impl VisitorMut for KeepAll {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        keep(expr);
        ControlFlow::Continue(())
    }
}

/// Marks every number in a count of rows.
fn keep_count(expr: &mut Expr) {
    let _ = expr.walk(&mut WithoutExponents);
    keep_all(expr);
}

/// Writes numbers with all their digits, with a point, so that they stay numeric.
struct WithoutExponents;

impl VisitorMut for WithoutExponents {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let Value::Number(digits, _) = &mut value.value
            && let Some(all) = without_exponent(digits)
        {
            *digits = all;
        }
        ControlFlow::Continue(())
    }
}

/// A number without its exponent; `None` if it has none, or more digits than a decimal.
fn without_exponent(digits: &str) -> Option<String> {
    if !digits.contains(['e', 'E']) {
        return None;
    }
    let number = Numeric::parse(digits)?;
    let point = if number.scale == 0 { "." } else { "" };
    let all = format!("{number}{point}");
    (all.len() <= 76).then_some(all)
}

/// Marks a position in GROUP BY, also within grouping sets.
fn keep_position(expr: &mut Expr) {
    match expr {
        Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets) => {
            sets.iter_mut().flatten().for_each(keep);
        }
        Expr::Tuple(keys) => keys.iter_mut().for_each(keep),
        other => keep(other),
    }
}

fn keep_frame(window: &mut WindowSpec) {
    let Some(frame) = &mut window.window_frame else {
        return;
    };
    let bounds = std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound);
    for bound in bounds {
        if let WindowFrameBound::Preceding(Some(count)) | WindowFrameBound::Following(Some(count)) =
            bound
        {
            keep_all(count);
        }
    }
}
