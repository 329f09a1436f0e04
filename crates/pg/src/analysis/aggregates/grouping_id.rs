//! Functions of an aggregate's column `__grouping_id`, which encodes the keys a row is grouped by.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int32Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Column, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};

use crate::casts::arrow_cast;

/// The key `column` at position `place` of its aggregate.
///
/// DataFusion assumes that what is constant or equal below grouping sets is so above them,
/// although a key is NULL in rows that are not grouped by it, and drops sorts by it. A function of
/// the grouping id and the position is neither constant nor equal. Delete this function once
/// `AggregateExec` drops such properties.
pub(in crate::analysis) fn key(column: Expr, place: usize) -> Expr {
    let place = lit(u64::try_from(place).unwrap_or(u64::MAX));
    function(What::Key).call(vec![column, id(), place])
}

/// `grouping(…)`: one bit per key, set if the row is not grouped by it; the last key has the
/// lowest bit. Each key is given by its bit in the id.
pub(in crate::analysis) fn grouping(bits: impl Iterator<Item = usize>) -> Expr {
    let bits = bits.map(|bit| lit(u64::try_from(bit).unwrap_or(u64::MAX)));
    function(What::Grouping).call(std::iter::once(id()).chain(bits).collect())
}

fn id() -> Expr {
    Expr::Column(Column::new_unqualified(Aggregate::INTERNAL_GROUPING_ID))
}

/// The functions that the rule calls.
pub(super) fn called() -> [ScalarUDF; 2] {
    [What::Key, What::Grouping].map(function)
}

fn function(what: What) -> ScalarUDF {
    ScalarUDF::new_from_impl(OfId {
        what,
        signature: Signature::variadic_any(Volatility::Immutable),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Key,
    Grouping,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfId {
    what: What,
    signature: Signature,
}

impl ScalarUDFImpl for OfId {
    fn name(&self) -> &'static str {
        match self.what {
            What::Key => "grouped_key",
            What::Grouping => "grouping_bits",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{} needs its arguments' fields", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(match (self.what, args.arg_fields.first()) {
            (What::Key, Some(key)) => Arc::new(key.as_ref().clone().with_nullable(true)),
            _ => Arc::new(Field::new(self.name(), DataType::Int32, false)),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((first, rest)) = args.args.split_first() else {
            return internal_err!("{} needs arguments", self.name());
        };
        if self.what == What::Key {
            return Ok(first.clone());
        }
        let ids = arrow_cast(&first.to_array(args.number_rows)?, &DataType::UInt64)?;
        let bits = rest.iter().map(|bit| {
            let bit = arrow_cast(&bit.to_array(1)?, &DataType::UInt64)?;
            Ok(bit.as_primitive::<UInt64Type>().value(0))
        });
        let bits: Vec<u64> = bits.collect::<Result<_>>()?;
        let grouping = |id: u64| {
            let each = bits.iter().map(|bit| i32::from(id >> bit & 1 == 1));
            each.fold(0_i32, |found, bit| found << 1 | bit)
        };
        let ids = ids.as_primitive::<UInt64Type>();
        let found = Int32Array::from_iter_values(ids.values().iter().map(|id| grouping(*id)));
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}
