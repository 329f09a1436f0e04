//! Cores as processor sharing: each of n jobs on c cores runs at rate min(1, c / n).
//!
//! Idea: *attained service*. Every running job gains service at the same rate, so a job that needs
//! w finishes when the common counter has risen by w, however often the rate changes; so the order
//! in which jobs finish is known. The operating system's work for the devices (interrupts, copies)
//! comes first: it makes c smaller for a while. Favoured jobs come next, and share as if they were
//! alone; the other jobs share the rest.
//! Bounds: O(log jobs) per event. Fixed point with 16 binary places.

use std::collections::BTreeSet;

/// Binary places of the service counters and of shares of a core.
pub(crate) const PLACES: u32 = 16;
/// One core, as a fixed-point share.
pub(crate) const CORE: u64 = 1 << PLACES;

/// Jobs that share the free cores evenly.
#[derive(Debug, Default)]
struct Class {
    /// The service that a job running since time 0 would have, in ns · 2^PLACES.
    service: u128,
    /// (service at which the job finishes, job).
    jobs: BTreeSet<(u128, usize)>,
}

impl Class {
    /// The rate of each job when `free` is shared, as a share of a core.
    fn rate(&self, free: u64) -> u64 {
        (free / (self.jobs.len() as u64).max(1)).clamp(1, CORE)
    }

    fn next(&self, now: u64, rate: u64) -> Option<u64> {
        let &(finish, _) = self.jobs.first()?;
        let wait = finish.saturating_sub(self.service).div_ceil(rate.into());
        Some(now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

/// The cores of the machine.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// As shares of a core, like `taken`.
    cores: u64,
    /// The share that the devices take now.
    taken: u64,
    now: u64,
    favoured: Class,
    others: Class,
    /// Core-nanoseconds used, times 2^PLACES.
    busy: u128,
}

impl Cpu {
    pub(crate) fn new(cores: u64) -> Self {
        Self {
            cores: cores * CORE,
            taken: 0,
            now: 0,
            favoured: Class::default(),
            others: Class::default(),
            busy: 0,
        }
    }

    /// The rates of each favoured job and of each other job.
    fn rates(&self) -> (u64, u64) {
        let free = self.cores - self.taken;
        let favoured = self.favoured.rate(free);
        let left = free.saturating_sub(favoured * self.favoured.jobs.len() as u64);
        (favoured, self.others.rate(left))
    }

    /// Advances the time.
    fn advance(&mut self, now: u64) {
        let elapsed = u128::from(now - self.now);
        self.now = now;
        let (favoured, others) = self.rates();
        self.busy += elapsed * u128::from(self.taken);
        for (class, rate) in [(&mut self.favoured, favoured), (&mut self.others, others)] {
            class.service += elapsed * u128::from(rate);
            self.busy += elapsed * u128::from(rate) * class.jobs.len() as u128;
        }
    }

    /// Sets the share of the cores that the devices take. At least an eighth of a core stays free.
    pub(crate) fn take(&mut self, now: u64, taken: u64) {
        self.advance(now);
        self.taken = taken.min(self.cores - CORE / 8);
    }

    /// Starts a job that needs `work_ns` of one core.
    pub(crate) fn start(&mut self, now: u64, job: usize, work_ns: u64, favoured: bool) {
        self.advance(now);
        let class = if favoured {
            &mut self.favoured
        } else {
            &mut self.others
        };
        let finish = class.service + (u128::from(work_ns) << PLACES);
        class.jobs.insert((finish, job));
    }

    /// When the next job of each class finishes, if nothing changes until then.
    fn nexts(&self) -> (Option<u64>, Option<u64>) {
        let (favoured, others) = self.rates();
        (
            self.favoured.next(self.now, favoured),
            self.others.next(self.now, others),
        )
    }

    /// When the next job finishes, if nothing changes until then.
    pub(crate) fn next(&self) -> Option<u64> {
        let (favoured, other) = self.nexts();
        favoured.into_iter().chain(other).min()
    }

    /// The job that finishes now.
    pub(crate) fn finish(&mut self, now: u64) -> Option<usize> {
        let (favoured, other) = self.nexts();
        self.advance(now);
        let first = favoured.is_some_and(|at| other.is_none_or(|other| at <= other));
        let class = if first {
            &mut self.favoured
        } else {
            &mut self.others
        };
        class.jobs.pop_first().map(|(_, job)| job)
    }

    /// Core-nanoseconds used until now.
    pub(crate) fn busy_ns(&mut self, now: u64) -> u64 {
        self.advance(now);
        u64::try_from(self.busy >> PLACES).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_jobs_share_two_cores() {
        let mut cpu = Cpu::new(2);
        for job in 0..3 {
            cpu.start(0, job, 100, false);
        }
        let end = cpu.next().expect("three jobs");
        // 2/3 of a core in 16 binary places, rounded down.
        assert!((150..=151).contains(&end), "{end}");
        for job in 0..3 {
            assert_eq!(cpu.next(), Some(end));
            assert_eq!(cpu.finish(end), Some(job));
        }
        assert!((299..=302).contains(&cpu.busy_ns(end)));
    }

    #[test]
    fn a_job_never_gets_more_than_a_core() {
        let mut cpu = Cpu::new(2);
        cpu.start(0, 0, 100, false);
        assert_eq!(cpu.next(), Some(100));
    }

    #[test]
    fn what_the_devices_take_slows_the_jobs() {
        let mut cpu = Cpu::new(1);
        cpu.start(0, 0, 100, false);
        cpu.take(0, CORE / 2);
        assert_eq!(cpu.next(), Some(200));
        cpu.take(100, 0);
        assert_eq!(cpu.next(), Some(150));
        assert_eq!(cpu.finish(150), Some(0));
        assert_eq!(cpu.busy_ns(150), 150);
    }

    #[test]
    fn favoured_jobs_go_first() {
        let mut cpu = Cpu::new(1);
        cpu.start(0, 0, 100, false);
        cpu.start(0, 1, 50, true);
        assert_eq!(cpu.next(), Some(50));
        assert_eq!(cpu.finish(50), Some(1));
        let end = cpu.next().expect("the other");
        assert!((149..=150).contains(&end), "{end}");
        assert_eq!(cpu.finish(end), Some(0));
    }
}
