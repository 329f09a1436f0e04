//! The values of a Bind message for a statement's parameters.
//!
//! Not here: the parameters' types, and how a value is decoded (`coscan_pg::parameters`).

use coscan_pg::parameters::{Encoding, value};
use datafusion::scalar::ScalarValue;
use pgwire::api::Type;
use pgwire::messages::data::FORMAT_CODE_TEXT;
use pgwire::messages::extendedquery::Bind;

use crate::failure::Failure;

/// Decodes the values of a Bind message for parameters of these types, in a session with this time
/// zone.
pub(crate) fn parameter_values(
    types: &[Type],
    bind: &Bind,
    zone: &str,
) -> Result<Vec<ScalarValue>, Failure> {
    let given = bind.parameters.len();
    if given != types.len() {
        let needed = types.len();
        return Err(Failure::protocol(format!(
            "bind message supplies {given} parameters, but the statement needs {needed}"
        )));
    }
    let formats = &bind.parameter_format_codes;
    if formats.len() > 1 && formats.len() != given {
        return Err(Failure::protocol(format!(
            "bind message has {} parameter formats but {given} parameters",
            formats.len()
        )));
    }
    let format = |index: usize| match formats[..] {
        [] => FORMAT_CODE_TEXT,
        [all] => all,
        ref each => each[index],
    };
    let each = types.iter().zip(&bind.parameters).enumerate();
    each.map(|(index, (pg_type, raw))| {
        let encoding = if format(index) == FORMAT_CODE_TEXT {
            Encoding::Text
        } else {
            Encoding::Binary
        };
        Ok(value(pg_type, encoding, raw.as_ref(), zone)?)
    })
    .collect()
}
