//! Clients that have not been authenticated yet, and which of them makes room for the next.
//!
//! Anybody can open sockets and say nothing. Such strangers have places of their own, so they never
//! take the place of a client that is served. When their places are all taken, the address that
//! holds most of them gives up its oldest stranger. So a flood from one address keeps out that
//! address only, and nobody waits for a timeout.
//!
//! N1: at most `STRANGERS_MAX` strangers at a time. N2: a client that was let in is not sent away
//! as a stranger.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// The strangers of a server, oldest first.
#[derive(Clone, Default)]
pub(crate) struct Strangers {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    queue: VecDeque<Stranger>,
}

struct Stranger {
    number: u64,
    address: IpAddr,
    /// `None` until its task has started.
    task: Option<AbortHandle>,
}

/// A stranger's place. Dropping it gives the place back.
pub(crate) struct Place {
    strangers: Strangers,
    number: u64,
}

impl Strangers {
    /// Takes a place. Another stranger may be sent away for it.
    pub(crate) fn enter(&self, address: IpAddr) -> Place {
        let mut waiting = self.lock();
        if waiting.queue.len() >= STRANGERS_MAX {
            waiting.send_one_away(address);
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.queue.push_back(Stranger {
            number,
            address,
            task: None,
        });
        Place {
            strangers: self.clone(),
            number,
        }
    }

    /// Records which task serves the stranger.
    pub(crate) fn served_by(&self, number: u64, task: AbortHandle) {
        let mut waiting = self.lock();
        let mut queue = waiting.queue.iter_mut();
        if let Some(stranger) = queue.find(|stranger| stranger.number == number) {
            stranger.task = Some(task);
        }
    }

    /// Sends away the oldest stranger of the address that has most. Returns whether there was one.
    pub(crate) fn make_room(&self) -> bool {
        let mut waiting = self.lock();
        match waiting.queue.front().map(|oldest| oldest.address) {
            Some(address) => waiting.send_one_away(address),
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics under the lock, and a queue is whole between any two of its operations.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Sends one stranger away. `newcomer` counts as one more of its address.
    fn send_one_away(&mut self, newcomer: IpAddr) -> bool {
        let mut counts: HashMap<IpAddr, usize> = HashMap::from([(newcomer, 1)]);
        for stranger in &self.queue {
            *counts.entry(stranger.address).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or_default();
        let oldest = self
            .queue
            .iter()
            .position(|stranger| stranger.task.is_some() && counts[&stranger.address] == most)
            .or_else(|| {
                self.queue
                    .iter()
                    .position(|stranger| stranger.task.is_some())
            });
        let Some(task) = oldest
            .and_then(|place| self.queue.remove(place))
            .and_then(|stranger| stranger.task)
        else {
            return false;
        };
        task.abort();
        true
    }
}

impl Place {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// N2: the client is not a stranger from now on. False if it has just been sent away.
    pub(crate) fn leave(self) -> bool {
        self.strangers.remove(self.number)
    }
}

impl Strangers {
    fn remove(&self, number: u64) -> bool {
        let mut waiting = self.lock();
        let place = waiting.queue.iter().position(|s| s.number == number);
        place
            .and_then(|place| waiting.queue.remove(place))
            .is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.strangers.remove(self.number);
    }
}

/// Room for handshakes of clients that connect all at once.
pub(crate) const STRANGERS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_address_with_most_strangers_loses_its_oldest() {
        let strangers = Strangers::default();
        let (many, few) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let enter = |address| {
            let place = strangers.enter(address);
            let task = tokio::spawn(std::future::pending::<()>());
            strangers.served_by(place.number(), task.abort_handle());
            (place, task)
        };
        let first = enter(few);
        let mut flood: Vec<_> = (1..STRANGERS_MAX).map(|_| enter(many)).collect();
        let newcomer = enter(few);
        let (place, task) = flood.remove(0);
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(!place.leave(), "it was sent away");
        for (place, task) in flood.into_iter().chain([first, newcomer]) {
            assert!(!task.is_finished());
            assert!(place.leave());
        }
        assert!(!strangers.make_room());
    }
}
