//! How are the values of settings written?
//!
//! Each function parses one kind of value; its refusal says which values are possible. SET, flags
//! and [`EngineConfig`](crate::EngineConfig) use the same functions.
//! Not here: which setting has which kind (`table.rs`).

use std::str::FromStr;

use coscan_core::UnknownName;
use coscan_quantities::{NotAQuantity, Share, parse_bytes, parse_duration};

use crate::memory::limit;

/// Why a value is refused, as the end of the sentence "coscan.policy cannot be …".
type Refused = String;

/// The value that leaves only the memory budget as a bound.
pub(super) const UNLIMITED: &str = "unlimited";

/// A chunk smaller than a page gains nothing and makes work for all sessions.
const CHUNK_BYTES_MIN: u64 = 4 << 10;
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// A longer label is a mistake, and would be copied into every trace event.
const LABEL_CHARS_MAX: usize = 200;

/// A smaller budget cannot hold one page of each column of any real table.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// Whether an engine may be configured with chunks of this size. They may be smaller than those
/// that a session may SET.
pub(super) fn check_chunk_bytes(bytes: u64) -> Result<u64, Refused> {
    if (1..=CHUNK_BYTES_MAX).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("{bytes} bytes; it is between 1 and 1GiB"))
    }
}

/// One of the known names.
pub(super) fn named<T: FromStr<Err = UnknownName>>(value: &str) -> Result<T, Refused> {
    value
        .trim()
        .parse()
        .map_err(|error: UnknownName| error.to_string())
}

/// `on` or `off`.
pub(super) fn switch(value: &str) -> Result<bool, Refused> {
    match value.trim().to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err(format!("'{value}'; it is on or off")),
    }
}

pub(super) fn show_switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// A size in bytes.
pub(super) fn bytes(value: &str) -> Result<u64, Refused> {
    parse_bytes(value).map_err(|_| format!("'{value}'; it is a size such as 64MiB or 1.5GB"))
}

/// A size in bytes; `None` for `unlimited`.
pub(super) fn bytes_or_unlimited(value: &str) -> Result<Option<u64>, Refused> {
    match value.trim() {
        UNLIMITED => Ok(None),
        size => bytes(size).map(Some),
    }
}

/// A target size of chunks that a session may SET.
pub(super) fn chunk_bytes(value: &str) -> Result<u64, Refused> {
    let bytes = bytes(value)?;
    if (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("{bytes} bytes; it is between 4KiB and 1GiB"))
    }
}

/// The value that leaves the choice to the engine.
pub(super) const AUTO: &str = "auto";

/// A number of devices; `None` for `auto`.
pub(super) fn parallelism(value: &str) -> Result<Option<u32>, Refused> {
    let value = value.trim();
    if value.eq_ignore_ascii_case(AUTO) {
        return Ok(None);
    }
    match value.parse() {
        Ok(0) | Err(_) => Err(format!("'{value}'; it is auto or a number from 1")),
        Ok(devices) => Ok(Some(devices)),
    }
}

/// A number of rows.
pub(super) fn rows(value: &str) -> Result<u64, Refused> {
    let number = value.trim().parse();
    number.map_err(|_| format!("'{value}'; it is a number of rows"))
}

/// A time with its unit, in milliseconds.
pub(super) fn milliseconds(value: &str) -> Result<u64, Refused> {
    let wrong = || format!("'{value}'; it is a time such as 500ms or 10s");
    if !value.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return Err(wrong());
    }
    let time = parse_duration(value).map_err(|_| wrong())?;
    u64::try_from(time.as_millis()).map_err(|_| wrong())
}

/// A text that names scans.
pub(super) fn label(value: &str) -> Result<String, Refused> {
    if value.chars().count() > LABEL_CHARS_MAX {
        return Err(format!("a text of more than {LABEL_CHARS_MAX} characters"));
    }
    Ok(value.to_owned())
}

/// A memory budget: a size, or a share of what the process may use.
pub(super) fn memory(value: &str) -> Result<u64, Refused> {
    let wrong = |_: NotAQuantity| {
        format!("'{value}'; it is a size such as 2GB, or a share of the memory such as 50%")
    };
    let share: Share = value.parse().map_err(wrong)?;
    check_memory(share.of(limit::available_bytes()))
}

/// Checks that the process may have a budget of this size.
fn check_memory(bytes: u64) -> Result<u64, Refused> {
    let available = limit::available_bytes();
    if bytes < MEMORY_BYTES_MIN {
        return Err(format!("{bytes} bytes; at least 1MiB is needed"));
    }
    if bytes > available {
        return Err(format!(
            "{bytes} bytes; this process may use {available} at most (the smaller of the machine's memory and the control group's)"
        ));
    }
    Ok(bytes)
}
