//! Promised: a file that was damaged or crafted gives an error, or the rows that plain DataFusion
//! reads from it; never a panic that is not an error, an abort, a hang, or a wrong row.
//!
//! A child process with a bound on its memory reads the mutants of a range of seeds, because a
//! failed allocation or an overflowed stack ends the process. If the child dies, the seed that it
//! was working on is printed; this command runs that seed alone:
//!
//! ```text
//! COSCAN_MUTANTS=SEED..SEED+1 cargo test --release -p coscan --test engine -- --exact mutants::child --ignored --nocapture
//! ```
//!
//! A hundred thousand mutants (`COSCAN_MUTANTS_COUNT` of them, from `COSCAN_MUTANTS_FIRST` on):
//!
//! ```text
//! cargo test --release -p coscan --test engine -- --exact mutants::a_hundred_thousand --ignored --nocapture
//! ```

mod files;
mod index;
mod mutate;
mod random;
mod scan;
mod thrift;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Memory that a child may map: its budget, plain DataFusion's memory for such files, and the
/// program. It is far below what a crafted count requests.
const ADDRESS_SPACE_KIB: u64 = 6 << 20;

/// A mutant takes milliseconds; the child itself gives a query 20 s.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// A child keeps the footers of all its mutants.
const MUTANTS_PER_CHILD: u64 = 2000;

/// The number of mutants with each outcome.
type Outcomes = BTreeMap<String, u64>;

/// Runs the mutants of these seeds in children.
///
/// # Panics
/// One of them died, hung, or returned a wrong row.
fn run(kind: &str, seeds: Range<u64>) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let mut failures = Vec::new();
    let mut first = seeds.start;
    while first < seeds.end && failures.len() < 20 {
        let end = seeds.end.min(first + MUTANTS_PER_CHILD);
        let (reached, failure) = child_of(kind, first..end, &mut outcomes);
        failures.extend(failure);
        first = reached + 1;
    }
    assert!(
        failures.is_empty(),
        "{outcomes:#?}\n{}",
        failures.join("\n")
    );
    outcomes
}

/// Runs one child; returns the last seed that it began, and the failure, if any.
fn child_of(kind: &str, seeds: Range<u64>, outcomes: &mut Outcomes) -> (u64, Option<String>) {
    let program = std::env::current_exe().expect("this program");
    let limited = format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited])
        .arg(program)
        .args(["--exact", "mutants::child", "--ignored", "--nocapture"])
        .env("COSCAN_MUTANTS", format!("{}..{}", seeds.start, seeds.end))
        .env("COSCAN_MUTANTS_KIND", kind)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child");
    let (said, heard) = mpsc::channel();
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let reading = thread::spawn(move || {
        lines.map_while(Result::ok).for_each(|line| {
            let _ = said.send(line);
        });
    });
    let mut errors = child.stderr.take().expect("its errors");
    let complaining = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut seed = seeds.start;
    let mut what = String::new();
    let mut hung = false;
    let mut wrong = None;
    loop {
        match heard.recv_timeout(SILENCE_MAX) {
            Ok(line) => {
                if let Some(begun) = line.strip_prefix("mutant ") {
                    let (number, rest) = begun.split_once(' ').unwrap_or((begun, ""));
                    seed = number.parse().unwrap_or(seed);
                    rest.clone_into(&mut what);
                } else if let Some(outcome) = line.strip_prefix("outcome ") {
                    *outcomes.entry(outcome.to_owned()).or_insert(0) += 1;
                } else if let Some(text) = line.strip_prefix("WRONG ") {
                    wrong = Some(text.to_owned());
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                hung = true;
                let _ = child.kill();
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().expect("its end");
    let _ = reading.join();
    let errors = complaining.join().unwrap_or_default();
    if status.success() && wrong.is_none() {
        return (seeds.end - 1, None);
    }
    let end: Vec<&str> = errors.lines().rev().take(6).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    let ended = if hung {
        "hung".to_owned()
    } else {
        status.to_string()
    };
    let wrong = wrong.unwrap_or_default();
    let end = end.join("\n  ");
    (
        seed,
        Some(format!(
            "{kind} seed {seed} ({what}): {ended} {wrong}\n  {end}"
        )),
    )
}

/// The work of a child.
#[test]
#[ignore = "run by the tests below"]
fn child() {
    let Ok(seeds) = std::env::var("COSCAN_MUTANTS") else {
        return;
    };
    let (first, end) = seeds.split_once("..").expect("FIRST..END");
    let seeds = first.parse().expect("a number")..end.parse().expect("a number");
    match std::env::var("COSCAN_MUTANTS_KIND").as_deref() {
        Ok("index") => index::run(seeds),
        _ => scan::run(seeds),
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(otherwise, |set| set.parse().expect(variable))
}

#[test]
fn a_few_thousand_files() {
    let outcomes = run("scan", 0..number("COSCAN_MUTANTS_COUNT", 2500));
    println!("{outcomes:#?}");
    // Most mutants are refused. If no mutant returned rows, or every one did, the mutants would
    // test little.
    let rows: u64 = outcomes
        .iter()
        .filter(|(kind, _)| kind.contains("rows"))
        .map(|(_, n)| n)
        .sum();
    let all: u64 = outcomes.values().sum();
    assert!(rows * 10 > all && rows * 10 < all * 9, "{outcomes:?}");
}

#[test]
fn a_thousand_indexes() {
    let outcomes = run("index", 0..number("COSCAN_MUTANTS_COUNT", 800));
    println!("{outcomes:#?}");
}

#[test]
#[ignore = "a quarter of an hour"]
fn a_hundred_thousand() {
    let first = number("COSCAN_MUTANTS_FIRST", 1_000_000);
    let count = number("COSCAN_MUTANTS_COUNT", 100_000);
    println!("{:#?}", run("scan", first..first + count * 9 / 10));
    println!("{:#?}", run("index", first..first + count / 10));
}
