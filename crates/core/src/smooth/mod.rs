//! Smooth scan: an access path that morphs between index probe and full scan while it runs.
//!
//! Idea: the index names pages one after another. At first each page is read alone. Where pages
//! that hold results lie close together, the scan reads more pages around them, twice as many each
//! time, until it is in effect a full scan; where they lie apart, it reads fewer, down to one. No
//! decision depends on an estimate, so no estimate can be wrong, and no single row changes the
//! cost by much.
//!
//! [`Probe`] is the state machine of an index scan, for every access path: a driver carries out
//! its jobs and reports the results. [`SmoothScan`] is the part of it that chooses regions.
//! [`CostModel`] and [`competitive`] are the paper's analysis as functions. Not here: the index
//! and its order, the rows and their order (Result Cache), devices.
//! Source: [SmoothScan18 §3 to §6].

mod access_path;
pub mod competitive;
mod cost;
mod device_costs;
mod fetched_rows;
mod morphing;
mod page_layout;
mod page_set;
mod probe;
mod recent_pages;
mod scan;
mod seen_rows;

pub use access_path::{AccessPath, SmoothTrigger};
pub use cost::{AccessCost, CostModel, IndexShape};
pub use device_costs::DeviceCosts;
pub use fetched_rows::FetchedRows;
pub use morphing::{PageCosts, SmoothPolicy};
pub use page_layout::{PageLayout, PageRun};
pub use probe::{
    Event, Examined, HandOver, Job, JobId, PageBytes, Pricing, Probe, ProbeOptions, ReadAhead,
    SAMPLED_LEAVES, Sample, TableSize, pages_bytes_max, sampled_leaves, take_over_pages,
};
pub use recent_pages::RecentPages;
pub use scan::{SmoothOptions, SmoothScan};
pub use seen_rows::SeenRows;
