//! `current_setting()` and `set_config()`: how does a query read a setting, and ask for another
//! value?
//!
//! Not here: when the session carries the request out (`../local.rs`).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::plan_err;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::Board;
use crate::session::settings::entry_text;

/// Gives a session the two functions, which read this board and leave requests on it.
pub fn register_functions(context: &SessionContext, board: &Arc<Board>) {
    let ask = Verb::Ask { turn: board.turn() };
    for verb in [Verb::Read, ask] {
        context.register_udf(SettingFunction::new(verb, board).into_udf());
    }
}

/// One of the two functions.
struct SettingFunction {
    verb: Verb,
    board: Arc<Board>,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    /// `current_setting(name [, missing_ok])`.
    Read,
    /// `set_config(name, value, is_local)` of a statement that was planned in this turn (B1).
    Ask { turn: u64 },
}

impl SettingFunction {
    fn new(verb: Verb, board: &Arc<Board>) -> Self {
        let volatility = match verb {
            Verb::Read => Volatility::Stable,
            // It runs for each row, and never while a query is planned.
            Verb::Ask { .. } => Volatility::Volatile,
        };
        Self {
            verb,
            board: Arc::clone(board),
            signature: Signature::user_defined(volatility),
        }
    }

    fn into_udf(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }

    fn value(&self, row: &Row<'_>, options: &ConfigOptions) -> Result<Option<String>> {
        match self.verb {
            Verb::Read => self.read(row, options),
            Verb::Ask { turn } => self.ask(row, turn).map(Some),
        }
    }

    fn read(&self, row: &Row<'_>, options: &ConfigOptions) -> Result<Option<String>> {
        let Some(name) = row.text(0) else {
            return Ok(None);
        };
        let found = if name.contains('.') {
            let custom = self.board.custom(name);
            custom.or_else(|| entry_text(options, name))
        } else {
            self.board.value(name)
        };
        if found.is_none() && row.bool(1) != Some(true) {
            return Err(unknown(name));
        }
        Ok(found)
    }

    fn ask(&self, row: &Row<'_>, turn: u64) -> Result<String> {
        // NULL counts as the empty text, the default of most settings.
        let value = row.text(1).unwrap_or_default();
        let Some(name) = row.text(0) else {
            return Ok(value.to_owned());
        };
        if !name.contains('.') && self.board.value(name).is_none() {
            return Err(unknown(name));
        }
        let is_local = row.bool(2) == Some(true);
        if !self.board.request(turn, name, value, is_local) {
            let message = "set_config() was asked for too much in one statement";
            return Err(DataFusionError::ResourcesExhausted(message.to_owned()));
        }
        Ok(value.to_owned())
    }
}

fn unknown(name: &str) -> DataFusionError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    DataFusionError::Configuration(message)
}

impl ScalarUDFImpl for SettingFunction {
    fn name(&self) -> &'static str {
        match self.verb {
            Verb::Read => "current_setting",
            Verb::Ask { .. } => "set_config",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), DataType::Utf8, true)))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let takes = match (self.verb, given.len()) {
            (Verb::Read, 1) => vec![DataType::Utf8],
            (Verb::Read, 2) => vec![DataType::Utf8, DataType::Boolean],
            (Verb::Ask { .. }, 3) => vec![DataType::Utf8, DataType::Utf8, DataType::Boolean],
            (_, count) => return plan_err!("{}() does not take {count} arguments", self.name()),
        };
        Ok(takes)
    }

    /// B1: `set_config` is bound to the turn in which its statement is planned.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let now = Verb::Ask {
            turn: self.board.turn(),
        };
        if self.verb == Verb::Read || self.verb == now {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let bound = Self::new(now, &self.board).into_udf();
        Ok(ExprSimplifyResult::Simplified(bound.call(args)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Scalar(_));
        let is_constant = args.args.iter().all(is_scalar);
        let rows = if is_constant && self.verb == Verb::Read {
            1
        } else {
            args.number_rows
        };
        let arguments = args
            .args
            .iter()
            .map(|argument| {
                let array = argument.to_array(rows)?;
                // Coercion leaves a bare NULL untyped.
                if array.data_type() == &DataType::Null {
                    return Ok(cast(&array, &DataType::Utf8)?);
                }
                Ok(array)
            })
            .collect::<Result<Vec<_>>>()?;
        let values = (0..rows)
            .map(|row| {
                let arguments = &arguments;
                self.value(&Row { arguments, row }, &args.config_options)
            })
            .collect::<Result<StringArray>>()?;
        if is_constant && rows == 1 {
            let value = ScalarValue::try_from_array(&values, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}

/// Plans that are shown have no values of settings in them.
impl fmt::Debug for SettingFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SettingFunction")
            .field(&self.name())
            .finish()
    }
}

/// Within one session a name identifies one function.
impl PartialEq for SettingFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for SettingFunction {}

impl Hash for SettingFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// One row's arguments.
struct Row<'a> {
    arguments: &'a [ArrayRef],
    row: usize,
}

impl Row<'_> {
    fn text(&self, index: usize) -> Option<&str> {
        let texts = self.arguments.get(index)?.as_string_opt::<i32>()?;
        texts.is_valid(self.row).then(|| texts.value(self.row))
    }

    fn bool(&self, index: usize) -> Option<bool> {
        let values = self.arguments.get(index)?.as_boolean_opt()?;
        values.is_valid(self.row).then(|| values.value(self.row))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::{ExecutionPlan, collect};

    use super::*;
    use crate::session::settings::Published;

    async fn planned(session: &SessionContext) -> Arc<dyn ExecutionPlan> {
        let sql = "SELECT set_config('work_mem', '1GB', false)";
        let rows = session.sql(sql).await.unwrap();
        rows.create_physical_plan().await.unwrap()
    }

    #[test]
    fn a_function_that_is_shown_tells_no_values() {
        let board = Arc::new(Board::default());
        board.publish(vec![Published {
            value: "secret".to_owned(),
            ..Published::default()
        }]);
        let shown = format!("{:?}", SettingFunction::new(Verb::Read, &board));
        assert_eq!(shown, "SettingFunction(\"current_setting\")");
    }

    /// B1: the statement fails while a part of it still runs on another thread.
    #[tokio::test]
    async fn a_request_after_the_failure_is_ignored() {
        let (session, board) = (SessionContext::new(), Arc::new(Board::default()));
        board.publish(vec![Published {
            name: "work_mem",
            ..Published::default()
        }]);
        register_functions(&session, &board);
        let late = planned(&session).await;
        board.end_turn();
        collect(late, session.task_ctx()).await.unwrap();
        assert!(board.take_requests().is_empty());
        // The request of the next statement counts.
        collect(planned(&session).await, session.task_ctx())
            .await
            .unwrap();
        assert_eq!(board.take_requests()["work_mem"].value, "1GB");
    }
}
