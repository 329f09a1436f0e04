//! Which chunks has a dynamic filter ruled out since the scan began?
//!
//! A `TopK` or the build side of a join narrows its filter while the scan runs. When a filter has
//! changed, a stream that is between two chunks judges the remaining chunks again, and withdraws
//! the excluded ones from the scan, so that they are neither loaded for it nor handed to it. Rows
//! of the other chunks are tested one by one, as for any conjunct.
//! Bounds: a sweep costs O(row groups + pages); all sweeps together take at most 1/20 of the time,
//! however often filters change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan_storage::pool::TableFile;
use datafusion::physical_expr::DynamicFilterTracker;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use parking_lot::Mutex;

use super::spec::ScanPlan;
use crate::read::pipeline::Pipeline;
use crate::read::{FilePlan, prune};

/// The dynamic filters of one execution.
pub(crate) struct DynamicPruner {
    state: Mutex<State>,
    in_list_max: usize,
}

struct State {
    tracking: DynamicFilterTracking,
    files: Vec<WatchedFile>,
    /// The position in `files` of each chunk's file.
    file_of: HashMap<usize, usize>,
    /// The chunks ruled out so far, in the order in which they were found.
    dead: Vec<usize>,
    not_before: Instant,
    pending: bool,
}

struct WatchedFile {
    file: Arc<TableFile>,
    plan: Arc<FilePlan>,
    /// The conjunction of the file's conjuncts that contain a dynamic filter.
    predicate: Arc<dyn PhysicalExpr>,
    /// The chunks that are not ruled out, with their positions in the file.
    alive: Vec<(usize, usize)>,
}

/// After a sweep that took t, the next sweep waits at least 20 t.
const SWEEP_SHARE: u32 = 20;

impl DynamicPruner {
    /// Watches the dynamic filters of `files`: (file, its plan, its chunks in order). `None` if
    /// there is none to watch.
    pub(crate) fn new(
        plan: &ScanPlan,
        files: Vec<(Arc<TableFile>, Arc<FilePlan>, Vec<usize>)>,
        pipelines: &[Option<Arc<Pipeline>>],
    ) -> Option<Self> {
        let tracking = DynamicFilterTracking::classify(plan.table.predicate.as_ref()?);
        if !plan.prunes || !matches!(tracking, DynamicFilterTracking::Watching(_)) {
            return None;
        }
        let files = files
            .into_iter()
            .map(|(file, plan, chunks)| {
                let dynamic = plan.conjuncts.iter().filter(|conjunct| conjunct.dynamic);
                let predicate = conjunction(dynamic.map(|conjunct| Arc::clone(&conjunct.expr)));
                let alive = chunks
                    .into_iter()
                    .enumerate()
                    .filter(|(_, chunk)| pipelines[*chunk].is_some())
                    .map(|(position, chunk)| (chunk, position))
                    .collect();
                WatchedFile {
                    file,
                    plan,
                    predicate,
                    alive,
                }
            })
            .collect::<Vec<WatchedFile>>();
        let watched = files.iter().enumerate();
        let file_of = watched.flat_map(|(at, file)| {
            let chunks = file.alive.iter();
            chunks.map(move |(chunk, _)| (*chunk, at))
        });
        let state = State {
            tracking,
            file_of: file_of.collect(),
            files,
            dead: Vec::new(),
            not_before: Instant::now(),
            pending: false,
        };
        Some(Self {
            state: Mutex::new(state),
            in_list_max: plan.in_list_max,
        })
    }

    /// The chunks ruled out beyond the first `seen` of them. Sweeps first if a filter has changed
    /// and a sweep is due.
    pub(crate) fn ruled_out(&self, seen: usize) -> Vec<usize> {
        let mut state = self.state.lock();
        let changed = state
            .tracking
            .watcher()
            .is_some_and(DynamicFilterTracker::changed);
        state.pending |= changed;
        if state.pending && Instant::now() >= state.not_before {
            state.pending = false;
            state.sweep(self.in_list_max);
        }
        state.dead.get(seen..).unwrap_or(&[]).to_vec()
    }

    /// Stops judging a chunk that is being processed or is finished.
    pub(crate) fn consumed(&self, chunk: usize) {
        let mut state = self.state.lock();
        let Some(&file) = state.file_of.get(&chunk) else {
            return;
        };
        let alive = &mut state.files[file].alive;
        if let Ok(position) = alive.binary_search_by_key(&chunk, |(chunk, _)| *chunk) {
            alive.remove(position);
        }
    }
}

impl State {
    fn sweep(&mut self, in_list_max: usize) {
        let begun = Instant::now();
        for watched in &mut self.files {
            if watched.alive.is_empty() {
                continue;
            }
            let positions: Vec<usize> = watched.alive.iter().map(|(_, at)| *at).collect();
            let wanted = prune::may_match(
                watched.file.metadata(),
                &watched.file.chunks().chunks,
                &watched.predicate,
                &watched.plan.schema,
                in_list_max,
                &positions,
            );
            let mut wanted = wanted.into_iter();
            let dead = &mut self.dead;
            watched.alive.retain(|(chunk, _)| {
                let alive = wanted.next().unwrap_or(true);
                if !alive {
                    dead.push(*chunk);
                }
                alive
            });
        }
        let took = begun.elapsed().max(Duration::from_micros(50));
        self.not_before = Instant::now() + took * SWEEP_SHARE;
    }
}
