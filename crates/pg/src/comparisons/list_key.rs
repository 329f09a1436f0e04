//! `list_key(x)`: the bytes that stand for an array where a join looks for equal ones, and in a
//! sort that has NULLs at its other end.
//!
//! They have PostgreSQL's order, in which an element that is NULL is greater than others. Arrow's
//! sort puts such elements where it puts arrays that are NULL.
//!
//! A hash join of DataFusion's tells its other side the least and the greatest key, and that side
//! leaves out rows beyond them. For arrays the two use different orders (55.2,
//! `hash_join/shared_bounds.rs`): of elements that are NULL, one says that they are less, the other
//! that they are greater. Bytes have one order. Once a bound and its comparison agree on arrays,
//! the arrays themselves can be the keys.

use std::sync::Arc;

use datafusion::arrow::array::{Array, BinaryArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Both sides of a join's key as bytes, if they are arrays of one type.
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

/// The bytes of an array.
pub(super) fn list_key(list: Expr) -> Expr {
    ScalarUDF::from(ListKey::new()).call(vec![list])
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
        let lists = args.args[0].to_array(args.number_rows)?;
        let nulls_last = SortOptions::new(false, false);
        let field = SortField::new_with_options(lists.data_type().clone(), nulls_last);
        let rows = RowConverter::new(vec![field])?.convert_columns(&[Arc::clone(&lists)])?;
        let (offsets, bytes, _) = rows.try_into_binary()?.into_parts();
        let keys = BinaryArray::try_new(offsets, bytes, lists.nulls().cloned())?;
        Ok(ColumnarValue::Array(Arc::new(keys)))
    }
}
