//! Installs PostgreSQL's operators, casts and functions in a DataFusion session.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;

use crate::analysis::{
    Assignments, BesideSets, Checks, CopiedUuids, CountRows, Decided, Dependencies,
    EliminateCrossJoins, EliminateJoins, GroupingKeys, MixedTypes, NeedlessOrders, OrderedInputs,
    Predicates, PushDown, SetsInOrder, SingleDistinct, UnionNames, WindowFrames,
};
use crate::comparisons::{
    FloatExtremes, FloatKeys, KeepLossyCasts, MarkedElements, SortKeys, TypedOperands,
};
use crate::constants::ConstantErrors;
use crate::guards::{FilteredCalls, Guards};
use crate::operators::{Distinct, Planner};
use crate::parameters::OpenParameters;
use crate::planners::{FileTypes, TextPlanner, TimePlanner, Types};
use crate::relations::{MarkedOperands, MarkedSets, MergedColumns, Relations, WholeRows};
use crate::subqueries::{OuterAggregates, UnnestSubqueries};
use crate::windows::Frames;
use crate::{casts, functions, intervals, numbers, physical, rules};

/// Installs PostgreSQL's functions, planners and rules. Call it after adding DataFusion's default
/// features, because it replaces functions with the same names. A second call has no effect.
#[must_use]
pub fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let config = builder.config().get_or_insert_default();
    if config.get_extension::<Installed>().is_some() {
        return builder;
    }
    config.set_extension(Arc::new(Installed));
    let options = config.options_mut();
    // A number with a decimal point is numeric.
    options.sql_parser.parse_float_as_decimal = true;
    // `OrderedInputs` takes care of that.
    options.sql_parser.enable_subquery_sort_elimination = false;
    // The check fails if a plan is nullable by its type but not by its meaning: `x IS NOT TRUE`.
    options.execution.skip_physical_aggregate_schema_check = true;
    let options = Arc::new(options.clone());
    let planner = Planner {
        config: Arc::clone(&options),
    };
    // Before DataFusion's planners, which do not support untyped constants.
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(planner));
    planners.insert(0, Arc::new(TimePlanner));
    let scalars = builder.scalar_functions().get_or_insert_default();
    scalars.extend(scalar(&options));
    let planner = TextPlanner::new(scalars.iter().cloned());
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(planner));
    // First of all, because the other planners take an untyped parameter for NULL.
    planners.insert(0, Arc::new(OpenParameters));
    planners.insert(0, Arc::new(WholeRows));
    let config = Arc::clone(&options);
    planners.insert(0, Arc::new(Distinct { config }));
    let config = Arc::clone(&options);
    planners.insert(0, Arc::new(MergedColumns { config }));
    planners.insert(0, Arc::new(MarkedOperands));
    let relations = builder.relation_planners().get_or_insert_default();
    relations.push(Arc::new(Relations));
    relations.push(Arc::new(FileTypes));
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.extend(numbers::aggregate().into_iter().map(Arc::new));
    numbers::aggregation::ranks::install(&mut builder);
    intervals::with_intervals(&mut builder);
    functions::time::install_series(&mut builder);
    let analyzer = builder.analyzer().get_or_insert_default();
    analyzer.rules.insert(0, Arc::new(Checks));
    analyzer.rules.insert(1, Arc::new(CountRows));
    analyzer.rules.insert(2, Arc::new(OrderedInputs));
    analyzer.rules.insert(3, Arc::new(NeedlessOrders));
    analyzer.rules.push(Arc::new(Decided));
    analyzer.rules.push(Arc::new(UnnestSubqueries::default()));
    analyzer.rules.push(Arc::new(Predicates));
    analyzer.rules.push(Arc::new(FloatExtremes));
    analyzer.rules.push(Arc::new(rules::coerced()));
    analyzer.rules.push(Arc::new(KeepLossyCasts));
    analyzer.rules.push(Arc::new(Frames));
    rules::install(analyzer);
    analyzer.rules.push(Arc::new(Dependencies));
    analyzer.rules.push(Arc::new(UnionNames));
    analyzer.rules.insert(0, Arc::new(MarkedElements));
    analyzer.rules.insert(0, Arc::new(SortKeys));
    analyzer.rules.insert(0, Arc::new(MixedTypes));
    analyzer.rules.insert(0, Arc::new(WindowFrames));
    analyzer.rules.insert(0, Arc::new(rules::semantics()));
    analyzer.rules.insert(0, Arc::new(GroupingKeys));
    analyzer.rules.insert(0, Arc::new(CopiedUuids));
    analyzer.rules.insert(0, Arc::new(Assignments));
    analyzer.rules.insert(0, Arc::new(MarkedSets));
    analyzer.rules.insert(0, Arc::new(SetsInOrder));
    analyzer.rules.insert(0, Arc::new(BesideSets));
    analyzer.rules.insert(0, Arc::new(OuterAggregates));
    let optimizer = builder.optimizer().get_or_insert_default();
    let rules = std::mem::take(&mut optimizer.rules).into_iter();
    let rules = rules.map(EliminateJoins::around).map(PushDown::around);
    let rules = rules
        .map(EliminateCrossJoins::around)
        .map(SingleDistinct::around);
    optimizer.rules = rules.collect();
    optimizer.rules.insert(0, Arc::new(FilteredCalls));
    optimizer.rules.insert(0, Arc::new(ConstantErrors));
    let optimizer = builder.optimizer_rules().get_or_insert_default();
    optimizer.push(Arc::new(FloatKeys));
    optimizer.push(Arc::new(Guards));
    optimizer.push(Arc::new(TypedOperands));
    physical::install(&mut builder);
    builder.with_type_planner(Arc::new(Types))
}

/// The scalar functions for a session with these settings.
fn scalar(options: &ConfigOptions) -> impl Iterator<Item = Arc<ScalarUDF>> {
    let all = functions::scalar().into_iter().chain(numbers::scalar());
    all.chain([casts::udf(options)]).map(Arc::new)
}

/// Registers the functions again in a session whose state was built from another's.
///
/// Such a state lists functions in no particular order, and DataFusion's functions take back names
/// that they also have as an alias.
pub fn reinstall(session: &SessionContext) {
    let config = session.copied_config();
    if config.get_extension::<Installed>().is_some() {
        for function in scalar(config.options()) {
            session.register_udf(function.as_ref().clone());
        }
        for function in numbers::regressions() {
            session.register_udaf(function.as_ref().clone());
        }
    }
}

/// Marks a session in which PostgreSQL's semantics are installed.
#[derive(Debug)]
struct Installed;
