//! A network between the devices and the machine: bandwidth, and a price per message.
//!
//! Idea: the bytes of a finished read are a message. Messages of all devices use one link, one at a
//! time in the order of sending, and arrive with their last byte. The devices continue meanwhile.
//! Bounds: the queue holds the messages that have not arrived; the core bounds them (`loads_max`,
//! its budget).

use std::collections::VecDeque;

/// The costs of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkModel {
    /// Bandwidth, bytes per second. At least 1.
    pub bytes_per_second: u64,
    /// Price of a message of any size, during which the link is in use. Nanoseconds.
    pub message_ns: u64,
}

impl NetworkModel {
    /// How long a message uses the link. Nanoseconds.
    pub(crate) fn takes_ns(&self, bytes: u64) -> u64 {
        self.message_ns + crate::device::transfer_ns(bytes, self.bytes_per_second)
    }
}

#[derive(Debug)]
pub(crate) struct Network<T> {
    model: NetworkModel,
    /// Messages, each with its time of arrival.
    coming: VecDeque<(u64, T)>,
}

impl<T> Network<T> {
    pub(crate) fn new(model: NetworkModel) -> Self {
        Self {
            model,
            coming: VecDeque::new(),
        }
    }

    pub(crate) fn send(&mut self, now: u64, bytes: u64, message: T) {
        let free_at = self.coming.back().map_or(now, |&(at, _)| at.max(now));
        let at = free_at + self.model.takes_ns(bytes);
        self.coming.push_back((at, message));
    }

    /// When the next message arrives.
    pub(crate) fn next(&self) -> Option<u64> {
        self.coming.front().map(|&(at, _)| at)
    }

    /// The message that arrives now.
    pub(crate) fn receive(&mut self) -> Option<T> {
        self.coming.pop_front().map(|(_, message)| message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_one_at_a_time() {
        let mut network = Network::new(NetworkModel {
            bytes_per_second: 1_000_000_000,
            message_ns: 10,
        });
        network.send(0, 100, 'a');
        network.send(50, 200, 'b');
        assert_eq!((network.next(), network.receive()), (Some(110), Some('a')));
        assert_eq!((network.next(), network.receive()), (Some(320), Some('b')));
        network.send(1_000, 0, 'c');
        assert_eq!(
            (network.next(), network.receive()),
            (Some(1_010), Some('c'))
        );
        assert_eq!(network.next(), None);
    }
}
