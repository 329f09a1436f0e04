//! Which functions make large results from small arguments, and how are the results bounded?
//!
//! `repeat('x', 2000000000)` is a short statement that needs 2 GB, already in the planner, where
//! memory is not accounted for; `range(1, 1e12)` would kill the process. So the size of such a
//! function's result is computed from its arguments before the call.
//!
//! G1: one value takes at most a `VALUE_SHARE`th of the memory. All values of a batch together
//! take at most an `ARRAY_SHARE`th, which is reserved while they are made. Larger results fail
//! before anything is allocated.
//! Not here: functions whose results are no larger than their arguments (`||`, `concat`), and
//! aggregates, which account for their memory themselves.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::kernels::length::length;
use datafusion::arrow::compute::{cast, sum};
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use datafusion::prelude::SessionContext;

/// The session's functions whose results can grow, with bounds. All sessions of an engine get
/// equal functions, so that operators that call them can be shared.
#[must_use]
pub fn bounded(session: &SessionContext) -> Vec<ScalarUDF> {
    let state = session.state();
    let pool = &state.runtime_env().memory_pool;
    let known = GROWING
        .iter()
        .filter_map(|(name, _)| state.scalar_functions().get(*name));
    let growing = known.filter_map(|function| bounded_one(function, pool));
    growing.collect()
}

/// The function with bounds, if its results can grow.
pub fn bounded_one(function: &Arc<ScalarUDF>, pool: &Arc<dyn MemoryPool>) -> Option<ScalarUDF> {
    let (_, growth) = GROWING.iter().find(|(name, _)| *name == function.name())?;
    Some(ScalarUDF::new_from_impl(Bounded {
        inner: Arc::clone(function),
        growth: *growth,
        pool: Pool(Arc::clone(pool)),
    }))
}

/// The function without bounds, if it has them.
#[must_use]
pub fn unbounded(function: &ScalarUDF) -> &ScalarUDF {
    let bounded = function.inner().downcast_ref::<Bounded>();
    bounded.map_or(function, |bounded| &bounded.inner)
}

/// How the size of a row's value follows from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument, as many times as the second says.
    Repeated,
    /// As many characters or elements as the second argument says, each of at most this many
    /// bytes.
    Filled(u64),
    /// The integers or times from the first argument to the second, in steps of the third; with
    /// one argument, the integers up to it.
    Counted,
    /// The first argument, with each occurrence of the second replaced by the third.
    Replaced,
    /// The elements of the first argument, with the second between them.
    Joined,
}

const GROWING: &[(&str, Growth)] = &[
    ("repeat", Growth::Repeated),
    ("array_repeat", Growth::Repeated),
    ("lpad", Growth::Filled(4)),
    ("rpad", Growth::Filled(4)),
    ("array_resize", Growth::Filled(16)),
    ("range", Growth::Counted),
    ("generate_series_array", Growth::Counted),
    ("replace", Growth::Replaced),
    ("array_to_string", Growth::Joined),
];

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
    pool: Pool,
}

/// All pools compare equal: an engine has only one.
#[derive(Debug)]
struct Pool(Arc<dyn MemoryPool>);

impl PartialEq for Pool {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Pool {}

impl std::hash::Hash for Pool {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl Bounded {
    /// The bytes of all values together, and of the longest.
    fn sizes(&self, args: &[ColumnarValue], rows: usize) -> Result<(u64, u64)> {
        let scalar = args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { rows };
        let columns = args
            .iter()
            .map(Lengths::new)
            .collect::<Result<Vec<Lengths>>>()?;
        let (mut all, mut longest) = (0_u64, 0_u64);
        for row in 0..rows {
            let bytes = self.growth.bytes(&columns, row);
            all = all.saturating_add(bytes);
            longest = longest.max(bytes);
        }
        Ok((all, longest))
    }

    fn too_much(&self, what: &str, bytes: u64, most: usize) -> DataFusionError {
        let name = self.inner.name();
        DataFusionError::ResourcesExhausted(format!(
            "{name}() would make {what} of {bytes} bytes, and the memory of the server allows {most}"
        ))
    }
}

impl Growth {
    fn bytes(self, columns: &[Lengths], row: usize) -> u64 {
        let length = |at: usize| columns.get(at).map_or(0, |column| column.bytes(row));
        let number = |at: usize| columns.get(at).and_then(|column| column.number(row));
        let count = |at: usize| number(at).map_or(0, |count| u64::try_from(count).unwrap_or(0));
        match self {
            Self::Repeated => length(0).saturating_mul(count(1)),
            Self::Filled(width) => count(1).saturating_mul(width),
            Self::Counted => {
                let (first, last) = match columns.len() {
                    1 => (Some(0), number(0)),
                    _ => (number(0), number(1)),
                };
                let step = match columns.len() {
                    0..=2 => 1,
                    // The function itself bounds a series with a step that is a text.
                    _ => number(2).map_or(u128::MAX, i128::unsigned_abs).max(1),
                };
                let width = first.zip(last).map_or(0, |(from, to)| from.abs_diff(to));
                let values = u64::try_from(width / step).unwrap_or(u64::MAX);
                values.saturating_mul(size_of::<i64>() as u64)
            }
            Self::Replaced => {
                let (text, from, to) = (length(0), length(1), length(2));
                let times = text / from.max(1) + 1;
                text.saturating_add(times.saturating_mul(to))
            }
            Self::Joined => {
                let times = columns.first().map_or(0, |list| list.elements(row));
                length(0).saturating_add(times.saturating_mul(length(1)))
            }
        }
    }
}

/// The properties of one argument that decide the size of a result.
struct Lengths {
    array: ArrayRef,
    /// Integers unchanged; times in their unit; intervals in nanoseconds.
    numbers: Option<Int64Array>,
    /// The factor for `numbers`: the nanoseconds in a unit of time, 1 for other types.
    unit: u64,
    /// The bytes of texts, the elements of lists.
    lengths: Option<Int64Array>,
    /// The approximate bytes of one value or element.
    width: u64,
    scalar: bool,
}

impl Lengths {
    fn new(arg: &ColumnarValue) -> Result<Self> {
        let (array, scalar) = match arg {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(value) => (value.to_array_of_size(1)?, true),
        };
        let kind = array.data_type();
        let int64 = |array: &ArrayRef| -> Result<Int64Array> {
            let numbers = cast(array, &DataType::Int64)?;
            Ok(numbers.as_primitive::<Int64Type>().clone())
        };
        let (numbers, unit) = match kind {
            DataType::Interval(_) => (Some(interval_steps(&array)?), 1),
            _ if kind.is_integer() => (Some(int64(&array)?), 1),
            _ => match time_unit(kind) {
                Some(unit) => (Some(int64(&array)?), unit),
                None => (None, 1),
            },
        };
        let is_list = matches!(
            kind,
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
        );
        let is_text = matches!(
            kind,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        );
        let lengths = (is_list || is_text).then(|| length(&array)).transpose()?;
        let lengths = lengths.as_ref().map(int64).transpose()?;
        let values = match &lengths {
            Some(lengths) if is_list => sum(lengths).unwrap_or(0),
            _ => i64::try_from(array.len()).unwrap_or(i64::MAX),
        };
        let width = if is_text {
            1
        } else {
            array.get_array_memory_size() as u64 / values.max(1).unsigned_abs()
        };
        Ok(Self {
            array,
            numbers,
            unit,
            lengths,
            width,
            scalar,
        })
    }

    fn at(&self, row: usize) -> usize {
        if self.scalar { 0 } else { row }
    }

    fn number(&self, row: usize) -> Option<i128> {
        let (numbers, at) = (self.numbers.as_ref()?, self.at(row));
        let known = numbers.is_valid(at);
        known.then(|| i128::from(numbers.value(at)) * i128::from(self.unit))
    }

    /// The bytes of a whole text or list, or the approximate bytes of any other value.
    fn bytes(&self, row: usize) -> u64 {
        match &self.lengths {
            Some(_) => self.elements(row).saturating_mul(self.width),
            None if self.array.is_null(self.at(row)) => 0,
            None => self.width,
        }
    }

    /// The elements of a list, the bytes of a text.
    fn elements(&self, row: usize) -> u64 {
        let at = self.at(row);
        match &self.lengths {
            Some(lengths) if lengths.is_valid(at) => lengths.value(at).unsigned_abs(),
            _ => 0,
        }
    }
}

/// The nanoseconds in one unit of the integers that hold times of this type.
fn time_unit(kind: &DataType) -> Option<u64> {
    Some(match kind {
        DataType::Date32 => NANOS_PER_DAY,
        DataType::Timestamp(TimeUnit::Second, _) => NANOS_PER_SECOND,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        _ => return None,
    })
}

/// The shortest duration of each interval, in nanoseconds: a month has at least 28 days.
fn interval_steps(array: &ArrayRef) -> Result<Int64Array> {
    let kind = DataType::Interval(IntervalUnit::MonthDayNano);
    let intervals = cast(array, &kind)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    Ok(intervals.unary(|interval| {
        let days = i64::from(interval.months) * 28 + i64::from(interval.days);
        let nanos = days.saturating_mul(NANOS_PER_DAY.cast_signed());
        nanos.saturating_add(interval.nanoseconds)
    }))
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_DAY: u64 = 86_400 * NANOS_PER_SECOND;

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let memory = match self.pool.0.memory_limit() {
            MemoryLimit::Finite(limit) => limit,
            _ => MEMORY_UNLIMITED,
        };
        let (value_most, array_most) = (memory / VALUE_SHARE, memory / ARRAY_SHARE);
        let (all, longest) = self.sizes(&args.args, args.number_rows)?;
        if longest > value_most as u64 {
            return Err(self.too_much("a value", longest, value_most));
        }
        let bytes = usize::try_from(all).unwrap_or(usize::MAX);
        if bytes > array_most {
            return Err(self.too_much("values", all, array_most));
        }
        let reservation = MemoryConsumer::new(self.inner.name()).register(&self.pool.0);
        reservation.try_grow(bytes)?;
        self.inner.invoke_with_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The largest value, as a divisor of the memory: a statement holds several values.
const VALUE_SHARE: usize = 256;
/// The largest batch of values, as a divisor of the memory.
const ARRAY_SHARE: usize = 8;
/// The memory that is assumed when no limit is set.
const MEMORY_UNLIMITED: usize = 16 << 30;
