//! How does the pool carry out a load of the core?
//!
//! It sends one request per run of neighbouring ranges and tells the core as columns arrive. They
//! arrive in the order in which the core lists them (increasing size, [CoopScans07 §6.2]), except
//! that columns that lie side by side in the file come with one request.
//! Not here: which chunks and columns to load (coscan-core); how a load yields to page reads
//! (`reserve.rs`).
//! Bounds: one task per load; `loads_max` loads per device.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use coscan_core::{ChunkId, ColumnId, Event, ExtentId, TableId};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::StorageError;
use crate::panics::panicked;
use crate::pool::files::{Buffers, answered, asked};
use crate::pool::state::{ChunkSource, Frame, Incomplete, LoadJob, State, TableState, Target};
use crate::pool::{Inner, TableFile};

/// Ranges that are read in one request.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    /// (file range, the target that it belongs to), ascending.
    ranges: Vec<(Range<u64>, Target)>,
}

/// Groups ranges that touch, or whose gap costs less than a request. The runs are in the order of
/// the first target that each serves.
fn runs(targets: &[(Target, Vec<Range<u64>>)], gap: u64) -> Vec<Run> {
    let mut all: Vec<(Range<u64>, Target)> = targets
        .iter()
        .flat_map(|(target, ranges)| ranges.iter().map(|range| (range.clone(), *target)))
        .filter(|(range, _)| !range.is_empty())
        .collect();
    all.sort_unstable_by_key(|(range, _)| range.start);
    let mut runs: Vec<Run> = Vec::new();
    for (range, target) in all {
        let last = runs
            .last_mut()
            .and_then(|run| run.ranges.last().map(|(r, _)| r.end));
        match (last, runs.last_mut()) {
            (Some(end), Some(run)) if range.start.saturating_sub(end) <= gap => {
                run.ranges.push((range, target));
            }
            _ => runs.push(Run {
                ranges: vec![(range, target)],
            }),
        }
    }
    let ranks = targets.iter().enumerate();
    let ranks: BTreeMap<Target, usize> = ranks.map(|(rank, (target, _))| (*target, rank)).collect();
    runs.sort_by_cached_key(|run| {
        let ranks = run.ranges.iter().map(|(_, target)| ranks.get(target));
        ranks.min().flatten()
    });
    runs
}

/// The state of an outstanding load.
#[derive(Default)]
struct Progress {
    /// How many ranges each target still waits for, and the buffers that have arrived.
    targets: BTreeMap<Target, (usize, Buffers)>,
}

/// What a load reads, and from which file.
struct Plan {
    file: Arc<TableFile>,
    targets: Vec<(Target, Vec<Range<u64>>)>,
}

impl Inner {
    /// Reads the columns and extents of the job and reports them to the core. Runs on the I/O
    /// runtime.
    pub(crate) async fn load(self: Arc<Self>, job: LoadJob) {
        let work = AssertUnwindSafe(self.carry_out(&job)).catch_unwind();
        if let Err(panic) = work.await {
            let error = panicked(format!("the load of chunk {}", job.chunk), &*panic);
            let owed = self.state.lock().loads.expected(job.id).cloned();
            let mut progress = Progress::default();
            self.fail(&job, &mut progress, &owed.unwrap_or_default(), &error);
        }
        self.with_state(|state, effects| {
            if let Some(load) = state.loads.end(job.id) {
                state.load_ended(load.scan, load.device, effects);
            }
        });
    }

    async fn carry_out(self: &Arc<Self>, job: &LoadJob) {
        let Some(Plan { file, targets }) = self.plan(job) else {
            return; // The table was dropped, so no scan waits for the load.
        };
        let mut progress = Progress {
            targets: targets
                .iter()
                .map(|(target, ranges)| {
                    let wanted = ranges.iter().filter(|range| !range.is_empty()).count();
                    (*target, (wanted, Vec::new()))
                })
                .collect(),
        };
        let gap = file.device().request_cost_bytes();
        let mut reads: FuturesUnordered<_> = runs(&targets, gap)
            .into_iter()
            .map(|run| {
                let file = &file;
                async move {
                    let asked = asked(&run.ranges);
                    let ranges = asked.iter().map(|asked| asked.range.clone());
                    let ranges: Vec<Range<u64>> = ranges.collect();
                    let answer = self.shared.reserve.load(file, &ranges).await;
                    (run, answer.map(|answers| answered(asked, answers)))
                }
            })
            .collect();
        // Targets without bytes are complete from the start.
        self.report(job, &mut progress);
        while let Some((run, answer)) = reads.next().await {
            match answer {
                Ok(of_targets) => {
                    for (target, buffers) in of_targets {
                        if let Some((left, got)) = progress.targets.get_mut(&target) {
                            *left -= buffers.len();
                            got.extend(buffers);
                        }
                    }
                    self.report(job, &mut progress);
                }
                Err(error) => {
                    let hit = run.ranges.iter().map(|(_, target)| *target).collect();
                    self.fail(job, &mut progress, &hit, &error);
                }
            }
        }
    }

    fn plan(&self, job: &LoadJob) -> Option<Plan> {
        let state = self.state.lock();
        let core = &state.tables.get(&job.table)?.core;
        let ChunkSource { file, at } = core.chunks.get(job.chunk.0 as usize)?.clone();
        let columns = core.columns.clone();
        let extents = job.extents.iter().map(|&extent| {
            let ranges = core.extents[extent.0 as usize].ranges.clone();
            (Target::Extent(extent), ranges)
        });
        let mut targets: Vec<_> = extents.collect();
        drop(state);
        let segments = job.columns.iter().map(|&column| {
            let ranges = columns.ranges(&file, at, column);
            (Target::Segment(column), ranges)
        });
        targets.extend(segments);
        Some(Plan { file, targets })
    }

    /// Stores complete targets as frames and reports segments that are whole to the core.
    fn report(self: &Arc<Self>, job: &LoadJob, progress: &mut Progress) {
        let complete: Vec<Target> = progress
            .targets
            .iter()
            .filter(|(_, (left, _))| *left == 0)
            .map(|(target, _)| *target)
            .collect();
        if complete.is_empty() {
            return;
        }
        self.with_state(|state, effects| {
            let Some(table) = state.tables.get_mut(&job.table) else {
                return;
            };
            for target in complete {
                let Some((_, mut got)) = progress.targets.remove(&target) else {
                    continue;
                };
                if !state.loads.arrived(job.id, target) {
                    continue;
                }
                got.sort_unstable_by_key(|(range, _)| range.start);
                let frame: Frame = Arc::new(got);
                match target {
                    Target::Extent(extent) => {
                        table.extents.insert(extent, frame);
                    }
                    Target::Segment(column) => {
                        table.incomplete.push(Incomplete {
                            chunk: job.chunk,
                            column,
                            frame,
                        });
                    }
                }
            }
            for (chunk, columns) in take_complete(table) {
                let event = Event::LoadCompleted {
                    table: job.table,
                    chunk,
                    columns,
                };
                Self::log(state.handle(event, effects));
            }
        });
    }

    /// Gives up targets, and every loading segment that cannot become whole without them.
    fn fail(
        self: &Arc<Self>,
        job: &LoadJob,
        progress: &mut Progress,
        hit: &BTreeSet<Target>,
        error: &StorageError,
    ) {
        self.with_state(|state, effects| {
            let owed = state.loads.expected(job.id);
            let mut queue: Vec<(ChunkId, ColumnId)> = Vec::new();
            for target in hit {
                progress.targets.remove(target);
                match *target {
                    _ if !owed.is_some_and(|owed| owed.contains(target)) => {}
                    Target::Segment(column) => queue.push((job.chunk, column)),
                    Target::Extent(extent) => queue.extend(waiting_for(state, job.table, extent)),
                }
            }
            let mut failed: BTreeMap<ChunkId, BTreeSet<ColumnId>> = BTreeMap::new();
            while let Some((chunk, column)) = queue.pop() {
                if !failed.entry(chunk).or_default().insert(column) {
                    continue;
                }
                state.forget(job.table, Some(chunk), Target::Segment(column));
                // A load that gives up a segment also gives up the segment's extents, so every
                // segment that waits for those extents fails too.
                for extent in state.pending_extents(job.table, chunk, column) {
                    state.forget(job.table, None, Target::Extent(extent));
                    queue.extend(waiting_for(state, job.table, extent));
                }
            }
            state.loads.fail_for(Some(error.clone()));
            for (chunk, columns) in failed {
                if let Some(table) = state.tables.get_mut(&job.table) {
                    let lost = |i: &Incomplete| i.chunk == chunk && columns.contains(&i.column);
                    table.incomplete.retain(|incomplete| !lost(incomplete));
                }
                let columns = columns.into_iter().collect();
                let event = Event::LoadFailed {
                    table: job.table,
                    chunk,
                    columns,
                };
                Self::log(state.handle(event, effects));
            }
            state.loads.fail_for(None);
        });
    }
}

/// Moves segments whose extents have all arrived to the frames; returns their columns by chunk.
fn take_complete(table: &mut TableState) -> BTreeMap<ChunkId, Vec<ColumnId>> {
    let mut complete: BTreeMap<ChunkId, Vec<ColumnId>> = BTreeMap::new();
    let incomplete = std::mem::take(&mut table.incomplete);
    for segment in incomplete {
        let Incomplete { chunk, column, .. } = segment;
        let mut extents = table.core.extents_of(chunk, column);
        if extents.all(|extent| table.extents.contains_key(&extent)) {
            table.frames.insert((chunk, column), segment.frame);
            complete.entry(chunk).or_default().push(column);
        } else {
            table.incomplete.push(segment);
        }
    }
    complete
}

/// The loading segments that need the extent.
fn waiting_for(state: &State, id: TableId, extent: ExtentId) -> Vec<(ChunkId, ColumnId)> {
    let Some(table) = state.tables.get(&id) else {
        return Vec::new();
    };
    let loading = state.abm.chunks().filter(|chunk| chunk.table == id);
    loading
        .flat_map(|chunk| {
            let columns: Vec<ColumnId> = chunk.loading.iter().collect();
            columns.into_iter().map(move |column| (chunk.chunk, column))
        })
        .filter(|&(chunk, column)| table.core.extents_of(chunk, column).any(|e| e == extent))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::device::{Devices, LocalDevice, LocalEngine, LocalOptions};
    use crate::memory::MemoryBudget;
    use crate::pool::small_world::{open, rows, start, write};
    use crate::pool::{BufferPool, FileCache, PoolConfig, PoolShared};

    #[tokio::test]
    async fn a_disk_that_hangs_fails_the_scans_that_need_it() {
        let folder = tempfile::tempdir().unwrap();
        let (hangs, well) = (folder.path().join("hangs"), folder.path().join("well"));
        let devices = Devices::default();
        let options = LocalOptions {
            engine: LocalEngine::Positional,
            // The test waits this long for the device that hangs; an ordinary read must take less.
            read_timeout: Duration::from_secs(2),
            ..LocalOptions::default()
        };
        for path in [&hangs, &well] {
            std::fs::create_dir(path).unwrap();
            write(&path.join("t.parquet"));
        }
        let device = Arc::new(LocalDevice::open(&hangs, &options).unwrap());
        let url = format!("file://{}", hangs.display());
        devices.register(&url, Arc::clone(&device) as _).unwrap();
        let files = FileCache::new(Arc::new(devices));
        let shared = PoolShared::new(files, MemoryBudget::new(64 << 20), 1).unwrap();
        let pool = BufferPool::new(PoolConfig::default(), Arc::clone(&shared));
        let hung = open(&shared, &hangs.join("t.parquet")).await;
        let other = open(&shared, &well.join("t.parquet")).await;
        assert_eq!(rows(start(&pool, &hung, vec![0])).await.unwrap(), 1000);
        device.hang();
        let (struck, resident, elsewhere) = tokio::join!(
            rows(start(&pool, &hung, vec![2])),
            rows(start(&pool, &hung, vec![0])),
            rows(start(&pool, &other, vec![0, 1, 2])),
        );
        assert_eq!((resident.unwrap(), elsewhere.unwrap()), (1000, 3000));
        match struck.unwrap_err() {
            StorageError::Unread {
                row_group: 2,
                column,
                reason,
            } => {
                let text = reason.to_string();
                assert_eq!(column, "v");
                assert!(text.contains("hangs/t.parquet"), "{text}");
                assert!(text.contains("timed out after 2 s"), "{text}");
            }
            error => panic!("{error:?}"),
        }
    }

    #[test]
    fn neighbours_share_a_request_and_small_columns_come_first() {
        let (a, b, c) = (ColumnId(0), ColumnId(1), ColumnId(2));
        let ranges = |r: Range<u64>| vec![r];
        let targets = vec![
            (Target::Segment(c), ranges(900..910)),
            (Target::Segment(a), ranges(0..100)),
            (Target::Segment(b), ranges(100..400)),
        ];
        let planned = runs(&targets, 50);
        assert_eq!(planned.len(), 2);
        assert_eq!(planned[0].ranges, vec![(900..910, Target::Segment(c))]);
        assert_eq!(planned[1].ranges.len(), 2);
        assert_eq!(runs(&targets, 500).len(), 1);
    }
}
