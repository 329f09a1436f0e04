//! Decides whether a name refers to a column or to a relation's whole row, for the operator that
//! the dialect inserts (`dialect/expressions/whole_rows.rs`).
//!
//! A column of that name takes precedence, wherever it is found. The row itself is an additional
//! column of the relation, which no wildcard contains.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, internal_err};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RelationPlannerContext,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Query, SetExpr};

use crate::PgError;
use crate::dialect::{FIELD, WHOLE, row_column};
use crate::functions::named_row;
use crate::functions::scalar::type_name;

/// Plans the dialect's operator.
#[derive(Debug)]
pub(crate) struct WholeRows;

impl ExprPlanner for WholeRows {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let BinaryOperator::Custom(op) = &expr.op else {
            return Ok(PlannerResult::Original(expr));
        };
        let planned = match op.as_str() {
            WHOLE => match expr.left {
                Expr::Column(Column {
                    relation: None,
                    name,
                    ..
                }) if schema.fields_with_unqualified_name(&name).is_empty() => expr.right,
                column => column,
            },
            FIELD => field(expr.left, &expr.right, schema)?,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        Ok(PlannerResult::Planned(planned))
    }
}

/// A field of a row.
fn field(row: Expr, name: &Expr, schema: &DFSchema) -> Result<Expr> {
    let held = row.to_field(schema)?.1;
    let name = match name {
        Expr::Literal(value, _) => value.try_as_str().flatten().unwrap_or_default(),
        _ => return internal_err!("the name of a field must be a constant"),
    };
    let DataType::Struct(fields) = held.data_type() else {
        let message = format!(
            "column notation .{name} applied to type {}, which is not a composite type",
            type_name(&held)
        );
        return Err(PgError::new("42809", message).into());
    };
    if fields.find(name).is_none() {
        let message = format!("column \"{name}\" does not exist");
        return Err(PgError::new("42703", message).into());
    }
    Ok(get_field(row, name))
}

/// Plans a query's only relation with its row.
pub(super) fn with_row(
    query: Query,
    name: &str,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let SetExpr::Select(select) = *query.body else {
        return internal_err!("{name} is not a relation");
    };
    let Some(from) = select.from.into_iter().next() else {
        return internal_err!("{name} is not a relation");
    };
    let plan = context.plan(from.relation)?;
    let columns: Vec<Expr> = plan
        .schema()
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect();
    let fields = plan.schema().fields().iter().zip(&columns);
    let pairs = fields.flat_map(|(field, column)| [lit(field.name().as_str()), column.clone()]);
    let row = named_row(pairs.collect());
    let relation = plan
        .schema()
        .iter()
        .next()
        .and_then(|(relation, _)| relation.cloned());
    let row = row.alias_qualified(relation, row_column(name));
    LogicalPlanBuilder::from(plan)
        .project(columns.into_iter().chain([row]))?
        .build()
}
