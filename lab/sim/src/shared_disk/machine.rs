//! What do the nodes, disks and messages of a shared-disk system cost?
//!
//! Idea: every parameter of the paper's Figure 3 is a field, and [`Machine::figure3`] has its
//! setting. What Figure 3 leaves open (how times vary, how many caches there are, how many queries
//! run at a time) is a field too, so that a run can show what hangs on it.
//! Source: [RahmStohr94 §3, §4.1].

use crate::device::transfer_ns;
use crate::random::Random;

/// Average instructions of each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// Beginning of a transaction or query.
    pub bot: u64,
    /// Its end.
    pub eot: u64,
    /// Start of an I/O.
    pub io: u64,
    /// A reference to a tuple or an index entry.
    pub object: u64,
    /// Sending a short message.
    pub send_short: u64,
    /// Receiving one.
    pub receive_short: u64,
    /// Sending a page.
    pub send_long: u64,
    /// Receiving one.
    pub receive_long: u64,
}

/// Whether service times are their averages or vary around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Every service takes the average.
    Fixed,
    /// Between nothing and twice the average, each as likely as another.
    Uniform,
    /// Exponential with that mean.
    Exponential,
}

/// How the memory of the controllers is organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// One LRU list over the pages of all disks: `cache_pages` in all.
    Shared,
    /// A list of `cache_pages` for each disk.
    PerDisk,
    /// A list for each disk, and `cache_pages` in all.
    Divided,
}

/// When the pages of a read take their places in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFill {
    /// When the read is asked for: reads that wait for their arm leave less for pages that are
    /// there.
    Asked,
    /// When the arm has read them.
    Read,
}

/// Which requests a controller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerScope {
    /// Any disk's: as many controllers as disks, with one queue.
    Shared,
    /// Those of its own disk.
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
    /// What steps cost.
    pub instructions: Instructions,
    /// How instruction counts vary.
    pub processor_variation: Variation,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of a node's LRU buffer. At least 1.
    pub buffer_pages: u32,
    /// Disks that partitions are declustered over. At least 1.
    pub disks: u32,
    /// A controller's service of a page. Nanoseconds.
    pub controller_ns: u64,
    /// Which requests it serves.
    pub controller_scope: ControllerScope,
    /// A disk's access to one page. Nanoseconds.
    pub access_ns: u64,
    /// Pages of a prefetch, the wanted one included. At least 1.
    pub prefetch_pages: u32,
    /// A disk's access to that many. Nanoseconds.
    pub prefetch_ns: u64,
    /// How disk accesses vary.
    pub disk_variation: Variation,
    /// Pages of the disk cache. At least 1.
    pub cache_pages: u32,
    /// What `cache_pages` counts.
    pub cache_scope: CacheScope,
    /// When the pages of a read take their places there.
    pub cache_fill: CacheFill,
    /// Who wants a page that is on its way from an arm waits for it; else it is read once more.
    pub reads_shared: bool,
    /// Communication bandwidth, bytes per second. No message waits for another.
    pub bandwidth: u64,
    /// Bytes of a short message.
    pub message_bytes: u64,
    /// Transactions and queries that one node coordinates at a time. At least 1.
    pub queries_max: u32,
    /// Subqueries that one node works on at a time. At least 1.
    pub subqueries_max: u32,
}

impl Machine {
    /// Figure 3 with so many nodes and disks.
    ///
    /// It does not say how the access times of disks vary, which requests a controller serves, or
    /// when the cache is filled: what fits its other figures is taken (`rahm-variants`). Nor does
    /// it give multiprogramming levels: here they limit nothing.
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

    /// How long so many instructions take, drawn if they vary. Nanoseconds.
    pub(crate) fn compute_ns(&self, instructions: u64, random: &mut Random) -> u64 {
        let mean = instructions * 1_000 / self.mips;
        draw(mean, self.processor_variation, random)
    }

    /// How long a disk takes for a page, or for a prefetch, drawn if it varies. Nanoseconds.
    pub(crate) fn disk_ns(&self, prefetch: bool, random: &mut Random) -> u64 {
        let mean = if prefetch {
            self.prefetch_ns
        } else {
            self.access_ns
        };
        draw(mean, self.disk_variation, random)
    }

    /// How long a page is on its way. Nanoseconds.
    pub(crate) fn page_ns(&self) -> u64 {
        transfer_ns(self.page_bytes, self.bandwidth)
    }

    /// How long a short message is on its way. Nanoseconds.
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
