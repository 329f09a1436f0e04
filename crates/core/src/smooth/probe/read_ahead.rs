//! How much of a scan by an index is on its way at once?
//!
//! Enough to keep a flash disk busy, and little beside what memory there is: pages are read into
//! memory that nobody is asked for.
//! Not here: which pages these are (`mod.rs`), and who begins the reads (the driver).
//! Bounds: about an eighth of the memory, but one job per stream in any case.

/// Jobs on their way, over all streams.
const JOBS_MAX: usize = 16;
/// Of the memory, what pages on their way may take, as a divisor.
const MEMORY_PART: u64 = 8;
/// Pages of large regions on their way, over all streams: what was begun with large regions is read
/// before a sparse part of the table can make them small again.
const REGION_PAGES_MAX: usize = 128;
/// Pages of one job where they lie apart: those of rows, or small regions.
const APART_MAX: usize = 16;
/// Jobs on their way where all pages are known, and pages of each: few and large, for a job is a
/// request per column. Sixteen jobs of 12 pages took a disk 1.7 times as long as sixteen of 128.
const SORTED_JOBS_MAX: usize = 4;
const SORTED_PAGES_MAX: u32 = 128;

/// Bytes that a page takes, on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBytes {
    /// On disk, of what is needed of it.
    pub together: u64,
    /// In memory where it is read by itself, about: reads are of whole sectors.
    pub alone: u64,
}

/// Sizes of jobs and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// Pages that may be on their way at once, next to each other.
    pages: usize,
    /// The same, each by itself.
    alone: usize,
}

impl ReadAhead {
    /// One region a job, however much memory there is.
    pub const SINGLE: Self = Self {
        pages: usize::MAX,
        alone: 1,
    };

    /// For pages of so many bytes, and so much memory.
    #[must_use]
    pub fn new(page_bytes: PageBytes, memory_bytes: u64) -> Self {
        let of = |bytes: u64| {
            let pages = pages_bytes_max(memory_bytes) / bytes.max(1);
            usize::try_from(pages).unwrap_or(usize::MAX)
        };
        Self {
            pages: of(page_bytes.together),
            alone: of(page_bytes.alone),
        }
    }

    /// Pages of one job where they lie apart, about; at least 1.
    #[must_use]
    pub fn pages_apart(&self) -> usize {
        (self.alone / JOBS_MAX).clamp(1, APART_MAX)
    }

    /// Pages of one job where all are known; at least 1.
    #[must_use]
    pub fn sorted_pages(&self) -> u32 {
        let pages = u32::try_from(self.pages / SORTED_JOBS_MAX).unwrap_or(u32::MAX);
        pages.clamp(1, SORTED_PAGES_MAX)
    }

    /// Jobs of regions of this size that are on their way at once, over all streams; at least 1.
    #[must_use]
    pub fn region_jobs(&self, region_pages: u32) -> usize {
        let pages = self.pages.min(REGION_PAGES_MAX);
        let jobs = pages / (region_pages as usize).max(1);
        jobs.min(self.alone).clamp(1, JOBS_MAX)
    }

    /// Jobs of [`ReadAhead::sorted_pages`] on their way at once, over all streams; at least 1.
    #[must_use]
    pub fn sorted_jobs(&self) -> usize {
        self.pages.clamp(1, SORTED_JOBS_MAX)
    }
}

/// Bytes of pages on their way, over all scans, beyond which no further read is begun (but one a
/// stream).
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
    fn what_is_on_its_way_is_small_beside_memory() {
        for page_kib in [8, 80, 800, 8_000] {
            let sizes = sizes(page_kib << 10, page_kib << 10, 256 * MIB);
            let bytes = |jobs: usize, pages: usize| ((jobs * pages) as u64 * page_kib) << 10;
            // One job of one page is the least.
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
    fn plenty_of_memory_is_not_plenty_of_reads() {
        let sizes = sizes(80 << 10, 90 << 10, 16_000 * MIB);
        assert_eq!((sizes.sorted_jobs(), sizes.sorted_pages()), (4, 128));
        assert_eq!((sizes.region_jobs(1), sizes.pages_apart()), (16, 16));
        assert_eq!((sizes.region_jobs(64), sizes.region_jobs(1_000)), (2, 1));
    }

    #[test]
    fn small_pages_take_the_room_of_their_sectors() {
        let sizes = sizes(8 << 10, 64 << 10, 16 * MIB);
        assert_eq!((sizes.sorted_jobs(), sizes.sorted_pages()), (4, 64));
        assert_eq!((sizes.region_jobs(1), sizes.pages_apart()), (16, 2));
    }
}
