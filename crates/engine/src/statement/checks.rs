//! Which CHECK constraints does a statement declare, and what do they mean?
//!
//! DataFusion's plan of CREATE TABLE has no place for them, so they travel among its defaults,
//! under names that no column has ([`as_defaults`], [`split_defaults`]).
//! Not here: which rows are checked, and when (`session_names/change/`, `session_names/table.rs`).

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use arrow::datatypes::{DataType, Schema};
use coscan_pg::PgError;
use coscan_pg::output::pg_type;
use coscan_pg::parameters::sql_name;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ColumnDef, ColumnOption, Expr as SqlExpr, ExprWithAlias, Query,
    TableConstraint, Visit, Visitor,
};

/// What the names of checks begin with among defaults. PostgreSQL's names have no such character.
const MARK: char = '\0';

/// A CHECK constraint of a table.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    name: String,
    /// Its columns are those of the table, without qualifiers.
    condition: Expr,
}

impl Check {
    /// The constraint's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the condition reads a column.
    pub(crate) fn reads(&self, column: &str) -> bool {
        let columns = self.condition.column_refs();
        columns.iter().any(|read| read.name == column)
    }

    /// The same constraint of a table in which a column has another name.
    pub(crate) fn with_renamed(&self, from: &str, to: &str) -> Result<Self> {
        let condition = self.over(|column| {
            let name = if column == from { to } else { column };
            Ok(own(name))
        })?;
        Ok(Self {
            name: self.name.clone(),
            condition,
        })
    }

    /// Whether a row violates the constraint, given the values of its columns by their names. NULL
    /// does not violate it.
    pub(crate) fn violation(&self, value: impl Fn(&str) -> Result<Expr>) -> Result<Expr> {
        Ok(self.over(value)?.is_false())
    }

    fn over(&self, value: impl Fn(&str) -> Result<Expr>) -> Result<Expr> {
        let over = self.condition.clone().transform(|part| match &part {
            Expr::Column(column) => Ok(Transformed::yes(value(&column.name)?)),
            _ => Ok(Transformed::no(part)),
        });
        over.data()
    }
}

/// A column of the table.
fn own(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// Takes the checks out of the declarations of a table.
pub(crate) fn take_checks(
    columns: &mut [ColumnDef],
    constraints: &mut Vec<TableConstraint>,
) -> Vec<CheckConstraint> {
    let mut checks: Vec<CheckConstraint> = columns.iter_mut().flat_map(take_of_column).collect();
    constraints.retain(|constraint| match constraint {
        TableConstraint::Check(check) => {
            checks.push(check.clone());
            false
        }
        _ => true,
    });
    checks
}

/// Takes the checks out of the declaration of a column.
pub(crate) fn take_of_column(column: &mut ColumnDef) -> Vec<CheckConstraint> {
    let mut checks = vec![];
    column.options.retain(|option| match &option.option {
        ColumnOption::Check(check) => {
            let mut check = check.clone();
            check.name = option.name.clone().or(check.name);
            checks.push(check);
            false
        }
        _ => true,
    });
    checks
}

/// Plans the checks that a statement declares of a table with these columns, which has others.
///
/// # Errors
/// 42703 if there is no such column, 42804 if a condition is no boolean, 42710 if there is a check
/// of that name, 42803, 42P20 and 0A000 for aggregates, windows and subqueries.
pub(crate) fn plan_checks(
    state: &SessionState,
    table: &str,
    columns: &Schema,
    declared: Vec<CheckConstraint>,
    others: &[Check],
) -> Result<Vec<Check>> {
    if declared.is_empty() {
        // The columns of a query may have one name: that error is not this function's.
        return Ok(vec![]);
    }
    let schema = DFSchema::try_from_qualified_schema(TableReference::bare(table), columns)?;
    let names = &state.config_options().sql_parser;
    let names = IdentNormalizer::new(names.enable_ident_normalization);
    let mut checks: Vec<Check> = vec![];
    for constraint in declared {
        if constraint.enforced == Some(false) {
            return Err(PgError::unsupported("NOT ENFORCED is not supported").into());
        }
        let condition = condition_of(state, &schema, *constraint.expr)?;
        let is_new = |name: &str| checks.iter().any(|check| check.name == name);
        let is_old = |name: &str| others.iter().any(|check| check.name == name);
        let name = match constraint.name.map(|name| names.normalize(name)) {
            Some(name) if is_new(&name) => {
                let told = format!("check constraint \"{name}\" already exists");
                return Err(PgError::new("42710", told).into());
            }
            Some(name) if is_old(&name) => {
                let told = format!("constraint \"{name}\" for relation \"{table}\" already exists");
                return Err(PgError::new("42710", told).into());
            }
            Some(name) => name,
            None => chosen_name(table, &condition, |name| is_new(name) || is_old(name)),
        };
        checks.push(Check { name, condition });
    }
    Ok(checks)
}

/// The condition of a check of a table with these columns.
fn condition_of(state: &SessionState, schema: &DFSchema, expr: SqlExpr) -> Result<Expr> {
    if expr.visit(&mut Queries).is_break() {
        let told = "cannot use subquery in check constraint";
        return Err(PgError::unsupported(told).into());
    }
    let expr = ExprWithAlias { expr, alias: None };
    let condition = state.create_logical_expr_from_sql_expr(expr, schema)?;
    refuse_sets(&condition)?;
    let (_, field) = condition.to_field(schema)?;
    if !matches!(field.data_type(), DataType::Boolean | DataType::Null) {
        let given = sql_name(&pg_type(&field));
        let told = format!("argument of CHECK must be type boolean, not type {given}");
        return Err(PgError::new("42804", told).into());
    }
    let condition = condition.transform(|part| match &part {
        Expr::Column(column) => Ok(Transformed::yes(own(&column.name))),
        _ => Ok(Transformed::no(part)),
    });
    condition.data()
}

/// Refuses what needs more rows than one.
fn refuse_sets(condition: &Expr) -> Result<()> {
    let aggregates = condition.exists(|part| Ok(matches!(part, Expr::AggregateFunction(_))))?;
    let windows = condition.exists(|part| Ok(matches!(part, Expr::WindowFunction(_))))?;
    let (code, told) = match (aggregates, windows) {
        (_, true) => (
            "42P20",
            "window functions are not allowed in check constraints",
        ),
        (true, _) => (
            "42803",
            "aggregate functions are not allowed in check constraints",
        ),
        _ => return Ok(()),
    };
    Err(PgError::new(code, told).into())
}

/// Stops at a query within an expression.
struct Queries;

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// The name of a check that has none: of its table, and of its column if it reads only one, with a
/// number where that name is taken.
fn chosen_name(table: &str, condition: &Expr, taken: impl Fn(&str) -> bool) -> String {
    let columns = condition.column_refs();
    let columns: BTreeSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let mut columns = columns.into_iter();
    let stem = match (columns.next(), columns.next()) {
        (Some(only), None) => format!("{table}_{only}_check"),
        _ => format!("{table}_check"),
    };
    let mut name = stem.clone();
    let mut number = 0;
    while taken(&name) {
        number += 1;
        name = format!("{stem}{number}");
    }
    name
}

/// The checks of a new table in the form in which they travel among its defaults.
pub(crate) fn as_defaults(checks: Vec<Check>) -> impl Iterator<Item = (String, Expr)> {
    let checks = checks.into_iter();
    checks.map(|check| (format!("{MARK}{}", check.name), check.condition))
}

/// The checks of a new table, and its defaults.
pub(crate) fn split_defaults(all: Vec<(String, Expr)>) -> (Vec<Check>, HashMap<String, Expr>) {
    let (mut checks, mut defaults) = (vec![], HashMap::new());
    for (name, value) in all {
        if let Some(name) = name.strip_prefix(MARK) {
            checks.push(Check {
                name: name.to_owned(),
                condition: value,
            });
        } else {
            defaults.insert(name, value);
        }
    }
    (checks, defaults)
}
