//! What do the nodes, disks and messages of a shared-disk system cost?
//!
//! Idea: every parameter of the paper's Figure 3 is a field, and [`Machine::figure3`] has its
//! setting. What Figure 3 leaves open (the variation of times, the number of caches, the number of
//! concurrent queries) is a field too, so that a run can show its influence.
//! Source: [RahmStohr94 §3, §4.1].

use crate::device::transfer_ns;
use crate::random::Random;

/// The average instructions of each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// Beginning of a transaction or query.
    pub bot: u64,
    /// End of a transaction or query.
    pub eot: u64,
    /// Start of an I/O.
    pub io: u64,
    /// A reference to a tuple or an index entry.
    pub object: u64,
    /// Sending a short message.
    pub send_short: u64,
    /// Receiving a short message.
    pub receive_short: u64,
    /// Sending a page.
    pub send_long: u64,
    /// Receiving a page.
    pub receive_long: u64,
}

/// Whether service times are their averages or vary around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Every service takes the average.
    Fixed,
    /// Uniform between 0 and twice the average.
    Uniform,
    /// Exponential with the average as mean.
    Exponential,
}

/// How the memory of the controllers is organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// One LRU list over the pages of all disks, `cache_pages` in total.
    Shared,
    /// One list of `cache_pages` per disk.
    PerDisk,
    /// One list per disk, `cache_pages` in total.
    Divided,
}

/// When the pages of a read take their places in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFill {
    /// When the read is requested: reads that wait for their arm leave fewer places for resident
    /// pages.
    Asked,
    /// When the arm has read them.
    Read,
}

/// Which requests a controller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerScope {
    /// Requests of any disk: as many controllers as disks, with one queue.
    Shared,
    /// Requests of its own disk.
    PerDisk,
}

/// The nodes, the disks and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processing nodes, n. At least 1.
    pub nodes: u32,
    /// Processors of a node, m. At least 1.
    pub processors: u32,
    /// Million instructions per second of a processor. At least 1.
    pub mips: u64,
    /// The instructions of each step.
    pub instructions: Instructions,
    /// How instruction counts vary.
    pub processor_variation: Variation,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of a node's LRU buffer. At least 1.
    pub buffer_pages: u32,
    /// Disks that partitions are declustered over. At least 1.
    pub disks: u32,
    /// Time of a controller for one page. Nanoseconds.
    pub controller_ns: u64,
    /// Which requests a controller serves.
    pub controller_scope: ControllerScope,
    /// Time of a disk for one page. Nanoseconds.
    pub access_ns: u64,
    /// Pages of a prefetch, the requested page included. At least 1.
    pub prefetch_pages: u32,
    /// Time of a disk for a prefetch. Nanoseconds.
    pub prefetch_ns: u64,
    /// How disk times vary.
    pub disk_variation: Variation,
    /// Pages of the disk cache. At least 1.
    pub cache_pages: u32,
    /// The scope of `cache_pages`.
    pub cache_scope: CacheScope,
    /// When the pages of a read take their places in the cache.
    pub cache_fill: CacheFill,
    /// Whether a request for a page that an arm is reading waits for that read; otherwise the page
    /// is read a second time.
    pub reads_shared: bool,
    /// Communication bandwidth, bytes per second. No message waits for another.
    pub bandwidth: u64,
    /// Bytes of a short message.
    pub message_bytes: u64,
    /// The most transactions and queries that one node coordinates at a time. At least 1.
    pub queries_max: u32,
    /// The most subqueries that one node works on at a time. At least 1.
    pub subqueries_max: u32,
}

impl Machine {
    /// Figure 3 with this many nodes and disks.
    ///
    /// Figure 3 does not say how the times of disks vary, which requests a controller serves, or
    /// when the cache is filled: the values here fit its other figures best (`rahm-variants`). Nor
    /// does it give multiprogramming levels: the values here limit nothing.
    #[must_use]
    pub fn figure3(nodes: u32, disks: u32) -> Self {
        Self {
            nodes,
            processors: 1,
            mips: 30,
            instructions: Instructions {
                bot: 25_000,
                eot: 25_000,
                io: 3_000,
                object: 1_000,
                send_short: 1_000,
                receive_short: 1_000,
                send_long: 5_000,
                receive_long: 5_000,
            },
            processor_variation: Variation::Fixed,
            page_bytes: 8 << 10,
            buffer_pages: 500,
            disks,
            controller_ns: 1_000_000,
            controller_scope: ControllerScope::Shared,
            access_ns: 11_000_000,
            prefetch_pages: 8,
            prefetch_ns: 18_000_000,
            disk_variation: Variation::Uniform,
            cache_pages: 1_000,
            cache_scope: CacheScope::Shared,
            cache_fill: CacheFill::Asked,
            reads_shared: true,
            bandwidth: 20_000_000,
            message_bytes: 128,
            queries_max: 10_000,
            subqueries_max: 10_000,
        }
    }

    /// The time of this many instructions, drawn if it varies. Nanoseconds.
    pub(crate) fn compute_ns(&self, instructions: u64, random: &mut Random) -> u64 {
        let mean = instructions * 1_000 / self.mips;
        draw(mean, self.processor_variation, random)
    }

    /// The time of a disk for a page or a prefetch, drawn if it varies. Nanoseconds.
    pub(crate) fn disk_ns(&self, prefetch: bool, random: &mut Random) -> u64 {
        let mean = if prefetch {
            self.prefetch_ns
        } else {
            self.access_ns
        };
        draw(mean, self.disk_variation, random)
    }

    /// The time of a page on the network. Nanoseconds.
    pub(crate) fn page_ns(&self) -> u64 {
        transfer_ns(self.page_bytes, self.bandwidth)
    }

    /// The time of a short message on the network. Nanoseconds.
    pub(crate) fn message_ns(&self) -> u64 {
        transfer_ns(self.message_bytes, self.bandwidth)
    }
}

fn draw(mean: u64, variation: Variation, random: &mut Random) -> u64 {
    match variation {
        Variation::Fixed => mean,
        Variation::Uniform => random.below(2 * mean + 1),
        Variation::Exponential => random.exponential(mean),
    }
}
