//! What may the connected role do? `has_…_privilege`.
//!
//! An authenticated client may read everything that the catalog lists. These functions promise no
//! right to write: the server decides when a writing statement arrives.

use super::Known;
use super::Take::{NumberOrText, Text};
use super::function::{Function, Give, Optional, boolean};

pub(super) fn functions(known: &Known) -> Vec<Function> {
    let mut functions: Vec<_> = [
        "has_table_privilege",
        "has_any_column_privilege",
        "has_schema_privilege",
        "has_database_privilege",
        "has_function_privilege",
        "has_language_privilege",
        "has_sequence_privilege",
        "has_tablespace_privilege",
        "has_type_privilege",
        "has_server_privilege",
        "has_foreign_data_wrapper_privilege",
    ]
    .into_iter()
    .map(|name| {
        Function::new(
            name,
            &[NumberOrText, NumberOrText, Text],
            Give::Bool,
            |row| Ok(boolean(row.text(row.len() - 1).map(may))),
        )
        .optional(Optional::First)
    })
    .collect();
    functions.push(
        Function::new(
            "has_column_privilege",
            &[NumberOrText, NumberOrText, NumberOrText, Text],
            Give::Bool,
            |row| Ok(boolean(row.text(row.len() - 1).map(may))),
        )
        .optional(Optional::First),
    );
    let user = known.model.user.clone();
    functions.push(
        Function::new(
            "pg_has_role",
            &[NumberOrText, NumberOrText, Text],
            Give::Bool,
            move |row| {
                let role = row.len() - 2;
                let own = row.text(role) == Some(user.as_str())
                    || row.oid(role) == Some(crate::catalog::rows::OWNER);
                Ok(boolean(Some(own)))
            },
        )
        .optional(Optional::First),
    );
    functions
}

/// Whether the role has any of the listed privileges, which is PostgreSQL's meaning of a list.
fn may(privileges: &str) -> bool {
    privileges.split(',').any(|privilege| {
        let privilege = privilege.trim().to_uppercase();
        matches!(
            privilege.as_str(),
            "SELECT" | "USAGE" | "CONNECT" | "EXECUTE" | "TEMP" | "TEMPORARY"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::may;

    #[test]
    fn reading_is_allowed() {
        assert!(may("SELECT"));
        assert!(may("insert, select"));
        assert!(!may("INSERT"));
        assert!(!may("SELECT WITH GRANT OPTION"));
    }
}
