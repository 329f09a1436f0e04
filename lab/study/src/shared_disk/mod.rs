//! [RahmStohr94]: parallel scans on shared disks, figure by figure.
//!
//! The system is coscan-sim's `shared_disk`; what is run in it and what it must show stands here.
//! Queries are drawn anew for every seed.

pub(crate) mod clustered;
mod curves;
mod measure;
pub(crate) mod multi_user;
pub(crate) mod non_clustered;
pub(crate) mod relation;
pub(crate) mod scale;
pub(crate) mod variants;
