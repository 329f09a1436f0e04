//! Plans UNION, INTERSECT and EXCEPT with the common types of their columns.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Cast, Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::sql::sqlparser::ast::{SetExpr, SetOperator, SetQuantifier};

use super::marked_sets::marked;
use super::{derived, is_number_or_time};
use crate::PgError;
use crate::casts::{PG_TYPE, Target, cast_expr};
use crate::dialect::query_of;
use crate::functions::arrays::{COMPARISON, check_rows, leaf};
use crate::functions::scalar::{is_text, type_name};
use crate::functions::{mark_of, plain_array};
use crate::operators::padded::{is_padded, unpadded};
use crate::operators::{as_common, common, is_unknown, mismatch, typed};

/// Whether a body is a set operation by position; PostgreSQL has none by name.
pub(super) fn is_by_position(mut body: &SetExpr) -> bool {
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

/// Plans a chain of set operations. It may be long, so the branches are planned in a loop.
pub(super) fn set_operations(
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
    let mut plan = marked(context.plan(derived(query_of(body)))?)?;
    while let Some((op, quantifier, right)) = rest.pop() {
        let right = marked(context.plan(derived(query_of(right)))?)?;
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
    let left = constants_typed(left, right.schema().fields(), config)?;
    let right = constants_typed(right, left.schema().fields(), config)?;
    let (a, b) = (left.schema().fields(), right.schema().fields());
    let all = quantifier == SetQuantifier::All;
    if !all || !matches!(op, SetOperator::Union) {
        let mut pairs = a.iter().zip(b);
        // PostgreSQL sorts rows: it does not know whether it can hash their fields.
        pairs.try_for_each(|(a, b)| check_rows(a, b, COMPARISON))?;
    }
    let pairs = a.iter().zip(b);
    let types: Vec<Option<FieldRef>> = pairs
        .map(|(a, b)| united(op, a, b))
        .collect::<Result<_>>()?;
    let (left, right) = (cast(left, &types, config)?, cast(right, &types, config)?);
    match op {
        SetOperator::Union if all => LogicalPlanBuilder::from(left).union(right)?.build(),
        SetOperator::Union => LogicalPlanBuilder::from(left)
            .union_distinct(right)?
            .build(),
        SetOperator::Intersect => LogicalPlanBuilder::intersect(left, right, all),
        _ => LogicalPlanBuilder::except(left, right, all),
    }
}

/// Gives the untyped constants of a branch the types of the other branch's columns.
fn constants_typed(
    branch: LogicalPlan,
    other: &[FieldRef],
    config: &ConfigOptions,
) -> Result<LogicalPlan> {
    let projection = match branch {
        LogicalPlan::Projection(projection) => projection,
        LogicalPlan::Limit(mut limit) => {
            limit.input = below(&limit.input, other, config)?;
            return Ok(LogicalPlan::Limit(limit));
        }
        LogicalPlan::Sort(mut sort) => {
            sort.input = below(&sort.input, other, config)?;
            return Ok(LogicalPlan::Sort(sort));
        }
        branch => return Ok(branch),
    };
    if matches!(projection.input.as_ref(), LogicalPlan::Sort(_)) {
        return above_sort(projection, other, config);
    }
    let has_type = |field: &Field| {
        let held = field.data_type();
        !held.is_null() && (!is_text(held) || is_padded(field) || names_type(field))
    };
    // A NULL takes the named type here, so that the constants of later branches find it.
    let is_open = |(expr, field): (&Expr, &FieldRef)| {
        (is_unknown(expr) && has_type(field)) || (is_null(expr) && names_type(field))
    };
    let pairs = || projection.expr.iter().zip(other);
    if !pairs().any(is_open) {
        return Ok(LogicalPlan::Projection(projection));
    }
    let exprs = pairs().map(|(expr, field)| {
        if !is_open((expr, field)) {
            return expr.clone();
        }
        let name = expr.schema_name().to_string();
        typed(expr.clone().unalias(), &unpadded(field), config).alias(name)
    });
    let exprs = exprs.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        exprs,
        Arc::clone(&projection.input),
    )?))
}

fn below(
    input: &LogicalPlan,
    other: &[FieldRef],
    config: &ConfigOptions,
) -> Result<Arc<LogicalPlan>> {
    constants_typed(input.clone(), other, config).map(Arc::new)
}

/// A projection that drops the columns by which the rows below it were sorted. The constants are
/// below the sort.
fn above_sort(
    projection: Projection,
    other: &[FieldRef],
    config: &ConfigOptions,
) -> Result<LogicalPlan> {
    let sorted = projection.input.schema();
    let mut wanted = sorted.fields().to_vec();
    for (expr, field) in projection.expr.iter().zip(other) {
        if let Expr::Column(column) = expr.clone().unalias()
            && let Some(at) = sorted.maybe_index_of_column(&column)
        {
            wanted[at] = Arc::clone(field);
        }
    }
    let input = below(&projection.input, &wanted, config)?;
    let plan = Projection::try_new(projection.expr, input)?;
    Ok(LogicalPlan::Projection(plan))
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_null(&alias.expr),
        Expr::Literal(value, None) => value.is_null(),
        _ => false,
    }
}

/// Whether a column of texts names a type that Arrow lacks, such as uuid and jsonb.
fn names_type(field: &Field) -> bool {
    is_text(field.data_type()) && Target::of_field(field).is_some_and(|target| !target.is_text())
}

/// Checks a column whose texts name a type beside another column. For DataFusion both are texts.
///
/// # Errors
/// 42846, if both types are of PostgreSQL's category U; 42804, if they are of two categories.
fn check_named(op: SetOperator, a: &FieldRef, b: &FieldRef) -> Result<()> {
    let (Some(x), Some(y)) = (Target::of_field(a), Target::of_field(b)) else {
        return Ok(());
    };
    if x == y {
        return Ok(());
    }
    // The types of PostgreSQL's category U.
    let is_apart = |target: &Target| {
        matches!(
            target,
            Target::Uuid | Target::Json | Target::Jsonb | Target::JsonPath | Target::Bytea
        )
    };
    if is_apart(&x) && is_apart(&y) {
        let message = format!("{op} could not convert type {} to {}", y.name(), x.name());
        return Err(PgError::new("42846", message).into());
    }
    match mismatch(
        &op.to_string(),
        &[(Arc::clone(a), false), (Arc::clone(b), false)],
    ) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Checks arrays of other elements.
///
/// # Errors
/// 42846, if the elements have no common type.
fn check_arrays(
    op: SetOperator,
    (a, x): (&Field, &FieldRef),
    (b, y): (&Field, &FieldRef),
) -> Result<()> {
    let (Some(one), Some(other)) = (Target::of_field(x), Target::of_field(y)) else {
        return Ok(());
    };
    // PostgreSQL's type of an array does not say how many dimensions it has.
    let are_deep = matches!(one, Target::Array(_)) || matches!(other, Target::Array(_));
    let are_named = names_type(x) || names_type(y);
    let elements = [(Arc::clone(x), false), (Arc::clone(y), false)];
    let are_apart = (are_named && one != other) || common(&elements).is_none();
    if are_deep || !are_apart {
        return Ok(());
    }
    let (first, second) = (type_name(a), type_name(b));
    let message = format!("{op} could not convert type {second} to {first}");
    Err(PgError::new("42846", message).into())
}

/// The common type of two columns; `None` if they have one type, or DataFusion finds it.
///
/// # Errors
/// 42804, if only one of them is a text; those of [`check_named`] and [`check_arrays`].
fn united(op: SetOperator, a: &FieldRef, b: &FieldRef) -> Result<Option<FieldRef>> {
    if names_type(a) || names_type(b) {
        check_named(op, a, b)?;
    }
    let types = [a.data_type(), b.data_type()];
    if let [DataType::List(x), DataType::List(y)] = types {
        if types[0] == types[1] {
            return Ok(named_array(a).map(|_| Arc::clone(a)));
        }
        check_arrays(op, (a.as_ref(), x), (b.as_ref(), y))?;
        if is_text(x.data_type()) && is_text(y.data_type()) {
            return Ok(common(&[(Arc::clone(a), false), (Arc::clone(b), false)]));
        }
    }
    let are_texts = types.iter().all(|held| is_text(held));
    if are_texts && (is_padded(a) || is_padded(b)) && a.metadata() != b.metadata() {
        return Ok(common(&[(Arc::clone(a), false), (Arc::clone(b), false)]));
    }
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

/// Casts the columns of a branch to these types.
fn cast(
    input: LogicalPlan,
    types: &[Option<FieldRef>],
    config: &ConfigOptions,
) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let is_united = is_union(&input);
    let differs = |field: &FieldRef, to: &FieldRef| {
        let is_marked = is_padded(to) || is_padded(field);
        to.data_type() != field.data_type()
            || (is_marked && to.metadata() != field.metadata())
            || (!is_united && loses_name(to))
    };
    let fields = || schema.iter().zip(types);
    let mut pairs = fields().filter_map(|((_, field), to)| Some((field, to.as_ref()?)));
    if !pairs.any(|(field, to)| differs(field, to)) {
        return Ok(input);
    }
    let columns = fields().map(|((qualifier, field), to)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match to {
            Some(to) if differs(field, to) => {
                let cast = match named_array(to) {
                    Some(target) => as_named(column, field, to, &target, config),
                    None => as_common(column, field, to, config),
                };
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

/// The type of an array whose elements are texts of a type that Arrow lacks; `None` for others.
fn named_array(field: &Field) -> Option<Target> {
    let (element, dimensions) = leaf(field);
    let is_named = dimensions > 0 && element.metadata().contains_key(PG_TYPE);
    let is_text = Target::of_field(&element).is_some_and(|target| target.is_text());
    Target::of_field(field).filter(|_| is_named && is_text)
}

/// Whether an array may lose the name of its elements' type when the plan is analysed. `ARRAY[…]`
/// becomes DataFusion's function then, which keeps only the names of `functions/marked.rs`.
fn loses_name(field: &Field) -> bool {
    named_array(field).is_some() && mark_of(field).is_none()
}

/// Whether the columns were united by another set operation.
fn is_union(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Union(_) => true,
        LogicalPlan::Distinct(Distinct::All(below)) => is_union(below),
        _ => false,
    }
}

/// Casts an array to the type of named elements, which a constant would lose in Arrow's cast
/// (DataFusion 55.2, `ScalarValue::try_from_array`).
fn as_named(
    array: Expr,
    held: &Field,
    to: &Field,
    target: &Target,
    config: &ConfigOptions,
) -> Expr {
    let array = match leaf(held).0.data_type() == leaf(to).0.data_type() {
        true => array,
        false => Expr::Cast(Cast::new(Box::new(array), plain_array(to.data_type()))),
    };
    cast_expr(array, target, config)
}

/// Casts the arrays of a relation that may lose the name of their elements' type to their type.
pub(super) fn with_named_arrays(
    relation: LogicalPlan,
    config: &ConfigOptions,
) -> Result<LogicalPlan> {
    let fields = relation.schema().fields().iter();
    let types = fields.map(|field| loses_name(field).then(|| Arc::clone(field)));
    let types: Vec<Option<FieldRef>> = types.collect();
    cast(relation, &types, config)
}
