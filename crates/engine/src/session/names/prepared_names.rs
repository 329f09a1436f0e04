//! Which prepared statement has a name?
//!
//! PREPARE and a protocol's messages share one namespace. The empty name is that of the unnamed
//! statement, which the next one replaces.
//! Bounds: [`STATEMENTS_MAX`].

use std::collections::HashMap;

use coscan_pg::PgError;

/// The most statements of a session. Far more than drivers cache; each holds a plan.
const STATEMENTS_MAX: usize = 4096;

/// A session's prepared statements, by name. Those that a program prepares by
/// [`Session::prepare`](crate::Session::prepare) have none.
#[derive(Clone, Debug)]
pub struct PreparedNames<T> {
    statements: HashMap<String, T>,
}

impl<T> Default for PreparedNames<T> {
    fn default() -> Self {
        let statements = HashMap::new();
        Self { statements }
    }
}

impl<T> PreparedNames<T> {
    /// The statement of this name.
    ///
    /// # Errors
    /// 26000 if there is none.
    pub fn statement(&self, name: &str) -> Result<&T, PgError> {
        self.statements.get(name).ok_or_else(|| {
            let told = format!("prepared statement \"{name}\" does not exist");
            PgError::new("26000", told)
        })
    }

    /// Checks that a statement may get this name.
    ///
    /// # Errors
    /// 42P05 if another one has it.
    pub fn check_free(&self, name: &str) -> Result<(), PgError> {
        if name.is_empty() || !self.statements.contains_key(name) {
            return Ok(());
        }
        let told = format!("prepared statement \"{name}\" already exists");
        Err(PgError::new("42P05", told))
    }

    /// PREPARE: names a statement.
    ///
    /// # Errors
    /// As [`PreparedNames::check_free`]; 53400 if there are too many.
    pub fn insert(&mut self, name: String, statement: T) -> Result<(), PgError> {
        self.check_free(&name)?;
        if self.statements.len() >= STATEMENTS_MAX {
            let told = format!("at most {STATEMENTS_MAX} statements");
            return Err(PgError::new("53400", told));
        }
        self.statements.insert(name, statement);
        Ok(())
    }

    /// DEALLOCATE, without an error where there is no such statement. Returns whether there was
    /// one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.statements.remove(name).is_some()
    }

    /// DEALLOCATE ALL.
    pub fn clear(&mut self) {
        self.statements.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, PgError>) -> &'static str {
        match result {
            Ok(_) => "",
            Err(error) => error.code(),
        }
    }

    #[test]
    fn a_name_is_taken_once_and_the_unnamed_statement_is_replaced() {
        let mut names = PreparedNames::default();
        for (name, expected) in [("", ""), ("", ""), ("a", ""), ("a", "42P05")] {
            assert_eq!(code(names.insert(name.to_owned(), 1)), expected, "{name}");
        }
        assert!(names.remove("a"));
        assert!(!names.remove("a"));
        assert_eq!(code(names.statement("a")), "26000");
        assert!(names.insert("a".to_owned(), 2).is_ok());
        assert_eq!(names.statement("a").ok(), Some(&2));
        names.clear();
        assert_eq!(code(names.statement("")), "26000");
    }

    #[test]
    fn names_are_bounded() {
        let mut names = PreparedNames::default();
        for number in 0..STATEMENTS_MAX {
            names.insert(number.to_string(), number).unwrap();
        }
        assert_eq!(code(names.insert("one more".to_owned(), 0)), "53400");
    }
}
