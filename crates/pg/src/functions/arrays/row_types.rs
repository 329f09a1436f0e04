//! Which types do PostgreSQL's comparisons of rows and arrays refuse?
//!
//! Two rows must have fields of the same types, whatever their names (42804), and `json` has
//! neither an equality nor an order (42883).
//! Not here: the comparisons (`compare.rs`, `rows/unlike.rs`).

use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::error::Result;

use crate::PgError;
use crate::functions::scalar::{marked_type, type_name};

/// What [`has_comparison`] says that a type lacks.
pub(crate) const EQUALITY: &str = "an equality operator";
pub(crate) const COMPARISON: &str = "a comparison function";

/// Whether two fields hold rows that are not of one type, or have fields without an order.
pub(crate) fn are_unlike(one: &Field, other: &Field) -> bool {
    let (DataType::Struct(one), DataType::Struct(other)) = (one.data_type(), other.data_type())
    else {
        return false;
    };
    let differ = |one: &Field, other: &Field| {
        one.name() != other.name()
            || type_of(one) != type_of(other)
            || has_json(one)
            || are_unlike(one, other)
    };
    let mut pairs = one.iter().zip(other);
    one.len() != other.len() || pairs.any(|(one, other)| differ(one, other))
}

/// The error with which PostgreSQL refuses to compare two rows whose fields are equal. `missing` is
/// what it says that a `json` has not.
///
/// # Errors
/// See the file's header.
pub(crate) fn check_rows(one: &Field, other: &Field, missing: &str) -> Result<()> {
    let (DataType::Struct(one), DataType::Struct(other)) = (one.data_type(), other.data_type())
    else {
        return Ok(());
    };
    for (at, (one, other)) in one.iter().zip(other).enumerate() {
        have_one_type(at, one, other)?;
        has_comparison(one, missing)?;
        check_rows(one, other, missing)?;
    }
    have_one_length(one, other)
}

/// PostgreSQL looks for an operator of the elements when it compares two arrays, so that NULL is
/// compared with arrays of `json`, too.
///
/// # Errors
/// 42883 for `json`, whose values have neither an equality nor an order.
pub(crate) fn has_comparison(element: &Field, missing: &str) -> Result<()> {
    if marked_type(element) != Some("json") {
        return Ok(());
    }
    let message = format!("could not identify {missing} for type json");
    Err(PgError::new("42883", message).into())
}

/// Whether values of a field are `json`, or arrays or rows with values of it. PostgreSQL refuses to
/// compare them.
pub(crate) fn has_json(field: &Field) -> bool {
    match field.data_type() {
        DataType::List(element) => has_json(element),
        DataType::Struct(fields) => fields.iter().any(|field| has_json(field)),
        _ => marked_type(field) == Some("json"),
    }
}

/// # Errors
/// 42804, if the fields at this place have different types.
pub(crate) fn have_one_type(at: usize, one: &Field, other: &Field) -> Result<()> {
    if type_of(one) == type_of(other) {
        return Ok(());
    }
    let (one, other, number) = (type_name(one), type_name(other), at + 1);
    let types = format!("{one} and {other} at record column {number}");
    let message = format!("cannot compare dissimilar column types {types}");
    Err(PgError::new("42804", message).into())
}

/// # Errors
/// 42804, if the rows differ in the number of their fields.
pub(crate) fn have_one_length(one: &Fields, other: &Fields) -> Result<()> {
    if one.len() == other.len() {
        return Ok(());
    }
    let message = "cannot compare record types with different numbers of columns";
    Err(PgError::new("42804", message).into())
}

/// The type that two fields must share. Untyped constants are texts, and so are `varchar` and
/// `name`, because not every expression keeps these names of texts.
fn type_of(field: &Field) -> String {
    let name = type_name(field);
    let is_text = ["character varying", "name", "unknown"].contains(&name.as_str());
    match is_text || field.data_type().is_null() {
        true => "text".to_owned(),
        false => name,
    }
}
