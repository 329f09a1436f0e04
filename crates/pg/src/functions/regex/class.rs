//! Sets of characters.

use std::fmt::Write;

/// An item of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Range(char, char),
    Alnum,
    Alpha,
    Blank,
    Cntrl,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
}

impl Item {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "alnum" => Self::Alnum,
            "alpha" => Self::Alpha,
            "blank" => Self::Blank,
            "cntrl" => Self::Cntrl,
            "digit" => Self::Range('0', '9'),
            "graph" => Self::Graph,
            "lower" => Self::Lower,
            "print" => Self::Print,
            "punct" => Self::Punct,
            "space" => Self::Space,
            "upper" => Self::Upper,
            "ascii" => Self::Range('\0', '\u{7f}'),
            _ => return None,
        })
    }

    /// The items of `\d`, `\s` and `\w`, and whether the escape is their negation.
    pub(super) fn escaped(letter: char) -> Option<(&'static [Self], bool)> {
        let items: &[Self] = match letter.to_ascii_lowercase() {
            'd' => &[Self::Range('0', '9')],
            's' => &[Self::Space],
            'w' => &[Self::Alnum, Self::Range('_', '_')],
            _ => return None,
        };
        Some((items, letter.is_ascii_uppercase()))
    }

    fn has(self, letter: char) -> bool {
        match self {
            Self::Range(from, to) => (from..=to).contains(&letter),
            Self::Alnum => letter.is_alphanumeric(),
            Self::Alpha => letter.is_alphabetic(),
            Self::Blank => matches!(letter, ' ' | '\t'),
            Self::Cntrl => letter.is_control(),
            Self::Graph => !letter.is_control() && !letter.is_whitespace(),
            Self::Lower => letter.is_lowercase(),
            Self::Print => !letter.is_control(),
            Self::Punct => letter.is_ascii_punctuation(),
            Self::Space => matches!(letter, ' ' | '\t'..='\r'),
            Self::Upper => letter.is_uppercase(),
        }
    }

    /// Writes the item in the syntax of the crate `regex`, inside brackets.
    fn translated(self, out: &mut String) {
        let plain = match self {
            Self::Range(from, to) => {
                let (from, to) = (u32::from(from), u32::from(to));
                let _ = write!(out, "\\x{{{from:x}}}-\\x{{{to:x}}}");
                return;
            }
            Self::Alnum => "\\p{Alphabetic}\\p{N}",
            Self::Alpha => "\\p{Alphabetic}",
            Self::Blank => "\\x20\\x09",
            Self::Cntrl => "\\p{Cc}",
            Self::Graph => "[^\\p{Cc}\\p{White_Space}]",
            Self::Lower => "\\p{Lowercase}",
            Self::Print => "[^\\p{Cc}]",
            Self::Punct => "[[:punct:]]",
            Self::Space => "\\x20\\x09-\\x0d",
            Self::Upper => "\\p{Uppercase}",
        };
        out.push_str(plain);
    }
}

/// A set of characters, or all others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Class {
    /// The items, each with whether it stands for its complement.
    items: Vec<(Item, bool)>,
    negated: bool,
    ignore_case: bool,
    /// Whether newlines are excluded from the set.
    stops_at_newline: bool,
}

impl Class {
    pub(super) fn new(
        items: Vec<(Item, bool)>,
        negated: bool,
        ignore_case: bool,
        stops_at_newline: bool,
    ) -> Self {
        Self {
            items,
            negated,
            ignore_case,
            stops_at_newline,
        }
    }

    pub(super) fn one(letter: char, ignore_case: bool) -> Self {
        Self::new(
            vec![(Item::Range(letter, letter), false)],
            false,
            ignore_case,
            false,
        )
    }

    pub(super) fn any(stops_at_newline: bool) -> Self {
        Self::new(vec![], true, false, stops_at_newline)
    }

    pub(super) fn named_by(letter: char, stops_at_newline: bool) -> Option<Self> {
        let (items, negated) = Item::escaped(letter)?;
        let items = items.iter().map(|item| (*item, false)).collect();
        let stops = negated && stops_at_newline;
        Some(Self::new(items, negated, false, stops))
    }

    pub(super) fn has(&self, letter: char) -> bool {
        if self.stops_at_newline && letter == '\n' {
            return false;
        }
        let inside = |letter: char| {
            self.items
                .iter()
                .any(|(item, not)| item.has(letter) != *not)
        };
        let mut found = inside(letter);
        if !found && self.ignore_case {
            found = letter.to_lowercase().any(inside) || letter.to_uppercase().any(inside);
        }
        found != self.negated
    }

    pub(super) fn translated(&self, out: &mut String) {
        if self.stops_at_newline {
            out.push_str("[[^\\n]&&");
        }
        if self.items.is_empty() {
            out.push_str("[\\x00-\\x{10ffff}]");
        } else {
            out.push_str(if self.ignore_case { "(?i:" } else { "(?:" });
            if self.stops_at_newline {
                // Groups are not allowed inside brackets.
                out.truncate(out.len() - if self.ignore_case { 4 } else { 3 });
            }
            out.push_str(if self.negated { "[^" } else { "[" });
            for (item, not) in &self.items {
                if *not {
                    out.push_str("[^");
                    item.translated(out);
                    out.push(']');
                } else {
                    item.translated(out);
                }
            }
            out.push(']');
            if !self.stops_at_newline {
                out.push(')');
            }
        }
        if self.stops_at_newline {
            out.push(']');
        }
    }

    /// Whether the translation keeps the meaning.
    pub(super) fn is_translatable(&self) -> bool {
        // The case flag of a set that stops at newlines would be lost.
        !(self.stops_at_newline && self.ignore_case && !self.items.is_empty())
    }

    /// Whether two sets certainly have no character in common.
    pub(super) fn is_disjoint(&self, other: &Self) -> bool {
        let (Some(left), Some(right)) = (self.ranges(), other.ranges()) else {
            return false;
        };
        left.iter().all(|(from, to)| {
            right
                .iter()
                .all(|(other_from, other_to)| to < other_from || other_to < from)
        })
    }

    /// The ranges of code points in the set; `None` if it has items that are not ranges.
    fn ranges(&self) -> Option<Vec<(u32, u32)>> {
        if self.ignore_case {
            return None;
        }
        let mut ranges = vec![];
        for (item, not) in &self.items {
            match item {
                Item::Range(from, to) if !not => ranges.push((u32::from(*from), u32::from(*to))),
                Item::Space if !not => ranges.extend([(32, 32), (9, 13)]),
                _ => return None,
            }
        }
        if !self.negated {
            return Some(ranges);
        }
        ranges.sort_unstable();
        let (mut others, mut next) = (vec![], 0);
        for (from, to) in ranges {
            if from > next {
                others.push((next, from - 1));
            }
            next = next.max(to + 1);
        }
        others.push((next, 0x0010_FFFF));
        Some(others)
    }
}
