//! Which names were made by the dialect?
//!
//! The dialect gives columns and tables names that no others have: PostgreSQL's name, a mark, and
//! sometimes a number.

/// Separates PostgreSQL's name of a column from the suffix that makes it unique: the unit
/// separator, which no name contains.
pub(crate) const MARK: char = '\u{1f}';

/// Ends the names of columns that the dialect adds to a query and drops above it.
pub(crate) const DROPPED: char = '\u{1e}';

/// Whether the dialect made a name.
pub(crate) fn is_marked(name: &str) -> bool {
    name.contains(MARK)
}

/// The name of a set's column among those that `*` brings: with two marks, by which
/// `relations/names.rs` knows it.
pub(crate) fn of_set(name: &str, at: usize, place: usize) -> String {
    format!("{name}{MARK}{at}{MARK}{place}")
}

/// Whether [`of_set`] made a name.
pub(crate) fn is_of_set(name: &str) -> bool {
    name.matches(MARK).count() > 1
}

/// PostgreSQL's name, without the mark.
#[must_use]
pub fn on_the_wire(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}

/// A message with PostgreSQL's names in place of marked ones.
pub(crate) fn without_marks(message: String) -> String {
    if !is_marked(&message) {
        return message;
    }
    let mut parts = message.split(MARK);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    let numbers = |letter: char| letter.is_ascii_digit();
    parts.for_each(|part| plain.push_str(part.trim_start_matches(numbers)));
    plain
}
