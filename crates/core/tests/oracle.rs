//! Promised: `Abm` makes the decisions that `docs/design/abm.md` prescribes, action for action,
//! keeps ABM-I1 to ABM-I5 and ABM-I7 towards any driver, and ends every scan whose consumers keep
//! asking (ABM-I6).
//!
//! Random operations drive random worlds. `agrees`: the fast scheduler against the naive one.
//! `live`: after a random prefix nothing fails, and every scan must end. `live` runs on both
//! machines, so that a flaw of the contract shows on the oracle, and a flaw of the implementation
//! only on the fast scheduler. `PROPTEST_CASES` scales the number of cases. A failure prints the
//! configuration, every event and its actions.

mod once_stuck;
#[path = "oracle/mod.rs"]
mod oracle;
mod world;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use coscan_core::{Abm, AbmConfig, Action, Event, Policy, ScanId, StorageModel, Time, TurnLimit};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use oracle::Oracle;
use world::{Limits, Op, PageState, TableShape, World, op, table_shape};

/// The interface of both schedulers.
trait Machine {
    fn start(config: AbmConfig) -> Self;
    fn feed(&mut self, now: Time, event: Event) -> Vec<Action>;
    fn deadline(&self) -> Option<Time>;
    /// Each scan's work so far, which decides the order of turns: nanoseconds and chunks.
    fn work(&self) -> Vec<(ScanId, u64, u64)>;
}

impl Machine for Abm {
    fn start(config: AbmConfig) -> Self {
        Self::new(config)
    }

    fn feed(&mut self, now: Time, event: Event) -> Vec<Action> {
        self.handle(now, event)
            .expect("the driver sends valid events only");
        let actions = std::iter::from_fn(|| self.poll_action()).collect();
        self.check();
        actions
    }

    fn deadline(&self) -> Option<Time> {
        self.next_deadline()
    }

    fn work(&self) -> Vec<(ScanId, u64, u64)> {
        let scans = self.scans();
        scans
            .map(|scan| (scan.scan, scan.worked_ns, scan.chunks_worked))
            .collect()
    }
}

impl Machine for Oracle {
    fn start(config: AbmConfig) -> Self {
        Self::new(config)
    }

    fn feed(&mut self, now: Time, event: Event) -> Vec<Action> {
        self.handle(now, event);
        std::iter::from_fn(|| self.poll_action()).collect()
    }

    fn deadline(&self) -> Option<Time> {
        self.next_deadline()
    }

    fn work(&self) -> Vec<(ScanId, u64, u64)> {
        Oracle::work(self)
    }
}

/// A world and the operations in it.
#[derive(Clone, Debug)]
struct Case {
    config: AbmConfig,
    tables: Vec<TableShape>,
    /// Nanoseconds since the preceding operation, and the operation.
    ops: Vec<(u64, Op)>,
}

fn case(policy: Policy, limits: Limits, ops_max: usize) -> impl Strategy<Value = Case> {
    let config = (
        0u64..500,
        1usize..=3,
        prop_oneof![1u64..60, Just(1_000_000)],
        1u64..50,
        proptest::option::of((1usize..4, 1u64..40)),
    )
        .prop_map(
            move |(budget_bytes, loads_max, stall_after_ns, wait_unit_ns, turns)| AbmConfig {
                policy,
                model: limits.model,
                budget_bytes,
                loads_max,
                stall_after_ns,
                wait_unit_ns,
                turns: turns.map(|(chunks_max, length_ns_max)| TurnLimit {
                    chunks_max,
                    length_ns_max,
                }),
            },
        );
    let ops = vec((0u64..6, op(limits)), 1..ops_max);
    (config, vec(table_shape(limits), 1..=3), ops).prop_map(|(config, tables, ops)| Case {
        config,
        tables,
        ops,
    })
}

/// Feeds one event to every given machine; all answers must be equal.
fn step(
    world: &mut World,
    machines: &mut [&mut dyn FnMut(Time, Event) -> Vec<Action>],
    event: &Event,
    verbose: bool,
) {
    if verbose {
        eprintln!("{:>6} {event:?}", world.now.0);
    }
    world.record(event);
    let mut answers = machines
        .iter_mut()
        .map(|machine| machine(world.now, event.clone()));
    let actions = answers.next().expect("a machine");
    if verbose {
        for action in &actions {
            eprintln!("         -> {action:?}");
        }
    }
    for other in answers {
        assert_eq!(actions, other, "left: the oracle; right: the other machine");
    }
    world.absorb(event, &actions);
}

fn registrations(case: &Case) -> impl Iterator<Item = (u64, Op)> {
    case.tables
        .iter()
        .map(|shape| (0, Op::Table(shape.clone())))
}

fn play_against_oracle<M: Machine>(case: &Case, verbose: bool) {
    let mut world = World::new(case.config.budget_bytes);
    let (mut oracle, mut machine) = (
        Oracle::start(case.config.clone()),
        M::start(case.config.clone()),
    );
    for (wait, op) in registrations(case).chain(case.ops.iter().cloned()) {
        world.now.0 += wait;
        if let Some(event) = world.resolve(&op) {
            let mut left = |now, event| oracle.feed(now, event);
            let mut right = |now, event| machine.feed(now, event);
            step(&mut world, &mut [&mut left, &mut right], &event, verbose);
            assert_eq!(oracle.deadline(), machine.deadline(), "next_deadline");
            assert_eq!(oracle.work(), machine.work(), "work so far");
        }
    }
}

/// Plays a random prefix. After it there are no faults, there is room for any load, and consumers
/// keep asking.
fn play_to_the_end<M: Machine>(case: &Case, seed: u64, verbose: bool) {
    let mut world = World::new(case.config.budget_bytes);
    let mut machine = M::start(case.config.clone());
    let mut feed = |world: &mut World, event: &Event| {
        step(
            world,
            &mut [&mut |now, e| machine.feed(now, e)],
            event,
            verbose,
        );
    };
    for (wait, op) in registrations(case).chain(case.ops.iter().cloned()) {
        world.now.0 += wait;
        if let Some(event) = world.resolve(&op) {
            feed(&mut world, &event);
        }
    }
    let mut random = seed;
    let slack = next(&mut random) % 3 * (next(&mut random) % 50);
    let enough = Event::BudgetChanged {
        bytes: world.largest_load() + slack,
    };
    feed(&mut world, &enough);

    // Each chunk needs a request, a load of up to five steps and a release. The limit also allows
    // generously for evicted loads and for events that do not concern a scan.
    let mut events_left = 2000 + 200 * world.needed();
    while !world.scans.is_empty() {
        let possible = liveness_events(&world, &mut random);
        assert!(
            !possible.is_empty(),
            "ABM-I6: nothing will ever happen again: {world:#?}"
        );
        assert!(events_left > 0, "ABM-I6: the scans do not end: {world:#?}");
        events_left -= 1;
        world.now.0 += next(&mut random) % 8;
        let at = usize::try_from(next(&mut random)).expect("64 bits") % possible.len();
        feed(&mut world, &possible[at]);
    }
}

/// The events that a driver without faults and with eager consumers could send now.
fn liveness_events(world: &World, random: &mut u64) -> Vec<Event> {
    let mut events = Vec::new();
    let chunks: BTreeSet<_> = world
        .loads
        .iter()
        .map(|load| (load.table, load.chunk))
        .collect();
    for (table, chunk) in chunks {
        let (mut columns, orphans) = (world.completable(table, chunk), world.orphans(table, chunk));
        if !orphans.is_empty() {
            // Left over from a fault of the prefix.
            events.push(Event::LoadFailed {
                table,
                chunk,
                columns: orphans,
            });
        } else if !columns.is_empty() {
            columns.truncate(1 + usize::try_from(next(random)).expect("64 bits") % columns.len());
            events.push(Event::LoadCompleted {
                table,
                chunk,
                columns,
            });
        }
    }
    for (&scan, q) in &world.scans {
        if q.exhausted || q.failed {
            events.push(Event::ScanEnded { scan });
        } else if q.may_request() {
            events.push(Event::ChunkRequested { scan });
        }
        events.extend(
            q.held
                .union(&q.lapsed)
                .map(|&chunk| Event::ChunkReleased { scan, chunk }),
        );
    }
    for &(scan, chunk) in world.jobs.keys() {
        events.push(Event::ChunkJobEnded {
            scan,
            chunk,
            given_back: Vec::new(),
        });
    }
    for (&request, page) in &world.pages {
        match page.state {
            PageState::Served => events.push(Event::PageReleased { request }),
            PageState::Queued | PageState::Dropped => {}
        }
    }
    events
}

/// A linear congruential generator, because the case alone must determine which of the possible
/// events comes next.
fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Runs the test on random values. On a failure the smallest failing value is replayed verbosely.
fn check<T: Clone + std::fmt::Debug>(
    cases: u32,
    values: impl Strategy<Value = T>,
    play: impl Fn(&T, bool),
) {
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        Config::default().cases
    } else {
        cases
    };
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        max_shrink_time: 15_000,
        ..Config::default()
    };
    hush_panics_of_quiet_threads();
    QUIET.set(true);
    let outcome = TestRunner::new(config).run(&values, |value| {
        catch_unwind(AssertUnwindSafe(|| play(&value, false)))
            .map_err(|_| TestCaseError::fail("it panics"))
    });
    QUIET.set(false);
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(_, value)) => {
            eprintln!("smallest failing case: {value:#?}");
            play(&value, true);
            panic!("the smallest failing case passes when it is played again");
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Shrinking causes thousands of panics; only the verbose replay should print.
fn hush_panics_of_quiet_threads() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                hook(info);
            }
        }));
    });
}

/// The limits of the random worlds.
fn limits(model: StorageModel) -> Limits {
    Limits {
        model,
        ordered: true,
        shared: true,
    }
}

fn agrees(policy: Policy, model: StorageModel) {
    check(
        40,
        case(policy, limits(model), 150),
        play_against_oracle::<Abm>,
    );
}

fn lives<M: Machine>(policy: Policy, limits: Limits) {
    let cases = (case(policy, limits, 60), any::<u64>());
    check(24, cases, |(case, seed), verbose| {
        play_to_the_end::<M>(case, *seed, verbose);
    });
}

macro_rules! for_each_policy_and_model {
    ($($name:ident: $policy:ident, $model:ident;)*) => {
        mod agrees {
            use super::*;
            $(#[test] fn $name() { agrees(Policy::$policy, StorageModel::$model); })*
        }

        mod live_oracle {
            use super::*;
            $(#[test] fn $name() { lives::<Oracle>(Policy::$policy, limits(StorageModel::$model)); })*
        }

        mod live_abm {
            use super::*;
            $(#[test] fn $name() { lives::<Abm>(Policy::$policy, limits(StorageModel::$model)); })*
        }
    };
}

for_each_policy_and_model! {
    normal_nsm: Normal, Nsm;
    normal_dsm: Normal, Dsm;
    attach_nsm: Attach, Nsm;
    attach_dsm: Attach, Dsm;
    pbm_nsm: Pbm, Nsm;
    pbm_dsm: Pbm, Dsm;
    pbm_sampling_nsm: PbmSampling, Nsm;
    pbm_sampling_dsm: PbmSampling, Dsm;
    elevator_nsm: Elevator, Nsm;
    elevator_dsm: Elevator, Dsm;
    relevance_nsm: Relevance, Nsm;
    relevance_dsm: Relevance, Dsm;
    relevance_2007_nsm: Relevance2007, Nsm;
    relevance_2007_dsm: Relevance2007, Dsm;
}
