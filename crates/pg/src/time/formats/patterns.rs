//! The patterns of `to_char`, `to_date` and `to_timestamp` for dates and times.

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::time) enum Node {
    Field(FieldNode),
    Space(char),
    /// Punctuation outside quotes.
    Separator(char),
    Char(char),
}

/// A field with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::time) struct FieldNode {
    pub(super) key: Key,
    /// Its spelling in the pattern.
    pub(in crate::time) name: &'static str,
    /// `FM`: no padding.
    pub(super) fill: bool,
    /// `TM`: names are not padded.
    pub(super) translated: bool,
    pub(super) ordinal: Option<Case>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::time) enum Case {
    Upper,
    Lower,
    Capital,
}

/// The kind of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::time) enum Key {
    /// `AM`, and whether it has dots.
    HalfOfDay(Case, bool),
    /// `AD`, and whether it has dots.
    Era(Case, bool),
    Century,
    DayName(Case),
    DayShort(Case),
    DayOfYear,
    DayOfMonth,
    DayOfWeek,
    /// `FF1` to `FF6`.
    Fraction(u32),
    /// `FX`: spaces are significant.
    Exact,
    Hour24,
    Hour12,
    IsoDayOfYear,
    IsoDayOfWeek,
    IsoWeek,
    /// `IYYY` to `I`, with the number of digits.
    IsoYear(u32),
    Julian,
    Minute,
    Month,
    MonthName(Case),
    MonthShort(Case),
    Millisecond,
    Microsecond,
    Offset,
    Quarter,
    Roman(Case),
    SecondOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    Zone(Case),
    Week,
    WeekOfMonth,
    /// `Y,YYY`.
    YearWithComma,
    /// `YYYY` to `Y`, with the number of digits.
    Year(u32),
}

impl Key {
    /// Whether the field consists of digits, so that the field before it has a fixed width.
    pub(super) fn is_digits(self) -> bool {
        !matches!(
            self,
            Self::HalfOfDay(..)
                | Self::Era(..)
                | Self::DayName(_)
                | Self::DayShort(_)
                | Self::Exact
                | Self::MonthName(_)
                | Self::MonthShort(_)
                | Self::Offset
                | Self::Roman(_)
                | Self::ZoneHour
                | Self::Zone(_)
        )
    }
}

/// Fields by their spelling; a spelling precedes its own prefixes.
const KEYS: &[(&str, Key)] = {
    use Case::{Capital, Lower, Upper};
    &[
        ("A.D.", Key::Era(Upper, true)),
        ("A.M.", Key::HalfOfDay(Upper, true)),
        ("AD", Key::Era(Upper, false)),
        ("AM", Key::HalfOfDay(Upper, false)),
        ("B.C.", Key::Era(Upper, true)),
        ("BC", Key::Era(Upper, false)),
        ("CC", Key::Century),
        ("DAY", Key::DayName(Upper)),
        ("DDD", Key::DayOfYear),
        ("DD", Key::DayOfMonth),
        ("DY", Key::DayShort(Upper)),
        ("Day", Key::DayName(Capital)),
        ("Dy", Key::DayShort(Capital)),
        ("D", Key::DayOfWeek),
        ("FF1", Key::Fraction(1)),
        ("FF2", Key::Fraction(2)),
        ("FF3", Key::Fraction(3)),
        ("FF4", Key::Fraction(4)),
        ("FF5", Key::Fraction(5)),
        ("FF6", Key::Fraction(6)),
        ("FX", Key::Exact),
        ("HH24", Key::Hour24),
        ("HH12", Key::Hour12),
        ("HH", Key::Hour12),
        ("IDDD", Key::IsoDayOfYear),
        ("ID", Key::IsoDayOfWeek),
        ("IW", Key::IsoWeek),
        ("IYYY", Key::IsoYear(4)),
        ("IYY", Key::IsoYear(3)),
        ("IY", Key::IsoYear(2)),
        ("I", Key::IsoYear(1)),
        ("J", Key::Julian),
        ("MI", Key::Minute),
        ("MM", Key::Month),
        ("MONTH", Key::MonthName(Upper)),
        ("MON", Key::MonthShort(Upper)),
        ("MS", Key::Millisecond),
        ("Month", Key::MonthName(Capital)),
        ("Mon", Key::MonthShort(Capital)),
        ("OF", Key::Offset),
        ("P.M.", Key::HalfOfDay(Upper, true)),
        ("PM", Key::HalfOfDay(Upper, false)),
        ("Q", Key::Quarter),
        ("RM", Key::Roman(Upper)),
        ("SSSSS", Key::SecondOfDay),
        ("SSSS", Key::SecondOfDay),
        ("SS", Key::Second),
        ("TZH", Key::ZoneHour),
        ("TZM", Key::ZoneMinute),
        ("TZ", Key::Zone(Upper)),
        ("US", Key::Microsecond),
        ("WW", Key::Week),
        ("W", Key::WeekOfMonth),
        ("Y,YYY", Key::YearWithComma),
        ("YYYY", Key::Year(4)),
        ("YYY", Key::Year(3)),
        ("YY", Key::Year(2)),
        ("Y", Key::Year(1)),
        ("a.d.", Key::Era(Lower, true)),
        ("a.m.", Key::HalfOfDay(Lower, true)),
        ("ad", Key::Era(Lower, false)),
        ("am", Key::HalfOfDay(Lower, false)),
        ("b.c.", Key::Era(Lower, true)),
        ("bc", Key::Era(Lower, false)),
        ("cc", Key::Century),
        ("day", Key::DayName(Lower)),
        ("ddd", Key::DayOfYear),
        ("dd", Key::DayOfMonth),
        ("dy", Key::DayShort(Lower)),
        ("d", Key::DayOfWeek),
        ("ff1", Key::Fraction(1)),
        ("ff2", Key::Fraction(2)),
        ("ff3", Key::Fraction(3)),
        ("ff4", Key::Fraction(4)),
        ("ff5", Key::Fraction(5)),
        ("ff6", Key::Fraction(6)),
        ("fx", Key::Exact),
        ("hh24", Key::Hour24),
        ("hh12", Key::Hour12),
        ("hh", Key::Hour12),
        ("iddd", Key::IsoDayOfYear),
        ("id", Key::IsoDayOfWeek),
        ("iw", Key::IsoWeek),
        ("iyyy", Key::IsoYear(4)),
        ("iyy", Key::IsoYear(3)),
        ("iy", Key::IsoYear(2)),
        ("i", Key::IsoYear(1)),
        ("j", Key::Julian),
        ("mi", Key::Minute),
        ("mm", Key::Month),
        ("month", Key::MonthName(Lower)),
        ("mon", Key::MonthShort(Lower)),
        ("ms", Key::Millisecond),
        ("of", Key::Offset),
        ("p.m.", Key::HalfOfDay(Lower, true)),
        ("pm", Key::HalfOfDay(Lower, false)),
        ("q", Key::Quarter),
        ("rm", Key::Roman(Lower)),
        ("sssss", Key::SecondOfDay),
        ("ssss", Key::SecondOfDay),
        ("ss", Key::Second),
        ("tzh", Key::ZoneHour),
        ("tzm", Key::ZoneMinute),
        ("tz", Key::Zone(Lower)),
        ("us", Key::Microsecond),
        ("ww", Key::Week),
        ("w", Key::WeekOfMonth),
        ("y,yyy", Key::YearWithComma),
        ("yyyy", Key::Year(4)),
        ("yyy", Key::Year(3)),
        ("yy", Key::Year(2)),
        ("y", Key::Year(1)),
    ]
};

/// Parses a pattern.
pub(super) fn nodes(pattern: &str) -> Vec<Node> {
    let mut rest = pattern;
    let mut nodes = vec![];
    while !rest.is_empty() {
        let (mut fill, mut translated) = (false, false);
        if let Some(more) = strip(rest, &["FM", "fm"]) {
            (fill, rest) = (true, more);
        } else if let Some(more) = strip(rest, &["TM", "tm"]) {
            (translated, rest) = (true, more);
        }
        let found = KEYS.iter().find(|(name, _)| rest.starts_with(name));
        if let Some((name, key)) = found {
            rest = &rest[name.len()..];
            let mut ordinal = None;
            if let Some(more) = rest.strip_prefix("TH") {
                (ordinal, rest) = (Some(Case::Upper), more);
            } else if let Some(more) = rest.strip_prefix("th") {
                (ordinal, rest) = (Some(Case::Lower), more);
            } else if let Some(more) = rest.strip_prefix("SP") {
                // Spelled-out numbers are accepted and ignored.
                rest = more;
            }
            nodes.push(Node::Field(FieldNode {
                key: *key,
                name,
                fill,
                translated,
                ordinal,
            }));
            continue;
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = literal(quoted, &mut nodes);
            continue;
        }
        if rest.starts_with("\\\"") {
            rest = &rest[1..];
        }
        let Some(letter) = rest.chars().next() else {
            break;
        };
        rest = &rest[letter.len_utf8()..];
        nodes.push(if is_separator(letter) {
            Node::Separator(letter)
        } else if letter.is_ascii_whitespace() || letter == '\x0b' {
            Node::Space(letter)
        } else {
            Node::Char(letter)
        });
    }
    nodes
}

/// Parses text up to the closing quote.
fn literal<'a>(quoted: &'a str, nodes: &mut Vec<Node>) -> &'a str {
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '"' => break,
            '\\' => letters.next().unwrap_or('\\'),
            other => other,
        };
        nodes.push(Node::Char(letter));
    }
    letters.as_str()
}

fn strip<'a>(text: &'a str, prefixes: &[&str]) -> Option<&'a str> {
    prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))
}

/// Whether a character in a pattern or a text separates fields.
pub(super) fn is_separator(letter: char) -> bool {
    letter.is_ascii_graphic() && !letter.is_ascii_alphanumeric()
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
/// In reverse order: January is the last.
pub(super) const ROMAN: [&str; 12] = [
    "XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I",
];
