//! TABLESAMPLE: a subquery that keeps each row with the probability asked for.
//!
//! | from | to |
//! |---|---|
//! | `t TABLESAMPLE SYSTEM (10)` | `(SELECT * FROM t WHERE random() * 100 < 10) AS t` |
//! | `t TABLESAMPLE BERNOULLI (10) REPEATABLE (7)` | the same with a hash of the row and the seed |
//!
//! PostgreSQL's SYSTEM takes or leaves whole pages; here both methods decide about single rows.
//! With a seed equal rows stay together, and a table that has not changed gives the same sample.
//! Not here: percentages that are expressions, which are refused, and other methods.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, SetExpr, TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleMethod,
    UnaryOperator, Value, VisitorMut,
};

use super::ast::{call, expression, literal_text, template, text};
use crate::functions::FAIL;

/// The alias of the table in the subquery. No statement can use this name.
const SAMPLED: &str = "sampled\u{1f}";

pub(super) struct Samples;

impl VisitorMut for Samples {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(sampled) = sampled(factor) {
            *factor = sampled;
        }
        ControlFlow::Continue(())
    }
}

fn sampled(factor: &TableFactor) -> Option<TableFactor> {
    let mut table = factor.clone();
    let TableFactor::Table {
        name,
        alias,
        args: None,
        sample,
        ..
    } = &mut table
    else {
        return None;
    };
    let (TableSampleKind::BeforeTableAlias(wanted) | TableSampleKind::AfterTableAlias(wanted)) =
        sample.take()?;
    let condition = condition(&wanted)?;
    let outer = match alias.take() {
        Some(alias) => alias,
        None => aliased(name.0.last()?.as_ident()?.clone()),
    };
    *alias = Some(aliased(Ident::with_quote('"', SAMPLED)));
    let mut query = template("SELECT * FROM t")?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    select.from.first_mut()?.relation = table;
    select.selection = Some(condition);
    Some(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(outer),
        sample: None,
    })
}

fn aliased(name: Ident) -> TableAlias {
    TableAlias {
        explicit: true,
        name,
        columns: vec![],
        at: None,
    }
}

/// Whether a row is in the sample; `None` for a clause that is refused.
fn condition(sample: &TableSample) -> Option<Expr> {
    let is_known = matches!(
        sample.name,
        Some(TableSampleMethod::Bernoulli | TableSampleMethod::System)
    );
    let quantity = sample.quantity.as_ref()?;
    let is_plain = quantity.parenthesized && quantity.unit.is_none() && sample.bucket.is_none();
    if !is_known || !is_plain || sample.offset.is_some() {
        return None;
    }
    let Some(percent) = number(&quantity.value)? else {
        return Some(fail("TABLESAMPLE parameter cannot be null"));
    };
    if !(0.0..=100.0).contains(&percent) {
        return Some(fail("sample percentage must be between 0 and 100"));
    }
    let percent = format!("CAST('{percent}' AS double precision)");
    let Some(seed) = &sample.seed else {
        return expression(&format!("random() * 100 < {percent}"));
    };
    let seed = number(&Expr::Value(seed.value.clone()))??;
    let seed = seed.to_bits().cast_signed();
    expression(&format!(
        "(hashtextextended(CAST(\"{SAMPLED}\" AS text), CAST('{seed}' AS bigint)) & 2147483647) \
         < {percent} / 100 * 2147483648"
    ))
}

/// The value of a constant; `Some(None)` for NULL.
fn number(constant: &Expr) -> Option<Option<f64>> {
    match constant {
        Expr::Nested(inner) => number(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => Some(number(expr)?.map(|number| -number)),
        Expr::Value(value) => match &value.value {
            Value::Null => Some(None),
            Value::Number(digits, _) => Some(Some(digits.parse().ok()?)),
            _ => Some(Some(literal_text(constant)?.trim().parse().ok()?)),
        },
        _ => None,
    }
}

fn fail(message: &str) -> Expr {
    call(FAIL, vec![text("2202H"), text(message)])
}
