//! Which options determine how a table is scanned by an index, before anything is read?

use super::ReadAhead;
use crate::smooth::{AccessPath, CostModel, DeviceCosts, PageCosts, SmoothOptions, SmoothTrigger};

/// How a table is scanned by an index.
#[derive(Clone, Copy, Debug)]
pub struct ProbeOptions {
    /// The access path. `full` does not use an index; the probe treats it as `smooth`.
    pub path: AccessPath,
    /// How `smooth` morphs.
    pub smooth: SmoothOptions,
    /// Rows fetched one by one before `smooth` begins to morph (mode 0) or `switch` changes over:
    /// [`SmoothTrigger::rows_first`].
    pub rows_first: u64,
    /// The prices of pages.
    pub pricing: Pricing,
    /// Regions of this many pages make a cooperative scan take over: [`take_over_pages`], or
    /// `u32::MAX` for never.
    pub take_over_pages: u32,
    /// About how many entries the index has. `None`: the index is not sampled before the first
    /// region.
    pub entries_at_most: Option<u64>,
    /// The limits on outstanding jobs and pages.
    pub read_ahead: ReadAhead,
}

/// What a smooth scan knows about the prices of pages.
#[derive(Clone, Copy, Debug)]
pub enum Pricing {
    /// Nothing, as in the paper.
    Unknown,
    /// These prices.
    Known(PageCosts),
    /// Prices measured by the times between events; before the first measurement these, in
    /// nanoseconds.
    Measured(PageCosts),
}

/// The prices as a probe keeps them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Prices {
    Unknown,
    Known(PageCosts),
    Measured(DeviceCosts),
}

impl Prices {
    pub(super) fn of(pricing: Pricing) -> Self {
        match pricing {
            Pricing::Unknown => Self::Unknown,
            Pricing::Known(costs) => Self::Known(costs),
            Pricing::Measured(believed) => {
                let PageCosts { random, sequential } = believed;
                Self::Measured(DeviceCosts::new(random, sequential))
            }
        }
    }

    /// Records a region of `pages` pages that was finished `nanoseconds` after the region before
    /// it.
    pub(super) fn measured(&mut self, pages: u32, nanoseconds: u64) {
        if let Self::Measured(costs) = self {
            costs.measured(pages, nanoseconds);
        }
    }

    pub(super) fn costs(&self) -> Option<PageCosts> {
        match self {
            Self::Unknown => None,
            Self::Known(costs) => Some(*costs),
            Self::Measured(costs) => Some(costs.costs()),
        }
    }
}

/// The size of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableSize {
    /// The number of pages.
    pub pages: u32,
    /// The number of rows.
    pub rows: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

impl SmoothTrigger {
    /// The number of rows fetched one by one before a smooth scan morphs. `estimate`: the
    /// optimizer's number of rows; `sla_ns`: the promised time; `believed`: the prices of pages in
    /// nanoseconds.
    #[must_use]
    pub fn rows_first(
        self,
        estimate: u64,
        sla_ns: f64,
        table: TableSize,
        believed: PageCosts,
    ) -> u64 {
        match self {
            Self::Eager => 0,
            Self::Optimizer => estimate,
            Self::Sla => {
                let TableSize {
                    pages,
                    rows,
                    page_bytes,
                } = table;
                let bytes = page_bytes * u64::from(pages).max(1);
                let model = CostModel {
                    rows,
                    row_bytes: (bytes / rows.max(1)).max(1),
                    page_bytes,
                    key_bytes: KEY_BYTES,
                    random: believed.random as f64,
                    sequential: believed.sequential as f64,
                    cpu: 0.0,
                };
                model.rows_within(sla_ns)
            }
        }
    }
}

/// The size of regions, in pages, at which a cooperative scan takes over: a part of a chunk. At
/// least 2.
#[must_use]
pub fn take_over_pages(pages: u32, chunks: usize, region_pages_max: u32) -> u32 {
    let of_chunk = u64::from(pages).max(1) / (chunks as u64).max(1);
    let part = u32::try_from(of_chunk / TAKE_OVER_PART).unwrap_or(u32::MAX);
    part.min(region_pages_max).max(2)
}

/// A scan takes over when regions reach this part of a chunk, as a divisor. The scan reads whole
/// chunks, so it reads pages of them a second time that regions have read: 10 % of a full scan of
/// 58 chunks when regions had to be as large as a chunk, on a disk limited to 200 MB/s.
const TAKE_OVER_PART: u64 = 4;
/// Approximate bytes of an index key. The model needs a value; the result hardly depends on it.
const KEY_BYTES: u64 = 8;
