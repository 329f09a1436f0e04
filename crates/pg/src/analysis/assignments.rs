//! Casts of the values that INSERT and UPDATE store in columns of another type.
//!
//! PostgreSQL reads a constant as a value of the column's type (`'\xDEAD'` is two bytes, `'{1,2}'`
//! an array) and rounds a numeric to the column's scale. It refuses a text that is longer than the
//! column, and a value whose type has no assignment cast to the column's (manual, 10.4).
//! DataFusion casts as Arrow does; this rule replaces its casts.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Projection, Values, WriteOp, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::PgError;
use crate::casts::{CAST, Target, cast_expr, decimal};
use crate::functions::{stored_as, text};
use crate::operators::is_unknown;
use crate::output::pg_type;
use crate::parameters::{bare, output, sql_name};
use crate::resolve::is_assignable;
use crate::trees::Tree;

/// The rule's name. Rules that change the form of UPDATE and DELETE run after it.
pub const ASSIGNMENTS: &str = "assignments";

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Assignments;

impl AnalyzerRule for Assignments {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Insert(_) | WriteOp::Update) => {
                Ok(LogicalPlan::Dml(assigned(dml, config)?))
            }
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => plan
                .change_children(|child| self.analyze(child, config).map(Transformed::yes))
                .data(),
            other => Ok(other),
        }
    }

    fn name(&self) -> &'static str {
        ASSIGNMENTS
    }
}

/// Corrects a statement whose input is a projection with one expression per column of the table.
fn assigned(mut dml: DmlStatement, config: &ConfigOptions) -> Result<DmlStatement> {
    let LogicalPlan::Projection(projection) = dml.input.as_ref() else {
        return Ok(dml);
    };
    let table = dml.target.schema();
    let input = match projection.input.as_ref() {
        LogicalPlan::Values(values) => {
            let rows = read_rows(values, &projection.expr, &table, config)?;
            Arc::new(LogicalPlan::Values(rows))
        }
        _ => Arc::clone(&projection.input),
    };
    let columns = projection.expr.iter().zip(table.fields());
    let columns = columns.map(|(expr, field)| {
        // `read_rows` checks the values of VALUES.
        let is_checked = matches!(input.as_ref(), LogicalPlan::Values(_));
        if !is_checked && !is_open(expr, &input) {
            let (value, schema) = source(expr, &input);
            check_assignable(value, &schema, field)?;
        }
        match expr {
            Expr::Alias(alias) => {
                let value = stored(&alias.expr, input.schema(), field, config)?;
                Ok(value.alias_qualified(alias.relation.clone(), &alias.name))
            }
            expr => stored(expr, input.schema(), field, config),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let projection = Projection::try_new(columns, input)?;
    dml.input = Arc::new(LogicalPlan::Projection(projection));
    Ok(dml)
}

/// Reads the rows of VALUES as the types of their target columns, which `columns` determines.
fn read_rows(
    values: &Values,
    columns: &[Expr],
    table: &Schema,
    config: &ConfigOptions,
) -> Result<Values> {
    let to = |at: usize| {
        let (qualifier, field) = values.schema.qualified_field(at);
        let is_it = |expr: &Expr| match bare(expr) {
            Expr::Column(column) => {
                column.name == *field.name() && column.relation.as_ref() == qualifier
            }
            _ => false,
        };
        columns.iter().position(is_it)
    };
    let columns = values.schema.fields().len();
    let fields: Vec<Option<&Field>> = (0..columns)
        .map(|at| to(at).map(|column| table.field(column)))
        .collect();
    let none = DFSchema::empty();
    let rows = values.values.iter().map(|row| {
        let cells = row.iter().zip(&fields);
        let cells = cells.map(|(cell, field)| match field {
            Some(field) => {
                check_assignable(bare(cell), &none, field)?;
                stored(cell, &none, field, config)
            }
            None => Ok(cell.clone()),
        });
        cells.collect::<Result<Vec<_>>>()
    });
    // The table itself refuses NULL in a column that is not nullable.
    let fields = values.schema.iter().map(|(qualifier, field)| {
        let field = field.as_ref().clone().with_nullable(true);
        (qualifier.cloned(), Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), HashMap::new())?;
    Ok(Values {
        schema: Arc::new(schema),
        values: rows.collect::<Result<_>>()?,
    })
}

/// Casts an expression to the type that the column stores.
fn stored(expr: &Expr, schema: &DFSchema, column: &Field, config: &ConfigOptions) -> Result<Expr> {
    let value = bare(expr);
    let from = value.to_field(schema)?.1;
    let Some(target) = target_of(column) else {
        return Ok(expr.clone());
    };
    // For a uuid in a file the statement already contains bytes (the engine's
    // `statement/changes/`).
    if matches!(column.data_type(), DataType::FixedSizeBinary(_)) {
        return Ok(expr.clone());
    }
    let is_same = from.data_type() == column.data_type()
        && Target::of_field(&from) == Target::of_field(column)
        && (matches!(value, Expr::Column(_)) || !target.has_modifier());
    if is_same || from.data_type().is_null() {
        return Ok(expr.clone());
    }
    let mut value = value.clone();
    let (element, texts) = match &target {
        Target::Array(element) => (element.as_ref(), Target::Array(Box::new(Target::Text))),
        target => (target, Target::Text),
    };
    if let Target::Varchar(Some(most)) | Target::Bpchar(Some(most)) = element {
        if Target::of_field(&from).as_ref() != Some(&texts) {
            value = cast_expr(value, &texts, config);
        }
        value = text::fits().call(vec![value, lit(i64::from(*most)), lit(element.name())]);
    }
    let held = target.arrow(&value.get_type(schema)?);
    let value = cast_expr(value, &target, config);
    if held == *column.data_type() {
        return Ok(value);
    }
    Ok(stored_as(value, column.data_type().clone()))
}

/// Whether a value is an untyped constant, possibly in each row of VALUES with subqueries.
fn is_open(value: &Expr, input: &LogicalPlan) -> bool {
    let column = match bare(value) {
        Expr::Column(column) => column,
        constant => {
            return is_unknown(constant) || *constant == Expr::Literal(ScalarValue::Null, None);
        }
    };
    let Some(at) = input.schema().maybe_index_of_column(column) else {
        return false;
    };
    let is_open_in = |below: &Arc<LogicalPlan>| {
        let column = Expr::Column(Column::from(below.schema().qualified_field(at)));
        is_open(&column, below)
    };
    match input {
        LogicalPlan::Projection(projection) => is_open(&projection.expr[at], &projection.input),
        // VALUES with subqueries (`dialect/queries/values.rs`).
        LogicalPlan::Union(union) => union.inputs.iter().all(is_open_in),
        LogicalPlan::SubqueryAlias(alias) => is_open_in(&alias.input),
        LogicalPlan::Sort(sort) => is_open_in(&sort.input),
        _ => false,
    }
}

/// The value in the statement: the expression behind a column of the input, or the value itself.
fn source<'a>(expr: &'a Expr, input: &'a LogicalPlan) -> (&'a Expr, DFSchemaRef) {
    let value = bare(expr);
    let schema = DFSchemaRef::clone(input.schema());
    let below = match value {
        Expr::Column(column) => {
            let at = schema.maybe_index_of_column(column);
            at.and_then(|at| output(input, at))
        }
        _ => None,
    };
    below.map_or((value, schema), |(below, schema)| (bare(below), schema))
}

/// # Errors
/// 42804, if PostgreSQL has no assignment cast from the expression's type to the column's.
/// Functions and columns may lack the mark of a type that Arrow holds as text (`uuid`, `jsonb`),
/// so for such a column a text is refused only if the statement declares it as text.
fn check_assignable(value: &Expr, schema: &DFSchema, column: &Field) -> Result<()> {
    let from = value.to_field(schema)?.1;
    // For a uuid in a file the statement already contains bytes.
    let is_bytes = matches!(column.data_type(), DataType::FixedSizeBinary(_));
    if is_bytes || target_of(column).is_none() || from.data_type().is_null() {
        return Ok(());
    }
    let is_said = match value {
        Expr::Literal(_, metadata) => metadata.is_some(),
        Expr::Placeholder(_) => false,
        Expr::ScalarFunction(call) if call.name() == CAST => true,
        _ => !column.data_type().is_string(),
    };
    let (said, wanted) = (pg_type(&from), pg_type(column));
    if is_assignable(said.oid(), wanted.oid()) || (from.data_type().is_string() && !is_said) {
        return Ok(());
    }
    let message = format!(
        "column \"{}\" is of type {} but expression is of type {}",
        column.name(),
        sql_name(&wanted),
        sql_name(&said)
    );
    Err(PgError::new("42804", message).into())
}

/// The type to which a column's values are cast and rounded.
fn target_of(column: &Field) -> Option<Target> {
    Target::of_field(column).map(declared)
}

/// The declared type of a column that holds values of this type.
fn declared(held: Target) -> Target {
    match held {
        Target::NumericOf(precision, scale)
            if decimal(precision, scale) == Target::Numeric(None).arrow(&DataType::Utf8) =>
        {
            Target::Numeric(None)
        }
        Target::NumericOf(precision, scale) => {
            Target::Numeric(Some((u16::from(precision), i16::from(scale))))
        }
        Target::Array(element) => Target::Array(Box::new(declared(*element))),
        other => other,
    }
}
