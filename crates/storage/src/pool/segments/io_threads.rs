//! Which thread waits for a device?
//!
//! Each device has a thread of its own: a device that blocks its thread, against its contract
//! (D4), delays only its own loads. One more thread runs tasks that wait for no device, such as
//! the tick.
//! Not here: the loads themselves (`load.rs`).
//! Bounds: one thread per device that something was loaded from, plus one.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use coscan_core::DeviceId;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

/// The threads that wait for devices.
#[derive(Debug)]
pub(in crate::pool) struct IoThreads {
    common: OneThread,
    devices: Mutex<HashMap<DeviceId, Arc<OneThread>>>,
}

impl IoThreads {
    pub(in crate::pool) fn new() -> std::io::Result<Self> {
        Ok(Self {
            common: OneThread::new("coscan-io".to_owned())?,
            devices: Mutex::default(),
        })
    }

    /// Runs a task that waits for no device.
    pub(in crate::pool) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.common.spawn(task);
    }

    /// Runs a task that waits for this device.
    pub(in crate::pool) fn spawn_on(
        &self,
        device: DeviceId,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let known = self.devices.lock().get(&device).cloned();
        match known.map_or_else(|| self.start(device), Ok) {
            Ok(thread) => thread.spawn(task),
            Err(error) => {
                // On the common thread other tasks may delay this one, which is better than not
                // running it.
                log::warn!("device {} has no thread of its own: {error}", device.0);
                self.common.spawn(task);
            }
        }
    }

    fn start(&self, device: DeviceId) -> std::io::Result<Arc<OneThread>> {
        let mut devices = self.devices.lock();
        if let Some(known) = devices.get(&device) {
            return Ok(Arc::clone(known));
        }
        let thread = Arc::new(OneThread::new(format!("coscan-io-{}", device.0))?);
        devices.insert(device, Arc::clone(&thread));
        Ok(thread)
    }
}

/// A thread that drives tasks.
#[derive(Debug)]
struct OneThread {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl OneThread {
    fn new(name: String) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }
}

impl Drop for OneThread {
    fn drop(&mut self) {
        // Waiting for a runtime is forbidden inside async code, and this may be dropped there.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
