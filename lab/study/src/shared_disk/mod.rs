//! [RahmStohr94]: parallel scans on shared disks, figure by figure.
//!
//! The system is coscan-sim's `shared_disk`; the settings and the claims are here. Each seed draws
//! its own queries.

pub(crate) mod clustered;
mod curves;
mod measure;
pub(crate) mod multi_user;
pub(crate) mod non_clustered;
pub(crate) mod relation;
pub(crate) mod scale;
pub(crate) mod variants;
