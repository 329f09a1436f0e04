//! The columns of the views of `information_schema`, as PostgreSQL 15 has them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::catalog::grid::{Columns, Kind};

/// The columns of a view; `None` if the view does not exist here.
pub(super) fn columns(view: &str) -> Option<Columns> {
    READ.get(view).map(Vec::as_slice)
}

/// The names of all views.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    READ.keys().copied()
}

static READ: LazyLock<BTreeMap<&'static str, Vec<(&'static str, Kind)>>> = LazyLock::new(|| {
    let column = |word: &'static str| match word.strip_suffix('#') {
        Some(name) => (name, Kind::Int4),
        None => (word, Kind::Text),
    };
    VIEWS
        .iter()
        .map(|(view, columns)| (*view, columns.split_whitespace().map(column).collect()))
        .collect()
});

/// The suffix `#` marks a number (`cardinal_number`); all other columns are text.
const VIEWS: &[(&str, &str)] = &[
    ("applicable_roles", "grantee role_name is_grantable"),
    (
        "character_sets",
        "character_set_catalog character_set_schema character_set_name character_repertoire \
         form_of_use default_collate_catalog default_collate_schema default_collate_name",
    ),
    (
        "check_constraints",
        "constraint_catalog constraint_schema constraint_name check_clause",
    ),
    (
        "column_privileges",
        "grantor grantee table_catalog table_schema table_name column_name privilege_type \
         is_grantable",
    ),
    (
        "columns",
        "table_catalog table_schema table_name column_name ordinal_position# column_default \
         is_nullable data_type character_maximum_length# character_octet_length# \
         numeric_precision# numeric_precision_radix# numeric_scale# datetime_precision# \
         interval_type interval_precision# character_set_catalog character_set_schema \
         character_set_name collation_catalog collation_schema collation_name domain_catalog \
         domain_schema domain_name udt_catalog udt_schema udt_name scope_catalog scope_schema \
         scope_name maximum_cardinality# dtd_identifier is_self_referencing is_identity \
         identity_generation identity_start identity_increment identity_maximum \
         identity_minimum identity_cycle is_generated generation_expression is_updatable",
    ),
    (
        "constraint_column_usage",
        "table_catalog table_schema table_name column_name constraint_catalog \
         constraint_schema constraint_name",
    ),
    (
        "domains",
        "domain_catalog domain_schema domain_name data_type character_maximum_length# \
         character_octet_length# character_set_catalog character_set_schema character_set_name \
         collation_catalog collation_schema collation_name numeric_precision# \
         numeric_precision_radix# numeric_scale# datetime_precision# interval_type \
         interval_precision# domain_default udt_catalog udt_schema udt_name scope_catalog \
         scope_schema scope_name maximum_cardinality# dtd_identifier",
    ),
    (
        "element_types",
        "object_catalog object_schema object_name object_type collection_type_identifier \
         data_type character_maximum_length# character_octet_length# character_set_catalog \
         character_set_schema character_set_name collation_catalog collation_schema \
         collation_name numeric_precision# numeric_precision_radix# numeric_scale# \
         datetime_precision# interval_type interval_precision# domain_default udt_catalog \
         udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality# \
         dtd_identifier",
    ),
    ("enabled_roles", "role_name"),
    ("information_schema_catalog_name", "catalog_name"),
    (
        "key_column_usage",
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema \
         table_name column_name ordinal_position# position_in_unique_constraint#",
    ),
    (
        "referential_constraints",
        "constraint_catalog constraint_schema constraint_name unique_constraint_catalog \
         unique_constraint_schema unique_constraint_name match_option update_rule delete_rule",
    ),
    (
        "role_table_grants",
        "grantor grantee table_catalog table_schema table_name privilege_type is_grantable \
         with_hierarchy",
    ),
    (
        "schemata",
        "catalog_name schema_name schema_owner default_character_set_catalog \
         default_character_set_schema default_character_set_name sql_path",
    ),
    (
        "sequences",
        "sequence_catalog sequence_schema sequence_name data_type numeric_precision# \
         numeric_precision_radix# numeric_scale# start_value minimum_value maximum_value \
         increment cycle_option",
    ),
    (
        "table_constraints",
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema \
         table_name constraint_type is_deferrable initially_deferred enforced nulls_distinct",
    ),
    (
        "table_privileges",
        "grantor grantee table_catalog table_schema table_name privilege_type is_grantable \
         with_hierarchy",
    ),
    (
        "tables",
        "table_catalog table_schema table_name table_type self_referencing_column_name \
         reference_generation user_defined_type_catalog user_defined_type_schema \
         user_defined_type_name is_insertable_into is_typed commit_action",
    ),
    (
        "triggers",
        "trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog \
         event_object_schema event_object_table action_order# action_condition \
         action_statement action_orientation action_timing action_reference_old_table \
         action_reference_new_table action_reference_old_row action_reference_new_row created",
    ),
    (
        "views",
        "table_catalog table_schema table_name view_definition check_option is_updatable \
         is_insertable_into is_trigger_updatable is_trigger_deletable \
         is_trigger_insertable_into",
    ),
];
