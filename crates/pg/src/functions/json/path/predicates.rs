//! Is a condition of a path true, false or unknown?

use std::cmp::Ordering;

use super::moment::order;
use super::outcome::{Outcome, Stop};
use super::steps::{At, Evaluation, Found};
use crate::functions::regex::Regex;
use crate::numbers::numeric::Numeric;
use crate::values::{Compare, Json, PathItem, Step};

/// A truth value; `None` is unknown.
type Truth = Option<bool>;

impl Evaluation<'_> {
    /// Evaluates a condition on `current`.
    pub(super) fn decide(&mut self, step: &Step, current: At<'_>) -> Outcome<Truth> {
        Ok(match &step.item {
            PathItem::And(left, right) => match self.decide(left, current)? {
                Some(false) => Some(false),
                truth => match self.decide(right, current)? {
                    Some(true) => truth,
                    other => other,
                },
            },
            PathItem::Or(left, right) => match self.decide(left, current)? {
                Some(true) => Some(true),
                truth => match self.decide(right, current)? {
                    Some(false) => truth,
                    other => other,
                },
            },
            PathItem::Not(inner) => self.decide(inner, current)?.map(|truth| !truth),
            PathItem::IsUnknown(inner) => Some(self.decide(inner, current)?.is_none()),
            PathItem::Exists(inner) => self.has(inner, current)?,
            PathItem::Compare(compare, left, right) => {
                let Some(left) = calm(self.operand(left, current, true))? else {
                    return Ok(None);
                };
                let Some(right) = calm(self.operand(right, current, true))? else {
                    return Ok(None);
                };
                let with_zone = self.with_zone;
                self.any_pair(&left, &right, |left, right| {
                    compared(*compare, left, right, with_zone)
                })?
            }
            PathItem::StartsWith(whole, initial) => {
                let Some(whole) = calm(self.operand(whole, current, true))? else {
                    return Ok(None);
                };
                let Some(initial) = calm(self.operand(initial, current, false))? else {
                    return Ok(None);
                };
                self.any_pair(&whole, &initial, |whole, initial| {
                    Ok(match (whole, initial) {
                        (At::Json(Json::Text(whole)), At::Json(Json::Text(initial))) => {
                            Some(whole.starts_with(initial.as_str()))
                        }
                        _ => None,
                    })
                })?
            }
            PathItem::LikeRegex(values, pattern, flags) => {
                let Some(values) = calm(self.operand(values, current, true))? else {
                    return Ok(None);
                };
                let regex = Regex::cached(pattern, &letters(flags)).map_err(Stop::Hard)?;
                let once = [Found::Json(Json::Null)];
                self.any_pair(&values, &once, |value, _| {
                    Ok(match value {
                        At::Json(Json::Text(text)) => Some(regex.is_match(text)),
                        _ => None,
                    })
                })?
            }
            _ => None,
        })
    }

    fn has(&mut self, step: &Step, current: At<'_>) -> Outcome<Truth> {
        if self.is_lax() {
            return calm(self.follow(step, current, current, None));
        }
        let found = calm(self.operand(step, current, false))?;
        Ok(found.map(|found| !found.is_empty()))
    }

    /// Whether some pair of values fulfils a condition.
    fn any_pair(
        &self,
        left: &[Found],
        right: &[Found],
        condition: impl Fn(At<'_>, At<'_>) -> Outcome<Truth>,
    ) -> Outcome<Truth> {
        let (mut is_true, mut is_unknown) = (false, false);
        for left in left {
            for right in right {
                match condition(left.at(), right.at())? {
                    Some(true) if self.is_lax() => return Ok(Some(true)),
                    Some(true) => is_true = true,
                    Some(false) => {}
                    None if self.is_lax() => is_unknown = true,
                    None => return Ok(None),
                }
            }
        }
        Ok(match (is_true, is_unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        })
    }
}

/// Turns an error in a condition into unknown.
fn calm<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Soft(_)) => Ok(None),
        Err(hard) => Err(hard),
    }
}

/// The flags of `regexp_match` for flags of `like_regex`: without `s`, `.` does not match a
/// newline; with `m`, `^` and `$` match at newlines.
pub(super) fn letters(flags: &str) -> String {
    let has = |flag| flags.contains(flag);
    let mut letters = String::new();
    if has('i') {
        letters.push('i');
    }
    if has('q') {
        letters.push('q');
        return letters;
    }
    letters.push_str(match (has('s'), has('m')) {
        (false, false) => "p",
        (false, true) => "n",
        (true, true) => "w",
        (true, false) => "s",
    });
    letters
}

fn compared(compare: Compare, left: At<'_>, right: At<'_>, with_zone: bool) -> Outcome<Truth> {
    let order = match (left, right) {
        (At::Moment(left), At::Moment(right)) => order(left, right, with_zone)?,
        (At::Json(Json::Null), At::Json(Json::Null)) => Some(Ordering::Equal),
        (At::Json(Json::Null), _) | (_, At::Json(Json::Null)) => {
            // A null is unequal to every other value, and neither less nor greater.
            return Ok(Some(compare == Compare::NotEqual));
        }
        (At::Json(Json::Bool(left)), At::Json(Json::Bool(right))) => Some(left.cmp(right)),
        (At::Json(Json::Text(left)), At::Json(Json::Text(right))) => Some(left.cmp(right)),
        (At::Json(Json::Number(left)), At::Json(Json::Number(right))) => {
            match (Numeric::parse(left), Numeric::parse(right)) {
                (Some(left), Some(right)) => Some(left.compare(&right)),
                _ => None,
            }
        }
        _ => None,
    };
    Ok(order.map(|order| match compare {
        Compare::Equal => order.is_eq(),
        Compare::NotEqual => order.is_ne(),
        Compare::Less => order.is_lt(),
        Compare::Greater => order.is_gt(),
        Compare::LessOrEqual => order.is_le(),
        Compare::GreaterOrEqual => order.is_ge(),
    }))
}
