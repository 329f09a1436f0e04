//! How is a subquery of any shape evaluated for all outer rows at once?
//!
//! The *domain* D contains each combination of the outer columns that the subquery S uses, once.
//! This file computes D ⨝ S: for every d of D the rows of S(d), with the columns of d appended. D
//! moves down through S until the part below uses no outer column; there it is joined. Each node
//! on the way keeps the rows of different d apart: it also groups, partitions, numbers and joins
//! by D. [Neumann & Kemper, "Unnesting Arbitrary Queries", BTW 2015, §3]
//!
//! Not here: cheaper ways for simpler subqueries (`pulled.rs`).
//!
//! S1: a plan made here has the columns of S, in their order, followed by those of D.
//! S2: a d with empty S(d) has no row; an aggregate without GROUP BY has one row for every d.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::expr::{Sort as SortExpr, WindowFunction};
use datafusion::logical_expr::logical_plan::{
    Aggregate, Distinct, DistinctOn, EmptyRelation, Limit, Sort, Union, Unnest, Values, Window,
};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit, when};

use super::grouping;
use super::source::source;
use crate::PgError;
use crate::numbers::sign_bit;
use crate::subqueries::Around;
use crate::subqueries::plans::{
    Names, column_exprs, filter, join, join_conditions, named, project, project_as, row_numbers,
    same,
};
use crate::subqueries::references::{
    DOMAIN, Renamed, correlated, free_in, lateral, rename, resolve,
};
use crate::trees::Tree;

/// The combinations of the outer columns' values.
pub(in crate::subqueries) struct Domain {
    /// The relation around the subquery.
    source: LogicalPlan,
    outer: Vec<Column>,
    /// The floats in `outer`. -0 equals 0, so D has a sign column for each of them.
    floats: Vec<Column>,
    /// The columns of D's plan, in the order of `outer`, then of `floats`.
    pub(in crate::subqueries) columns: Vec<Column>,
    renamed: Renamed,
}

impl Domain {
    /// The combinations of the columns `outer` that occur in the rows of `around`, which is marked
    /// to be computed once if it might have other rows the second time.
    pub(in crate::subqueries) fn of(
        around: &mut Around,
        outer: Vec<Column>,
        names: &mut Names,
    ) -> Result<Self> {
        Ok(Self::new(source(around, &outer, names)?, outer, names))
    }

    fn new(source: LogicalPlan, outer: Vec<Column>, names: &mut Names) -> Self {
        let alias = names.next(DOMAIN);
        let floats = outer.iter().filter(|column| {
            let field = source.schema().field_from_column(column);
            field.is_ok_and(|field| field.data_type().is_floating())
        });
        let floats: Vec<Column> = floats.cloned().collect();
        let columns: Vec<Column> = (0..outer.len() + floats.len())
            .map(|index| Column::new(Some(alias.as_str()), format!("k{index}")))
            .collect();
        let renamed = outer.iter().cloned().zip(columns.iter().cloned()).collect();
        Self {
            source,
            outer,
            floats,
            columns,
            renamed,
        }
    }

    fn copy(&self, names: &mut Names) -> Self {
        Self::new(self.source.clone(), self.outer.clone(), names)
    }

    fn plan(&self) -> Result<LogicalPlan> {
        let values = self.outer.iter().cloned().map(Expr::Column);
        let pairs = values.chain(self.signs()).zip(&self.columns);
        let values =
            pairs.map(|(value, column)| named(value, column.relation.as_ref(), &column.name));
        let values = project(values.collect(), self.source.clone())?;
        Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(values))))
    }

    /// An expression over the relation around the subquery, whose columns D has, over D.
    pub(super) fn in_domain(&self, expr: &Expr) -> Result<Expr> {
        let own = |expr| match expr {
            Expr::Column(column) => match self.renamed.get(&column) {
                Some(own) => Transformed::yes(Expr::Column(own.clone())),
                None => Transformed::no(Expr::Column(column)),
            },
            other => Transformed::no(other),
        };
        expr.clone().change_up(|expr| Ok(own(expr))).data()
    }

    fn signs(&self) -> impl Iterator<Item = Expr> {
        self.floats.iter().cloned().map(Expr::Column).map(sign_bit)
    }

    fn exprs(&self) -> Vec<Expr> {
        self.columns.iter().cloned().map(Expr::Column).collect()
    }

    /// The conditions under which a row of this domain equals the given columns (of `schema`).
    pub(super) fn is(&self, others: &[Column], schema: &DFSchema) -> Result<Vec<Expr>> {
        let pairs = others.iter().zip(&self.columns);
        let conditions = pairs.map(|(other, own)| same(other, own, schema));
        let conditions: Result<Vec<Vec<Expr>>> = conditions.collect();
        Ok(conditions?.into_iter().flatten().collect())
    }

    /// The conditions under which a row of the outer relation has these values.
    pub(super) fn is_outer_in(&self, values: &[Column]) -> Result<Vec<Expr>> {
        let (values, signs) = values.split_at(self.outer.len());
        let pairs = self.outer.iter().zip(values);
        let conditions = pairs.map(|(outer, value)| same(outer, value, self.source.schema()));
        let conditions: Result<Vec<Vec<Expr>>> = conditions.collect();
        let signs = self.signs().zip(signs);
        let signs = signs.map(|(sign, found)| sign.eq(Expr::Column(found.clone())));
        Ok(conditions?.into_iter().flatten().chain(signs).collect())
    }
}

/// D ⨝ S.
pub(in crate::subqueries) fn push(
    plan: LogicalPlan,
    d: &Domain,
    names: &mut Names,
) -> Result<LogicalPlan> {
    if !correlated(&plan) {
        return join(plan, d.plan()?, JoinType::Inner, vec![]);
    }
    let schema = Arc::clone(plan.schema());
    match plan {
        LogicalPlan::Projection(projection) => {
            let resolved = resolve_all(projection.expr, projection.input.schema(), d)?;
            let input = push(Arc::unwrap_or_clone(projection.input), d, names)?;
            project_as(resolved, &schema, d.exprs(), input)
        }
        LogicalPlan::Filter(given) => {
            let condition = resolve(given.predicate, given.input.schema(), &d.renamed)?;
            let input = push(Arc::unwrap_or_clone(given.input), d, names)?;
            filter(vec![condition], input)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = push(Arc::unwrap_or_clone(alias.input), d, names)?;
            renamed_as(&schema, input, d)
        }
        LogicalPlan::Subquery(item) => push(Arc::unwrap_or_clone(item.subquery), d, names),
        LogicalPlan::Join(given) => push_join(given, &schema, d, names),
        LogicalPlan::Aggregate(given) => push_aggregate(given, &schema, d, names),
        LogicalPlan::Window(given) => push_window(given, &schema, d, names),
        LogicalPlan::Sort(Sort { expr, input, fetch }) => match fetch {
            None => {
                let sorts = resolve_sorts(expr, input.schema(), d)?;
                let input = Arc::new(push(Arc::unwrap_or_clone(input), d, names)?);
                let expr = sorts;
                Ok(LogicalPlan::Sort(Sort { expr, input, fetch }))
            }
            Some(rows) => {
                let sort = Sort {
                    expr,
                    input,
                    fetch: None,
                };
                let rows = i64::try_from(rows).unwrap_or(i64::MAX);
                let limit = Limit {
                    skip: None,
                    fetch: Some(Box::new(lit(rows))),
                    input: Arc::new(LogicalPlan::Sort(sort)),
                };
                push_limit(limit, d, names)
            }
        },
        LogicalPlan::Limit(limit) => push_limit(limit, d, names),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let input = push(Arc::unwrap_or_clone(input), d, names)?;
            Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input))))
        }
        LogicalPlan::Distinct(Distinct::On(given)) => push_distinct_on(given, d, names),
        LogicalPlan::Union(union) => push_union(union, &schema, d, names),
        LogicalPlan::Values(values) => push_values(values, &schema, d, names),
        LogicalPlan::Unnest(given) => {
            let input = push(Arc::unwrap_or_clone(given.input), d, names)?;
            let unnest = Unnest::try_new(Arc::new(input), given.exec_columns, given.options)?;
            Ok(LogicalPlan::Unnest(unnest))
        }
        other => Err(unsupported(&other)),
    }
}

/// For each d with a row in S(d), the columns of D and the largest `value`, an expression over S
/// and D.
pub(super) fn largest(
    plan: LogicalPlan,
    value: Expr,
    d: &Domain,
    names: &mut Names,
) -> Result<LogicalPlan> {
    let input = push(plan, d, names)?;
    let aggregate = Aggregate::try_new(Arc::new(input), d.exprs(), vec![max(value)])?;
    Ok(LogicalPlan::Aggregate(aggregate))
}

/// The error for a correlated subquery that cannot be replaced.
fn unsupported(plan: &LogicalPlan) -> DataFusionError {
    let what = match plan {
        LogicalPlan::RecursiveQuery(_) => "WITH RECURSIVE",
        LogicalPlan::Aggregate(_) => "GROUPING SETS",
        _ => "this clause",
    };
    PgError::unsupported(format!(
        "{what} in a subquery that refers to outer columns is not supported"
    ))
    .into()
}

fn resolve_all(exprs: Vec<Expr>, input: &DFSchema, d: &Domain) -> Result<Vec<Expr>> {
    let exprs = exprs.into_iter();
    exprs.map(|expr| resolve(expr, input, &d.renamed)).collect()
}

fn resolve_sorts(sorts: Vec<SortExpr>, input: &DFSchema, d: &Domain) -> Result<Vec<SortExpr>> {
    let sorts = sorts.into_iter().map(|mut sort| {
        sort.expr = resolve(sort.expr, input, &d.renamed)?;
        Ok(sort)
    });
    sorts.collect()
}

/// Renames the first columns of `input` to the names of `schema`, and appends those of D.
fn renamed_as(schema: &DFSchema, input: LogicalPlan, d: &Domain) -> Result<LogicalPlan> {
    let mut own = column_exprs(input.schema());
    own.truncate(schema.fields().len());
    project_as(own, schema, d.exprs(), input)
}

fn push_aggregate(
    given: Aggregate,
    schema: &DFSchema,
    d: &Domain,
    names: &mut Names,
) -> Result<LogicalPlan> {
    if given
        .group_expr
        .iter()
        .any(|expr| matches!(expr, Expr::GroupingSet(_)))
    {
        return match grouping::apart(&given)? {
            Some(union) => push_union(union, schema, d, names),
            None => Err(unsupported(&LogicalPlan::Aggregate(given))),
        };
    }
    // A repeated key produces no column.
    let group = grouping_set_to_exprlist(&given.group_expr)?.into_iter();
    let group: Vec<Expr> = group.cloned().collect();
    let keys = group.len();
    let before = given.input.schema();
    let mut group = resolve_all(group, before, d)?;
    for (index, expr) in group.iter_mut().enumerate() {
        if let Expr::Column(column) = expr
            && d.columns.contains(column)
        {
            *expr = expr.clone().alias(format!("__key_{index}"));
        }
    }
    group.extend(d.exprs());
    let values = resolve_all(given.aggr_expr, before, d)?;
    let defaults = if keys == 0 {
        let defaults: Result<Vec<ScalarValue>> = values
            .iter()
            .zip(schema.fields())
            .map(|(value, field)| default_of(value, field.data_type()))
            .collect();
        Some(defaults?)
    } else {
        None
    };
    let input = push(Arc::unwrap_or_clone(given.input), d, names)?;
    let aggregate = Aggregate::try_new(Arc::new(input), group, values)?;
    let mut own = column_exprs(&aggregate.schema);
    let mut of_d = own.split_off(keys);
    own.extend(of_d.split_off(d.columns.len()));
    let aggregate = LogicalPlan::Aggregate(aggregate);
    let Some(defaults) = defaults else {
        return project_as(own, schema, d.exprs(), aggregate);
    };
    // S2: every d has one row.
    let all = d.copy(names);
    let alias = names.next("__aggregate_");
    let found = Column::new(Some(alias.as_str()), "found");
    let names_of = |index: usize| Column::new(Some(alias.as_str()), format!("v{index}"));
    let mut exprs: Vec<Expr> = vec![named(lit(true), found.relation.as_ref(), "found")];
    for (index, expr) in own.into_iter().enumerate() {
        let column = names_of(index);
        exprs.push(named(expr, column.relation.as_ref(), &column.name));
    }
    exprs.extend(d.exprs());
    let aggregate = project(exprs, aggregate)?;
    let conditions = d.is(&all.columns, all.plan()?.schema())?;
    let joined = join(all.plan()?, aggregate, JoinType::Left, conditions)?;
    let values = defaults.into_iter().enumerate().map(|(index, default)| {
        let value = Expr::Column(names_of(index));
        if default.is_null() {
            return Ok(value);
        }
        when(
            Expr::Column(found.clone()).is_null(),
            Expr::Literal(default, None),
        )
        .otherwise(value)
    });
    let values: Result<Vec<Expr>> = values.collect();
    let own_d = all.exprs().into_iter().zip(&d.columns);
    let own_d = own_d.map(|(expr, column)| named(expr, column.relation.as_ref(), &column.name));
    project_as(values?, schema, own_d.collect(), joined)
}

/// The value of an aggregate over no rows.
pub(super) fn default_of(
    aggregate: &Expr,
    data_type: &datafusion::arrow::datatypes::DataType,
) -> Result<ScalarValue> {
    match aggregate {
        Expr::Alias(alias) => default_of(&alias.expr, data_type),
        Expr::AggregateFunction(call) => call.func.default_value(data_type),
        other => Err(DataFusionError::Internal(format!("an aggregate: {other}"))),
    }
}

fn push_window(
    given: Window,
    schema: &DFSchema,
    d: &Domain,
    names: &mut Names,
) -> Result<LogicalPlan> {
    let before = given.input.schema().fields().len();
    let exprs = resolve_all(given.window_expr, given.input.schema(), d)?;
    let exprs = exprs.into_iter().map(|expr| partitioned(expr, d)).collect();
    let input = push(Arc::unwrap_or_clone(given.input), d, names)?;
    let window = Window::try_new(exprs, Arc::new(input))?;
    let all = column_exprs(&window.schema);
    let (own, rest) = all.split_at(before);
    let (_, made) = rest.split_at(d.columns.len());
    let own = own.iter().chain(made).cloned().collect();
    project_as(own, schema, d.exprs(), LogicalPlan::Window(window))
}

fn partitioned(expr: Expr, d: &Domain) -> Expr {
    match expr {
        Expr::Alias(mut alias) => {
            alias.expr = Box::new(partitioned(*alias.expr, d));
            Expr::Alias(alias)
        }
        Expr::WindowFunction(mut call) => {
            let WindowFunction { params, .. } = call.as_mut();
            params.partition_by.retain(|key| !d.exprs().contains(key));
            params.partition_by.extend(d.exprs());
            Expr::WindowFunction(call)
        }
        other => other,
    }
}

/// LIMIT for each d: numbers the rows in the order of the ORDER BY below.
fn push_limit(limit: Limit, d: &Domain, names: &mut Names) -> Result<LogicalPlan> {
    let before = Arc::clone(limit.input.schema());
    // Projections and aliases do not change the number of rows: the limit moves below them.
    let mut above = vec![];
    let mut input = Arc::unwrap_or_clone(limit.input);
    loop {
        input = match input {
            LogicalPlan::Projection(mut given) => {
                let inner = std::mem::replace(&mut given.input, empty());
                above.push(LogicalPlan::Projection(given));
                Arc::unwrap_or_clone(inner)
            }
            LogicalPlan::SubqueryAlias(mut given) => {
                let inner = std::mem::replace(&mut given.input, empty());
                above.push(LogicalPlan::SubqueryAlias(given));
                Arc::unwrap_or_clone(inner)
            }
            other => {
                input = other;
                break;
            }
        }
    }
    let mut order = vec![];
    if let LogicalPlan::Sort(sort) = input {
        if sort.fetch.is_some() {
            return Err(unsupported(&LogicalPlan::Sort(sort)));
        }
        order = resolve_sorts(sort.expr, sort.input.schema(), d)?;
        input = Arc::unwrap_or_clone(sort.input);
    }
    let schema = Arc::clone(input.schema());
    let resolved = |bound: Option<Box<Expr>>| match bound {
        Some(bound) => Ok(Some(resolve(*bound, &before, &d.renamed)?)),
        None => Ok::<_, DataFusionError>(None),
    };
    let (skip, fetch) = (resolved(limit.skip)?, resolved(limit.fetch)?);
    let input = push(input, d, names)?;
    let number = Column::new_unqualified(names.next("__row_"));
    let numbered = row_numbers(d.exprs(), order, &number.name)?;
    let own = column_exprs(input.schema());
    let window = Window::try_new(vec![numbered], Arc::new(input))?;
    let mut plan = LogicalPlan::Window(window);
    let number = Expr::Column(number).cast_to(&INTEGER, plan.schema())?;
    let mut conditions = vec![];
    let least = match skip {
        Some(skip) => {
            let skip = datafusion::functions::expr_fn::coalesce(vec![
                skip.cast_to(&INTEGER, plan.schema())?,
                lit(0_i64),
            ]);
            conditions.push(number.clone().gt(skip.clone()));
            skip
        }
        None => lit(0_i64),
    };
    if let Some(fetch) = fetch {
        let fetch = fetch.cast_to(&INTEGER, plan.schema())?;
        // LIMIT NULL does not limit.
        let within = (number - least).lt_eq(fetch.clone());
        conditions.push(within.or(fetch.is_null()));
    }
    plan = project(own, filter(conditions, plan)?)?;
    debug_assert!(plan.schema().fields().len() == schema.fields().len() + d.columns.len());
    while let Some(node) = above.pop() {
        let schema = Arc::clone(node.schema());
        plan = match node {
            LogicalPlan::Projection(given) => {
                let resolved = resolve_all(given.expr, plan.schema(), d)?;
                project_as(resolved, &schema, d.exprs(), plan)?
            }
            _ => renamed_as(&schema, plan, d)?,
        };
    }
    Ok(plan)
}

const INTEGER: datafusion::arrow::datatypes::DataType =
    datafusion::arrow::datatypes::DataType::Int64;

/// A placeholder for a relation that is moved out of its parent.
fn empty() -> Arc<LogicalPlan> {
    Arc::new(LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    }))
}

fn push_distinct_on(given: DistinctOn, d: &Domain, names: &mut Names) -> Result<LogicalPlan> {
    let before = given.input.schema();
    let with_d = |exprs: Vec<Expr>| -> Vec<Expr> { d.exprs().into_iter().chain(exprs).collect() };
    let on = with_d(resolve_all(given.on_expr, before, d)?);
    let selected = resolve_all(given.select_expr, before, d)?.into_iter();
    let selected = selected.zip(given.schema.iter());
    let selected = selected.map(|(expr, (qualifier, field))| named(expr, qualifier, field.name()));
    let selected = selected.chain(d.exprs()).collect();
    let sorts = match given.sort_expr {
        Some(sorts) => {
            let by_d = d.exprs().into_iter().map(|expr| expr.sort(true, false));
            Some(by_d.chain(resolve_sorts(sorts, before, d)?).collect())
        }
        None => None,
    };
    let input = Arc::new(push(Arc::unwrap_or_clone(given.input), d, names)?);
    let distinct = DistinctOn::try_new(on, selected, sorts, input)?;
    Ok(LogicalPlan::Distinct(Distinct::On(distinct)))
}

fn push_union(
    union: Union,
    schema: &DFSchema,
    d: &Domain,
    names: &mut Names,
) -> Result<LogicalPlan> {
    let count = schema.fields().len();
    let branches = union.inputs.into_iter().map(|branch| {
        let branch = push(Arc::unwrap_or_clone(branch), d, names)?;
        let exprs = column_exprs(branch.schema()).into_iter().enumerate();
        let exprs = exprs.map(|(index, expr)| named(expr, None, &format!("__c{index}")));
        Ok(Arc::new(project(exprs.collect(), branch)?))
    });
    let branches: Result<Vec<Arc<LogicalPlan>>> = branches.collect();
    let union = LogicalPlan::Union(Union::try_new(branches?)?);
    let mut own = column_exprs(union.schema());
    let of_d = own.split_off(count).into_iter().zip(&d.columns);
    let of_d = of_d.map(|(expr, column)| named(expr, column.relation.as_ref(), &column.name));
    project_as(own, schema, of_d.collect(), union)
}

fn push_values(
    values: Values,
    schema: &DFSchema,
    d: &Domain,
    names: &mut Names,
) -> Result<LogicalPlan> {
    let none = DFSchema::empty();
    let rows = values.values.into_iter().map(|row| {
        let row = row.into_iter().zip(schema.iter());
        let exprs = row.map(|(expr, (qualifier, field))| {
            let expr = match expr {
                Expr::OuterReferenceColumn(of, column) if of.data_type() == field.data_type() => {
                    Expr::OuterReferenceColumn(of, column)
                }
                expr => expr.cast_to(field.data_type(), &none)?,
            };
            Ok(named(expr, qualifier, field.name()))
        });
        let exprs: Result<Vec<Expr>> = exprs.collect();
        Ok(Arc::new(project(exprs?, Arc::unwrap_or_clone(empty()))?))
    });
    let inputs: Result<Vec<Arc<LogicalPlan>>> = rows.collect();
    let mut inputs = inputs?;
    if inputs.len() == 1 {
        return push(Arc::unwrap_or_clone(inputs.remove(0)), d, names);
    }
    push_union(Union::try_new(inputs)?, schema, d, names)
}

fn push_join(
    given: datafusion::logical_expr::logical_plan::Join,
    schema: &DFSchema,
    d: &Domain,
    names: &mut Names,
) -> Result<LogicalPlan> {
    if given.null_aware {
        return Err(unsupported(&LogicalPlan::Join(given)));
    }
    let join_schema = given.left.schema().join(given.right.schema())?;
    let mut conditions = join_conditions(&given);
    let depends = !lateral(given.left.schema(), &given.right).is_empty();
    let (left_uses, right_uses) = (correlated(&given.left), correlated(&given.right));
    let on_uses = conditions
        .iter()
        .any(|on| !free_in(on, &join_schema).is_empty());
    conditions = resolve_all(conditions, &join_schema, d)?;
    let (left, right) = (
        Arc::unwrap_or_clone(given.left),
        Arc::unwrap_or_clone(given.right),
    );
    if depends {
        let left = push(left, d, names)?;
        let right = rename(right, &d.renamed)?;
        let joined = join(left, right, given.join_type, conditions)?;
        return selected(schema, joined, d);
    }
    let kind = given.join_type;
    let keeps_left = !matches!(kind, JoinType::Inner | JoinType::Right);
    let keeps_right = matches!(kind, JoinType::Right | JoinType::Full);
    if matches!(
        kind,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
    ) {
        return Err(PgError::unsupported("a right semi join in a correlated subquery").into());
    }
    // D is needed on a side that uses its columns, and on a side whose rows appear without a
    // partner.
    let mut on_left = left_uses || keeps_left;
    let on_right = right_uses || keeps_right;
    on_left |= on_uses && !on_right;
    if !(on_left && on_right) {
        let (left, right) = if on_left {
            (push(left, d, names)?, right)
        } else {
            (left, push(right, d, names)?)
        };
        let joined = join(left, right, kind, conditions)?;
        return selected(schema, joined, d);
    }
    let other = d.copy(names);
    // The condition uses the columns of `d`, which are on the left.
    let left = push(left, d, names)?;
    let right = push(right, &other, names)?;
    conditions.extend(other.is(&d.columns, left.schema())?);
    let joined = join(left, right, kind, conditions)?;
    let of_d = d.columns.iter().zip(&other.columns).map(|(left, right)| {
        let left_value = Expr::Column(left.clone());
        let value = match kind {
            JoinType::Right => Expr::Column(right.clone()),
            JoinType::Full => datafusion::functions::expr_fn::coalesce(vec![
                left_value,
                Expr::Column(right.clone()),
            ]),
            _ => left_value,
        };
        named(value, left.relation.as_ref(), &left.name)
    });
    let own = column_exprs(schema);
    project_as(own, schema, of_d.collect(), joined)
}

/// Selects the columns of `schema`, then those of D, from a plan that has both by name.
fn selected(schema: &DFSchema, input: LogicalPlan, d: &Domain) -> Result<LogicalPlan> {
    project_as(column_exprs(schema), schema, d.exprs(), input)
}
