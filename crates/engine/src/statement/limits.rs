//! How much one statement may ask for. Each number says what it protects.
//!
//! The stack of whoever runs a plan decides the depths: an embedder's thread has 2 MiB, and an
//! operator or expression takes up to 1 KiB of it per level. Measured by
//! `tests/engine/statements.rs`, which runs what is just allowed there.

/// Terms of a statement: chains of 100,000 are read, then balanced or refused for what they are.
pub(super) const TERMS_MAX: usize = 600_000;

/// Brackets in brackets. The parser counts most of them itself and stops at 50.
pub(super) const BRACKETS_MAX: usize = 100;

/// The same word, or signs and subscripts, in a row.
pub(super) const REPEATS_MAX: usize = 100;

/// Expressions in expressions, on one way from the root of a plan to a leaf.
pub(super) const EXPRESSIONS_MAX: usize = 1_000;

/// Tables that one SELECT joins: each is an operator above the last.
pub(super) const JOINS_MAX: usize = 200;

/// Set operations in set operations, after chains of UNION were balanced.
pub(super) const SETS_MAX: usize = 200;

/// Chains of AND, OR or UNION that are not longer stay as they were written.
pub(super) const CHAIN_KEPT: usize = 256;

/// Common table expressions and subqueries in each other, written out. The parser stops at 50 of
/// those in brackets.
pub(super) const TABLES_MAX: usize = 200;

/// Operands of one such chain, lists taken as one: a plan of 20,000 takes seconds, and more than in
/// proportion.
pub(super) const OPERANDS_MAX: usize = 10_000;

/// Expressions in one list of a SELECT (its columns, GROUP BY, ORDER BY) and columns of VALUES:
/// planning takes time quadratic in them. PostgreSQL's limit is 1,664.
pub(super) const COLUMNS_MAX: usize = 5_000;

/// Operators on one way from the root of a plan to a leaf.
pub(super) const OPERATORS_MAX: usize = 500;

/// Operators of a plan with everything written out that is named twice. 40 common table expressions
/// that each name the one before twice would otherwise be 2^40 of them.
pub(super) const NODES_MAX: usize = 200_000;

/// Above so many pieces a statement takes milliseconds to parse, and plans where it holds up
/// nobody.
pub(super) const LARGE_PIECES: usize = 4_000;

/// Above so many operators a statement may take a tenth of a second to plan: DataFusion asks each
/// node of a chain for its type and name, and each asks all below, so `1+1+…` takes 1.4 s with
/// 1,000 terms, 0.3 s with 400 and 0.09 s with 200.
pub(super) const LARGE_OPERATORS: usize = 200;

/// What parsing 50 levels of brackets takes, and planning a statement of usual size.
pub(super) const STACK_BYTES_MIN: usize = 16 << 20;

/// What one level of a left-deep chain takes to be visited, cloned, compared or dropped.
pub(super) const STACK_BYTES_PER_TERM: usize = 1_024;

/// A text itself, and its copies in names and literals.
pub(super) const TEXT_COPIES: usize = 3;

/// A token, in the two lists that there are at a time.
pub(super) const PIECE_BYTES: usize = 256;

/// A term's nodes in the syntax tree, the logical plan, and the one that an optimizer rule makes of
/// it.
pub(super) const TERM_BYTES: usize = 1_024;

/// A literal of a list, beyond its two pieces: its nodes in the syntax tree, the logical plan, the
/// physical one with its field, and the set and the pruning made of it. Measured as the growth of
/// the server's memory by a list of 100,000 (`lab/arena/lists.py`): 1,400 to 2,200 bytes each, two
/// pieces included.
pub(super) const LITERAL_BYTES: usize = 1_536;

/// A row of VALUES, and what else is in brackets: 3,400 bytes were measured for a row of one
/// literal.
pub(super) const BRACKET_BYTES: usize = 1_024;

/// The least that a statement takes while it is there.
pub(super) const STATEMENT_BYTES: usize = 8 << 10;

/// So many brackets that are read twice where there is an error in them may stand in each other,
/// whatever their length.
pub(super) const RETRIED_MIN: usize = 3;

/// Tokens that the parser may read, again and again, before it gives up: about a second.
pub(super) const READINGS_MAX: usize = 1 << 22;
