//! `now()` and related functions: the current date and time in the session's zone.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::rowwise::{Kind, surroundings};
use crate::PgError;
use crate::moments::{Moments, now};
use crate::time::arithmetic::{date_of, rounded_moment};
use crate::time::calendar::MICROS_PER_DAY;
use crate::time::zone::Zone;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let clock = |name, aliases: &[&str], kind, moment| {
        let volatility = match moment {
            Moment::Call => Volatility::Volatile,
            Moment::Transaction | Moment::Statement => Volatility::Stable,
        };
        ScalarUDF::new_from_impl(Clock {
            name,
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            kind,
            moment,
            signature: Signature::user_defined(volatility),
        })
    };
    let transaction = Moment::Transaction;
    let now = ["current_timestamp", "transaction_timestamp"];
    let [statement, call] = ["statement_timestamp", "clock_timestamp"];
    vec![
        clock("now", &now, Kind::Timestamptz, transaction),
        clock("localtimestamp", &[], Kind::Timestamp, transaction),
        clock("localtime", &[], Kind::Time, transaction),
        clock("current_date", &["today"], Kind::Date, transaction),
        clock(statement, &[], Kind::Timestamptz, Moment::Statement),
        clock(call, &[], Kind::Timestamptz, Moment::Call),
        ScalarUDF::new_from_impl(CurrentTime {
            signature: Signature::user_defined(Volatility::Stable),
        }),
    ]
}

/// The moment that a clock function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Moment {
    Transaction,
    Statement,
    /// The time of the call itself.
    Call,
}

/// A clock function that returns a moment as a value of some kind.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Clock {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    moment: Moment,
    signature: Signature,
}

impl Clock {
    fn value(&self, utc: i64, zone: Zone, digits: Option<u32>) -> Result<ScalarValue> {
        let utc = match digits {
            Some(digits) => rounded_moment(utc, digits)?,
            None => utc,
        };
        let local = zone.local(utc);
        Ok(match self.kind {
            Kind::Date => ScalarValue::Date32(Some(date_of(local))),
            Kind::Time => ScalarValue::Time64Microsecond(Some(local.rem_euclid(MICROS_PER_DAY))),
            Kind::Timestamp => ScalarValue::TimestampMicrosecond(Some(local), None),
            _ => ScalarValue::TimestampMicrosecond(Some(utc), Some("UTC".into())),
        })
    }
}

/// The precision in `current_timestamp(0)`.
fn digits(value: Option<&ScalarValue>) -> Result<Option<u32>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let number = value.cast_to(&DataType::Int64)?;
    match number {
        ScalarValue::Int64(Some(digits)) if digits >= 0 => {
            Ok(Some(u32::try_from(digits.min(6)).unwrap_or(6)))
        }
        _ => plan_err!("the precision of a time must be a number of at least 0"),
    }
}

impl ScalarUDFImpl for Clock {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        if given.len() > 1 {
            return Err(super::rowwise::undefined(self.name, given).into());
        }
        Ok(given.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.kind.held())
    }

    /// `now()` is constant within a transaction; with a value per call it would differ between
    /// calls. DataFusion tries to evaluate a call before it simplifies it, so an error is needed
    /// here.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.moment != Moment::Call {
            return internal_err!("{} is simplified when a statement is planned", self.name);
        }
        let precision = match args.args.first() {
            Some(ColumnarValue::Scalar(value)) => digits(Some(value))?,
            Some(ColumnarValue::Array(_)) => return plan_err!("a precision must be a constant"),
            None => None,
        };
        let zone = surroundings(&args.config_options).zone;
        Ok(ColumnarValue::Scalar(self.value(now(), zone, precision)?))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(start) = info.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let moments = Moments::of(info.config_options());
        let began = match self.moment {
            Moment::Call => return Ok(ExprSimplifyResult::Original(args)),
            Moment::Statement => moments.and_then(Moments::statement),
            Moment::Transaction => moments.and_then(Moments::transaction),
        };
        let precision = match args.first() {
            None => None,
            Some(Expr::Literal(value, _)) => digits(Some(value))?,
            Some(_) => return Ok(ExprSimplifyResult::Original(args)),
        };
        let zone = surroundings(info.config_options()).zone;
        let value = self.value(began.unwrap_or(start.timestamp_micros()), zone, precision)?;
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(value, None)))
    }
}

/// `current_time`, which is refused because Arrow lacks its type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CurrentTime {
    signature: Signature,
}

impl ScalarUDFImpl for CurrentTime {
    fn name(&self) -> &'static str {
        "current_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let message = "type time with time zone is not supported; use localtime";
        Err(PgError::unsupported(message).into())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("current_time has no type")
    }
}
