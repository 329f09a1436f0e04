//! Parses a regular expression of `PostgreSQL`'s: an ARE, with its options and escapes.
//!
//! Not here: matching (`matcher.rs`). EREs and BREs (flags `e` and `b`) are refused.

use super::class::{Class, Item};
use crate::PgError;

/// The largest bound in braces.
const BOUND_MAX: u32 = 255;
/// The maximum nesting depth of parentheses.
const DEPTH_MAX: usize = 200;

/// The options that a flags argument, or `(?letters)`, sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Flags {
    pub(super) global: bool,
    pub(super) ignore_case: bool,
    /// Whether `.` and `[^…]` exclude newlines.
    pub(super) stops_at_newline: bool,
    /// Whether `^` and `$` also match at newlines.
    pub(super) line_anchors: bool,
    pub(super) expanded: bool,
    pub(super) quoted: bool,
}

impl Flags {
    pub(super) fn read(letters: &str) -> Result<Self, PgError> {
        let mut flags = Self::default();
        for letter in letters.chars() {
            if letter == 'g' {
                flags.global = true;
            } else if !flags.set(letter) {
                let message = format!("invalid regular expression option: \"{letter}\"");
                return Err(PgError::new("22023", message));
            }
        }
        Ok(flags)
    }

    fn set(&mut self, letter: char) -> bool {
        match letter {
            'c' => self.ignore_case = false,
            'i' => self.ignore_case = true,
            'n' | 'm' => (self.stops_at_newline, self.line_anchors) = (true, true),
            'p' => (self.stops_at_newline, self.line_anchors) = (true, false),
            'w' => (self.stops_at_newline, self.line_anchors) = (false, true),
            's' => (self.stops_at_newline, self.line_anchors) = (false, false),
            't' => self.expanded = false,
            'x' => self.expanded = true,
            'q' => self.quoted = true,
            _ => return false,
        }
        true
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ast {
    Empty,
    Set(Class),
    Assert(Assert),
    Look {
        inner: Box<Ast>,
        ahead: bool,
        negative: bool,
    },
    Back(usize),
    /// A group, with its number if it captures.
    Group(Box<Ast>, Option<usize>),
    Repeat {
        inner: Box<Ast>,
        min: u32,
        max: Option<u32>,
        /// `None` if the quantifier has no preference.
        greedy: Option<bool>,
    },
    Cat(Vec<Ast>),
    Alt(Vec<Ast>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assert {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    Boundary,
    NotBoundary,
}

/// Returns the tree, its flags, and the number of capturing groups.
pub(super) fn parse(pattern: &str, flags: Flags) -> Result<(Ast, Flags, usize), PgError> {
    let mut flags = flags;
    let mut rest = pattern;
    if !flags.quoted {
        if let Some(plain) = rest.strip_prefix("***=") {
            (flags.quoted, rest) = (true, plain);
        } else if let Some(advanced) = rest.strip_prefix("***:") {
            rest = advanced;
        } else if rest.starts_with("***") {
            return Err(wrong("quantifier operand invalid"));
        }
    }
    if !flags.quoted
        && let Some(letters) = rest.strip_prefix("(?")
        && letters.starts_with(|first: char| first.is_ascii_alphabetic())
    {
        let (letters, after) = letters.split_once(')').ok_or_else(|| wrong(OPTION))?;
        for letter in letters.chars() {
            if !flags.set(letter) {
                return Err(wrong(OPTION));
            }
        }
        rest = after;
    }
    if flags.quoted {
        let literal = rest
            .chars()
            .map(|letter| Ast::Set(Class::one(letter, flags.ignore_case)));
        return Ok((Ast::Cat(literal.collect()), flags, 0));
    }
    let mut parser = Parser {
        rest: rest.chars().collect(),
        at: 0,
        flags,
        groups: 0,
        closed: vec![],
        depth: 0,
    };
    let ast = parser.alternatives(true)?;
    if parser.at < parser.rest.len() {
        return Err(wrong("parentheses () not balanced"));
    }
    Ok((ast, flags, parser.groups))
}

const OPTION: &str = "invalid embedded option";

pub(super) fn wrong(what: &str) -> PgError {
    PgError::new("2201B", format!("invalid regular expression: {what}"))
}

struct Parser {
    rest: Vec<char>,
    at: usize,
    flags: Flags,
    groups: usize,
    closed: Vec<usize>,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn looks_at(&self, wanted: &str) -> bool {
        wanted
            .chars()
            .enumerate()
            .all(|(offset, letter)| self.rest.get(self.at + offset) == Some(&letter))
    }

    fn eat_all(&mut self, wanted: &str) -> bool {
        let found = self.looks_at(wanted);
        if found {
            self.at += wanted.chars().count();
        }
        found
    }

    /// Skips blanks and comments of the expanded syntax, and `(?#…)`.
    fn skip(&mut self) {
        loop {
            if self.eat_all("(?#") {
                while self.peek().is_some_and(|letter| letter != ')') {
                    self.at += 1;
                }
                self.at += 1;
            } else if self.flags.expanded && self.peek().is_some_and(char::is_whitespace) {
                self.at += 1;
            } else if self.flags.expanded && self.peek() == Some('#') {
                while self.peek().is_some_and(|letter| letter != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn alternatives(&mut self, captures: bool) -> Result<Ast, PgError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(wrong("regular expression is too complex"));
        }
        let mut branches = vec![self.branch(captures)?];
        while self.eat('|') {
            branches.push(self.branch(captures)?);
        }
        self.depth -= 1;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => Ast::Alt(branches),
        })
    }

    fn branch(&mut self, captures: bool) -> Result<Ast, PgError> {
        let mut items = vec![];
        loop {
            self.skip();
            match self.peek() {
                None | Some('|' | ')') => break,
                Some(_) => {}
            }
            let item = self.atom(captures)?;
            self.skip();
            items.push(self.quantified(item)?);
        }
        Ok(match items.len() {
            0 => Ast::Empty,
            1 => items.remove(0),
            _ => Ast::Cat(items),
        })
    }

    fn quantified(&mut self, atom: Ast) -> Result<Ast, PgError> {
        let (min, max, exact) = match self.peek() {
            Some('*') => (0, None, false),
            Some('+') => (1, None, false),
            Some('?') => (0, Some(1), false),
            Some('{') if self.rest.get(self.at + 1).is_some_and(char::is_ascii_digit) => {
                self.at += 1;
                let (min, max, exact) = self.bound()?;
                self.at -= 1;
                (min, max, exact)
            }
            _ => return Ok(atom),
        };
        self.at += 1;
        if matches!(atom, Ast::Assert(_) | Ast::Look { .. }) {
            return Err(wrong("quantifier operand invalid"));
        }
        let lazy = self.eat('?');
        self.skip();
        if let Some('*' | '+' | '?') = self.peek() {
            return Err(wrong("quantifier operand invalid"));
        }
        Ok(Ast::Repeat {
            inner: Box::new(atom),
            min,
            max,
            greedy: (!exact).then_some(!lazy),
        })
    }

    /// Parses a bound, up to and including the closing brace.
    fn bound(&mut self) -> Result<(u32, Option<u32>, bool), PgError> {
        let min = self.number()?;
        let (max, exact) = if self.eat(',') {
            if self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
                let max = self.number()?;
                (Some(max), false)
            } else {
                (None, false)
            }
        } else {
            (Some(min), true)
        };
        if max.is_some_and(|max| max < min) {
            return Err(wrong("invalid repetition count(s)"));
        }
        match self.peek() {
            Some('}') => self.at += 1,
            None => return Err(wrong("braces {} not balanced")),
            Some(_) => return Err(wrong("invalid repetition count(s)")),
        }
        Ok((min, max, exact))
    }

    fn number(&mut self) -> Result<u32, PgError> {
        let mut number = 0;
        while let Some(digit) = self.peek().and_then(|digit| digit.to_digit(10)) {
            self.at += 1;
            number = number * 10 + digit;
            if number > BOUND_MAX {
                return Err(wrong("invalid repetition count(s)"));
            }
        }
        Ok(number)
    }

    fn atom(&mut self, captures: bool) -> Result<Ast, PgError> {
        let Some(letter) = self.peek() else {
            return Ok(Ast::Empty);
        };
        self.at += 1;
        Ok(match letter {
            '(' => return self.group(captures),
            '[' => return self.bracket(),
            '.' => Ast::Set(Class::any(self.flags.stops_at_newline)),
            '^' if self.flags.line_anchors => Ast::Assert(Assert::LineStart),
            '^' => Ast::Assert(Assert::TextStart),
            '$' if self.flags.line_anchors => Ast::Assert(Assert::LineEnd),
            '$' => Ast::Assert(Assert::TextEnd),
            '*' | '+' | '?' => return Err(wrong("quantifier operand invalid")),
            '{' if self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                return Err(wrong("quantifier operand invalid"));
            }
            '\\' => return self.escape(),
            plain => self.literal(plain),
        })
    }

    fn literal(&self, letter: char) -> Ast {
        Ast::Set(Class::one(letter, self.flags.ignore_case))
    }

    fn group(&mut self, captures: bool) -> Result<Ast, PgError> {
        let look = [
            ("?=", true, false),
            ("?!", true, true),
            ("?<=", false, false),
        ];
        let look = look.into_iter().chain([("?<!", false, true)]);
        for (sign, ahead, negative) in look {
            if self.eat_all(sign) {
                let inner = Box::new(self.alternatives(false)?);
                self.close()?;
                return Ok(Ast::Look {
                    inner,
                    ahead,
                    negative,
                });
            }
        }
        let number = if self.eat_all("?:") {
            None
        } else if self.peek() == Some('?') {
            return Err(wrong("quantifier operand invalid"));
        } else if captures {
            self.groups += 1;
            Some(self.groups)
        } else {
            None
        };
        let inner = self.alternatives(captures)?;
        self.close()?;
        self.closed.extend(number);
        Ok(Ast::Group(Box::new(inner), number))
    }

    fn close(&mut self) -> Result<(), PgError> {
        if self.eat(')') {
            return Ok(());
        }
        Err(wrong("parentheses () not balanced"))
    }

    fn escape(&mut self) -> Result<Ast, PgError> {
        let bad = || wrong("invalid escape \\ sequence");
        let letter = self.peek().ok_or_else(bad)?;
        let newline = self.flags.stops_at_newline;
        if let Some(class) = Class::named_by(letter, newline) {
            self.at += 1;
            return Ok(Ast::Set(class));
        }
        let assert = match letter {
            'A' => Some(Assert::TextStart),
            'Z' => Some(Assert::TextEnd),
            'm' => Some(Assert::WordStart),
            'M' => Some(Assert::WordEnd),
            'y' => Some(Assert::Boundary),
            'Y' => Some(Assert::NotBoundary),
            _ => None,
        };
        if let Some(assert) = assert {
            self.at += 1;
            return Ok(Ast::Assert(assert));
        }
        if let '1'..='9' = letter {
            let start = self.at;
            let mut number = 0_usize;
            while let Some(digit) = self.peek().and_then(|digit| digit.to_digit(10)) {
                let longer = number * 10 + digit as usize;
                if self.at > start && longer > self.groups {
                    break;
                }
                number = longer;
                self.at += 1;
            }
            if self.closed.contains(&number) {
                return Ok(Ast::Back(number));
            }
            if number < 10 {
                return Err(wrong("invalid backreference number"));
            }
            self.at = start;
        }
        self.literal_escape()
    }

    fn literal_escape(&mut self) -> Result<Ast, PgError> {
        let letter = self.escaped()?;
        Ok(self.literal(letter))
    }

    /// Parses the rest of an escape after its backslash, and returns the character.
    fn escaped(&mut self) -> Result<char, PgError> {
        let bad = || wrong("invalid escape \\ sequence");
        let letter = self.peek().ok_or_else(bad)?;
        self.at += 1;
        Ok(match letter {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'B' => '\\',
            'c' => {
                let control = self.peek().ok_or_else(bad)?;
                self.at += 1;
                char::from_u32(u32::from(control) & 31).ok_or_else(bad)?
            }
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'u' => self.digits(16, 4, 4)?,
            'U' => self.digits(16, 8, 8)?,
            'x' => self.digits(16, 1, 255)?,
            '0'..='9' => {
                self.at -= 1;
                self.digits(8, 1, 3)?
            }
            other if other.is_ascii_alphanumeric() => return Err(bad()),
            other => other,
        })
    }

    fn digits(&mut self, radix: u32, least: usize, most: usize) -> Result<char, PgError> {
        let bad = || wrong("invalid escape \\ sequence");
        let (mut code, mut count) = (0_u32, 0);
        while count < most
            && let Some(digit) = self.peek().and_then(|digit| digit.to_digit(radix))
        {
            code = code.saturating_mul(radix).saturating_add(digit);
            (self.at, count) = (self.at + 1, count + 1);
        }
        if count < least {
            return Err(bad());
        }
        char::from_u32(code).ok_or_else(bad)
    }

    fn bracket(&mut self) -> Result<Ast, PgError> {
        let unbalanced = || wrong("brackets [] not balanced");
        if self.eat_all("[:<:]]") {
            return Ok(Ast::Assert(Assert::WordStart));
        }
        if self.eat_all("[:>:]]") {
            return Ok(Ast::Assert(Assert::WordEnd));
        }
        let negated = self.eat('^');
        let mut items = vec![];
        let mut first = true;
        loop {
            let letter = self.peek().ok_or_else(unbalanced)?;
            if letter == ']' && !first {
                self.at += 1;
                break;
            }
            first = false;
            if self.eat_all("[:") {
                let name = self.until(":]").ok_or_else(unbalanced)?;
                let item = Item::named(&name).ok_or_else(|| wrong("invalid character class"))?;
                items.push((item, false));
                continue;
            }
            if letter == '\\'
                && let Some(next) = self.rest.get(self.at + 1)
                && let Some((named, not)) = Item::escaped(*next)
            {
                self.at += 2;
                items.extend(named.iter().map(|item| (*item, not)));
                continue;
            }
            let from = self.member()?;
            let ranged = self.peek() == Some('-')
                && self.rest.get(self.at + 1).is_some_and(|next| *next != ']');
            let to = if ranged {
                self.at += 1;
                self.member()?
            } else {
                from
            };
            if to < from {
                return Err(wrong("invalid character range"));
            }
            items.push((Item::Range(from, to), false));
        }
        let stops = negated && self.flags.stops_at_newline;
        Ok(Ast::Set(Class::new(
            items,
            negated,
            self.flags.ignore_case,
            stops,
        )))
    }

    /// Parses one character inside brackets.
    fn member(&mut self) -> Result<char, PgError> {
        let unbalanced = || wrong("brackets [] not balanced");
        for (open, close) in [("[.", ".]"), ("[=", "=]")] {
            if self.eat_all(open) {
                let name = self.until(close).ok_or_else(unbalanced)?;
                let mut letters = name.chars();
                return match (letters.next(), letters.next()) {
                    (Some(one), None) => Ok(one),
                    _ => Err(wrong("invalid collating element")),
                };
            }
        }
        let letter = self.peek().ok_or_else(unbalanced)?;
        self.at += 1;
        if letter == '\\' {
            return self.escaped();
        }
        Ok(letter)
    }

    fn until(&mut self, close: &str) -> Option<String> {
        let mut name = String::new();
        while !self.eat_all(close) {
            name.push(self.peek()?);
            self.at += 1;
        }
        Some(name)
    }
}
