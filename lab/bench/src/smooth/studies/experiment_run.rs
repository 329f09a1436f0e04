//! What does every experiment run on, and how are its cases measured?
//!
//! Not here: the experiments (`experiments.rs`, `together.rs`).

use std::time::Duration;

use coscan_quantities as quantities;

use crate::error::Result;
use crate::progress::{OnProgress, Progress};
use crate::smooth::outcome::figures::Figures;
use crate::smooth::query::checksum::expected;
use crate::smooth::query::data::{Spec, Table};
use crate::smooth::query::measure::{Bench, Case, DeviceKind, Expected, Median, select};

/// The options of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentOptions {
    /// The table. The experiment decides the distribution of its keys.
    pub spec: Spec,
    /// The device to read from.
    pub device: DeviceKind,
    /// The engine's memory in bytes.
    pub memory_bytes: u64,
    /// How often each case is measured; at least once.
    pub repeats: usize,
    /// The time limit of a query.
    pub limit: Duration,
}

/// A running experiment.
pub(crate) struct Run<'a> {
    pub(crate) bench: Bench,
    pub(crate) spec: Spec,
    pub(crate) options: &'a ExperimentOptions,
    pub(crate) table: &'a Table,
    pub(crate) name: &'static str,
    pub(crate) on_progress: OnProgress,
}

impl Run<'_> {
    pub(crate) fn figures(&self, columns: &[&str]) -> Figures {
        let (table, bench) = (self.table, &self.bench);
        let held = self.options.device.bandwidth().map(quantities::rate);
        let held = held.map_or_else(String::new, |rate| {
            let latency = quantities::seconds(bench.latency.as_secs_f64());
            format!(" ({rate}, {latency} per request)")
        });
        let about = format!(
            "{} rows in {} pages of {}, {}; device {}{held}; {} of memory; medians of {}",
            quantities::count(self.spec.rows.into()),
            quantities::count(table.pages),
            quantities::bytes(table.page_bytes),
            quantities::bytes(table.bytes),
            self.options.device.name(),
            quantities::bytes(self.options.memory_bytes),
            bench.repeats,
        );
        Figures::new(self.name, about, columns)
    }

    /// `SELECT *` of the rows with keys below a bound.
    pub(crate) fn case(&self, label: &str, bound: u32, settings: &[(&'static str, &str)]) -> Case {
        let own = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
        Case {
            label: label.to_owned(),
            sql: select(bound, false),
            settings: settings.iter().map(own).collect(),
            memory_bytes: self.options.memory_bytes,
            answer: Expected::Rows {
                checksum: expected(&self.spec, &[bound])[0],
                ordered: false,
            },
        }
    }

    /// Measures the cases; they take turns.
    pub(crate) async fn measure(&self, cases: &[Case]) -> Result<Vec<Median>> {
        let steps = cases.len() * self.bench.repeats;
        (self.on_progress)(Progress::begun(self.name, steps));
        self.bench.warm_up(cases).await?;
        self.bench.measure(cases, &self.on_progress).await
    }
}
