//! Promised: bugs found by `coscan sim chaos` stay fixed. Each case is the shortest log of its bug.

use coscan_core::Abm;
use coscan_core::log::{self, Record};

/// Runs the events of a log; returns the actions that follow the last one.
fn last_actions(log: &str) -> Vec<String> {
    let mut abm = None;
    let mut last = Vec::new();
    for line in log.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match log::parse(line).expect("a line of a log") {
            Record::Config(config) => abm = Some(Abm::new(config)),
            Record::Event(now, event) => {
                let abm = abm.as_mut().expect("the configuration comes first");
                abm.handle(now, event).expect("a valid event");
                abm.check();
                let actions = std::iter::from_fn(|| abm.poll_action());
                last = actions
                    .map(|action| {
                        let mut line = String::new();
                        log::write_action(&mut line, &action).expect("a String takes everything");
                        line.trim_end().to_owned()
                    })
                    .collect();
            }
            other => panic!("events only, not {other:?}"),
        }
    }
    last
}

/// Seed 1: the cursor reaches a chunk of which scan 0 has all wanted columns in memory. The bug
/// attributed the load to scan 0.
#[test]
fn elevator_loads_for_a_scan_that_misses_something() {
    let actions = last_actions(
        "coscan-log 1 policy=elevator model=dsm budget=100 loads=1 stall=1000 unit=1 turns=-
        0 TableRegistered 0 columns=2 chunks=0:10/20 shared=-
        0 ScanRegistered 0 table=0 consumers=1 ordered=0 parts=0:0
        1 LoadCompleted 0 0 0
        2 ScanRegistered 1 table=0 consumers=1 ordered=0 parts=0:1",
    );
    assert_eq!(actions, ["> Load 0 0 columns=1 extents=- bytes=20 scan=1"]);
}
