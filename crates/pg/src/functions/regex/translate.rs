//! Translates a regular expression to the syntax of the crate `regex`, which is faster, and
//! decides whether that crate's leftmost-first match equals `PostgreSQL`'s.

use std::fmt::Write;

use super::class::Class;
use super::parse::{Assert, Ast};

/// `None` if the crate lacks a construct (lookaround, back references).
pub(super) fn translated(ast: &Ast) -> Option<String> {
    let mut out = String::new();
    write(ast, &mut out).then_some(out)
}

fn write(ast: &Ast, out: &mut String) -> bool {
    match ast {
        Ast::Empty => out.push_str("(?:)"),
        Ast::Set(class) => {
            class.translated(out);
            return class.is_translatable();
        }
        Ast::Assert(assert) => out.push_str(match assert {
            Assert::TextStart => "\\A",
            Assert::TextEnd => "\\z",
            Assert::LineStart => "(?m:^)",
            Assert::LineEnd => "(?m:$)",
            // The crate's definition of a word differs from PostgreSQL's.
            _ => return false,
        }),
        Ast::Look { .. } | Ast::Back(_) => return false,
        Ast::Group(inner, number) => {
            out.push_str(if number.is_some() { "(" } else { "(?:" });
            if !write(inner, out) {
                return false;
            }
            out.push(')');
        }
        Ast::Repeat {
            inner,
            min,
            max,
            greedy,
        } => {
            out.push_str("(?:");
            if !write(inner, out) {
                return false;
            }
            let _ = match max {
                Some(max) => write!(out, "){{{min},{max}}}"),
                None => write!(out, "){{{min},}}"),
            };
            if *greedy == Some(false) {
                out.push('?');
            }
        }
        Ast::Cat(items) => return items.iter().all(|item| write(item, out)),
        Ast::Alt(branches) => {
            out.push_str("(?:");
            for (at, branch) in branches.iter().enumerate() {
                if at > 0 {
                    out.push('|');
                }
                if !write(branch, out) {
                    return false;
                }
            }
            out.push(')');
        }
    }
    true
}

/// Whether leftmost-first finds the same match and groups as `PostgreSQL`'s rule.
///
/// It does for a sequence of sets, of greedily repeated sets, of optional fixed sequences, and of
/// groups of these, if no repetition could also continue with what follows it. One part per group,
/// and one before each group, may be ambiguous if nothing after it there varies. The last part of
/// all may be ambiguous, and others only if the expression ends with `$`.
pub(super) fn is_leftmost_first(ast: &Ast) -> bool {
    let items = match ast {
        Ast::Cat(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    };
    let Some(parts) = flattened(items) else {
        return false;
    };
    let anchored = matches!(items.last(), Some(Ast::Assert(Assert::TextEnd)));
    let last_varying = parts.iter().rposition(|part| part.varies);
    for (at, part) in parts.iter().enumerate() {
        if !part.varies || !ambiguous(&parts, at) {
            continue;
        }
        if Some(at) == last_varying {
            continue;
        }
        let behind = parts[at + 1..].iter();
        let mut same_run = behind.take_while(|other| other.run == part.run);
        if !anchored || same_run.any(|other| other.varies) {
            return false;
        }
    }
    true
}

/// A part of a sequence.
struct Part<'a> {
    /// The set of its first character; `None` for an assertion.
    first: Option<&'a Class>,
    varies: bool,
    /// Whether it may be empty.
    nullable: bool,
    /// The number of its group, or of the run between groups, that it belongs to.
    run: usize,
}

fn flattened(items: &[Ast]) -> Option<Vec<Part<'_>>> {
    let mut parts = vec![];
    let mut run = 0;
    for item in items {
        match item {
            Ast::Group(inner, number) => {
                run += usize::from(number.is_some());
                let inner = match inner.as_ref() {
                    Ast::Cat(items) => items.as_slice(),
                    other => std::slice::from_ref(other),
                };
                for item in inner {
                    parts.push(part(item, run)?);
                }
                run += usize::from(number.is_some());
            }
            other => parts.push(part(other, run)?),
        }
    }
    Some(parts)
}

fn part(item: &Ast, run: usize) -> Option<Part<'_>> {
    let (first, varies, nullable) = match item {
        Ast::Set(class) => (Some(class), false, false),
        Ast::Assert(Assert::TextStart | Assert::TextEnd) => (None, false, true),
        Ast::Repeat {
            inner,
            min,
            max,
            greedy: None | Some(true),
        } => {
            let class = match inner.as_ref() {
                Ast::Set(class) => class,
                Ast::Group(inner, None) if *max == Some(1) => match inner.as_ref() {
                    Ast::Set(class) => class,
                    Ast::Cat(items) if items.iter().all(|item| matches!(item, Ast::Set(_))) => {
                        match items.first() {
                            Some(Ast::Set(class)) => class,
                            _ => return None,
                        }
                    }
                    _ => return None,
                },
                _ => return None,
            };
            (Some(class), Some(*min) != *max, *min == 0)
        }
        _ => return None,
    };
    Some(Part {
        first,
        varies,
        nullable,
        run,
    })
}

/// Whether the parts after this one may begin with the same characters.
fn ambiguous(parts: &[Part<'_>], at: usize) -> bool {
    let Some(own) = parts[at].first else {
        return false;
    };
    for next in &parts[at + 1..] {
        if next.first.is_some_and(|first| !own.is_disjoint(first)) {
            return true;
        }
        if !next.nullable {
            return false;
        }
    }
    false
}
