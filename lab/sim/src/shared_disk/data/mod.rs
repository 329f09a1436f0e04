//! Pages and what holds for them: the disk of a page, its locks, its newest copy.
//!
//! Not here: the messages that locks and pages take (`steps`).

pub(crate) mod coherency;
pub(crate) mod database;
pub(crate) mod locks;
