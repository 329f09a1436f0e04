//! coscan-bench
