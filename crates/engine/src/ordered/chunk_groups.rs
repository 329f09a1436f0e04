//! Which groups does a chunk have, and which of them are complete?
//!
//! In a chunk that is in order by the key, all rows of a group lie in its key's run, so the groups
//! of a run are complete when the next run begins. If rows are grouped by the key alone, each run
//! is one group, numbered by counting. Otherwise a hash table of the groups of a few runs
//! separates the groups within a run. The groups of the chunk's first and last run are kept as
//! states, because their rows may continue in other chunks. In a chunk that is not in order, a
//! hash table separates all groups. They are complete at the end of the chunk, except those of its
//! least and its greatest key.
//! Not here: which of the kept groups are complete (`shared_state.rs`).
//! ORD-I3: a group's rows of a chunk are either in one value that was passed on, or in one kept
//! part.
//! Bounds: groups of one batch, of the current run, and of one batch on its way out; in a chunk
//! that is not in order, all of its groups.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat, filter, take};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::row::OwnedRow;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::{GroupOrdering, GroupOrderingFull};

use coscan_core::group_borders::Edges;

use super::accumulators::Accumulators;
use super::recognise::Grouping;
use super::runs::{Runs, Seen, owned};

/// The groups of one key in one chunk: their columns, then their states.
pub(super) struct Part {
    pub(super) columns: Vec<ArrayRef>,
}

impl Part {
    /// The number of groups in the part.
    pub(super) fn groups(&self) -> usize {
        self.columns.first().map_or(0, Array::len)
    }

    /// Bytes that the part holds.
    pub(super) fn bytes(&self) -> usize {
        let of = self.columns.iter();
        of.map(Array::get_array_memory_size).sum()
    }
}

/// Whether the rows of a chunk are in order.
pub(super) enum Pushed {
    InOrder,
    /// The rows are not in order: all results of the chunk are void.
    OutOfOrder,
}

/// Groups the rows of chunks, one chunk after the other.
pub(super) struct ChunkGroups {
    grouping: Arc<Grouping>,
    schema: SchemaRef,
    batch_rows: usize,
    runs: Runs,
    groups: Groups,
    accumulators: Accumulators,
    /// The group of each row of the current batch.
    numbers: Vec<usize>,
    /// The first group of the current run.
    run_from: usize,
    /// The key of the chunk's first run.
    first: Option<OwnedRow>,
    /// The groups of the first run, once another run has begun.
    head: Option<Part>,
    /// Complete groups.
    ready: Vec<RecordBatch>,
    in_order: bool,
}

/// How groups are separated.
enum Groups {
    /// Each run is one group.
    Counted {
        keys: Vec<ArrayRef>,
        count: usize,
    },
    Hashed(Box<dyn GroupValues>),
}

impl ChunkGroups {
    /// A state before the first chunk.
    ///
    /// # Errors
    /// Those of an accumulator; if keys have no order or no hash.
    pub(super) fn new(grouping: &Arc<Grouping>, runs: Runs, batch_rows: usize) -> Result<Self> {
        Ok(Self {
            schema: Arc::clone(&grouping.schema),
            batch_rows: batch_rows.max(1),
            runs,
            groups: Groups::of(grouping, true)?,
            accumulators: Accumulators::new(&grouping.aggregates)?,
            numbers: Vec::new(),
            run_from: 0,
            first: None,
            head: None,
            ready: Vec::new(),
            in_order: true,
            grouping: Arc::clone(grouping),
        })
    }

    /// Begins a chunk that is assumed to be in order, or not. The results of the previous chunk
    /// are dropped.
    ///
    /// # Errors
    /// As [`ChunkGroups::new`].
    pub(super) fn begin(&mut self, in_order: bool) -> Result<()> {
        let is_clean = self.groups.is_empty() && self.in_order == in_order;
        if !is_clean {
            self.groups = Groups::of(&self.grouping, in_order)?;
            self.accumulators = Accumulators::new(&self.grouping.aggregates)?;
        }
        self.runs.forget();
        self.run_from = 0;
        self.first = None;
        self.head = None;
        self.ready.clear();
        self.in_order = in_order;
        Ok(())
    }

    /// Adds rows of the chunk.
    ///
    /// # Errors
    /// If an expression cannot be evaluated; those of an accumulator.
    pub(super) fn push(&mut self, rows: &RecordBatch) -> Result<Pushed> {
        if rows.num_rows() == 0 {
            return Ok(Pushed::InOrder);
        }
        let columns = self.grouping.group.iter();
        let columns = columns
            .map(|expr: &Arc<dyn PhysicalExpr>| expr.evaluate(rows)?.into_array(rows.num_rows()));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        if !self.in_order {
            self.groups.number(&columns, &[], &mut self.numbers)?;
            let total = self.groups.len();
            self.accumulators.update(rows, &self.numbers, total)?;
            return Ok(Pushed::InOrder);
        }
        let key = &columns[self.grouping.key];
        let Seen::Begins(starts) = self.runs.look_at(key)? else {
            return Ok(Pushed::OutOfOrder);
        };
        if self.first.is_none() {
            self.first = Some(self.runs.place_of(key, 0)?);
        }
        let is_first = self.groups.is_empty() && self.head.is_none();
        self.groups.number(&columns, &starts, &mut self.numbers)?;
        self.accumulators
            .update(rows, &self.numbers, self.groups.len())?;
        // The chunk's first row begins a run but ends none.
        let next = usize::from(is_first);
        if let Some(last) = starts.get(next..).and_then(<[usize]>::last) {
            let ends_head = self.numbers[starts[next]];
            self.run_from = self.numbers[*last];
            if self.head.is_none() {
                self.head = Some(self.part(EmitTo::First(ends_head))?);
                self.run_from -= ends_head;
            }
            while self.run_from >= self.batch_rows {
                self.pass_on(self.batch_rows)?;
            }
        }
        Ok(Pushed::InOrder)
    }

    /// Whether the current chunk is assumed to be in order.
    pub(super) fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Takes the complete groups. They are void if the chunk turns out not to be in order.
    pub(super) fn take_ready(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.ready)
    }

    /// Ends the chunk and returns the groups at its borders. Its complete groups can then be
    /// taken.
    ///
    /// # Errors
    /// Those of an accumulator.
    pub(super) fn end(&mut self) -> Result<Edges<OwnedRow, Part>> {
        if self.groups.is_empty() {
            // The last run stays in `groups` until another run begins, so there were no rows.
            return Ok(Edges::Empty);
        }
        if !self.in_order {
            return self.end_out_of_order();
        }
        if self.run_from > 0 {
            self.pass_on(self.run_from)?;
        }
        let missing = || internal_datafusion_err!("ORD-I3: groups without a key");
        let first = self.first.take().ok_or_else(missing)?;
        let last = self.runs.last()?.ok_or_else(missing)?;
        let part = self.part(EmitTo::All)?;
        Ok(match self.head.take() {
            Some(head) => Edges::Two {
                first: (first, head),
                last: (last, part),
            },
            None => Edges::One(first, part),
        })
    }

    /// The values of groups of which all parts are given.
    ///
    /// # Errors
    /// Those of an accumulator.
    pub(super) fn whole(&self, parts: &[Part]) -> Result<Vec<RecordBatch>> {
        let width = parts.first().map_or(0, |part| part.columns.len());
        let column = |at: usize| {
            let of: Vec<&dyn Array> = parts.iter().map(|part| part.columns[at].as_ref()).collect();
            Ok(concat(&of)?)
        };
        let columns: Vec<ArrayRef> = (0..width).map(column).collect::<Result<_>>()?;
        if columns.first().is_none_or(Array::is_empty) {
            return Ok(Vec::new());
        }
        let (keys, states) = columns.split_at(self.grouping.group.len());
        let mut groups = Groups::of(&self.grouping, false)?;
        let mut numbers = Vec::new();
        groups.number(keys, &[], &mut numbers)?;
        let mut accumulators = Accumulators::new(&self.grouping.aggregates)?;
        accumulators.merge(states, &numbers, groups.len())?;
        let mut all = groups.take(EmitTo::All)?;
        all.extend(accumulators.values(EmitTo::All)?);
        self.batches(all)
    }

    /// Bytes that this state holds.
    pub(super) fn bytes(&self) -> usize {
        let ready = self.ready.iter();
        let ready: usize = ready.map(RecordBatch::get_array_memory_size).sum();
        let head = self.head.as_ref().map_or(0, Part::bytes);
        self.groups.bytes() + self.accumulators.bytes() + ready + head
    }

    /// Passes on the first `count` groups, which are complete.
    fn pass_on(&mut self, count: usize) -> Result<()> {
        let mut columns = self.groups.take(EmitTo::First(count))?;
        columns.extend(self.accumulators.values(EmitTo::First(count))?);
        self.run_from -= count;
        let batches = self.batches(columns)?;
        self.ready.extend(batches);
        Ok(())
    }

    fn part(&mut self, of: EmitTo) -> Result<Part> {
        let mut columns = self.groups.take(of)?;
        columns.extend(self.accumulators.states(of)?);
        let columns = columns.iter().map(owned).collect::<Result<_>>()?;
        Ok(Part { columns })
    }

    fn batches(&self, columns: Vec<ArrayRef>) -> Result<Vec<RecordBatch>> {
        let whole = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let rows = whole.num_rows();
        if rows <= self.batch_rows {
            return Ok(if rows > 0 { vec![whole] } else { Vec::new() });
        }
        // Each batch is copied, because a slice counts with the memory of the whole.
        let starts = (0..rows).step_by(self.batch_rows);
        let batch = |from| {
            let slice = whole.slice(from, self.batch_rows.min(rows - from));
            let columns = slice.columns().iter().map(owned);
            let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
            Ok(RecordBatch::try_new(slice.schema(), columns)?)
        };
        starts.map(batch).collect()
    }

    fn end_out_of_order(&mut self) -> Result<Edges<OwnedRow, Part>> {
        let all = self.part(EmitTo::All)?;
        let places = self.runs.places(&all.columns[self.grouping.key])?;
        let missing = || internal_datafusion_err!("ORD-I3: groups without a key");
        let first = places.iter().min().ok_or_else(missing)?;
        let last = places.iter().max().ok_or_else(missing)?;
        let only = |wanted: &dyn Fn(arrow::row::Row<'_>) -> bool| -> Result<Part> {
            let mask: BooleanArray = places.iter().map(|row| Some(wanted(row))).collect();
            let columns = all.columns.iter().map(|column| filter(column, &mask));
            let columns = columns.collect::<Result<_, _>>()?;
            Ok(Part { columns })
        };
        if first == last {
            return Ok(Edges::One(first.owned(), all));
        }
        let edges = Edges::Two {
            first: (first.owned(), only(&|row| row == first)?),
            last: (last.owned(), only(&|row| row == last)?),
        };
        let between = only(&|row| row != first && row != last)?;
        self.ready = self.whole(&[between])?;
        Ok(edges)
    }
}

impl Groups {
    fn of(grouping: &Grouping, in_order: bool) -> Result<Self> {
        if in_order && grouping.group.len() == 1 {
            return Ok(Self::Counted {
                keys: Vec::new(),
                count: 0,
            });
        }
        let fields = grouping.schema.fields()[..grouping.group.len()].iter();
        let fields: Vec<Arc<Field>> = fields.cloned().collect();
        let schema = Arc::new(Schema::new(fields));
        let ordering = if in_order {
            // The hash table then numbers groups in the order of their rows.
            GroupOrdering::Full(GroupOrderingFull::new())
        } else {
            GroupOrdering::None
        };
        Ok(Self::Hashed(new_group_values(schema, &ordering)?))
    }

    fn len(&self) -> usize {
        match self {
            Self::Counted { count, .. } => *count,
            Self::Hashed(values) => values.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the group of each row to `numbers`; runs begin at the rows `starts`.
    fn number(
        &mut self,
        columns: &[ArrayRef],
        starts: &[usize],
        numbers: &mut Vec<usize>,
    ) -> Result<()> {
        numbers.clear();
        match self {
            Self::Hashed(values) => values.intern(columns, numbers),
            Self::Counted { keys, count } => {
                let rows = columns[0].len();
                numbers.resize(
                    starts.first().copied().unwrap_or(rows),
                    count.wrapping_sub(1),
                );
                for (at, start) in starts.iter().enumerate() {
                    let end = starts.get(at + 1).copied().unwrap_or(rows);
                    numbers.resize(numbers.len() + (end - start), *count);
                    *count += 1;
                }
                if !starts.is_empty() {
                    #[allow(clippy::cast_possible_truncation)] // Rows of a batch.
                    let at = UInt32Array::from_iter_values(starts.iter().map(|at| *at as u32));
                    keys.push(take(&columns[0], &at, None)?);
                }
                Ok(())
            }
        }
    }

    /// Takes out the columns of some groups. The remaining groups are numbered from 0.
    fn take(&mut self, of: EmitTo) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Hashed(values) => {
                let columns = values.emit(of)?;
                if matches!(of, EmitTo::All) {
                    // What remains in the hash table belongs to groups that were taken out.
                    values.clear_shrink(0);
                }
                Ok(columns)
            }
            Self::Counted { keys, count } => {
                let all: Vec<&dyn Array> = keys.iter().map(AsRef::as_ref).collect();
                let all = concat(&all)?;
                keys.clear();
                let taken = match of {
                    EmitTo::All => all.len(),
                    EmitTo::First(taken) => taken,
                };
                *count = all.len() - taken;
                if *count > 0 {
                    keys.push(all.slice(taken, *count));
                }
                Ok(vec![all.slice(0, taken)])
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Counted { keys, .. } => keys.iter().map(Array::get_array_memory_size).sum(),
            Self::Hashed(values) => values.size(),
        }
    }
}
