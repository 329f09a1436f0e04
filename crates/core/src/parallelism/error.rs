//! Events that cannot have happened.

use crate::ids::{DeviceId, ScanId};

/// Why an event is refused. The state is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelismError {
    /// Scans ascend.
    #[error("scan {scan} is registered after a later one")]
    ScanOutOfOrder {
        /// The scan.
        scan: ScanId,
    },
    /// A device is named twice.
    #[error("scan {scan} names a device twice")]
    DeviceTwice {
        /// The scan.
        scan: ScanId,
    },
    /// There is no such device.
    #[error("there is no device {device}")]
    UnknownDevice {
        /// The device.
        device: DeviceId,
    },
    /// There is no such scan.
    #[error("there is no scan {scan}")]
    UnknownScan {
        /// The scan.
        scan: ScanId,
    },
    /// The scan has no worker there.
    #[error("scan {scan} has no worker on device {device}")]
    NoWorker {
        /// The scan.
        scan: ScanId,
        /// The device.
        device: DeviceId,
    },
    /// Meters of other devices than there are.
    #[error("meters of {count} devices")]
    OtherDevices {
        /// How many.
        count: usize,
    },
}
