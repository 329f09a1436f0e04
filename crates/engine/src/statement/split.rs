//! Where does one statement end and the next begin?
//!
//! The text is cut at semicolons, except those in a string, a comment or a quoted name. The
//! statements are parts of the original text, so the position of an error points into what the
//! user wrote.
//! Bounds: nothing between statements is kept, so 64 MiB of semicolons cost 64 MiB.

use super::bounds::{Sizing, StatementSize};
use super::error::StatementError;
use super::scan::{Kind, Scan};

/// One statement of a text, without its semicolon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementText<'a> {
    /// The statement.
    pub text: &'a str,
    /// The byte of the whole text at which it begins.
    pub start: usize,
    /// Its size, which bounds its cost.
    pub size: StatementSize,
}

impl<'a> StatementText<'a> {
    /// A text that the caller knows to be one statement.
    ///
    /// # Errors
    /// If a string, a comment or a quoted name does not end.
    pub fn whole(text: &'a str) -> Result<Self, StatementError> {
        let mut scan = Scan::new(text);
        let mut sizing = Sizing::default();
        while let Some(piece) = scan.next()? {
            sizing.add(piece, text);
        }
        let size = sizing.finish(text);
        Ok(Self {
            text,
            start: 0,
            size,
        })
    }
}

/// The statements of a text, one by one, without empty ones. After an error there are no more.
pub struct StatementTexts<'a> {
    text: &'a str,
    scan: Scan<'a>,
    ended: bool,
}

/// Cuts a text into statements.
#[must_use]
pub fn statement_texts(text: &str) -> StatementTexts<'_> {
    StatementTexts {
        text,
        scan: Scan::new(text),
        ended: false,
    }
}

impl<'a> StatementTexts<'a> {
    fn cut(&mut self) -> Result<Option<StatementText<'a>>, StatementError> {
        let mut sizing = Sizing::default();
        let mut start = None;
        let mut empty = true;
        while let Some(piece) = self.scan.next()? {
            if piece.kind == Kind::Semicolon {
                if !empty {
                    return Ok(Some(self.statement(start, piece.start, sizing)));
                }
                (start, sizing) = (None, Sizing::default());
                continue;
            }
            // A comment before a statement stays with it, because it may hold hints for the
            // parser.
            start.get_or_insert(piece.start);
            empty = empty && matches!(piece.kind, Kind::Space | Kind::Comment);
            sizing.add(piece, self.text);
        }
        let end = self.text.len();
        Ok((!empty).then(|| self.statement(start, end, sizing)))
    }

    fn statement(&self, start: Option<usize>, end: usize, sizing: Sizing<'_>) -> StatementText<'a> {
        let start = start.unwrap_or(end);
        let text = self.text[start..end].trim_start();
        let start = end - text.len();
        let text = text.trim_end();
        StatementText {
            text,
            start,
            size: sizing.finish(text),
        }
    }
}

impl<'a> Iterator for StatementTexts<'a> {
    type Item = Result<StatementText<'a>, StatementError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let cut = self.cut();
        self.ended = !matches!(cut, Ok(Some(_)));
        cut.transpose()
    }
}

/// The first two words of a text; empty where a piece of another kind comes first.
pub(crate) fn first_words(text: &str) -> [&str; 2] {
    let mut scan = Scan::new(text);
    let mut word = || {
        while let Ok(Some(piece)) = scan.next() {
            match piece.kind {
                Kind::Space | Kind::Comment => {}
                Kind::Word => return &text[piece.start..piece.end],
                _ => break,
            }
        }
        ""
    };
    [word(), word()]
}

/// The statements of `text`, without semicolons and without empty ones.
///
/// # Errors
/// If a string, a comment or a quoted name does not end.
pub fn split_statements(text: &str) -> Result<Vec<&str>, StatementError> {
    statement_texts(text)
        .map(|statement| Ok(statement?.text))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    #[test]
    fn only_semicolons_between_statements_count() {
        let text = "SELECT ';' AS \"a;b\"; -- no; comment\nSELECT 2 /* ; */ ;;\n ;SELECT 'ä;ö', 3";
        let statements = split_statements(text).unwrap();
        assert_eq!(
            statements,
            [
                "SELECT ';' AS \"a;b\"",
                "-- no; comment\nSELECT 2 /* ; */",
                "SELECT 'ä;ö', 3"
            ]
        );
        assert!(split_statements(" ; -- nothing\n ;").unwrap().is_empty());
        assert_eq!(
            split_statements("SELECT 'ü' ;SELECT 1").unwrap(),
            ["SELECT 'ü'", "SELECT 1"]
        );
    }

    #[test]
    fn a_statement_knows_where_it_begins() {
        let text = " SELECT 'ü';; \n SELECT 2 ; /* */ SELECT 3";
        let mut count = 0;
        for statement in statement_texts(text) {
            let statement = statement.unwrap();
            let end = statement.start + statement.text.len();
            assert_eq!(&text[statement.start..end], statement.text);
            count += 1;
        }
        assert_eq!(count, 3);
    }

    #[test]
    fn an_open_string_is_an_error() {
        assert!(split_statements("SELECT 'oops").is_err());
    }
}
