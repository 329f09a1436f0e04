//! `PostgreSQL`'s regular expressions.
//!
//! If the crate `regex` has all constructs of an expression, it decides whether and where a text
//! matches. It prefers the first of several alternatives, but `PostgreSQL` the longest match:
//! where the two may differ, `matcher.rs` finds the match.

mod class;
mod functions;
mod like;
mod matcher;
mod operators;
mod parse;
mod similar;
mod translate;
mod tree;

use std::cell::RefCell;
use std::rc::Rc;

pub(super) use functions::substring;
pub(crate) use like::{escaped as like_escaped, like};

use datafusion::logical_expr::ScalarUDF;

use crate::PgError;
use matcher::Matcher;
use parse::{Flags, parse};
use tree::Tree;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let groups = [
        functions::functions(),
        like::functions(),
        operators::functions(),
    ];
    let all = groups.into_iter().flatten();
    all.map(super::scalar::Function::udf).collect()
}

/// A compiled regular expression.
pub(crate) struct Regex {
    pub(super) global: bool,
    pub(super) groups: usize,
    tree: Tree,
    fast: Option<regex::Regex>,
    /// Whether `fast` finds the same match and groups.
    is_exact: bool,
}

/// The ranges of a match and its groups, in bytes.
pub(crate) type Found = Vec<Option<(usize, usize)>>;

impl Regex {
    fn new(pattern: &str, letters: &str) -> Result<Self, PgError> {
        let flags = Flags::read(letters)?;
        let (ast, flags, groups) = parse(pattern, flags)?;
        let fast = translate::translated(&ast);
        let fast = fast.and_then(|pattern| regex::Regex::new(&pattern).ok());
        Ok(Self {
            global: flags.global,
            groups,
            tree: Tree::new(&ast, groups),
            is_exact: fast.is_some() && translate::is_leftmost_first(&ast),
            fast,
        })
    }

    /// The compiled expression of a pattern. Each thread caches recently used ones.
    pub(crate) fn cached(pattern: &str, letters: &str) -> Result<Rc<Self>, PgError> {
        RECENT.with_borrow_mut(|recent| {
            let key = (pattern, letters);
            let known = recent
                .iter()
                .position(|(kept, _)| (kept.0.as_str(), kept.1.as_str()) == key);
            if let Some(at) = known {
                if at > 0 {
                    recent.swap(at, 0);
                }
                return Ok(Rc::clone(&recent[0].1));
            }
            let made = Rc::new(Self::new(pattern, letters)?);
            recent.insert(
                0,
                ((pattern.to_owned(), letters.to_owned()), Rc::clone(&made)),
            );
            recent.truncate(RECENT_MAX);
            Ok(made)
        })
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        match &self.fast {
            Some(fast) => fast.is_match(text),
            None => self.find(text, 0).is_some(),
        }
    }

    /// The first match at or after the byte offset `from`.
    pub(crate) fn find(&self, text: &str, from: usize) -> Option<Found> {
        let start = match &self.fast {
            Some(fast) if self.is_exact => {
                let captures = fast.captures_at(text, from)?;
                let groups = captures
                    .iter()
                    .map(|group| group.map(|it| (it.start(), it.end())));
                return Some(groups.collect());
            }
            Some(fast) => Some(fast.find_at(text, from)?.start()),
            None => None,
        };
        let chars: Vec<char> = text.chars().collect();
        let mut places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        places.push(text.len());
        let place = |byte: usize| places.partition_point(|at| *at < byte);
        let mut matcher = Matcher::new(&self.tree, &chars);
        let found = match start {
            Some(start) => matcher.find_at(place(start)),
            None => matcher.find(place(from)),
        }?;
        let bytes = |(start, end): (usize, usize)| (places[start], places[end]);
        Some(found.into_iter().map(|group| group.map(bytes)).collect())
    }

    /// All matches that do not overlap, from the byte offset `from`.
    pub(crate) fn find_all(&self, text: &str, from: usize) -> Vec<Found> {
        let mut found = vec![];
        let mut at = from;
        while at <= text.len()
            && let Some(groups) = self.find(text, at)
        {
            let (start, end) = groups[0].unwrap_or((at, at));
            at = if end > start {
                end
            } else {
                // After an empty match, the search continues one character later.
                end + text[end..].chars().next().map_or(1, char::len_utf8)
            };
            found.push(groups);
        }
        found
    }
}

/// The number of expressions that a thread caches.
const RECENT_MAX: usize = 32;

type Kept = ((String, String), Rc<Regex>);

thread_local! {
    static RECENT: RefCell<Vec<Kept>> = const { RefCell::new(vec![]) };
}
