//! Casts of `jsonb` to numbers and boolean, which are allowed only for values of that kind.

use datafusion::arrow::array::StringArray;

use super::Target;
use crate::PgError;
use crate::numbers::numeric::Numeric;
use crate::values::{Json, Parts};

/// The texts of scalar `jsonb` values, as texts of the type `to`.
pub(super) fn scalars(texts: &StringArray, to: &Target) -> Result<StringArray, PgError> {
    let texts = texts.iter().map(|text| text.map(|text| scalar(text, to)));
    let texts = texts
        .map(Option::transpose)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(texts.into())
}

fn scalar(text: &str, to: &Target) -> Result<String, PgError> {
    let kind = match (Json::parts(text)?, to) {
        (Parts::Scalar(Json::Bool(_)), Target::Bool) => return Ok(text.to_owned()),
        (Parts::Scalar(Json::Number(number)), to) if *to != Target::Bool => {
            return integer(number, to);
        }
        (Parts::Array(_), _) => "array",
        (Parts::Object(_), _) => "object",
        (Parts::Scalar(Json::Number(_)), _) => "numeric",
        (Parts::Scalar(other), _) => other.kind(),
    };
    let message = format!("cannot cast jsonb {kind} to type {}", to.name());
    Err(PgError::new("22023", message))
}

/// Rounds a number that is cast to an integer.
fn integer(number: String, to: &Target) -> Result<String, PgError> {
    let bits = match to {
        Target::Int2 => 16,
        Target::Int4 => 32,
        Target::Int8 => 64,
        _ => return Ok(number),
    };
    let whole = Numeric::parse(&number).map(|number| number.rounded(0).digits);
    let whole = whole.and_then(|whole| i64::try_from(whole).ok());
    let limit = 1_i128 << (bits - 1);
    match whole {
        Some(whole) if (-limit..limit).contains(&i128::from(whole)) => Ok(whole.to_string()),
        _ => Err(PgError::out_of_range(&to.name())),
    }
}
