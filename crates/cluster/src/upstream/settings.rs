//! Which of the session's settings travel with a query?
//!
//! Those that change how a part runs: the chunk size by which all nodes find the same pieces, the
//! time zone, batches, and what is shared. They travel in a header, as hexadecimal JSON, because
//! headers hold ASCII. Settings of a whole engine (`coscan.memory`, `coscan.index_folder`) stay
//! each node's own.
//! Bounds: [`BYTES_MAX`].

use std::fmt::Write;

use coscan_pg::Moments;
use coscan_pg::output::IntervalStyle;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result as PlanResult;
use http::{HeaderMap, HeaderValue};

use super::errors::other_version;
use crate::error::{Error, Result};
use crate::version::VERSION;

/// The header.
const HEADER: &str = "x-coscan-settings";

/// The most bytes of settings; HTTP/2 servers take some 16 kB of headers.
const BYTES_MAX: usize = 4 << 10;

/// When the session's transaction began, in microseconds since 1970. Not a setting, but casts
/// depend on it.
const TRANSACTION: &str = "transaction";

/// The version of the process that sends a part (SENT-I1).
const VERSION_NAME: &str = "version";

/// The settings that always travel.
const SENT: [&str; 15] = [
    "coscan.policy",
    "coscan.storage_model",
    "coscan.chunk_bytes",
    "coscan.small_table_bytes",
    "coscan.cooperative",
    "coscan.share_fragments",
    "coscan.ordered_aggregates",
    "coscan.merge_joins",
    "coscan.share_operators",
    "coscan.parallelism",
    "coscan.label",
    "datafusion.execution.time_zone",
    "datafusion.execution.batch_size",
    "datafusion.execution.target_partitions",
    IntervalStyle::OPTION,
];

/// Whether results are kept for queries to come. How many bytes of them is each node's own.
const STATE_CACHE: (&str, &str) = ("coscan.state_cache", "0");

/// The header of a session with these options.
///
/// # Errors
/// [`Error::Settings`] if they are too long.
pub(super) fn header(options: &ConfigOptions) -> Result<(&'static str, HeaderValue)> {
    let sent = options.entries().into_iter().filter_map(|entry| {
        let value = entry.value?;
        let is_sent = SENT.contains(&entry.key.as_str());
        let keeps_nothing = (entry.key.as_str(), value.as_str()) == STATE_CACHE;
        (is_sent || keeps_nothing).then_some((entry.key, value))
    });
    let mut sent: Vec<(String, String)> = sent.collect();
    sent.push((VERSION_NAME.to_owned(), VERSION.to_owned()));
    if let Some(began) = Moments::of(options).and_then(Moments::transaction) {
        sent.push((TRANSACTION.to_owned(), began.to_string()));
    }
    let text = serde_json::to_string(&sent).map_err(|error| unreadable(&error))?;
    if text.len() > BYTES_MAX {
        return Err(Error::Settings {
            bytes: text.len(),
            most: BYTES_MAX,
        });
    }
    let value = HeaderValue::from_str(&hexadecimal(&text)?).map_err(|error| unreadable(&error))?;
    Ok((HEADER, value))
}

fn hexadecimal(text: &str) -> Result<String> {
    let mut digits = String::with_capacity(2 * text.len());
    for byte in text.bytes() {
        write!(digits, "{byte:02x}").map_err(|error| unreadable(&error))?;
    }
    Ok(digits)
}

/// Sets what came with a query.
///
/// # Errors
/// [`Error::UnreadableSettings`], and those of the settings.
pub(super) fn apply(headers: &HeaderMap, options: &mut ConfigOptions) -> PlanResult<()> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(());
    };
    let sent = parsed(value)?;
    let theirs = sent.iter().find(|(name, _)| name == VERSION_NAME);
    if theirs.is_none_or(|(_, theirs)| theirs != VERSION) {
        return Err(other_version(VERSION));
    }
    for (name, value) in sent {
        if name == VERSION_NAME {
            continue;
        }
        if name == TRANSACTION {
            let began = value.parse().map_err(|error| unreadable(&error))?;
            options.extensions.insert(Moments::of_transaction(began));
        } else if name == IntervalStyle::OPTION {
            let style = IntervalStyle::named(&value).unwrap_or_default();
            options.extensions.insert(style);
        } else {
            options.set(&name, &value)?;
        }
    }
    Ok(())
}

fn parsed(value: &HeaderValue) -> Result<Vec<(String, String)>> {
    let digits = value.to_str().map_err(|error| unreadable(&error))?;
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).map_err(|error| unreadable(&error))?;
        u8::from_str_radix(pair, 16).map_err(|error| unreadable(&error))
    });
    let bytes = bytes.collect::<Result<Vec<u8>>>()?;
    serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))
}

fn unreadable(reason: &dyn std::error::Error) -> Error {
    Error::UnreadableSettings {
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ConfigOptions {
        let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
        coscan::parts::options(&engine)
    }

    #[test]
    fn settings_arrive_as_they_were() {
        let mut sent = options();
        sent.set("coscan.label", "Größe; 'x'").unwrap();
        sent.set("datafusion.execution.time_zone", "Europe/Berlin")
            .unwrap();
        sent.set("coscan.chunk_bytes", "65536").unwrap();
        sent.extensions.insert(Moments::of_transaction(7));
        sent.extensions.insert(IntervalStyle::Iso8601);
        let (name, value) = header(&sent).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(name, value);
        let mut arrived = options();
        apply(&headers, &mut arrived).unwrap();
        assert_eq!(Moments::of(&arrived).unwrap().transaction(), Some(7));
        assert_eq!(IntervalStyle::of(&arrived), IntervalStyle::Iso8601);
        let of = |options: &ConfigOptions| header(options).unwrap().1;
        assert_eq!(of(&arrived), of(&sent));
        assert_ne!(of(&arrived), of(&options()));
    }

    #[test]
    fn parts_of_another_version_are_refused() {
        for text in ["[[\"version\", \"0.0.1\"]]", "[[\"coscan.label\", \"x\"]]"] {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_str(&hexadecimal(text).unwrap());
            headers.insert(HEADER, value.unwrap());
            assert!(apply(&headers, &mut options()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_too_long_or_garbled_is_refused() {
        let mut long = options();
        long.execution.time_zone = Some("x".repeat(BYTES_MAX));
        assert!(matches!(header(&long), Err(Error::Settings { .. })));
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_static("7x"));
        assert!(apply(&headers, &mut options()).is_err());
    }
}
