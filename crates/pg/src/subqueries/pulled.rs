//! Which subqueries can be joined as they are?
//!
//! In a subquery of filters, projections and inner joins, a condition that uses outer columns can
//! also be applied when its rows are joined to the outer rows: it becomes a condition of that
//! join, and no domain (`domain.rs`) is computed. Projections are inlined into the expressions
//! above them, so that the columns of a condition stay available.
//!
//! Not here: aggregates on top of such a subquery (`evaluated/scalar.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Distinct, FetchType, SkipType, Sort};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};

use super::plans::{
    Names, aliased, column_exprs, columns, filter, has_outer, join, join_conditions, named,
    project, substitute,
};
use super::references::{correlated, free_in, holds, lateral, subquery_of};

/// What matters about a subquery's rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Whether there are any.
    Any,
    /// The set of rows, without duplicates.
    Set,
    /// All rows, with duplicates.
    Rows,
}

/// A subquery without outer references: its rows for an outer row are those that meet
/// `conditions`.
pub(super) struct Pulled {
    pub(super) plan: LogicalPlan,
    /// The subquery's columns, over the plan's columns and outer references.
    pub(super) outputs: Vec<Expr>,
    pub(super) conditions: Vec<Expr>,
}

/// Converts the subquery to a [`Pulled`] if its form allows that.
pub(super) fn pull(plan: &LogicalPlan, asked: Asked, names: &mut Names) -> Result<Option<Pulled>> {
    if !correlated(plan) {
        return Ok(Some(Pulled {
            outputs: column_exprs(plan.schema()),
            plan: plan.clone(),
            conditions: vec![],
        }));
    }
    match plan {
        LogicalPlan::SubqueryAlias(alias) => pull(&alias.input, asked, names),
        LogicalPlan::Subquery(item) => pull(&item.subquery, asked, names),
        LogicalPlan::Sort(Sort {
            input, fetch: None, ..
        }) => pull(input, asked, names),
        LogicalPlan::Distinct(Distinct::All(input)) if asked != Asked::Rows => {
            pull(input, asked, names)
        }
        LogicalPlan::Limit(limit)
            if asked == Asked::Any
                && matches!(limit.get_skip_type()?, SkipType::Literal(0))
                && matches!(limit.get_fetch_type()?, FetchType::Literal(rows) if rows != Some(0)) =>
        {
            pull(&limit.input, asked, names)
        }
        LogicalPlan::Projection(given) => {
            let Some(mut pulled) = pull(&given.input, asked, names)? else {
                return Ok(None);
            };
            // The existence of rows does not depend on their columns.
            if asked != Asked::Any && !given.expr.iter().all(is_movable) {
                return Ok(None);
            }
            let schema = given.input.schema();
            pulled.outputs = match asked {
                Asked::Any => vec![lit(true); given.expr.len()],
                _ => substitute_all(&given.expr, schema, &pulled.outputs)?,
            };
            Ok(Some(pulled))
        }
        LogicalPlan::Filter(given) => {
            let Some(pulled) = pull(&given.input, asked_below(asked), names)? else {
                return Ok(None);
            };
            let parts = split_conjunction_owned(given.predicate.clone());
            pulled.filtered(parts, given.input.schema())
        }
        LogicalPlan::Join(given) => pull_join(given, names),
        _ => Ok(None),
    }
}

/// What matters below a filter, whose condition needs the columns.
fn asked_below(asked: Asked) -> Asked {
    match asked {
        Asked::Any => Asked::Set,
        other => other,
    }
}

fn pull_join(
    given: &datafusion::logical_expr::logical_plan::Join,
    names: &mut Names,
) -> Result<Option<Pulled>> {
    let depends = !lateral(given.left.schema(), &given.right).is_empty();
    if depends || given.null_aware || given.join_type != JoinType::Inner {
        return Ok(None);
    }
    let Some(left) = pull(&given.left, Asked::Rows, names)? else {
        return Ok(None);
    };
    let Some(right) = pull(&given.right, Asked::Rows, names)? else {
        return Ok(None);
    };
    let schema = given.left.schema().join(given.right.schema())?;
    let (left, right) = (left.sealed(None, names)?, right.sealed(None, names)?);
    let mut outputs = left.outputs;
    outputs.extend(right.outputs);
    let mut conditions = left.conditions;
    conditions.extend(right.conditions);
    let pulled = Pulled {
        plan: join(left.plan, right.plan, JoinType::Inner, vec![])?,
        outputs,
        conditions,
    };
    pulled.filtered(join_conditions(given), &schema)
}

/// Whether an expression may be moved to where it is evaluated more or less often.
pub(super) fn is_movable(expr: &Expr) -> bool {
    !expr.is_volatile() && !holds(expr, |part| subquery_of(part).is_some())
}

pub(super) fn substitute_all(
    exprs: &[Expr],
    schema: &DFSchema,
    values: &[Expr],
) -> Result<Vec<Expr>> {
    let exprs = exprs.iter().cloned();
    let exprs = exprs.map(|expr| substitute(expr.unalias(), schema, values));
    exprs.collect()
}

impl Pulled {
    /// Adds conditions over the subquery's columns (of `schema`).
    fn filtered(mut self, parts: Vec<Expr>, schema: &DFSchema) -> Result<Option<Self>> {
        let mut own = vec![];
        for part in parts {
            let part = if is_movable(&part) {
                substitute(part, schema, &self.outputs)?
            } else if self.keeps_names(schema) && free_in(&part, schema).is_empty() {
                // A subquery inside the condition refers to this subquery's columns by name.
                part
            } else {
                return Ok(None);
            };
            if has_outer(&part) {
                self.conditions.push(part);
            } else {
                own.push(part);
            }
        }
        self.plan = filter(own, self.plan)?;
        Ok(Some(self))
    }

    fn keeps_names(&self, schema: &DFSchema) -> bool {
        let columns = self.outputs.iter().zip(schema.iter());
        self.outputs.len() == schema.fields().len()
            && columns.into_iter().all(|(output, field)| {
                matches!(output, Expr::Column(column) if *column == Column::from(field))
            })
    }

    /// Computes the subquery's columns in the plan, so that an outer join can make them NULL.
    pub(super) fn computed(mut self, names: &mut Names) -> Result<Self> {
        let alias = names.next("__out_");
        let mut exprs = column_exprs(self.plan.schema());
        for (index, output) in self.outputs.iter_mut().enumerate() {
            if output.try_as_col().is_none() {
                let column = Column::new(Some(alias.as_str()), format!("c{index}"));
                let value = std::mem::replace(output, Expr::Column(column.clone()));
                exprs.push(named(value, column.relation.as_ref(), &column.name));
            }
        }
        self.plan = project(exprs, self.plan)?;
        Ok(self)
    }

    /// Gives all columns unique names and drops unused ones.
    pub(super) fn sealed(self, beside: Option<&DFSchema>, names: &mut Names) -> Result<Self> {
        let alias = names.next("__sub_");
        let schema = Arc::clone(self.plan.schema());
        let all = self.outputs.iter().chain(&self.conditions);
        let used: HashSet<&Column> = all.flat_map(Expr::column_refs).collect();
        let columns = columns(&schema);
        let mut exprs: Vec<Expr> = vec![];
        let mut places = vec![];
        for column in &columns {
            places.push(exprs.len());
            if used.contains(column) {
                exprs.push(Expr::Column(column.clone()));
            }
        }
        if exprs.is_empty() {
            exprs.push(lit(true).alias("row"));
        }
        let plan = match exprs.len() == columns.len() {
            true => self.plan,
            false => project(exprs, self.plan)?,
        };
        let plan = aliased(plan, &alias, beside)?;
        let new = column_exprs(plan.schema());
        let renamed: Vec<Expr> = places
            .into_iter()
            .map(|place| new[place.min(new.len() - 1)].clone())
            .collect();
        let over = |exprs: Vec<Expr>| -> Result<Vec<Expr>> {
            let exprs = exprs.into_iter();
            exprs
                .map(|expr| substitute(expr, &schema, &renamed))
                .collect()
        };
        Ok(Self {
            outputs: over(self.outputs)?,
            conditions: over(self.conditions)?,
            plan,
        })
    }
}
