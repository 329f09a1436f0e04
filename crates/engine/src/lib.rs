//! coscan
