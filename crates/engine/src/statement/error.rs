//! Why is a statement refused for its form, before its meaning is examined?

/// A statement that cannot be cut out of its text, or that costs too much to parse or plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// A quote or a comment has no end.
    #[error("{what} that begins at line {line}, column {column} does not end")]
    Unended {
        /// The quote or comment.
        what: &'static str,
        /// The line in which it begins, from 1.
        line: usize,
        /// The character of that line at which it begins, from 1.
        column: usize,
    },
    /// Comments are nested too deep.
    #[error("comments are nested more than {max} deep")]
    CommentsNested {
        /// The deepest allowed nesting.
        max: usize,
    },
    /// The statement has too many operators, names and keywords.
    #[error(
        "the statement is too long: it has {terms} operators, names and keywords, and may have {max}; \
         split it, or put the values into a table or a list of literals"
    )]
    TooLong {
        /// The number of them.
        terms: usize,
        /// The largest allowed number.
        max: usize,
    },
    /// An expression of the statement, or its chain of joins and set operations, is too deep.
    #[error(
        "the statement is too complex: {what} are chained or nested more than {max} deep; \
         split it, or use AND, OR, IN or UNION ALL, whose chains may be long"
    )]
    TooDeep {
        /// What is nested or chained.
        what: &'static str,
        /// The largest allowed depth.
        max: usize,
    },
    /// A list that becomes the columns of an operator is too wide.
    #[error("the statement is too wide: {what} has {columns} expressions, and may have {max}")]
    TooWide {
        /// The list.
        what: &'static str,
        /// The number of its expressions.
        columns: usize,
        /// How many it may have.
        max: usize,
    },
    /// The plan has too many nodes, with views and common table expressions written out.
    #[error(
        "the statement is too complex: views and common table expressions written out, \
         its plan has more than {max} nodes"
    )]
    TooManyNodes {
        /// The largest allowed number.
        max: usize,
    },
}

impl From<StatementError> for datafusion::error::DataFusionError {
    fn from(error: StatementError) -> Self {
        Self::External(Box::new(error))
    }
}
