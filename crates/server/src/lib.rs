//! coscan-server
