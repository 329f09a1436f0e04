//! Which values can the tables of `pg_catalog` hold?
//!
//! Coscan has tables and views, but no sequences, constraints, policies, triggers, inheritance,
//! enums, domains or row types. The tables of `pg_catalog` for these have PostgreSQL's columns and
//! no rows; columns of other tables that refer to them are always NULL or false. The catalog
//! serves its tables by these lists (`catalog/tables.rs`), and `folding.rs` drops unreachable
//! parts of queries by the same lists, so the two cannot disagree. A test checks every fact
//! against the rows of its table.

/// What is known about a column of a table of `pg_catalog`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// NULL in every row.
    Null,
    /// False in every row.
    False,
    /// One of these values in every row.
    OneOf(&'static [&'static str]),
    /// A function's name as text, `-` for none: PostgreSQL's `regproc`.
    Procedure,
}

/// The fact about a column, if there is one.
pub(in crate::dialect) fn fact(table: &str, column: &str) -> Option<Fact> {
    FACTS
        .iter()
        .find(|(t, c, _)| *t == table && c.eq_ignore_ascii_case(column))
        .map(|(_, _, fact)| *fact)
}

/// Whether `pg_catalog` has a table of this name.
#[must_use]
pub fn is_catalog_table(name: &str) -> bool {
    let name = name.to_lowercase();
    TABLES.contains(&name.as_str()) || EMPTY.contains(&name.as_str())
}

/// The facts, as (table, column, fact).
pub const FACTS: &[(&str, &str, Fact)] = &[
    ("pg_class", "relkind", Fact::OneOf(&["r", "v"])),
    ("pg_class", "relpersistence", Fact::OneOf(&["p", "t"])),
    ("pg_class", "relhasindex", Fact::False),
    ("pg_class", "relhasrules", Fact::False),
    ("pg_class", "relhastriggers", Fact::False),
    ("pg_class", "relispartition", Fact::False),
    ("pg_class", "relacl", Fact::Null),
    ("pg_class", "reloptions", Fact::Null),
    ("pg_class", "relpartbound", Fact::Null),
    ("pg_attribute", "atthasdef", Fact::False),
    ("pg_attribute", "attisdropped", Fact::False),
    ("pg_attribute", "attidentity", Fact::OneOf(&[""])),
    ("pg_attribute", "attgenerated", Fact::OneOf(&[""])),
    ("pg_attribute", "attacl", Fact::Null),
    ("pg_attribute", "attoptions", Fact::Null),
    ("pg_namespace", "nspacl", Fact::Null),
    ("pg_database", "datacl", Fact::Null),
    ("pg_type", "typtype", Fact::OneOf(&["b", "p", "r", "m"])),
    ("pg_type", "typnotnull", Fact::False),
    ("pg_type", "typinput", Fact::Procedure),
    ("pg_type", "typoutput", Fact::Procedure),
    ("pg_type", "typreceive", Fact::Procedure),
    ("pg_type", "typsend", Fact::Procedure),
    ("pg_type", "typmodin", Fact::Procedure),
    ("pg_type", "typmodout", Fact::Procedure),
    ("pg_type", "typanalyze", Fact::Procedure),
    ("pg_type", "typsubscript", Fact::Procedure),
];

/// The tables that have no rows.
pub const EMPTY: &[&str] = &[
    "pg_attrdef",
    "pg_auth_members",
    "pg_available_extensions",
    "pg_constraint",
    "pg_cursors",
    "pg_db_role_setting",
    "pg_default_acl",
    "pg_depend",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_group",
    "pg_index",
    "pg_indexes",
    "pg_inherits",
    "pg_init_privs",
    "pg_largeobject",
    "pg_largeobject_metadata",
    "pg_locks",
    "pg_matviews",
    "pg_partitioned_table",
    "pg_policies",
    "pg_policy",
    "pg_prepared_xacts",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_replication_origin",
    "pg_replication_slots",
    "pg_rewrite",
    "pg_rules",
    "pg_seclabel",
    "pg_sequence",
    "pg_sequences",
    "pg_shdepend",
    "pg_shdescription",
    "pg_shseclabel",
    "pg_stat_all_tables",
    "pg_stat_gssapi",
    "pg_stat_user_indexes",
    "pg_stat_user_tables",
    "pg_statio_user_tables",
    "pg_statistic",
    "pg_statistic_ext",
    "pg_statistic_ext_data",
    "pg_stats",
    "pg_subscription",
    "pg_subscription_rel",
    "pg_trigger",
    "pg_ts_config_map",
    "pg_user_mapping",
    "pg_user_mappings",
];

/// The tables that have rows.
pub const TABLES: &[&str] = &[
    "pg_aggregate",
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_attribute",
    "pg_authid",
    "pg_cast",
    "pg_class",
    "pg_collation",
    "pg_conversion",
    "pg_database",
    "pg_description",
    "pg_language",
    "pg_namespace",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_prepared_statements",
    "pg_proc",
    "pg_range",
    "pg_roles",
    "pg_settings",
    "pg_stat_activity",
    "pg_tables",
    "pg_tablespace",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_type",
    "pg_user",
    "pg_views",
];
