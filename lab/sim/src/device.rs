//! A disk: sequential bandwidth, a price for positioning the arm, a price per request, and
//! optionally a controller cache.
//!
//! Idea: requests are served one at a time in the order of issue. The price of a request
//! (controller, cable) is paid while other requests are served, so several outstanding requests
//! hide it; the price of positioning is not hidden. A controller with a cache reads on to the end
//! of a prefetch unit, so that the next requests find their bytes there.
//! Not here: the number of outstanding requests; the core decides it (`loads_max`).
//! Bounds: the cache holds `bytes / prefetch_bytes` units and evicts the least recently used one.

use std::collections::VecDeque;

use crate::cpu::CORE;

/// The costs of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// Sequential bandwidth, bytes per second. At least 1.
    pub bytes_per_second: u64,
    /// Price of a request that does not begin where the preceding one ended. Nanoseconds.
    pub positioning_ns: u64,
    /// Time between the issue of a request and the moment at which the device can begin to serve
    /// it. Nanoseconds.
    pub request_ns: u64,
    /// CPU time that reading takes (interrupts, copies), spread over the time of the read.
    /// Nanoseconds.
    pub cpu_ns_per_mib: u64,
    /// The controller's cache.
    pub cache: Option<CacheModel>,
}

/// A controller cache with prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheModel {
    /// The size of the cache.
    pub bytes: u64,
    /// A missing page is read to the end of its prefetch unit. At least 1.
    pub prefetch_bytes: u64,
    /// Bandwidth out of the cache, bytes per second. At least 1.
    pub bytes_per_second: u64,
}

/// A read of `bytes` bytes from `at` on.
#[derive(Clone, Debug)]
pub(crate) struct Request<T> {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) tag: T,
}

#[derive(Debug)]
struct Service<T> {
    done: u64,
    /// The share of a core that the read takes.
    cpu: u64,
    tag: T,
}

#[derive(Debug)]
pub(crate) struct Device<T> {
    model: DeviceModel,
    /// Requests not begun, each with the earliest time at which it can begin.
    queue: VecDeque<(u64, Request<T>)>,
    service: Option<Service<T>>,
    /// When the arm is free: after the end of a request if it reads on.
    free_at: u64,
    arm: Option<u64>,
    /// Prefetch units in the cache, the most recently used last.
    cached: VecDeque<u64>,
    busy_ns: u64,
}

impl<T> Device<T> {
    pub(crate) fn new(model: DeviceModel) -> Self {
        Self {
            model,
            queue: VecDeque::new(),
            service: None,
            free_at: 0,
            arm: None,
            cached: VecDeque::new(),
            busy_ns: 0,
        }
    }

    pub(crate) fn submit(&mut self, now: u64, request: Request<T>) {
        self.queue.push_back((now + self.model.request_ns, request));
        if self.service.is_none() {
            self.begin(now);
        }
    }

    /// When the request in service ends.
    pub(crate) fn next(&self) -> Option<u64> {
        self.service.as_ref().map(|service| service.done)
    }

    /// The request that ends now.
    pub(crate) fn finish(&mut self, now: u64) -> Option<T> {
        let service = self.service.take()?;
        self.begin(now);
        Some(service.tag)
    }

    /// The share of a core that the device takes now.
    pub(crate) fn cpu(&self) -> u64 {
        self.service.as_ref().map_or(0, |service| service.cpu)
    }

    fn begin(&mut self, now: u64) {
        let Some((ready, request)) = self.queue.pop_front() else {
            return;
        };
        let begin = now.max(ready);
        let done = match self.model.cache {
            Some(cache) => self.serve_cached(begin, &request, cache),
            None => self.read(begin, request.at, request.bytes),
        };
        let cpu = (u128::from(self.model.cpu_ns_per_mib) * u128::from(request.bytes)) >> 20;
        let share = cpu * u128::from(CORE) / u128::from((done - now).max(1));
        self.service = Some(Service {
            done,
            cpu: u64::try_from(share).unwrap_or(u64::MAX),
            tag: request.tag,
        });
    }

    /// Positions the arm if necessary, and reads. Returns the end of the read.
    fn read(&mut self, begin: u64, at: u64, bytes: u64) -> u64 {
        let positioning = match self.arm {
            Some(arm) if arm == at => 0,
            _ => self.model.positioning_ns,
        };
        let begin = begin.max(self.free_at);
        let done = begin + positioning + transfer_ns(bytes, self.model.bytes_per_second);
        self.arm = Some(at + bytes);
        self.free_at = done;
        self.busy_ns += done - begin;
        done
    }

    /// How long the arm has moved or read.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    fn serve_cached(&mut self, begin: u64, request: &Request<T>, cache: CacheModel) -> u64 {
        let end = request.at + request.bytes;
        let units = request.at / cache.prefetch_bytes..end.div_ceil(cache.prefetch_bytes);
        let missing = units.clone().find(|unit| !self.cached.contains(unit));
        let done = match missing {
            None => begin + transfer_ns(request.bytes, cache.bytes_per_second),
            Some(unit) => {
                let from = request.at.max(unit * cache.prefetch_bytes);
                let done = self.read(begin, from, end - from);
                self.read(done, end, units.end * cache.prefetch_bytes - end);
                done
            }
        };
        for unit in units {
            self.cached.retain(|&other| other != unit);
            self.cached.push_back(unit);
        }
        while self.cached.len() as u64 > cache.bytes / cache.prefetch_bytes {
            self.cached.pop_front();
        }
        done
    }
}

pub(crate) fn transfer_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: DeviceModel = DeviceModel {
        bytes_per_second: 1_000_000_000,
        positioning_ns: 1_000,
        request_ns: 0,
        cpu_ns_per_mib: 0,
        cache: None,
    };

    /// When each of the requests (position, bytes) ends, if all are issued at once.
    fn ends(model: DeviceModel, requests: &[(u64, u64)]) -> Vec<u64> {
        let mut device = Device::new(model);
        for (tag, &(at, bytes)) in requests.iter().enumerate() {
            device.submit(0, Request { at, bytes, tag });
        }
        let mut ends = Vec::new();
        while let Some(now) = device.next() {
            assert_eq!(device.finish(now), Some(ends.len()), "in the order issued");
            ends.push(now);
        }
        ends
    }

    #[test]
    fn only_what_does_not_continue_is_positioned() {
        let requests = [(0, 100), (100, 100), (500, 100)];
        assert_eq!(ends(PLAIN, &requests), [1_100, 1_200, 2_300]);
    }

    #[test]
    fn outstanding_requests_hide_the_price_of_a_request() {
        let model = DeviceModel {
            request_ns: 300,
            ..PLAIN
        };
        let requests = [(0, 100), (100, 400)];
        assert_eq!(ends(model, &requests), [1_400, 1_800]);
    }

    #[test]
    fn a_prefetched_page_costs_little() {
        let cache = CacheModel {
            bytes: 4_000,
            prefetch_bytes: 1_000,
            bytes_per_second: 10_000_000_000,
        };
        let model = DeviceModel {
            cache: Some(cache),
            ..PLAIN
        };
        // The first request is read; the next two are cached; the last has to wait until the arm
        // has read on.
        let requests = [(0, 100), (100, 100), (900, 100), (5_000, 100)];
        assert_eq!(ends(model, &requests), [1_100, 1_110, 1_120, 3_100]);
    }

    #[test]
    fn a_read_takes_its_share_of_a_core() {
        let model = DeviceModel {
            bytes_per_second: 1 << 20,
            positioning_ns: 0,
            cpu_ns_per_mib: 250_000_000,
            ..PLAIN
        };
        let mut device = Device::new(model);
        device.submit(
            0,
            Request {
                at: 0,
                bytes: 1 << 20,
                tag: (),
            },
        );
        assert_eq!(device.cpu(), CORE / 4);
        device.finish(1_000_000_000);
        assert_eq!(device.cpu(), 0);
    }
}
