//! How many states may a batch for the final aggregate have?
//!
//! Every chunk leaves a state, so a final aggregate gets many states where DataFusion would give
//! it one per partition. Without GROUP BY it merges a batch of states by one call of
//! `Accumulator::merge_batch`, which should merge every row. In DataFusion 55.2 that of
//! `percentile_cont` merges only the first row, and a user's function may have the same bug. With
//! GROUP BY a `GroupsAccumulator` gets the group of each row, so it must read all of them; a
//! function without one is called as without GROUP BY, with all states of a group in a batch.
//! Not here: whether a function depends on the order of its rows (`../recognise.rs`).
//! FRAG-I6: a batch of several states reaches only functions that are known to merge each of its
//! rows: those whose code was read (`EVERY_ROW`), and with groups those with a
//! `GroupsAccumulator`.

use std::sync::{Arc, LazyLock};

use coscan_pg::numbers::{decimal_sum, regressions};
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_plan::udaf::AggregateFunctionExpr;

/// The number of states that a batch may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// Any number.
    Many,
    /// One: further states come in further calls.
    One,
}

/// DataFusion's aggregates whose accumulators have all been read, in version 55.2: each merges
/// every row of a batch of states. `percentile_cont` does so only with DISTINCT, and `grouping` is
/// not an aggregate. Another function of the same name is not meant. `coscan-pg`'s sum of decimals
/// and regressions have been read, too.
const EVERY_ROW: [&str; 37] = [
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "last_value",
    "max",
    "median",
    "min",
    "nth_value",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

static KNOWN: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| {
    let mut known = all_default_aggregate_functions();
    known.retain(|function| EVERY_ROW.contains(&function.name()));
    known.push(decimal_sum());
    known.extend(regressions());
    known
});

/// Whether every accumulator of the function merges every row of a batch of states.
fn merges_every_row(function: &AggregateFunctionExpr) -> bool {
    let fun = function.fun();
    KNOWN.iter().any(|known| **known == *fun)
}

/// The number of states per batch with which these aggregates work; `None` if they cannot merge
/// the states of a fragment at all. `grouped`: there are groups.
pub(crate) fn merge_of(functions: &[Arc<AggregateFunctionExpr>], grouped: bool) -> Option<Merge> {
    // Its GroupsAccumulator ignores DISTINCT, and its states are not those that it declares.
    let lost = |function: &Arc<AggregateFunctionExpr>| {
        function.is_distinct() && function.fun().name() == "bit_xor"
    };
    if grouped && functions.iter().any(lost) {
        return None;
    }
    if functions.iter().all(|function| merges_every_row(function)) {
        return Some(Merge::Many);
    }
    if !grouped {
        return Some(Merge::One);
    }
    let by_group = |function: &Arc<AggregateFunctionExpr>| {
        merges_every_row(function) || function.groups_accumulator_supported()
    };
    functions.iter().all(by_group).then_some(Merge::Many)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new version may rename a function, or add one whose code must be read.
    #[test]
    fn every_function_of_datafusion_was_read() {
        let all = all_default_aggregate_functions();
        let read = |name: &&str| {
            EVERY_ROW.contains(name) || ["percentile_cont", "grouping"].contains(name)
        };
        let names: Vec<&str> = all.iter().map(|function| function.name()).collect();
        assert_eq!(
            names.iter().filter(|name| !read(name)).count(),
            0,
            "{names:?}"
        );
        let own = 1 + regressions().len();
        assert_eq!(KNOWN.len(), EVERY_ROW.len() + own, "{names:?}");
    }
}
