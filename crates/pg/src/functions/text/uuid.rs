//! The sixteen bytes of a uuid, as files store it.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Cast, Expr, ScalarUDF};

use crate::functions::scalar::Take::Text;
use crate::functions::scalar::{Form, Function, Give, Value};
use crate::values::{uuid_bytes, uuid_from_text};

/// The function's name.
pub(crate) const UUID_BYTES: &str = "pg_uuid_bytes";

pub(super) fn functions() -> Vec<Function> {
    vec![function()]
}

fn function() -> Function {
    let form = Form::new(&[Text], Give::Bytes, |row| {
        let uuid = uuid_from_text(row.text(0).trim())?;
        Ok(Value::Bytes(uuid_bytes(&uuid).to_vec()))
    });
    Function::new(UUID_BYTES, vec![form])
}

/// Converts a uuid, which is held as text, to what a file's column stores.
pub(crate) fn as_bytes(uuid: Expr) -> Expr {
    let udf: ScalarUDF = function().udf();
    let sixteen = DataType::FixedSizeBinary(16);
    Expr::Cast(Cast::new(Box::new(udf.call(vec![uuid])), sixteen))
}
