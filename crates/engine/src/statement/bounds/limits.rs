//! How large may one statement be? Each constant says what it protects.
//!
//! The depths follow from the stack of the thread that runs a plan: an embedder's thread has 2
//! MiB, and each level takes an operator or expression up to 1 KiB. `tests/engine/statements.rs`
//! checks this: it runs the largest allowed statements on such a thread.

/// Terms of a statement. A chain of 100,000 terms is read; then it is balanced, or another limit
/// refuses it.
pub(super) const TERMS_MAX: usize = 600_000;

/// Brackets nested in brackets. The parser counts most of them itself and stops at 50.
pub(super) const BRACKETS_MAX: usize = 100;

/// Repeats of one word in a row, or signs and subscripts in a row.
pub(super) const REPEATS_MAX: usize = 100;

/// Expressions nested in expressions, on one path from the root of a plan to a leaf.
pub(super) const EXPRESSIONS_MAX: usize = 1_000;

/// Tables that one SELECT joins; each join puts an operator above the previous one.
pub(super) const JOINS_MAX: usize = 200;

/// Set operations nested in set operations, after chains of UNION are balanced.
pub(super) const SETS_MAX: usize = 200;

/// Chains of AND, OR or UNION up to this length stay as they are written.
pub(super) const CHAIN_KEPT: usize = 256;

/// Common table expressions and subqueries nested in each other, each written out where it is
/// named. The parser stops at 50 levels of those in brackets.
pub(super) const TABLES_MAX: usize = 200;

/// Operands of one chain of AND, OR or UNION; a list counts as one. Planning 20,000 takes seconds,
/// and the time grows faster than their number.
pub(super) const OPERANDS_MAX: usize = 10_000;

/// Expressions in one list of a SELECT (its columns, GROUP BY, ORDER BY) and columns of VALUES:
/// planning takes time quadratic in their number. PostgreSQL's limit is 1,664.
pub(super) const COLUMNS_MAX: usize = 5_000;

/// Operators on one path from the root of a plan to a leaf.
pub(super) const OPERATORS_MAX: usize = 500;

/// Operators of a plan in which everything that is named more than once is written out each time:
/// otherwise 40 common table expressions that each name the previous one twice make 2^40
/// operators.
pub(super) const NODES_MAX: usize = 200_000;

/// A statement of more pieces takes milliseconds to parse, so it is planned where it holds up no
/// other work.
pub(super) const LARGE_PIECES: usize = 4_000;

/// A statement of more operators may take a tenth of a second to plan: DataFusion asks each node of
/// a chain for its type and name, and each node asks all nodes below it, so `1+1+…` takes 1.4 s
/// with 1,000 terms, 0.3 s with 400 and 0.09 s with 200.
pub(super) const LARGE_OPERATORS: usize = 200;

/// The nanoseconds that planning takes for each piece, and for each pair of operators: 200
/// operators take 80 ms.
pub(super) const PLANNING_NS_PER_PIECE: u64 = 2_000;
pub(super) const PLANNING_NS_PER_PAIR: u64 = 2_000;

/// The stack that parsing 50 levels of brackets takes, or planning a statement of usual size.
pub(in crate::statement) const STACK_BYTES_MIN: usize = 16 << 20;

/// A thread with this much stack reads and plans statements of usual size on its own stack. On
/// other threads each step maps a stack and unmaps it, which interrupts all cores.
pub const THREAD_STACK_BYTES: usize = STACK_BYTES_MIN + (2 << 20);

/// The stack that one level of a left-deep chain takes to be visited, cloned, compared or dropped.
pub(super) const STACK_BYTES_PER_TERM: usize = 1_024;

/// The number of copies of a text in memory: the text itself, and its parts in names and literals.
pub(super) const TEXT_COPIES: usize = 3;

/// The bytes of a token in the two lists of tokens that exist at a time.
pub(super) const PIECE_BYTES: usize = 256;

/// The bytes of a term's nodes in the syntax tree, in the logical plan, and in the plan that an
/// optimizer rule makes of it.
pub(super) const TERM_BYTES: usize = 1_024;

/// The bytes of a literal in a list, beyond its two pieces: its nodes in the syntax tree, the
/// logical plan and the physical plan with its field, and the set and the pruning predicate made
/// of it. Measured as the growth of the server's memory by a list of 100,000
/// (`lab/arena/lists.py`): 1,400 to 2,200 bytes each, two pieces included.
pub(super) const LITERAL_BYTES: usize = 1_536;

/// The bytes of a row of VALUES, or of another bracket: 3,400 bytes were measured for a row of one
/// literal.
pub(super) const BRACKET_BYTES: usize = 1_024;

/// The fewest bytes that a statement takes while it exists.
pub(super) const STATEMENT_BYTES: usize = 8 << 10;

/// Up to this depth, brackets that the parser reads twice on an error are allowed whatever their
/// length.
pub(super) const RETRIED_MIN: usize = 3;

/// Tokens that the parser may read, repeated readings included, before the statement is refused:
/// about a second of work.
pub(super) const READINGS_MAX: usize = 1 << 22;
