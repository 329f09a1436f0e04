//! [CoopScans07] Table 2's order of the policies, and that a seed fixes a run.
//!
//! Not asserted: that elevator's streams are faster than attach's (138 s and 161 s in the paper). Ours are not yet
//! (163 s and 146 s): our elevator makes 4 sweeps where the paper's makes 5.5. docs/ROADMAP.md, simulator.

use coscan_core::Policy;
use coscan_sim::{Summary, summarise, table2};

fn mean(policy: Policy, seeds: u64) -> Summary {
    let mut total = Summary::default();
    for seed in 0..seeds {
        let experiment = table2(policy, seed);
        let outcome = experiment.run();
        assert!(
            outcome.finished,
            "{policy:?} seed {seed}: every query ends (I6)"
        );
        let one = summarise(&experiment, &outcome);
        let share = 1.0 / seeds as f64;
        total.stream_s += one.stream_s * share;
        total.normalized += one.normalized * share;
        total.total_s += one.total_s * share;
        total.cpu += one.cpu * share;
        total.loads += one.loads;
    }
    total.loads /= seeds;
    println!("{policy:?}: {total:?}");
    total
}

#[test]
fn the_policies_rank_as_in_the_paper() {
    let normal = mean(Policy::Normal, 4);
    let attach = mean(Policy::Attach, 4);
    let elevator = mean(Policy::Elevator, 4);
    let relevance = mean(Policy::Relevance, 4);
    assert!(relevance.stream_s < elevator.stream_s);
    assert!(relevance.stream_s < attach.stream_s);
    assert!(attach.stream_s < normal.stream_s);
    assert!(relevance.normalized < attach.normalized);
    assert!(attach.normalized < normal.normalized);
    assert!(normal.normalized < elevator.normalized);
    assert!(elevator.loads < relevance.loads);
    assert!(relevance.loads < attach.loads);
    assert!(attach.loads < normal.loads);
}

#[test]
fn a_seed_fixes_a_run() {
    assert_eq!(
        table2(Policy::Relevance, 7).run(),
        table2(Policy::Relevance, 7).run()
    );
}
