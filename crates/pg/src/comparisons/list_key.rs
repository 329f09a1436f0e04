//! `list_key(x)`: bytes that replace an array or a row as a key of a join, as the argument of
//! `count(DISTINCT x)`, in a sort whose NULLs are at the opposite end, and wherever values inside
//! of it are compared by keys (`functions/keys.rs`). `a = b` of two arrays compares bytes in all
//! places (`sort_keys.rs`), because a condition becomes a key only as an equality.
//!
//! A hash join in DataFusion passes the minimum and maximum of its keys to the other side, which
//! skips rows outside of them. For arrays the two sides use different orders (55.2,
//! `hash_join/shared_bounds.rs`): NULL elements are less in one, and greater in the other. Bytes
//! have a single order. Once DataFusion uses one order for arrays, they can be keys themselves.
//!
//! For `count(DISTINCT x)` DataFusion keeps arrays and rows as slices of their batches, and counts
//! the memory of the whole batch for each (55.2, `DistinctCountAccumulator`), so the memory grows
//! with the square of the rows. Bytes have an accumulator that copies each value once.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::functions::key_bytes;

/// Converts both sides of a join key to bytes, if they are arrays of one type.
pub(super) fn bytes_of(
    left: &Expr,
    right: &Expr,
    of_left: &DFSchema,
    of_right: &DFSchema,
) -> Option<(Expr, Expr)> {
    let (one, other) = (left.get_type(of_left).ok()?, right.get_type(of_right).ok()?);
    if !matches!(one, DataType::List(_)) || one != other {
        return None;
    }
    Some((list_key(left.clone()), list_key(right.clone())))
}

/// Whether an expression is an array or a row that has bytes.
pub(super) fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|held| {
        let nested = held.is_list() || matches!(held, DataType::Struct(_));
        nested && RowConverter::supports_fields(&[SortField::new(held)])
    })
}

/// The bytes for an array or a row.
pub(super) fn list_key(list: Expr) -> Expr {
    called().call(vec![list])
}

/// The function that gives them.
pub(super) fn called() -> ScalarUDF {
    ScalarUDF::from(ListKey::new())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListKey {
    signature: Signature,
}

impl ListKey {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for ListKey {
    fn name(&self) -> &'static str {
        "list_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        let keys = key_bytes(&values, &args.arg_fields[0])?;
        Ok(ColumnarValue::Array(Arc::new(keys)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int32Array, ListArray, RecordBatch};
    use datafusion::arrow::datatypes::Int32Type;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::physical_plan::displayable;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn arrays_are_keys_of_hash_joins() {
        let builder = SessionStateBuilder::new().with_default_features();
        let context = SessionContext::new_with_state(crate::install(builder).build());
        for name in ["t", "u"] {
            let tags = [Some(vec![Some(1), None]), Some(vec![]), None];
            let tags = ListArray::from_iter_primitive::<Int32Type, _, _>(tags);
            let batch = RecordBatch::try_from_iter([
                ("tags", Arc::new(tags) as ArrayRef),
                ("k", Arc::new(Int32Array::from(vec![1, 2, 3]))),
            ]);
            context.register_batch(name, batch.unwrap()).unwrap();
        }
        for sql in [
            "SELECT t.k FROM t JOIN u ON t.tags = u.tags",
            "SELECT t.k FROM t JOIN u USING (tags)",
            "SELECT t.k FROM t, u WHERE t.tags = u.tags",
            "SELECT t.k FROM t LEFT JOIN u ON t.tags = u.tags AND t.k < u.k",
            "SELECT t.k FROM t FULL JOIN u ON t.tags = u.tags",
            "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.tags = t.tags)",
            "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.tags = t.tags)",
            "SELECT k FROM t WHERE tags IN (SELECT tags FROM u)",
            "SELECT k FROM t WHERE tags NOT IN (SELECT tags FROM u)",
            "SELECT k FROM t WHERE k % 2 NOT IN (SELECT k FROM u)",
            "SELECT k, k % 2 NOT IN (SELECT k FROM u) FROM t",
        ] {
            let frame = context.sql(sql).await.unwrap();
            let plan = frame.create_physical_plan().await.unwrap();
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            let joins = ["HashJoinExec", "NestedLoopJoinExec"].map(|join| shown.contains(join));
            assert_eq!(joins, [true, false], "{sql}\n{shown}");
        }
    }
}
