//! PostgreSQL's meaning of operators, casts and functions in a DataFusion session.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

use crate::text_planner::TextPlanner;
use crate::{casts, functions};

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
    let options = config.options_mut();
    // A number with a point is numeric.
    options.sql_parser.parse_float_as_decimal = true;
    let cast = casts::udf(options);
    let scalars = builder.scalar_functions().get_or_insert_default();
    scalars.extend(functions::scalar().into_iter().map(Arc::new));
    scalars.push(Arc::new(cast));
    let planner = TextPlanner::new(scalars.iter().cloned());
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(planner));
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.extend(functions::aggregate().into_iter().map(Arc::new));
    builder
}

/// Marks a session into which PostgreSQL's semantics are installed.
#[derive(Debug)]
struct Installed;
