//! Which tables does a view read, and what if they were dropped, replaced or renamed?
//!
//! A view holds a plan, and the plan holds tables, so the view would keep showing the rows of a
//! table that another session dropped or replaced. So [`Reads`] records the tables that a view's
//! plan scans, by name. When a statement names the view and another table has such a name, the
//! plan gets that table. A renamed table is followed. If no table has the name, or its columns
//! have other types, the view stays, so that lists of tables show it, but it cannot be read
//! (42P01, 0A000).
//! Not here: what the session itself may not drop (`statements/dependents.rs`).
//! V1: a view scans the tables that have its names now, or fails.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use coscan_pg::PgError;
use datafusion::catalog::{CatalogProviderList, SchemaProvider, Session, TableProvider};
use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{ViewTable, provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScanBuilder, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{ObjectName, visit_relations};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::FutureExt;

/// The tables of a schema that the session created.
pub(super) trait OwnTables {
    /// The name of a table, if it is one of them.
    fn name_of(&self, table: &Arc<dyn TableProvider>) -> Option<String>;

    /// The table with a name.
    fn own_table(&self, name: &str) -> Option<Arc<dyn TableProvider>>;
}

/// Finds the session's own tables of a schema.
pub(super) type OwnTablesOf = fn(&dyn SchemaProvider) -> Option<&dyn OwnTables>;

/// The tables that a view scans, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads(Arc<[Read]>);

#[derive(Debug)]
struct Read {
    catalog: String,
    schema: String,
    name: String,
    table: Arc<dyn TableProvider>,
}

impl Reads {
    /// The tables that a new view reads; none if `view` is a plain table. Scans without a name in
    /// the catalog, such as functions that return rows, are left out.
    pub(super) fn of(catalogs: &dyn CatalogProviderList, view: &dyn TableProvider) -> Self {
        let Some(view) = view.downcast_ref::<ViewTable>() else {
            return Self::default();
        };
        let mut reads: Vec<Read> = vec![];
        let _ = view.logical_plan().apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(table) = source_as_provider(&scan.source)
                && !reads.iter().any(|read| Arc::ptr_eq(&read.table, &table))
            {
                reads.extend(find(catalogs, scan.table_name.table(), table));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        Self(reads.into())
    }

    /// The view over the tables that have its names now, if any of them has changed.
    pub(super) async fn renewed(
        &self,
        catalogs: &dyn CatalogProviderList,
        own: OwnTablesOf,
        view: &dyn TableProvider,
    ) -> Result<Option<(Arc<dyn TableProvider>, Self)>> {
        let Some(view) = view.downcast_ref::<ViewTable>() else {
            return Ok(None);
        };
        let mut found = Vec::with_capacity(self.0.len());
        let mut is_same = true;
        for read in self.0.iter() {
            let now = named(catalogs, own, read).await?;
            is_same &= match &now {
                Some(now) => Arc::ptr_eq(now, &read.table),
                None => read.table.is::<Lost>(),
            };
            found.push(now);
        }
        if is_same {
            return Ok(None);
        }
        let used = columns_of(view.logical_plan())?;
        let reads = found.into_iter().zip(self.0.iter());
        let reads = reads.map(|(now, read)| {
            renamed(catalogs, own, read).unwrap_or_else(|| Read {
                catalog: read.catalog.clone(),
                schema: read.schema.clone(),
                name: read.name.clone(),
                table: fitting(now, read, &used),
            })
        });
        let reads: Arc<[Read]> = reads.collect();
        let plan = self.exchanged(view.logical_plan(), &reads)?;
        let view = ViewTable::new(plan, view.definition().cloned());
        Ok(Some((Arc::new(view), Self(reads))))
    }

    /// The plan over other tables.
    fn exchanged(&self, plan: &LogicalPlan, reads: &[Read]) -> Result<LogicalPlan> {
        let exchanged = plan.clone().transform_up_with_subqueries(|node| {
            let LogicalPlan::TableScan(scan) = node else {
                return Ok(Transformed::yes(node.recompute_schema()?));
            };
            let table = source_as_provider(&scan.source)?;
            let at = self
                .0
                .iter()
                .position(|read| Arc::ptr_eq(&read.table, &table));
            let Some(new) = at.and_then(|at| reads.get(at)) else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            let source = provider_as_source(Arc::clone(&new.table));
            let scan = TableScanBuilder::new(scan.table_name, source)
                .with_filters(scan.filters)
                .with_fetch(scan.fetch);
            Ok(Transformed::yes(LogicalPlan::TableScan(scan.build()?)))
        });
        exchanged.data()
    }
}

/// The schema in which this table has this name.
fn find(
    catalogs: &dyn CatalogProviderList,
    name: &str,
    table: Arc<dyn TableProvider>,
) -> Option<Read> {
    for catalog in catalogs.catalog_names() {
        let Some(schemas) = catalogs.catalog(&catalog) else {
            continue;
        };
        for schema in schemas.schema_names() {
            let found = schemas.schema(&schema)?;
            let found = found.table(name).now_or_never()?.ok()?;
            if found.is_some_and(|found| Arc::ptr_eq(&found, &table)) {
                return Some(Read {
                    catalog,
                    schema,
                    name: name.to_owned(),
                    table,
                });
            }
        }
    }
    None
}

/// The names of relations in the text of CREATE VIEW.
pub(super) fn names_in(text: &str) -> Vec<TableReference> {
    let mut names = vec![];
    let statements = Parser::parse_sql(&GenericDialect {}, text).unwrap_or_default();
    let _ = visit_relations(&statements, |name: &ObjectName| {
        names.push(TableReference::parse_str(&name.to_string()));
        ControlFlow::<()>::Continue(())
    });
    names
}

/// The same table under its current name.
fn renamed(catalogs: &dyn CatalogProviderList, own: OwnTablesOf, read: &Read) -> Option<Read> {
    let schema = catalogs.catalog(&read.catalog)?.schema(&read.schema)?;
    let own = own(schema.as_ref())?;
    let name = own.name_of(&read.table)?;
    Some(Read {
        catalog: read.catalog.clone(),
        schema: read.schema.clone(),
        table: own.own_table(&name)?,
        name,
    })
}

/// The table that has a name now. A view does not count: it might read the view that asks.
async fn named(
    catalogs: &dyn CatalogProviderList,
    own: OwnTablesOf,
    read: &Read,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let schema = catalogs.catalog(&read.catalog);
    let Some(schema) = schema.and_then(|catalog| catalog.schema(&read.schema)) else {
        return Ok(None);
    };
    let own_table = own(schema.as_ref()).and_then(|own| own.own_table(&read.name));
    let table = match own_table {
        Some(table) => Some(table),
        None => schema.table(&read.name).await?,
    };
    Ok(table.filter(|table| table.table_type() != TableType::View))
}

/// The names of all columns that a plan computes with.
fn columns_of(plan: &LogicalPlan) -> Result<BTreeSet<String>> {
    let mut used = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr {
                    used.insert(column.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(used)
}

/// The table that has a name now, if the view can read it; otherwise a table that fails.
fn fitting(
    now: Option<Arc<dyn TableProvider>>,
    read: &Read,
    used: &BTreeSet<String>,
) -> Arc<dyn TableProvider> {
    let schema = read.table.schema();
    let Some(now) = now else {
        let told = format!("relation \"{}\" does not exist", read.name);
        return Arc::new(Lost {
            schema,
            code: "42P01",
            told,
        });
    };
    let new = now.schema();
    let known = schema
        .fields()
        .iter()
        .filter(|field| used.contains(field.name()));
    let changed = known.into_iter().find(|field| {
        let same = new.field_with_name(field.name());
        !same.is_ok_and(|same| same.data_type() == field.data_type())
    });
    let Some(changed) = changed else {
        return now;
    };
    let told = format!(
        "the view has to be made again: column \"{}\" of \"{}\" is another or gone",
        changed.name(),
        read.name
    );
    Arc::new(Lost {
        schema,
        code: "0A000",
        told,
    })
}

/// Stands in a view's plan for a table that the view cannot read.
struct Lost {
    schema: SchemaRef,
    code: &'static str,
    told: String,
}

#[async_trait]
impl TableProvider for Lost {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(PgError::new(self.code, self.told.clone()).into())
    }
}

impl std::fmt::Debug for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lost")
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}
