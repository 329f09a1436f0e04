//! A disk: sequential bandwidth, a price for moving the arm, one request at a time in the order issued.

use std::collections::VecDeque;

/// What a device costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// Sequential bandwidth, bytes per second.
    pub bytes_per_second: u64,
    /// Price of a request that does not continue the one before. Nanoseconds.
    pub positioning_ns: u64,
}

/// A request: `at` and `end` say what continues what.
#[derive(Clone, Debug)]
pub(crate) struct Request<T> {
    pub(crate) at: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    pub(crate) tag: T,
}

#[derive(Debug)]
pub(crate) struct Device<T> {
    model: DeviceModel,
    queue: VecDeque<Request<T>>,
    /// When the request in front is done.
    done: u64,
    arm: u64,
}

impl<T> Device<T> {
    pub(crate) fn new(model: DeviceModel) -> Self {
        Self {
            model,
            queue: VecDeque::new(),
            done: 0,
            arm: u64::MAX,
        }
    }

    pub(crate) fn submit(&mut self, now: u64, request: Request<T>) {
        self.queue.push_back(request);
        if self.queue.len() == 1 {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: u64) {
        if let Some(request) = self.queue.front() {
            let positioning = if request.at == self.arm {
                0
            } else {
                self.model.positioning_ns
            };
            let transfer = u128::from(request.bytes) * 1_000_000_000;
            let transfer = transfer / u128::from(self.model.bytes_per_second.max(1));
            self.done = now + positioning + u64::try_from(transfer).unwrap_or(u64::MAX);
            self.arm = request.end;
        }
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.queue.front().map(|_| self.done)
    }

    pub(crate) fn finish(&mut self, now: u64) -> Option<T> {
        let request = self.queue.pop_front();
        self.begin(now);
        request.map(|request| request.tag)
    }
}
