//! How does a session see its own names over those that all sessions share?
//!
//! Every lookup reads the shared catalogs and schemas, so a session sees the current state of what
//! other sessions change. A name of the session's own comes first. The system schema is shown as
//! it is. `pg_temp` has the session's own names of the schema `public`, and nothing else.
//! Not here: which statement is refused (`statements/check.rs`). O2 holds even without that check.
//! O2: without the right to write, a session changes nothing in the shared catalogs.
//! O3: the memory of each name is reserved when the name is created.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::{TableReference, exec_err, not_impl_err};
use datafusion::datasource::listing::ListingTable;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::TableType;
use parking_lot::Mutex;

use super::allowance::{Allowance, Growth, Held};
use super::table::MemoryTable;
use super::views::{OwnTables, Reader, Reads, is_one, names_in};
use crate::memory::of_connections;
use crate::right::{Right, Rights};
use crate::tables::SYSTEM_SCHEMA;
use crate::tables::partitioned::PartitionedTable;

/// The schema of names that only the session sees. CREATE TABLE uses it if the search path names
/// no other schema.
pub const TEMPORARY_SCHEMA: &str = "pg_temp";
/// The schema whose own names the temporary schema shows.
pub(super) const DEFAULT_SCHEMA: &str = "public";

/// The bytes of a name, without its table's columns: the entries of maps and a small plan.
const NAME_BYTES: usize = 4 << 10;
/// The bytes of a column of a named table: its field, as often as a view's plans repeat it.
const COLUMN_BYTES: usize = 256;
/// The bytes for each character of a view's text: its expressions take some hundred.
const CHARACTER_BYTES: usize = 256;

/// The names that one session has created. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct OwnNames {
    /// The catalogs that all sessions see.
    below: Arc<dyn CatalogProviderList>,
    rights: Rights,
    allowance: Arc<Allowance>,
    pool: Arc<dyn MemoryPool>,
    names: Arc<Held>,
    catalogs: Arc<Mutex<BTreeMap<String, Schemas>>>,
}

/// Those schemas of a catalog that have names of the session's own. Clones share them.
#[derive(Clone, Debug, Default)]
struct Schemas {
    /// Whether the session created the catalog.
    made: bool,
    schemas: Arc<Mutex<BTreeMap<String, Tables>>>,
}

impl Schemas {
    /// A copy that shares nothing.
    fn copied(&self) -> Self {
        let schemas = self.schemas.lock();
        let copied = schemas.iter().map(|(name, tables)| {
            let copy = Tables {
                made: tables.made,
                tables: Arc::new(Mutex::new(tables.tables.lock().clone())),
            };
            (name.clone(), copy)
        });
        Self {
            made: self.made,
            schemas: Arc::new(Mutex::new(copied.collect())),
        }
    }
}

/// The names in a schema that are the session's own. Clones share them.
#[derive(Clone, Debug, Default)]
struct Tables {
    made: bool,
    tables: Arc<Mutex<BTreeMap<String, Named>>>,
}

/// A table or view, and the bytes of its name.
#[derive(Clone, Debug)]
struct Named {
    table: Arc<dyn TableProvider>,
    bytes: usize,
    /// The tables that a view reads.
    reads: Reads,
    /// The names in a view's text; a renamed table appears under its new name.
    named: Vec<TableReference>,
}

impl OwnNames {
    /// Forgets all names.
    pub(super) fn forget(&self) {
        self.catalogs.lock().clear();
        self.names.shrink(self.names.bytes());
    }

    /// The current names, with memory for the copy.
    ///
    /// # Errors
    /// `ResourcesExhausted`, if there is no memory for a second copy of the names.
    pub(super) fn saved(&self) -> Result<SavedNames> {
        let catalogs: BTreeMap<_, _> = self
            .catalogs
            .lock()
            .iter()
            .map(|(name, schemas)| (name.clone(), schemas.copied()))
            .collect();
        let mut growth = self.names.growth();
        growth.add(cost_of(&catalogs))?;
        Ok(SavedNames { catalogs, growth })
    }

    /// Restores saved names.
    pub(super) fn restore(&self, saved: SavedNames) {
        let now = std::mem::replace(&mut *self.catalogs.lock(), saved.catalogs);
        saved.growth.keep();
        self.names.shrink(cost_of(&now));
    }

    /// The views, by their full names, with the names that they read.
    pub(super) fn views(&self) -> Vec<(TableReference, Vec<TableReference>)> {
        let mut views = vec![];
        for (catalog, schemas) in self.catalogs.lock().iter() {
            for (schema, tables) in schemas.schemas.lock().iter() {
                for (name, table) in tables.tables.lock().iter() {
                    if !table.named.is_empty() {
                        let name =
                            TableReference::full(catalog.as_str(), schema.as_str(), name.as_str());
                        views.push((name, table.named.clone()));
                    }
                }
            }
        }
        views
    }

    /// The views that read a table.
    pub(super) fn readers(&self, table: &Arc<dyn TableProvider>) -> Vec<Reader> {
        let mut readers = vec![];
        for (catalog, schemas) in self.catalogs.lock().iter() {
            for (schema, tables) in schemas.schemas.lock().iter() {
                for (name, named) in tables.tables.lock().iter() {
                    if named.reads.has(table) {
                        readers.push(Reader {
                            name: TableReference::full(
                                catalog.as_str(),
                                schema.as_str(),
                                name.as_str(),
                            ),
                            view: Arc::clone(&named.table),
                            reads: named.reads.clone(),
                        });
                    }
                }
            }
        }
        readers
    }

    /// Puts a view in the place of the one that has its name.
    pub(super) fn exchange(&self, reader: Reader) {
        let Some(tables) = self.tables_of(&reader.name) else {
            return;
        };
        if let Some(named) = tables.tables.lock().get_mut(reader.name.table()) {
            named.table = reader.view;
            named.reads = reader.reads;
        }
    }

    /// Drops the view that has this full name.
    pub(super) fn drop_view(&self, name: &TableReference) {
        let Some(tables) = self.tables_of(name) else {
            return;
        };
        if let Some(gone) = tables.tables.lock().remove(name.table()) {
            self.names.shrink(gone.bytes);
        }
    }

    /// The session's own names in the schema of a full name.
    fn tables_of(&self, name: &TableReference) -> Option<Tables> {
        let schemas = self.catalogs.lock().get(name.catalog()?).cloned()?;
        let tables = schemas.schemas.lock();
        tables.get(name.schema()?).cloned()
    }

    /// Makes views that read a name for which `is_old` holds read `new` from now on.
    pub(super) fn follow(&self, new: &TableReference, is_old: impl Fn(&TableReference) -> bool) {
        for schemas in self.catalogs.lock().values() {
            for tables in schemas.schemas.lock().values() {
                let mut tables = tables.tables.lock();
                let names = tables.values_mut().flat_map(|table| &mut table.named);
                names
                    .filter(|name| is_old(name))
                    .for_each(|name| *name = new.clone());
            }
        }
    }

    /// A new account for a table that messages call `what`.
    pub(super) fn held(&self, what: String) -> Held {
        Held::new(what, &self.pool, Some(Arc::clone(&self.allowance)))
    }
}

/// The names that a session had at some time.
pub(super) struct SavedNames {
    catalogs: BTreeMap<String, Schemas>,
    growth: Growth,
}

impl SavedNames {
    /// The tables and views.
    pub(super) fn tables(&self) -> Vec<Arc<dyn TableProvider>> {
        let mut tables = vec![];
        for schemas in self.catalogs.values() {
            for named in schemas.schemas.lock().values() {
                let named = named.tables.lock();
                tables.extend(named.values().map(|named| Arc::clone(&named.table)));
            }
        }
        tables
    }
}

/// The bytes of a name for this table or view.
fn bytes_of(table: &dyn TableProvider) -> usize {
    let text = table.get_table_definition().map_or(0, str::len);
    let columns = table.schema().fields().len();
    NAME_BYTES + columns * COLUMN_BYTES + text * CHARACTER_BYTES
}

/// The bytes that the account holds for these names.
fn cost_of(catalogs: &BTreeMap<String, Schemas>) -> usize {
    let made = |made: bool| if made { NAME_BYTES } else { 0 };
    let mut bytes = 0;
    for schemas in catalogs.values() {
        bytes += made(schemas.made);
        for tables in schemas.schemas.lock().values() {
            let named = tables.tables.lock();
            bytes += made(tables.made) + named.values().map(|named| named.bytes).sum::<usize>();
        }
    }
    bytes
}

/// The catalogs as one session sees them.
#[derive(Debug)]
pub(crate) struct OwnCatalogs {
    own: OwnNames,
}

impl OwnCatalogs {
    pub(crate) fn new(
        below: Arc<dyn CatalogProviderList>,
        rights: Rights,
        allowance: Arc<Allowance>,
        pool: Arc<dyn MemoryPool>,
    ) -> Self {
        // A name takes a few KiB, which queries may have taken all: it is charged like what the
        // session has prepared.
        let names = Held::new(
            "a session's names".to_owned(),
            &of_connections(&pool),
            Some(Arc::clone(&allowance)),
        );
        let own = OwnNames {
            below,
            rights,
            allowance,
            pool,
            names: Arc::new(names),
            catalogs: Arc::default(),
        };
        Self { own }
    }

    pub(crate) fn own(&self) -> &OwnNames {
        &self.own
    }
}

impl CatalogProviderList for OwnCatalogs {
    /// DataFusion allows no error here: without memory for its name, the catalog is not created.
    fn register_catalog(
        &self,
        name: String,
        _: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        if self.own.below.catalog(&name).is_none()
            && let Entry::Vacant(free) = self.own.catalogs.lock().entry(name)
            && self.own.names.try_grow(NAME_BYTES).is_ok()
        {
            free.insert(Schemas {
                made: true,
                ..Schemas::default()
            });
        }
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        let own = self.own.catalogs.lock();
        let made = own.iter().filter(|(_, schemas)| schemas.made);
        union(
            CatalogProviderList::catalog_names(self.own.below.as_ref()),
            made.map(|(name, _)| name),
        )
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let below = self.own.below.catalog(name);
        let mut catalogs = self.own.catalogs.lock();
        let schemas = match (catalogs.get(name), &below) {
            (Some(schemas), Some(_)) => schemas.clone(),
            (Some(schemas), None) if schemas.made => schemas.clone(),
            (_, None) => return None,
            (None, Some(_)) => catalogs.entry(name.to_owned()).or_default().clone(),
        };
        Some(Arc::new(OwnCatalog {
            below,
            schemas,
            own: self.own.clone(),
        }))
    }
}

/// A catalog as one session sees it.
#[derive(Debug)]
struct OwnCatalog {
    /// `None`: the session created the catalog.
    below: Option<Arc<dyn CatalogProvider>>,
    schemas: Schemas,
    own: OwnNames,
}

impl OwnCatalog {
    fn below(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.below.as_ref()?.schema(name)
    }
}

impl CatalogProvider for OwnCatalog {
    fn schema_names(&self) -> Vec<String> {
        let below = self.below.as_ref().map(|below| below.schema_names());
        let own = self.schemas.schemas.lock();
        let made = own.iter().filter(|(_, tables)| tables.made);
        union(below.unwrap_or_default(), made.map(|(name, _)| name))
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let below = self.below(name);
        if name == SYSTEM_SCHEMA && below.is_some() {
            return below;
        }
        let mut schemas = self.schemas.schemas.lock();
        if name == TEMPORARY_SCHEMA {
            let tables = schemas
                .entry(DEFAULT_SCHEMA.to_owned())
                .or_default()
                .clone();
            return Some(Arc::new(OwnSchema {
                below: None,
                tables,
                own: self.own.clone(),
            }));
        }
        let tables = match (schemas.get(name), &below) {
            (Some(tables), Some(_)) => tables.clone(),
            (Some(tables), None) if tables.made => tables.clone(),
            (_, None) => return None,
            (None, Some(_)) => schemas.entry(name.to_owned()).or_default().clone(),
        };
        Some(Arc::new(OwnSchema {
            below,
            tables,
            own: self.own.clone(),
        }))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if !schema.table_names().is_empty() {
            return not_impl_err!("a schema of a session's own is empty at first");
        }
        if self.schema(name).is_some() {
            return exec_err!("Schema '{name}' already exists");
        }
        self.own.names.try_grow(NAME_BYTES)?;
        let made = Tables {
            made: true,
            ..Tables::default()
        };
        self.schemas.schemas.lock().insert(name.to_owned(), made);
        Ok(None)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let Some(schema) = self.schema(name) else {
            return Ok(None);
        };
        let tables = schema.table_names();
        if !cascade && !tables.is_empty() {
            let tables = tables.join(", ");
            return exec_err!(
                "Cannot drop schema {name}: there are {tables} in it; CASCADE drops them too"
            );
        }
        if let (Some(below), Some(_)) = (&self.below, self.below(name)) {
            let what = || format!("DROP SCHEMA {name} changes what all sessions see");
            self.own.rights.require(&[Right::Writes], what)?;
            below.deregister_schema(name, cascade)?;
        }
        if let Some(gone) = self.schemas.schemas.lock().remove(name) {
            let own: usize = gone.tables.lock().values().map(|named| named.bytes).sum();
            let schema = if gone.made { NAME_BYTES } else { 0 };
            self.own.names.shrink(own + schema);
        }
        Ok(Some(schema))
    }
}

/// The owner of a table or view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// This session.
    Own,
    /// All sessions.
    Shared,
    /// The engine or the server; no session may change it.
    System,
}

/// A schema as one session sees it.
#[derive(Debug)]
pub(crate) struct OwnSchema {
    /// `None`: the session created the schema.
    below: Option<Arc<dyn SchemaProvider>>,
    tables: Tables,
    own: OwnNames,
}

impl OwnSchema {
    /// Whether all sessions see this schema.
    pub(crate) fn is_shared(&self) -> bool {
        self.below.is_some()
    }

    /// The owner of a table; `None` if there is no table of this name.
    pub(crate) fn whose(&self, name: &str) -> Option<Whose> {
        let below = || self.below.as_ref();
        if self.tables.tables.lock().contains_key(name) {
            Some(Whose::Own)
        } else if below().is_some_and(|below| below.table_exist(name)) {
            Some(Whose::Shared)
        } else {
            None
        }
    }

    pub(super) fn own(&self) -> &OwnNames {
        &self.own
    }

    /// R3: the text that declared a table of files names the folder and the credentials. Only
    /// sessions with the right to files see it.
    fn without_location(&self, table: Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
        if self.own.rights.has(Right::Files) || table.get_table_definition().is_none() {
            return table;
        }
        match table.downcast_ref::<ListingTable>() {
            Some(files) => Arc::new(files.clone().with_definition(None)),
            None => match table.downcast_ref::<PartitionedTable>() {
                Some(files) => Arc::new(files.without_definition()),
                None => table,
            },
        }
    }

    /// A table of the session's own. If it is a view, it reads the tables that have its names now.
    async fn renewed(&self, name: &str, named: Named) -> Result<Arc<dyn TableProvider>> {
        let Named { table, reads, .. } = named;
        let catalogs = OwnCatalogs {
            own: self.own.clone(),
        };
        let Some((view, reads)) = reads.renewed(&catalogs, own_tables, table.as_ref()).await?
        else {
            return Ok(table);
        };
        if let Some(named) = self.tables.tables.lock().get_mut(name)
            && Arc::ptr_eq(&named.table, &table)
        {
            named.table = Arc::clone(&view);
            named.reads = reads;
        }
        Ok(view)
    }

    /// Puts a table in the place of the session's own one of this name.
    ///
    /// # Errors
    /// `ResourcesExhausted` without memory for more columns.
    pub(super) fn replace(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
        let mut tables = self.tables.tables.lock();
        let Some(named) = tables.get_mut(name) else {
            return exec_err!("The table {name} does not exist");
        };
        let bytes = bytes_of(table.as_ref());
        if bytes > named.bytes {
            self.own.names.try_grow(bytes - named.bytes)?;
        } else {
            self.own.names.shrink(named.bytes - bytes);
        }
        named.bytes = bytes;
        named.table = table;
        Ok(())
    }

    /// Renames a table for all sessions that see it.
    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<()> {
        {
            let mut tables = self.tables.tables.lock();
            if let Some(mut named) = tables.remove(from) {
                named.table = MemoryTable::renamed(named.table, to);
                tables.insert(to.to_owned(), named);
                return Ok(());
            }
        }
        match &self.below {
            Some(below) => rename(below.as_ref(), from, to).await,
            None => Ok(()),
        }
    }

    /// Moves a name of the session's own to the shared schema.
    pub(super) fn publish(&self, name: &str) -> Result<()> {
        let what = || format!("{name} is seen by all sessions");
        self.own.rights.require(&[Right::Writes], what)?;
        if let (Some(below), Some(named)) = (&self.below, self.tables.tables.lock().remove(name)) {
            self.own.names.shrink(named.bytes);
            below.deregister_table(name)?;
            below.register_table(name.to_owned(), named.table)?;
        }
        Ok(())
    }
}

impl OwnTables for OwnSchema {
    fn own_table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let tables = self.tables.tables.lock();
        tables.get(name).map(|named| Arc::clone(&named.table))
    }

    fn name_of(&self, table: &Arc<dyn TableProvider>) -> Option<String> {
        let tables = self.tables.tables.lock();
        let found = tables.iter().find(|(_, named)| is_one(&named.table, table));
        found.map(|(name, _)| name.clone())
    }
}

/// Renames a table of a schema.
pub(super) async fn rename(schema: &dyn SchemaProvider, from: &str, to: &str) -> Result<()> {
    if let Some(table) = schema.table(from).await? {
        // In this order the table is not lost if there is no memory for the new name.
        schema.register_table(to.to_owned(), MemoryTable::renamed(table, to))?;
        schema.deregister_table(from)?;
    }
    Ok(())
}

fn own_tables(schema: &dyn SchemaProvider) -> Option<&dyn OwnTables> {
    let own = schema.downcast_ref::<OwnSchema>()?;
    Some(own)
}

#[async_trait]
impl SchemaProvider for OwnSchema {
    fn table_names(&self) -> Vec<String> {
        let below = self.below.as_ref().map(|below| below.table_names());
        let own = self.tables.tables.lock();
        union(below.unwrap_or_default(), own.keys())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let own = self.tables.tables.lock().get(name).cloned();
        match (own, &self.below) {
            (Some(named), _) => self.renewed(name, named).await.map(Some),
            (None, Some(below)) => {
                let table = below.table(name).await?;
                Ok(table.map(|table| self.without_location(table)))
            }
            (None, None) => Ok(None),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.table_exist(&name) {
            return exec_err!("The table {name} already exists");
        }
        let bytes = bytes_of(table.as_ref());
        self.own.names.try_grow(bytes)?;
        let catalogs = OwnCatalogs {
            own: self.own.clone(),
        };
        let reads = Reads::of(&catalogs, own_tables, table.as_ref());
        let named = match table.get_table_definition() {
            Some(text) if table.table_type() == TableType::View => names_in(text),
            _ => vec![],
        };
        let named = Named {
            table,
            bytes,
            reads,
            named,
        };
        if let Some(other) = self.tables.tables.lock().insert(name, named) {
            self.own.names.shrink(other.bytes);
        }
        Ok(None)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(named) = self.tables.tables.lock().remove(name) {
            self.own.names.shrink(named.bytes);
            return Ok(Some(named.table));
        }
        match &self.below {
            Some(below) if below.table_exist(name) => {
                let what = || format!("dropping {name} changes what all sessions see");
                self.own.rights.require(&[Right::Writes], what)?;
                below.deregister_table(name)
            }
            _ => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.whose(name).is_some()
    }
}

fn union<'a>(below: Vec<String>, own: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names = below;
    names.extend(own.cloned());
    names.sort_unstable();
    names.dedup();
    names
}
