//! PostgreSQL's functions, by topic.

mod array_text;
mod like_pattern;
mod single_row;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub(crate) use single_row::single_row;

/// All scalar functions.
pub(crate) fn scalar() -> Vec<ScalarUDF> {
    let groups = [
        array_text::functions(),
        vec![like_pattern::udf(), single_row::udf()],
    ];
    groups.into_iter().flatten().collect()
}

/// All aggregates.
pub(crate) fn aggregate() -> Vec<AggregateUDF> {
    vec![]
}
