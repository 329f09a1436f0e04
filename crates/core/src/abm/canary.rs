//! A deliberate bug: does the chaos driver notice that a scan starves?
//!
//! Compiled only with the feature `canary`, which the simulator's tests turn on, and active only
//! after [`Abm::plant_canary`].

use crate::abm::Abm;

impl Abm {
    /// From now on waiting time does not count in queryRelevance, so a scan that needs many chunks
    /// starves under `relevance` for as long as scans that need fewer keep arriving.
    pub fn plant_canary(&mut self) {
        self.state.wait_unit_ns = u64::MAX;
    }
}
