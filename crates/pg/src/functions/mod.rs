//! PostgreSQL's functions, by topic.

mod array_text;
pub(crate) mod arrays;
pub(crate) mod json;
mod fail;
mod only_value;
pub(crate) mod regex;
pub(crate) mod scalar;
mod text;

pub(crate) use fail::FAIL;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// All scalar functions.
pub(crate) fn scalar() -> Vec<ScalarUDF> {
    let groups = [
        array_text::functions(),
        arrays::functions(),
        json::functions(),
        vec![fail::udf()],
        regex::functions(),
        text::functions(),
    ];
    groups.into_iter().flatten().collect()
}

/// All aggregates.
pub(crate) fn aggregate() -> Vec<AggregateUDF> {
    vec![only_value::udaf()]
}

/// Whether there is a scalar function of this name.
pub(crate) fn is_scalar(name: &str) -> bool {
    static NAMES: std::sync::LazyLock<std::collections::HashSet<String>> =
        std::sync::LazyLock::new(|| scalar().iter().map(|udf| udf.name().to_owned()).collect());
    NAMES.contains(name)
}
