//! The `coscan` command.
fn main() {}
