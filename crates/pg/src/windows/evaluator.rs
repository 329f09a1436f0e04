//! A window function over the rows of its frame, without the rows that EXCLUDE removes.
//!
//! Idea: the arguments are those of the computed function, followed by the keys of ORDER BY, which
//! determine peers, and the condition of FILTER. The evaluator is called once for each row of a
//! partition, in order, with the row's frame.
//! Bounds: O(rows × frame).

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::{filter, partition};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type, Schema};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    AggregateUDF, LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDFImpl,
};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;

use crate::PgError;
use crate::casts::arrow_cast;
use crate::dialect::Excluded;
use crate::functions::first_value;

/// The function that is computed over the remaining rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Seen {
    Aggregate(Arc<AggregateUDF>),
    First,
    Last,
    Nth,
    /// `lag`, over the whole partition.
    Lag,
    /// `lead`, over the whole partition.
    Lead,
    /// `ntile`, over the whole partition.
    Tile,
}

/// See the file's header.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OverFrame {
    seen: Seen,
    excluded: Option<Excluded>,
    /// The field of the function's result.
    field: FieldRef,
    /// The number of the function's own arguments.
    arguments: usize,
    /// Whether the last argument is the condition of FILTER.
    filtered: bool,
    signature: Signature,
}

impl OverFrame {
    pub(super) fn new(
        seen: Seen,
        excluded: Option<Excluded>,
        field: FieldRef,
        arguments: usize,
        filtered: bool,
    ) -> Self {
        Self {
            seen,
            excluded,
            field,
            arguments,
            filtered,
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

/// An aggregate whose arguments are the columns at their positions. Constant arguments are kept,
/// because some aggregates need their values.
pub(super) fn aggregate_over(
    aggregate: &Arc<AggregateUDF>,
    fields: &[FieldRef],
    constant: impl Fn(usize) -> Option<Arc<dyn PhysicalExpr>>,
) -> Result<AggregateFunctionExpr> {
    let own = fields
        .iter()
        .enumerate()
        .map(|(at, field)| constant(at).unwrap_or_else(|| Arc::new(Column::new(field.name(), at))));
    AggregateExprBuilder::new(Arc::clone(aggregate), own.collect())
        .schema(Arc::new(Schema::new(fields.to_vec())))
        .alias(aggregate.name())
        .build()
}

impl WindowUDFImpl for OverFrame {
    fn name(&self) -> &'static str {
        "over_frame"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.field.as_ref().clone().with_name(args.name())))
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let aggregate = match &self.seen {
            Seen::Aggregate(aggregate) => {
                let exprs = args.input_exprs();
                let constant = |at: usize| {
                    let expr: &Arc<dyn PhysicalExpr> = exprs.get(at)?;
                    expr.downcast_ref::<Literal>().map(|_| Arc::clone(expr))
                };
                let fields = &args.input_fields()[..self.arguments];
                Some(aggregate_over(aggregate, fields, constant)?)
            }
            _ => None,
        };
        let given = args.input_exprs().len();
        Ok(Box::new(Evaluator {
            aggregate,
            seen: self.seen.clone(),
            excluded: self.excluded,
            data_type: self.field.data_type().clone(),
            arguments: self.arguments,
            keys: self.arguments..given - usize::from(self.filtered),
            filter: self.filtered.then(|| given - 1),
            peers: vec![],
            group: 0,
            row: 0,
            tiles: None,
        }))
    }

    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

#[derive(Debug)]
struct Evaluator {
    /// The aggregate of [`Seen::Aggregate`].
    aggregate: Option<AggregateFunctionExpr>,
    seen: Seen,
    excluded: Option<Excluded>,
    data_type: DataType,
    arguments: usize,
    keys: Range<usize>,
    filter: Option<usize>,
    /// The partition's groups of peers; empty before the first row.
    peers: Vec<Range<usize>>,
    /// The group of the current row.
    group: usize,
    row: usize,
    /// How [`Seen::Tile`] divides the partition; `None` before the row that says it.
    tiles: Option<Tiles>,
}

impl PartitionEvaluator for Evaluator {
    fn uses_window_frame(&self) -> bool {
        true
    }

    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        if self.seen == Seen::Tile {
            return self.tile(&values[0]);
        }
        if self.peers.is_empty() {
            self.peers = peers(&values[self.keys.clone()])?;
        }
        let row = self.row;
        self.row += 1;
        while self
            .peers
            .get(self.group)
            .is_some_and(|peers| peers.end <= row)
        {
            self.group += 1;
        }
        let all = 0..usize::MAX;
        let peers = self.peers.get(self.group).unwrap_or(&all);
        let left = left(self.excluded, frame, peers, row);
        let mut rows = left.iter().cloned().flatten();
        let found = match &self.seen {
            Seen::Aggregate(_) => return self.aggregated(values, &left),
            Seen::First => rows.next(),
            Seen::Last => rows.next_back(),
            Seen::Nth => match place(&values[1], row)? {
                Some(place) => rows.nth(place),
                None => None,
            },
            Seen::Lag => shift(&values[1], row)?.and_then(|by| shifted(row, by.checked_neg()?)),
            Seen::Lead => shift(&values[1], row)?.and_then(|by| shifted(row, by)),
            Seen::Tile => return internal_err!("ntile is computed without a frame"),
        };
        let found = found.filter(|found| *found < values[0].len());
        match found {
            Some(found) => first_value(&values[0].slice(found, 1)),
            None => ScalarValue::try_from(&self.data_type),
        }
    }
}

impl Evaluator {
    fn aggregated(&self, values: &[ArrayRef], left: &[Range<usize>]) -> Result<ScalarValue> {
        let Some(aggregate) = &self.aggregate else {
            return internal_err!("an aggregate is built with its evaluator");
        };
        let mut accumulator = aggregate.create_accumulator()?;
        for rows in left.iter().filter(|rows| !rows.is_empty()) {
            let own = values[..self.arguments].iter();
            let mut own: Vec<ArrayRef> = own.map(|all| all.slice(rows.start, rows.len())).collect();
            if let Some(at) = self.filter {
                let kept = values[at].slice(rows.start, rows.len());
                for all in &mut own {
                    *all = filter(all, kept.as_boolean())?;
                }
            }
            accumulator.update_batch(&own)?;
        }
        accumulator.evaluate()
    }

    /// The group in which `ntile` puts the next row. The first row that has a number of groups
    /// determines it; the rows before it are in none.
    fn tile(&mut self, counts: &ArrayRef) -> Result<ScalarValue> {
        let row = self.row;
        self.row += 1;
        if self.tiles.is_none() {
            let Some(count) = shift(counts, row)? else {
                return Ok(ScalarValue::Int32(None));
            };
            self.tiles = Some(Tiles::new(counts.len(), count)?);
        }
        let tile = self.tiles.as_mut().map(Tiles::following);
        Ok(ScalarValue::Int32(tile))
    }
}

/// The groups of `ntile`: the first ones have one row more, if the rows do not divide evenly.
/// Source: PostgreSQL's `window_ntile`.
#[derive(Debug)]
struct Tiles {
    /// The number of the current group, from 1.
    number: usize,
    /// The rows that are in it so far.
    rows: usize,
    /// The rows that it has in all.
    size: usize,
    /// The last group that has one row more; 0 if the current one has not.
    larger: usize,
}

impl Tiles {
    /// # Errors
    /// 22014, if the number of groups is not positive.
    fn new(rows: usize, count: i64) -> Result<Self, PgError> {
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
            let message = "argument of ntile must be greater than zero";
            return Err(PgError::new("22014", message));
        };
        let larger = if rows < count { 0 } else { rows % count };
        Ok(Self {
            number: 1,
            rows: 0,
            size: (rows / count).max(1) + usize::from(larger > 0),
            larger,
        })
    }

    /// The group of the next row.
    fn following(&mut self) -> i32 {
        self.rows += 1;
        if self.rows > self.size {
            if self.larger > 0 && self.number == self.larger {
                self.larger = 0;
                self.size -= 1;
            }
            self.number += 1;
            self.rows = 1;
        }
        i32::try_from(self.number).unwrap_or(i32::MAX)
    }
}

/// The groups of rows with equal keys; one group if there are no keys.
fn peers(keys: &[ArrayRef]) -> Result<Vec<Range<usize>>> {
    if keys.is_empty() {
        return Ok(std::iter::once(0..usize::MAX).collect());
    }
    Ok(partition(keys)?.ranges())
}

/// The remaining rows of a frame, in order.
fn left(
    excluded: Option<Excluded>,
    frame: &Range<usize>,
    peers: &Range<usize>,
    row: usize,
) -> [Range<usize>; 3] {
    let gone = match excluded {
        None => return [frame.clone(), 0..0, 0..0],
        Some(Excluded::CurrentRow) => row..row + 1,
        Some(Excluded::Group | Excluded::Ties) => peers.clone(),
    };
    let stays = excluded == Some(Excluded::Ties) && frame.contains(&row);
    let middle = if stays { row..row + 1 } else { row..row };
    let before = frame.start..frame.end.min(gone.start);
    let behind = frame.start.max(gone.end)..frame.end;
    [before, middle, behind]
}

/// How many rows `lag` or `lead` goes, or how many groups `ntile` makes; `None` for NULL.
fn shift(shifts: &ArrayRef, row: usize) -> Result<Option<i64>> {
    let shift = arrow_cast(&shifts.slice(row, 1), &DataType::Int64)?;
    Ok(shift.as_primitive::<Int64Type>().iter().next().flatten())
}

/// The row that is this far away; it may be behind the partition's last.
fn shifted(row: usize, by: i64) -> Option<usize> {
    let place = i64::try_from(row).ok()?.checked_add(by)?;
    usize::try_from(place).ok()
}

/// The position requested by `nth_value`, from 0.
fn place(places: &ArrayRef, row: usize) -> Result<Option<usize>> {
    if places.is_null(row) {
        return Ok(None);
    }
    let place = arrow_cast(&places.slice(row, 1), &DataType::Int64)?;
    match usize::try_from(place.as_primitive::<Int64Type>().value(0)) {
        Ok(place) if place > 0 => Ok(Some(place - 1)),
        _ => {
            let message = "argument of nth_value must be greater than zero";
            Err(PgError::new("22016", message).into())
        }
    }
}
