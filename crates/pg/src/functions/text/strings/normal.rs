//! Unicode normalization: `normalize`, and `IS NORMALIZED` as `pg_is_normalized`.

use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};

use crate::PgError;
use crate::functions::scalar::Take::Text;
use crate::functions::scalar::{Form, Function, Give, Row, Value};

/// The function for `x IS form NORMALIZED`.
pub(crate) const IS_NORMALIZED: &str = "pg_is_normalized";

pub(in crate::functions::text) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "normalize",
            vec![
                Form::new(&[Text], Give::Text, |row| {
                    Ok(Value::Text(row.text(0).nfc().collect()))
                }),
                Form::new(&[Text, Text], Give::Text, |row| {
                    let text = row.text(0);
                    Ok(Value::Text(match form(row)? {
                        NormalForm::Nfc => text.nfc().collect(),
                        NormalForm::Nfd => text.nfd().collect(),
                        NormalForm::Nfkc => text.nfkc().collect(),
                        NormalForm::Nfkd => text.nfkd().collect(),
                    }))
                }),
            ],
        ),
        Function::new(
            IS_NORMALIZED,
            vec![Form::new(&[Text, Text], Give::Bool, |row| {
                let text = row.text(0);
                Ok(Value::Bool(match form(row)? {
                    NormalForm::Nfc => is_nfc(text),
                    NormalForm::Nfd => is_nfd(text),
                    NormalForm::Nfkc => is_nfkc(text),
                    NormalForm::Nfkd => is_nfkd(text),
                }))
            })],
        ),
    ]
}

enum NormalForm {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

fn form(row: &Row) -> Result<NormalForm, PgError> {
    Ok(match row.text(1).to_lowercase().as_str() {
        "nfc" => NormalForm::Nfc,
        "nfd" => NormalForm::Nfd,
        "nfkc" => NormalForm::Nfkc,
        "nfkd" => NormalForm::Nfkd,
        other => {
            let message = format!("invalid normalization form: {other}");
            return Err(PgError::new("22023", message));
        }
    })
}
