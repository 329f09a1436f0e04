//! `pg_fits(text, n, type)`: checks that the text, or every text of an array, fits a column of `n`
//! characters of that type.
//!
//! Excess blanks are cut, as the SQL standard demands; other excess characters are error 22001.
//! (The cast to the column's type cuts blanks in the texts of an array.)

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;

use crate::PgError;
use crate::functions::arrays::text_elements;
use crate::functions::first_value;
use crate::functions::scalar::Take::{Int, List, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};

pub(crate) fn fits() -> ScalarUDF {
    let text = Form::text(&[Text, Int, Text], |row| Ok(kept(row.text(0), row)?.into()));
    let same = Give::Of(|given| Ok(Arc::clone(&given[0])));
    let array = Form::new(&[List, Int, Text], same, |row| {
        for text in text_elements(row, 0)?.iter().flatten() {
            kept(text, row)?;
        }
        let (array, at) = row.array(0);
        Ok(Value::Scalar(first_value(&array.slice(at, 1))?))
    });
    Function::new("pg_fits", vec![text, array]).udf()
}

/// The text without excess blanks.
fn kept<'a>(text: &'a str, row: &Row<'_>) -> Result<&'a str> {
    let most = usize::try_from(row.int(1)).unwrap_or(0);
    let end = text.char_indices().nth(most);
    let end = end.map_or(text.len(), |(at, _)| at);
    let (kept, rest) = text.split_at(end);
    if rest.bytes().all(|byte| byte == b' ') {
        return Ok(kept);
    }
    let message = format!("value too long for type {}({most})", row.text(2));
    Err(PgError::new("22001", message).into())
}
