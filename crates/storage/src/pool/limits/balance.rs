//! Which resource is scarce, the processors or the devices?
//!
//! A frame saves its device a read, and decoded arrays save the processors a decode; both take
//! memory. So the arrays' part grows while the processors are busy and every device has time to
//! spare, and shrinks while a device is busy and the processors are not. Otherwise it stays as it
//! is.
//! Not here: which arrays and frames are evicted (`../segments/idle_arrays.rs`, coscan-core),
//! which arrays replace their frames (`../segments/segment_form.rs`).
//! Bounds: one step per tick, between [`ARRAYS_PART_MIN`] and [`ARRAYS_PART_MAX`].
//! Source: none of the papers; [RahmStohr94 §5] chooses the degree of parallelism by the same
//! measures.

use super::utilisation::Utilisation;
use crate::memory::{ARRAYS_PART_MAX, ARRAYS_PART_MIN, MemoryBudget};

/// The part of the memory that moves in a tick. Thousandths.
const STEP: u64 = 40;
/// Below this utilisation the processors have time to decode.
const PROCESSORS_BUSY: f64 = 0.85;
/// Below this utilisation a device has time to read.
const DEVICE_IDLE: f64 = 0.5;
/// Above this utilisation a device should read less.
const DEVICE_BUSY: f64 = 0.8;

/// Adjusts the arrays' part of the memory, once per tick.
pub(in crate::pool) fn weigh(now: &Utilisation, memory: &MemoryBudget) {
    let Some(processors) = now.processors else {
        return;
    };
    let devices = now.devices.iter().map(|(_, used)| *used);
    let busiest = devices.fold(0.0, f64::max);
    memory.set_arrays_part(next_part(memory.arrays_part(), processors, busiest));
}

/// The arrays' part after a tick with this utilisation of the processors and of the busiest
/// device.
fn next_part(part: u64, processors: f64, busiest: f64) -> u64 {
    let processors_busy = processors > PROCESSORS_BUSY;
    if busiest > DEVICE_BUSY && !processors_busy {
        part.saturating_sub(STEP).max(ARRAYS_PART_MIN)
    } else if busiest < DEVICE_IDLE && processors_busy {
        (part + STEP).min(ARRAYS_PART_MAX)
    } else {
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(part: u64, ticks: usize, processors: f64, busiest: f64) -> u64 {
        (0..ticks).fold(part, |part, _| next_part(part, processors, busiest))
    }

    #[test]
    fn memory_moves_to_what_saves_the_scarce_resource() {
        assert_eq!(after(ARRAYS_PART_MIN, 100, 1.0, 0.2), ARRAYS_PART_MAX);
        assert_eq!(after(ARRAYS_PART_MAX, 100, 0.8, 1.0), ARRAYS_PART_MIN);
        let between = after(ARRAYS_PART_MIN, 3, 1.0, 0.2);
        assert_eq!(between, ARRAYS_PART_MIN + 3 * STEP);
        for (processors, busiest) in [(0.5, 0.2), (1.0, 0.7), (0.5, 0.7), (1.0, 1.0)] {
            assert_eq!(
                after(between, 9, processors, busiest),
                between,
                "both are scarce, or neither is"
            );
        }
    }
}
