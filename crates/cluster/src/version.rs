//! Which version must all nodes of a cluster have?

/// That of this process (SENT-I1).
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
