//! What does a chunk job compute, for all members at once, batch by batch?
//!
//! A program is made of the works of a job's members. It evaluates each distinct conjunct once per
//! batch and turns predicates into query sets (`query_sets.rs`). Each class finds the groups of
//! its rows once (`groups.rs`) and feeds each distinct aggregate once. In the end each member gets
//! the groups whose set admits it; a group may come as several rows, which the final aggregate
//! above merges.
//! Not here: threads, and who the members are (`../job.rs`), which states are kept
//! (`../state_cache.rs`).
//! Bounds: `GROUPS_MAX` groups per class, and beyond `GROUPS_FEW` at most one group for
//! `ROWS_PER_GROUP` rows; `STATE_BYTES_MAX` of states. Beyond that the program stops with a
//! [`Stop`], because states would be no smaller than rows.
//! I5: every row of every batch is counted for a member iff every conjunct of its work is true for
//! the row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterPredicate, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{Field, Schema};
use coscan_pg::numbers::decimal_sum;
use coscan_storage::pool::ColumnRequest;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::expressions::Literal;

use super::expr_key::Key;
use super::graph::{Frame, Graph, filter_of};
use super::groups::Groups;
use super::narrow::NodeId;
use super::query_sets::{Admitted, EMPTY_SET, PREDICATES_MAX, QuerySets};
use super::sums::{Histogram, Kind, Sums};
use super::work::{Aggregate, PlannedAggregate, Work};

/// The states of more groups in a chunk are not small compared with its rows.
const GROUPS_MAX: usize = 16 << 10;
/// More bytes of states for a chunk are not small; mostly these are lists of distinct values.
const STATE_BYTES_MAX: usize = 1 << 20;
/// A larger accumulator does not leave small states.
const ACCUMULATOR_BYTES_MAX: usize = 16 << 20;
/// This few groups are small whatever the number of rows.
const GROUPS_FEW: usize = 256;
/// With more groups, the rows, wanted or not, times the predicates that cut them into sets must be
/// at least this many per group.
const ROWS_PER_GROUP: usize = 8;
/// The wanted rows are copied out if they are less than this share of a batch, in tenths.
/// Otherwise all rows are computed, and the groups of unwanted rows are dropped at the end.
/// Copying a row's columns costs about a fifth of computing its aggregates.
const DENSE_TENTHS: usize = 8;

/// The program of one chunk job.
pub(crate) struct Program {
    graph: Graph,
    /// The distinct predicates, each as the nodes of its conjuncts.
    predicates: Vec<Vec<NodeId>>,
    classes: Vec<Class>,
    conjuncts_spared: usize,
}

/// The members with the same grouping.
struct Class {
    key: Key,
    group: Vec<NodeId>,
    /// Positions in [`Program::predicates`]; the index in this list is the bit in a query set.
    predicates: Vec<usize>,
    aggregates: Vec<Slot>,
    members: Vec<Served>,
    sets: QuerySets,
    groups: Groups,
    /// The number of rows seen, wanted or not.
    rows: usize,
    numbers: Vec<u32>,
    group_of: Vec<usize>,
    histogram: Histogram,
}

/// A distinct aggregate of a class.
struct Slot {
    key: Key,
    args: Vec<NodeId>,
    filter: Option<NodeId>,
    states: States,
}

/// The form in which an aggregate's states are kept.
enum States {
    /// `None`: all rows are counted, whatever their values.
    Sums(Sums, Option<NodeId>),
    /// The sums of the slot at this position, in another form: `sum` and `avg` of one column.
    Same(Sums, usize),
    Any(Box<dyn GroupsAccumulator>),
}

/// What a member gets from its class.
struct Served {
    /// Its position among the works of the program.
    work: usize,
    bit: usize,
    slots: Vec<usize>,
}

/// Why a program cannot continue.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Decode or an expression failed.
    Failed(DataFusionError),
    /// The grouping of this class leaves too many groups, or groups with too large states.
    StatesTooLarge(Key),
    /// The predicates of this class cut the rows into too many sets.
    TooManySets(Key),
}

impl From<DataFusionError> for Stop {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(error)
    }
}

impl From<arrow::error::ArrowError> for Stop {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::Failed(error.into())
    }
}

/// Counts of the work that was shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// Distinct conjuncts, which are evaluated once per batch.
    pub(crate) conjuncts: usize,
    /// Further conjuncts that would be evaluated if every member worked alone.
    pub(crate) conjuncts_spared: usize,
    /// Numbered query sets, with the empty one, over all classes.
    pub(crate) query_sets: usize,
}

/// Returns the columns of one batch of a chunk.
#[async_trait::async_trait]
pub(crate) trait BatchColumns: Send + Sync {
    /// The arrays of these columns, with all rows of the batch.
    async fn fetch(&self, columns: &[ColumnRequest]) -> Result<Vec<ArrayRef>>;
}

impl Program {
    /// The program for these works; `None` if an expression turns out to have no key.
    ///
    /// # Errors
    /// If an aggregate cannot be made, or an expression does not fit its file: a bug.
    pub(crate) fn new(works: &[Arc<Work>]) -> Result<Option<Self>> {
        let mut program = Self {
            graph: Graph::default(),
            predicates: Vec::new(),
            classes: Vec::new(),
            conjuncts_spared: 0,
        };
        let mut predicates: HashMap<Key, usize> = HashMap::new();
        let mut conjuncts = 0;
        for (number, work) in works.iter().enumerate() {
            conjuncts += work.conjuncts.len();
            let predicate = match predicates.get(&work.predicate) {
                Some(known) => *known,
                None => {
                    let mut nodes = Vec::with_capacity(work.conjuncts.len());
                    for conjunct in &work.conjuncts {
                        let Some(node) = program.graph.add(conjunct, work.file())? else {
                            return Ok(None);
                        };
                        nodes.push(node);
                    }
                    program.predicates.push(nodes);
                    let position = program.predicates.len() - 1;
                    predicates.insert(work.predicate.clone(), position);
                    position
                }
            };
            if program.add(number, work, predicate)?.is_none() {
                return Ok(None);
            }
        }
        program.conjuncts_spared = conjuncts - program.distinct_conjuncts();
        Ok(Some(program))
    }

    fn distinct_conjuncts(&self) -> usize {
        let mut nodes: Vec<NodeId> = self.predicates.iter().flatten().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }

    /// Adds a member; `None` if an expression has no key.
    fn add(&mut self, number: usize, work: &Work, predicate: usize) -> Result<Option<()>> {
        let known = self
            .classes
            .iter()
            .position(|class| class.key == work.class);
        let at = match known {
            Some(at) => at,
            None => {
                let Some(class) = Class::new(work, &mut self.graph)? else {
                    return Ok(None);
                };
                self.classes.push(class);
                self.classes.len() - 1
            }
        };
        self.classes[at].serve(number, work, predicate, &mut self.graph)
    }

    /// Counts of the work shared so far.
    pub(crate) fn sharing(&self) -> Sharing {
        Sharing {
            conjuncts: self.distinct_conjuncts(),
            conjuncts_spared: self.conjuncts_spared,
            query_sets: self.classes.iter().map(|class| class.sets.len()).sum(),
        }
    }

    /// Processes one batch of `rows` rows.
    ///
    /// # Errors
    /// See [`Stop`].
    pub(crate) async fn batch(
        &mut self,
        source: &dyn BatchColumns,
        rows: usize,
    ) -> Result<(), Stop> {
        let mut inputs: Vec<Option<ArrayRef>> = vec![None; self.graph.inputs().len()];
        let conjuncts = self.predicates.iter().flatten().copied();
        let first = self.graph.inputs_of(conjuncts);
        fetch(source, self.graph.inputs(), &first, &mut inputs).await?;
        let mut frame = self.graph.frame(rows);
        let predicates = self.evaluate_predicates(&mut frame, &inputs)?;
        let wanted: Vec<Admitted> = self.classes.iter().map(|c| c.wanted(&predicates)).collect();
        let served = self.classes.iter().zip(&wanted);
        let served = served.filter(|(_, wanted)| !matches!(wanted, Admitted::None));
        let then = self
            .graph
            .inputs_of(served.flat_map(|(class, _)| class.nodes()));
        fetch(source, self.graph.inputs(), &then, &mut inputs).await?;
        for (class, wanted) in self.classes.iter_mut().zip(wanted) {
            class.batch(&self.graph, &mut frame, &inputs, &predicates, &wanted)?;
        }
        Ok(())
    }

    fn evaluate_predicates(
        &self,
        frame: &mut Frame,
        inputs: &[Option<ArrayRef>],
    ) -> Result<Vec<Admitted>> {
        let input = |at: usize| fetched(inputs, at);
        let mut known: HashMap<NodeId, Admitted> = HashMap::new();
        let mut all = Vec::with_capacity(self.predicates.len());
        for conjuncts in &self.predicates {
            let mut admitted = Admitted::All;
            for node in conjuncts {
                if matches!(admitted, Admitted::None) {
                    break;
                }
                let one = match known.get(node) {
                    Some(one) => one.clone(),
                    None => {
                        let values = self.graph.value(*node, frame, &input)?;
                        let one = Admitted::of(true_rows(&values)?);
                        known.insert(*node, one.clone());
                        one
                    }
                };
                admitted = admitted.and(&one);
            }
            all.push(admitted);
        }
        Ok(all)
    }

    /// Takes out the states of each work, in the order of the program's works. A work for which no
    /// row passed gets a batch without rows.
    ///
    /// # Errors
    /// See [`Stop`].
    pub(crate) fn states(&mut self, works: &[Arc<Work>]) -> Result<Vec<RecordBatch>, Stop> {
        let mut states: Vec<RecordBatch> = works
            .iter()
            .map(|work| RecordBatch::new_empty(Arc::clone(&work.states)))
            .collect();
        for class in &mut self.classes {
            class.states(works, &mut states)?;
        }
        Ok(states)
    }
}

impl Class {
    fn new(work: &Work, graph: &mut Graph) -> Result<Option<Self>> {
        let mut group = Vec::with_capacity(work.group.len());
        let mut fields = Vec::with_capacity(work.group.len());
        for (at, expr) in work.group.iter().enumerate() {
            let Some(node) = graph.add(expr, work.file())? else {
                return Ok(None);
            };
            group.push(node);
            fields.push(Field::new(
                format!("key_{at}"),
                expr.data_type(&work.schema)?,
                true,
            ));
        }
        Ok(Some(Self {
            key: work.class.clone(),
            group,
            predicates: Vec::new(),
            aggregates: Vec::new(),
            members: Vec::new(),
            sets: QuerySets::new(),
            groups: Groups::new(&fields)?,
            rows: 0,
            numbers: Vec::new(),
            group_of: Vec::new(),
            histogram: Histogram::default(),
        }))
    }

    fn serve(
        &mut self,
        number: usize,
        work: &Work,
        predicate: usize,
        graph: &mut Graph,
    ) -> Result<Option<()>> {
        let known = self.predicates.iter().position(|p| *p == predicate);
        let bit = known.unwrap_or_else(|| {
            self.predicates.push(predicate);
            self.predicates.len() - 1
        });
        if bit >= PREDICATES_MAX {
            return Ok(None);
        }
        let mut slots = Vec::with_capacity(work.aggregates.len());
        for aggregate in &work.aggregates {
            let known = self.aggregates.iter().position(|s| s.key == aggregate.key);
            if let Some(known) = known {
                slots.push(known);
                continue;
            }
            let planned = &aggregate.planned;
            if let Some(mut slot) = sums(aggregate, work, graph)? {
                slot.states = self.same_sums(slot.states);
                self.aggregates.push(slot);
                slots.push(self.aggregates.len() - 1);
                continue;
            }
            let mut args = Vec::with_capacity(planned.args.len());
            for arg in &planned.args {
                let Some(node) = graph.add(arg, work.file())? else {
                    return Ok(None);
                };
                args.push(node);
            }
            let filter = match &planned.filter {
                None => None,
                Some(filter) => match graph.add(filter, work.file())? {
                    None => return Ok(None),
                    node => node,
                },
            };
            self.aggregates.push(Slot {
                key: aggregate.key.clone(),
                args,
                filter,
                states: States::Any(accumulator_of(planned, work)?),
            });
            slots.push(self.aggregates.len() - 1);
        }
        self.members.push(Served {
            work: number,
            bit,
            slots,
        });
        Ok(Some(()))
    }

    /// Makes the states a form of another slot that sums the same values, if there is one.
    fn same_sums(&self, states: States) -> States {
        let States::Sums(own, Some(node)) = states else {
            return states;
        };
        let adds_up = |sums: &Sums| sums.kind() != Kind::Count;
        let same = self.aggregates.iter().position(|slot| {
            matches!(&slot.states, States::Sums(sums, Some(of)) if *of == node && adds_up(sums))
        });
        match same {
            Some(at) if adds_up(&own) => States::Same(own, at),
            _ => States::Sums(own, Some(node)),
        }
    }

    /// The rows that a member wants.
    fn wanted(&self, predicates: &[Admitted]) -> Admitted {
        let own = self
            .predicates
            .iter()
            .map(|predicate| &predicates[*predicate]);
        own.fold(Admitted::None, |wanted, admitted| wanted.or(admitted))
    }

    /// The nodes whose values the class needs.
    fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let aggregated = self.aggregates.iter();
        let aggregated = aggregated.flat_map(|slot| slot.args.iter().chain(&slot.filter));
        self.group.iter().chain(aggregated).copied()
    }

    fn batch(
        &mut self,
        graph: &Graph,
        frame: &mut Frame,
        inputs: &[Option<ArrayRef>],
        predicates: &[Admitted],
        wanted: &Admitted,
    ) -> Result<(), Stop> {
        let rows = frame.rows();
        let count = wanted.count(rows);
        self.rows += rows;
        if count == 0 {
            return Ok(());
        }
        let own = self
            .predicates
            .iter()
            .map(|predicate| &predicates[*predicate]);
        if count * 10 >= rows * DENSE_TENTHS {
            let own: Vec<Admitted> = own.cloned().collect();
            return self.rows_of(graph, frame, &own, &|at| fetched(inputs, at));
        }
        let filter = wanted.mask(rows).map(|mask| filter_of(&mask));
        let filter = filter.as_ref();
        let own = own
            .map(|admitted| filtered(admitted, filter, rows))
            .collect::<Result<Vec<_>>>()?;
        let mut few = graph.frame(count);
        let input = |at: usize| {
            let array = fetched(inputs, at)?;
            match filter {
                Some(filter) => Ok(filter.filter(&array)?),
                None => Ok(array),
            }
        };
        self.rows_of(graph, &mut few, &own, &input)
    }

    /// Processes the rows of a frame.
    fn rows_of(
        &mut self,
        graph: &Graph,
        frame: &mut Frame,
        predicates: &[Admitted],
        input: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<(), Stop> {
        let rows = frame.rows();
        let keys = self.group.iter();
        let keys = keys.map(|node| graph.value_as_kept(*node, frame, input));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        if self
            .sets
            .assign(predicates, rows, &mut self.numbers)
            .is_err()
        {
            return Err(Stop::TooManySets(self.key.clone()));
        }
        self.groups
            .assign(&self.numbers, &keys, &mut self.group_of)?;
        let groups = self.groups.len();
        let seen = self.rows * self.predicates.len();
        if groups > GROUPS_MAX || groups > GROUPS_FEW && groups * ROWS_PER_GROUP > seen {
            return Err(Stop::StatesTooLarge(self.key.clone()));
        }
        self.feed(graph, frame, input)
    }

    /// Feeds the aggregates with the rows of a frame, whose groups were found.
    fn feed(
        &mut self,
        graph: &Graph,
        frame: &mut Frame,
        input: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<(), Stop> {
        let groups = self.groups.len();
        self.histogram.clear();
        let (group_of, histogram) = (self.group_of.as_slice(), &mut self.histogram);
        for slot in &mut self.aggregates {
            match &mut slot.states {
                States::Sums(sums, None) => sums.count(None, group_of, groups, histogram),
                States::Sums(sums, Some(node)) if sums.kind() == Kind::Count => {
                    let nulls = match graph.narrow(*node, frame, input)? {
                        Some(narrow) => narrow.nulls,
                        None => graph.value(*node, frame, input)?.logical_nulls(),
                    };
                    sums.count(nulls.as_ref(), group_of, groups, histogram);
                }
                States::Sums(sums, Some(node)) => match graph.narrow(*node, frame, input)? {
                    Some(narrow) => sums.add_narrow(&narrow, group_of, groups, histogram),
                    None => {
                        let values = graph.value(*node, frame, input)?;
                        sums.add_wide(&values, group_of, groups, histogram)?;
                    }
                },
                States::Same(..) => {}
                States::Any(accumulator) => {
                    let args = slot.args.iter();
                    let args = args.map(|node| graph.value(*node, frame, input));
                    let args = args.collect::<Result<Vec<_>>>()?;
                    let filter = slot.filter.map(|node| graph.value(node, frame, input));
                    let filter = filter.transpose()?;
                    let filter = filter.as_ref().map(|f| as_boolean_array(f)).transpose()?;
                    accumulator.update_batch(&args, group_of, filter, groups)?;
                    if accumulator.size() > ACCUMULATOR_BYTES_MAX {
                        return Err(Stop::StatesTooLarge(self.key.clone()));
                    }
                }
            }
        }
        Ok(())
    }

    fn states(&mut self, works: &[Arc<Work>], states: &mut [RecordBatch]) -> Result<(), Stop> {
        if self.groups.len() == 0 {
            return Ok(());
        }
        let emitted = self.groups.emit()?;
        let mut columns = emitted.keys;
        let keys = columns.len();
        for at in 0..self.aggregates.len() {
            let (before, rest) = self.aggregates.split_at_mut(at);
            if let States::Same(own, of) = &mut rest[0].states
                && let States::Sums(sums, _) = &before[*of].states
            {
                own.take_over(sums);
            }
        }
        let mut places = Vec::with_capacity(self.aggregates.len());
        for slot in &mut self.aggregates {
            let state = match &mut slot.states {
                States::Sums(sums, _) | States::Same(sums, _) => sums.state(emitted.sets.len())?,
                States::Any(accumulator) => accumulator.state(EmitTo::All)?,
            };
            places.push(columns.len()..columns.len() + state.len());
            columns.extend(state);
        }
        let fields = columns.iter().enumerate();
        let fields = fields.map(|(at, c)| Field::new(at.to_string(), c.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let count = emitted.sets.len();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(count));
        let all = RecordBatch::try_new_with_options(schema, columns, &options)?;
        if all.get_array_memory_size() > STATE_BYTES_MAX {
            return Err(Stop::StatesTooLarge(self.key.clone()));
        }
        for member in &self.members {
            let admits = |set: &u32| *set != EMPTY_SET && self.sets.admits(*set, member.bit);
            let mask: BooleanArray = emitted.sets.iter().map(|set| Some(admits(set))).collect();
            let slots = member.slots.iter().flat_map(|slot| places[*slot].clone());
            let own: Vec<usize> = (0..keys).chain(slots).collect();
            let own = filter_record_batch(&all.project(&own)?, &mask)?;
            let schema = Arc::clone(&works[member.work].states);
            states[member.work] = RecordBatch::try_new_with_options(
                schema,
                own.columns().to_vec(),
                &arrow::array::RecordBatchOptions::new().with_row_count(Some(own.num_rows())),
            )?;
        }
        Ok(())
    }
}

/// Fetches those columns at the positions `wanted` of `known` that `inputs` lacks.
async fn fetch(
    source: &dyn BatchColumns,
    known: &[ColumnRequest],
    wanted: &[usize],
    inputs: &mut [Option<ArrayRef>],
) -> Result<()> {
    let missing = wanted.iter().copied();
    let missing: Vec<usize> = missing.filter(|input| inputs[*input].is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let requests: Vec<ColumnRequest> = missing.iter().map(|at| known[*at].clone()).collect();
    let arrays = source.fetch(&requests).await?;
    for (input, array) in missing.into_iter().zip(arrays) {
        inputs[input] = Some(array);
    }
    Ok(())
}

fn fetched(inputs: &[Option<ArrayRef>], at: usize) -> Result<ArrayRef> {
    let missing = || internal_datafusion_err!("input {at} of a chunk program was not fetched");
    inputs[at].clone().ok_or_else(missing)
}

/// The rows for which a condition is true; NULL is not true.
fn true_rows(values: &ArrayRef) -> Result<BooleanBuffer> {
    let values = as_boolean_array(values)?;
    Ok(match values.null_count() {
        0 => values.values().clone(),
        _ => prep_null_mask_filter(values).values().clone(),
    })
}

/// The rows that a predicate admits among those that a filter keeps.
fn filtered(
    admitted: &Admitted,
    filter: Option<&FilterPredicate>,
    rows: usize,
) -> Result<Admitted> {
    let (Admitted::Some(mask), Some(filter)) = (admitted, filter) else {
        return Ok(admitted.clone());
    };
    debug_assert_eq!(mask.len(), rows);
    let mask = filter.filter(&BooleanArray::from(mask.clone()))?;
    Ok(Admitted::of(as_boolean_array(&mask)?.values().clone()))
}

/// A slot for an aggregate that `sums.rs` implements; `None` for another aggregate.
fn sums(aggregate: &Aggregate, work: &Work, graph: &mut Graph) -> Result<Option<Slot>> {
    let planned = &aggregate.planned;
    let (None, [arg]) = (&planned.filter, planned.args.as_slice()) else {
        return Ok(None);
    };
    let data_type = arg.data_type(&work.schema)?;
    let Some(sums) = Sums::of(&planned.function, Some(&data_type))? else {
        return Ok(None);
    };
    let literal = arg.downcast_ref::<Literal>();
    let counts_rows = literal.is_some_and(|literal| !literal.value().is_null());
    let node = if sums.kind() == Kind::Count && counts_rows {
        None
    } else {
        match graph.add(arg, work.file())? {
            None => return Ok(None),
            node => node,
        }
    };
    Ok(Some(Slot {
        key: aggregate.key.clone(),
        args: node.into_iter().collect(),
        filter: None,
        states: States::Sums(sums, node),
    }))
}

/// An accumulator for many groups. DataFusion's final aggregate merges its states: with grouping,
/// in an accumulator of many groups as well; without grouping, in an accumulator of a single
/// group, and not every function can merge states without a value there.
fn accumulator_of(planned: &PlannedAggregate, work: &Work) -> Result<Box<dyn GroupsAccumulator>> {
    let function = Arc::clone(&planned.function);
    let suits = !work.group.is_empty() || has_one_meaning(planned, work)?;
    if suits && function.groups_accumulator_supported() {
        return function.create_groups_accumulator();
    }
    let make = move || function.create_accumulator();
    Ok(Box::new(GroupsAccumulatorAdapter::new(make)))
}

/// Whether a function is known to merge states that are null, and to give the same result with
/// groups and without. The least of floating-point numbers differs with groups if some are NaN.
fn has_one_meaning(planned: &PlannedAggregate, work: &Work) -> Result<bool> {
    let function = &planned.function;
    let of = |known: &[Arc<AggregateUDF>]| known.iter().any(|known| **known == *function.fun());
    let floats = match planned.args.as_slice() {
        [arg] => arg.data_type(&work.schema)?.is_floating(),
        _ => true,
    };
    let suits = of(&[sum_udaf(), decimal_sum(), avg_udaf(), count_udaf()])
        || !floats && of(&[min_udaf(), max_udaf()]);
    Ok(suits && !function.is_distinct())
}
