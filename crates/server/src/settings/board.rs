//! What a query can see of the connection's settings, and wish for.
//!
//! `current_setting()` and `pg_settings` read here what the connection has put up; `set_config()`
//! leaves its wish, which the connection carries out when the statement has run, with all that SET
//! would refuse.
//!
//! A statement that fails on one thread may leave a wish from another a moment later, and the next
//! statement of the same connection carries it out: the client is given what it asked for, late.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared by a connection's [`Settings`](super::Settings) and its session's functions.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Names as PostgreSQL writes them, and values.
    values: Mutex<Vec<(&'static str, String)>>,
    /// The last value wished for each name.
    wishes: Mutex<BTreeMap<String, Wish>>,
}

/// What `set_config()` asked for.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) value: String,
    /// To the end of the transaction only.
    pub(crate) local: bool,
}

impl Board {
    pub(crate) fn put_up(&self, values: Vec<(&'static str, String)>) {
        *locked(&self.values) = values;
    }

    /// Every setting with its value, by name.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        locked(&self.values).clone()
    }

    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let values = locked(&self.values);
        let mut found = values
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.clone())
    }

    /// False if it is too much to keep (`WISHES_BYTES_MAX`).
    #[must_use]
    pub(crate) fn want(&self, name: &str, value: &str, local: bool) -> bool {
        let mut wishes = locked(&self.wishes);
        let all = wishes
            .iter()
            .map(|(name, wish)| name.len() + wish.value.len());
        if all.sum::<usize>() + name.len() + value.len() > WISHES_BYTES_MAX {
            return false;
        }
        let value = value.to_owned();
        wishes.insert(name.to_lowercase(), Wish { value, local });
        true
    }

    pub(crate) fn wishes(&self) -> BTreeMap<String, Wish> {
        std::mem::take(&mut *locked(&self.wishes))
    }
}

/// A panic elsewhere leaves whole values behind.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names and values of one statement's wishes together.
const WISHES_BYTES_MAX: usize = 1 << 14;
