//! How does the system behave on a device that fails?
//!
//! This wrapper injects faults by a plan: rules in order, each with a condition, a fault and the
//! number of reads that it affects. The first rule whose condition holds for a read applies. The
//! plan is deterministic: reads are numbered in the order in which they are first polled.
//! Not here: random plans (a test draws its rules from its seed), faults below the device (bad
//! sectors of a real disk).

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Device, FileVersion, Meter};
use crate::StorageError;

/// Which reads a fault affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// All reads.
    Always,
    /// The read with this number, from 0.
    Nth(u64),
    /// Every read whose number is a multiple of this, 0 included.
    Every(u64),
    /// Reads of this file.
    File(Path),
    /// Reads that request one of these bytes of this file.
    Bytes(Path, Range<u64>),
}

/// What happens to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this I/O error.
    Error(io::ErrorKind),
    /// It fails as if the file ended this many bytes before the end of its first range.
    ShortRead(u64),
    /// It takes this much longer.
    Stall(Duration),
    /// It never ends.
    Hang,
    /// It waits until the device is healed, and then succeeds.
    Held,
    /// It ends as if the file had been replaced.
    Replaced,
    /// It ends as if the file did not exist.
    NotFound,
    /// It succeeds, with this bit (0 to 7) of this byte of the file flipped.
    FlipBit(u64, u8),
}

/// One rule of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which reads it affects.
    pub when: When,
    /// What happens to them.
    pub fault: Fault,
    /// The number of reads it affects before it is used up.
    pub times: u64,
}

impl Rule {
    /// A rule that affects every read that it applies to.
    #[must_use]
    pub const fn new(when: When, fault: Fault) -> Self {
        Self {
            when,
            fault,
            times: u64::MAX,
        }
    }

    /// A rule for one read.
    #[must_use]
    pub const fn once(when: When, fault: Fault) -> Self {
        Self {
            when,
            fault,
            times: 1,
        }
    }
}

/// A device that fails as planned. `stat` is not affected.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Device>,
    name: String,
    plan: Mutex<Plan>,
    /// Changes whenever the device is healed.
    healed: watch::Sender<()>,
}

#[derive(Debug)]
struct Plan {
    rules: Vec<Rule>,
    reads: u64,
    struck: u64,
}

impl Faulty {
    /// Wraps `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>, rules: Vec<Rule>) -> Self {
        Self {
            name: format!("{} (faulty)", inner.name()),
            inner,
            plan: Mutex::new(Plan {
                rules,
                reads: 0,
                struck: 0,
            }),
            healed: watch::Sender::new(()),
        }
    }

    /// Adds a rule after the existing ones.
    pub fn add(&self, rule: Rule) {
        self.plan.lock().rules.push(rule);
    }

    /// Removes all rules, so that the device works from now on, and lets held reads go on.
    pub fn heal(&self) {
        let mut plan = self.plan.lock();
        plan.rules.clear();
        // Every held read has subscribed under the same lock.
        self.healed.send_replace(());
    }

    /// The number of reads so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.plan.lock().reads
    }

    /// The number of reads that a rule affected.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.plan.lock().struck
    }

    fn name_of(&self, file: &FileVersion) -> String {
        format!("{}/{}", self.name, file.location)
    }
}

impl Plan {
    fn strike(&mut self, file: &FileVersion, ranges: &[Range<u64>]) -> Option<Fault> {
        let number = self.reads;
        self.reads += 1;
        let applies = |rule: &&mut Rule| rule.times > 0 && rule.when.applies(number, file, ranges);
        let rule = self.rules.iter_mut().find(applies)?;
        rule.times -= 1;
        self.struck += 1;
        Some(rule.fault.clone())
    }
}

impl When {
    fn applies(&self, number: u64, file: &FileVersion, ranges: &[Range<u64>]) -> bool {
        match self {
            Self::Always => true,
            Self::Nth(nth) => number == *nth,
            Self::Every(step) => number.is_multiple_of(*step),
            Self::File(location) => file.location == *location,
            Self::Bytes(location, bytes) => {
                let meets =
                    |range: &Range<u64>| range.start.max(bytes.start) < range.end.min(bytes.end);
                file.location == *location && ranges.iter().any(meets)
            }
        }
    }
}

#[async_trait]
impl Device for Faulty {
    fn label(&self) -> Option<&str> {
        self.inner.label()
    }

    fn name(&self) -> &str {
        &self.name
    }

    async fn read(
        &self,
        file: &FileVersion,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StorageError> {
        let (fault, mut healed) = {
            let mut plan = self.plan.lock();
            (plan.strike(file, ranges), self.healed.subscribe())
        };
        let range = ranges.first().cloned().unwrap_or_default();
        let name = self.name_of(file);
        match fault {
            None => {}
            Some(Fault::Error(kind)) => {
                let source = Arc::new(io::Error::new(kind, "injected"));
                return Err(StorageError::Read {
                    file: name,
                    range,
                    source,
                });
            }
            Some(Fault::ShortRead(missing)) => {
                let got = (range.end - range.start).saturating_sub(missing);
                return Err(StorageError::ShortRead {
                    file: name,
                    range,
                    got,
                });
            }
            Some(Fault::Stall(time)) => tokio::time::sleep(time).await,
            Some(Fault::Hang) => futures::future::pending().await,
            Some(Fault::Held) => drop(healed.changed().await),
            Some(Fault::Replaced) => return Err(StorageError::Replaced { file: name }),
            Some(Fault::NotFound) => return Err(StorageError::NotFound { file: name }),
            Some(Fault::FlipBit(at, bit)) => {
                let mut answers = self.inner.read(file, ranges).await?;
                flip(ranges, &mut answers, at, bit);
                return Ok(answers);
            }
        }
        self.inner.read(file, ranges).await
    }

    async fn stat(&self, location: &Path) -> Result<FileVersion, StorageError> {
        self.inner.stat(location).await
    }

    fn meter(&self) -> &Meter {
        self.inner.meter()
    }

    fn request_cost_bytes(&self) -> u64 {
        self.inner.request_cost_bytes()
    }
}

fn flip(ranges: &[Range<u64>], answers: &mut [Bytes], at: u64, bit: u8) {
    for (range, answer) in ranges.iter().zip(answers) {
        if range.contains(&at) {
            let mut damaged = BytesMut::from(&answer[..]);
            let index = usize::try_from(at - range.start).unwrap_or(usize::MAX);
            damaged[index] ^= 1 << (bit % 8);
            *answer = damaged.freeze();
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    clippy::cast_possible_truncation,
    reason = "tests: a failure should panic, reads take lists of ranges, test data are low bits"
)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::super::{ObjectDevice, ObjectOptions};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strikes_as_planned() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("a");
        store.put(&path, vec![0; 100].into()).await.unwrap();
        let inner = ObjectDevice::new("memory://", store, ObjectOptions::default());
        let file = inner.stat(&path).await.unwrap();
        let device = Faulty::new(
            Arc::new(inner),
            vec![
                Rule::once(When::Nth(0), Fault::Error(io::ErrorKind::Other)),
                Rule::once(When::Nth(1), Fault::Stall(Duration::from_secs(9))),
                Rule::new(When::Bytes(path.clone(), 10..20), Fault::FlipBit(15, 3)),
                Rule::once(When::File(path), Fault::ShortRead(1)),
            ],
        );
        let wanted = [10..20];
        assert!(matches!(
            device.read(&file, &wanted).await,
            Err(StorageError::Read { .. })
        ));
        let before = tokio::time::Instant::now();
        assert_eq!(device.read(&file, &wanted).await.unwrap()[0][5], 0);
        assert_eq!(before.elapsed().as_secs(), 9);
        assert_eq!(device.read(&file, &wanted).await.unwrap()[0][5], 8);
        assert!(matches!(
            device.read(&file, &[0..10]).await,
            Err(StorageError::ShortRead { got: 9, .. })
        ));
        assert_eq!(device.read(&file, &[0..10]).await.unwrap()[0][5], 0);
        assert_eq!((device.reads(), device.struck()), (5, 4));
        device.heal();
        assert_eq!(device.read(&file, &wanted).await.unwrap()[0][5], 0);
        device.add(Rule::new(When::Every(1), Fault::Hang));
        let hung = device.read(&file, &wanted);
        let end = tokio::time::timeout(Duration::from_hours(1), hung).await;
        assert!(end.is_err());
        device.heal();
        device.add(Rule::new(When::Always, Fault::Held));
        let mut held = device.read(&file, &wanted);
        assert!(futures::poll!(&mut held).is_pending());
        device.heal();
        assert_eq!(held.await.unwrap()[0][5], 0);
    }
}
