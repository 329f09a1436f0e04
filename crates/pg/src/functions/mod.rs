//! PostgreSQL's functions, by topic.

mod array_text;
mod like_pattern;
mod only_value;
pub(crate) mod regex;
pub(crate) mod scalar;
mod text;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// All scalar functions.
pub(crate) fn scalar() -> Vec<ScalarUDF> {
    let groups = [
        array_text::functions(),
        vec![like_pattern::udf()],
        regex::functions(),
        text::functions(),
    ];
    groups.into_iter().flatten().collect()
}

/// All aggregates.
pub(crate) fn aggregate() -> Vec<AggregateUDF> {
    vec![only_value::udaf()]
}
