//! The offset of an object in the bytes of a `jsonb`, which `.keyvalue()` shows as the object's
//! id.
//!
//! After PostgreSQL's `jsonb_util.c`: a container consists of a header, an entry for each element
//! (two for each member), and their data. Keys precede values, and numbers and containers are
//! aligned to four bytes.

use crate::values::Json;

/// The size of a header and of an entry, in bytes, and the alignment of data.
const WORD: usize = 4;

/// The offset of `wanted` in `root`; `None` if it is not a part of `root`.
pub(super) fn offset(root: &Json, wanted: &Json) -> Option<usize> {
    Layout { at: 0, wanted }.container(root)
}

struct Layout<'a> {
    at: usize,
    wanted: &'a Json,
}

impl Layout<'_> {
    fn align(&mut self) {
        self.at = self.at.next_multiple_of(WORD);
    }

    /// Advances past a value; stops where the wanted one begins.
    fn container(&mut self, value: &Json) -> Option<usize> {
        if matches!(value, Json::Array(_) | Json::Object(_)) {
            self.align();
        }
        if std::ptr::eq(value, self.wanted) {
            return Some(self.at);
        }
        match value {
            Json::Array(elements) => {
                self.at += WORD * (1 + elements.len());
                elements.iter().find_map(|element| self.container(element))
            }
            Json::Object(members) => {
                self.at += WORD * (1 + 2 * members.len());
                self.at += members.iter().map(|(key, _)| key.len()).sum::<usize>();
                members.iter().find_map(|(_, value)| self.container(value))
            }
            Json::Number(number) => {
                self.align();
                self.at += numeric_size(number);
                None
            }
            Json::Text(text) => {
                self.at += text.len();
                None
            }
            Json::Null | Json::Bool(_) | Json::Raw(_) => None,
        }
    }
}

/// The size of a `numeric`: a header, and two bytes for each digit of base 10000.
fn numeric_size(number: &str) -> usize {
    let plain = number.trim_start_matches('-');
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let before = whole.len().div_ceil(DIGITS);
    let behind = fraction.len().div_ceil(DIGITS);
    let padded = format!(
        "{whole:0>before$}{fraction:0<behind$}",
        before = before * DIGITS,
        behind = behind * DIGITS
    );
    let is_zero = |digit: &&[u8]| digit.iter().all(|byte| *byte == b'0');
    let digits: Vec<&[u8]> = padded.as_bytes().chunks(DIGITS).collect();
    let leading = digits.iter().take_while(|digit| is_zero(digit)).count();
    let trailing = digits
        .iter()
        .rev()
        .take_while(|digit| is_zero(digit))
        .count();
    let count = digits.len().saturating_sub(leading + trailing);
    // Whether the weight of the first digit and the scale fit a short header.
    let weight = before.abs_diff(leading + 1);
    let is_short = fraction.len() <= SHORT_MAX && (count == 0 || weight <= SHORT_MAX);
    (if is_short { 6 } else { 8 }) + 2 * count
}

/// Decimal digits per digit of base 10000.
const DIGITS: usize = 4;
/// The largest scale and weight in a short header.
const SHORT_MAX: usize = 63;
