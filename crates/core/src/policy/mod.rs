//! The rules by which the buffer manager decides, one file a policy.

pub(crate) mod elevator;
pub(crate) mod in_order;
pub(crate) mod pbm;
pub(crate) mod relevance;
