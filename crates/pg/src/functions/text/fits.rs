//! `pg_fits(text, n, type)`: the text, which a column of `n` characters of that type is to hold.
//!
//! Blanks beyond the end are cut, as the standard wants; other characters are error 22001.

use datafusion::logical_expr::ScalarUDF;

use crate::PgError;
use crate::functions::scalar::Take::{Int, Text};
use crate::functions::scalar::{Form, Function};

pub(crate) fn fits() -> ScalarUDF {
    let form = Form::text(&[Text, Int, Text], |row| {
        let (text, most) = (row.text(0), usize::try_from(row.int(1)).unwrap_or(0));
        let end = text
            .char_indices()
            .nth(most)
            .map_or(text.len(), |(at, _)| at);
        let (kept, rest) = text.split_at(end);
        if rest.bytes().all(|byte| byte == b' ') {
            return Ok(kept.into());
        }
        let message = format!("value too long for type {}({most})", row.text(2));
        Err(PgError::new("22001", message).into())
    });
    Function::new("pg_fits", vec![form]).udf()
}
