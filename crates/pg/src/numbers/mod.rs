//! PostgreSQL's numbers: their arithmetic, and the functions on them.

pub(crate) mod numeric;
