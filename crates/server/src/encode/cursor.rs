//! Which rows of a cursor do FETCH and MOVE ask for?
//!
//! A cursor runs forward over the stream of its query's rows. A cursor declared with SCROLL keeps
//! all its rows in memory, charged to the connection's ledger, so that any of them can be fetched
//! at any time.
//! Not here: how rows are sent (`rows.rs`), the cursor's life (`../statements/portal.rs`).

use std::ops::Range;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::failure::Failure;
use crate::net::Held;

/// How a cursor is declared.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Declared {
    /// WITH HOLD: whether it survives the commit of its transaction.
    pub(crate) hold: bool,
    pub(crate) scroll: bool,
    /// Whether a simple query fetches its values in binary.
    pub(crate) binary: bool,
}

/// Which rows, counted from the cursor's current row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    /// This many of the next rows; if negative, of the previous rows.
    By(i64),
    /// All later rows.
    AllAfter,
    /// All earlier rows, the nearest first.
    AllBefore,
    /// One row by its number from the first; if negative, from the last.
    At(i64),
    /// One row by its distance from the current one.
    Away(i64),
}

/// The request of a FETCH or MOVE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) cursor: String,
    pub(crate) steps: Steps,
    /// MOVE: no rows are returned.
    pub(crate) only_moves: bool,
}

impl Walk {
    /// A part of the walk that passes at most `max` rows, and the rest, if that may pass more.
    pub(crate) fn split(&self, max: usize) -> (Self, Option<Self>) {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let (now, rest) = match self.steps {
            Steps::By(count) if count > max => (Steps::By(max), Some(Steps::By(count - max))),
            Steps::By(count) if count < -max => (Steps::By(-max), Some(Steps::By(count + max))),
            Steps::AllAfter => (Steps::By(max), Some(Steps::AllAfter)),
            Steps::AllBefore => (Steps::By(-max), Some(Steps::AllBefore)),
            steps => (steps, None),
        };
        let with = |steps| Self {
            steps,
            ..self.clone()
        };
        (with(now), rest.map(with))
    }
}

/// Parses FETCH or MOVE; `None` if the text is another statement.
pub(crate) fn read(sql: &str) -> Option<Result<Walk, Failure>> {
    let begins = |word: &str| {
        let head = sql.trim_start().get(..word.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    if !begins("fetch") && !begins("move") {
        return None;
    }
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize().ok()?;
    let tokens = tokens
        .into_iter()
        .filter(|token| !matches!(token, Token::Whitespace(_) | Token::SemiColon));
    let mut words = Words(tokens.collect::<Vec<_>>().into_iter().peekable());
    let only_moves = match words.keyword()?.as_str() {
        "fetch" => false,
        "move" => true,
        _ => return None,
    };
    let walk = words.walk(only_moves);
    Some(walk.ok_or_else(|| Failure::syntax("syntax error in FETCH or MOVE")))
}

struct Words(std::iter::Peekable<std::vec::IntoIter<Token>>);

impl Words {
    fn walk(&mut self, only_moves: bool) -> Option<Walk> {
        let steps = self.steps();
        for word in ["from", "in"] {
            if self.take(word) {
                break;
            }
        }
        let cursor = match self.0.next()? {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
            Token::Word(word) => word.value,
            _ => return None,
        };
        self.0.next().is_none().then_some(Walk {
            cursor,
            steps,
            only_moves,
        })
    }

    fn steps(&mut self) -> Steps {
        if let Some(count) = self.number() {
            return Steps::By(count);
        }
        // The word may be the cursor's name: then at most a semicolon follows.
        let mut ahead = self.0.clone();
        ahead.next();
        if ahead.next().is_none() {
            return Steps::By(1);
        }
        let Some(word) = self.peeked() else {
            return Steps::By(1);
        };
        let steps = match word.as_str() {
            "next" => Steps::By(1),
            "prior" => Steps::By(-1),
            "first" => Steps::At(1),
            "last" => Steps::At(-1),
            "all" => Steps::AllAfter,
            "absolute" | "relative" | "forward" | "backward" => {
                self.0.next();
                let all = self.take("all");
                let count = self.number();
                return match (word.as_str(), all, count) {
                    ("absolute", _, count) => Steps::At(count.unwrap_or(1)),
                    ("relative", _, count) => Steps::Away(count.unwrap_or(1)),
                    ("forward", true, _) => Steps::AllAfter,
                    ("backward", true, _) => Steps::AllBefore,
                    ("backward", _, count) => Steps::By(count.unwrap_or(1).saturating_neg()),
                    (_, _, count) => Steps::By(count.unwrap_or(1)),
                };
            }
            _ => return Steps::By(1),
        };
        self.0.next();
        steps
    }

    fn peeked(&mut self) -> Option<String> {
        match self.0.peek()? {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
            _ => None,
        }
    }

    fn keyword(&mut self) -> Option<String> {
        let word = self.peeked()?;
        self.0.next();
        Some(word)
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peeked().is_some_and(|next| next == word);
        if is_next {
            self.0.next();
        }
        is_next
    }

    fn number(&mut self) -> Option<i64> {
        let mut ahead = self.0.clone();
        let mut next = ahead.next()?;
        let sign = match next {
            Token::Minus => -1,
            _ => 1,
        };
        if matches!(next, Token::Minus | Token::Plus) {
            next = ahead.next()?;
        }
        let Token::Number(digits, _) = next else {
            return None;
        };
        self.0 = ahead;
        digits.parse::<i64>().ok().map(|number| sign * number)
    }
}

/// The rows of a SCROLL cursor, and its position.
pub(crate) struct Scroll {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: i64,
    /// The number of the current row, from 1. 0 is before the first row; one more than the number
    /// of rows is after the last.
    at: i64,
    _held: Vec<Held>,
}

impl Scroll {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>, held: Vec<Held>) -> Self {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        Self {
            schema,
            batches,
            rows: i64::try_from(rows).unwrap_or(i64::MAX - 1),
            at: 0,
            _held: held,
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Moves to another row. Returns the rows on the way, in the order they are passed.
    pub(crate) fn walk(&mut self, steps: Steps) -> Vec<RecordBatch> {
        let (rows, backward, at) = way(self.at, self.rows, steps);
        self.at = at;
        if backward {
            rows.rev().filter_map(|row| self.row(row)).collect()
        } else {
            self.slices(rows)
        }
    }

    fn row(&self, number: i64) -> Option<RecordBatch> {
        self.slices(number..number + 1).pop()
    }

    fn slices(&self, rows: Range<i64>) -> Vec<RecordBatch> {
        let to_index = |number: i64| usize::try_from(number - 1).unwrap_or(0);
        let (from, to) = (to_index(rows.start), to_index(rows.end));
        let mut found = vec![];
        let mut first = 0;
        for batch in &self.batches {
            let last = first + batch.num_rows();
            let (start, end) = (from.max(first), to.min(last));
            if start < end {
                found.push(batch.slice(start - first, end - start));
            }
            first = last;
        }
        found
    }
}

/// The walk from `at` by `steps` among `rows` rows: the rows on the way, whether they come in
/// reverse, and the final position.
fn way(at: i64, rows: i64, steps: Steps) -> (Range<i64>, bool, i64) {
    let after = rows + 1;
    let one = |target: i64| {
        let target = target.clamp(0, after);
        let is_row = (1..after).contains(&target);
        (target..target + i64::from(is_row), false, target)
    };
    match steps {
        Steps::At(number) if number < 0 => one(after.saturating_add(number)),
        Steps::At(number) => one(number),
        Steps::Away(distance) => one(at.saturating_add(distance)),
        Steps::By(0) => one(at),
        Steps::AllAfter => ((at + 1).min(after)..after, false, after),
        Steps::AllBefore => (1..at.max(1), true, 0),
        Steps::By(count) if count > 0 => {
            let last = at.saturating_add(count).min(after);
            ((at + 1).min(after)..(last + 1).min(after), false, last)
        }
        Steps::By(count) => {
            let first = at.saturating_add(count).max(0);
            (first.max(1)..at.max(1), true, first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (sql, steps) in [
            ("FETCH c", Steps::By(1)),
            ("fetch from c", Steps::By(1)),
            ("FETCH NEXT FROM c", Steps::By(1)),
            ("FETCH PRIOR c", Steps::By(-1)),
            ("FETCH 10 IN c;", Steps::By(10)),
            ("FETCH -2 FROM c", Steps::By(-2)),
            ("FETCH ALL c", Steps::AllAfter),
            ("FETCH FORWARD FROM c", Steps::By(1)),
            ("FETCH FORWARD 5 FROM c", Steps::By(5)),
            ("FETCH FORWARD ALL FROM c", Steps::AllAfter),
            ("FETCH BACKWARD 3 FROM C", Steps::By(-3)),
            ("FETCH BACKWARD ALL FROM c", Steps::AllBefore),
            ("FETCH ABSOLUTE -1 FROM c", Steps::At(-1)),
            ("FETCH RELATIVE 0 FROM c", Steps::Away(0)),
            ("FETCH LAST FROM c", Steps::At(-1)),
        ] {
            let walk = read(sql).unwrap().unwrap();
            assert_eq!((walk.cursor.as_str(), walk.steps), ("c", steps), "{sql}");
        }
        let walk = read("MOVE 2 FROM \"C\"").unwrap().unwrap();
        assert_eq!((walk.cursor.as_str(), walk.only_moves), ("C", true));
        assert!(read("FETCH 1 2 FROM c").unwrap().is_err());
        assert!(read("SELECT 1").is_none());
        assert!(read("fetchmail").is_none());
    }

    #[test]
    fn parts() {
        for (steps, now, rest) in [
            (Steps::By(5), Steps::By(2), Some(Steps::By(3))),
            (Steps::By(2), Steps::By(2), None),
            (Steps::By(-3), Steps::By(-2), Some(Steps::By(-1))),
            (
                Steps::By(i64::MIN + 1),
                Steps::By(-2),
                Some(Steps::By(i64::MIN + 3)),
            ),
            (Steps::AllAfter, Steps::By(2), Some(Steps::AllAfter)),
            (Steps::AllBefore, Steps::By(-2), Some(Steps::AllBefore)),
            (Steps::At(-1), Steps::At(-1), None),
        ] {
            let walk = |steps| Walk {
                cursor: "c".to_owned(),
                steps,
                only_moves: false,
            };
            assert_eq!(
                walk(steps).split(2),
                (walk(now), rest.map(walk)),
                "{steps:?}"
            );
        }
    }

    #[test]
    fn ways() {
        for (at, steps, rows, backward, end) in [
            (0, Steps::By(2), 1..3, false, 2),
            (2, Steps::By(5), 3..4, false, 4),
            (4, Steps::By(1), 4..4, false, 4),
            (4, Steps::By(-1), 3..4, true, 3),
            (2, Steps::By(-5), 1..2, true, 0),
            (0, Steps::By(-1), 1..1, true, 0),
            (2, Steps::By(0), 2..3, false, 2),
            (0, Steps::At(-1), 3..4, false, 3),
            (0, Steps::At(9), 4..4, false, 4),
            (3, Steps::Away(-2), 1..2, false, 1),
            (1, Steps::AllAfter, 2..4, false, 4),
            (4, Steps::AllBefore, 1..4, true, 0),
        ] {
            assert_eq!(way(at, 3, steps), (rows, backward, end), "{at} {steps:?}");
        }
    }
}
