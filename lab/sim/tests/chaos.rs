//! Promised: in 500 random worlds with faults the core keeps every promise, and two runs of each
//! are equal; every kind of fault occurred in them; a starving policy is detected; a broken promise
//! is detected, and its world shrunk.
//!
//! `coscan sim chaos --seeds N` runs more worlds.

use coscan_core::Policy;
use coscan_sim::chaos::{Counts, Options, Trace, run, run_twice, shrink};

const SEEDS: u64 = 500;

#[test]
fn promises_are_kept_in_random_worlds() {
    let mut all = Counts::default();
    for seed in 0..SEEDS {
        let options = Options::draw(seed);
        match run_twice(&options) {
            Ok(report) => all.add(&report.counts),
            Err(failure) => panic!("{} in {:#?}", failure.message, failure.options),
        }
    }
    for (what, count) in all.named() {
        assert!(count > 100, "{what} happened {count} times only: {all:?}");
    }
}

/// Waiting does not count, so large scans starve while small ones keep arriving.
#[test]
fn the_canary_is_caught() {
    let mut caught = 0;
    for seed in 0..150 {
        let options = Options {
            policy: Policy::Relevance,
            churn: 5,
            wait_unit_ns: 1,
            ..Options::draw(seed)
        };
        let healthy = run(&options, &mut Trace::new(false));
        assert!(healthy.is_ok(), "{:?}", healthy.map_err(|f| f.message));
        let planted = Options {
            plant_canary: true,
            ..options
        };
        if let Err(failure) = run(&planted, &mut Trace::new(false)) {
            assert!(
                failure.message.starts_with("promise 1 (ABM-I6, ABM-I8)"),
                "{}",
                failure.message
            );
            caught += 1;
        }
    }
    assert!(caught > 0);
}

#[test]
fn a_failure_is_shrunk_and_stays_one() {
    let failure = (0..150)
        .find_map(|seed| {
            let options = Options {
                policy: Policy::Relevance,
                churn: 5,
                wait_unit_ns: 1,
                plant_canary: true,
                ..Options::draw(seed)
            };
            run(&options, &mut Trace::new(false)).err()
        })
        .expect("the canary is caught");
    let before = failure.options.clone();
    let least = shrink(failure);
    assert_ne!(before, least.options, "nothing could be left out");
    assert!(run(&least.options, &mut Trace::new(false)).is_err());
    assert!(least.options.plant_canary, "the bug itself is not left out");
}
