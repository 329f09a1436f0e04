//! What is short, the processors or the devices?
//!
//! A frame spares its device a read, and decoded arrays spare the processors a decode; both take
//! memory. So arrays may take more of it while the processors are busy and every device has time
//! left, and less while a device is busy and the processors are not. What is between stays as it
//! is.
//! Not here: which arrays and frames go (`idle_arrays.rs`, coscan-core), which arrays take the
//! place of frames (`settled.rs`).
//! Bounds: one step a tick, between [`ARRAYS_PART_MIN`] and [`ARRAYS_PART_MAX`].
//! Source: none of the papers; [RahmStohr94 §5] chooses the degree of parallelism by the same
//! measures.

use super::utilisation::Utilisation;
use crate::memory::{ARRAYS_PART_MAX, ARRAYS_PART_MIN, MemoryBudget};

/// How much of the memory changes hands in a tick. Thousandths.
const STEP: u64 = 40;
/// Processors that are used less have time to decode.
const PROCESSORS_BUSY: f64 = 0.85;
/// A device that is used less has time to read.
const DEVICE_IDLE: f64 = 0.5;
/// One that is used more is to read less.
const DEVICE_BUSY: f64 = 0.8;

/// A tick later.
pub(super) fn weigh(now: &Utilisation, memory: &MemoryBudget) {
    let Some(processors) = now.processors else {
        return;
    };
    let devices = now.devices.iter().map(|(_, used)| *used);
    let busiest = devices.fold(0.0, f64::max);
    memory.set_arrays_part(next_part(memory.arrays_part(), processors, busiest));
}

/// The part after a tick in which the processors, and the busiest device, were used so much.
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
    fn memory_goes_to_what_spares_the_one_that_is_short() {
        assert_eq!(after(ARRAYS_PART_MIN, 100, 1.0, 0.2), ARRAYS_PART_MAX);
        assert_eq!(after(ARRAYS_PART_MAX, 100, 0.8, 1.0), ARRAYS_PART_MIN);
        let between = after(ARRAYS_PART_MIN, 3, 1.0, 0.2);
        assert_eq!(between, ARRAYS_PART_MIN + 3 * STEP);
        for (processors, busiest) in [(0.5, 0.2), (1.0, 0.7), (0.5, 0.7), (1.0, 1.0)] {
            assert_eq!(
                after(between, 9, processors, busiest),
                between,
                "both or neither"
            );
        }
    }
}
