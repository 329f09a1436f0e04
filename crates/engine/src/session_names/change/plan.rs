//! Which query finds the rows of a DELETE or UPDATE, and computes their new values?
//!
//! DataFusion plans `DELETE FROM t WHERE p` as a DELETE over `Filter p` over a scan of `t`, and an
//! UPDATE with a projection to all columns on top. This rule runs before any rule that rewrites
//! predicates, while the plan still follows the statement. It replaces the scan of the target by
//! the scan with positions (`positions.rs`), projects to the positions and the assigned columns,
//! and makes this the input of an INSERT into a [`RowChange`], which DataFusion plans like any
//! other INSERT. TRUNCATE is a DELETE of all rows. INSERT and UPDATE get a column for each CHECK
//! constraint of the table (`checked.rs`).
//! Not here: whether the session may change the table (`../statements/check.rs`).

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, not_impl_err, plan_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::dml::{DmlStatement, InsertOp, WriteOp};
use datafusion::logical_expr::{
    Expr, JoinType, LogicalPlan, Projection, SubqueryAlias, TableScanBuilder,
};
use datafusion::optimizer::AnalyzerRule;

use super::super::table::MemoryTable;
use super::apply::RowChange;
use super::checked::{inserted, new_name, updated};
use super::positions::Positioned;

/// The rule; see the file's header.
#[derive(Debug)]
pub(crate) struct ChangeByQuery;

impl AnalyzerRule for ChangeByQuery {
    fn name(&self) -> &'static str {
        "coscan_change_by_query"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let planned = plan.transform_down(|node| match &node {
            LogicalPlan::Dml(dml) => Ok(match by_query(dml)? {
                Some(change) => Transformed::yes(change),
                None => Transformed::no(node),
            }),
            _ => Ok(Transformed::no(node)),
        });
        planned.data()
    }
}

/// The change as a query; `None` if the statement or the kind of table is another.
fn by_query(dml: &DmlStatement) -> Result<Option<LogicalPlan>> {
    let Ok(provider) = source_as_provider(&dml.target) else {
        return Ok(None);
    };
    let Some(table) = provider.downcast_ref::<MemoryTable>() else {
        return Ok(None);
    };
    let (input, columns) = match &dml.op {
        WriteOp::Insert(InsertOp::Append) => return with_checks(dml, table),
        WriteOp::Delete => {
            let (rows, place) = with_positions(&dml.input, table)?;
            (Projection::try_new(place, Arc::new(rows))?, None)
        }
        WriteOp::Truncate => {
            let name = dml.table_name.clone();
            let scan = TableScanBuilder::new(name, Arc::clone(&dml.target)).build()?;
            let (rows, place) = with_positions(&LogicalPlan::TableScan(scan), table)?;
            (Projection::try_new(place, Arc::new(rows))?, None)
        }
        WriteOp::Update => {
            let (input, columns) = update(dml, table)?;
            (input, Some(columns))
        }
        _ => return Ok(None),
    };
    let change = RowChange::new(table.clone(), dml.table_name.clone(), columns);
    Ok(Some(LogicalPlan::Dml(DmlStatement::new(
        dml.table_name.clone(),
        provider_as_source(Arc::new(change)),
        WriteOp::Insert(InsertOp::Append),
        Arc::new(LogicalPlan::Projection(input)),
    ))))
}

/// An INSERT whose rows have the columns of the table's checks, if there are any.
fn with_checks(dml: &DmlStatement, table: &MemoryTable) -> Result<Option<LogicalPlan>> {
    let rows = inserted(dml, table)?;
    Ok(rows.map(|rows| {
        LogicalPlan::Dml(DmlStatement::new(
            dml.table_name.clone(),
            Arc::clone(&dml.target),
            dml.op.clone(),
            Arc::new(rows),
        ))
    }))
}

/// The query of an UPDATE for positions and new values, with the indexes of the columns that
/// change.
fn update(dml: &DmlStatement, table: &MemoryTable) -> Result<(Projection, Vec<usize>)> {
    let LogicalPlan::Projection(assigned) = dml.input.as_ref() else {
        return not_impl_err!("UPDATE of {} in this form", dml.table_name);
    };
    let (rows, mut output) = with_positions(&assigned.input, table)?;
    let relation = match &output[0] {
        Expr::Column(column) => column.relation.clone(),
        _ => None,
    };
    let mut columns = Vec::new();
    let schema = table.schema();
    for (at, (expr, field)) in assigned.expr.iter().zip(schema.fields()).enumerate() {
        let own = Expr::Column(Column::new(relation.clone(), field.name()));
        let value = match expr {
            Expr::Alias(alias) => &alias.expr,
            other => other,
        };
        if *value != own {
            columns.push(at);
            output.push(value.clone().alias(new_name(at)));
        }
    }
    let input = updated(output, rows, &columns, table, relation.as_ref())?;
    Ok((input, columns))
}

/// The plan with the scan of the target, its first leaf, replaced by the scan with positions, and
/// the columns of the version and the position.
fn with_positions(plan: &LogicalPlan, table: &MemoryTable) -> Result<(LogicalPlan, Vec<Expr>)> {
    let plan = rewritten(plan, table)?;
    let mut place = Vec::new();
    for name in Positioned::names(&table.schema()) {
        let (relation, _) = plan.schema().qualified_field_with_unqualified_name(&name)?;
        place.push(Expr::Column(Column::new(relation.cloned(), name)));
    }
    Ok((plan, place))
}

fn rewritten(plan: &LogicalPlan, table: &MemoryTable) -> Result<LogicalPlan> {
    let first = || -> Result<LogicalPlan> {
        let inputs = plan.inputs();
        let first = inputs.first();
        let first = first.ok_or_else(|| plan_datafusion_err!("a change without a table"))?;
        rewritten(first, table)
    };
    match plan {
        LogicalPlan::TableScan(scan) => {
            let source = provider_as_source(Arc::new(Positioned::new(table.clone())));
            let positioned = TableScanBuilder::new(scan.table_name.clone(), source)
                .with_filters(scan.filters.clone())
                .with_fetch(scan.fetch);
            Ok(LogicalPlan::TableScan(positioned.build()?))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let alias = SubqueryAlias::try_new(Arc::new(first()?), alias.alias.clone())?;
            Ok(LogicalPlan::SubqueryAlias(alias))
        }
        LogicalPlan::Filter(_) | LogicalPlan::Limit(_) => {
            plan.with_new_exprs(plan.expressions(), vec![first()?])
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let inputs = vec![first()?, join.right.as_ref().clone()];
            plan.with_new_exprs(plan.expressions(), inputs)
        }
        other => not_impl_err!("DELETE and UPDATE over {}", other.display()),
    }
}
