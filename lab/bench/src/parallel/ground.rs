//! Under which settings are points measured, and are the rows the same?
//!
//! A setting is what differs between two points: where the files are, how fast their devices are,
//! and from how many devices a scan reads.
//!
//! G1: a query's rows are the same whenever it runs, in every setting, and the same as plain
//! DataFusion's over the file that the folders were made from; otherwise the run fails.
//! G2: every point has an engine of its own that starts with nothing in memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coscan::{NamedDevice, Throttle};

use super::ParallelOptions;
use super::data::{DEALT, RANGES, parts};
use super::queries::{BY_KEY, Queries, TABLE};
use crate::error::{BenchError, Result};
use crate::layout::Layout;
use crate::progress::{OnProgress, Progress};
use crate::running::answer::Answer;
use crate::running::arena::{Arena, ArenaConfig, Oracle, Sharing, TableFile};
use crate::workload::KEY;

/// What differs between two points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// Its name in results.
    pub(crate) name: String,
    pub(crate) disks: Disks,
    /// From how many devices a scan reads; None: chosen while the scan runs.
    pub(crate) parallelism: Option<u32>,
    /// Whether pages that a query waits for may overtake loads: the reserve for pages.
    pub(crate) reserve: bool,
}

/// How the folders are assigned to devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disks {
    /// Each folder on a device of its own.
    Each,
    /// Each folder on a device of its own; the last device is a tenth as fast.
    LastSlow,
    /// All folders on one device.
    One,
    /// The folders as they are: no device is declared, and none has a limit.
    Unlimited,
}

/// How much slower a slow device is.
pub(crate) const SLOW_DOWN: u64 = 10;

impl Setting {
    /// The engine's defaults on devices of these kinds.
    pub(crate) fn new(name: &str, disks: Disks) -> Self {
        Self {
            name: name.to_owned(),
            disks,
            parallelism: None,
            reserve: true,
        }
    }
}

/// What all points have in common.
pub(crate) struct Ground<'a> {
    pub(crate) options: &'a ParallelOptions,
    on_progress: &'a OnProgress,
    queries: Queries,
    table_bytes: u64,
    /// For each query the source of its first answer (plain DataFusion or a setting), and the
    /// rows.
    answers: Vec<Option<(String, Answer)>>,
}

impl<'a> Ground<'a> {
    /// Makes the index if it is missing, and runs the queries in plain DataFusion.
    pub(crate) async fn new(
        options: &'a ParallelOptions,
        on_progress: &'a OnProgress,
    ) -> Result<Self> {
        let ranges = parts(&options.folders, RANGES);
        let layouts = ranges.iter().map(|folder| Layout::read(folder));
        let layouts = layouts.collect::<Result<Vec<Layout>>>()?;
        let [first, .., last] = &layouts[..] else {
            return Err(BenchError::Table {
                path: options.source.clone(),
                reason: "it must be on at least two devices".to_owned(),
            });
        };
        let keys = *first.keys.start()..=*last.keys.end();
        // The lines of the order at the border may be on both sides of it.
        let last = last.keys.start() - 1;
        let queries = Queries::draw(&keys, last, options.clients, options.seed);
        let mut ground = Self {
            options,
            on_progress,
            table_bytes: layouts.iter().map(|layout| layout.table_bytes).sum(),
            answers: vec![None; queries.all.len()],
            queries,
        };
        ground.begin("index", 1);
        let arena = ground
            .arena(&Setting::new("index", Disks::Unlimited))
            .await?;
        let sql = format!("CREATE INDEX IF NOT EXISTS bench_{KEY} ON {TABLE} ({KEY})");
        arena.run("index", &sql).await?;
        ground.advance();
        if options.verify {
            ground.ask_oracle().await?;
        }
        Ok(ground)
    }

    async fn ask_oracle(&mut self) -> Result<()> {
        self.begin(ORACLE, self.queries.all.len());
        let tables = [TABLE, BY_KEY].map(|table| TableFile::new(table, &self.options.source));
        let oracle = Oracle::open(&tables).await?;
        for number in 0..self.queries.all.len() {
            let answer = oracle.run(&self.queries.all[number].sql).await?;
            self.answers[number] = Some((ORACLE.to_owned(), answer));
            self.advance();
        }
        Ok(())
    }

    pub(crate) fn queries(&self) -> &Queries {
        &self.queries
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.options.buffer.of(self.table_bytes)
    }

    /// Opens an engine (G2).
    pub(crate) async fn arena(&self, setting: &Setting) -> Result<Arena> {
        let options = self.options;
        let config = ArenaConfig {
            sharing: Sharing {
                policy: "relevance".to_owned(),
                fragments: true,
                operators: true,
            },
            model: options.model.clone(),
            buffer_bytes: Some(self.buffer_bytes()),
            bandwidth: None,
            latency: Duration::ZERO,
            devices: self.devices(setting.disks),
            parallelism: setting.parallelism,
            page_reserve: setting.reserve,
            chunk_bytes: options.chunk_bytes,
            target_partitions: Some(options.partitions),
            record: None,
            settings: vec![("coscan.state_cache", "0")],
            in_turn: true,
        };
        let tables = [(TABLE, DEALT), (BY_KEY, RANGES)].map(|(table, part)| {
            let places = parts(&options.folders, part);
            let places = places.iter().map(|place| place.to_string_lossy());
            let places = places.collect::<Vec<_>>().join(",");
            TableFile::new(table, Path::new(&places))
        });
        Arena::open(&config, &tables).await
    }

    /// Each device's limit in bytes per second, in the order of the folders; empty if no device is
    /// limited.
    pub(crate) fn limits(&self, disks: Disks) -> Vec<u64> {
        let bandwidth = self.options.bandwidth;
        let mut limits = vec![bandwidth; self.options.folders.len()];
        match disks {
            Disks::Each => {}
            Disks::LastSlow => {
                if let Some(last) = limits.last_mut() {
                    *last = bandwidth / SLOW_DOWN;
                }
            }
            Disks::One => limits.truncate(1),
            Disks::Unlimited => limits.clear(),
        }
        limits
    }

    fn devices(&self, disks: Disks) -> Vec<NamedDevice> {
        let limits = self.limits(disks);
        let folders = self.options.folders.iter().enumerate();
        let device = |(at, path): (usize, &PathBuf)| {
            // If there is only one device, all folders are on it.
            let number = at.min(limits.len().checked_sub(1)?);
            Some(NamedDevice {
                name: format!("d{}", number + 1),
                path: path.clone(),
                throttle: Some(Throttle {
                    bytes_per_second: limits[number],
                    latency: Duration::ZERO,
                }),
            })
        };
        folders.filter_map(device).collect()
    }

    /// Compares an answer with the query's first one (G1).
    pub(crate) fn compare(&mut self, query: usize, by: &str, answer: Answer) -> Result<()> {
        let Some((reference, expected)) = &self.answers[query] else {
            self.answers[query] = Some((by.to_owned(), answer));
            return Ok(());
        };
        let Some(difference) = answer.difference(expected) else {
            return Ok(());
        };
        let query = self.queries.all[query].clone();
        Err(BenchError::Mismatch {
            query: query.name,
            policy: by.to_owned(),
            reference: reference.clone(),
            difference,
            sql: query.sql,
        })
    }

    pub(crate) fn begin(&self, phase: &str, steps: usize) {
        (self.on_progress)(Progress::begun(phase, steps));
    }

    pub(crate) fn advance(&self) {
        (self.on_progress)(Progress::Advanced);
    }
}

const ORACLE: &str = "plain DataFusion";
