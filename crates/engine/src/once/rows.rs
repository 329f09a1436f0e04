//! Where are the batches of a list: in memory or on disk?
//!
//! In memory, counted in the query's pool, until the pool refuses one or the list would have more
//! than its part: a list that is whole gives nothing back until the query ends, and operators above
//! it that cannot write to disk would find the memory full of it. Then all go to one file,
//! those so far and all later ones, which readers see once the input has ended and the file is
//! closed. A file for each batch would be an open file for each.
//! Not here: who reads the input (`list.rs`).

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::SpillMetrics;

use crate::operators::{Buffers, compacted};

/// Divides the memory: the most that the lists of one query in WITH have.
const PART: usize = 4;

/// The batches of one partition, in the order in which they came.
pub(super) struct Rows {
    place: Place,
    /// Whether the input has ended, and how.
    end: Option<Result<(), Arc<DataFusionError>>>,
    /// While the batches are in memory. A list on disk asks for nothing more, so it is no operator
    /// any more for which its query keeps room.
    reservation: Option<MemoryReservation>,
    /// The most that the reservation has.
    bytes_max: usize,
    manager: SpillManager,
}

enum Place {
    Memory {
        batches: Vec<RecordBatch>,
        /// Those of the last batch: slices of one large batch count once.
        last: Buffers,
    },
    /// The file is being written.
    Writes(Write),
    Disk(OnDisk),
}

/// Appends a batch to a file, or, if there is none, closes the file and returns it. (DataFusion's
/// type for such a file has no public name.)
type Write = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

/// A list that is whole, in a file that is removed when nothing refers to it.
#[derive(Clone)]
pub(super) struct OnDisk {
    file: Arc<dyn SpillFile>,
    manager: SpillManager,
}

/// What a reader finds.
pub(super) enum Found {
    Batch(RecordBatch),
    /// The whole list is on disk.
    OnDisk(OnDisk),
    End,
    Failed(Arc<DataFusionError>),
    /// Nothing yet.
    Nothing,
}

impl Rows {
    /// One of `lists` lists of the same query in WITH.
    pub(super) fn new(
        context: &TaskContext,
        lists: usize,
        schema: SchemaRef,
        metrics: SpillMetrics,
    ) -> Self {
        let consumer = MemoryConsumer::new("OnceExec").with_can_spill(true);
        let bytes_max = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => limit / PART / lists.max(1),
            _ => usize::MAX,
        };
        Self {
            place: Place::empty(),
            end: None,
            reservation: Some(consumer.register(context.memory_pool())),
            bytes_max,
            manager: SpillManager::new(context.runtime_env(), metrics, schema),
        }
    }

    /// What stands at a place of the list.
    pub(super) fn at(&self, number: usize) -> Found {
        if let Some(Err(error)) = &self.end {
            return Found::Failed(Arc::clone(error));
        }
        match &self.place {
            Place::Memory { batches, .. } => match batches.get(number) {
                Some(batch) => Found::Batch(batch.clone()),
                None if self.end.is_some() => Found::End,
                None => Found::Nothing,
            },
            Place::Writes(_) => Found::Nothing,
            Place::Disk(rows) => Found::OnDisk(rows.clone()),
        }
    }

    /// Takes what the input gave next: a batch, an error, or its end. False if the list has failed.
    pub(super) fn take(&mut self, given: Option<Result<RecordBatch>>) -> bool {
        let taken = match given {
            Some(Ok(batch)) if batch.num_rows() == 0 => Ok(()),
            Some(Ok(batch)) => self.keep(&batch),
            Some(Err(error)) => Err(error),
            None => self.close(),
        };
        if let Err(error) = taken {
            self.place = Place::empty();
            self.reservation = None;
            self.end = Some(Err(Arc::new(error)));
            return false;
        }
        true
    }

    fn keep(&mut self, batch: &RecordBatch) -> Result<()> {
        let (batches, last) = match &mut self.place {
            Place::Memory { batches, last } => (batches, last),
            Place::Writes(write) => return write(Some(batch)).map(|_| ()),
            Place::Disk(_) => return Err(internal_datafusion_err!("a list goes on after its end")),
        };
        let batch = compacted(batch)?;
        let buffers = Buffers::of(&batch);
        let bytes = usize::try_from(buffers.bytes_beyond(last)).unwrap_or(usize::MAX);
        let is_counted = self.reservation.as_ref().is_some_and(|reservation| {
            let fits = reservation.size().saturating_add(bytes) <= self.bytes_max;
            fits && reservation.try_grow(bytes).is_ok()
        });
        if is_counted {
            *last = buffers;
            batches.push(batch);
            return Ok(());
        }
        let mut file = self.manager.create_in_progress_file("OnceExec")?;
        let mut write: Write = Box::new(move |batch| match batch {
            Some(batch) => file.append_batch(batch).map(|_| None),
            None => file.finish(),
        });
        for batch in batches.drain(..).chain([batch]) {
            write(Some(&batch))?;
        }
        self.place = Place::Writes(write);
        self.reservation = None;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if let Place::Writes(write) = &mut self.place {
            let Some(file) = write(None)? else {
                return Err(internal_datafusion_err!("batches were written to no file"));
            };
            let manager = self.manager.clone();
            self.place = Place::Disk(OnDisk { file, manager });
        }
        self.end = Some(Ok(()));
        Ok(())
    }
}

impl Place {
    fn empty() -> Self {
        Self::Memory {
            batches: vec![],
            last: Buffers::default(),
        }
    }
}

impl OnDisk {
    /// The batches from the front. The file stays until the stream is dropped.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn read(&self) -> Result<SendableRecordBatchStream> {
        let file = Arc::clone(&self.file);
        self.manager.read_spill_as_stream_unbuffered(file, None)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::common::resources_datafusion_err;
    use datafusion::execution::memory_pool::MemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

    use super::*;

    /// Has memory for one batch.
    #[derive(Debug, Default)]
    struct OneBatch {
        operators: AtomicUsize,
    }

    impl fmt::Display for OneBatch {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("one batch")
        }
    }

    impl MemoryPool for OneBatch {
        fn name(&self) -> &'static str {
            "one batch"
        }

        fn register(&self, _: &MemoryConsumer) {
            self.operators.fetch_add(1, Ordering::Relaxed);
        }

        fn unregister(&self, _: &MemoryConsumer) {
            self.operators.fetch_sub(1, Ordering::Relaxed);
        }

        fn grow(&self, _: &MemoryReservation, _: usize) {}

        fn shrink(&self, _: &MemoryReservation, _: usize) {}

        fn try_grow(&self, reservation: &MemoryReservation, _: usize) -> Result<()> {
            match reservation.size() {
                0 => Ok(()),
                _ => Err(resources_datafusion_err!("it has one")),
            }
        }

        fn reserved(&self) -> usize {
            0
        }
    }

    #[test]
    fn a_list_on_disk_is_no_operator() {
        let pool = Arc::new(OneBatch::default());
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool) as _);
        let runtime = runtime.build_arc().unwrap();
        let context = TaskContext::default().with_runtime(runtime);
        let batch = || {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
            RecordBatch::try_from_iter([("n", numbers)]).unwrap()
        };
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let mut rows = Rows::new(&context, 1, batch().schema(), metrics);
        let operators = || pool.operators.load(Ordering::Relaxed);
        assert!(rows.take(Some(Ok(batch()))));
        assert_eq!(operators(), 1);
        assert!(rows.take(Some(Ok(batch()))));
        assert_eq!(operators(), 0, "it is on disk");
        assert!(rows.take(None));
        assert!(matches!(rows.at(0), Found::OnDisk(_)));
    }
}
