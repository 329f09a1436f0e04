//! `to_number`: parses a number by a pattern of `to_char`.
//!
//! A position of the pattern consumes a digit, a decimal point or a sign if the text has one
//! there; separators are skipped where they occur.

use super::number_pattern::{Key, Node, NumberPattern, SignPlace};
use crate::PgError;

impl NumberPattern {
    /// The number's text, such as `-12454.8`, for a cast to numeric.
    ///
    /// # Errors
    /// 22003, if there are more digits before the decimal point than the pattern has positions.
    pub(crate) fn read(&self, text: &str) -> Result<String, PgError> {
        let mut reader = Reader {
            pattern: self,
            text: text.as_bytes(),
            at: 0,
            sign: None,
            digits: String::new(),
            before: 0,
            behind: 0,
            has_point: false,
            in_number: false,
        };
        for node in &self.nodes {
            if reader.at >= reader.text.len() {
                break;
            }
            reader.node(node)?;
        }
        let digits = reader.digits.trim_end_matches('.');
        let whole = digits.split('.').next().unwrap_or(digits);
        if whole.trim_start_matches('0').len() > self.before + self.shift {
            return Err(PgError::new("22003", "numeric field overflow"));
        }
        let sign = reader.sign.map_or(' ', char::from);
        // Positions after a V are decimal places of the number.
        let shift = self.shift;
        Ok(if shift > 0 {
            format!("{sign}{digits}e-{shift}")
        } else {
            format!("{sign}{digits}")
        })
    }
}

struct Reader<'a> {
    pattern: &'a NumberPattern,
    text: &'a [u8],
    at: usize,
    sign: Option<u8>,
    digits: String,
    before: usize,
    behind: usize,
    has_point: bool,
    in_number: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn node(&mut self, node: &Node) -> Result<(), PgError> {
        let key = match node {
            // Matches any character.
            Node::Char(_) => {
                self.at += 1;
                self.skip_continuation();
                return Ok(());
            }
            Node::Key(key) => *key,
        };
        match key {
            Key::Nine | Key::Zero | Key::Point | Key::Decimal => {
                self.place(key);
                self.at += 1;
            }
            Key::Comma | Key::Group => {
                let is_skipped = !self.in_number && self.pattern.is_filled;
                if !is_skipped && self.peek() == Some(b',') {
                    self.at += 1;
                }
            }
            Key::Currency => self.skip_other(1),
            Key::Minus | Key::Plus | Key::BothSigns => self.mark(key),
            Key::Ordinal(_) => self.skip_other(2),
            Key::Roman(_) => {
                return Err(PgError::unsupported("\"RN\" not supported for input"));
            }
            Key::Exponent => {
                return Err(PgError::unsupported("\"EEEE\" not supported for input"));
            }
            _ => {}
        }
        Ok(())
    }

    /// `MI`, `PL` or `SG`.
    fn mark(&mut self, key: Key) {
        let wanted: &[u8] = match key {
            Key::Minus => b"-",
            Key::Plus => b"+",
            _ => b"-+",
        };
        match self.peek() {
            Some(sign) if wanted.contains(&sign) => {
                self.sign = Some(sign);
                self.at += 1;
            }
            _ => self.skip_other(1),
        }
    }

    /// Skips characters that cannot belong to a number.
    fn skip_other(&mut self, most: usize) {
        for _ in 0..most {
            match self.peek() {
                Some(byte) if !b"0123456789.,+-".contains(&byte) => self.at += 1,
                _ => return,
            }
        }
        self.skip_continuation();
    }

    /// Advances to the first byte of the next character.
    fn skip_continuation(&mut self) {
        while self.peek().is_some_and(|byte| byte & 0xC0 == 0x80) {
            self.at += 1;
        }
    }

    /// A position for a digit or the decimal point. The caller advances past the character.
    fn place(&mut self, key: Key) {
        if self.peek() == Some(b' ') {
            self.at += 1;
        }
        let is_digit_place = matches!(key, Key::Nine | Key::Zero);
        if self.sign.is_none() && is_digit_place && self.before + self.behind == 0 {
            match self.peek() {
                Some(b'-') => self.take_sign(b'-'),
                Some(b'+') => self.take_sign(b'+'),
                Some(b'<') if self.pattern.has_brackets => self.take_sign(b'-'),
                _ => {}
            }
        }
        let Some(byte) = self.peek() else {
            return;
        };
        let mut is_read = false;
        if byte.is_ascii_digit() {
            if self.has_point && self.behind == self.pattern.behind {
                return;
            }
            self.digits.push(char::from(byte));
            if self.has_point {
                self.behind += 1;
            } else {
                self.before += 1;
            }
            (is_read, self.in_number) = (true, true);
        } else if byte == b'.' && self.pattern.has_point && !self.has_point {
            self.digits.push('.');
            (is_read, self.has_point) = (true, true);
        }
        if self.sign.is_none() && self.before + self.behind > 0 {
            self.sign_behind(is_read);
        }
    }

    fn take_sign(&mut self, sign: u8) {
        self.sign = Some(sign);
        self.at += 1;
    }

    /// A sign after the last digit.
    fn sign_behind(&mut self, is_read: bool) {
        let pattern = self.pattern;
        if pattern.has_sign && pattern.sign != SignPlace::None {
            match self.text.get(self.at + 1) {
                Some(sign @ (b'-' | b'+')) if is_read => {
                    self.sign = Some(*sign);
                    self.at += 1;
                }
                _ => {}
            }
        } else if !is_read
            && (pattern.has_plus || pattern.has_minus)
            && let Some(sign @ (b'-' | b'+')) = self.peek()
        {
            self.sign = Some(sign);
        }
    }
}
