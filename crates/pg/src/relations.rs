//! Which types do the columns of VALUES, of set operations and of recursive queries have?
//!
//! | relation | DataFusion | here |
//! |---|---|---|
//! | VALUES | a type of its own choice, of two values at a time | the common type |
//! | UNION, INTERSECT, EXCEPT | the left side's until a plan is analysed | the common type |
//! | the first term of WITH RECURSIVE | numerics keep its digits | undeclared numerics are open |
//!
//! What stands around a relation is planned by these types. The dialect writes each of the three
//! as a subquery in FROM (`dialect/relations.rs`), which is what a [`RelationPlanner`] sees. Set
//! operations of columns that are neither numbers nor times are left to DataFusion.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection,
};
use datafusion::sql::sqlparser::ast::{
    Query, SetExpr, SetOperator, SetQuantifier, TableFactor, Values,
};

use crate::PgError;
use crate::casts::{PgCast, Target};
use crate::dialect::{FIRST_TERM, LATER_TERM, relation_of};
use crate::functions::scalar::is_text;
use crate::numbers::arithmetic::OPEN;
use crate::operators::{as_common, common, is_unknown, mismatch, typed};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Derived {
            lateral,
            subquery,
            alias,
            sample: None,
        } = relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        if let Some(alias) = &alias {
            let name = alias.name.value.as_str();
            if name == FIRST_TERM {
                let plan = opened(context.plan(derived(*subquery))?)?;
                return Ok(planned(PlannedRelation::new(plan, None)));
            }
            if let Some(name) = name.strip_prefix(LATER_TERM) {
                let plan = context.plan(derived(*subquery))?;
                check_later(name, &plan)?;
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
            _ => {
                return Ok(RelationPlanning::Original(Box::new(TableFactor::Derived {
                    lateral,
                    subquery,
                    alias,
                    sample: None,
                })));
            }
        };
        Ok(planned(PlannedRelation::new(plan, alias)))
    }
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

/// Whether a query has a body and no other clause.
fn is_bare(query: &Query) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.pipe_operators.is_empty()
}

/// Whether a body is a set operation of PostgreSQL's: it has none by names.
fn is_by_position(mut body: &SetExpr) -> bool {
    let mut found = false;
    while let SetExpr::SetOperation {
        set_quantifier,
        left,
        ..
    } = body
    {
        if !matches!(
            set_quantifier,
            SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None
        ) {
            return false;
        }
        found = true;
        body = left.as_ref();
    }
    found
}

/// VALUES, each column in its common type.
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

/// A chain of set operations, which may be long: its branches are planned one after the other.
fn set_operations(
    mut body: SetExpr,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut rest = vec![];
    while let SetExpr::SetOperation {
        op,
        set_quantifier,
        left,
        right,
    } = body
    {
        rest.push((op, set_quantifier, *right));
        body = *left;
    }
    let mut plan = context.plan(derived(relation_of(body)))?;
    while let Some((op, quantifier, right)) = rest.pop() {
        let right = context.plan(derived(relation_of(right)))?;
        let config = context.context_provider().options();
        plan = combined(op, quantifier, (plan, right), config)?;
    }
    Ok(plan)
}

fn combined(
    op: SetOperator,
    quantifier: SetQuantifier,
    (left, right): (LogicalPlan, LogicalPlan),
    config: &ConfigOptions,
) -> Result<LogicalPlan> {
    let width = left.schema().fields().len();
    if width != right.schema().fields().len() {
        return plan_err!("{op} queries have different number of columns");
    }
    let like = Arc::clone(right.schema());
    let left = constants_typed(left, &like, config)?;
    let like = Arc::clone(left.schema());
    let right = constants_typed(right, &like, config)?;
    let (a, b) = (left.schema().fields(), right.schema().fields());
    let pairs = a.iter().zip(b);
    let types: Vec<Option<FieldRef>> = pairs
        .map(|(a, b)| united(op, a, b))
        .collect::<Result<_>>()?;
    let (left, right) = (cast(left, &types, config)?, cast(right, &types, config)?);
    let all = quantifier == SetQuantifier::All;
    match op {
        SetOperator::Union if all => LogicalPlanBuilder::from(left).union(right)?.build(),
        SetOperator::Union => LogicalPlanBuilder::from(left)
            .union_distinct(right)?
            .build(),
        SetOperator::Intersect => LogicalPlanBuilder::intersect(left, right, all),
        _ => LogicalPlanBuilder::except(left, right, all),
    }
}

/// A branch whose constants without a type have that of the other branch.
fn constants_typed(
    branch: LogicalPlan,
    other: &DFSchema,
    config: &ConfigOptions,
) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = &branch else {
        return Ok(branch);
    };
    let has_type = |field: &Field| !field.data_type().is_null() && !is_text(field.data_type());
    let is_open = |(expr, field): (&Expr, &FieldRef)| is_unknown(expr) && has_type(field);
    let pairs = || projection.expr.iter().zip(other.fields());
    if !pairs().any(is_open) {
        return Ok(branch);
    }
    let exprs = pairs().map(|(expr, field)| {
        if !is_open((expr, field)) {
            return expr.clone();
        }
        let name = expr.schema_name().to_string();
        typed(expr.clone().unalias(), field, config).alias(name)
    });
    let exprs = exprs.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        exprs,
        Arc::clone(&projection.input),
    )?))
}

/// The common type of two columns; `None` if they have one type, or DataFusion finds it.
///
/// # Errors
/// 42804, if one is a text and the other is not.
fn united(op: SetOperator, a: &FieldRef, b: &FieldRef) -> Result<Option<FieldRef>> {
    let types = [a.data_type(), b.data_type()];
    if types[0] == types[1] || types.iter().any(|held| held.is_null()) {
        return Ok(None);
    }
    let (Some(x), Some(y)) = (Target::of_field(a), Target::of_field(b)) else {
        return Ok(None);
    };
    let fields = [(Arc::clone(a), false), (Arc::clone(b), false)];
    if is_number_or_time(&x) && is_number_or_time(&y) {
        return match common(&fields) {
            Some(field) => Ok(Some(field)),
            None => Err(mismatch(&op.to_string(), &fields).map_or_else(
                || PgError::new("42804", format!("{op} types cannot be matched")).into(),
                Into::into,
            )),
        };
    }
    let is_plain = |target: &Target| target.is_text() || is_number_or_time(target);
    match mismatch(&op.to_string(), &fields) {
        Some(error) if is_plain(&x) && is_plain(&y) && x.is_text() != y.is_text() => {
            Err(error.into())
        }
        _ => Ok(None),
    }
}

/// Whether the type, or that of its elements, is that of a number or a time.
fn is_number_or_time(target: &Target) -> bool {
    match target {
        Target::Array(element) => is_number_or_time(element),
        Target::Date | Target::Timestamp(_) | Target::Timestamptz(_) => true,
        other => other.is_number(),
    }
}

/// A branch whose columns have these types.
fn cast(
    input: LogicalPlan,
    types: &[Option<FieldRef>],
    config: &ConfigOptions,
) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let held = |field: &FieldRef, to: &Option<FieldRef>| {
        to.as_ref()
            .is_none_or(|to| to.data_type() == field.data_type())
    };
    let fields = || schema.iter().zip(types);
    if fields().all(|((_, field), to)| held(field, to)) {
        return Ok(input);
    }
    let columns = fields().map(|((qualifier, field), to)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match to {
            Some(to) if to.data_type() != field.data_type() => {
                let cast = as_common(column, field, to, config);
                cast.alias_qualified(qualifier.cloned(), field.name())
            }
            _ => column,
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(input),
    )?))
}

/// The first term of a recursive query: a numeric has as many digits as later terms give it, unless
/// it is declared.
fn opened(input: LogicalPlan) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let opens: Vec<Option<DataType>> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(at, field)| open(field.data_type()).filter(|_| !is_declared(&input, at)))
        .collect();
    if opens.iter().all(Option::is_none) {
        return Ok(input);
    }
    let columns = schema.iter().zip(opens).map(|((qualifier, field), open)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match open {
            Some(open) => Expr::Cast(Cast::new(Box::new(column), open))
                .alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(input),
    )?))
}

/// The type of open numerics, or of arrays of them, instead of this one.
fn open(held: &DataType) -> Option<DataType> {
    match held {
        DataType::List(element) => {
            let open = open(element.data_type())?;
            let element = element.as_ref().clone().with_data_type(open);
            Some(DataType::List(Arc::new(element)))
        }
        held => held.is_decimal().then_some(OPEN),
    }
}

/// Whether a numeric column has a declared scale: a table's has, and a cast to `numeric(p, s)`.
fn is_declared(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(projection) => {
            let mut expr = &projection.expr[at];
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            match expr {
                Expr::Column(column) => is_declared_in(&projection.input, column),
                Expr::ScalarFunction(call)
                    if call.func.inner().downcast_ref::<PgCast>().is_some() =>
                {
                    PgCast::target(&call.args).is_some_and(|target| target.has_modifier())
                }
                _ => false,
            }
        }
        LogicalPlan::SubqueryAlias(alias) => is_declared(&alias.input, at),
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| is_declared(input, at)),
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Join(_) => {
            let (qualifier, field) = plan.schema().qualified_field(at);
            let column = Column::from((qualifier, field));
            let mut inputs = plan.inputs().into_iter();
            inputs.any(|input| is_declared_in(input, &column))
        }
        _ => false,
    }
}

fn is_declared_in(plan: &LogicalPlan, column: &Column) -> bool {
    let at = plan.schema().maybe_index_of_column(column);
    at.is_some_and(|at| is_declared(plan, at))
}

/// 42804, if the later terms of a recursive query have wider types than the first one, to which
/// DataFusion casts them. The first one's are those of the table in which the second finds it.
fn check_later(name: &str, later: &LogicalPlan) -> Result<()> {
    let mut first: Option<SchemaRef> = None;
    later.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && scan.table_name.table() == name
        {
            first = Some(scan.source.schema());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(first) = first else { return Ok(()) };
    let columns = first.fields().iter().zip(later.schema().fields());
    for (at, (own, given)) in (1..).zip(columns) {
        if Some(own.data_type()) == open(given.data_type()).as_ref()
            || own.data_type() == given.data_type()
        {
            continue;
        }
        let (Some(own), Some(given)) = (Target::of_field(own), Target::of_field(given)) else {
            continue;
        };
        if !is_number_or_time(&own) || !is_number_or_time(&given) {
            continue;
        }
        let both = match (&own, &given) {
            (Target::NumericOf(..), Target::NumericOf(..)) => "numeric".to_owned(),
            (Target::Int4 | Target::Int8, Target::Int2) | (Target::Int8, Target::Int4) => continue,
            (Target::Float4 | Target::Float8, other) if *other != Target::Float8 => continue,
            (Target::NumericOf(..), other) if other.is_integer() => continue,
            (Target::Timestamp(_) | Target::Timestamptz(_), Target::Date)
            | (Target::Timestamptz(_), Target::Timestamp(_))
            | (Target::Array(_), _)
            | (_, Target::Array(_)) => continue,
            (own, given) if *own == *given => continue,
            (_, given) => given.name(),
        };
        let own = match own {
            Target::NumericOf(precision, scale) => format!("numeric({precision},{scale})"),
            own => own.name(),
        };
        let message = format!(
            "recursive query \"{name}\" column {at} has type {own} in non-recursive term but type \
             {both} overall"
        );
        return Err(PgError::new("42804", message).into());
    }
    Ok(())
}
