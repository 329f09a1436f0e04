//! `generate_series` in FROM: of timestamps and of integers, and the order of every series.
//!
//! Timestamps are generated one batch at a time. A NULL argument gives no rows; a step of zero is
//! an error whatever the other arguments are. An untyped literal takes the type that the typed
//! arguments determine.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{
    Session, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider,
};
use datafusion::common::{plan_err, project_schema};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{Expr, TableSource, TableType, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::scalar::ScalarValue;

use super::rowwise::Kind;
use crate::PgError;
use crate::casts::{Context, Target, cast_array};
use crate::operators::is_unknown;
use crate::time::arithmetic::plus_in;
use crate::time::span::Span;
use crate::time::zone::Zone;

/// Extends the session's `generate_series` by timestamps.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let functions = builder.table_functions().get_or_insert_default();
    let Some(others) = functions.get(NAME).cloned() else {
        return;
    };
    let series = TableFunction::new(NAME.to_owned(), Arc::new(Series { others }));
    functions.insert(NAME.to_owned(), Arc::new(series));
}

const NAME: &str = "generate_series";

/// `generate_series` of timestamps; other types are passed to the session's original function.
#[derive(Debug)]
struct Series {
    others: Arc<TableFunction>,
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let context = Context::of(args.session().config_options());
        let given = typed(args.exprs(), &context)?;
        let falls = given.get(2).is_some_and(falls);
        let is_int4 = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Int32(_), _));
        let narrow = given.iter().all(is_int4);
        let given: Vec<Expr> = given.iter().map(widened).collect();
        let rows = self.rows(TableFunctionArgs::new(&given, args.session()))?;
        let mut schema = rows.schema();
        if narrow {
            let column = schema.field(0).clone().with_data_type(DataType::Int32);
            schema = Arc::new(Schema::new(vec![column]));
        }
        Ok(Arc::new(InOrder {
            rows,
            schema,
            falls,
        }))
    }
}

/// An ascending or descending series. In PostgreSQL a set function's rows keep their order.
#[derive(Debug)]
struct InOrder {
    rows: Arc<dyn TableProvider>,
    /// DataFusion's series are of bigint, PostgreSQL's of the arguments' type.
    schema: SchemaRef,
    falls: bool,
}

#[async_trait]
impl TableProvider for InOrder {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        self.rows.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.rows.scan(state, projection, filters, limit).await?;
        let (wanted, found) = (project_schema(&self.schema, projection)?, rows.schema());
        if wanted == found {
            return Ok(rows);
        }
        let columns = wanted.fields().iter().enumerate().map(|(at, field)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
            let value = CastExpr::new(column, field.data_type().clone(), None);
            (Arc::new(value) as _, field.name().clone())
        });
        let columns: Vec<(Arc<dyn PhysicalExpr>, String)> = columns.collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, rows)?))
    }
}

/// Whether the rows of a series descend; `None` if the table is not a series.
pub(crate) fn series_falls(table: &Arc<dyn TableSource>) -> Option<bool> {
    let provider = source_as_provider(table).ok()?;
    let series = (provider.as_ref() as &dyn Any).downcast_ref::<InOrder>()?;
    Some(series.falls)
}

/// The arguments, with types for untyped literals: that of the integers beside them, or interval
/// for the step between timestamps, which read the bounds themselves.
fn typed(given: &[Expr], context: &Context) -> Result<Vec<Expr>> {
    let has = |is_such: fn(&ScalarValue) -> bool| {
        let mut values = given.iter();
        values.any(|expr| matches!(expr, Expr::Literal(value, _) if is_such(value)))
    };
    let integer = if has(|value| matches!(value, ScalarValue::Int64(_))) {
        Some(Target::Int8)
    } else if has(|value| matches!(value, ScalarValue::Int32(_))) {
        Some(Target::Int4)
    } else {
        None
    };
    let is_of_times = given.iter().any(|expr| kind(expr).is_some());
    let typed = given.iter().enumerate().map(|(at, expr)| {
        let target = match &integer {
            _ if !is_unknown(expr) => None,
            Some(integer) => Some(integer.clone()),
            None if at == 2 && is_of_times => Some(Target::Interval(None, None)),
            None => None,
        };
        Ok(match target {
            Some(target) => lit(value(expr, &target, context)?),
            None => expr.clone(),
        })
    });
    typed.collect()
}

/// An integer, widened for DataFusion's series.
fn widened(argument: &Expr) -> Expr {
    match argument {
        Expr::Literal(ScalarValue::Int32(value), _) => {
            lit(ScalarValue::Int64(value.map(i64::from)))
        }
        Expr::Literal(ScalarValue::Int16(value), _) => {
            lit(ScalarValue::Int64(value.map(i64::from)))
        }
        other => other.clone(),
    }
}

/// Whether a constant step is negative.
fn falls(step: &Expr) -> bool {
    let Expr::Literal(value, _) = step else {
        return false;
    };
    match value {
        ScalarValue::IntervalMonthDayNano(Some(step)) => Span::of_arrow(*step).length() < 0,
        other => ScalarValue::new_zero(&other.data_type()).is_ok_and(|zero| *other < zero),
    }
}

impl Series {
    fn rows(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let kinds: Vec<Option<Kind>> = args.exprs().iter().take(2).map(kind).collect();
        // Between two untyped bounds an interval tells.
        let has_interval = args.exprs().get(2).and_then(kind) == Some(Kind::Interval);
        if kinds.iter().all(Option::is_none) && !has_interval {
            return self.others.create_table_provider_with_args(args);
        }
        let [start, end, step] = args.exprs() else {
            let message = "generate_series of timestamps takes a start, an end and a step";
            return Err(PgError::undefined_function(message).into());
        };
        let kind = kind_of_series([kinds[0], kinds[1]]);
        let config = args.session().config_options();
        let context = Context::of(config);
        let target = match kind {
            Kind::Timestamp => Target::Timestamp(None),
            _ => Target::Timestamptz(None),
        };
        let zone = match kind {
            Kind::Timestamp => Zone::Fixed(0),
            _ => context.surroundings().zone,
        };
        let at = |expr: &Expr| match value(expr, &target, &context)? {
            ScalarValue::TimestampMicrosecond(at, _) => Ok(at),
            other => plan_err!("generate_series expects a timestamp, not {other}"),
        };
        let step = match value(step, &Target::Interval(None, None), &context)? {
            ScalarValue::IntervalMonthDayNano(step) => step.map(Span::of_arrow),
            other => return plan_err!("generate_series expects an interval, not {other}"),
        };
        if step.is_some_and(|step| step.length() == 0) {
            return Err(PgError::new("22023", "step size cannot equal zero").into());
        }
        let schema = Arc::new(Schema::new(vec![Field::new("value", kind.held(), true)]));
        let next = match (at(start)?, at(end)?, step) {
            (Some(start), Some(end), Some(step)) => Some(Moments::new(start, end, step, zone)),
            _ => None,
        };
        let stream = Rows {
            schema: Arc::clone(&schema),
            moments: next,
        };
        Ok(Arc::new(StreamingTable::try_new(
            schema,
            vec![Arc::new(stream)],
        )?))
    }
}

/// The kind of a series between two kinds of bounds. Dates become timestamps in the session's
/// zone.
pub(super) fn kind_of_series(ends: [Option<Kind>; 2]) -> Kind {
    let has = |kind| ends.contains(&Some(kind));
    if has(Kind::Timestamp) && !has(Kind::Timestamptz) {
        Kind::Timestamp
    } else {
        Kind::Timestamptz
    }
}

fn kind(expr: &Expr) -> Option<Kind> {
    match expr {
        Expr::Literal(value, _) => Kind::of(&value.data_type()),
        _ => None,
    }
}

/// A constant argument, cast to a type.
fn value(expr: &Expr, target: &Target, context: &Context) -> Result<ScalarValue> {
    let Expr::Literal(value, _) = expr else {
        return plan_err!("generate_series requires constants");
    };
    let field = Field::new("argument", value.data_type(), true);
    let array: ArrayRef = cast_array(&value.to_array()?, &field, target, context)?;
    ScalarValue::try_from_array(&array, 0)
}

/// The timestamps between two bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    next: i64,
    end: i64,
    step: Span,
    zone: Zone,
}

impl Moments {
    pub(super) fn new(start: i64, end: i64, step: Span, zone: Zone) -> Self {
        Self {
            next: start,
            end,
            step,
            zone,
        }
    }

    /// The next timestamps, at most `most`; none if the end is passed.
    pub(super) fn batch(&mut self, most: usize) -> Result<Vec<i64>, PgError> {
        let rises = self.step.length() > 0;
        let mut found = vec![];
        while found.len() < most {
            let passed = if rises {
                self.next > self.end
            } else {
                self.next < self.end
            };
            if passed {
                break;
            }
            found.push(self.next);
            self.next = plus_in(self.next, self.step, self.zone)?;
        }
        Ok(found)
    }
}

#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    moments: Option<Moments>,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let rows = context.session_config().batch_size();
        let mut moments = self.moments;
        let batches = std::iter::from_fn(move || {
            let batch = moments.as_mut()?.batch(rows);
            let made = batch.map_err(DataFusionError::from).and_then(|batch| {
                if batch.is_empty() {
                    return Ok(None);
                }
                let held = schema.field(0).data_type().clone();
                let array = TimestampMicrosecondArray::from(batch).with_data_type(held);
                let columns: Vec<ArrayRef> = vec![Arc::new(array)];
                Ok(Some(RecordBatch::try_new(Arc::clone(&schema), columns)?))
            });
            if made.is_err() {
                moments = None;
            }
            made.transpose()
        });
        let stream = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            stream,
        ))
    }
}
