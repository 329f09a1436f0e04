//! PostgreSQL's meaning of operators, casts and functions in a DataFusion session.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

use crate::analysis::{Checks, CountRows, EliminateJoins, Predicates};
use crate::functions;
use crate::subqueries::UnnestSubqueries;

/// Installs PostgreSQL's functions, planners and rules. Call it after the default features of
/// DataFusion are added, whose functions of the same names are replaced. A second call changes
/// nothing.
#[must_use]
pub fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let config = builder.config().get_or_insert_default();
    if config.get_extension::<Installed>().is_some() {
        return builder;
    }
    config.set_extension(Arc::new(Installed));
    let scalars = builder.scalar_functions().get_or_insert_default();
    scalars.extend(functions::scalar().into_iter().map(Arc::new));
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.extend(functions::aggregate().into_iter().map(Arc::new));
    let analyzer = builder.analyzer().get_or_insert_default();
    analyzer.rules.insert(0, Arc::new(Checks));
    analyzer.rules.insert(1, Arc::new(CountRows));
    analyzer.rules.push(Arc::new(UnnestSubqueries));
    analyzer.rules.push(Arc::new(Predicates));
    let optimizer = builder.optimizer().get_or_insert_default();
    let rules = std::mem::take(&mut optimizer.rules).into_iter();
    optimizer.rules = rules.map(EliminateJoins::around).collect();
    builder
}

/// Marks a session into which PostgreSQL's semantics are installed.
#[derive(Debug)]
struct Installed;
