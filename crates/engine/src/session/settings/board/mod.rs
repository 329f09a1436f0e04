//! How does a query read the session's settings, and how does it change one?
//!
//! `current_setting()` (`functions.rs`) and a server's `pg_settings` read the values that the
//! session has published here. `set_config()` leaves a request, which is carried out once the
//! statement has run; what SET would refuse is refused.
//! Idea: an extension of the session's configuration. Whoever opens the session adds it there, and
//! registers the functions; without it queries read nothing.
//!
//! B1: a statement that has failed on one thread may still run on another, and leave a request a
//! moment later. So each request carries the turn in which its statement was planned. A failure
//! begins the next turn, and requests of earlier turns are ignored.

mod functions;

use std::collections::BTreeMap;

use parking_lot::Mutex;

pub use self::functions::register_functions;
use super::custom::CUSTOM_BYTES_MAX;
use super::modes::READ_ONLY;

/// The most bytes for the names and values of one statement's requests together.
const REQUESTS_BYTES_MAX: usize = 1 << 14;

/// A setting as queries see it.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// In PostgreSQL's spelling.
    pub name: &'static str,
    /// As SHOW shows it.
    pub value: String,
    /// The value before anything is configured.
    pub default: &'static str,
    /// The value that RESET restores.
    pub reset: String,
    /// Where the value comes from (`pg_settings.source`).
    pub source: &'static str,
    /// Whether SET refuses it.
    pub is_fixed: bool,
}

/// Shared by the [`SessionSettings`](super::SessionSettings) and the functions of a session.
#[derive(Debug, Default)]
pub struct Board {
    values: Mutex<Vec<Published>>,
    requests: Mutex<Requests>,
    /// The client's own settings (`custom.rs`), by lower-case name.
    custom: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug, Default)]
struct Requests {
    turn: u64,
    /// The last value requested for each name.
    by_name: BTreeMap<String, Request>,
}

/// A change that `set_config()` asked for.
#[derive(Debug)]
pub struct Request {
    /// The new value.
    pub value: String,
    /// Whether the change lasts only until the end of the transaction.
    pub local: bool,
}

impl Board {
    /// Publishes the values of all settings.
    pub fn publish(&self, values: Vec<Published>) {
        *self.values.lock() = values;
    }

    /// All published settings.
    #[must_use]
    pub fn all(&self) -> Vec<Published> {
        self.values.lock().clone()
    }

    /// The published value of one of PostgreSQL's settings.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<String> {
        let values = self.values.lock();
        let mut found = values
            .iter()
            .filter(|known| known.name.eq_ignore_ascii_case(name));
        found.next().map(|known| known.value.clone())
    }

    /// Whether the current transaction, or the next one, is READ ONLY.
    pub(crate) fn is_read_only(&self) -> bool {
        self.value(READ_ONLY).as_deref() == Some("on")
    }

    /// The value of one of the client's own settings.
    #[must_use]
    pub fn custom(&self, name: &str) -> Option<String> {
        self.custom.lock().get(&name.to_lowercase()).cloned()
    }

    /// Sets one of the client's own settings; false if there is no room for it.
    #[must_use]
    pub(super) fn set_custom(&self, name: &str, value: &str) -> bool {
        let mut custom = self.custom.lock();
        let all = custom.iter().map(|(name, value)| name.len() + value.len());
        let fits = all.sum::<usize>() + name.len() + value.len() <= CUSTOM_BYTES_MAX;
        if fits {
            custom.insert(name.to_lowercase(), value.to_owned());
        }
        fits
    }

    /// All of the client's own settings, to be restored later.
    pub(super) fn all_custom(&self) -> BTreeMap<String, String> {
        self.custom.lock().clone()
    }

    pub(super) fn put_back_custom(&self, custom: BTreeMap<String, String>) {
        *self.custom.lock() = custom;
    }

    pub(super) fn forget_custom(&self, name: &str) {
        self.custom.lock().remove(&name.to_lowercase());
    }

    /// The turn for a statement that is planned now.
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.requests.lock().turn
    }

    /// Leaves a request. False if there is no room for it: those of one statement have 16 KiB.
    #[must_use]
    pub fn request(&self, turn: u64, name: &str, value: &str, local: bool) -> bool {
        let mut requests = self.requests.lock();
        if requests.turn != turn {
            // B1: the request is ignored.
            return true;
        }
        let requests = &mut requests.by_name;
        let all = requests
            .iter()
            .map(|(name, request)| name.len() + request.value.len());
        if all.sum::<usize>() + name.len() + value.len() > REQUESTS_BYTES_MAX {
            return false;
        }
        let value = value.to_owned();
        requests.insert(name.to_lowercase(), Request { value, local });
        true
    }

    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.lock().by_name.is_empty()
    }

    /// Takes the requests that are waiting, by the setting's name.
    #[must_use]
    pub fn take_requests(&self) -> BTreeMap<String, Request> {
        std::mem::take(&mut self.requests.lock().by_name)
    }

    /// Drops all requests, and ignores those of statements planned up to now (B1).
    pub fn end_turn(&self) {
        let mut requests = self.requests.lock();
        requests.by_name.clear();
        requests.turn += 1;
    }
}
