//! Which functions may a plan contain that runs on another node, and how are they named there?
//!
//! A plan travels as text and bytes, a function as a name. A name is not enough: several functions
//! are called `sum`, one for each kind of number, and rules call functions that no session
//! registers. So both nodes make the same list, and a function is sent as its name and its place
//! among the functions of that name.
//! Not here: functions with a parameter of any type (`stored_as`), and window functions over a
//! frame. They are in no list, so they cannot be sent.
//! SENT-I1: both nodes have the same version of Coscan, or a place means different functions.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::{all_default_aggregate_functions, min_max};
use datafusion::functions_window::all_default_window_functions;
use datafusion::logical_expr::{AggregateUDF, Expr, Operator, ScalarUDF, WindowUDF, lit};

use crate::functions::text::OfPadded;
use crate::functions::{as_it_is, joined_texts, sorted_array, without_key};
use crate::numbers::arithmetic::{self, Op};
use crate::numbers::integers::checked;
use crate::numbers::{decimal_sum, float_key, shown_float, sign_bit, variance_of};
use crate::{analysis, casts, comparisons, install, intervals, operators, windows};

/// The functions that can be sent, by name.
pub struct SentFunctions {
    scalar: HashMap<String, Vec<Arc<ScalarUDF>>>,
    aggregate: HashMap<String, Vec<Arc<AggregateUDF>>>,
    window: HashMap<String, Vec<Arc<WindowUDF>>>,
}

impl SentFunctions {
    /// The functions of sessions with these settings.
    #[must_use]
    pub fn new(config: &ConfigOptions) -> Self {
        let mut session = install(SessionStateBuilder::new().with_default_features());
        let registered = session.scalar_functions().take().unwrap_or_default();
        // A session registers the cast of its settings.
        let current = registered.into_iter().map(|function| {
            let updated = function.inner().with_updated_config(config);
            updated.map_or(function, Arc::new)
        });
        let scalar = current
            .chain(datafusion::functions::all_default_functions())
            .chain(datafusion::functions_nested::all_default_nested_functions())
            .chain(called());
        let aggregate = session.aggregate_functions().take().unwrap_or_default();
        let aggregate = aggregate
            .into_iter()
            .chain(all_default_aggregate_functions())
            .chain(resolved());
        let aggregate: Vec<Arc<AggregateUDF>> = aggregate.collect();
        let in_order: Vec<_> = aggregate.iter().map(windows::in_order).collect();
        let aggregate = aggregate.into_iter().chain(in_order);
        let window = session.window_functions().take().unwrap_or_default();
        let window = window.into_iter().chain(all_default_window_functions());
        Self {
            scalar: by_name(scalar, |function| function.name().to_owned()),
            aggregate: by_name(aggregate, |function| function.name().to_owned()),
            window: by_name(window, |function| function.name().to_owned()),
        }
    }

    /// The place of a function among those of its name; `None` if it cannot be sent.
    #[must_use]
    pub fn place_of_scalar(&self, function: &ScalarUDF) -> Option<usize> {
        place(&self.scalar, function.name(), function)
    }

    /// The same for an aggregate.
    #[must_use]
    pub fn place_of_aggregate(&self, function: &AggregateUDF) -> Option<usize> {
        place(&self.aggregate, function.name(), function)
    }

    /// The same for a window function.
    #[must_use]
    pub fn place_of_window(&self, function: &WindowUDF) -> Option<usize> {
        place(&self.window, function.name(), function)
    }

    /// The function of this name at this place, in a session with these settings.
    #[must_use]
    pub fn scalar(
        &self,
        name: &str,
        place: usize,
        config: &ConfigOptions,
    ) -> Option<Arc<ScalarUDF>> {
        let known = self.scalar.get(name)?.get(place)?;
        // A cast holds the time of its transaction.
        let updated = known.inner().with_updated_config(config);
        Some(updated.map_or_else(|| Arc::clone(known), Arc::new))
    }

    /// The same for an aggregate.
    #[must_use]
    pub fn aggregate(&self, name: &str, place: usize) -> Option<&Arc<AggregateUDF>> {
        self.aggregate.get(name)?.get(place)
    }

    /// The same for a window function.
    #[must_use]
    pub fn window(&self, name: &str, place: usize) -> Option<&Arc<WindowUDF>> {
        self.window.get(name)?.get(place)
    }
}

fn by_name<F: PartialEq>(
    functions: impl Iterator<Item = Arc<F>>,
    name: impl Fn(&F) -> String,
) -> HashMap<String, Vec<Arc<F>>> {
    let mut named: HashMap<String, Vec<Arc<F>>> = HashMap::new();
    for function in functions {
        let known = named.entry(name(&function)).or_default();
        if !known.contains(&function) {
            known.push(function);
        }
    }
    named
}

fn place<F: PartialEq>(
    named: &HashMap<String, Vec<Arc<F>>>,
    name: &str,
    function: &F,
) -> Option<usize> {
    let known = named.get(name)?;
    known.iter().position(|known| known.as_ref() == function)
}

/// The functions that rules call, and that no session registers under their names.
fn called() -> Vec<Arc<ScalarUDF>> {
    let calls = [
        as_it_is(lit(0)),
        without_key(lit(0)),
        float_key(lit(0)),
        shown_float(lit(0), lit(0)),
        sign_bit(lit(0)),
    ];
    let checks = [Operator::Plus, Operator::Minus, Operator::Multiply];
    let checks = checks.map(|op| checked(lit(0), op, lit(0)));
    let arithmetic = Op::ALL.map(|op| arithmetic::call(op, vec![]));
    let spread = [(true, false), (false, false), (true, true), (false, true)];
    let spread = spread.map(|(sample, root)| variance_of(sample, root, vec![]));
    let calls = calls
        .into_iter()
        .chain(checks)
        .chain(arithmetic)
        .chain(spread);
    let called = calls.filter_map(|call| match call {
        Expr::ScalarFunction(call) => Some(call.func),
        _ => None,
    });
    let made = [
        operators::order(),
        intervals::greatest(),
        intervals::least(),
        joined_texts(),
        sorted_array(),
        // Casts of numbers depend on no setting.
        casts::udf(&ConfigOptions::default()),
    ];
    let made = made.into_iter().chain(operators::chains::called());
    let made = made.chain(comparisons::called());
    let made = made.chain(analysis::called()).map(Arc::new);
    called.chain(made).collect()
}

/// The aggregates to which those that sessions register resolve.
fn resolved() -> Vec<Arc<AggregateUDF>> {
    let of_intervals = intervals::resolved().map(Arc::new);
    let of_padded = [min_max::min_udaf(), min_max::max_udaf()].map(|of| OfPadded::of(&of));
    let all = of_intervals.into_iter().chain(of_padded);
    all.chain([decimal_sum()]).collect()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, TimeUnit};
    use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
    use datafusion::scalar::ScalarValue;

    use super::*;
    use crate::moments::Moments;

    #[test]
    fn each_function_is_found_at_its_place() {
        let config = ConfigOptions::default();
        let (ours, theirs) = (SentFunctions::new(&config), SentFunctions::new(&config));
        for function in ours.scalar.values().flatten() {
            let at = ours.place_of_scalar(function).unwrap();
            let sent = theirs.scalar(function.name(), at, &config);
            assert_eq!(sent.as_ref(), Some(function));
        }
        for function in ours.aggregate.values().flatten() {
            let at = ours.place_of_aggregate(function).unwrap();
            assert_eq!(theirs.aggregate(function.name(), at), Some(function));
        }
        assert!(ours.aggregate["sum"].len() > 3, "several sums");
    }

    #[test]
    fn a_cast_has_the_time_of_its_transaction() {
        let plain = ConfigOptions::default();
        let functions = SentFunctions::new(&plain);
        let mut began = plain.clone();
        began.extensions.insert(Moments::of_transaction(1));
        let cast = casts::udf(&began);
        let at = functions.place_of_scalar(&cast).unwrap();
        let sent = functions.scalar(cast.name(), at, &began).unwrap();
        let text = ScalarValue::from("now");
        let invoked = sent.invoke_with_args(ScalarFunctionArgs {
            args: vec![
                ColumnarValue::Scalar(text),
                ColumnarValue::Scalar(ScalarValue::from("timestamptz")),
            ],
            arg_fields: vec![
                Arc::new(Field::new("text", DataType::Utf8, true)),
                Arc::new(Field::new("type", DataType::Utf8, true)),
            ],
            number_rows: 1,
            return_field: Arc::new(Field::new(
                "moment",
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                true,
            )),
            config_options: Arc::new(began),
        });
        let ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(moment, _)) = invoked.unwrap()
        else {
            panic!("not a moment");
        };
        assert_eq!(moment, Some(1));
    }

    #[test]
    fn a_cast_in_another_time_zone_is_another_function() {
        let mut berlin = ConfigOptions::default();
        berlin.execution.time_zone = Some("Europe/Berlin".to_owned());
        let functions = SentFunctions::new(&ConfigOptions::default());
        assert!(functions.place_of_scalar(&casts::udf(&berlin)).is_none());
        let functions = SentFunctions::new(&berlin);
        assert!(functions.place_of_scalar(&casts::udf(&berlin)).is_some());
    }
}
