//! Rows: with names of their fields, and compared with rows of other types.

mod named_row;
mod unlike;

pub(crate) use named_row::named_row;
pub(crate) use unlike::rows_compared;

use datafusion::logical_expr::ScalarUDF;

use super::scalar::Function;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let compared = unlike::functions().into_iter().map(Function::udf);
    compared.chain([named_row::udf()]).collect()
}
