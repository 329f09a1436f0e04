//! One function object for equal functions.
//!
//! Planning creates many function objects: each cast and each sum of integers has its own. Work is
//! shared between expressions that call the same function, so equal ones are replaced by one.

use std::any::{Any, TypeId};
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use datafusion::arrow::datatypes::DataType;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;

use crate::numbers::CheckedInteger;
use crate::{casts, functions, numbers};

/// The function that represents all those equal to `function`. Only this crate's functions are
/// replaced, because for them equality means equal results.
#[must_use]
pub fn canonical(function: &ScalarUDF) -> ScalarUDF {
    if !OURS.contains(&type_of(function)) {
        return function.clone();
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(first) = known.get(function) {
        return first.clone();
    }
    // Clearing the set only reduces sharing.
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(function.clone());
    function.clone()
}

/// Whether a call of `function` may have another value in another transaction: a cast of texts to
/// dates or times, which may be `now` or `tomorrow`. `from` is the type of its first argument.
#[must_use]
pub fn may_read_the_clock(function: &ScalarUDF, from: Option<&DataType>, to: &DataType) -> bool {
    static CAST: LazyLock<TypeId> =
        LazyLock::new(|| type_of(&casts::udf(&ConfigOptions::default())));
    let is_text = |values: &DataType| {
        matches!(
            values,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    type_of(function) == *CAST
        && values_of(to).is_temporal()
        && from.is_none_or(|from| is_text(values_of(from)))
}

/// The type of the values in lists and dictionaries, at any depth.
fn values_of(of: &DataType) -> &DataType {
    match of {
        DataType::Dictionary(_, values) => values_of(values),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => values_of(field.data_type()),
        values => values,
    }
}

fn type_of(function: &ScalarUDF) -> TypeId {
    let inner: &dyn Any = function.inner().as_ref();
    inner.type_id()
}

static KNOWN: LazyLock<Mutex<HashSet<ScalarUDF>>> = LazyLock::new(Mutex::default);

/// The types of this crate's functions.
static OURS: LazyLock<HashSet<TypeId>> = LazyLock::new(|| {
    let all = functions::scalar().into_iter().chain(numbers::scalar());
    let all = all.chain([casts::udf(&ConfigOptions::default())]);
    let mut types: HashSet<TypeId> = all.map(|function| type_of(&function)).collect();
    types.insert(TypeId::of::<CheckedInteger>());
    types
});

/// The maximum number of known functions, which differ by kind and by the settings of casts.
const KNOWN_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;

    use super::*;

    #[test]
    fn equal_functions_are_one() {
        let options = ConfigOptions::default();
        let (one, other) = (casts::udf(&options), casts::udf(&options));
        let address = |function: &ScalarUDF| {
            let inner = canonical(function);
            std::sync::Arc::as_ptr(inner.inner()).cast::<()>().addr()
        };
        assert_eq!(address(&one), address(&other));
        let mut elsewhere = ConfigOptions::default();
        elsewhere.execution.time_zone = Some("Europe/Berlin".to_owned());
        assert_ne!(address(&one), address(&casts::udf(&elsewhere)));
    }

    #[test]
    fn casts_of_texts_to_times_read_the_clock() {
        let cast = casts::udf(&ConfigOptions::default());
        let texts = DataType::List(Field::new_list_field(DataType::Utf8View, true).into());
        let dates = DataType::List(Field::new_list_field(DataType::Date32, true).into());
        for (from, to, reads) in [
            (&DataType::Utf8View, &DataType::Date32, true),
            (&texts, &dates, true),
            (&DataType::Date32, &DataType::Date32, false),
            (&DataType::Utf8View, &DataType::Int64, false),
        ] {
            assert_eq!(
                may_read_the_clock(&cast, Some(from), to),
                reads,
                "{from} to {to}"
            );
        }
    }
}
