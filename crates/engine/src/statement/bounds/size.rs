//! How much may it cost to parse and plan a statement?
//!
//! *Terms* are the pieces that can make a syntax tree deeper: operators, names, keywords. A
//! literal after a comma or a bracket cannot, so a list of a million literals has few terms. The
//! number of terms bounds the depth of the syntax tree, and thereby the stack that cloning and
//! dropping it takes; the number of pieces bounds its memory.
//!
//! The parser counts its own depth in most places and stops at 50. Where it does not count (types
//! in types, INTERVAL before INTERVAL, EXPLAIN before EXPLAIN, brackets of patterns, consecutive
//! subscripts), this file refuses the text.
//!
//! If the parser fails within `CAST(…)`, it reads all of it a second time, as a call of a function
//! named CAST. It would read the innermost of 50 nested CASTs 2^50 times, so the length times the
//! number of readings is limited, too.

use std::time::Duration;

use super::limits::{
    BRACKET_BYTES, BRACKETS_MAX, LARGE_OPERATORS, LARGE_PIECES, LITERAL_BYTES, PIECE_BYTES,
    PLANNING_NS_PER_PAIR, PLANNING_NS_PER_PIECE, READINGS_MAX, REPEATS_MAX, RETRIED_MIN,
    STACK_BYTES_MIN, STACK_BYTES_PER_TERM, STATEMENT_BYTES, TERM_BYTES, TERMS_MAX, TEXT_COPIES,
};
use crate::statement::error::StatementError;
use crate::statement::scan::{Kind, Piece};

/// The size of a statement's text, as counts of its pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementSize {
    /// Bytes of text.
    bytes: usize,
    /// Pieces: the tokens, with spaces and comments.
    pieces: usize,
    /// Those pieces that may make the syntax tree deeper.
    terms: usize,
    /// Literals in lists, which are not terms. A text in braces, `'{1,2}'`, counts one more
    /// literal for each of its commas, because it may become a list.
    literals: usize,
    /// Characters of operators.
    operators: usize,
    /// Opening brackets.
    opened: usize,
    /// The deepest nesting of brackets, with CASEs and the `<` of types.
    brackets: usize,
    /// The deepest nesting of brackets whose contents the parser may read twice.
    retried: usize,
    /// The longest run of symbols and subscripts, or of repeats of one word.
    repeats: usize,
}

impl StatementSize {
    /// A bound on the memory that the text's tokens, syntax tree and plan take together.
    #[must_use]
    pub fn memory_bytes(self) -> usize {
        STATEMENT_BYTES
            .saturating_add(self.bytes * TEXT_COPIES)
            .saturating_add(self.pieces * PIECE_BYTES)
            .saturating_add(self.terms * TERM_BYTES)
            .saturating_add(self.literals * LITERAL_BYTES)
            .saturating_add(self.opened * BRACKET_BYTES)
    }

    /// Whether the statement takes long to parse and plan, so that it should not hold up others.
    #[must_use]
    pub fn is_large(self) -> bool {
        self.pieces.max(self.literals) > LARGE_PIECES
    }

    /// Whether the statement takes long to plan, so that it should not hold up others: it is large,
    /// or may chain operators.
    #[must_use]
    pub fn plans_long(self) -> bool {
        self.is_large() || self.operators > LARGE_OPERATORS
    }

    /// The estimated time to plan the statement, without waits for files.
    #[must_use]
    pub fn planning_time(self) -> Duration {
        let (pieces, operators) = (self.pieces as u64, self.operators as u64);
        let pieces = pieces.saturating_mul(PLANNING_NS_PER_PIECE);
        let pairs = operators.saturating_mul(operators);
        Duration::from_nanos(pieces.saturating_add(pairs.saturating_mul(PLANNING_NS_PER_PAIR)))
    }

    /// The stack on which the syntax tree of any statement of this size can be made, cloned and
    /// dropped.
    pub(in crate::statement) fn stack_bytes(self) -> usize {
        STACK_BYTES_MIN + self.terms * STACK_BYTES_PER_TERM
    }

    /// Refuses a statement that is too large or too deep to parse.
    ///
    /// # Errors
    /// [`StatementError::TooLong`] if the tree might not fit on any stack;
    /// [`StatementError::TooDeep`] for too many nested brackets, repeats or readings.
    pub(in crate::statement) fn check(self) -> Result<(), StatementError> {
        let (terms, max) = (self.terms, TERMS_MAX);
        if terms > max {
            return Err(StatementError::TooLong { terms, max });
        }
        for (what, depth, max) in [
            ("brackets, CASEs or types", self.brackets, BRACKETS_MAX),
            ("words, signs or subscripts", self.repeats, REPEATS_MAX),
        ] {
            if depth > max {
                return Err(StatementError::TooDeep { what, max });
            }
        }
        let readings = 1_usize << self.retried;
        if self.retried > RETRIED_MIN && self.pieces.saturating_mul(readings) > READINGS_MAX {
            let (what, max) = ("CAST, CASE, NOT and functions like EXTRACT", RETRIED_MIN);
            return Err(StatementError::TooDeep { what, max });
        }
        Ok(())
    }
}

/// Counts the pieces of a statement.
#[derive(Default)]
pub(in crate::statement) struct Sizing<'a> {
    size: StatementSize,
    before: Before,
    /// For each open bracket: whether the parser reads it twice if there is an error in it.
    open: Vec<bool>,
    retried: usize,
    /// The number of open CASEs.
    cases: usize,
    /// The last piece that is not a space.
    last: &'a str,
    /// The number of open types, as in `ARRAY<ARRAY<`.
    types: usize,
    /// The last word, and its number of consecutive repeats.
    word: (&'a str, usize),
    /// Symbols and subscripts since the last word, comma or value.
    symbols: usize,
    explains: usize,
}

/// What precedes a piece, as far as its cost depends on it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    /// A comma or an opening bracket.
    Separator,
    /// A sign after a comma or an opening bracket.
    Sign,
    #[default]
    Other,
}

impl<'a> Sizing<'a> {
    pub(in crate::statement) fn add(&mut self, piece: Piece, text: &'a str) {
        let body = &text[piece.start..piece.end];
        self.nest(piece.kind, body);
        let before = self.before;
        self.size.pieces += 1;
        let (terms, before) = match piece.kind {
            Kind::Space => (0, before),
            // The generic dialect parses the contents of such a comment.
            Kind::Comment if body.starts_with("/*!") => {
                self.size.pieces += body.len();
                (body.len(), Before::Other)
            }
            Kind::Comment => (0, before),
            Kind::Comma => (0, Before::Separator),
            // `a[1][1]` is deeper than `a`; round brackets have their own limit.
            Kind::Open => (usize::from(body != "("), Before::Separator),
            Kind::Semicolon | Kind::Close => (0, Before::Other),
            Kind::Literal => (usize::from(before == Before::Other), Before::Other),
            Kind::Word if before == Before::Separator && is_constant(body) => (0, Before::Other),
            Kind::Symbol if before == Before::Separator && matches!(body, "-" | "+") => {
                (0, Before::Sign)
            }
            // A sign that does not belong to a literal is an operator.
            Kind::Word | Kind::Symbol => (1 + usize::from(before == Before::Sign), Before::Other),
        };
        self.size.opened += usize::from(piece.kind == Kind::Open);
        self.size.operators += usize::from(piece.kind == Kind::Symbol);
        let is_value = matches!(piece.kind, Kind::Literal | Kind::Word) && terms == 0;
        self.size.literals += usize::from(is_value);
        if piece.kind == Kind::Literal && body.starts_with("'{") {
            self.size.literals += body.bytes().filter(|byte| *byte == b',').count();
        }
        self.size.terms += terms;
        self.before = before;
    }

    /// Counts nesting where the parser may call itself without counting.
    fn nest(&mut self, kind: Kind, body: &'a str) {
        match kind {
            Kind::Space | Kind::Comment => return,
            Kind::Open if self.open.len() <= BRACKETS_MAX => {
                let retried = body == "(" && is_one_of(self.word.0, READ_TWICE);
                self.retried += usize::from(retried);
                self.open.push(retried);
            }
            Kind::Close => self.retried -= usize::from(self.open.pop() == Some(true)),
            Kind::Symbol if body == "<" && is_one_of(self.word.0, TYPES_OF_TYPES) => {
                self.types += 1;
            }
            Kind::Symbol if body == ">" => self.types = self.types.saturating_sub(1),
            _ => {}
        }
        let in_subscript = kind == Kind::Literal && self.last == "[";
        // That `<` was a comparison and did not open a type.
        self.types -= usize::from(kind == Kind::Literal && self.last == "<" && self.types > 0);
        self.last = body;
        match kind {
            Kind::Symbol | Kind::Open | Kind::Close => {
                self.symbols += usize::from(!"()".contains(body));
            }
            _ if in_subscript => {}
            _ => self.symbols = 0,
        }
        self.word = match kind {
            Kind::Word if body.eq_ignore_ascii_case(self.word.0) => (body, self.word.1 + 1),
            Kind::Word => (body, 1),
            _ => ("", 0),
        };
        match kind {
            Kind::Word if body.eq_ignore_ascii_case("case") => self.cases += 1,
            Kind::Word if body.eq_ignore_ascii_case("end") => {
                self.cases = self.cases.saturating_sub(1);
            }
            _ => {}
        }
        self.explains += usize::from(kind == Kind::Word && body.eq_ignore_ascii_case("explain"));
        let size = &mut self.size;
        size.brackets = size.brackets.max(self.open.len() + self.types + self.cases);
        size.retried = size.retried.max(self.retried);
        let repeats = self.word.1.max(self.symbols).max(self.explains);
        size.repeats = size.repeats.max(repeats);
    }

    pub(in crate::statement) fn finish(self, text: &str) -> StatementSize {
        StatementSize {
            bytes: text.len(),
            ..self.size
        }
    }
}

fn is_constant(word: &str) -> bool {
    is_one_of(word, &["null", "true", "false"])
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|one| word.eq_ignore_ascii_case(one))
}

/// Words after which `<` opens a type.
const TYPES_OF_TYPES: &[&str] = &["array", "struct", "map", "table", "union", "list", "nested"];

/// Words that have their own grammar before a bracket, but that the parser may also read as names
/// of functions.
const READ_TWICE: &[&str] = &[
    "array",
    "box",
    "case",
    "cast",
    "ceil",
    "circle",
    "convert",
    "exists",
    "extract",
    "floor",
    "in",
    "interval",
    "lambda",
    "line",
    "lseg",
    "map",
    "match",
    "not",
    "overlay",
    "path",
    "point",
    "polygon",
    "position",
    "prior",
    "safe_cast",
    "struct",
    "substr",
    "substring",
    "trim",
    "try_cast",
    "try_convert",
];
