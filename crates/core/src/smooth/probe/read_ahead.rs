//! How many jobs and pages of an index scan are outstanding at once?
//!
//! Enough to keep a flash disk busy, and little compared with the memory, because page reads do
//! not reserve memory in the budget.
//! Not here: which pages are read (`mod.rs`), and when the reads begin (the driver).
//! Bounds: about an eighth of the memory, but at least one job per stream.

/// The most outstanding jobs, over all streams.
const JOBS_MAX: usize = 16;
/// The part of the memory that outstanding pages may take, as a divisor.
const MEMORY_PART: u64 = 8;
/// The most outstanding pages of large regions, over all streams: all of them are read before a
/// sparse part of the table can shrink the regions.
const REGION_PAGES_MAX: usize = 128;
/// The most pages of a job whose pages lie apart: rows, or small regions.
const APART_MAX: usize = 16;
/// The most rows of a job whose rows share pages, as many as a leaf of the index: the jobs that are
/// outstanding then have several pages, even if the index names all 20,000 rows of each in a row.
const SHARED_ROWS_MAX: usize = 4_096;
/// The most outstanding jobs when all pages are known, and the most pages of each. Few and large,
/// because a job is one request per column. Sixteen jobs of 12 pages took a disk 1.7 times as long
/// as sixteen of 128.
const SORTED_JOBS_MAX: usize = 4;
const SORTED_PAGES_MAX: u32 = 128;

/// The average bytes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBytes {
    /// On disk, counting the needed columns.
    pub together: u64,
    /// In memory when read alone, approximately: reads cover whole sectors.
    pub alone: u64,
}

/// The sizes of jobs and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// The most outstanding pages, if they are adjacent.
    pages: usize,
    /// The most outstanding pages, if each is read alone.
    alone: usize,
    /// Whether rows of a page cost one read.
    rows_share_pages: bool,
}

impl ReadAhead {
    /// One region per job, with any amount of memory.
    pub const SINGLE: Self = Self {
        pages: usize::MAX,
        alone: 1,
        rows_share_pages: false,
    };

    /// The sizes for pages of `page_bytes` and for `memory_bytes` of memory.
    #[must_use]
    pub fn new(page_bytes: PageBytes, memory_bytes: u64) -> Self {
        let of = |bytes: u64| {
            let pages = pages_bytes_max(memory_bytes) / bytes.max(1);
            usize::try_from(pages).unwrap_or(usize::MAX)
        };
        Self {
            pages: of(page_bytes.together),
            alone: of(page_bytes.alone),
            rows_share_pages: false,
        }
    }

    /// The same for a driver that keeps pages for the rows that follow: jobs of rows are bounded by
    /// their pages, not by their rows.
    #[must_use]
    pub fn with_shared_pages(self) -> Self {
        Self {
            rows_share_pages: true,
            ..self
        }
    }

    /// About the most pages of a job whose pages lie apart; at least 1.
    #[must_use]
    pub fn pages_apart(&self) -> usize {
        (self.alone / JOBS_MAX).clamp(1, APART_MAX)
    }

    /// The most rows of a job that fetches rows one by one; at least 1.
    #[must_use]
    pub fn rows(&self) -> usize {
        if self.rows_share_pages {
            SHARED_ROWS_MAX
        } else {
            self.pages_apart()
        }
    }

    /// The most pages of a job when all pages are known; at least 1.
    #[must_use]
    pub fn sorted_pages(&self) -> u32 {
        let pages = u32::try_from(self.pages / SORTED_JOBS_MAX).unwrap_or(u32::MAX);
        pages.clamp(1, SORTED_PAGES_MAX)
    }

    /// The most outstanding jobs of regions of this size, over all streams; at least 1.
    #[must_use]
    pub fn region_jobs(&self, region_pages: u32) -> usize {
        let pages = self.pages.min(REGION_PAGES_MAX);
        let jobs = pages / (region_pages as usize).max(1);
        jobs.min(self.alone).clamp(1, JOBS_MAX)
    }

    /// The most outstanding jobs of [`ReadAhead::sorted_pages`], over all streams; at least 1.
    #[must_use]
    pub fn sorted_jobs(&self) -> usize {
        self.pages.clamp(1, SORTED_JOBS_MAX)
    }
}

/// The bytes of outstanding pages, over all scans, beyond which no further read begins. One read
/// per stream is always allowed.
#[must_use]
pub fn pages_bytes_max(memory_bytes: u64) -> u64 {
    memory_bytes / MEMORY_PART
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn sizes(together: u64, alone: u64, memory_bytes: u64) -> ReadAhead {
        ReadAhead::new(PageBytes { together, alone }, memory_bytes)
    }

    #[test]
    fn outstanding_reads_take_a_small_part_of_memory() {
        for page_kib in [8, 80, 800, 8_000] {
            let sizes = sizes(page_kib << 10, page_kib << 10, 256 * MIB);
            let bytes = |jobs: usize, pages: usize| ((jobs * pages) as u64 * page_kib) << 10;
            // The minimum is one job of one page.
            let most = (32 * MIB).max(page_kib << 10);
            assert!(bytes(sizes.sorted_jobs(), sizes.sorted_pages() as usize) <= most);
            for region in 1..200 {
                let pages = (region as usize).max(sizes.pages_apart());
                let jobs = sizes.region_jobs(region);
                assert!(
                    jobs == 1 || bytes(jobs, pages) <= most,
                    "{page_kib} {region}"
                );
            }
        }
    }

    #[test]
    fn much_memory_does_not_mean_many_reads() {
        let sizes = sizes(80 << 10, 90 << 10, 16_000 * MIB);
        assert_eq!((sizes.sorted_jobs(), sizes.sorted_pages()), (4, 128));
        assert_eq!((sizes.region_jobs(1), sizes.pages_apart()), (16, 16));
        assert_eq!((sizes.region_jobs(64), sizes.region_jobs(1_000)), (2, 1));
    }

    #[test]
    fn small_pages_take_the_memory_of_their_sectors() {
        let sizes = sizes(8 << 10, 64 << 10, 16 * MIB);
        assert_eq!((sizes.sorted_jobs(), sizes.sorted_pages()), (4, 64));
        assert_eq!((sizes.region_jobs(1), sizes.pages_apart()), (16, 2));
    }
}
