//! How does a deep syntax tree become a shallow one of the same meaning?
//!
//! The parser makes `a OR b OR c` left-deep, so a chain of 100,000 operands is a tree of that
//! depth. AND, OR and UNION are associative: a long chain of one of them becomes a balanced tree
//! over the same operands in the same order, 17 levels deep. The depth of other operators is
//! limited (`+` may overflow, the meaning of `||` depends on types). Short chains stay as they are
//! written, so their plans and the names of their columns do too.
//!
//! The visit runs on a stack that holds the tree ([`super::stack`]), and goes no deeper than
//! `EXPRESSIONS_MAX`.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, ObjectName, ObjectNamePart, OrderByKind, Query,
    Select, SetExpr, SetOperator, SetQuantifier, Statement, TableFactor, Value, VisitMut,
    VisitorMut,
};

use super::limits::{
    CHAIN_KEPT, COLUMNS_MAX, EXPRESSIONS_MAX, JOINS_MAX, NODES_MAX, OPERANDS_MAX, SETS_MAX,
    TABLES_MAX,
};
use crate::statement::error::StatementError;

/// Balances the long chains of a statement.
///
/// # Errors
/// [`StatementError::TooDeep`] if the statement is deep for another reason.
pub(in crate::statement) fn shape(statement: &mut Statement) -> Result<(), StatementError> {
    shape_part(statement)
}

/// Like [`shape`], for a part of a statement.
pub(in crate::statement) fn shape_part(
    statement: &mut impl VisitMut,
) -> Result<(), StatementError> {
    match statement.visit(&mut Shaper::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The visit's current depth.
#[derive(Default)]
struct Shaper {
    expressions: usize,
    factors: usize,
    /// The queries around the visited node, the outermost first.
    queries: Vec<InQuery>,
    /// The size of each common table expression, written out, by name; where several have the same
    /// name, that of the largest.
    tables: HashMap<String, WrittenOut>,
}

/// A query that is being visited.
#[derive(Default)]
struct InQuery {
    /// The names of its common table expressions that are not visited yet. They are visited before
    /// the rest of the query.
    tables: VecDeque<String>,
    total: WrittenOut,
}

/// The size of a query in which everything that it names is written out, as the planner does: if
/// 40 common table expressions each name the previous one twice, that makes 2^40 tables.
#[derive(Clone, Copy, Default)]
struct WrittenOut {
    tables: usize,
    depth: usize,
}

impl WrittenOut {
    fn add(&mut self, named: Self) {
        self.tables = self.tables.saturating_add(named.tables);
        self.depth = self.depth.max(named.depth);
    }
}

impl VisitorMut for Shaper {
    type Break = StatementError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<StatementError> {
        self.expressions += 1;
        balance_expression(expr)?;
        limit("expressions", self.expressions, EXPRESSIONS_MAX)
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<StatementError> {
        self.expressions -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<StatementError> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let tables = tables.map(|table| table.alias.name.value.to_lowercase());
        self.queries.push(InQuery {
            tables: tables.collect(),
            total: WrittenOut::default(),
        });
        if let Some(OrderByKind::Expressions(by)) = query.order_by.as_ref().map(|by| &by.kind) {
            width("ORDER BY", by.len())?;
        }
        let mut bodies = vec![(1, query.body.as_mut())];
        while let Some((depth, body)) = bodies.pop() {
            balance_sets(body)?;
            if let SetExpr::SetOperation { left, right, .. } = body {
                limit("set operations", depth, SETS_MAX)?;
                bodies.extend([(depth + 1, left.as_mut()), (depth + 1, right.as_mut())]);
            } else if let SetExpr::Values(values) = body {
                width(
                    "a row of VALUES",
                    values.rows.first().map_or(0, |row| row.len()),
                )?;
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<StatementError> {
        let Some(InQuery { mut total, .. }) = self.queries.pop() else {
            return ControlFlow::Continue(());
        };
        total.tables = total.tables.saturating_add(1);
        total.depth += 1;
        if total.tables > NODES_MAX {
            return ControlFlow::Break(StatementError::TooManyNodes { max: NODES_MAX });
        }
        limit("common table expressions", total.depth, TABLES_MAX)?;
        let Some(outer) = self.queries.last_mut() else {
            return ControlFlow::Continue(());
        };
        match outer.tables.pop_front() {
            Some(name) => {
                let known = self.tables.entry(name).or_default();
                known.tables = known.tables.max(total.tables);
                known.depth = known.depth.max(total.depth);
            }
            None => outer.total.add(total),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<StatementError> {
        let table = match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => self.tables.get(&name.value.to_lowercase()),
            _ => None,
        };
        if let Some(query) = self.queries.last_mut() {
            query.total.add(table.copied().unwrap_or(WrittenOut {
                tables: 1,
                depth: 0,
            }));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<StatementError> {
        let tables: usize = select.from.iter().map(|from| 1 + from.joins.len()).sum();
        limit("joins", tables, JOINS_MAX)?;
        if let GroupByExpr::Expressions(by, _) = &select.group_by {
            width("GROUP BY", by.len())?;
        }
        width("SELECT", select.projection.len())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<StatementError> {
        self.factors += 1;
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = factor
        {
            limit("joins", table_with_joins.joins.len(), JOINS_MAX)?;
        }
        limit("tables in brackets", self.factors, EXPRESSIONS_MAX)
    }

    fn post_visit_table_factor(&mut self, _: &mut TableFactor) -> ControlFlow<StatementError> {
        self.factors -= 1;
        ControlFlow::Continue(())
    }
}

fn limit(what: &'static str, depth: usize, max: usize) -> ControlFlow<StatementError> {
    if depth > max {
        return ControlFlow::Break(StatementError::TooDeep { what, max });
    }
    ControlFlow::Continue(())
}

fn width(what: &'static str, columns: usize) -> ControlFlow<StatementError> {
    if columns > COLUMNS_MAX {
        let max = COLUMNS_MAX;
        return ControlFlow::Break(StatementError::TooWide { what, columns, max });
    }
    ControlFlow::Continue(())
}

/// Balances the chain of ANDs or ORs that begins at `expr`, if it is long.
fn balance_expression(expr: &mut Expr) -> ControlFlow<StatementError> {
    let nothing = ControlFlow::Continue(());
    let Expr::BinaryOp { op, .. } = &*expr else {
        return nothing;
    };
    let op = op.clone();
    if !matches!(op, BinaryOperator::And | BinaryOperator::Or) {
        return nothing;
    }
    let next = |expr: &Expr| -> bool { matches!(expr, Expr::BinaryOp { op: o, .. } if *o == op) };
    let mut link = &*expr;
    for _ in 0..CHAIN_KEPT {
        let Expr::BinaryOp { left, .. } = link else {
            return nothing;
        };
        if !next(left) {
            return nothing;
        }
        link = left;
    }
    let mut operands = Vec::new();
    let mut rest = mem::replace(expr, Expr::Value(Value::Null.into()));
    loop {
        match rest {
            Expr::BinaryOp { left, op: o, right } if o == op => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    let operands = as_lists(operands, &op);
    limit(
        "different operands of AND or OR",
        operands.len(),
        OPERANDS_MAX,
    )?;
    let join = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    };
    if let Some(balanced) = balanced(operands, join) {
        *expr = balanced;
    }
    nothing
}

/// Merges neighbours that compare the same column with literals of one kind into a list: `a = 1 OR
/// a = 2` becomes `a IN (1, 2)`, and `a <> 1 AND a <> 2` becomes `a NOT IN (1, 2)`. DataFusion
/// does the same, but in time quadratic in their number.
fn as_lists(operands: Vec<Expr>, op: &BinaryOperator) -> Vec<Expr> {
    let (comparison, negated) = match op {
        BinaryOperator::Or => (BinaryOperator::Eq, false),
        _ => (BinaryOperator::NotEq, true),
    };
    let mut merged: Vec<Expr> = Vec::new();
    // The kind of literals in the last of `merged`, if this function made that list.
    let mut open: Option<LiteralKind> = None;
    for operand in operands {
        let Expr::BinaryOp { left, op, right } = operand else {
            open = None;
            merged.push(operand);
            continue;
        };
        let kind = literal_kind(&right).filter(|_| op == comparison && is_column(&left));
        match (merged.last_mut(), kind) {
            (Some(Expr::InList { expr, list, .. }), Some(kind))
                if open == Some(kind) && is_same_column(expr, &left) =>
            {
                list.push(*right);
            }
            (_, Some(kind)) => {
                open = Some(kind);
                merged.push(Expr::InList {
                    expr: left,
                    list: vec![*right],
                    negated,
                });
            }
            (_, None) => {
                open = None;
                merged.push(Expr::BinaryOp { left, op, right });
            }
        }
    }
    merged
}

/// Literals of one kind get the same type, whatever they are compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LiteralKind {
    Integer,
    Text,
}

fn literal_kind(expr: &Expr) -> Option<LiteralKind> {
    let Expr::Value(value) = expr else {
        return None;
    };
    match &value.value {
        Value::Number(digits, _)
            if digits.len() <= INTEGER_DIGITS_MAX && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            Some(LiteralKind::Integer)
        }
        Value::SingleQuotedString(_) => Some(LiteralKind::Text),
        _ => None,
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Compares columns by name, not by where the names stand in the text.
fn is_same_column(one: &Expr, other: &Expr) -> bool {
    fn parts(expr: &Expr) -> &[Ident] {
        match expr {
            Expr::Identifier(name) => std::slice::from_ref(name),
            Expr::CompoundIdentifier(names) => names,
            _ => &[],
        }
    }
    let same = |(one, other): (&Ident, &Ident)| {
        one.value == other.value && one.quote_style == other.quote_style
    };
    let (one, other) = (parts(one), parts(other));
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// Numbers of at most this many digits are 64-bit integers.
const INTEGER_DIGITS_MAX: usize = 18;

/// Balances the chain of UNIONs of one kind that begins at `body`, if it is long.
fn balance_sets(body: &mut SetExpr) -> ControlFlow<StatementError> {
    fn links(body: &SetExpr, kind: SetQuantifier) -> Option<&SetExpr> {
        match body {
            SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier,
                left,
                ..
            } if *set_quantifier == kind => Some(left),
            _ => None,
        }
    }
    let nothing = ControlFlow::Continue(());
    let SetExpr::SetOperation { set_quantifier, .. } = &*body else {
        return nothing;
    };
    let kind = *set_quantifier;
    if !matches!(
        kind,
        SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None
    ) {
        return nothing;
    }
    let mut link = &*body;
    for _ in 0..CHAIN_KEPT {
        match links(link, kind) {
            Some(left) => link = left,
            None => return nothing,
        }
    }
    let empty = SetExpr::Values(datafusion::sql::sqlparser::ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows: vec![],
    });
    let operands = operands_of(mem::replace(body, empty), kind);
    limit("operands of UNION", operands.len(), OPERANDS_MAX)?;
    let join = |left, right| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: kind,
        left: Box::new(left),
        right: Box::new(right),
    };
    if let Some(balanced) = balanced(operands, join) {
        *body = balanced;
    }
    nothing
}

/// The operands of a chain of UNIONs of one kind, in order.
fn operands_of(chain: SetExpr, kind: SetQuantifier) -> Vec<SetExpr> {
    let mut operands = Vec::new();
    let mut rest = chain;
    loop {
        match rest {
            SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier,
                left,
                right,
            } if set_quantifier == kind => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    operands
}

/// Joins neighbours pairwise, in order, until one operand is left.
fn balanced<T>(mut operands: Vec<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    while operands.len() > 1 {
        let mut pairs = Vec::with_capacity(operands.len().div_ceil(2));
        let mut left = operands.into_iter();
        while let Some(first) = left.next() {
            pairs.push(match left.next() {
                Some(second) => join(first, second),
                None => first,
            });
        }
        operands = pairs;
    }
    operands.pop()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn shaped(sql: &str) -> Result<String, StatementError> {
        let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
        shape(&mut statements[0])?;
        Ok(statements[0].to_string())
    }

    fn chain(parts: usize, part: impl Fn(usize) -> String, by: &str) -> String {
        (0..parts).map(part).collect::<Vec<_>>().join(by)
    }

    #[test]
    fn long_chains_keep_their_operands_in_order() {
        for by in [" AND ", " OR "] {
            let sql = format!("SELECT {}", chain(1_000, |i| format!("f({i})"), by));
            assert_eq!(shaped(&sql).unwrap(), sql);
        }
        for by in [" UNION ", " UNION ALL "] {
            let sql = chain(1_000, |i| format!("SELECT {i}"), by);
            // A balanced tree may be printed with brackets around its right sides; only the order
            // matters.
            let printed = shaped(&sql).unwrap().replace(['(', ')'], "");
            assert_eq!(printed, sql);
        }
    }

    #[test]
    fn comparisons_of_one_column_become_a_list() {
        let short = "SELECT a = 1 OR a = 2";
        assert_eq!(shaped(short).unwrap(), short);
        let sql = format!(
            "SELECT {} OR b = 'x'",
            chain(300, |i| format!("a = {i}"), " OR ")
        );
        let list = chain(300, |i| i.to_string(), ", ");
        assert_eq!(
            shaped(&sql).unwrap(),
            format!("SELECT a IN ({list}) OR b IN ('x')")
        );
        let sql = format!("SELECT {}", chain(300, |i| format!("t.a <> {i}"), " AND "));
        assert_eq!(shaped(&sql).unwrap(), format!("SELECT t.a NOT IN ({list})"));
        // Numbers that are not integers stay apart.
        let sql = format!("SELECT {}", chain(300, |i| format!("a = {i}.5"), " OR "));
        assert_eq!(shaped(&sql).unwrap(), sql);
    }

    /// Common table expressions, each of which names the previous one.
    fn ctes(count: usize, from: &str) -> String {
        let one = |i: usize| {
            let before = from.replace("{}", &i.to_string());
            format!("c{} AS (SELECT * FROM {before})", i + 1)
        };
        format!(
            "WITH c0 AS (SELECT 1), {} SELECT * FROM c{count}",
            chain(count, one, ", ")
        )
    }

    #[test]
    fn a_query_that_is_large_when_written_out_is_refused() {
        let twice = "c{} a, (WITH x AS (SELECT * FROM C{}) SELECT * FROM x) b";
        assert!(shaped(&ctes(10, twice)).is_ok());
        assert!(shaped(&ctes(100, "c{}")).is_ok());
        assert!(matches!(
            shaped(&ctes(40, twice)),
            Err(StatementError::TooManyNodes { .. })
        ));
    }

    #[test]
    fn a_deep_tree_is_refused() {
        for sql in [
            format!("SELECT {}", chain(1_100, |i| i.to_string(), " + ")),
            format!("SELECT 1 FROM {}", chain(300, |_| "t".to_owned(), ", ")),
            chain(300, |i| format!("SELECT {i}"), " EXCEPT "),
            ctes(300, "c{}"),
            format!("SELECT {}", chain(11_000, |i| format!("f({i})"), " OR ")),
        ] {
            let refused = shaped(&sql);
            assert!(
                matches!(refused, Err(StatementError::TooDeep { .. })),
                "{sql}"
            );
        }
    }
}
