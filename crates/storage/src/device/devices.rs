//! Which device holds a file?
//!
//! A local file belongs to the block device of its file system (`st_dev`), so that two disks have
//! two queues and two meters, and one disk has one, however many tables are on it. A file below a
//! path that is configured as part of a named device belongs to that device (`named.rs`).
//! Any other file belongs to the object store registered for its URL.
//! Not here: building object stores from URLs and credentials (the engine), reading.
//! Bounds: at most 65536 devices ([`DeviceId`] is a `u16`); a device is never removed.
//! R1: a device id means the same device for the lifetime of this registry.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use coscan_core::DeviceId;
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;

use super::local::{Mounts, Ring, device_number, path_of, unreadable};
use super::named::{self, NamedDevice};
use super::{
    Device, FileVersion, LocalDevice, LocalOptions, MeterSnapshot, ObjectDevice, ObjectOptions,
    Throttle, Throttled,
};
use crate::StorageError;

/// How to make devices.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// How local files are read.
    pub local: LocalOptions,
    /// How object stores are read.
    pub object: ObjectOptions,
    /// Throttles each device that has no throttle of its own.
    pub throttle: Option<Throttle>,
    /// Local devices by name.
    pub named: Vec<NamedDevice>,
}

/// A device and its meter at one moment: a row of `coscan.devices`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSnapshot {
    /// Its id.
    pub id: DeviceId,
    /// Its name.
    pub name: String,
    /// The device's paths: those configured for its name, or mount points, or the store's URL.
    pub paths: Vec<String>,
    /// Its meter.
    pub meter: MeterSnapshot,
    /// The largest gap that is read rather than skipped.
    pub request_cost_bytes: u64,
}

/// The devices in use.
#[derive(Debug, Default)]
pub struct Devices {
    options: DeviceOptions,
    known: Mutex<Known>,
    mounts: Mutex<Mounts>,
}

#[derive(Debug, Default)]
struct Known {
    /// Devices by id.
    devices: Vec<Arc<dyn Device>>,
    /// The paths of [`DeviceSnapshot::paths`], by id.
    paths: Vec<BTreeSet<String>>,
    /// Local devices by `st_dev`.
    local: HashMap<u64, DeviceId>,
    /// Local devices by name.
    named: HashMap<String, DeviceId>,
    /// Registered devices by URL prefix, without a slash at the end.
    registered: HashMap<String, DeviceId>,
}

impl Devices {
    /// A registry without devices.
    #[must_use]
    pub fn new(options: DeviceOptions) -> Self {
        Self {
            options,
            known: Mutex::default(),
            mounts: Mutex::default(),
        }
    }

    /// Serves URLs below `url` (`s3://bucket`) from an object store. A store already registered for
    /// the URL keeps its id and serves its current users, but no new lookup returns it.
    ///
    /// # Errors
    /// `Internal` if there are 65536 devices.
    pub fn register_store(
        &self,
        url: &str,
        store: Arc<dyn ObjectStore>,
    ) -> Result<DeviceId, StorageError> {
        let device = ObjectDevice::new(url, store, self.options.object.clone());
        self.register(url, self.throttled(Arc::new(device)))
    }

    /// Serves URLs below `url` from the given device: for wrappers, tests, and other
    /// implementations of [`Device`]. The longest registered prefix of a file's URL wins, also
    /// over `st_dev`: a registered `file:///mnt/a` is a device of its own.
    ///
    /// # Errors
    /// `Internal` if there are 65536 devices.
    pub fn register(&self, url: &str, device: Arc<dyn Device>) -> Result<DeviceId, StorageError> {
        let mut known = self.known.lock();
        let id = known.add(device, [url.to_owned()].into())?;
        known.registered.insert(key(url), id);
        Ok(id)
    }

    /// Whether a device is registered for exactly this URL.
    #[must_use]
    pub fn is_registered(&self, url: &str) -> bool {
        self.known.lock().registered.contains_key(&key(url))
    }

    /// The device registered for the file at `location` of the store at `url`, if there is one.
    /// Local disks are not registered.
    #[must_use]
    pub fn registered_for(&self, url: &str, location: &Path) -> Option<Arc<dyn Device>> {
        let found = self.known.lock().longest_prefix(&key(url), location);
        found.map(|(_, device)| device)
    }

    /// The device that holds this version of a file of the store at `url`: like
    /// [`Self::device_for`], but without a call if the version's tag identifies a known device.
    /// Cancel safe.
    ///
    /// # Errors
    /// The errors of [`Self::device_for`].
    pub async fn device_of(
        &self,
        url: &str,
        file: &FileVersion,
    ) -> Result<(DeviceId, Arc<dyn Device>), StorageError> {
        match self.known_device(url, file) {
            Some(found) => Ok(found),
            None => self.device_for(url, &file.location).await,
        }
    }

    fn known_device(&self, url: &str, file: &FileVersion) -> Option<(DeviceId, Arc<dyn Device>)> {
        let number = device_number(file.e_tag.as_deref()?)?;
        let known = self.known.lock();
        let alone = known.registered.is_empty() && self.options.named.is_empty();
        let id = *known
            .local
            .get(&number)
            .filter(|_| alone && key(url) == LOCAL)?;
        known.with(id)
    }

    /// The device that holds the file at `location` of the store at `url`. For a local file this
    /// makes a `stat` call, on another thread unless the kernel answers from memory. Cancel safe.
    ///
    /// # Errors
    /// `NotFound` or `Read` for a local file that does not exist or cannot be read, `NoAnswer` if
    /// its mount hangs; `Read` for a URL without a registered store.
    pub async fn device_for(
        &self,
        url: &str,
        location: &Path,
    ) -> Result<(DeviceId, Arc<dyn Device>), StorageError> {
        let url = key(url);
        if let Some(found) = self.known.lock().longest_prefix(&url, location) {
            return Ok(found);
        }
        if url == LOCAL {
            return self.local(location).await;
        }
        Err(StorageError::Read {
            file: format!("{url}/{location}"),
            range: 0..0,
            source: Arc::new(io::Error::other(
                "no object store is registered for this URL",
            )),
        })
    }

    /// The device with this id.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> Option<Arc<dyn Device>> {
        self.known.lock().devices.get(usize::from(id.0)).cloned()
    }

    /// All devices, by id.
    #[must_use]
    pub fn snapshots(&self) -> Vec<DeviceSnapshot> {
        let known = self.known.lock();
        let devices = known
            .devices
            .iter()
            .cloned()
            .zip(known.paths.iter().cloned());
        let devices: Vec<_> = devices.collect();
        drop(known);
        let rows = (0..=u16::MAX).zip(devices);
        rows.map(|(id, (device, paths))| DeviceSnapshot {
            id: DeviceId(id),
            name: device.name().to_owned(),
            paths: paths.into_iter().collect(),
            meter: device.meter().snapshot(),
            request_cost_bytes: device.request_cost_bytes(),
        })
        .collect()
    }

    async fn local(&self, location: &Path) -> Result<(DeviceId, Arc<dyn Device>), StorageError> {
        let path = path_of(location);
        let options = &self.options.local;
        let named = named::of(&self.options.named, &path);
        if let Some(named) = named {
            let known = self.known.lock();
            if let Some(found) = known.named.get(&named.name).and_then(|&id| known.with(id)) {
                return Ok(found);
            }
        }
        let (calls, mount) = {
            let mut mounts = self.mounts.lock();
            let calls = mounts.calls(&path, options.read_timeout);
            (calls, mounts.point(&path))
        };
        let metadata = calls.metadata(path).await;
        let number = metadata.map_err(|why| unreadable(location, why))?.dev();
        let mut known = self.known.lock();
        let id = match named {
            Some(named) => known.named.get(&named.name).copied(),
            None => known.local.get(&number).copied(),
        };
        if let Some(id) = id
            && let Some(found) = known.with(id)
        {
            if named.is_none() {
                known.paths[usize::from(id.0)].insert(mount);
            }
            return Ok(found);
        }
        // Under the lock, so that a disk never gets two queues: this only starts threads and makes
        // no call to the disk.
        let name = named.map(|named| named.name.as_str());
        let device = LocalDevice::of_number(number, name, calls, options, Ring::start);
        let device = device.map_err(|source| unreadable(location, source.into()))?;
        let device = Arc::new(device);
        let Some(named) = named else {
            let device = self.throttled(device);
            let id = known.add(Arc::clone(&device), [mount].into())?;
            known.local.insert(number, id);
            return Ok((id, device));
        };
        let device: Arc<dyn Device> = match named.throttle {
            Some(throttle) => Arc::new(Throttled::new(device, throttle)),
            None => self.throttled(device),
        };
        let entries = self.options.named.iter();
        let entries = entries.filter(|other| other.name == named.name);
        let paths = entries.map(|entry| entry.path.display().to_string());
        let id = known.add(Arc::clone(&device), paths.collect())?;
        known.named.insert(named.name.clone(), id);
        Ok((id, device))
    }

    fn throttled(&self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        match self.options.throttle {
            Some(throttle) => Arc::new(Throttled::new(device, throttle)),
            None => device,
        }
    }
}

impl Known {
    fn add(
        &mut self,
        device: Arc<dyn Device>,
        paths: BTreeSet<String>,
    ) -> Result<DeviceId, StorageError> {
        let id = u16::try_from(self.devices.len())
            .map_err(|_| StorageError::Internal("more than 65536 devices".into()))?;
        self.devices.push(device);
        self.paths.push(paths);
        Ok(DeviceId(id))
    }

    fn with(&self, id: DeviceId) -> Option<(DeviceId, Arc<dyn Device>)> {
        let device = self.devices.get(usize::from(id.0))?;
        Some((id, Arc::clone(device)))
    }

    fn longest_prefix(&self, url: &str, location: &Path) -> Option<(DeviceId, Arc<dyn Device>)> {
        if self.registered.is_empty() {
            return None;
        }
        let full = format!("{url}/{location}");
        let mut prefix = full.as_str();
        // Folder by folder, up to the store itself.
        loop {
            if let Some(&id) = self.registered.get(prefix) {
                return self.with(id);
            }
            if prefix.len() <= url.len() {
                return None;
            }
            prefix = &prefix[..prefix.rfind('/')?.max(url.len())];
        }
    }
}

/// A URL as a prefix of others: without slashes at the end, and `file:///a` as `file:/a`.
fn key(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match url.strip_prefix("file://") {
        Some(path) => format!("{LOCAL}{path}"),
        None => url.to_owned(),
    }
}

/// The key of the local store, `file:///`.
const LOCAL: &str = "file:";

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    clippy::cast_possible_truncation,
    reason = "tests: a failure should panic, reads take lists of ranges, test data are low bits"
)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use object_store::memory::InMemory;

    use super::super::local::FromMemory;
    use super::*;

    fn at(path: &std::path::Path) -> Path {
        Path::from_absolute_path(path).unwrap()
    }

    #[tokio::test]
    async fn a_disk_is_one_device_and_a_memory_file_system_another() {
        let devices = Devices::default();
        let (on_disk, in_memory) = (
            tempfile::NamedTempFile::new_in("/var/tmp").unwrap(),
            tempfile::NamedTempFile::new_in("/dev/shm").unwrap(),
        );
        let other = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let files = [on_disk.path(), in_memory.path(), other.path()];
        for (path, id) in files.into_iter().zip([0, 1, 0]) {
            let found = devices.device_for("file:///", &at(path)).await;
            assert_eq!(found.unwrap().0, DeviceId(id));
        }
        let missing = Path::from("no/such/file");
        let missing = devices.device_for("file:///", &missing).await;
        assert!(matches!(missing, Err(StorageError::NotFound { .. })));
        let names: Vec<_> = devices.snapshots().into_iter().map(|s| s.name).collect();
        assert_eq!(names.len(), 2);
        assert!(names[1].starts_with("tmpfs ("), "{names:?}");
        assert_eq!(
            devices.device(DeviceId(1)).unwrap().name(),
            names[1].as_str()
        );
        assert!(devices.device(DeviceId(2)).is_none());
    }

    #[tokio::test]
    async fn the_longest_registered_prefix_wins() {
        let throttle = Throttle {
            bytes_per_second: 1_000_000,
            latency: Duration::ZERO,
        };
        let devices = Devices::new(DeviceOptions {
            throttle: Some(throttle),
            ..DeviceOptions::default()
        });
        let store = || Arc::new(InMemory::new());
        let bucket = devices.register_store("s3://b/", store()).unwrap();
        let folder = devices.register_store("s3://b/x/y", store()).unwrap();
        let id = |url, path: &str| {
            let found = devices.device_for(url, &Path::from(path)).now_or_never();
            found.expect("no call is made").map(|d| d.0)
        };
        assert_eq!(id("s3://b", "a.parquet").unwrap(), bucket);
        assert_eq!(id("s3://b/", "x/a.parquet").unwrap(), bucket);
        assert_eq!(id("s3://b/", "x/y/a.parquet").unwrap(), folder);
        assert_eq!(id("s3://b/", "x/yy/a.parquet").unwrap(), bucket);
        assert!(id("s3://bb/", "a").is_err());
        assert!(devices.is_registered("s3://b") && !devices.is_registered("s3://bb"));
        assert_eq!(devices.snapshots()[0].name, "s3://b at 1 MB/s");

        let local = devices.register_store("file:///mnt/a", store()).unwrap();
        assert_eq!(id("file:///", "mnt/a/b/c").unwrap(), local);
    }

    #[tokio::test]
    async fn paths_of_one_name_are_one_device() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let throttle = |megabytes: u64| Throttle {
            bytes_per_second: megabytes * 1_000_000,
            latency: Duration::ZERO,
        };
        let named = |name: &str, path: std::path::PathBuf, throttle| NamedDevice {
            name: name.to_owned(),
            path,
            throttle,
        };
        let devices = Devices::new(DeviceOptions {
            throttle: Some(throttle(7)),
            named: vec![
                named("one", a.path().join("x"), Some(throttle(50))),
                named("two", a.path().join("y"), None),
                named("one", b.path().to_owned(), None),
            ],
            ..DeviceOptions::default()
        });
        let mut ids = Vec::new();
        for folder in [a.path().join("x"), a.path().join("y"), b.path().join("z")] {
            std::fs::create_dir(&folder).unwrap();
            let file = folder.join("f");
            std::fs::write(&file, "bytes").unwrap();
            let found = devices.device_for("file:///", &at(&file)).await;
            ids.push(found.unwrap().0.0);
        }
        let other = a.path().join("f");
        std::fs::write(&other, "bytes").unwrap();
        let found = devices.device_for("file:///", &at(&other)).await;
        ids.push(found.unwrap().0.0);
        assert_eq!(ids, [0, 1, 0, 2]);
        let rows = devices.snapshots();
        assert!(rows[0].name.starts_with("one (") && rows[0].name.ends_with("at 50 MB/s"));
        assert!(rows[1].name.starts_with("two (") && rows[1].name.ends_with("at 7 MB/s"));
        let paths = [a.path().join("x"), b.path().to_owned()];
        let mut paths = paths.map(|path| path.display().to_string());
        paths.sort_unstable();
        assert_eq!(rows[0].paths, paths);
    }

    #[tokio::test]
    async fn a_mount_that_hangs_does_not_hide_other_mounts() {
        let devices = Devices::new(DeviceOptions {
            local: LocalOptions {
                read_timeout: Duration::from_secs(1),
                ..LocalOptions::default()
            },
            ..DeviceOptions::default()
        });
        let well = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let hangs = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        let calls = devices
            .mounts
            .lock()
            .calls(hangs.path(), Duration::from_secs(1));
        let hung = calls.hang();
        let location = at(hangs.path());
        let (struck, found) = tokio::join!(devices.device_for("file:///", &location), async {
            let begun = std::time::Instant::now();
            let found = devices.device_for("file:///", &at(well.path())).await;
            (found.unwrap().0, begun.elapsed())
        });
        assert_eq!(found.0, DeviceId(0));
        assert!(
            found.1 < Duration::from_millis(900),
            "it waited for the mount that hangs"
        );
        match struck.unwrap_err() {
            StorageError::NoAnswer { file, seconds: 1 } => {
                assert_eq!(file, hangs.path().display().to_string());
            }
            error => panic!("{error:?}"),
        }
        drop(hung);
        devices.device_for("file:///", &location).await.unwrap();
    }

    #[tokio::test]
    async fn a_known_device_is_found_without_a_thread() {
        let [one, other] = [(), ()].map(|()| tempfile::NamedTempFile::new_in("/var/tmp").unwrap());
        if !FromMemory::works_for(other.path()) {
            return;
        }
        let devices = Devices::default();
        let found = devices.device_for("file:///", &at(one.path())).await;
        let wait = devices.options.local.read_timeout;
        let calls = devices.mounts.lock().calls(other.path(), wait);
        let hung = calls.hang_threads();
        let location = at(other.path());
        // A mount anywhere may make the kernel refuse a question now and then.
        let find = || devices.device_for("file:///", &location).now_or_never();
        let known = (0..100).find_map(|_| find()).unwrap();
        assert_eq!(known.unwrap().0, found.unwrap().0);
        drop(hung);
    }
}
