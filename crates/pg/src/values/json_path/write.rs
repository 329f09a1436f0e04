//! Writes a path as PostgreSQL shows it.

use std::fmt::{Display, Formatter, Result, Write};

use super::{Arithmetic, Item, JsonPath, LEVEL_LAST, Step};
use crate::values::json_quoted;

impl Display for JsonPath {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        if !self.is_lax {
            out.write_str("strict ")?;
        }
        self.root.write(out, false, true)
    }
}

impl Item {
    /// The precedence of an item; a higher one binds tighter.
    fn priority(&self) -> u8 {
        match self {
            Self::Or(..) => 0,
            Self::And(..) => 1,
            Self::Compare(..) | Self::StartsWith(..) => 2,
            Self::Arithmetic(Arithmetic::Add | Arithmetic::Subtract, ..) => 3,
            Self::Arithmetic(..) => 4,
            Self::Unary(..) => 5,
            _ => 6,
        }
    }

    /// Writes an operand, in brackets if it does not bind tighter.
    fn operand(&self, operand: &Step, out: &mut Formatter<'_>) -> Result {
        let brackets = operand.item.priority() <= self.priority();
        operand.write(out, false, brackets)
    }

    fn operator(
        &self,
        (left, sign, right): (&Step, &str, &Step),
        brackets: bool,
        out: &mut Formatter<'_>,
    ) -> Result {
        out.write_str(if brackets { "(" } else { "" })?;
        self.operand(left, out)?;
        write!(out, " {sign} ")?;
        self.operand(right, out)?;
        out.write_str(if brackets { ")" } else { "" })
    }

    fn write(&self, out: &mut Formatter<'_>, has_next: bool, brackets: bool) -> Result {
        let (open, close) = if brackets { ("(", ")") } else { ("", "") };
        match self {
            Self::Null => out.write_str("null"),
            Self::Bool(value) => write!(out, "{value}"),
            Self::Number(number) if has_next => write!(out, "({number})"),
            Self::Number(number) => out.write_str(number),
            Self::Text(text) => out.write_str(&json_quoted(text)),
            Self::Variable(name) => write!(out, "${}", json_quoted(name)),
            Self::Root => out.write_char('$'),
            Self::Current => out.write_char('@'),
            Self::Last => out.write_str("last"),
            Self::Key(key) => out.write_str(&json_quoted(key)),
            Self::AnyKey => out.write_char('*'),
            Self::AnyArray => out.write_str("[*]"),
            Self::Index(places) => {
                out.write_char('[')?;
                for (at, (from, to)) in places.iter().enumerate() {
                    out.write_str(if at > 0 { "," } else { "" })?;
                    from.write(out, false, false)?;
                    if let Some(to) = to {
                        out.write_str(" to ")?;
                        to.write(out, false, false)?;
                    }
                }
                out.write_char(']')
            }
            Self::Any(0, LEVEL_LAST) => out.write_str("**"),
            Self::Any(first, last) => {
                let level = |level: u32| match level {
                    LEVEL_LAST => "last".to_owned(),
                    level => level.to_string(),
                };
                match first == last {
                    true => write!(out, "**{{{}}}", level(*first)),
                    false => write!(out, "**{{{} to {}}}", level(*first), level(*last)),
                }
            }
            Self::Filter(filter) => {
                out.write_str("?(")?;
                filter.write(out, false, false)?;
                out.write_char(')')
            }
            Self::Method(method) => write!(out, ".{}()", method.name()),
            Self::Datetime(template) => {
                let template = template.as_deref().map(json_quoted).unwrap_or_default();
                write!(out, ".datetime({template})")
            }
            Self::Unary(sign, operand) => {
                write!(out, "{open}{}", sign.sign())?;
                self.operand(operand, out)?;
                out.write_str(close)
            }
            Self::Arithmetic(sign, left, right) => {
                self.operator((left, sign.sign(), right), brackets, out)
            }
            Self::Compare(compare, left, right) => {
                self.operator((left, compare.sign(), right), brackets, out)
            }
            Self::And(left, right) => self.operator((left, "&&", right), brackets, out),
            Self::Or(left, right) => self.operator((left, "||", right), brackets, out),
            Self::StartsWith(left, right) => {
                self.operator((left, "starts with", right), brackets, out)
            }
            Self::Not(inner) => {
                out.write_str("!(")?;
                inner.write(out, false, false)?;
                out.write_char(')')
            }
            Self::IsUnknown(inner) => {
                out.write_char('(')?;
                inner.write(out, false, false)?;
                out.write_str(") is unknown")
            }
            Self::Exists(inner) => {
                out.write_str("exists (")?;
                inner.write(out, false, false)?;
                out.write_char(')')
            }
            Self::LikeRegex(value, pattern, flags) => {
                out.write_str(open)?;
                self.operand(value, out)?;
                write!(out, " like_regex {}", json_quoted(pattern))?;
                if !flags.is_empty() {
                    write!(out, " flag \"{flags}\"")?;
                }
                out.write_str(close)
            }
        }
    }
}

impl Step {
    fn write(&self, out: &mut Formatter<'_>, is_member: bool, brackets: bool) -> Result {
        if is_member && matches!(self.item, Item::Key(_) | Item::AnyKey | Item::Any(..)) {
            out.write_char('.')?;
        }
        let has_next = self.next.is_some();
        self.item.write(out, has_next, brackets)?;
        match &self.next {
            Some(next) => next.write(out, true, true),
            None => Ok(()),
        }
    }
}
