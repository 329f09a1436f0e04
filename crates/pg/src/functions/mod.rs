//! PostgreSQL's functions, by topic.

mod array_text;
mod like_pattern;
pub(crate) mod regex;
pub(crate) mod scalar;
mod single_row;
mod text;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub(crate) use single_row::single_row;

/// All scalar functions.
pub(crate) fn scalar() -> Vec<ScalarUDF> {
    let groups = [
        array_text::functions(),
        vec![like_pattern::udf(), single_row::udf()],
        regex::functions(),
        text::functions(),
    ];
    groups.into_iter().flatten().collect()
}

/// All aggregates.
pub(crate) fn aggregate() -> Vec<AggregateUDF> {
    vec![]
}
