//! Which columns of a query have a declared type modifier?
//!
//! Columns of tables and casts to `numeric(p, s)` have one, and so do expressions that pass their
//! values on (`exprTypmod` in PostgreSQL's `nodeFuncs.c`). Others have none, whatever digits their
//! values have: a table or a recursive query made from them accepts values with any digits.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, JoinType, LogicalPlan, Projection};

use crate::casts::{OPEN_SCALE, PgCast, Target, cast_number};
use crate::functions::MARKED;
use crate::numbers::arithmetic::OPEN;

/// Removes the modifiers of undeclared columns, so that later values fit, too.
///
/// # Errors
/// DataFusion's error for an inconsistent plan.
pub fn open_undeclared(query: LogicalPlan) -> Result<LogicalPlan> {
    let schema = Arc::clone(query.schema());
    let fields = schema.fields().iter().enumerate();
    let opens = fields.map(|(at, field)| unmodified(field).filter(|_| !is_declared(&query, at)));
    let opens: Vec<Option<Target>> = opens.collect();
    if opens.iter().all(Option::is_none) {
        return Ok(query);
    }
    let columns = schema.iter().zip(opens).map(|((qualifier, field), open)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match open {
            Some(open) => {
                cast_number(column, &open).alias_qualified(qualifier.cloned(), field.name())
            }
            None => column,
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(query),
    )?))
}

/// The type of a field without its modifier, if it is a numeric or a time with one.
fn unmodified(field: &Field) -> Option<Target> {
    if let Some(open) = open(field.data_type()) {
        return Target::of_arrow(&open);
    }
    let target = Target::of_field(field)?;
    (!target.is_text() && target.has_modifier()).then(|| target.unmodified())
}

/// The type of numerics without known digits, or of arrays of them, in place of this one; `None`
/// for other types.
pub(super) fn open(held: &DataType) -> Option<DataType> {
    match held {
        DataType::List(element) => {
            let open = open(element.data_type())?;
            let element = element.as_ref().clone().with_data_type(open);
            Some(DataType::List(Arc::new(element)))
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => (*scale <= OPEN_SCALE && *held != OPEN).then_some(OPEN),
        _ => None,
    }
}

fn is_declared(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(projection) => declares(&projection.expr[at], &projection.input),
        LogicalPlan::Distinct(Distinct::On(on)) => declares(&on.select_expr[at], &on.input),
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.get(at) {
            Some(Expr::GroupingSet(_)) | None => is_handed_on(plan, at),
            Some(key) => declares(key, &aggregate.input),
        },
        LogicalPlan::SubqueryAlias(alias) => is_declared(&alias.input, at),
        LogicalPlan::RecursiveQuery(query) => is_declared(&query.static_term, at),
        LogicalPlan::Values(values) => {
            let is_cast = |row: &Vec<Expr>| declares(&row[at], plan);
            values.values.iter().all(is_cast)
        }
        LogicalPlan::Union(union) => {
            let of = |input: &LogicalPlan| input.schema().field(at).data_type().clone();
            let mut inputs = union.inputs.iter();
            inputs.all(|input| of(input) == of(plan) && is_declared(input, at))
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::LeftMark => {
            at < join.left.schema().fields().len() && is_handed_on(plan, at)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Join(_) => is_handed_on(plan, at),
        _ => false,
    }
}

/// Whether a node passes on a declared column of one of its inputs.
fn is_handed_on(plan: &LogicalPlan, at: usize) -> bool {
    let (qualifier, field) = plan.schema().qualified_field(at);
    let column = Column::from((qualifier, field));
    let mut inputs = plan.inputs().into_iter();
    inputs.any(|input| {
        let at = input.schema().maybe_index_of_column(&column);
        let same = |at: &usize| input.schema().field(*at).data_type() == field.data_type();
        at.filter(same).is_some_and(|at| is_declared(input, at))
    })
}

/// Whether an expression over `input` has a declared modifier.
fn declares(expr: &Expr, input: &LogicalPlan) -> bool {
    match expr {
        Expr::Alias(alias) => declares(&alias.expr, input),
        Expr::Column(column) => {
            let at = input.schema().maybe_index_of_column(column);
            at.is_some_and(|at| is_declared(input, at))
        }
        Expr::ScalarSubquery(query) => is_declared(&query.subquery, 0),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            all_declare(results.chain(case.else_expr.as_deref()), input)
        }
        Expr::ScalarFunction(call) if call.func.inner().is::<PgCast>() => {
            PgCast::target(&call.args).is_some_and(|target| target.has_modifier())
        }
        Expr::ScalarFunction(call) => match call.name() {
            "coalesce" | "greatest" | "least" => all_declare(call.args.iter(), input),
            "nullif" | MARKED => call.args.first().is_some_and(|of| declares(of, input)),
            _ => false,
        },
        _ => false,
    }
}

fn all_declare<'a>(exprs: impl Iterator<Item = &'a Expr>, input: &LogicalPlan) -> bool {
    let schema = input.schema();
    let types = exprs.map(|expr| {
        let held = expr.get_type(schema).ok()?;
        declares(expr, input).then_some(held)
    });
    let Some(types) = types.collect::<Option<Vec<_>>>() else {
        return false;
    };
    types.windows(2).all(|pair| pair[0] == pair[1])
}
