//! Who shared what with whom: a record of runs, for experiments.
//!
//! Bounds: grows with every run and packet, so it is kept only if the engine was configured so.

use std::sync::Arc;
use std::time::Instant;

use coscan_core::operators::OperatorKind;
use datafusion::execution::TaskContext;

use crate::settings::Settings;

/// One run of a shared operator.
#[derive(Clone, Debug)]
pub struct OperatorTrace {
    /// What the operator is, as in `coscan.operators`.
    pub kind: &'static str,
    /// The label of the session whose query the run began for.
    pub label: Arc<str>,
    /// When that query first asked for output.
    pub begun: Instant,
    /// When the run had given all its output, or was stopped. `None`: it goes on.
    pub ended: Option<Instant>,
    /// The other queries that took the run's output, in the order in which they came.
    pub takers: Vec<OperatorTaker>,
}

/// A query that took the output of another query's run.
#[derive(Clone, Debug)]
pub struct OperatorTaker {
    /// The label of its session.
    pub label: Arc<str>,
    /// When it first asked for output.
    pub came: Instant,
}

/// The runs so far.
#[derive(Default)]
pub(super) struct Record {
    runs: Vec<OperatorTrace>,
}

/// The place of a run in the record.
#[derive(Clone, Copy)]
pub(super) struct Recorded(usize);

impl Record {
    pub(super) fn begin(&mut self, kind: OperatorKind, context: &TaskContext) -> Recorded {
        self.runs.push(OperatorTrace {
            kind: kind.name(),
            label: label(context),
            begun: Instant::now(),
            ended: None,
            takers: Vec::new(),
        });
        Recorded(self.runs.len() - 1)
    }

    pub(super) fn join(&mut self, run: Recorded, context: &TaskContext) {
        self.runs[run.0].takers.push(OperatorTaker {
            label: label(context),
            came: Instant::now(),
        });
    }

    pub(super) fn end(&mut self, run: Recorded) {
        self.runs[run.0].ended.get_or_insert_with(Instant::now);
    }

    pub(super) fn runs(&self) -> Vec<OperatorTrace> {
        self.runs.clone()
    }
}

fn label(context: &TaskContext) -> Arc<str> {
    let options = context.session_config().options();
    let settings = options.extensions.get::<Settings>();
    settings.map_or_else(Arc::default, |settings| settings.label.as_str().into())
}
