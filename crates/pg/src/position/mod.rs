//! To which character of the client's text does an error point?
//!
//! Idea: the message of an error names what it is about: a token, a column, a relation, a function,
//! an operator. The tokens of the text that can be meant are searched for it. If there is one, that
//! is the place, whatever the passes of the dialect have made of the tree; places in trees do not
//! survive them all. Of several, the one that PostgreSQL reads first is the place where its order
//! is known: in one query without windows. Otherwise the error has no place, because a wrong one is
//! worse than none.
//!
//! | file | question |
//! |---|---|
//! | `sought.rs` | what does a message name? |
//! | `tokens.rs` | the tokens of a text, with their clauses |
//! | `uses.rs` | which tokens may be meant? |
//!
//! Not here: the messages (`../error/`, sqlparser's), statements that PostgreSQL reports without a
//! place although a token is meant (TRUNCATE, LOCK, DROP, …): none of their tokens may be meant.
//! Bounds: texts of at most [`POSITION_BYTES_MAX`].

mod sought;
mod tokens;
mod uses;

use std::ops::Range;

use sought::Sought;
use tokens::Tokens;

/// Errors in longer texts have no position: people do not write such texts.
pub const POSITION_BYTES_MAX: usize = 16 << 10;

/// The character of a client's text, from 1, to which an error with this SQLSTATE and message of
/// the `statement` in it points, where that is certain. PostgreSQL's is the same.
#[must_use]
pub fn position(text: &str, statement: Range<usize>, code: &str, message: &str) -> Option<usize> {
    if text.len() > POSITION_BYTES_MAX {
        return None;
    }
    let sought = Sought::of(code, message)?;
    let before = text.get(..statement.start)?.chars().count();
    let end = statement.end;
    let sql = text.get(statement)?;
    let at = match sought {
        // These are found before the text is cut into statements.
        Sought::Unended { line, column } => return unended(text, line, column),
        Sought::End => return Some(ending(text, end)?.chars().count() + 1),
        Sought::Token {
            line,
            column,
            token,
        } => {
            let at = character(sql, line, column)?;
            from(sql, at)?.starts_with(token).then_some(at)?
        }
        sought => Tokens::of(sql)?.place(&sought)?,
    };
    Some(before + at)
}

/// The place of a quote or a comment without an end.
fn unended(text: &str, line: usize, column: usize) -> Option<usize> {
    let at = character(text, line, column)?;
    let begins = ["'", "\"", "/*", "$"];
    let rest = from(text, at)?;
    // The letter of `E'…'` belongs to the quote, but may not be counted.
    let letter = at.checked_sub(1).and_then(|before| from(text, before));
    let has_letter = letter.is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    (!has_letter && begins.iter().any(|begin| rest.starts_with(begin))).then_some(at)
}

/// The text up to what ends a statement whose last byte is before `end`: a semicolon, or the text's
/// end; `None` if a comment comes first.
fn ending(text: &str, end: usize) -> Option<&str> {
    let rest = text.get(end..)?;
    let trimmed = rest.trim_start();
    let is_end = trimmed.is_empty() || trimmed.starts_with(';');
    let up_to = text.len() - trimmed.len();
    is_end.then(|| text.get(..up_to)).flatten()
}

/// The number of a line's character in the text.
fn character(text: &str, line: usize, column: usize) -> Option<usize> {
    let before = text.split_inclusive('\n').take(line.checked_sub(1)?);
    let before: usize = before.map(|line| line.chars().count()).sum();
    Some(before + column)
}

/// The text from its character of this number on.
fn from(text: &str, number: usize) -> Option<&str> {
    let (start, _) = text.char_indices().nth(number.checked_sub(1)?)?;
    text.get(start..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(sql: &str, code: &str, message: &str) -> Option<usize> {
        position(sql, 0..sql.len(), code, message)
    }

    /// The places that PostgreSQL 15 reports; `None` where it reports none, or where it is not
    /// certain which of several it reports.
    #[test]
    fn columns() {
        let message = "column \"nope\" does not exist";
        for (sql, expected) in [
            ("SELECT nope FROM t", Some(8)),
            ("SELECT 'ü', nope FROM t", Some(13)),
            ("SELECT\n  id,\n  nope\nFROM t", Some(16)),
            ("SELECT Nope FROM t", Some(8)),
            ("SELECT 'nope', nope /* nope */ FROM t -- nope", Some(16)),
            ("SELECT nope FROM t WHERE nope = 1", Some(8)),
            ("SELECT id FROM t GROUP BY nope ORDER BY nope", Some(41)),
            ("SELECT id AS nope FROM t WHERE nope = 1", Some(32)),
            ("SELECT id nope FROM t WHERE nope = 1", Some(29)),
            ("SELECT a nope FROM t WHERE nope = 1", Some(28)),
            (
                "SELECT id FROM t WHERE id IN (SELECT nope FROM u)",
                Some(38),
            ),
            ("SELECT nope FROM t JOIN u ON nope = 1", Some(30)),
            ("SELECT nope, nope.x FROM nope", Some(8)),
            ("INSERT INTO t (id, nope) SELECT 1, 2", Some(20)),
            ("UPDATE t SET nope = 1", Some(14)),
            ("UPDATE t SET a = nope", Some(18)),
            ("DELETE FROM t WHERE nope = 1", Some(21)),
            ("PREPARE p AS SELECT nope FROM t", Some(21)),
            ("SELECT sum(nope) OVER (PARTITION BY id) FROM t", Some(12)),
            ("SELECT extract(year FROM nope) FROM t", Some(26)),
            ("SELECT 1 IS DISTINCT FROM nope", Some(27)),
            ("SELECT nope::int, 1::nope FROM t", Some(8)),
            ("VALUES (nope)", Some(9)),
            (
                "SELECT nope FROM t x(nope) JOIN u ON (nope = 1) WHERE a IN (nope)",
                Some(39),
            ),
            (
                "SELECT 1 FROM t JOIN u ON 1 IN (ARRAY[1, nope]) WHERE nope = 1",
                Some(42),
            ),
            // Which of them?
            ("SELECT position(nope IN nope) FROM t", None),
            ("SELECT DISTINCT ON (nope) 1 FROM t ORDER BY nope", None),
            ("UPDATE t SET a = nope FROM u WHERE nope = 1", None),
            (
                "DELETE FROM t USING (SELECT nope FROM u) s WHERE nope = 1",
                None,
            ),
            ("SELECT nope, (SELECT nope FROM u) FROM t", None),
            ("SELECT nope, sum(a) OVER (ORDER BY nope) FROM t", None),
            ("SELECT trim(BOTH nope FROM nope) FROM t", None),
            ("SELECT DISTINCT ON (id) nope FROM t ORDER BY nope", None),
            ("SELECT (t).nope FROM t", None),
            ("SELECT * FROM t JOIN u USING (nope)", None),
            ("SELECT nope FROM t UNION VALUES (nope)", None),
            ("SELECT 1 FROM t WHERE nope IN (VALUES (nope))", None),
            ("SELECT a AS nope FROM t ORDER BY nope, nope || 'x'", None),
            (
                "SELECT a AS nope FROM t GROUP BY nope + 1 ORDER BY nope",
                None,
            ),
            (
                "SELECT 1 FROM v JOIN u ON nope = 1, t JOIN w ON nope = 2",
                None,
            ),
            // PostgreSQL reports none.
            ("COPY t (nope) TO STDOUT", None),
            ("CREATE INDEX i ON t (nope)", None),
            ("CREATE UNIQUE INDEX i ON t (id, nope)", None),
            ("ALTER TABLE t RENAME COLUMN nope TO x", None),
            ("ALTER TABLE t RENAME nope TO x", None),
            ("SELECT \"Nope\", t.nope, nope(1) FROM t", None),
        ] {
            assert_eq!(whole(sql, "42703", message), expected, "{sql}");
        }
    }

    #[test]
    fn qualified_and_ambiguous_columns() {
        for (sql, code, message, expected) in [
            (
                "SELECT id, t.nope FROM t",
                "42703",
                "column t.nope does not exist",
                Some(12),
            ),
            (
                "SELECT a.t.nope FROM t",
                "42703",
                "column t.nope does not exist",
                None,
            ),
            (
                "SELECT t.* , nope.* FROM t",
                "42P01",
                "missing FROM-clause entry for table \"nope\"",
                Some(14),
            ),
            (
                "SELECT t.id FROM t.x",
                "42P01",
                "missing FROM-clause entry for table \"t\"",
                Some(8),
            ),
            (
                "SELECT t.id FROM u JOIN v ON a IS DISTINCT FROM t.id",
                "42P01",
                "missing FROM-clause entry for table \"t\"",
                Some(49),
            ),
            (
                "SELECT id, a FROM t JOIN u ON t.id = u.id WHERE id = 1",
                "42702",
                "column reference \"id\" is ambiguous",
                Some(8),
            ),
            // Which of them is ambiguous?
            (
                "SELECT 1 FROM t JOIN w ON id = 1, u WHERE id = 1",
                "42702",
                "column reference \"id\" is ambiguous",
                None,
            ),
            (
                "SELECT t.id FROM t JOIN u ON t.id = u.id GROUP BY id ORDER BY id",
                "42702",
                "column reference \"id\" is ambiguous",
                None,
            ),
        ] {
            assert_eq!(whole(sql, code, message), expected, "{sql}");
        }
    }

    #[test]
    fn relations() {
        let message = "relation \"nope\" does not exist";
        for (sql, expected) in [
            ("SELECT * FROM nope", Some(15)),
            ("SELECT * FROM public.nope", Some(15)),
            ("SELECT * FROM other.nope", None),
            ("SELECT nope.id, nope FROM nope", Some(27)),
            ("SELECT * FROM t JOIN nope ON true", Some(22)),
            ("SELECT * FROM t, nope", Some(18)),
            ("SELECT * FROM nope, nope n2", Some(15)),
            ("WITH w AS (SELECT * FROM nope) SELECT * FROM w", Some(26)),
            ("SELECT * FROM nope UNION SELECT * FROM nope", None),
            (
                "WITH nope AS (VALUES (1)) SELECT * FROM nope, public.nope",
                None,
            ),
            ("INSERT INTO nope (a) VALUES (1)", Some(13)),
            ("UPDATE nope SET a = 1", Some(8)),
            ("DELETE FROM nope", Some(13)),
            ("DELETE FROM t USING nope", Some(21)),
            ("UPDATE t SET a = 1 FROM u, nope", Some(28)),
            ("TABLE nope", Some(7)),
            ("TRUNCATE nope", None),
            ("TRUNCATE TABLE nope", None),
            ("LOCK TABLE nope", None),
            ("ALTER TABLE nope RENAME TO x", None),
            ("COPY nope TO STDOUT", None),
            ("CREATE INDEX i ON nope (id)", None),
        ] {
            assert_eq!(whole(sql, "42P01", message), expected, "{sql}");
        }
        let sql = "SELECT * FROM s.nope";
        let message = "relation \"s.nope\" does not exist";
        assert_eq!(whole(sql, "42P01", message), Some(15));
    }

    #[test]
    fn functions_and_operators() {
        for (sql, message, expected) in [
            ("SELECT nope(1)", "function nope does not exist", Some(8)),
            (
                "SELECT * FROM nope(1)",
                "function nope does not exist",
                Some(15),
            ),
            (
                "SELECT pg_catalog.nope(1)",
                "function nope does not exist",
                Some(8),
            ),
            ("SELECT nope(nope(1))", "function nope does not exist", None),
            (
                "SELECT upper(a), lower(id) FROM t",
                "function lower(integer) does not exist",
                Some(18),
            ),
            (
                "SELECT '+', a + 1 FROM t",
                "operator does not exist: text + integer",
                Some(15),
            ),
            (
                "SELECT - a FROM t",
                "operator does not exist: - text",
                Some(8),
            ),
            (
                "SELECT a != b FROM t",
                "operator does not exist: text <> integer",
                Some(10),
            ),
            (
                "SELECT a <> b FROM t",
                "operator does not exist: text != integer",
                Some(10),
            ),
            (
                "SELECT id FROM t JOIN u ON t.a = u.id",
                "operator does not exist: text = timestamp without time zone",
                Some(32),
            ),
            (
                "SELECT id FROM t WHERE id = 1 AND a = b",
                "operator does not exist: text = integer",
                None,
            ),
            (
                "SELECT id FROM t WHERE a IN (1, 2) AND id = 1",
                "operator does not exist: text = integer",
                None,
            ),
            (
                "SELECT (a, b) <= (1, 2) FROM t WHERE id < 1",
                "operator does not exist: text < integer",
                None,
            ),
            (
                "SELECT (a, b) < (1, 2) FROM t WHERE id <= 1",
                "operator does not exist: text < integer",
                Some(15),
            ),
            (
                "SELECT id >= 1 FROM t WHERE id BETWEEN a AND a",
                "operator does not exist: integer >= text",
                None,
            ),
        ] {
            assert_eq!(whole(sql, "42883", message), expected, "{sql}");
        }
    }

    #[test]
    fn syntax() {
        for (sql, statement, message, expected) in [
            (
                "SELEC 1",
                0..7,
                "Expected: an SQL statement, found: SELEC at Line: 1, Column: 1",
                Some(1),
            ),
            (
                "SELECT 'ü';\n SELEC 2",
                14..21,
                "Expected: an SQL statement, found: SELEC at Line: 1, Column: 1",
                Some(14),
            ),
            (
                "SELECT 1,\n 'ü', FROM",
                0..21,
                "Expected: an expression, found: FROM at Line: 2, Column: 7",
                Some(17),
            ),
            // The text at this place is another one.
            (
                "SELECT 1 FROM",
                0..13,
                "Expected: an expression, found: FROM at Line: 1, Column: 8",
                None,
            ),
            (
                "SELECT 1 +",
                0..10,
                "Expected: an expression, found: EOF",
                Some(11),
            ),
            (
                "SELECT 1 + ; SELECT 2",
                0..10,
                "Expected: an expression, found: EOF",
                Some(12),
            ),
            (
                "SELECT 'abc",
                0..11,
                "a quote that begins at line 1, column 8 does not end",
                Some(8),
            ),
            (
                "SELECT 'ü', $1",
                0..15,
                "there is no parameter $1",
                Some(13),
            ),
            (
                "SELECT 1 over",
                0..13,
                "syntax error at or near \"over\"",
                Some(10),
            ),
        ] {
            let is_parameter = message.starts_with("there is no parameter");
            let code = if is_parameter { "42P02" } else { "42601" };
            let found = position(sql, statement, code, message);
            assert_eq!(found, expected, "{sql}");
        }
    }

    #[test]
    fn other_errors_and_long_texts_have_no_place() {
        let message = "column \"nope\" does not exist";
        assert_eq!(whole("SELECT nope", "22012", message), None);
        assert_eq!(whole("SELECT nope", "42703", "nope"), None);
        let long = format!("SELECT '{}', nope", "x".repeat(POSITION_BYTES_MAX));
        assert_eq!(whole(&long, "42703", message), None);
        assert_eq!(position("ü", 1..2, "42703", message), None);
    }
}
