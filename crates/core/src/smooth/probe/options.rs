//! What decides how a table is scanned by an index, before anything was read?

use super::ReadAhead;
use crate::smooth::{AccessPath, CostModel, DeviceCosts, PageCosts, SmoothOptions, SmoothTrigger};

/// How a table is scanned by an index.
#[derive(Clone, Copy, Debug)]
pub struct ProbeOptions {
    /// By which path. `full` has no use for an index: it is treated as `smooth`.
    pub path: AccessPath,
    /// How `smooth` morphs.
    pub smooth: SmoothOptions,
    /// Rows that are fetched one by one before `smooth` begins to morph (mode 0) or `switch` gives
    /// up: [`SmoothTrigger::rows_first`].
    pub rows_first: u64,
    /// What pages cost.
    pub pricing: Pricing,
    /// Regions of so many pages leave the rest to a cooperative scan: [`take_over_pages`], or
    /// `u32::MAX` for never.
    pub take_over_pages: u32,
    /// Entries of the index, about, if it may be asked before the first region what it names.
    pub entries_at_most: Option<u64>,
    /// How much is on its way at once.
    pub read_ahead: ReadAhead,
}

/// What a smooth scan knows of the price of pages.
#[derive(Clone, Copy, Debug)]
pub enum Pricing {
    /// Nothing, as the paper's.
    Unknown,
    /// They cost this.
    Known(PageCosts),
    /// What the times between events show; this, in nanoseconds, until they do.
    Measured(PageCosts),
}

/// The prices as a probe has them.
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

    /// A region of so many pages was done so long after the one before it.
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
    /// Pages.
    pub pages: u32,
    /// Rows.
    pub rows: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

impl SmoothTrigger {
    /// How many rows are fetched one by one before a smooth scan morphs. `estimate`: the
    /// optimizer's; `sla_ns`: the promised time; `believed`: what pages cost, in nanoseconds.
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

/// From regions of how many pages on a cooperative scan takes over: those of a part of a chunk. At
/// least 2.
#[must_use]
pub fn take_over_pages(pages: u32, chunks: usize, region_pages_max: u32) -> u32 {
    let of_chunk = u64::from(pages).max(1) / (chunks as u64).max(1);
    let part = u32::try_from(of_chunk / TAKE_OVER_PART).unwrap_or(u32::MAX);
    part.min(region_pages_max).max(2)
}

/// A scan takes over from regions of this part of a chunk on, as a divisor. It reads whole chunks,
/// so what regions have read of them is read again: 10 % of a full scan of 58 chunks when regions
/// had to be as large as a chunk, on a disk held to 200 MB/s.
const TAKE_OVER_PART: u64 = 4;
/// Of an entry of the index, about: the model wants to know, and it hardly matters.
const KEY_BYTES: u64 = 8;
