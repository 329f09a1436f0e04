//! How busy are the devices and the processors?
//!
//! Idea: meters only count up. The difference between two readings decides how memory is divided
//! (`balance.rs`) and from how many devices a scan reads (`degree.rs`).
//! Not here: the meters of devices (`device/meter.rs`).
//! Bounds: a reading reads one small file and copies each device's meter.

use std::collections::BTreeMap;
use std::time::Duration;

use coscan_core::DeviceId;

use crate::device::{DeviceSnapshot, MeterSnapshot};

/// The utilisation since the previous reading, from 0 to 1.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Utilisation {
    /// For each device, the part of the time in which it had a request. A device without a
    /// previous reading is missing.
    pub(crate) devices: Vec<(DeviceId, f64)>,
    /// The part of all processors' time that this process used; `None` at the first reading.
    pub(crate) processors: Option<f64>,
}

/// The previous reading of the meters.
#[derive(Debug, Default)]
pub(in crate::pool) struct Meters {
    devices: BTreeMap<DeviceId, MeterSnapshot>,
    processor_time: Duration,
}

impl Meters {
    /// Takes a reading: of these devices, and of this processor time of the process.
    pub(in crate::pool) fn look(
        &mut self,
        devices: &[DeviceSnapshot],
        processor_time: Duration,
        processors: usize,
    ) -> Utilisation {
        let used = processor_time.saturating_sub(self.processor_time);
        self.processor_time = processor_time;
        let mut elapsed = Duration::ZERO;
        let mut busy = Vec::with_capacity(devices.len());
        for device in devices {
            let now = device.meter;
            if let Some(before) = self.devices.insert(device.id, now) {
                elapsed = elapsed.max(now.elapsed.saturating_sub(before.elapsed));
                busy.push((device.id, now.utilisation_since(&before)));
            }
        }
        let whole = elapsed.as_secs_f64() * processors.max(1) as f64;
        Utilisation {
            devices: busy,
            processors: (whole > 0.0).then(|| used.as_secs_f64() / whole),
        }
    }
}

/// The processor time that this process has used, in the system's ticks of 10 ms.
pub(in crate::pool) fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    Duration::from_millis(10 * ticks(&text))
}

/// The sum of user and system time, the 14th and 15th field of "pid (name) state ppid …"; a name
/// may contain spaces.
fn ticks(stat: &str) -> u64 {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = after_name.split_ascii_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Meter;

    fn device(id: u16, busy_ms: u64, elapsed_ms: u64) -> DeviceSnapshot {
        let meter = Meter::new(Duration::ZERO, 1e9).snapshot();
        DeviceSnapshot {
            id: DeviceId(id),
            name: String::new(),
            paths: Vec::new(),
            meter: MeterSnapshot {
                busy: Duration::from_millis(busy_ms),
                elapsed: Duration::from_millis(elapsed_ms),
                ..meter
            },
            request_cost_bytes: 0,
        }
    }

    #[test]
    fn utilisation_is_relative_to_the_previous_reading() {
        let mut meters = Meters::default();
        let first = meters.look(&[device(0, 900, 1000)], Duration::from_secs(7), 2);
        assert_eq!(
            first,
            Utilisation::default(),
            "there is no previous reading"
        );
        let devices = [device(0, 950, 1200), device(1, 100, 100)];
        let second = meters.look(&devices, Duration::from_millis(7100), 2);
        assert_eq!(second.devices, [(DeviceId(0), 0.25)]);
        assert_eq!(second.processors, Some(0.25));
    }

    #[test]
    fn processor_time_is_parsed_after_the_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0";
        assert_eq!(ticks(stat), 42);
        assert_eq!(ticks(""), 0);
        assert!(processor_time() < Duration::from_secs(1 << 30));
    }
}
