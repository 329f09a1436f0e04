//! `x IN (…)`, `x BETWEEN a AND b` and `x IS DISTINCT FROM a` over numbers of mixed types.
//!
//! | expression | compared |
//! |---|---|
//! | IN with one value, BETWEEN, IS DISTINCT FROM | like operators (`operators/meeting.rs`) |
//! | IN with several constants | the constants in their common type |
//! | IN over numerics that no type holds together | value by value |
//!
//! A list compares floats by their bits, in which -0.0 and 0.0 differ: `x + 0.0` has only one
//! zero.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, lit};
use datafusion::scalar::ScalarValue;

use crate::casts::{Target, cast_expr};
use crate::operators::{ComparedIn, Meeting, common, compared, is_unknown, meeting, met};

pub(super) fn in_list(
    mut list: InList,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let mut types = vec![list.expr.get_type(schema)?];
    for value in &list.list {
        types.push(value.get_type(schema)?);
    }
    let known = || types.iter().filter(|held| !held.is_null());
    if !known().all(DataType::is_numeric) {
        return Ok(Transformed::no(Expr::InList(list)));
    }
    let mut changed = false;
    if known().any(|held| *held == DataType::Float32) {
        changed = constants_as_real(&mut list, &mut types, schema, config)?;
    }
    match meeting(&types) {
        Meeting::AsTheyAre => {}
        Meeting::In(held) => {
            *list.expr = met(std::mem::take(&mut list.expr), &types[0], &held);
            for (value, from) in list.list.iter_mut().zip(&types[1..]) {
                *value = met(std::mem::take(value), from, &held);
            }
            types.fill(held);
            changed = true;
        }
        Meeting::Apart => return Ok(Transformed::yes(each(list, &types))),
    }
    if types[0].is_floating() && list.list.iter().any(may_be_zero) {
        list = one_zero(list, schema)?;
        changed = true;
    }
    Ok(Transformed::new_transformed(Expr::InList(list), changed))
}

/// The type of the untyped constants of a list. In PostgreSQL several constants form one array, of
/// their and the value's common type; a single one has the value's.
pub(super) fn constants_type(list: &InList, schema: &DFSchema) -> Result<FieldRef> {
    let fields = with_constants(list, schema)?;
    let own = Arc::clone(&fields[0].0);
    let united = (fields.len() > 2).then(|| common(&fields)).flatten();
    let differs = |field: &FieldRef| {
        let held = field.data_type();
        held != own.data_type() && (held.is_numeric() || held.is_temporal())
    };
    Ok(united.filter(differs).unwrap_or(own))
}

/// The fields of the value and of the constants of a list, and whether they are untyped.
fn with_constants(list: &InList, schema: &DFSchema) -> Result<Vec<(FieldRef, bool)>> {
    let constants = list.list.iter().filter(|value| is_constant(value));
    let all = std::iter::once(list.expr.as_ref()).chain(constants);
    let fields = all.map(|value| Ok((value.to_field(schema)?.1, is_unknown(value))));
    fields.collect()
}

fn is_constant(value: &Expr) -> bool {
    !value.any_column_refs()
}

/// In PostgreSQL several constants form one array, of `real` if that is their common type.
fn constants_as_real(
    list: &mut InList,
    types: &mut [DataType],
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<bool> {
    let fields = with_constants(list, schema)?;
    let is_real = common(&fields).is_some_and(|field| *field.data_type() == DataType::Float32);
    if fields.len() < 3 || !is_real {
        return Ok(false);
    }
    let mut changed = false;
    for (value, held) in list.list.iter_mut().zip(&mut types[1..]) {
        if is_constant(value) && *held != DataType::Float32 && !held.is_null() {
            *value = cast_expr(std::mem::take(value), &Target::Float4, config);
            *held = DataType::Float32;
            changed = true;
        }
    }
    Ok(changed)
}

/// Replaces the list with comparisons with its values.
fn each(list: InList, types: &[DataType]) -> Expr {
    let value = (list.expr.as_ref(), &types[0]);
    let equal = list
        .list
        .into_iter()
        .zip(&types[1..])
        .map(|(other, held)| compared(Operator::Eq, (value.0.clone(), value.1), (other, held)));
    let any = equal.reduce(Expr::or).unwrap_or_else(|| lit(false));
    if list.negated { !any } else { any }
}

pub(super) fn between(between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let [value, low, high] =
        [&between.expr, &between.low, &between.high].map(|side| side.get_type(schema));
    let (value, low, high) = (value?, low?, high?);
    if meeting(&[value.clone(), low.clone(), high.clone()]) == Meeting::AsTheyAre {
        return Ok(Transformed::no(Expr::Between(between)));
    }
    let above = compared(
        Operator::GtEq,
        (between.expr.as_ref().clone(), &value),
        (*between.low, &low),
    );
    let below = compared(
        Operator::LtEq,
        (*between.expr, &value),
        (*between.high, &high),
    );
    let within = above.and(below);
    Ok(Transformed::yes(if between.negated {
        !within
    } else {
        within
    }))
}

/// `IS DISTINCT FROM` and its negation.
pub(super) fn distinct(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (a, b) = (
        binary.left.get_type(schema)?,
        binary.right.get_type(schema)?,
    );
    let Some(compared) = ComparedIn::of(&[a.clone(), b.clone()]) else {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    };
    let left = Box::new(compared.cast(*binary.left, &a));
    let right = Box::new(compared.cast(*binary.right, &b));
    let met = BinaryExpr::new(left, binary.op, right);
    Ok(Transformed::yes(Expr::BinaryExpr(met)))
}

/// Whether an element of a list may be zero.
fn may_be_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => may_be_zero(&cast.expr),
        Expr::Literal(value, _) => match value {
            ScalarValue::Null => false,
            value => {
                value
                    .cast_to(&DataType::Float64)
                    .is_ok_and(|value| value == ScalarValue::Float64(Some(0.0)))
                    || value.is_null()
            }
        },
        _ => true,
    }
}

fn one_zero(list: InList, schema: &DFSchema) -> Result<InList> {
    let plus_zero = |expr: Expr| -> Result<Expr> {
        let zero = match expr.get_type(schema)? {
            DataType::Float32 => lit(0.0_f32),
            DataType::Float64 => lit(0.0_f64),
            _ => return Ok(expr),
        };
        let sum = BinaryExpr::new(Box::new(expr), Operator::Plus, Box::new(zero));
        Ok(Expr::BinaryExpr(sum))
    };
    let values = list.list.into_iter().map(plus_zero);
    let values = values.collect::<Result<_>>()?;
    let value = Box::new(plus_zero(*list.expr)?);
    Ok(InList::new(value, values, list.negated))
}
