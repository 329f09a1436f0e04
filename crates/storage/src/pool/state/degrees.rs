//! When does the controller of parallelism get events, and how does the core get its decisions?
//!
//! Not here: the decisions (`../limits/degree.rs`).

use coscan_core::{DeviceId, Event, ScanId};

use super::{Effects, State};
use crate::pool::Inner;
use crate::pool::limits::Utilisation;

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

    /// The scan has ended.
    pub(crate) fn degree_ends(&mut self, scan: ScanId, effects: &mut Effects) {
        if self.degrees.is_active() {
            self.degrees.end(scan);
            self.change_degrees(effects);
        }
    }

    /// A tick: gives the controller the utilisation since the last one, and takes from each scan
    /// the devices on which it needs no more loads, because other scans have loaded its chunks
    /// there.
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
            // A scan that has failed meanwhile is about to end.
            Inner::log(self.handle(Event::DegreeChanged { scan, devices_max }, effects));
        }
    }
}
