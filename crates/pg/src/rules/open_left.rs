//! `'…' IN (a, b)`, `'…' BETWEEN a AND b`: which type has an untyped constant at the left?
//!
//! | at the right | the constant's type |
//! |---|---|
//! | several constants of a list | their common type: PostgreSQL makes an array of them |
//! | another value of a list, a bound | that value's, without its modifier |
//! | texts but for several constants of type `character`, untyped constants | text: it stays as it is |
//!
//! Values of different types are compared one by one. Not here: which blanks of `character(n)`
//! count (`operators/padded.rs`), and ANY and ALL (`analysis/mixed_types.rs`).

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, Expr, ExprSchemable, Operator};

use super::lists;
use crate::casts::{Target, cast_expr};
use crate::operators::padded::{is_padded, unpadded};
use crate::operators::{common, compared, is_of_catalogue, is_unknown, typed};

pub(super) fn in_list(
    given: InList,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let InList {
        expr,
        list,
        negated,
    } = given;
    let within = |like: Option<&FieldRef>, values: Vec<Expr>| {
        let value = Box::new(as_type(&expr, like, config));
        lists::in_list(InList::new(value, values, negated), schema, config)
    };
    let mut all: Option<Expr> = None;
    for (like, values) in by_type(list, schema, config)? {
        let one = within(like.as_ref(), values)?.data;
        all = Some(match all {
            None => one,
            Some(before) if negated => before.and(one),
            Some(before) => before.or(one),
        });
    }
    match all {
        Some(all) => Ok(Transformed::yes(all)),
        None => within(None, vec![]),
    }
}

/// The values of a list by the type in which they are compared with the constant; `None` for those
/// that are compared as texts.
type ByType = Vec<(Option<FieldRef>, Vec<Expr>)>;

fn by_type(list: Vec<Expr>, schema: &DFSchema, config: &ConfigOptions) -> Result<ByType> {
    let is_constant = |value: &Expr| !value.any_column_refs();
    let (mut fields, mut constants) = (vec![], vec![]);
    for value in &list {
        let field = (value.to_field(schema)?.1, is_unknown(value));
        if is_constant(value) {
            constants.push(field.clone());
        }
        fields.push(field);
    }
    // Elements of type `character` have no length.
    let array = match constants.len() {
        0 | 1 => None,
        _ => common(&constants).map(|array| unpadded(&array)),
    };
    let (mut groups, mut nulls): (ByType, _) = (vec![], vec![]);
    for (value, (field, is_open)) in list.into_iter().zip(&fields) {
        if field.data_type().is_null() {
            nulls.push(value);
            continue;
        }
        let of_array = array.as_ref().filter(|_| is_constant(&value));
        let own = (!is_open).then_some(field);
        let is_blank = of_array.is_some_and(|array| is_padded(array));
        let like = of_array.or(own);
        let like = like.filter(|like| is_blank || gives_type(like));
        let value = match *is_open {
            true => as_type(&value, like, config),
            false if is_blank => cast_expr(value, &Target::Bpchar(None), config),
            false => value,
        };
        let mut alike = groups.iter_mut();
        match alike.find(|(held, _)| are_alike(held.as_ref(), like)) {
            Some((_, values)) => values.push(value),
            None => groups.push((like.cloned(), vec![value])),
        }
    }
    // NULL takes any type.
    match groups.first_mut() {
        Some((_, values)) => values.extend(nulls),
        None => groups.push((None, nulls)),
    }
    Ok(groups)
}

pub(super) fn between(
    given: Between,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let Between {
        expr,
        negated,
        low,
        high,
    } = given;
    let like = |bound: &Expr| -> Result<Option<FieldRef>> {
        let field = bound.to_field(schema)?.1;
        Ok((!is_unknown(bound) && gives_type(&field)).then_some(field))
    };
    let (of_low, of_high) = (like(&low)?, like(&high)?);
    if are_alike(of_low.as_ref(), of_high.as_ref()) {
        let value = Box::new(as_type(&expr, of_low.as_ref(), config));
        let between = lists::between(Between::new(value, negated, low, high), schema)?;
        return Ok(Transformed::yes(between.data));
    }
    let side = |op: Operator, like: Option<&FieldRef>, bound: Expr| -> Result<Expr> {
        let value = as_type(&expr, like, config);
        let (held, other) = (value.get_type(schema)?, bound.get_type(schema)?);
        Ok(compared(op, (value, &held), (bound, &other)))
    };
    let above = side(Operator::GtEq, of_low.as_ref(), *low)?;
    let below = side(Operator::LtEq, of_high.as_ref(), *high)?;
    let within = above.and(below);
    Ok(Transformed::yes(if negated { !within } else { within }))
}

fn as_type(constant: &Expr, like: Option<&FieldRef>, config: &ConfigOptions) -> Expr {
    match like {
        Some(like) => typed(constant.clone(), like, config),
        None => constant.clone(),
    }
}

/// Whether a constant beside a value of this type is read as one. Texts of arrays of several
/// dimensions are not read.
fn gives_type(field: &Field) -> bool {
    let is_of_lists = match field.data_type() {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _) => element.data_type().is_nested(),
        _ => false,
    };
    let target = Target::of_field(field);
    let is_read = target.is_some_and(|target| !target.is_text());
    is_read && !is_of_lists && !is_of_catalogue(field)
}

fn are_alike(a: Option<&FieldRef>, b: Option<&FieldRef>) -> bool {
    let of = |field: &FieldRef| {
        Target::of_field(field).map(|target| match target.unmodified() {
            Target::NumericOf(..) => Target::Numeric(None),
            other => other,
        })
    };
    match (a, b) {
        (Some(a), Some(b)) => {
            let is_nested = a.data_type().is_nested() || b.data_type().is_nested();
            of(a) == of(b) && (!is_nested || a.data_type() == b.data_type())
        }
        (None, None) => true,
        _ => false,
    }
}
