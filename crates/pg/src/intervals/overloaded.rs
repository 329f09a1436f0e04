//! Extends aggregates to more types: `sum` and `avg`, which DataFusion has only for numbers, to
//! intervals, and to times, which PostgreSQL casts to intervals; `min` and `max` to `character(n)`,
//! whose values keep their type. `percentile_cont` of times is that of intervals, too.
//!
//! An [`Overloaded`] function exists only during planning: the rule in `comparisons/sort_keys.rs`
//! replaces it with the function for the argument's type, so plans that run contain none.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, Signature, Volatility,
};

use super::aggregates::{INTERVAL, avg, max, min, sum};
use crate::casts::{Target, cast_expr};
use crate::functions::text::OfPadded;
use crate::operators::padded::is_padded;

/// Extends the session's aggregates. Must be called after all others are installed.
pub(crate) fn with_intervals(builder: &mut SessionStateBuilder) {
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    let forms = [
        ("sum", sum()),
        ("avg", avg()),
        ("min", min()),
        ("max", max()),
    ];
    for (name, interval) in forms {
        // The last function with a name takes effect.
        let Some(numbers) = aggregates.iter().rfind(|known| known.name() == name) else {
            continue;
        };
        let overloaded = Overloaded {
            numbers: Arc::clone(numbers),
            interval: Arc::new(interval),
            padded: OfPadded::of(numbers),
            aliases: numbers.aliases().to_vec(),
            signature: Signature::user_defined(Volatility::Immutable),
        };
        aggregates.push(Arc::new(AggregateUDF::new_from_impl(overloaded)));
    }
}

/// An aggregate of numbers, intervals or texts.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Overloaded {
    numbers: Arc<AggregateUDF>,
    interval: Arc<AggregateUDF>,
    padded: Arc<AggregateUDF>,
    aliases: Vec<String>,
    signature: Signature,
}

impl Overloaded {
    /// The function for an argument's type.
    pub(crate) fn function(&self, argument: Option<&FieldRef>) -> Arc<AggregateUDF> {
        Arc::clone(match argument {
            Some(field) if *field.data_type() == INTERVAL => &self.interval,
            Some(field) if self.is_of_times(field.data_type()) => &self.interval,
            Some(field) if is_padded(field) => &self.padded,
            _ => &self.numbers,
        })
    }

    /// Casts times to intervals.
    pub(crate) fn cast(&self, args: &mut [Expr], argument: Option<&FieldRef>) {
        let is_cast = argument.is_some_and(|field| self.is_of_times(field.data_type()));
        if let (true, [arg]) = (is_cast, args) {
            *arg = as_interval(std::mem::take(arg));
        }
    }

    fn is_of_times(&self, held: &DataType) -> bool {
        is_time(held) && matches!(self.name(), "sum" | "avg")
    }
}

fn is_time(held: &DataType) -> bool {
    matches!(held, DataType::Time32(_) | DataType::Time64(_))
}

/// Casts a time to an interval. The cast depends on no setting.
fn as_interval(time: Expr) -> Expr {
    let target = Target::Interval(None, None);
    cast_expr(time, &target, &ConfigOptions::default())
}

/// Casts the times of `percentile_cont` to intervals, in whose order they are. Returns whether the
/// aggregate was one of times.
pub(crate) fn percentile_of_times(
    func: &AggregateUDF,
    params: &mut AggregateFunctionParams,
    schema: &DFSchema,
) -> bool {
    let is_of_times = |value: &Expr| value.get_type(schema).is_ok_and(|held| is_time(&held));
    let [value, _] = params.args.as_mut_slice() else {
        return false;
    };
    if func.name() != "percentile_cont" || !is_of_times(value) {
        return false;
    }
    let given = std::mem::take(value);
    *value = as_interval(given.clone());
    for sort in &mut params.order_by {
        if sort.expr == given {
            sort.expr = value.clone();
        }
    }
    true
}

impl AggregateUDFImpl for Overloaded {
    fn name(&self) -> &str {
        self.numbers.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        if let [held] = given
            && (*held == INTERVAL || self.is_of_times(held))
        {
            return Ok(given.to_vec());
        }
        let fields: Vec<FieldRef> = given
            .iter()
            .map(|given| Arc::new(Field::new("argument", given.clone(), true)))
            .collect();
        let coerced = fields_with_udf(&fields, self.numbers.as_ref())?;
        Ok(coerced
            .iter()
            .map(|field| field.data_type().clone())
            .collect())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        let first = given.first().map(|held| Field::new("", held.clone(), true));
        self.function(first.map(Arc::new).as_ref())
            .return_type(given)
    }

    fn return_field(&self, given: &[FieldRef]) -> Result<FieldRef> {
        self.function(given.first()).return_field(given)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        internal_err!("{} is resolved when a plan is analyzed", self.name())
    }
}
