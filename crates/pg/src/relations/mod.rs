//! Which types do the columns of VALUES, of set operations and of recursive queries have?
//!
//! | relation | DataFusion | here |
//! |---|---|---|
//! | VALUES | its own choice, pairwise | the common type |
//! | UNION, INTERSECT, EXCEPT | the left side's until analysis | the common type |
//! | the first term of WITH RECURSIVE | numerics keep its digits | undeclared numerics accept any digits |
//!
//! The expressions around a relation are planned with these types. The dialect rewrites each of
//! the three to a subquery in FROM (`dialect/relations.rs`), for which a [`RelationPlanner`] is
//! called. Set operations over columns that are neither numbers nor times are left to DataFusion.
//!
//! `sets.rs` and `recursion.rs` plan these relations, and VALUES are planned here; `declared.rs`
//! finds declared columns, and `unknown.rs` untyped ones. Other relations depend on the columns of
//! tables, which are not known from the syntax: those whose rows are used as values
//! (`whole_rows.rs`), joins with USING and NATURAL (`merged.rs`), those that unnest arrays
//! (`marked_sets.rs`), those whose columns are renamed (`names.rs`), and functions of columns
//! (`nearest.rs`). For mentions of queries in WITH see `mentions.rs`.

mod declared;
mod marked_sets;
mod mentions;
mod merged;
mod names;
mod nearest;
mod recursion;
mod sets;
mod unknown;
mod whole_rows;

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::{DFSchema, Spans};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, TableFactor, Values};

use crate::PgError;
use crate::casts::Target;
use crate::dialect::{FIRST_TERM, LATER_TERM, MERGED, ROWS_OF, last_word, take_mark};
use crate::operators::{as_common, common, is_unknown, mismatch};
use crate::subqueries::is_correlated;
pub use declared::open_undeclared;
use marked_sets::marked;
pub use marked_sets::marked_sets;
pub(crate) use marked_sets::{MarkedOperands, MarkedSets, without_repeated_keys};
pub use mentions::compute_once;
pub(crate) use merged::MergedColumns;
use merged::with_merged;
use names::{named, with_outer_names, with_set_names};
use recursion::check_later;
use sets::{is_by_position, set_operations, with_named_arrays};
pub use unknown::unknown_as_text;
pub(crate) use whole_rows::WholeRows;
use whole_rows::with_row;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table {
            sample: Some(_), ..
        }
        | TableFactor::Derived {
            sample: Some(_), ..
        } = &relation
        {
            // DataFusion would return all rows. `dialect/samples.rs` writes other forms.
            let text = "this form of TABLESAMPLE is not supported";
            return Err(PgError::new("0A000", text).into());
        }
        if let TableFactor::Table {
            name, partitions, ..
        } = &mut relation
            && take_mark(partitions)
        {
            let name = last_word(name).unwrap_or_default();
            let plan = context.plan(relation)?;
            mentions::check(&name, &plan)?;
            return Ok(planned(PlannedRelation::new(plan, None)));
        }
        let TableFactor::Derived {
            lateral,
            mut subquery,
            alias,
            sample: None,
        } = relation
        else {
            return named(relation, context);
        };
        nearest::resolve(&mut subquery, context);
        if let Some(alias) = &alias {
            let name = alias.name.value.as_str();
            if name == FIRST_TERM {
                let plan = open_undeclared(marked(context.plan(derived(*subquery))?)?)?;
                let plan = with_named_arrays(plan, context.context_provider().options())?;
                return Ok(planned(PlannedRelation::new(plan, None)));
            }
            if let Some(name) = name.strip_prefix(LATER_TERM) {
                let plan = marked(context.plan(derived(*subquery))?)?;
                check_later(name, &plan)?;
                let plan = with_named_arrays(plan, context.context_provider().options())?;
                return Ok(planned(PlannedRelation::new(plan, None)));
            }
            if name == MERGED {
                let plan = with_set_names(with_merged(*subquery, context)?)?;
                return Ok(planned(PlannedRelation::new(plan, None)));
            }
            if let Some(name) = name.strip_prefix(ROWS_OF) {
                let plan = with_row(*subquery, name, context)?;
                return Ok(planned(PlannedRelation::new(plan, None)));
            }
        }
        let plan = match subquery.body.as_ref() {
            SetExpr::Values(values) if is_bare(&subquery) && !values.value_keyword => {
                values_of(values, context)?
            }
            body if is_bare(&subquery) && is_by_position(body) => {
                set_operations(*subquery.body, context)?
            }
            _ if lateral && alias.is_some() => with_set_names(context.plan(derived(*subquery))?)?,
            _ => {
                let relation = TableFactor::Derived {
                    lateral,
                    subquery,
                    alias,
                    sample: None,
                };
                return named(relation, context);
            }
        };
        let plan = with_outer_names(marked(plan)?)?;
        let plan = if lateral { seen(plan) } else { plan };
        Ok(planned(PlannedRelation::new(plan, alias)))
    }
}

/// Marks a plan as a LATERAL item. DataFusion does not recognize an item whose outer references
/// are only in its own subqueries.
fn seen(plan: LogicalPlan) -> LogicalPlan {
    if plan.all_out_ref_exprs().is_empty() && is_correlated(&plan) {
        return LogicalPlan::Subquery(Subquery {
            subquery: Arc::new(plan),
            outer_ref_columns: vec![],
            spans: Spans::new(),
        });
    }
    plan
}

fn planned(relation: PlannedRelation) -> RelationPlanning {
    RelationPlanning::Planned(Box::new(relation))
}

fn derived(subquery: Query) -> TableFactor {
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(subquery),
        alias: None,
        sample: None,
    }
}

/// Whether a query consists of its body only.
fn is_bare(query: &Query) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.pipe_operators.is_empty()
}

/// Plans VALUES, each column in its common type.
fn values_of(values: &Values, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let none = DFSchema::empty();
    let mut rows: Vec<Vec<Expr>> = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        let row = row.content.iter();
        let row = row.map(|value| context.sql_to_expr(value.clone(), &none));
        rows.push(row.collect::<Result<_>>()?);
    }
    let width = rows.first().map_or(0, Vec::len);
    if rows.iter().all(|row| row.len() == width) {
        let config = context.context_provider().options();
        for column in 0..width {
            unite(&mut rows, column, &none, config)?;
        }
    }
    LogicalPlanBuilder::values(rows)?.build()
}

fn unite(
    rows: &mut [Vec<Expr>],
    column: usize,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<()> {
    let mut fields = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let value = &row[column];
        fields.push((value.to_field(schema)?.1, is_unknown(value)));
    }
    let is_modified =
        |field: &Field| Target::of_field(field).is_some_and(|target| target.has_modifier());
    if fields.iter().any(|(field, _)| is_modified(field)) {
        // Like a constant, a NULL has no modifier, and then neither has the column.
        for (field, is_open) in &mut fields {
            *is_open |= field.data_type().is_null();
        }
    }
    let Some(field) = common(&fields) else {
        return match mismatch("VALUES", &fields) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        };
    };
    for (row, (held, _)) in rows.iter_mut().zip(&fields) {
        let value = std::mem::take(&mut row[column]);
        row[column] = as_common(value, held, &field, config);
    }
    Ok(())
}

/// Whether the type, or its element type, is a number or a time.
fn is_number_or_time(target: &Target) -> bool {
    match target {
        Target::Array(element) => is_number_or_time(element),
        Target::Date | Target::Timestamp(_) | Target::Timestamptz(_) => true,
        other => other.is_number(),
    }
}
