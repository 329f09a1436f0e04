//! Which statement may run in which state of a transaction block, and which state follows?
//!
//! BEGIN opens a block. Outside of one, a statement, or a group of statements that its owner runs
//! as one, is a transaction of its own, which ends with it.
//! Not here: what the end of a transaction restores (`transaction.rs`), what READ ONLY refuses
//! (`session_names/statements/read_only.rs`).
//! TB1: a failed block runs only what ends it or revives it.

use coscan_pg::PgError;

use super::statement::BlockStatement;
use crate::notices::Notice;

/// Where a session stands between BEGIN and the end of the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockStatus {
    /// Outside of a block.
    #[default]
    Idle,
    /// Inside of a block.
    Open,
    /// Inside of a block in which a statement has failed.
    Failed,
}

/// What a failed statement leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// It ran outside of a block: its transaction is to be rolled back.
    RollBack,
    /// ROLLBACK TO may revive the block.
    MayRevive,
    /// Nothing revives the block: what only its statements need can go.
    AwaitEnd,
}

impl BlockStatus {
    /// Whether a block is open, or has failed and not ended.
    #[must_use]
    pub fn is_block(self) -> bool {
        self != Self::Idle
    }

    /// Checks that a statement may run that neither ends nor revives a block (TB1).
    ///
    /// # Errors
    /// 25P02 in a failed block.
    pub fn check_alive(self) -> Result<(), PgError> {
        match self {
            Self::Idle | Self::Open => Ok(()),
            Self::Failed => Err(PgError::new("25P02", ABORTED)),
        }
    }

    /// As [`BlockStatus::check_alive`], for a statement about the block itself.
    ///
    /// # Errors
    /// 25P02 in a failed block, unless the statement ends or revives it.
    pub fn admits(self, statement: &BlockStatement) -> Result<(), PgError> {
        match statement {
            BlockStatement::Commit { .. }
            | BlockStatement::Rollback { .. }
            | BlockStatement::RollbackTo(_) => Ok(()),
            BlockStatement::Begin { .. }
            | BlockStatement::Savepoint(_)
            | BlockStatement::Release(_) => self.check_alive(),
        }
    }

    /// Checks that a statement about the block may be carried out now.
    ///
    /// # Errors
    /// As [`BlockStatus::admits`]; 25P01 if the statement needs a block and there is none.
    pub fn check(self, statement: &BlockStatement) -> Result<(), PgError> {
        self.admits(statement)?;
        match statement.needs_block() {
            Some(name) => self.check_inside(name),
            None => Ok(()),
        }
    }

    /// Checks that a statement of this name runs inside a block.
    ///
    /// # Errors
    /// 25P01.
    pub fn check_inside(self, statement: &str) -> Result<(), PgError> {
        if self.is_block() {
            return Ok(());
        }
        let told = format!("{statement} can only be used in transaction blocks");
        Err(PgError::new("25P01", told))
    }

    /// Checks that a statement of this name runs outside of blocks.
    ///
    /// # Errors
    /// 25001.
    pub fn check_outside(self, statement: &str) -> Result<(), PgError> {
        if !self.is_block() {
            return Ok(());
        }
        let told = format!("{statement} cannot run inside a transaction block");
        Err(PgError::new("25001", told))
    }

    /// The warning of a statement that finds nothing to begin or to end.
    #[must_use]
    pub fn warning(self, statement: &BlockStatement) -> Option<Notice> {
        match statement {
            BlockStatement::Begin { .. } if self.is_block() => {
                let told = "there is already a transaction in progress";
                Some(Notice::warning("25001", told))
            }
            BlockStatement::Commit { .. } | BlockStatement::Rollback { .. } if !self.is_block() => {
                Some(Notice::warning(
                    "25P01",
                    "there is no transaction in progress",
                ))
            }
            _ => None,
        }
    }

    /// The tag of a statement that was carried out in this state.
    #[must_use]
    pub fn tag(self, statement: &BlockStatement) -> &'static str {
        match statement {
            BlockStatement::Begin { tag, .. } => tag,
            BlockStatement::Commit { .. } if self.commits() => "COMMIT",
            BlockStatement::Commit { .. }
            | BlockStatement::Rollback { .. }
            | BlockStatement::RollbackTo(_) => "ROLLBACK",
            BlockStatement::Savepoint(_) => "SAVEPOINT",
            BlockStatement::Release(_) => "RELEASE",
        }
    }

    /// Whether COMMIT keeps the changes. That of a failed block is a ROLLBACK.
    #[must_use]
    pub fn commits(self) -> bool {
        self != Self::Failed
    }

    /// The state after a failure, and what is to be done. `has_savepoint` says whether there is a
    /// savepoint to return to.
    #[must_use]
    pub fn failed(self, has_savepoint: bool) -> (Self, AfterFailure) {
        match self {
            Self::Idle => (Self::Idle, AfterFailure::RollBack),
            Self::Open | Self::Failed if has_savepoint => (Self::Failed, AfterFailure::MayRevive),
            Self::Open | Self::Failed => (Self::Failed, AfterFailure::AwaitEnd),
        }
    }
}

const ABORTED: &str =
    "current transaction is aborted, commands ignored until end of transaction block";

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [BlockStatus; 3] = [BlockStatus::Idle, BlockStatus::Open, BlockStatus::Failed];

    /// The errors of a statement in the three states; empty where it runs.
    fn errors(statement: &BlockStatement) -> [&'static str; 3] {
        ALL.map(|status| match status.check(statement) {
            Ok(()) => "",
            Err(error) => error.code(),
        })
    }

    #[test]
    fn a_statement_about_the_block_runs_where_postgresql_lets_it() {
        let name = || "a".to_owned();
        let (modes, tag) = (vec![], "BEGIN");
        for (statement, expected) in [
            (BlockStatement::Begin { modes, tag }, ["", "", "25P02"]),
            (BlockStatement::Commit { chain: false }, ["", "", ""]),
            (BlockStatement::Commit { chain: true }, ["25P01", "", ""]),
            (BlockStatement::Rollback { chain: false }, ["", "", ""]),
            (BlockStatement::Rollback { chain: true }, ["25P01", "", ""]),
            (BlockStatement::RollbackTo(name()), ["25P01", "", ""]),
            (BlockStatement::Savepoint(name()), ["25P01", "", "25P02"]),
            (BlockStatement::Release(name()), ["25P01", "", "25P02"]),
        ] {
            assert_eq!(errors(&statement), expected, "{statement:?}");
        }
    }

    #[test]
    fn a_failed_block_runs_nothing_else() {
        let alive = ALL.map(|status| status.check_alive().is_ok());
        assert_eq!(alive, [true, true, false]);
        assert_eq!(ALL.map(BlockStatus::commits), [true, true, false]);
        let outside = ALL.map(|status| status.check_outside("DISCARD ALL").is_ok());
        assert_eq!(outside, [true, false, false]);
    }

    #[test]
    fn a_statement_that_does_nothing_warns_and_the_commit_of_a_failed_block_is_a_rollback() {
        let (modes, tag) = (vec![], "START TRANSACTION");
        let begin = BlockStatement::Begin { modes, tag };
        let commit = BlockStatement::Commit { chain: false };
        let rollback = BlockStatement::Rollback { chain: false };
        for (statement, codes, tags) in [
            (&begin, ["", "25001", "25001"], [tag; 3]),
            (&commit, ["25P01", "", ""], ["COMMIT", "COMMIT", "ROLLBACK"]),
            (&rollback, ["25P01", "", ""], ["ROLLBACK"; 3]),
        ] {
            let warned = ALL.map(|status| status.warning(statement).map_or("", |told| told.code));
            assert_eq!(warned, codes, "{statement:?}");
            assert_eq!(ALL.map(|status| status.tag(statement)), tags);
        }
    }

    #[test]
    fn only_a_savepoint_revives() {
        let (idle, open, failed) = (BlockStatus::Idle, BlockStatus::Open, BlockStatus::Failed);
        assert_eq!(idle.failed(true), (idle, AfterFailure::RollBack));
        for block in [open, failed] {
            assert_eq!(block.failed(true), (failed, AfterFailure::MayRevive));
            assert_eq!(block.failed(false), (failed, AfterFailure::AwaitEnd));
        }
    }
}
