//! How does a query read the connection's settings, and how does it change one?
//!
//! `current_setting()` and `pg_settings` read the values that the connection has published here.
//! `set_config()` leaves a request, which the connection carries out once the statement has run;
//! what SET would refuse is refused.
//!
//! B1: a statement that has failed on one thread may still run on another, and leave a request a
//! moment later. So each request carries the turn in which its statement was planned. A failure
//! begins the next turn, and requests of earlier turns are ignored.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::custom::CUSTOM_BYTES_MAX;

/// A setting as queries see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// In PostgreSQL's spelling.
    pub(crate) name: &'static str,
    pub(crate) value: String,
    /// The value before anything is configured.
    pub(crate) default: &'static str,
    /// The value that RESET restores.
    pub(crate) reset: String,
    /// Where the value comes from (`pg_settings.source`).
    pub(crate) source: &'static str,
    /// Whether SET refuses it.
    pub(crate) is_fixed: bool,
}

/// Shared by a connection's [`Settings`](super::Settings) and its session's functions.
#[derive(Debug, Default)]
pub(crate) struct Board {
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
pub(crate) struct Request {
    pub(crate) value: String,
    /// Whether the change lasts only until the end of the transaction.
    pub(crate) local: bool,
}

impl Board {
    pub(crate) fn publish(&self, values: Vec<Published>) {
        *locked(&self.values) = values;
    }

    /// All published settings.
    pub(crate) fn all(&self) -> Vec<Published> {
        locked(&self.values).clone()
    }

    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let values = locked(&self.values);
        let mut found = values
            .iter()
            .filter(|known| known.name.eq_ignore_ascii_case(name));
        found.next().map(|known| known.value.clone())
    }

    /// The value of one of the client's own settings.
    pub(crate) fn custom(&self, name: &str) -> Option<String> {
        locked(&self.custom).get(&name.to_lowercase()).cloned()
    }

    /// Sets one of the client's own settings; false if there is no room for it.
    #[must_use]
    pub(super) fn set_custom(&self, name: &str, value: &str) -> bool {
        let mut custom = locked(&self.custom);
        let all = custom.iter().map(|(name, value)| name.len() + value.len());
        let fits = all.sum::<usize>() + name.len() + value.len() <= CUSTOM_BYTES_MAX;
        if fits {
            custom.insert(name.to_lowercase(), value.to_owned());
        }
        fits
    }

    /// All of the client's own settings, to be restored later.
    pub(super) fn all_custom(&self) -> BTreeMap<String, String> {
        locked(&self.custom).clone()
    }

    pub(super) fn put_back_custom(&self, custom: BTreeMap<String, String>) {
        *locked(&self.custom) = custom;
    }

    pub(super) fn forget_custom(&self, name: &str) {
        locked(&self.custom).remove(&name.to_lowercase());
    }

    /// The turn for a statement that is planned now.
    pub(crate) fn turn(&self) -> u64 {
        locked(&self.requests).turn
    }

    /// Leaves a request. False if there is no room for it (`REQUESTS_BYTES_MAX`).
    #[must_use]
    pub(crate) fn request(&self, turn: u64, name: &str, value: &str, local: bool) -> bool {
        let mut requests = locked(&self.requests);
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
        !locked(&self.requests).by_name.is_empty()
    }

    pub(crate) fn take_requests(&self) -> BTreeMap<String, Request> {
        std::mem::take(&mut locked(&self.requests).by_name)
    }

    /// Drops all requests, and ignores those of statements planned up to now (B1).
    pub(crate) fn end_turn(&self) {
        let mut requests = locked(&self.requests);
        requests.by_name.clear();
        requests.turn += 1;
    }
}

/// Takes a lock even if a panic has poisoned it: no panic leaves the values incomplete.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most bytes for the names and values of one statement's requests together.
const REQUESTS_BYTES_MAX: usize = 1 << 14;
