//! Rules between a statement's plan and DataFusion's coercion.
//!
//! `semantics.rs` gives constants without a type their type, and lists of values (CASE, coalesce,
//! IN) the common one; `lists.rs` does so for IN and BETWEEN over numbers. `aggregates.rs` turns
//! PostgreSQL's aggregates into DataFusion's `sum` and `count`, which fragments, sharing and
//! statistics know.

mod aggregates;
mod lists;
mod semantics;

use std::sync::Arc;

use datafusion::optimizer::Analyzer;

/// Puts the rules before those of DataFusion that need types.
pub(crate) fn install(analyzer: &mut Analyzer) {
    analyzer.add_function_rewrite(Arc::new(semantics::Semantics));
    analyzer.rules.insert(0, Arc::new(aggregates::Aggregates));
}
