//! How can an event contradict the controller's state?

use crate::ids::{DeviceId, ScanId};

/// Why an event was refused. The state has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelismError {
    /// A scan with a higher id is registered already.
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
    /// The event has meters for a different number of devices.
    #[error("meters of {count} devices")]
    OtherDevices {
        /// The number of meters.
        count: usize,
    },
}
