//! Which statements begin and end transaction blocks and savepoints?
//!
//! Not here: in which state of a block they may run (`status.rs`), SET TRANSACTION, which changes
//! settings.

use datafusion::sql::sqlparser::ast::{Statement as SqlStatement, TransactionMode};

use crate::session::names::folded;

/// A statement about the session's transaction block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockStatement {
    /// BEGIN and START TRANSACTION, distinguished by the tag.
    Begin {
        /// Of the new transaction. Those that are not named come from the session's settings.
        modes: Vec<TransactionMode>,
        /// Of the answer.
        tag: &'static str,
    },
    /// COMMIT.
    Commit {
        /// AND CHAIN: the next transaction begins at once, in the same modes.
        chain: bool,
    },
    /// ROLLBACK.
    Rollback {
        /// As in COMMIT.
        chain: bool,
    },
    /// ROLLBACK TO the savepoint of this name, which revives a failed block.
    RollbackTo(String),
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE of a savepoint and all later ones.
    Release(String),
}

impl BlockStatement {
    /// What a parsed statement asks of the block; `None` for a statement about something else.
    #[must_use]
    pub fn of(statement: &SqlStatement) -> Option<Self> {
        Some(match statement {
            SqlStatement::StartTransaction { modes, begin, .. } => Self::Begin {
                modes: modes.clone(),
                tag: if *begin { "BEGIN" } else { "START TRANSACTION" },
            },
            SqlStatement::Commit { chain, .. } => Self::Commit { chain: *chain },
            SqlStatement::Rollback { savepoint, chain } => match savepoint {
                None => Self::Rollback { chain: *chain },
                Some(name) => Self::RollbackTo(folded(name)),
            },
            SqlStatement::Savepoint { name } => Self::Savepoint(folded(name)),
            SqlStatement::ReleaseSavepoint { name } => Self::Release(folded(name)),
            _ => return None,
        })
    }

    /// The name in messages of a statement that has no sense outside of a block.
    pub(super) fn needs_block(&self) -> Option<&'static str> {
        match self {
            Self::Begin { .. } => None,
            Self::Commit { chain } => chain.then_some("COMMIT AND CHAIN"),
            Self::Rollback { chain } => chain.then_some("ROLLBACK AND CHAIN"),
            Self::RollbackTo(_) => Some("ROLLBACK TO SAVEPOINT"),
            Self::Savepoint(_) => Some("SAVEPOINT"),
            Self::Release(_) => Some("RELEASE SAVEPOINT"),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn of(sql: &str) -> Option<BlockStatement> {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        BlockStatement::of(&parsed[0])
    }

    #[test]
    fn statements_about_the_block_are_recognised() {
        let begin = |tag| {
            let modes = vec![];
            Some(BlockStatement::Begin { modes, tag })
        };
        assert_eq!(of("BEGIN"), begin("BEGIN"));
        assert_eq!(of("START TRANSACTION"), begin("START TRANSACTION"));
        let commit = |chain| Some(BlockStatement::Commit { chain });
        assert_eq!(of("COMMIT"), commit(false));
        assert_eq!(of("COMMIT AND CHAIN"), commit(true));
        let name = |name: &str| name.to_owned();
        assert_eq!(
            of("ROLLBACK TO SAVEPOINT Ab"),
            Some(BlockStatement::RollbackTo(name("ab")))
        );
        assert_eq!(
            of("SAVEPOINT \"Ab\""),
            Some(BlockStatement::Savepoint(name("Ab")))
        );
        assert_eq!(
            of("RELEASE SAVEPOINT ab"),
            Some(BlockStatement::Release(name("ab")))
        );
        assert_eq!(of("SELECT 1"), None);
    }
}
