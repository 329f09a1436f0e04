//! What does the catalog list? Databases, schemas and relations, each with an oid.
//!
//! Everything is read from DataFusion's catalogs when a query asks, so nothing can be outdated and
//! nothing is stored.
//!
//! M1: an oid is a hash of the object's name, in the range that PostgreSQL reserves for users'
//! objects, so it is the same on every connection and after a restart. If two names have the same
//! hash, the alphabetically later one takes the next free oid.
//! M2: an object whose oid is fixed in PostgreSQL (`pg_catalog`, `public`, `pg_class`) has that
//! oid.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::catalog::{CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Constraint;
use datafusion::datasource::TableType;
use datafusion::error::Result;
use futures::FutureExt;

use super::activity::Backends;
use crate::origins::Origins;

/// One connection's view of the catalogs.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) below: Arc<dyn CatalogProviderList>,
    /// The catalog of the session.
    pub(super) database: String,
    /// The name under which the session's client knows it: the one to which it connected (M3).
    pub(super) shown: String,
    pub(super) user: String,
    /// The server's connections.
    pub(super) backends: Arc<Backends>,
    /// The connection's prepared statements.
    pub(super) origins: Arc<Origins>,
    /// Whether there is an `information_schema`.
    pub(super) describes_itself: bool,
    /// `pg_catalog` itself, which the model lists without owning it.
    pub(super) pg: Arc<OnceLock<Weak<dyn SchemaProvider>>>,
    /// `information_schema`, in the same way.
    pub(super) standard: Arc<OnceLock<Weak<dyn SchemaProvider>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Namespace {
    pub(super) oid: i32,
    pub(super) name: String,
}

#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub(super) oid: i32,
    pub(super) namespace: Namespace,
    pub(super) name: String,
}

/// The properties of an opened relation.
pub(super) struct Opened {
    pub(super) schema: SchemaRef,
    pub(super) is_view: bool,
    pub(super) is_temporary: bool,
    pub(super) definition: Option<String>,
    /// The columns of the primary key.
    key: Vec<usize>,
}

impl Opened {
    /// Whether the column of this index is NOT NULL. Columns of a primary key are without saying
    /// so; columns of a view never are.
    pub(super) fn is_not_null(&self, index: usize) -> bool {
        let is_declared = !self.schema.field(index).is_nullable() || self.key.contains(&index);
        is_declared && !self.is_view
    }
}

impl Model {
    pub(super) fn databases(&self) -> Vec<(i32, String)> {
        let mut names = CatalogProviderList::catalog_names(self.below.as_ref());
        names.sort_unstable();
        let mut oids = Oids::default();
        names
            .into_iter()
            .map(|name| (oids.of(&["", &name]), self.shown_as(name)))
            .collect()
    }

    /// The name under which the client knows a catalog.
    pub(super) fn shown_as(&self, catalog: String) -> String {
        if catalog == self.database {
            self.shown.clone()
        } else {
            catalog
        }
    }

    pub(super) fn namespaces(&self) -> Vec<Namespace> {
        let catalog = self.below.catalog(&self.database);
        let mut names = catalog.map(|all| all.schema_names()).unwrap_or_default();
        names.push(PG_CATALOG.to_owned());
        if self.describes_itself {
            names.push(INFORMATION_SCHEMA.to_owned());
        }
        names.sort_unstable();
        names.dedup();
        let mut oids = Oids::default();
        let fixed = |name: &str| match name {
            PG_CATALOG => Some(11),
            "public" => Some(2200),
            _ => None,
        };
        names
            .into_iter()
            .map(|name| Namespace {
                oid: fixed(&name).unwrap_or_else(|| oids.of(&[&self.database, &name])),
                name,
            })
            .collect()
    }

    /// The relations of the session's database, ordered by schema and name.
    pub(super) fn relations(&self) -> Vec<Relation> {
        let mut oids = Oids::default();
        let mut relations = vec![];
        for namespace in self.namespaces() {
            let schema = self.schema(&namespace.name);
            let mut names = schema.map(|all| all.table_names()).unwrap_or_default();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let fixed = (namespace.name == PG_CATALOG)
                    .then(|| fixed_oid(&name))
                    .flatten();
                let oid = match fixed {
                    Some(oid) => oid,
                    None => oids.of(&[&self.database, &namespace.name, &name]),
                };
                relations.push(Relation {
                    oid,
                    namespace: namespace.clone(),
                    name,
                });
            }
        }
        relations
    }

    pub(super) fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == PG_CATALOG {
            return self.pg.get()?.upgrade();
        }
        if name == INFORMATION_SCHEMA && self.describes_itself {
            return self.standard.get()?.upgrade();
        }
        self.below.catalog(&self.database)?.schema(name)
    }

    /// Opens a relation. `None` if it has been dropped meanwhile.
    pub(super) async fn open(&self, relation: &Relation) -> Result<Option<Opened>> {
        let Some(schema) = self.schema(&relation.namespace.name) else {
            return Ok(None);
        };
        let Some(table) = schema.table(&relation.name).await? else {
            return Ok(None);
        };
        // A streaming table reports a view's type, but has no query.
        let is_view = match relation.namespace.name.as_str() {
            INFORMATION_SCHEMA => true,
            PG_CATALOG => VIEWS.contains(&relation.name.as_str()),
            _ => table.table_type() == TableType::View && table.get_logical_plan().is_some(),
        };
        Ok(Some(Opened {
            schema: table.schema(),
            is_view,
            is_temporary: table.table_type() == TableType::Temporary,
            definition: is_view
                .then(|| table.get_table_definition().map(query_of))
                .flatten(),
            key: primary_key(table.as_ref()),
        }))
    }

    /// The text of a view's query. `None` for any other relation, and if opening the view would
    /// block.
    pub(super) fn definition(&self, relation: &Relation) -> Option<String> {
        self.open(relation).now_or_never()?.ok()??.definition
    }
}

/// The columns of a table's primary key.
fn primary_key(table: &dyn TableProvider) -> Vec<usize> {
    let constraints = table.constraints().into_iter().flat_map(|all| all.iter());
    let keys = constraints.filter_map(|constraint| match constraint {
        Constraint::PrimaryKey(columns) => Some(columns),
        Constraint::Unique(_) => None,
    });
    keys.flatten().copied().collect()
}

/// The relation of this name: in the schema that the name gives, otherwise in the first schema of
/// the search path that has it.
pub(super) fn named<'a>(
    relations: &'a [Relation],
    name: &str,
    path: &[String],
) -> Option<&'a Relation> {
    let words = words(name)?;
    let find = |schema: &str, table: &str| {
        let mut all = relations.iter();
        all.find(|r| r.namespace.name == schema && r.name == table)
    };
    match words.as_slice() {
        [table] => path.iter().find_map(|schema| find(schema, table)),
        [.., schema, table] => find(schema, table),
        [] => None,
    }
}

/// PostgreSQL's oid of a table of `pg_catalog`, if Coscan has that table.
pub(super) fn fixed_oid(table: &str) -> Option<i32> {
    let found = FIXED.iter().find(|(name, _)| *name == table);
    found.map(|(_, oid)| *oid)
}

/// The part after AS in `CREATE VIEW … AS …`.
fn query_of(create: &str) -> String {
    use datafusion::sql::sqlparser::{ast::Statement, dialect::GenericDialect, parser::Parser};
    let parsed = Parser::parse_sql(&GenericDialect {}, create);
    match parsed.as_deref() {
        Ok([Statement::CreateView(view)]) => format!("{};", view.query),
        _ => create.to_owned(),
    }
}

/// Splits a name into words: quoted ones unchanged, others in lower case. `None` if `name` is
/// malformed.
fn words(name: &str) -> Option<Vec<String>> {
    let mut words = vec![];
    let mut rest = name.trim().chars().peekable();
    loop {
        let mut word = String::new();
        if rest.next_if_eq(&'"').is_some() {
            loop {
                match rest.next()? {
                    '"' if rest.next_if_eq(&'"').is_some() => word.push('"'),
                    '"' => break,
                    other => word.push(other),
                }
            }
        } else {
            while let Some(c) = rest.next_if(|c| *c != '.') {
                word.extend(c.to_lowercase());
            }
        }
        if word.is_empty() {
            return None;
        }
        words.push(word);
        match rest.next() {
            None => return Some(words),
            Some('.') => {}
            Some(_) => return None,
        }
    }
}

/// Assigns oids (M1).
#[derive(Default)]
struct Oids(HashSet<i32>);

impl Oids {
    fn of(&mut self, words: &[&str]) -> i32 {
        // FNV-1a: short, and stable across versions.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut oid = FIRST + i32::try_from(hash % RANGE).unwrap_or(0);
        while !self.0.insert(oid) {
            oid = if oid == i32::MAX { FIRST } else { oid + 1 };
        }
        oid
    }
}

/// The relations of `pg_catalog` that are views.
const VIEWS: &[&str] = &[
    "pg_matviews",
    "pg_replication_slots",
    "pg_roles",
    "pg_settings",
    "pg_stat_gssapi",
    "pg_stat_user_tables",
    "pg_tables",
    "pg_user",
    "pg_user_mappings",
    "pg_views",
];

pub(super) const PG_CATALOG: &str = "pg_catalog";
/// PostgreSQL's first oid for users' objects (`FirstNormalObjectId`).
const FIRST: i32 = 16_384;
/// Oids are signed here, so only half of PostgreSQL's range is used.
const RANGE: u64 = (i32::MAX - FIRST) as u64;

/// Fixed oids: clients write some of them as numbers, and descriptions refer to them.
const FIXED: &[(&str, i32)] = &[
    ("pg_aggregate", 2600),
    ("pg_am", 2601),
    ("pg_attribute", 1249),
    ("pg_authid", 1260),
    ("pg_cast", 2605),
    ("pg_class", 1259),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_conversion", 2607),
    ("pg_database", 1262),
    ("pg_description", 2609),
    ("pg_extension", 3079),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_language", 2612),
    ("pg_namespace", 2615),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_opfamily", 2753),
    ("pg_proc", 1255),
    ("pg_rewrite", 2618),
    ("pg_tablespace", 1213),
    ("pg_trigger", 2620),
    ("pg_type", 1247),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oids_are_stable_and_unique() {
        let (mut one, mut other) = (Oids::default(), Oids::default());
        let a = one.of(&["datafusion", "public", "people"]);
        assert_eq!(other.of(&["datafusion", "public", "people"]), a);
        assert!(a >= FIRST);
        assert_ne!(one.of(&["datafusion", "public", "people"]), a, "taken");
        assert_ne!(one.of(&["datafusion", "publicp", "eople"]), a);
    }

    #[test]
    fn names_parse_as_in_postgres() {
        assert_eq!(words("People"), Some(vec!["people".to_owned()]));
        assert_eq!(
            words("\"Mine\".\"a\"\"b\""),
            Some(vec!["Mine".to_owned(), "a\"b".to_owned()])
        );
        assert_eq!(words("a."), None);
        assert_eq!(words("\"a"), None);
    }

    #[test]
    fn the_query_of_a_view() {
        let text = query_of("CREATE VIEW v AS SELECT 1 AS a FROM t");
        assert_eq!(text, "SELECT 1 AS a FROM t;");
    }
}
