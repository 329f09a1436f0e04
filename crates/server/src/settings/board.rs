//! How does a query read the connection's settings, and how does it ask to change one?
//!
//! `current_setting()` and `pg_settings` read the values that the connection has put up here.
//! `set_config()` leaves a wish, which the connection carries out when the statement has run; what
//! SET would refuse is refused.
//!
//! A statement that fails on one thread may still run on another, and leave a wish a moment later.
//! So each wish comes with the turn in which its statement was planned. A failure begins the next
//! turn, in which wishes of earlier turns are not heard (B1).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::custom::CUSTOM_BYTES_MAX;

/// Shared by a connection's [`Settings`](super::Settings) and its session's functions.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Names as PostgreSQL writes them, and values.
    values: Mutex<Vec<(&'static str, String)>>,
    wishes: Mutex<Wishes>,
    /// The client's own settings (`custom.rs`), by names in lower case.
    custom: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug, Default)]
struct Wishes {
    turn: u64,
    /// The last value wished for each name.
    wanted: BTreeMap<String, Wish>,
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

    /// A setting of the client's own.
    pub(crate) fn custom(&self, name: &str) -> Option<String> {
        locked(&self.custom).get(&name.to_lowercase()).cloned()
    }

    /// False if there is no room for it.
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

    /// All settings of the client's own, to come back to.
    pub(super) fn all_custom(&self) -> BTreeMap<String, String> {
        locked(&self.custom).clone()
    }

    pub(super) fn put_back_custom(&self, custom: BTreeMap<String, String>) {
        *locked(&self.custom) = custom;
    }

    pub(super) fn forget_custom(&self, name: &str) {
        locked(&self.custom).remove(&name.to_lowercase());
    }

    /// The turn of a statement that is planned now.
    pub(crate) fn turn(&self) -> u64 {
        locked(&self.wishes).turn
    }

    /// Leaves a wish. False if there is no room for it (`WISHES_BYTES_MAX`).
    #[must_use]
    pub(crate) fn want(&self, turn: u64, name: &str, value: &str, local: bool) -> bool {
        let mut wishes = locked(&self.wishes);
        if wishes.turn != turn {
            // B1: the wish is not heard.
            return true;
        }
        let wishes = &mut wishes.wanted;
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

    pub(crate) fn has_wishes(&self) -> bool {
        !locked(&self.wishes).wanted.is_empty()
    }

    pub(crate) fn wishes(&self) -> BTreeMap<String, Wish> {
        std::mem::take(&mut locked(&self.wishes).wanted)
    }

    /// Drops all wishes, and ignores those that statements planned up to now will leave (B1).
    pub(crate) fn give_up(&self) {
        let mut wishes = locked(&self.wishes);
        wishes.wanted.clear();
        wishes.turn += 1;
    }
}

/// A lock that a panic has poisoned is taken all the same: the values behind it are whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of the names and values of one statement's wishes together.
const WISHES_BYTES_MAX: usize = 1 << 14;
