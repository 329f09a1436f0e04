//! `SELECT id, unnest(tags) FROM t ORDER BY id`: the elements of a row stay in their order.
//!
//! PostgreSQL sorts the rows and then expands each. DataFusion expands first, and its sort moves
//! rows with equal keys. Here the sort gets two more keys, the number of the row and the place of
//! the element, which are dropped above it. Only for sets in the select list: with those in FROM
//! PostgreSQL sorts last, too.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::{coalesce, greatest};
use datafusion::functions_nested::length::array_length;
use datafusion::functions_nested::range::gen_series;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::{Sort, Window};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, SubqueryAlias, Unnest, cast, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::PlanTree;

/// The number of a row before it is expanded.
const ROW: &str = "row\u{1f}";
/// The place of an element in its set.
const PLACE: &str = "place\u{1f}";
/// How DataFusion's planner names the columns of sets in a select list.
const IN_SELECT_LIST: &str = "__unnest_placeholder";

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct SetsInOrder;

impl AnalyzerRule for SetsInOrder {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_up_with_subqueries(|node| match node {
            LogicalPlan::Sort(sort) => sorted(sort),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "sets_in_order"
    }
}

fn sorted(mut sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let Some((input, keys)) = with_keys(&sort.input)? else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let shown = sort.input.schema().iter().map(Expr::from).collect();
    sort.input = Arc::new(input);
    let keys = keys.map(|key| Expr::Column(key).sort(true, false));
    sort.expr.extend(keys);
    let list = Projection::try_new(shown, Arc::new(LogicalPlan::Sort(sort)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(list)))
}

/// The plan with the two keys as its last columns; `None` if it expands no set.
fn with_keys(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, [Column; 2])>> {
    Ok(match plan {
        LogicalPlan::Projection(list) => {
            let Some((input, keys)) = with_keys(&list.input)? else {
                return Ok(None);
            };
            let keys_too = keys.iter().cloned().map(Expr::Column);
            let exprs = list.expr.iter().cloned().chain(keys_too).collect();
            let list = Projection::try_new(exprs, Arc::new(input))?;
            Some((LogicalPlan::Projection(list), keys))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some((input, keys)) = with_keys(&alias.input)? else {
                return Ok(None);
            };
            let keys = keys.map(|key| Column::new(Some(alias.alias.clone()), key.name));
            let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
            Some((LogicalPlan::SubqueryAlias(alias), keys))
        }
        LogicalPlan::Unnest(sets) if are_in_select_list(sets) => Some(numbered(sets)?),
        _ => None,
    })
}

fn are_in_select_list(sets: &Unnest) -> bool {
    are_flat(sets)
        && sets
            .exec_columns
            .iter()
            .all(|column| column.name.starts_with(IN_SELECT_LIST))
}

/// Whether each column that is expanded is a list, and becomes its elements.
pub(super) fn are_flat(sets: &Unnest) -> bool {
    let mut lists = sets.list_type_columns.iter();
    sets.struct_type_columns.is_empty() && lists.all(|(_, list)| list.depth == 1)
}

/// The expanded sets with the number of the row and the place of the element.
pub(super) fn numbered(sets: &Unnest) -> Result<(LogicalPlan, [Column; 2])> {
    let window = Window::try_new(vec![row_number().alias(ROW)], Arc::clone(&sets.input))?;
    let window = Arc::new(LogicalPlan::Window(window));
    let (plan, place) = placed(sets, &window)?;
    Ok((plan, [Column::new_unqualified(ROW), place]))
}

/// The expanded sets of `input`, which has the columns of `sets.input` and perhaps more, with the
/// place of the element as the last column.
pub(super) fn placed(sets: &Unnest, input: &Arc<LogicalPlan>) -> Result<(LogicalPlan, Column)> {
    let lists = sets.input.schema().columns();
    let lists = sets
        .list_type_columns
        .iter()
        .map(|(at, _)| lists[*at].clone());
    let lengths = lists.map(|list| cast(array_length(Expr::Column(list)), DataType::Int64));
    let longest = coalesce(vec![greatest(lengths.collect()), lit(0_i64)]);
    let mut name = PLACE.to_owned();
    while input.schema().has_column_with_unqualified_name(&name) {
        name.push('\'');
    }
    let places = gen_series(lit(1_i64), longest, lit(1_i64)).alias(&name);
    let columns = input.schema().iter().map(Expr::from).chain([places]);
    let list = Projection::try_new(columns.collect(), Arc::clone(input))?;
    let place = Column::new_unqualified(name);
    let mut expanded = sets.exec_columns.clone();
    expanded.push(place.clone());
    let list = Arc::new(LogicalPlan::Projection(list));
    let sets = Unnest::try_new(list, expanded, sets.options.clone())?;
    Ok((LogicalPlan::Unnest(sets), place))
}
