//! `pg_catalog`, and the functions clients expect, added to one connection's session.
//!
//! datafusion-pg-catalog registers its schema in the session's catalog. Sessions may share that
//! catalog, and the schema holds the catalog list, so registering would leak one session per
//! connection in a cycle. Here the session sees its catalogs through [`Overlay`] instead, which
//! shows `pg_catalog` on top and leaves what lies below untouched.
//!
//! Not here: making clients' queries on these tables plannable; that is the parser's rewriting
//! (`statement.rs`).

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider};
use datafusion::datasource::TableType;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::catalog_info::CatalogInfo;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::generate_series_arg_coercion::CoerceIntArgsToBigInt;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::{
    PgCatalogSchemaProvider, PgCatalogStaticTables, create_current_database_udf,
};
use datafusion_postgres::datafusion_pg_catalog::setup_pg_catalog;

use crate::settings::VERSION;
use crate::yielding::YieldingJoins;

/// What all sessions share: the static tables, decoded once, and the functions.
pub(crate) struct PgCatalog {
    tables: Arc<PgCatalogStaticTables>,
    functions: Vec<Arc<ScalarUDF>>,
}

impl PgCatalog {
    pub(crate) fn load() -> Result<Self> {
        // The list of functions exists only inside `setup_pg_catalog`: take what it adds.
        let template = SessionContext::new();
        let before: HashSet<_> = template
            .state()
            .scalar_functions()
            .keys()
            .cloned()
            .collect();
        let catalog = template
            .state()
            .config_options()
            .catalog
            .default_catalog
            .clone();
        setup_pg_catalog(&template, &catalog, EmptyContextProvider).map_err(|error| *error)?;
        let functions = template
            .state()
            .scalar_functions()
            .iter()
            .filter(|(name, _)| !before.contains(*name))
            .map(|(_, function)| Arc::clone(function))
            .collect();
        Ok(Self {
            tables: Arc::new(PgCatalogStaticTables::try_new()?),
            functions,
        })
    }

    /// The same session, with `pg_catalog` for `user`, whose connection has process id `pid`.
    pub(crate) fn install(
        &self,
        session: &SessionContext,
        user: &str,
        pid: i32,
    ) -> Result<SessionContext> {
        let state = session.state();
        let database = state.config_options().catalog.default_catalog.clone();
        let below = Arc::clone(state.catalog_list());
        let seen = Seen {
            below: Arc::clone(&below),
            database: database.clone(),
            pg: Arc::default(),
        };
        let pg: Arc<dyn SchemaProvider> = Arc::new(PgCatalogSchemaProvider::try_new(
            seen.clone(),
            Arc::clone(&self.tables),
            EmptyContextProvider,
        )?);
        // Set once, right here; `Seen` is shared with nobody else yet.
        let _ = seen.pg.set(Arc::downgrade(&pg));

        let overlay = Arc::new(Overlay {
            below,
            database: database.clone(),
            pg,
        });
        let state = SessionStateBuilder::new_from_existing(state)
            .with_catalog_list(overlay)
            .with_type_planner(Arc::new(PgOidTypePlanner))
            .with_physical_optimizer_rule(Arc::new(YieldingJoins))
            .build();
        let session = SessionContext::new_with_state(state);
        for function in &self.functions {
            session.register_udf(function.as_ref().clone());
        }
        session.register_udf(create_current_database_udf(&database));
        session.register_udf(constant("session_user", ScalarValue::from(user)));
        session.register_udf(constant("version", ScalarValue::from(VERSION)));
        session.register_udf(constant("pg_backend_pid", ScalarValue::from(pid)));
        session.register_udf(constant("pg_is_in_recovery", ScalarValue::from(false)));
        for function in stubs() {
            session.register_udf(function);
        }
        session.register_udtf(
            "pg_get_keywords",
            Arc::clone(&self.tables.pg_get_keywords) as _,
        );
        CoerceIntArgsToBigInt::widen(&session);
        Ok(session)
    }
}

/// A function without arguments whose value the connection fixes.
fn constant(name: &str, value: ScalarValue) -> ScalarUDF {
    let data_type: DataType = value.data_type();
    let value = move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(value.clone()));
    create_udf(name, vec![], data_type, Volatility::Stable, Arc::new(value))
}

/// What psql's `\d…+`, `\df` and JDBC's metadata ask about each object: nothing has a comment, and
/// everything is on the search path.
fn stubs() -> Vec<ScalarUDF> {
    let (oid, text) = (|| DataType::Int32, || DataType::Utf8);
    let (no_text, no_size) = (|| ScalarValue::Utf8(None), || ScalarValue::Int64(None));
    let yes = || ScalarValue::from(true);
    [
        ("obj_description", vec![oid(), text()], no_text()),
        ("shobj_description", vec![oid(), text()], no_text()),
        ("col_description", vec![oid(), DataType::Int32], no_text()),
        ("pg_function_is_visible", vec![oid()], yes()),
        ("pg_type_is_visible", vec![oid()], yes()),
        ("pg_get_function_result", vec![oid()], no_text()),
        ("pg_get_function_arguments", vec![oid()], no_text()),
        ("pg_table_size", vec![oid()], no_size()),
        ("pg_size_pretty", vec![DataType::Int64], no_text()),
        // Drivers look for types of extensions by it; there are none.
        ("to_regtype", vec![text()], ScalarValue::Int32(None)),
    ]
    .into_iter()
    .map(|(name, arguments, value)| {
        let data_type = value.data_type();
        let value = move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(value.clone()));
        create_udf(
            name,
            arguments,
            data_type,
            Volatility::Stable,
            Arc::new(value),
        )
    })
    .collect()
}

/// The session's catalogs, with `pg_catalog` in the default one.
#[derive(Debug)]
struct Overlay {
    below: Arc<dyn CatalogProviderList>,
    database: String,
    pg: Arc<dyn SchemaProvider>,
}

impl CatalogProviderList for Overlay {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.below.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        CatalogProviderList::catalog_names(self.below.as_ref())
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let below = self.below.catalog(name)?;
        if name != self.database {
            return Some(below);
        }
        Some(Arc::new(OverlaidCatalog {
            below,
            pg: Arc::clone(&self.pg),
        }))
    }
}

#[derive(Debug)]
struct OverlaidCatalog {
    below: Arc<dyn CatalogProvider>,
    pg: Arc<dyn SchemaProvider>,
}

impl CatalogProvider for OverlaidCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.below.schema_names();
        names.push(PG_CATALOG.to_owned());
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == PG_CATALOG {
            Some(Arc::clone(&self.pg))
        } else {
            self.below.schema(name)
        }
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.below.register_schema(name, schema)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.below.deregister_schema(name, cascade)
    }
}

/// What `pg_class` and its like enumerate: all of the above, without owning itself.
#[derive(Debug, Clone)]
struct Seen {
    below: Arc<dyn CatalogProviderList>,
    database: String,
    pg: Arc<OnceLock<Weak<dyn SchemaProvider>>>,
}

impl Seen {
    fn schema(&self, catalog: &str, schema: &str) -> Option<Arc<dyn SchemaProvider>> {
        if catalog == self.database && schema == PG_CATALOG {
            return self.pg.get()?.upgrade();
        }
        self.below.catalog(catalog)?.schema(schema)
    }
}

#[async_trait]
impl CatalogInfo for Seen {
    async fn catalog_names(&self) -> Result<Vec<String>, DataFusionError> {
        Ok(CatalogProviderList::catalog_names(self.below.as_ref()))
    }

    async fn schema_names(&self, catalog: &str) -> Result<Option<Vec<String>>, DataFusionError> {
        Ok(self.below.catalog(catalog).map(|below| {
            let mut names = below.schema_names();
            if catalog == self.database {
                names.push(PG_CATALOG.to_owned());
            }
            names.sort_unstable();
            names
        }))
    }

    async fn table_names(
        &self,
        catalog: &str,
        schema: &str,
    ) -> Result<Option<Vec<String>>, DataFusionError> {
        Ok(self.schema(catalog, schema).map(|schema| {
            let mut names = schema.table_names();
            names.sort_unstable();
            names
        }))
    }

    async fn table_schema(
        &self,
        catalog: &str,
        schema: &str,
        table: &str,
    ) -> Result<Option<SchemaRef>, DataFusionError> {
        match self.schema(catalog, schema) {
            Some(schema) => Ok(schema.table(table).await?.map(|table| table.schema())),
            None => Ok(None),
        }
    }

    async fn table_type(
        &self,
        catalog: &str,
        schema: &str,
        table: &str,
    ) -> Result<Option<TableType>, DataFusionError> {
        match self.schema(catalog, schema) {
            Some(schema) => schema.table_type(table).await,
            None => Ok(None),
        }
    }
}

const PG_CATALOG: &str = "pg_catalog";
