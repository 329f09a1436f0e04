//! With which changes of the model was a claim seen to fail?
//!
//! Each change was made in `lab/sim/src/shared_disk`, run once over one or three seeds, and undone.
//! The evidence of the claim under it stands beside the claim.

pub(crate) const ONE_DISK: &str = "world.rs: every partition on one disk";
pub(crate) const SLOW_PAGES: &str = "machine.rs: 22 ms for a page, not 11";
pub(crate) const SLOW_PREFETCH: &str = "machine.rs: 36 ms for a prefetch, not 18";
pub(crate) const FAST_PREFETCH: &str = "machine.rs: 5 ms for a prefetch, not 18";
pub(crate) const FILLED_WHEN_READ: &str = "machine.rs: the cache is filled when a read has ended";
pub(crate) const CONTROLLER_A_DISK: &str = "machine.rs: a controller serves its own disk only";
pub(crate) const WHOLE_RANGE: &str =
    "workload.rs: each subquery of a relation scan reads all of it";
pub(crate) const SCATTERED: &str = "workload.rs: a clustered index's data pages lie anywhere";
pub(crate) const IN_ORDER: &str =
    "workload.rs: a non-clustered index's data pages lie in its order";
pub(crate) const TWO_WORKERS: &str = "chosen.rs: a scan has two workers at most";
