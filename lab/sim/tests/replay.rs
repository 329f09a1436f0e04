//! Promised: a log replays as it was written; the replay of an altered log names the altered line;
//! a log that was cut off replays as far as it goes.

use coscan_sim::chaos::{Options, Trace, run};
use coscan_sim::{ReplayError, replay};

fn log_of(seed: u64) -> String {
    let mut trace = Trace::new(true);
    let report = run(&Options::draw(seed), &mut trace).expect("every promise is kept");
    assert!(report.events > 20);
    trace.text().to_owned()
}

#[test]
fn a_log_replays_as_it_was_written() {
    for seed in 0..100 {
        let log = log_of(seed);
        let replayed = replay(log.as_bytes()).expect("the same decisions");
        let actions = log.lines().filter(|line| line.starts_with('>')).count();
        assert_eq!(replayed.actions, actions as u64);
        assert!(!replayed.cut_off);
    }
}

/// If any action line is changed, dropped or doubled, the replay names that line.
#[test]
fn an_altered_log_differs_where_it_was_altered() {
    let log = log_of(7);
    let lines: Vec<&str> = log.lines().collect();
    for (at, _) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with('>'))
    {
        let with = |put: &[&str]| {
            let altered = [&lines[..at], put, &lines[at + 1..]].concat();
            replay((altered.join("\n") + "\n").as_bytes())
        };
        let changed = format!("{}0", lines[at]);
        for put in [
            &[changed.as_str()][..],
            &[],
            &[lines[at], "> Exhausted 99999"],
        ] {
            let Err(ReplayError::Differs {
                event_line, line, ..
            }) = with(put)
            else {
                panic!("line {at} was altered");
            };
            // (Of two equal lines in a row it does not matter which one is missing.)
            let at = at as u64;
            assert!(
                line > at && event_line <= at,
                "line {at}, but {line} after {event_line}"
            );
        }
    }
}

#[test]
fn a_log_that_was_cut_off_replays_as_far_as_it_goes() {
    let log = log_of(3);
    let whole = replay(log.as_bytes()).expect("the same decisions");
    for cut in (100..log.len()).step_by(97) {
        match replay(&log.as_bytes()[..cut]) {
            Ok(part) => {
                assert!(part.cut_off && part.events <= whole.events);
            }
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
}

#[test]
fn what_is_no_log_is_refused() {
    assert!(matches!(replay(&b"hello\n"[..]), Err(ReplayError::NotALog)));
    assert!(matches!(replay(&b""[..]), Err(ReplayError::NotALog)));
    let log = log_of(1);
    let newer = log.replacen("coscan-log 1", "coscan-log 2", 1);
    assert!(matches!(
        replay(newer.as_bytes()),
        Err(ReplayError::BadLine { line: 1, .. })
    ));
    let twice = format!("{log}{log}");
    assert!(matches!(
        replay(twice.as_bytes()),
        Err(ReplayError::OutOfPlace { .. })
    ));
}
