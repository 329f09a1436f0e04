//! Which tables does a view read, and what if they were dropped, replaced, renamed or altered?
//!
//! A view holds a plan, and the plan holds tables, so the view would keep showing the rows of a
//! table that another session dropped or replaced. So [`Reads`] records the tables that a view's
//! plan scans, by name. When a statement names the view and another table has such a name, the
//! plan gets that table. A renamed table is followed. If no table has the name, or its columns
//! have other types, the view stays, so that lists of tables show it, but it cannot be read
//! (42P01, 0A000). A view of the session that alters the table is exchanged at once ([`Reader`]).
//! Not here: what the session itself may not drop (`statements/dependents.rs`).
//! V1: a view scans the tables that have its names now, or fails.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use coscan_pg::PgError;
use datafusion::catalog::{CatalogProviderList, SchemaProvider, Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference, internal_err};
use datafusion::datasource::{ViewTable, provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Expr, LogicalPlan, Projection, TableScan, TableScanBuilder, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{ObjectName, visit_relations};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::FutureExt;

use super::table::MemoryTable;

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
    pub(super) fn of(
        catalogs: &dyn CatalogProviderList,
        own: OwnTablesOf,
        view: &dyn TableProvider,
    ) -> Self {
        let Some(view) = view.downcast_ref::<ViewTable>() else {
            return Self::default();
        };
        let mut reads: Vec<Read> = vec![];
        let _ = view.logical_plan().apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(table) = source_as_provider(&scan.source)
                && !reads.iter().any(|read| Arc::ptr_eq(&read.table, &table))
            {
                reads.extend(find(catalogs, own, scan.table_name.table(), table));
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
        let reads = found.into_iter().zip(self.0.iter());
        let reads = reads.map(|(now, read)| -> Result<Read> {
            if let Some(renamed) = renamed(catalogs, own, read) {
                return Ok(renamed);
            }
            let used = columns_of(view.logical_plan(), &read.table)?;
            Ok(read.with_table(fitting(now, read, &used)))
        });
        let reads: Arc<[Read]> = reads.collect::<Result<_>>()?;
        let plan = self.exchanged(view.logical_plan(), &reads, None)?;
        let view = ViewTable::new(plan, view.definition().cloned());
        Ok(Some((Arc::new(view), Self(reads))))
    }

    /// Whether this table is one of them.
    pub(super) fn has(&self, table: &Arc<dyn TableProvider>) -> bool {
        self.0.iter().any(|read| is_one(&read.table, table))
    }

    /// The plan over other tables.
    fn exchanged(
        &self,
        plan: &LogicalPlan,
        reads: &[Read],
        renamed: Option<&Renamed<'_>>,
    ) -> Result<LogicalPlan> {
        let exchanged = plan.clone().transform_up_with_subqueries(|node| {
            let LogicalPlan::TableScan(scan) = node else {
                let node = if renamed.is_some() {
                    merged(node)?
                } else {
                    node
                };
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
            let scan = LogicalPlan::TableScan(scan.build()?);
            Ok(Transformed::yes(match renamed {
                Some(renamed) if Arc::ptr_eq(&new.table, renamed.table) => renamed.shown(scan)?,
                _ => scan,
            }))
        });
        exchanged.data()
    }
}

impl Read {
    /// The same name for another table.
    fn with_table(&self, table: Arc<dyn TableProvider>) -> Self {
        Self {
            catalog: self.catalog.clone(),
            schema: self.schema.clone(),
            name: self.name.clone(),
            table,
        }
    }
}

/// A view of the session that reads a table which the session alters.
#[derive(Debug)]
pub(super) struct Reader {
    /// The full name.
    pub(super) name: TableReference,
    pub(super) view: Arc<dyn TableProvider>,
    pub(super) reads: Reads,
}

impl Reader {
    fn plan(&self) -> Result<(&ViewTable, &LogicalPlan)> {
        match self.view.downcast_ref::<ViewTable>() {
            Some(view) => Ok((view, view.logical_plan())),
            None => internal_err!("{} is no view", self.name),
        }
    }

    /// The names of a table's columns with which the view computes.
    pub(super) fn columns(&self, table: &Arc<dyn TableProvider>) -> Result<BTreeSet<String>> {
        let (_, plan) = self.plan()?;
        let mut used = BTreeSet::new();
        for read in self.reads.0.iter() {
            if is_one(&read.table, table) {
                used.extend(columns_of(plan, &read.table)?);
            }
        }
        Ok(used)
    }

    /// The same view once `old` has become `new`, of which one column may have another name.
    pub(super) fn over(
        &self,
        old: &Arc<dyn TableProvider>,
        new: &Arc<dyn TableProvider>,
        renamed: Option<(&str, &str)>,
    ) -> Result<Self> {
        let (view, plan) = self.plan()?;
        let used = self.columns(old)?;
        let renamed = renamed.filter(|(from, _)| used.contains(*from));
        let renamed = renamed.map(|(from, to)| Renamed {
            table: new,
            from,
            to,
            used: &used,
        });
        let reads = self.reads.0.iter().map(|read| {
            let is_old = is_one(&read.table, old);
            read.with_table(Arc::clone(if is_old { new } else { &read.table }))
        });
        let reads: Arc<[Read]> = reads.collect();
        let plan = self.reads.exchanged(plan, &reads, renamed.as_ref())?;
        Ok(Self {
            name: self.name.clone(),
            view: Arc::new(ViewTable::new(plan, view.definition().cloned())),
            reads: Reads(reads),
        })
    }
}

/// A column that has another name now, in a table that a view reads.
struct Renamed<'a> {
    table: &'a Arc<dyn TableProvider>,
    from: &'a str,
    to: &'a str,
    /// The columns with which the view computes, under the names that it has for them.
    used: &'a BTreeSet<String>,
}

impl Renamed<'_> {
    /// A scan of the table as the view knows it: only the columns that it computes with, so that
    /// it depends on no others.
    fn shown(&self, scan: LogicalPlan) -> Result<LogicalPlan> {
        let columns = scan.schema().iter().filter_map(|(relation, field)| {
            let now = field.name().as_str();
            let then = if now == self.to { self.from } else { now };
            let column = Expr::Column(Column::new(relation.cloned(), now));
            self.used.contains(then).then(|| {
                if then == now {
                    column
                } else {
                    column.alias_qualified(relation.cloned(), then)
                }
            })
        });
        let columns: Vec<Expr> = columns.collect();
        let shown = Projection::try_new(columns, Arc::new(scan))?;
        Ok(LogicalPlan::Projection(shown))
    }
}

/// A projection of a table's plain columns is merged with the one below it, so that a view does not
/// grow with each new name of a column. Any other node stays as it is.
fn merged(node: LogicalPlan) -> Result<LogicalPlan> {
    let both = match &node {
        LogicalPlan::Projection(outer) => in_one(outer),
        _ => None,
    };
    match both {
        Some((columns, scan)) => {
            let merged = Projection::try_new(columns, scan)?;
            Ok(LogicalPlan::Projection(merged))
        }
        None => Ok(node),
    }
}

/// The columns of a projection as those of the scan below the projection below it; `None` if there
/// are no two projections of plain columns over a scan.
fn in_one(outer: &Projection) -> Option<(Vec<Expr>, Arc<LogicalPlan>)> {
    let LogicalPlan::Projection(inner) = outer.input.as_ref() else {
        return None;
    };
    let LogicalPlan::TableScan(_) = inner.input.as_ref() else {
        return None;
    };
    let columns = outer.expr.iter().map(|expr| {
        let (column, shown) = plain(expr)?;
        let at = inner.schema.maybe_index_of_column(column)?;
        let (column, _) = plain(inner.expr.get(at)?)?;
        let below = Expr::Column(column.clone());
        Some(if *column == shown {
            below
        } else {
            below.alias_qualified(shown.relation, shown.name)
        })
    });
    let columns = columns.collect::<Option<Vec<Expr>>>()?;
    Some((columns, Arc::clone(&inner.input)))
}

/// A column and the name that an expression gives it; `None` for what is more than that.
fn plain(expr: &Expr) -> Option<(&Column, Column)> {
    match expr {
        Expr::Column(column) => Some((column, column.clone())),
        Expr::Alias(alias) if alias.metadata.is_none() => match alias.expr.as_ref() {
            Expr::Column(column) => {
                let shown = Column::new(alias.relation.clone(), alias.name.as_str());
                Some((column, shown))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether two tables are the same one, possibly under two names.
pub(super) fn is_one(one: &Arc<dyn TableProvider>, other: &Arc<dyn TableProvider>) -> bool {
    Arc::ptr_eq(one, other) || MemoryTable::are_one(one.as_ref(), other.as_ref())
}

/// The place of a table: one of the session's own wherever it is, because the plan of another view
/// may have an older name for it; any other one by its name.
fn find(
    catalogs: &dyn CatalogProviderList,
    own: OwnTablesOf,
    name: &str,
    table: Arc<dyn TableProvider>,
) -> Option<Read> {
    for catalog in catalogs.catalog_names() {
        let Some(schemas) = catalogs.catalog(&catalog) else {
            continue;
        };
        for schema in schemas.schema_names() {
            let Some(place) = schemas.schema(&schema) else {
                continue;
            };
            let its_name = own(place.as_ref()).and_then(|own| own.name_of(&table));
            let is_found = || match place.table(name).now_or_never() {
                Some(Ok(Some(found))) => Arc::ptr_eq(&found, &table),
                _ => false,
            };
            if its_name.is_some() || is_found() {
                return Some(Read {
                    catalog,
                    schema,
                    name: its_name.unwrap_or_else(|| name.to_owned()),
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

/// The names of the columns of a table that a plan computes with. A column of another relation
/// counts, too, if its relation has a name that the table has elsewhere in the plan.
fn columns_of(plan: &LogicalPlan, table: &Arc<dyn TableProvider>) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut used = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Projection(columns) = node
            && let Some(columns) = all_of(columns, table)
        {
            // The nodes above know no others, and these perhaps by older names.
            used.extend(columns);
            return Ok(TreeNodeRecursion::Jump);
        }
        match node {
            LogicalPlan::TableScan(scan) if is_scan_of(scan, table) => {
                names.insert(scan.table_name.table().to_owned());
            }
            LogicalPlan::SubqueryAlias(alias) if shows(&alias.input, table) => {
                names.insert(alias.alias.table().to_owned());
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        let may_be_its = |column: &Column| match &column.relation {
            Some(relation) => names.contains(relation.table()),
            None => !inputs.iter().any(|input| makes(input, &column.name)),
        };
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr
                    && may_be_its(column)
                {
                    used.insert(column.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(used)
}

/// The columns of a table that a projection of plain columns takes from its scan; `None` for any
/// other projection.
fn all_of(columns: &Projection, table: &Arc<dyn TableProvider>) -> Option<Vec<String>> {
    match columns.input.as_ref() {
        LogicalPlan::TableScan(scan) if is_scan_of(scan, table) => {
            let columns = columns.expr.iter().map(plain);
            let names = columns.map(|column| Some(column?.0.name.clone()));
            names.collect()
        }
        _ => None,
    }
}

/// Whether a plan computes a column of this name, which is then no table's.
fn makes(plan: &LogicalPlan, name: &str) -> bool {
    let mut columns = plan.schema().iter();
    columns.any(|(relation, field)| relation.is_none() && field.name() == name)
}

fn is_scan_of(scan: &TableScan, table: &Arc<dyn TableProvider>) -> bool {
    source_as_provider(&scan.source).is_ok_and(|found| Arc::ptr_eq(&found, table))
}

/// Whether the result of a plan may have a table's columns, which no node below has named.
fn shows(plan: &LogicalPlan, table: &Arc<dyn TableProvider>) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => is_scan_of(scan, table),
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => false,
        other => other.inputs().into_iter().any(|input| shows(input, table)),
    }
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
