//! Progress bars: on standard error, and only if that is a terminal.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coscan::{Engine, IndexBuild};
use coscan_bench::progress::{OnProgress, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// A bar for each phase of a benchmark.
pub(crate) fn phases() -> OnProgress {
    let bars = MultiProgress::new();
    let current: Mutex<Option<ProgressBar>> = Mutex::new(None);
    Arc::new(move |progress| {
        let Ok(mut current) = current.lock() else {
            return;
        };
        match progress {
            Progress::Begun { phase, steps } => {
                if let Some(bar) = current.take() {
                    bar.finish();
                }
                let bar = bars.add(bar(
                    steps,
                    "{prefix:>16} {wide_bar:.cyan/dim} {pos:>3}/{len} queries  {elapsed:>4}",
                ));
                bar.set_prefix(phase);
                bar.enable_steady_tick(TICK);
                *current = Some(bar);
            }
            Progress::Advanced => {
                if let Some(bar) = current.as_ref() {
                    bar.inc(1);
                    if Some(bar.position()) == bar.length() {
                        bar.finish();
                    }
                }
            }
            _ => {}
        }
    })
}

/// A bar for rows that are being generated.
pub(crate) fn rows(what: &str) -> ProgressBar {
    let bar = bar(
        0,
        "{prefix:>16} {wide_bar:.cyan/dim} {percent:>3} %  {elapsed:>4}",
    );
    bar.set_prefix(what.to_owned());
    bar
}

/// A bar for the progress of an engine's statements: chunks that their scans have consumed; while
/// indexes are built, rows read and then entries written. It moves until it is dropped.
pub(crate) struct Statements {
    bar: ProgressBar,
    poller: Option<tokio::task::JoinHandle<()>>,
}

impl Statements {
    pub(crate) fn watch(engine: &Engine) -> Self {
        let bar = bar(0, STATEMENTS);
        if bar.is_hidden() {
            return Self { bar, poller: None };
        }
        let (engine, shown) = (engine.clone(), bar.clone());
        let poller = tokio::spawn(async move {
            let mut seen = Seen::default();
            loop {
                tokio::time::sleep(TICK).await;
                if let Some(step) = build_step(&engine.index_builds()) {
                    step.show(&shown);
                    continue;
                }
                let running =
                    engine
                        .snapshots()
                        .into_iter()
                        .enumerate()
                        .flat_map(|(pool, pools)| {
                            pools
                                .scans
                                .into_iter()
                                .map(move |scan| ((pool, scan.scan), scan.chunks_left))
                        });
                let (done, all) = seen.update(running);
                if all > 0 {
                    let what = "chunks";
                    Step { done, all, what }.show(&shown);
                }
            }
        });
        Self {
            bar,
            poller: Some(poller),
        }
    }

    /// Removes the bar if the rows that follow appear on the same screen; if they go to a file or
    /// pipe, the bar stays.
    pub(crate) fn make_way(&mut self) {
        if io::stdout().is_terminal() {
            self.clear();
        }
    }

    /// Removes the bar.
    pub(crate) fn clear(&mut self) {
        if let Some(poller) = self.poller.take() {
            poller.abort();
        }
        self.bar.finish_and_clear();
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The contents of the bar.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    done: u64,
    all: u64,
    what: &'static str,
}

impl Step {
    fn show(self, bar: &ProgressBar) {
        bar.set_length(self.all);
        bar.set_position(self.done);
        bar.set_message(self.what);
    }
}

/// The progress of all index builds together; `None` if there are none.
fn build_step(builds: &[IndexBuild]) -> Option<Step> {
    let sum = |count: fn(&IndexBuild) -> u64| builds.iter().map(count).sum::<u64>();
    let (rows, rows_read) = (sum(|build| build.rows), sum(|build| build.rows_read));
    let entries = sum(|build| build.entries);
    let (done, all, what) = if builds.is_empty() {
        return None;
    } else if entries == 0 || rows_read < rows {
        (rows_read, rows, "rows")
    } else {
        (sum(|build| build.entries_written), entries, "entries")
    };
    Some(Step { done, all, what })
}

/// The progress of the scans seen so far. A scan that is not listed any more has ended, whatever
/// it had left.
#[derive(Default)]
struct Seen {
    scans: BTreeMap<(usize, u64), (u64, u64)>,
}

impl Seen {
    /// (consumed, wanted) over all scans seen so far, given the chunks left of the running scans.
    fn update(&mut self, running: impl Iterator<Item = ((usize, u64), u64)>) -> (u64, u64) {
        for (left, _) in self.scans.values_mut() {
            *left = 0;
        }
        for (scan, left) in running {
            let entry = self.scans.entry(scan).or_insert((left, left));
            *entry = (left, entry.1.max(left));
        }
        let (left, wanted) = self
            .scans
            .values()
            .fold((0, 0), |(a, b), (left, wanted)| (a + left, b + wanted));
        (wanted - left, wanted)
    }
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─");
    ProgressBar::new(length).with_style(style)
}

const TICK: Duration = Duration::from_millis(100);
const STATEMENTS: &str = "{wide_bar:.cyan/dim} {human_pos}/{human_len} {msg}  {elapsed:>4}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_never_goes_back_while_scans_end() {
        let mut seen = Seen::default();
        assert_eq!(seen.update([((0, 1), 10)].into_iter()), (0, 10));
        assert_eq!(seen.update([((0, 1), 4), ((0, 2), 6)].into_iter()), (6, 16));
        assert_eq!(seen.update([((0, 2), 5)].into_iter()), (11, 16));
        assert_eq!(seen.update(std::iter::empty()), (16, 16));
    }

    #[test]
    fn a_build_reads_rows_and_then_writes_entries() {
        let build = |rows, rows_read, entries_written| {
            let mut build = IndexBuild::default();
            build.rows = rows;
            build.rows_read = rows_read;
            build.entries = rows_read * 9 / 10;
            build.entries_written = entries_written;
            build
        };
        let step = |done, all, what| Some(Step { done, all, what });
        assert_eq!(build_step(&[]), None);
        assert_eq!(build_step(&[build(0, 0, 0)]), step(0, 0, "rows"));
        assert_eq!(build_step(&[build(100, 50, 0)]), step(50, 100, "rows"));
        assert_eq!(build_step(&[build(100, 100, 30)]), step(30, 90, "entries"));
        let mut kept = IndexBuild::default();
        (kept.entries, kept.entries_written) = (70, 7);
        assert_eq!(build_step(&[kept]), step(7, 70, "entries"));
        let both = [build(100, 100, 30), build(100, 40, 0)];
        assert_eq!(build_step(&both), step(140, 200, "rows"));
    }

    #[test]
    fn templates_are_valid() {
        assert!(ProgressStyle::with_template(STATEMENTS).is_ok());
    }
}
