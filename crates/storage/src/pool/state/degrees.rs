//! When is the controller of parallelism told, and the core what it says?
//!
//! Not here: what it says (`../degree.rs`).

use coscan_core::{DeviceId, Event, ScanId};

use super::{Effects, State};
use crate::pool::Inner;
use crate::pool::utilisation::Utilisation;

impl State {
    /// A load that was chosen for the scan has ended.
    pub(crate) fn load_ended(&mut self, scan: ScanId, device: DeviceId, effects: &mut Effects) {
        if !self.degrees.is_active() {
            return;
        }
        let drained = !self.abm.misses(scan).contains(&device);
        self.degrees.end_chunk(scan, device, drained);
        self.change_degrees(effects);
    }

    /// The scan is over.
    pub(crate) fn degree_ends(&mut self, scan: ScanId, effects: &mut Effects) {
        if self.degrees.is_active() {
            self.degrees.end(scan);
            self.change_degrees(effects);
        }
    }

    /// Time has passed: the controller is told what was used meanwhile, and devices whose chunks
    /// others have loaded for a scan are not its own any more.
    pub(crate) fn measure_degrees(&mut self, used: &Utilisation, effects: &mut Effects) {
        for (scan, served) in self.degrees.served() {
            let missed = self.abm.misses(scan);
            for device in served.into_iter().filter(|device| !missed.contains(device)) {
                self.degrees.end_chunk(scan, device, true);
            }
        }
        self.degrees.measure(used);
        self.change_degrees(effects);
    }

    fn change_degrees(&mut self, effects: &mut Effects) {
        for (scan, devices_max) in self.degrees.changed() {
            // One that has failed meanwhile is about to end.
            Inner::log(self.handle(Event::DegreeChanged { scan, devices_max }, effects));
        }
    }
}
