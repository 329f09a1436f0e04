//! `pg_catalog`, and the functions that clients expect, added to one connection's session.
//!
//! All of it reads one model of the existing objects ([`model`]): the tables that list databases,
//! schemas, relations and columns ([`rows`]), PostgreSQL's own types and functions, the empty
//! tables about what Coscan does not have ([`tables`]), and the functions from names to oids and
//! back ([`functions`]). Clients' queries of these are planned and run like any other.
//!
//! Sessions may share their catalogs, so `pg_catalog` is not registered there: a cycle of
//! references would keep each session alive. Instead, the session sees its catalogs through an
//! [`Overlay`], which adds `pg_catalog` and changes nothing else.
//!
//! Not here: rewriting clients' queries so that DataFusion can plan them (`coscan_pg::dialect`).

mod activity;
mod bare;
mod functions;
mod grid;
mod information_schema;
mod model;
mod rows;
mod tables;

use std::sync::{Arc, OnceLock};

use coscan::session_settings::Board;
use coscan::{DatabaseName, Effects, Notices};
use coscan_pg::Moments;
use coscan_pg::output::IntervalStyle;
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider};
use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use datafusion_pg_catalog::pg_catalog::PgCatalogStaticTables;
use datafusion_pg_catalog::pg_catalog::array_bounds_udf::{
    create_array_lower_udf, create_array_upper_udf,
};
use datafusion_pg_catalog::pg_catalog::quote_ident_udf::{
    create_parse_ident_udf, create_quote_ident_udf,
};

pub(crate) use self::activity::{Backend, Backends, Listed};
use self::functions::{Known, Read};
pub(crate) use self::information_schema::DEFINITIONS;
use self::information_schema::InformationSchema;
use self::model::{Model, PG_CATALOG};
use self::tables::{PgSchema, Shipped};

use crate::advisory::Locks;
use crate::origins::Origins;

/// What all sessions share: the static tables, decoded once, and the functions.
pub(crate) struct PgCatalog {
    statics: Arc<PgCatalogStaticTables>,
    shipped: Arc<Shipped>,
    read: Arc<Read>,
    /// The advisory locks of all sessions.
    locks: Arc<Locks>,
    functions: Vec<ScalarUDF>,
    backends: Arc<Backends>,
    /// Made for the first session.
    bounded: OnceLock<Vec<ScalarUDF>>,
}

impl PgCatalog {
    pub(crate) fn load() -> Result<Self> {
        let statics = Arc::new(PgCatalogStaticTables::try_new()?);
        Ok(Self {
            shipped: Arc::new(Shipped::load(&statics)?),
            statics,
            read: Arc::default(),
            locks: Arc::default(),
            functions: vec![
                create_array_lower_udf(),
                create_array_upper_udf(),
                create_parse_ident_udf(),
                create_quote_ident_udf(),
            ],
            backends: Arc::default(),
            bounded: OnceLock::new(),
        })
    }

    /// The connections that `pg_stat_activity` shows.
    pub(crate) fn backends(&self) -> &Arc<Backends> {
        &self.backends
    }

    /// A copy of the session with `pg_catalog` for `user`, whose connection has the process id
    /// `pid`. A client connects to a database by any name, under which it then knows the session's
    /// catalog; `None` is the catalog's own name.
    pub(crate) fn install(
        &self,
        session: &SessionContext,
        (user, database): (&str, Option<&str>),
        pid: i32,
    ) -> SessionContext {
        let state = session.state();
        let board = Arc::new(Board::default());
        let origins = Arc::new(Origins::default());
        let effects = Arc::new(Effects::default());
        let locks = Arc::new(self.locks.open(&effects));
        let notices = Arc::new(Notices::default());
        let model = self.model(&state, (user, database), &origins);
        let overlay = Arc::new(self.overlay(&model, &board));
        let mut builder = SessionStateBuilder::new_from_existing(state);
        // `with_config` would create a new default schema, so the config is changed in place.
        if let Some(config) = builder.config() {
            config.set_extension(Arc::clone(&board));
            config.set_extension(Arc::clone(&origins));
            config.set_extension(Arc::clone(&locks));
            config.set_extension(effects);
            config.set_extension(Arc::clone(&notices));
            config.set_extension(Arc::new(DatabaseName(model.shown.clone())));
            let extensions = &mut config.options_mut().extensions;
            extensions.insert(Moments::default());
            extensions.insert(IntervalStyle::default());
            // DataFusion's own `information_schema` would take precedence over a catalog's.
            config.options_mut().catalog.information_schema = false;
        }
        coscan::give_way_in_joins(&mut builder);
        let state = coscan_pg::install(builder)
            .with_catalog_list(overlay)
            .build();
        let session = SessionContext::new_with_state(state);
        for function in &self.functions {
            session.register_udf(function.clone());
        }
        // After the others, because the catalogue has its own versions of some functions.
        coscan_pg::reinstall(&session);
        let known = Known {
            model,
            shipped: Arc::clone(&self.shipped),
            read: Arc::clone(&self.read),
            board,
            locks,
            notices,
            pid,
        };
        functions::register(&session, &known);
        crate::encode::copy_file::register(&session);
        session.register_udtf(
            "pg_get_keywords",
            Arc::clone(&self.statics.pg_get_keywords) as _,
        );
        for function in self.bounded.get_or_init(|| coscan::bounded(&session)) {
            session.register_udf(function.clone());
        }
        session
    }

    /// What the catalogue knows of a session.
    fn model(
        &self,
        state: &SessionState,
        (user, asked): (&str, Option<&str>),
        origins: &Arc<Origins>,
    ) -> Model {
        let catalog = &state.config_options().catalog;
        let below = Arc::clone(state.catalog_list());
        // The name of another catalog keeps its meaning.
        let asked = asked.filter(|name| !name.is_empty() && below.catalog(name).is_none());
        Model {
            below,
            database: catalog.default_catalog.clone(),
            shown: asked.unwrap_or(&catalog.default_catalog).to_owned(),
            user: user.to_owned(),
            backends: Arc::clone(&self.backends),
            origins: Arc::clone(origins),
            describes_itself: catalog.information_schema,
            pg: Arc::new(OnceLock::new()),
            standard: Arc::new(OnceLock::new()),
        }
    }

    /// The session's catalogs with our schemas, which the model learns.
    fn overlay(&self, model: &Model, board: &Arc<Board>) -> Overlay {
        let pg: Arc<dyn SchemaProvider> = Arc::new(PgSchema {
            model: model.clone(),
            shipped: Arc::clone(&self.shipped),
            board: Arc::clone(board),
        });
        let standard = model.describes_itself.then(|| {
            let model = model.clone();
            Arc::new(InformationSchema { model }) as Arc<dyn SchemaProvider>
        });
        // No other thread shares the model yet, so setting the cells succeeds.
        let _ = model.pg.set(Arc::downgrade(&pg));
        if let Some(standard) = &standard {
            let _ = model.standard.set(Arc::downgrade(standard));
        }
        Overlay {
            below: Arc::clone(&model.below),
            database: model.database.clone(),
            shown: model.shown.clone(),
            pg,
            standard,
        }
    }
}

/// The session's catalogs, with `pg_catalog` in the default one.
#[derive(Debug)]
struct Overlay {
    below: Arc<dyn CatalogProviderList>,
    database: String,
    /// Another name of the default one, or the same.
    shown: String,
    pg: Arc<dyn SchemaProvider>,
    /// `information_schema`, if the session describes itself.
    standard: Option<Arc<dyn SchemaProvider>>,
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
        if name != self.database && name != self.shown {
            return self.below.catalog(name);
        }
        let below = self.below.catalog(&self.database)?;
        Some(Arc::new(OverlaidCatalog {
            below,
            pg: Arc::clone(&self.pg),
            standard: self.standard.clone(),
        }))
    }
}

#[derive(Debug)]
struct OverlaidCatalog {
    below: Arc<dyn CatalogProvider>,
    pg: Arc<dyn SchemaProvider>,
    standard: Option<Arc<dyn SchemaProvider>>,
}

impl CatalogProvider for OverlaidCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.below.schema_names();
        names.push(PG_CATALOG.to_owned());
        if self.standard.is_some() {
            names.push(INFORMATION_SCHEMA.to_owned());
        }
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            PG_CATALOG => Some(Arc::clone(&self.pg)),
            INFORMATION_SCHEMA => self.standard.clone(),
            _ => self.below.schema(name),
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
