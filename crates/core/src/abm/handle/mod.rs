//! What each event does.

pub(crate) mod eviction;
pub(crate) mod jobs;
pub(crate) mod loading;
pub(crate) mod pages;
pub(crate) mod scans;
pub(crate) mod starvation;
pub(crate) mod turns;
