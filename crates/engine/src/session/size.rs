//! How sizes in bytes are written in settings and flags.
//!
//! `1048576`, `64KB`, `16 MiB`, `1.5GB`, `25%` of something. Decimal prefixes without an `i` are
//! powers of 1000, as on the label of a disk; with an `i` they are powers of 1024.

/// What a size was given as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    /// So many bytes.
    Bytes(u64),
    /// A share of a whole, 0 to 1.
    Share(f64),
}

/// Reads a size in bytes, or a share of something (`25%`).
///
/// # Errors
/// A sentence that says what would have been understood.
pub(crate) fn parse(text: &str) -> Result<Size, String> {
    let wrong = || {
        format!(
            "'{text}' is not a size: write bytes (1048576), KB, MB, GB, KiB, MiB, GiB (16MiB, 1.5GB) or a share (25%)"
        )
    };
    let trimmed = text.trim();
    let digits = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let number: f64 = number.replace('_', "").parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    if unit == "%" {
        return (number <= 100.0)
            .then_some(Size::Share(number / 100.0))
            .ok_or_else(wrong);
    }
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "ki" | "kib" => 1024.0,
        "mi" | "mib" => 1024.0 * 1024.0,
        "gi" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "ti" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = number * factor;
    // Beyond 2^63 is a typing error, and below it the conversion is exact enough.
    if !(0.0..9.2e18).contains(&bytes) {
        return Err(wrong());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // In range, as was just checked.
    Ok(Size::Bytes(bytes as u64))
}

/// Reads a size in bytes; a share is refused.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    match parse(text)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Share(_) => Err(format!(
            "'{text}' is a share; a number of bytes is needed here"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_as_people_write_them() {
        assert_eq!(parse("1048576"), Ok(Size::Bytes(1 << 20)));
        assert_eq!(parse("16 MiB"), Ok(Size::Bytes(16 << 20)));
        assert_eq!(parse("1.5GB"), Ok(Size::Bytes(1_500_000_000)));
        assert_eq!(parse("25%"), Ok(Size::Share(0.25)));
        assert_eq!(parse("0"), Ok(Size::Bytes(0)));
    }

    #[test]
    fn nonsense_is_refused_with_the_nonsense_in_the_message() {
        for text in ["", "MB", "12 parsecs", "-1", "101%", "1e99GB"] {
            let message = parse(text).expect_err(text);
            assert!(message.contains(text), "{message}");
        }
        assert!(parse_bytes("25%").is_err());
    }
}
