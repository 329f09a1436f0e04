//! The rows of the tables of `pg_catalog` that describe this server: databases, schemas,
//! relations, columns, the one role, settings.
//!
//! The columns are those of PostgreSQL 16. A column about something that Coscan does not have
//! holds the value of a PostgreSQL server that does not use it; `dialect/catalog/facts.rs` of
//! coscan-pg relies on that.

use std::sync::Arc;

use coscan::session_settings::{Board, Published, described};
use datafusion::arrow::datatypes::Field;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use pgwire::api::Type;

use super::activity::Backend;
use super::grid::{Cell, Columns, Kind, batch};
use super::model::{Model, PG_CATALOG};
use coscan_pg::output::{modifier, pg_type};

/// A table whose rows describe this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerTable {
    Activity,
    Attribute,
    Authid,
    Class,
    Collation,
    Database,
    Namespace,
    PreparedStatements,
    Roles,
    Settings,
    Tables,
    User,
    Views,
}

impl ServerTable {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "pg_stat_activity" => Self::Activity,
            "pg_attribute" => Self::Attribute,
            "pg_authid" => Self::Authid,
            "pg_class" => Self::Class,
            "pg_collation" => Self::Collation,
            "pg_database" => Self::Database,
            "pg_namespace" => Self::Namespace,
            "pg_prepared_statements" => Self::PreparedStatements,
            "pg_roles" => Self::Roles,
            "pg_settings" => Self::Settings,
            "pg_tables" => Self::Tables,
            "pg_user" => Self::User,
            "pg_views" => Self::Views,
            _ => return None,
        })
    }

    pub(super) fn columns(self) -> Columns {
        match self {
            Self::Activity => ACTIVITY,
            Self::Attribute => ATTRIBUTE,
            Self::Authid => AUTHID,
            Self::Class => CLASS,
            Self::Collation => COLLATION,
            Self::Database => DATABASE,
            Self::Namespace => NAMESPACE,
            Self::PreparedStatements => PREPARED_STATEMENTS,
            Self::Roles => ROLES,
            Self::Settings => SETTINGS,
            Self::Tables => TABLES,
            Self::User => USER,
            Self::Views => VIEWS,
        }
    }

    pub(super) async fn read(self, model: Model, board: Arc<Board>) -> Result<RecordBatch> {
        let rows = match self {
            Self::Activity => activity(&model),
            Self::Attribute => attributes(&model).await?,
            Self::Authid => vec![role(&model, &[Cell::Null, Cell::Null])],
            Self::Class => classes(&model).await?,
            Self::Collation => COLLATIONS.map(collation).to_vec(),
            Self::Database => databases(&model),
            Self::Namespace => namespaces(&model),
            Self::PreparedStatements => prepared_statements(&model),
            Self::Roles => vec![role(&model, &["********".into(), Cell::Null, Cell::Null])],
            Self::Settings => board.all().iter().filter_map(setting).collect(),
            Self::Tables => tables(&model, false).await?,
            Self::User => vec![vec![
                model.user.as_str().into(),
                OWNER.into(),
                false.into(),
                false.into(),
                false.into(),
                false.into(),
            ]],
            Self::Views => tables(&model, true).await?,
        };
        batch(self.columns(), &rows)
    }
}

/// A setting; `None` for one that only SHOW shows.
fn setting(published: &Published) -> Option<Vec<Cell>> {
    let described = described(published.name)?;
    let said = |text: &str| match text {
        "" => Cell::Null,
        text => text.into(),
    };
    let context = if published.is_fixed {
        "internal"
    } else {
        "user"
    };
    let values = if described.vartype == "enum" {
        Cell::Texts(described.values.split(',').map(str::to_owned).collect())
    } else {
        Cell::Null
    };
    Some(vec![
        published.name.into(),
        described.in_unit(&published.value).into(),
        said(described.unit),
        described.category.into(),
        described.short.into(),
        said(described.extra),
        context.into(),
        described.vartype.into(),
        published.source.into(),
        said(described.least),
        said(described.most),
        values,
        described.in_unit(published.default).into(),
        described.in_unit(&published.reset).into(),
        Cell::Null,
        Cell::Null,
        false.into(),
    ])
}

/// The connections of the server. R4: of other users' a client sees what PostgreSQL shows to those
/// who may not read all statistics.
fn activity(model: &Model) -> Vec<Vec<Cell>> {
    let databases = model.databases();
    let row = |backend: &Backend| {
        let mut databases = databases.iter();
        let name = model.shown_as(backend.database.clone());
        let database = databases.find(|(_, known)| *known == name);
        let database = database.map_or(Cell::Null, |(oid, _)| Cell::from(*oid));
        let mut known: Vec<(&str, Cell)> = vec![
            ("datid", database),
            ("datname", name.as_str().into()),
            ("pid", backend.pid.into()),
            ("usesysid", OWNER.into()),
            ("usename", backend.user.as_str().into()),
            ("application_name", backend.application_name().into()),
        ];
        if backend.user == model.user {
            known.extend(backend.private());
        } else {
            known.push(("query", "<insufficient privilege>".into()));
        }
        let cell = |column: &str| {
            let found = known.iter().find(|(name, _)| *name == column);
            found.map_or(Cell::Null, |(_, cell)| cell.clone())
        };
        let cells = ACTIVITY.iter().map(|(column, _)| cell(column));
        cells.collect::<Vec<_>>()
    };
    let all = model.backends.all();
    all.iter().map(|backend| row(backend)).collect()
}

/// The named statements of the connection. Their plans are not counted: one plan serves as long as
/// it fits the tables.
fn prepared_statements(model: &Model) -> Vec<Vec<Cell>> {
    let all = model.origins.all().into_iter();
    let rows = all.map(|(name, origin)| {
        vec![
            name.into(),
            origin.text.into(),
            Cell::Time(origin.prepared_us),
            Cell::Texts(origin.types),
            origin.from_sql.into(),
            0.into(),
            0.into(),
        ]
    });
    rows.collect()
}

fn databases(model: &Model) -> Vec<Vec<Cell>> {
    let row = |(oid, name): (i32, String)| {
        vec![
            oid.into(),
            name.into(),
            OWNER.into(),
            UTF8.into(),
            "c".into(),
            false.into(),
            true.into(),
            (-1).into(),
            1.into(),
            1.into(),
            DEFAULT_TABLESPACE.into(),
            "C".into(),
            "C".into(),
        ]
    };
    model.databases().into_iter().map(row).collect()
}

fn namespaces(model: &Model) -> Vec<Vec<Cell>> {
    let spaces = model.namespaces().into_iter();
    spaces
        .map(|space| vec![space.oid.into(), space.name.into(), OWNER.into()])
        .collect()
}

/// Strings compare by their bytes here, so only those of PostgreSQL's collations are listed that
/// do the same.
fn collation((oid, name, provider, encoding, locale): Collation) -> Vec<Cell> {
    let locale: Cell = locale.map(str::to_owned).into();
    vec![
        oid.into(),
        name.into(),
        CATALOG.into(),
        OWNER.into(),
        provider.into(),
        true.into(),
        encoding.into(),
        locale.clone(),
        locale,
    ]
}

fn role(model: &Model, last: &[Cell]) -> Vec<Cell> {
    let mut row: Vec<Cell> = vec![OWNER.into(), model.user.as_str().into()];
    // Superuser, inherit, create roles, create databases, log in, replicate, bypass row security.
    row.extend([false, true, false, false, true, false, false].map(Cell::from));
    row.push((-1).into());
    row.extend_from_slice(last);
    row
}

async fn classes(model: &Model) -> Result<Vec<Vec<Cell>>> {
    let mut rows = vec![];
    for relation in model.relations() {
        let Some(opened) = model.open(&relation).await? else {
            continue;
        };
        let persistence = if opened.is_temporary { "t" } else { "p" };
        let (kind, access) = if opened.is_view {
            ("v", 0)
        } else {
            ("r", HEAP)
        };
        let is_own = relation.namespace.name == PG_CATALOG;
        let identity = if opened.is_view || is_own { "n" } else { "d" };
        let width = i32::try_from(opened.schema.fields().len()).unwrap_or(i32::MAX);
        // Clients ask for relations that have a type of rows, whatever its oid. No type has the oid
        // of a user's relation.
        let row_type = if is_own { 0 } else { relation.oid };
        rows.push(vec![
            relation.oid.into(),
            relation.name.into(),
            relation.namespace.oid.into(),
            row_type.into(),
            0.into(),
            OWNER.into(),
            access.into(),
            0.into(),
            0.into(),
            0.into(),
            // PostgreSQL's value for relations whose rows were never counted.
            (-1).into(),
            0.into(),
            0.into(),
            false.into(),
            false.into(),
            persistence.into(),
            kind.into(),
            width.into(),
            0.into(),
            false.into(),
            false.into(),
            false.into(),
            false.into(),
            false.into(),
            true.into(),
            identity.into(),
            false.into(),
            0.into(),
            0.into(),
            0.into(),
        ]);
    }
    Ok(rows)
}

async fn attributes(model: &Model) -> Result<Vec<Vec<Cell>>> {
    let mut rows = vec![];
    for relation in model.relations() {
        let Some(opened) = model.open(&relation).await? else {
            continue;
        };
        for (index, field) in opened.schema.fields().iter().enumerate() {
            let number = i32::try_from(index + 1).unwrap_or(i32::MAX);
            let not_null = opened.is_not_null(index);
            rows.push(attribute(relation.oid, number, field, not_null));
        }
    }
    Ok(rows)
}

fn attribute(relation: i32, number: i32, field: &Field, not_null: bool) -> Vec<Cell> {
    let pg_type = pg_type(field);
    let (length, by_value, align, storage) = layout(&pg_type);
    let is_text = [Type::TEXT, Type::TEXT_ARRAY].contains(&pg_type);
    let is_array = field.data_type().is_list();
    vec![
        relation.into(),
        field.name().as_str().into(),
        i32::try_from(pg_type.oid()).unwrap_or_default().into(),
        length.into(),
        number.into(),
        (-1).into(),
        modifier(field.data_type()).into(),
        i32::from(is_array).into(),
        by_value.into(),
        align.into(),
        storage.into(),
        "".into(),
        not_null.into(),
        false.into(),
        false.into(),
        "".into(),
        "".into(),
        false.into(),
        true.into(),
        0.into(),
        (-1).into(),
        if is_text { DEFAULT_COLLATION } else { 0 }.into(),
    ]
}

async fn tables(model: &Model, views: bool) -> Result<Vec<Vec<Cell>>> {
    let mut rows = vec![];
    for relation in model.relations() {
        let Some(opened) = model.open(&relation).await? else {
            continue;
        };
        if opened.is_view != views {
            continue;
        }
        let mut row: Vec<Cell> = vec![
            relation.namespace.name.into(),
            relation.name.into(),
            model.user.as_str().into(),
        ];
        if views {
            row.push(opened.definition.into());
        } else {
            row.push(Cell::Null);
            row.extend([false; 4].map(Cell::from));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A type's length, passing by value, alignment and storage, as in `pg_type`.
fn layout(pg_type: &Type) -> (i32, bool, &'static str, &'static str) {
    match *pg_type {
        Type::BOOL | Type::CHAR => (1, true, "c", "p"),
        Type::INT2 => (2, true, "s", "p"),
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => (4, true, "i", "p"),
        Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            (8, true, "d", "p")
        }
        Type::INTERVAL => (16, false, "d", "p"),
        Type::NUMERIC => (-1, false, "i", "m"),
        _ => (-1, false, "i", "x"),
    }
}

/// The oid of PostgreSQL's first superuser: here the only role, which every client connects as and
/// which owns everything.
pub(super) const OWNER: i32 = 10;
const UTF8: i32 = 6;
/// The schema `pg_catalog`.
const CATALOG: i32 = 11;
const DEFAULT_TABLESPACE: i32 = 1663;
const DEFAULT_COLLATION: i32 = 100;
const HEAP: i32 = 2;

/// The oid, name, provider, encoding (-1: any) and locale of a collation.
type Collation = (i32, &'static str, &'static str, i32, Option<&'static str>);

const COLLATIONS: [Collation; 4] = [
    (DEFAULT_COLLATION, "default", "d", -1, None),
    (950, "C", "c", -1, Some("C")),
    (951, "POSIX", "c", -1, Some("POSIX")),
    (962, "ucs_basic", "c", UTF8, Some("C")),
];

use Kind::{Bool, Char, Float4, Int2, Int4, Int8, Oid, Text, Texts, Time};

const ACTIVITY: Columns = &[
    ("datid", Oid),
    ("datname", Text),
    ("pid", Int4),
    ("leader_pid", Int4),
    ("usesysid", Oid),
    ("usename", Text),
    ("application_name", Text),
    ("client_addr", Text),
    ("client_hostname", Text),
    ("client_port", Int4),
    ("backend_start", Time),
    ("xact_start", Time),
    ("query_start", Time),
    ("state_change", Time),
    ("wait_event_type", Text),
    ("wait_event", Text),
    ("state", Text),
    ("backend_xid", Int4),
    ("backend_xmin", Int4),
    ("query_id", Int8),
    ("query", Text),
    ("backend_type", Text),
];

const NAMESPACE: Columns = &[
    ("oid", Oid),
    ("nspname", Text),
    ("nspowner", Oid),
    ("nspacl", Texts),
];

const COLLATION: Columns = &[
    ("oid", Oid),
    ("collname", Text),
    ("collnamespace", Oid),
    ("collowner", Oid),
    ("collprovider", Char),
    ("collisdeterministic", Bool),
    ("collencoding", Int4),
    ("collcollate", Text),
    ("collctype", Text),
    ("colliculocale", Text),
    ("collicurules", Text),
    ("collversion", Text),
];

const DATABASE: Columns = &[
    ("oid", Oid),
    ("datname", Text),
    ("datdba", Oid),
    ("encoding", Int4),
    ("datlocprovider", Char),
    ("datistemplate", Bool),
    ("datallowconn", Bool),
    ("datconnlimit", Int4),
    ("datfrozenxid", Int4),
    ("datminmxid", Int4),
    ("dattablespace", Oid),
    ("datcollate", Text),
    ("datctype", Text),
    ("daticulocale", Text),
    ("daticurules", Text),
    ("datcollversion", Text),
    ("datacl", Texts),
];

const AUTHID: Columns = &[
    ("oid", Oid),
    ("rolname", Text),
    ("rolsuper", Bool),
    ("rolinherit", Bool),
    ("rolcreaterole", Bool),
    ("rolcreatedb", Bool),
    ("rolcanlogin", Bool),
    ("rolreplication", Bool),
    ("rolbypassrls", Bool),
    ("rolconnlimit", Int4),
    ("rolpassword", Text),
    ("rolvaliduntil", Text),
];

const ROLES: Columns = &[
    ("oid", Oid),
    ("rolname", Text),
    ("rolsuper", Bool),
    ("rolinherit", Bool),
    ("rolcreaterole", Bool),
    ("rolcreatedb", Bool),
    ("rolcanlogin", Bool),
    ("rolreplication", Bool),
    ("rolbypassrls", Bool),
    ("rolconnlimit", Int4),
    ("rolpassword", Text),
    ("rolvaliduntil", Text),
    ("rolconfig", Texts),
];

const USER: Columns = &[
    ("usename", Text),
    ("usesysid", Oid),
    ("usecreatedb", Bool),
    ("usesuper", Bool),
    ("userepl", Bool),
    ("usebypassrls", Bool),
    ("passwd", Text),
    ("valuntil", Text),
    ("useconfig", Texts),
];

const CLASS: Columns = &[
    ("oid", Oid),
    ("relname", Text),
    ("relnamespace", Oid),
    ("reltype", Oid),
    ("reloftype", Oid),
    ("relowner", Oid),
    ("relam", Oid),
    ("relfilenode", Oid),
    ("reltablespace", Oid),
    ("relpages", Int4),
    ("reltuples", Float4),
    ("relallvisible", Int4),
    ("reltoastrelid", Oid),
    ("relhasindex", Bool),
    ("relisshared", Bool),
    ("relpersistence", Char),
    ("relkind", Char),
    ("relnatts", Int2),
    ("relchecks", Int2),
    ("relhasrules", Bool),
    ("relhastriggers", Bool),
    ("relhassubclass", Bool),
    ("relrowsecurity", Bool),
    ("relforcerowsecurity", Bool),
    ("relispopulated", Bool),
    ("relreplident", Char),
    ("relispartition", Bool),
    ("relrewrite", Oid),
    ("relfrozenxid", Int4),
    ("relminmxid", Int4),
    ("relacl", Texts),
    ("reloptions", Texts),
    ("relpartbound", Text),
];

const ATTRIBUTE: Columns = &[
    ("attrelid", Oid),
    ("attname", Text),
    ("atttypid", Oid),
    ("attlen", Int2),
    ("attnum", Int2),
    ("attcacheoff", Int4),
    ("atttypmod", Int4),
    ("attndims", Int2),
    ("attbyval", Bool),
    ("attalign", Char),
    ("attstorage", Char),
    ("attcompression", Char),
    ("attnotnull", Bool),
    ("atthasdef", Bool),
    ("atthasmissing", Bool),
    ("attidentity", Char),
    ("attgenerated", Char),
    ("attisdropped", Bool),
    ("attislocal", Bool),
    ("attinhcount", Int2),
    ("attstattarget", Int2),
    ("attcollation", Oid),
    ("attacl", Texts),
    ("attoptions", Texts),
    ("attfdwoptions", Texts),
    ("attmissingval", Text),
];

const TABLES: Columns = &[
    ("schemaname", Text),
    ("tablename", Text),
    ("tableowner", Text),
    ("tablespace", Text),
    ("hasindexes", Bool),
    ("hasrules", Bool),
    ("hastriggers", Bool),
    ("rowsecurity", Bool),
];

const VIEWS: Columns = &[
    ("schemaname", Text),
    ("viewname", Text),
    ("viewowner", Text),
    ("definition", Text),
];

const SETTINGS: Columns = &[
    ("name", Text),
    ("setting", Text),
    ("unit", Text),
    ("category", Text),
    ("short_desc", Text),
    ("extra_desc", Text),
    ("context", Text),
    ("vartype", Text),
    ("source", Text),
    ("min_val", Text),
    ("max_val", Text),
    ("enumvals", Texts),
    ("boot_val", Text),
    ("reset_val", Text),
    ("sourcefile", Text),
    ("sourceline", Int4),
    ("pending_restart", Bool),
];

const PREPARED_STATEMENTS: Columns = &[
    ("name", Text),
    ("statement", Text),
    ("prepare_time", Time),
    ("parameter_types", Texts),
    ("from_sql", Bool),
    ("generic_plans", Int8),
    ("custom_plans", Int8),
];
