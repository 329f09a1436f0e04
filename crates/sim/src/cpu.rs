//! Cores as processor sharing: n jobs on c cores each run at min(1, c / n).
//!
//! Idea: *attained service*. Every running job gains service at the same rate, so a job that needs w finishes when the common
//! counter has risen by w, however often the rate changes; finishes are known in order.
//! Bounds: O(log jobs) per event. Fixed point with 16 binary places of a nanosecond.

use std::collections::BTreeSet;

/// Binary places of the service counter.
const PLACES: u32 = 16;

/// The cores of the machine.
#[derive(Debug)]
pub(crate) struct Cpu {
    cores: u64,
    now: u64,
    /// Service that each job running since time 0 would have had, in ns · 2^PLACES.
    service: u128,
    /// (service at which it finishes, job).
    jobs: BTreeSet<(u128, usize)>,
    /// Core-nanoseconds used.
    pub(crate) busy_ns: u64,
}

impl Cpu {
    pub(crate) fn new(cores: u64) -> Self {
        Self {
            cores,
            now: 0,
            service: 0,
            jobs: BTreeSet::new(),
            busy_ns: 0,
        }
    }

    /// Lets time pass.
    fn advance(&mut self, now: u64) {
        let elapsed = now - self.now;
        self.now = now;
        let jobs = self.jobs.len() as u64;
        if jobs > 0 {
            let running = jobs.min(self.cores);
            self.busy_ns += elapsed * running;
            self.service +=
                (u128::from(elapsed) << PLACES) * u128::from(running) / u128::from(jobs);
        }
    }

    /// A job begins that needs `work_ns` of one core.
    pub(crate) fn start(&mut self, now: u64, job: usize, work_ns: u64) {
        self.advance(now);
        self.jobs
            .insert((self.service + (u128::from(work_ns) << PLACES), job));
    }

    /// When the next job finishes, if nothing changes before.
    pub(crate) fn next(&self) -> Option<u64> {
        let &(finish, _) = self.jobs.first()?;
        let left = finish.saturating_sub(self.service);
        let jobs = self.jobs.len() as u128;
        let running = u128::from(self.cores).min(jobs);
        let wait = (left * jobs).div_ceil(running << PLACES);
        Some(self.now + u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// The job that finishes now.
    pub(crate) fn finish(&mut self, now: u64) -> Option<usize> {
        self.advance(now);
        self.jobs.pop_first().map(|(_, job)| job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_jobs_share_two_cores() {
        let mut cpu = Cpu::new(2);
        for job in 0..3 {
            cpu.start(0, job, 100);
        }
        assert_eq!(cpu.next(), Some(150));
        assert_eq!(cpu.finish(150), Some(0));
        // The others have had their 100 too.
        assert_eq!(cpu.next(), Some(150));
        assert_eq!(cpu.finish(150), Some(1));
        assert_eq!(cpu.finish(150), Some(2));
        assert_eq!(cpu.busy_ns, 300);
    }
}
