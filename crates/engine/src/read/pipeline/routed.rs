//! How is the dynamic filter of a join that was built in partitions evaluated?
//!
//! Such a join pushes `CASE hash(keys) % n WHEN 0 THEN … WHEN 1 THEN … ELSE … END` down into the
//! scan of its probe side. DataFusion's CASE interleaves the branches' results value by value,
//! which costs more than the look-ups (a quarter of all processor time of the TPC-H mix in
//! memory). Here each branch is evaluated over its own rows only, and its bits are put at the
//! positions of these rows.
//! I1: the mask equals the expression's own, with NULL as false.

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, or, prep_null_mask_filter};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Literal};

use super::bits::scatter;

/// The mask of `expr`; `None` if it is not such a CASE.
///
/// # Errors
/// Errors of the branches.
pub(super) fn mask(expr: &dyn PhysicalExpr, input: &RecordBatch) -> Result<Option<BooleanArray>> {
    let Some(case) = expr.downcast_ref::<CaseExpr>() else {
        return Ok(None);
    };
    let branches: Option<Vec<u64>> = case
        .when_then_expr()
        .iter()
        .map(|(when, _)| number(when.as_ref()))
        .collect();
    let otherwise = match case.else_expr() {
        None => Some(false),
        Some(otherwise) => truth(otherwise.as_ref()),
    };
    let (Some(branches), Some(otherwise), Some(route)) = (branches, otherwise, case.expr()) else {
        return Ok(None);
    };
    let Some(route) = routes(route.as_ref(), input)? else {
        return Ok(None);
    };
    let rows = input.num_rows();
    let mut mask: Option<BooleanArray> = None;
    let mut add = |bits: BooleanArray| -> Result<()> {
        mask = Some(match mask.take() {
            None => bits,
            Some(before) => or(&before, &bits)?,
        });
        Ok(())
    };
    for (number, (_, then)) in branches.iter().zip(case.when_then_expr()) {
        let mine = BooleanBuffer::collect_bool(rows, |row| route[row] == *number);
        let mine = BooleanArray::from(mine);
        if mine.true_count() == 0 {
            continue;
        }
        let filter = FilterBuilder::new(&mine).build();
        let passes = then.evaluate(&filter.filter_record_batch(input)?)?;
        let passes = passes.into_array(filter.count())?;
        let passes = as_boolean_array(&passes)?;
        add(match passes.null_count() {
            0 => scatter(&mine, passes),
            _ => scatter(&mine, &prep_null_mask_filter(passes)),
        })?;
    }
    if otherwise {
        let none = |row: usize| !branches.contains(&route[row]);
        add(BooleanBuffer::collect_bool(rows, none).into())?;
    }
    Ok(Some(
        mask.unwrap_or_else(|| BooleanBuffer::new_unset(rows).into()),
    ))
}

/// The partition of each row; `None` if the expression is not `hash % n`.
fn routes(expr: &dyn PhysicalExpr, input: &RecordBatch) -> Result<Option<Vec<u64>>> {
    let Some(modulo) = expr.downcast_ref::<BinaryExpr>() else {
        return Ok(None);
    };
    let count = number(modulo.right().as_ref()).filter(|count| *count > 0);
    let (Operator::Modulo, Some(count)) = (modulo.op(), count) else {
        return Ok(None);
    };
    let hashes = modulo.left().evaluate(input)?;
    let hashes = hashes.into_array(input.num_rows())?;
    if hashes.data_type() != &DataType::UInt64 || hashes.null_count() > 0 {
        return Ok(None);
    }
    let hashes: &UInt64Array = hashes.as_primitive::<UInt64Type>();
    let hashes = hashes.values().iter();
    Ok(Some(if count.is_power_of_two() {
        hashes.map(|hash| hash & (count - 1)).collect()
    } else {
        hashes.map(|hash| hash % count).collect()
    }))
}

fn number(expr: &dyn PhysicalExpr) -> Option<u64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::UInt64(number) => *number,
        _ => None,
    }
}

fn truth(expr: &dyn PhysicalExpr) -> Option<bool> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Boolean(truth) => Some(truth.unwrap_or(false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{binary, case, col, lit};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_mask_is_the_expressions_own(
            rows in prop::collection::vec((0_u64..100, prop::option::of(0_i64..10)), 1..300),
            count in 1_u64..5,
            known in 0_u64..5,
            otherwise in prop::option::of(any::<bool>()),
        ) {
            let schema = Schema::new(vec![
                Field::new("hash", DataType::UInt64, false),
                Field::new("key", DataType::Int64, true),
            ]);
            let hashes = UInt64Array::from_iter_values(rows.iter().map(|row| row.0));
            let keys = Int64Array::from_iter(rows.iter().map(|row| row.1));
            let columns: Vec<ArrayRef> = vec![Arc::new(hashes), Arc::new(keys)];
            let input = RecordBatch::try_new(Arc::new(schema.clone()), columns).unwrap();
            let hash = col("hash", &schema).unwrap();
            let route = binary(hash, Operator::Modulo, lit(count), &schema).unwrap();
            let key = || col("key", &schema).unwrap();
            let branches = (0..known.max(1)).map(|n| {
                let bound = lit(3 + i64::try_from(n).unwrap());
                (lit(n), binary(key(), Operator::Lt, bound, &schema).unwrap())
            });
            let case = case(Some(route), branches.collect(), otherwise.map(lit)).unwrap();
            let own = case.evaluate(&input).unwrap().into_array(rows.len()).unwrap();
            let own = as_boolean_array(&own).unwrap().iter();
            let own: BooleanArray = own.map(|passes| Some(passes == Some(true))).collect();
            prop_assert_eq!(mask(case.as_ref(), &input).unwrap(), Some(own));
        }
    }
}
