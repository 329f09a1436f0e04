//! Rules between a statement's plan and DataFusion's coercion.
//!
//! `semantics.rs` gives constants without a type their type, and lists of values (CASE, coalesce,
//! IN) the common one; `lists.rs` does so for IN and BETWEEN over numbers. `aggregates.rs` turns
//! PostgreSQL's aggregates into DataFusion's `sum` and `count`, which fragments, sharing and
//! statistics know. `distinct.rs` sorts lists of values. `arrays.rs` compares arrays.
//! `shown_scales.rs` shows quotients with PostgreSQL's digits.

mod aggregates;
mod arrays;
mod distinct;
mod lists;
mod semantics;
mod shown_scales;

use std::sync::Arc;

use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::function_rewrite::ApplyFunctionRewrites;

/// Puts the rules before those of DataFusion that need types.
pub(crate) fn install(analyzer: &mut Analyzer) {
    analyzer
        .rules
        .insert(0, Arc::new(shown_scales::ShownScales));
    analyzer.rules.insert(0, Arc::new(aggregates::Aggregates));
    analyzer.rules.insert(0, Arc::new(distinct::Distinct));
}

/// The rule that gives values their types. It is no function rewrite of the analyzer's, which
/// would run before every rule, because it changes the names of keys of grouping sets.
pub(crate) fn semantics() -> ApplyFunctionRewrites {
    ApplyFunctionRewrites::new(vec![Arc::new(semantics::Semantics)])
}

/// The rule that comes behind DataFusion's coercion.
pub(crate) fn coerced() -> ApplyFunctionRewrites {
    ApplyFunctionRewrites::new(vec![
        Arc::new(semantics::Floats),
        Arc::new(arrays::ArrayOrder),
    ])
}
