//! How are texts compared if one of them is `character(n)`?
//!
//! | compared with `character(n)` | operator | significant blanks |
//! |---|---|---|
//! | `character(n)` of the same n | `character` | all: both are padded |
//! | another `character`, `varchar`, an untyped constant | `character` | none |
//! | `text` | `text` | those of the text |
//!
//! In PostgreSQL, several constants of an IN list are one array, with the common type of the
//! constants and the value, which is the value's type.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::config::ConfigOptions;
use datafusion::functions::string::rtrim;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::logical_plan::{Join, JoinConstraint};
use datafusion::logical_expr::{Between, Expr, ExprSchemable, Operator, binary_expr};

use super::is_unknown;
use crate::casts::{PG_TYPE, Target, cast_expr};
use crate::functions::scalar::{is_text, marked_type};

/// The sides whose trailing blanks are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trimmed {
    Left,
    Right,
    Both,
}

impl Trimmed {
    /// `None` if the values are compared unchanged.
    pub(crate) fn of((left, a): (&Expr, &Field), (right, b): (&Expr, &Field)) -> Option<Self> {
        Self::of_fields((a, is_unknown(left)), (b, is_unknown(right)))
    }

    pub(crate) fn of_fields(
        (a, a_open): (&Field, bool),
        (b, b_open): (&Field, bool),
    ) -> Option<Self> {
        let (left, right) = (is_padded(a), is_padded(b));
        let are_texts = [a, b].iter().all(|field| is_text(field.data_type()));
        if !are_texts || (!left && !right) {
            return None;
        }
        let length = a.metadata().get(PG_TYPE).filter(|name| name.contains('('));
        if length.is_some() && a.metadata() == b.metadata() {
            return None;
        }
        let takes_part = |field, is_open| is_open || is_padded(field) || is_varying(field);
        Some(match (takes_part(a, a_open), takes_part(b, b_open)) {
            (true, true) => Self::Both,
            _ if left => Self::Left,
            _ => Self::Right,
        })
    }

    pub(crate) fn sides(self, left: Expr, right: Expr) -> (Expr, Expr) {
        (
            if self == Self::Right {
                left
            } else {
                trimmed(left)
            },
            if self == Self::Left {
                right
            } else {
                trimmed(right)
            },
        )
    }
}

pub(crate) fn is_padded(field: &Field) -> bool {
    marked_type(field) == Some("bpchar")
}

fn is_varying(field: &Field) -> bool {
    marked_type(field) == Some("varchar")
}

fn trimmed(expr: Expr) -> Expr {
    rtrim().call(vec![expr])
}

/// `None` for an untyped parameter.
fn field(expr: &Expr, schema: &DFSchema) -> Option<FieldRef> {
    Some(expr.to_field(schema).ok()?.1)
}

/// The type of a constant beside `character(n)`, which is not padded to n.
pub(crate) fn unpadded(field: &FieldRef) -> FieldRef {
    match Target::of_field(field) {
        Some(Target::Bpchar(Some(_))) => {
            let held = field.data_type().clone();
            Arc::new(Target::Bpchar(None).field(field.name(), held, true))
        }
        _ => Arc::clone(field),
    }
}

/// `left op right`; `None` if the values are compared unchanged.
pub(crate) fn compared(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (a, b) = (field(left, schema)?, field(right, schema)?);
    let which = Trimmed::of((left, &a), (right, &b))?;
    let (left, right) = which.sides(left.clone(), right.clone());
    Some(binary_expr(left, op, right))
}

/// See [`compared`].
pub(crate) fn between(given: &Between, schema: &DFSchema) -> Option<Expr> {
    let value = given.expr.as_ref();
    let above = compared(value, Operator::GtEq, &given.low, schema);
    let below = compared(value, Operator::LtEq, &given.high, schema);
    if above.is_none() && below.is_none() {
        return None;
    }
    let plain = |op, bound: &Expr| binary_expr(value.clone(), op, bound.clone());
    let above = above.unwrap_or_else(|| plain(Operator::GtEq, &given.low));
    let below = below.unwrap_or_else(|| plain(Operator::LtEq, &given.high));
    let within = above.and(below);
    Some(if given.negated { !within } else { within })
}

/// See [`compared`].
pub(crate) fn in_list(given: &InList, schema: &DFSchema) -> Option<Expr> {
    let held = field(&given.expr, schema)?;
    let is_constant = |value: &&Expr| !value.any_column_refs();
    let are_array = given.list.iter().filter(is_constant).count() > 1;
    // The constants compared with the value, and with the value without trailing blanks.
    let mut is_any = false;
    let (mut plain, mut without) = (vec![], vec![]);
    for value in &given.list {
        let own = field(value, schema)?;
        let which = Trimmed::of((&given.expr, &held), (value, &own));
        is_any |= which.is_some();
        let is_of_array = are_array && is_constant(&value);
        let is_trimmed = match which {
            Some(Trimmed::Both | Trimmed::Right) => true,
            Some(Trimmed::Left) => is_of_array,
            None => is_padded(&own),
        };
        let element = match is_trimmed {
            true => trimmed(value.clone()),
            false => value.clone(),
        };
        if is_padded(&held) || (which == Some(Trimmed::Both) && !is_of_array) {
            without.push(element);
        } else {
            plain.push(element);
        }
    }
    if !is_any {
        return None;
    }
    let within = |value: Expr, list: Vec<Expr>| {
        let list = InList::new(Box::new(value), list, given.negated);
        (!list.list.is_empty()).then(|| Expr::InList(list))
    };
    let plain = within(given.expr.as_ref().clone(), plain);
    let without = within(trimmed(given.expr.as_ref().clone()), without);
    match (plain, without) {
        (Some(plain), Some(without)) if given.negated => Some(plain.and(without)),
        (Some(plain), Some(without)) => Some(plain.or(without)),
        (plain, without) => plain.or(without),
    }
}

/// A value and an array with whose elements it is compared; `None` if they are compared unchanged.
pub(crate) fn with_elements(
    (value, held): (&Expr, &Field),
    (array, element): (&Expr, &Field),
    config: &ConfigOptions,
) -> Option<(Expr, Expr)> {
    let which = Trimmed::of_fields((held, is_unknown(value)), (element, false))?;
    let value = match which {
        Trimmed::Right => value.clone(),
        _ => trimmed(value.clone()),
    };
    let list = |of: Target| Target::Array(Box::new(of));
    let array = array.clone();
    let array = match which {
        Trimmed::Left => array,
        _ if is_padded(element) => cast_expr(array, &list(Target::Text), config),
        _ => {
            let padded = cast_expr(array, &list(Target::Bpchar(None)), config);
            cast_expr(padded, &list(Target::Text), config)
        }
    };
    Some((value, array))
}

/// Changes the key columns of a join, which are compared. Returns whether any was changed.
pub(crate) fn join(join: &mut Join) -> bool {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let fields = (
            field(left, join.left.schema()),
            field(right, join.right.schema()),
        );
        let (Some(a), Some(b)) = fields else {
            continue;
        };
        if let Some(which) = Trimmed::of((left, &a), (right, &b)) {
            (*left, *right) = which.sides(std::mem::take(left), std::mem::take(right));
            changed = true;
        }
    }
    if changed {
        // USING requires plain columns.
        join.join_constraint = JoinConstraint::On;
    }
    changed
}
