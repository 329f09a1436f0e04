//! `to_char` of numbers.
//!
//! A pattern is a sequence of digit positions with signs and separators. A number is rounded to
//! the positions after the decimal point; if there are too few before it, they are filled with
//! `#`.

use super::patterns::Case;
use super::write_pattern::ordinal;
use crate::PgError;

/// A number to be written.
pub(crate) enum Number {
    /// Digits, with a minus if the number is negative.
    Integer(String),
    /// Digits with a decimal point, and a minus if the number is negative.
    Numeric(String),
    /// A float, with the number of its significant digits.
    Float(f64, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::time) enum Key {
    Nine,
    Zero,
    Comma,
    Point,
    Group,
    Decimal,
    Currency,
    Minus,
    Plus,
    Brackets,
    Roman(Case),
    Sign,
    BothSigns,
    Ordinal(Case),
    Shift,
    Exponent,
    Fill,
    Blank,
    Ignored,
}

pub(in crate::time) enum Node {
    Key(Key),
    Char(char),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::time) enum SignPlace {
    None,
    Before,
    Behind,
}

/// A pattern for numbers.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each flag is a different mark of the pattern"
)]
pub(crate) struct NumberPattern {
    pub(super) nodes: Vec<Node>,
    /// The numbers of digit positions before and after the decimal point.
    pub(in crate::time) before: usize,
    pub(in crate::time) behind: usize,
    /// The position of the first 0, from 1, and the number of positions up to the last 0.
    zero_start: usize,
    zero_end: usize,
    pub(in crate::time) shift: usize,
    pub(in crate::time) sign: SignPlace,
    sign_at: usize,
    pub(super) has_point: bool,
    has_zero: bool,
    pub(super) has_sign: bool,
    pub(super) has_minus: bool,
    pub(super) has_plus: bool,
    pub(super) has_brackets: bool,
    pub(super) is_filled: bool,
    is_roman: bool,
    is_shifted: bool,
    has_exponent: bool,
}

const KEYS: &[(&str, Key)] = &[
    (",", Key::Comma),
    (".", Key::Point),
    ("0", Key::Zero),
    ("9", Key::Nine),
    ("B", Key::Blank),
    ("C", Key::Ignored),
    ("D", Key::Decimal),
    ("EEEE", Key::Exponent),
    ("FM", Key::Fill),
    ("G", Key::Group),
    ("L", Key::Currency),
    ("MI", Key::Minus),
    ("PL", Key::Plus),
    ("PR", Key::Brackets),
    ("RN", Key::Roman(Case::Upper)),
    ("SG", Key::BothSigns),
    ("SP", Key::Ignored),
    ("S", Key::Sign),
    ("TH", Key::Ordinal(Case::Upper)),
    ("V", Key::Shift),
    ("b", Key::Blank),
    ("c", Key::Ignored),
    ("d", Key::Decimal),
    ("eeee", Key::Exponent),
    ("fm", Key::Fill),
    ("g", Key::Group),
    ("l", Key::Currency),
    ("mi", Key::Minus),
    ("pl", Key::Plus),
    ("pr", Key::Brackets),
    ("rn", Key::Roman(Case::Lower)),
    ("sg", Key::BothSigns),
    ("sp", Key::Ignored),
    ("s", Key::Sign),
    ("th", Key::Ordinal(Case::Lower)),
    ("v", Key::Shift),
];

fn wrong(message: &str) -> PgError {
    PgError::new("42601", message)
}

impl NumberPattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, PgError> {
        let mut read = Self {
            nodes: vec![],
            before: 0,
            behind: 0,
            zero_start: 0,
            zero_end: 0,
            shift: 0,
            sign: SignPlace::None,
            sign_at: 0,
            has_point: false,
            has_zero: false,
            has_sign: false,
            has_minus: false,
            has_plus: false,
            has_brackets: false,
            is_filled: false,
            is_roman: false,
            is_shifted: false,
            has_exponent: false,
        };
        let mut rest = pattern;
        while let Some(letter) = rest.chars().next() {
            if let Some((name, key)) = KEYS.iter().find(|(name, _)| rest.starts_with(name)) {
                rest = &rest[name.len()..];
                read.place(*key)?;
                read.nodes.push(Node::Key(*key));
                continue;
            }
            rest = &rest[letter.len_utf8()..];
            if letter == '"' {
                rest = read.literal(rest);
                continue;
            }
            if letter == '\\' && rest.starts_with('"') {
                rest = &rest[1..];
                read.nodes.push(Node::Char('"'));
                continue;
            }
            read.nodes.push(Node::Char(letter));
        }
        read.zero_start = read.zero_start.saturating_sub(1);
        Ok(read)
    }

    fn literal<'a>(&mut self, quoted: &'a str) -> &'a str {
        let mut letters = quoted.chars();
        while let Some(letter) = letters.next() {
            let letter = match letter {
                '"' => break,
                '\\' => letters.next().unwrap_or('\\'),
                other => other,
            };
            self.nodes.push(Node::Char(letter));
        }
        letters.as_str()
    }

    /// Counts a digit position or notes a mark.
    fn place(&mut self, key: Key) -> Result<(), PgError> {
        if self.has_exponent && key != Key::Exponent {
            return Err(wrong("\"EEEE\" must be the last pattern used"));
        }
        match key {
            Key::Nine if self.has_brackets => {
                return Err(wrong("\"9\" must be ahead of \"PR\""));
            }
            Key::Zero if self.has_brackets => {
                return Err(wrong("\"0\" must be ahead of \"PR\""));
            }
            Key::Nine if self.is_shifted => self.shift += 1,
            Key::Nine if self.has_point => self.behind += 1,
            Key::Nine => self.before += 1,
            Key::Zero => {
                if !self.has_zero && !self.has_point {
                    self.has_zero = true;
                    self.zero_start = self.before + 1;
                }
                if self.has_point {
                    self.behind += 1;
                } else {
                    self.before += 1;
                }
                self.zero_end = self.before + self.behind;
            }
            Key::Point | Key::Decimal => {
                if self.has_point {
                    return Err(wrong("multiple decimal points"));
                }
                if self.is_shifted {
                    return Err(wrong("cannot use \"V\" and decimal point together"));
                }
                self.has_point = true;
            }
            Key::Fill => self.is_filled = true,
            Key::Roman(_) => self.is_roman = true,
            Key::Shift if self.has_point => {
                return Err(wrong("cannot use \"V\" and decimal point together"));
            }
            Key::Shift => self.is_shifted = true,
            _ => self.place_sign(key)?,
        }
        Ok(())
    }

    fn place_sign(&mut self, key: Key) -> Result<(), PgError> {
        match key {
            Key::Sign => {
                if self.has_sign {
                    return Err(wrong("cannot use \"S\" twice"));
                }
                if self.has_plus || self.has_minus || self.has_brackets {
                    let message = "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together";
                    return Err(wrong(message));
                }
                self.has_sign = true;
                if self.has_point {
                    self.sign = SignPlace::Behind;
                } else {
                    self.sign = SignPlace::Before;
                    self.sign_at = self.before;
                }
            }
            Key::Minus if self.has_sign => {
                return Err(wrong("cannot use \"S\" and \"MI\" together"));
            }
            Key::Minus => self.has_minus = true,
            Key::Plus if self.has_sign => {
                return Err(wrong("cannot use \"S\" and \"PL\" together"));
            }
            Key::Plus => self.has_plus = true,
            Key::BothSigns if self.has_sign => {
                return Err(wrong("cannot use \"S\" and \"SG\" together"));
            }
            Key::BothSigns => (self.has_minus, self.has_plus) = (true, true),
            Key::Brackets if self.has_sign || self.has_plus || self.has_minus => {
                let message = "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together";
                return Err(wrong(message));
            }
            Key::Brackets => self.has_brackets = true,
            Key::Exponent => {
                if self.has_exponent {
                    return Err(wrong("cannot use \"EEEE\" twice"));
                }
                let others = self.is_filled
                    || self.has_sign
                    || self.has_brackets
                    || self.has_minus
                    || self.has_plus
                    || self.is_roman
                    || self.is_shifted;
                if others {
                    return Err(wrong("\"EEEE\" is incompatible with other formats"));
                }
                self.has_exponent = true;
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn write(&self, number: &Number) -> Result<String, PgError> {
        if self.is_roman {
            return Ok(self.write_roman(number));
        }
        if self.has_exponent {
            return Ok(self.scientific(number));
        }
        let (before, behind) = (self.before + self.shift, self.behind);
        let (negative, digits, behind) = self.digits(number, before, behind);
        let whole = digits.find('.').unwrap_or(digits.len());
        let (digits, spaces) = if whole <= before {
            (digits, before - whole)
        } else {
            let mut hashes = "#".repeat(before);
            hashes.push('.');
            hashes.push_str(&"#".repeat(behind));
            (hashes, 0)
        };
        Ok(Writer::new(self, before, behind, negative, &digits, spaces).run())
    }

    /// Whether the number is negative, its digits rounded to the pattern, and the positions after
    /// the decimal point that remain for a float.
    fn digits(&self, number: &Number, before: usize, behind: usize) -> (bool, String, usize) {
        let _ = before;
        match number {
            Number::Integer(text) | Number::Numeric(text) => {
                let (negative, digits) = match text.strip_prefix('-') {
                    Some(digits) => (true, digits),
                    None => (false, text.as_str()),
                };
                if digits.starts_with(|letter: char| !letter.is_ascii_digit()) {
                    return (negative, digits.to_owned(), behind);
                }
                let rounded = rounded(digits, self.shift, behind);
                let is_zero = rounded.bytes().all(|byte| byte == b'0' || byte == b'.');
                let is_integer = matches!(number, Number::Integer(_));
                (negative && (is_integer || !is_zero), rounded, behind)
            }
            Number::Float(value, most) => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
                let value = value * 10_f64.powi(self.shift as i32);
                let whole = match value.is_infinite() {
                    true => "Infinity".to_owned(),
                    false => format!("{:.0}", value.abs()),
                };
                let behind = if whole.len() >= *most {
                    0
                } else {
                    behind.min(most - whole.len())
                };
                if value.is_infinite() {
                    return (value < 0.0, whole, behind);
                }
                let text = format!("{value:.behind$}");
                match text.strip_prefix('-') {
                    Some(digits) => (true, digits.to_owned(), behind),
                    None => (false, text, behind),
                }
            }
        }
    }

    fn write_roman(&self, number: &Number) -> String {
        let text = match number {
            Number::Integer(text) | Number::Numeric(text) => match text.strip_prefix('-') {
                Some(_) => "-1".to_owned(),
                None => rounded(text, 0, 0),
            },
            Number::Float(value, _) => format!("{:.0}", value.round_ties_even()),
        };
        let roman = text
            .parse::<u32>()
            .ok()
            .filter(|value| (1..4000).contains(value))
            .map_or_else(|| "#".repeat(15), roman);
        let mut out = String::new();
        for node in &self.nodes {
            match node {
                Node::Key(Key::Roman(case)) => {
                    let roman = match case {
                        Case::Lower => roman.to_lowercase(),
                        _ => roman.clone(),
                    };
                    if self.is_filled {
                        out.push_str(&roman);
                    } else {
                        out.push_str(&format!("{roman:>15}"));
                    }
                }
                Node::Char(letter) => out.push(*letter),
                Node::Key(_) => {}
            }
        }
        out
    }

    fn scientific(&self, number: &Number) -> String {
        let shown = match number {
            Number::Integer(text) | Number::Numeric(text) => {
                if !text.bytes().any(|byte| byte.is_ascii_digit()) {
                    // Infinity or NaN: a # for each digit position.
                    return format!(
                        " {}.{}",
                        "#".repeat(self.before),
                        "#".repeat(self.behind + 4)
                    );
                }
                exponential(text, self.behind)
            }
            Number::Float(value, _) if !value.is_finite() => {
                return format!(
                    " {}.{}",
                    "#".repeat(self.before),
                    "#".repeat(self.behind + 4)
                );
            }
            Number::Float(value, _) => {
                let text = format!("{value:.*e}", self.behind);
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let exponent: i32 = exponent.parse().unwrap_or(0);
                let sign = if exponent < 0 { '-' } else { '+' };
                format!("{digits}e{sign}{:02}", exponent.abs())
            }
        };
        if shown.starts_with('-') {
            shown
        } else {
            format!(" {shown}")
        }
    }
}

/// The digits times ten to the `shift`, rounded half up to `scale` decimal places.
fn rounded(digits: &str, shift: usize, scale: usize) -> String {
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let mut all: Vec<u8> = whole.bytes().chain(part.bytes()).collect();
    let mut point = whole.len() + shift;
    while all.len() < point + scale {
        all.push(b'0');
    }
    let cut = point + scale;
    let up = all.get(cut).is_some_and(|digit| *digit >= b'5');
    all.truncate(cut);
    if up {
        let mut at = all.len();
        loop {
            if at == 0 {
                all.insert(0, b'1');
                point += 1;
                break;
            }
            at -= 1;
            if all[at] == b'9' {
                all[at] = b'0';
            } else {
                all[at] += 1;
                break;
            }
        }
    }
    let text: String = all.iter().map(|digit| char::from(*digit)).collect();
    let (whole, part) = text.split_at(point);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if scale == 0 {
        whole.to_owned()
    } else {
        format!("{whole}.{part}")
    }
}

/// The exponential form of a decimal text: `1.23e+02`.
fn exponential(text: &str, scale: usize) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all: String = format!("{whole}{part}");
    let Some(first) = all.find(|digit| digit != '0') else {
        let zeros = if scale == 0 {
            String::new()
        } else {
            format!(".{}", "0".repeat(scale))
        };
        return format!("0{zeros}e+00");
    };
    let significant = &all[first..];
    let mut exponent =
        i64::try_from(whole.len()).unwrap_or(0) - i64::try_from(first).unwrap_or(0) - 1;
    let shifted = format!("{}.{}", &significant[..1], &significant[1..]);
    let mut mantissa = rounded(&shifted, 0, scale);
    if mantissa.starts_with("10") {
        exponent += 1;
        mantissa = rounded(&format!("1.{}", "0".repeat(scale)), 0, scale);
    }
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.abs())
}

fn roman(mut value: u32) -> String {
    const PARTS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut out = String::new();
    for (part, name) in PARTS {
        while value >= part {
            out.push_str(name);
            value -= part;
        }
    }
    out
}

/// The state of writing a number's digits into the pattern.
struct Writer<'a> {
    pattern: &'a NumberPattern,
    digits: &'a [u8],
    /// The index of the next digit.
    at: usize,
    /// The last digit that the FM modifier keeps, or the decimal point if no digit after it is
    /// kept.
    last: Option<usize>,
    negative: bool,
    has_brackets: bool,
    sign: SignPlace,
    sign_written: bool,
    spaces: usize,
    /// The number of positions written so far, and of all positions.
    place: usize,
    places: usize,
    behind: usize,
    /// Whether the previous position held a digit of the number.
    in_number: bool,
    /// Whether the digits ended before the positions: PostgreSQL then writes nothing more.
    is_over: bool,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(
        pattern: &'a NumberPattern,
        before: usize,
        behind: usize,
        negative: bool,
        digits: &'a str,
        spaces: usize,
    ) -> Self {
        let filled = pattern.is_filled;
        let mut has_brackets = pattern.has_brackets;
        let mut sign = pattern.sign;
        let sign_written = if pattern.has_plus || pattern.has_minus {
            !pattern.has_plus || pattern.has_minus
        } else {
            if !negative && has_brackets && filled {
                has_brackets = false;
            }
            if sign == SignPlace::Before && before == pattern.sign_at {
                sign = SignPlace::Behind;
            }
            !negative && filled && !pattern.has_sign
        };
        let mut places = (before + behind).saturating_sub(1);
        let last = (filled && pattern.has_point)
            .then(|| last_relevant(pattern, digits, spaces))
            .flatten();
        if !sign_written && spaces == 0 {
            places += 1;
        }
        Self {
            pattern,
            digits: digits.as_bytes(),
            at: 0,
            last,
            negative,
            has_brackets,
            sign,
            sign_written,
            spaces,
            place: 0,
            places,
            behind,
            in_number: false,
            is_over: false,
            out: String::new(),
        }
    }

    fn run(mut self) -> String {
        let filled = self.pattern.is_filled;
        for node in &self.pattern.nodes {
            if self.is_over {
                break;
            }
            let key = match node {
                Node::Char(letter) => {
                    self.out.push(*letter);
                    continue;
                }
                Node::Key(key) => *key,
            };
            match key {
                Key::Nine | Key::Zero | Key::Point | Key::Decimal => self.digit(key),
                Key::Comma | Key::Group => match (self.in_number, filled) {
                    (true, _) => self.out.push(','),
                    (false, true) => {}
                    (false, false) => self.out.push(' '),
                },
                Key::Currency => self.out.push(' '),
                Key::Minus | Key::Plus => {
                    let (shown, letter) = if key == Key::Minus {
                        (self.negative, '-')
                    } else {
                        (!self.negative, '+')
                    };
                    if shown {
                        self.out.push(letter);
                    } else if !filled {
                        self.out.push(' ');
                    }
                }
                Key::BothSigns => self.out.push(if self.negative { '-' } else { '+' }),
                Key::Ordinal(case) => {
                    let digits = std::str::from_utf8(self.digits).unwrap_or("");
                    if !digits.starts_with('#') && !self.negative && !self.pattern.has_point {
                        self.out.push_str(ordinal(digits, case));
                    }
                }
                _ => {}
            }
        }
        self.out
    }

    fn is_last_the_point(&self) -> bool {
        self.last
            .is_some_and(|last| self.digits.get(last) == Some(&b'.'))
    }

    /// Whether the only digit before the decimal point is a 0 that is not shown.
    fn hides_zero(&self) -> bool {
        !self.pattern.has_zero
            && self.at == 0
            && self.digits.first() == Some(&b'0')
            && self.behind != 0
    }

    fn put_sign(&mut self) {
        let begins = self.place >= self.spaces
            || (self.pattern.has_zero && self.pattern.zero_start == self.place);
        if self.sign_written || !begins || (self.hides_zero() && !self.is_last_the_point()) {
            return;
        }
        if self.pattern.has_sign {
            if self.sign == SignPlace::Before {
                self.out.push(if self.negative { '-' } else { '+' });
                self.sign_written = true;
            }
            return;
        }
        if self.has_brackets {
            self.out.push(if self.negative { '<' } else { ' ' });
        } else if self.negative {
            self.out.push('-');
        } else if !self.pattern.is_filled {
            self.out.push(' ');
        }
        self.sign_written = true;
    }

    fn digit(&mut self, key: Key) {
        self.in_number = false;
        self.put_sign();
        let filled = self.pattern.is_filled;
        let has_zero = self.pattern.has_zero;
        if self.place < self.spaces && (self.pattern.zero_start > self.place || !has_zero) {
            if !filled {
                self.out.push(' ');
            }
        } else if self.place < self.spaces {
            self.out.push('0');
            self.in_number = true;
        } else {
            self.put_digit(key);
        }
        self.end();
        self.place += 1;
    }

    fn put_digit(&mut self, key: Key) {
        let filled = self.pattern.is_filled;
        match self.digits.get(self.at) {
            Some(b'.') => {
                if !self.is_last_the_point() || filled {
                    self.out.push('.');
                }
            }
            digit => {
                let is_beyond = self.last.is_some_and(|last| self.at > last);
                if is_beyond && key != Key::Zero {
                    // A trailing zero that FM drops.
                } else if self.hides_zero() {
                    if !filled {
                        self.out.push(' ');
                    } else if self.is_last_the_point() {
                        self.out.push('0');
                    }
                } else if let Some(digit) = digit {
                    self.out.push(char::from(*digit));
                    self.in_number = true;
                } else {
                    self.is_over = true;
                }
            }
        }
        if self.at < self.digits.len() {
            self.at += 1;
        }
    }

    /// Writes what follows the last digit.
    fn end(&mut self) {
        if self.is_over {
            return;
        }
        let mut end =
            self.places + usize::from(self.spaces > 0) + usize::from(self.pattern.has_point);
        if self.last == Some(self.at) {
            end = self.place;
        }
        if self.place + 1 != end {
            return;
        }
        if self.sign_written && self.has_brackets {
            self.out.push(if self.negative { '>' } else { ' ' });
        } else if self.pattern.has_sign && self.sign == SignPlace::Behind {
            self.out.push(if self.negative { '-' } else { '+' });
        }
    }
}

/// The last digit after the decimal point that is not 0, or the point; if the pattern has a 0, at
/// least the digit in that position.
fn last_relevant(pattern: &NumberPattern, digits: &str, spaces: usize) -> Option<usize> {
    let point = digits.find('.')?;
    let mut last = point;
    for (at, digit) in digits.bytes().enumerate().skip(point + 1) {
        if digit != b'0' {
            last = at;
        }
    }
    if pattern.zero_end > spaces {
        let zero = (digits.len() - 1).min(pattern.zero_end - spaces);
        last = last.max(zero);
    }
    Some(last)
}
