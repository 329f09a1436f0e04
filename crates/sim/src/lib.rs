//! coscan-sim
