//! A bug on purpose: does the chaos driver notice that a scan starves?
//!
//! Only with the feature `canary`, which the simulator's tests turn on, and only for who asks for
//! it.

use crate::abm::Abm;

impl Abm {
    /// From now on waiting counts for nothing in queryRelevance, so a scan that needs many chunks
    /// starves under `relevance` for as long as scans that need fewer keep coming.
    pub fn plant_canary(&mut self) {
        self.state.wait_unit_ns = u64::MAX;
    }
}
