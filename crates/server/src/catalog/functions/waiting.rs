//! Functions that wait: `pg_sleep`, and those of advisory locks (`advisory.rs`).
//!
//! Idea: those that wait are DataFusion's asynchronous functions, so that a wait takes no thread.
//! A cancel request, a timeout or the client's end drops the query, and the wait with it.
//! Not here: `pg_sleep_for`, `pg_sleep_until` and `pg_sleep('1')`, which the dialect writes with
//! `pg_sleep` of a number, because the arguments of such functions cannot be texts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use coscan::Notice;
use coscan::session_settings::{Board, duration};
use coscan_pg::PgError;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use tokio::time::{sleep, timeout};

use super::Known;
use super::Take::Number;
use super::function::{Function, Give, Optional, Row, boolean, text};
use crate::advisory::{Key, Mode, Owner, Until};

use Mode::{Exclusive, Shared};
use Until::{SessionEnds, TransactionEnds};

/// The functions that wait.
pub(super) fn waiting(known: &Known) -> Vec<ScalarUDF> {
    let keys = vec![
        TypeSignature::Exact(vec![DataType::Int64]),
        TypeSignature::Exact(vec![DataType::Int32; 2]),
    ];
    let keys = Signature::one_of(keys, Volatility::Volatile);
    let seconds = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    let lock = |name, mode, until| (name, keys.clone(), Wait::Lock(mode, until));
    let all = [
        ("pg_sleep", seconds, Wait::Sleep),
        lock("pg_advisory_lock", Exclusive, SessionEnds),
        lock("pg_advisory_lock_shared", Shared, SessionEnds),
        lock("pg_advisory_xact_lock", Exclusive, TransactionEnds),
        lock("pg_advisory_xact_lock_shared", Shared, TransactionEnds),
    ];
    let function = |(name, signature, wait)| {
        let waiting = Waiting {
            name,
            signature,
            wait,
            locks: Arc::clone(&known.locks),
            board: Arc::clone(&known.board),
        };
        AsyncScalarUDF::new(Arc::new(waiting)).into_scalar_udf()
    };
    all.into_iter().map(function).collect()
}

/// The functions of locks that do not wait. They run for each row.
pub(super) fn functions(known: &Known) -> Vec<Function> {
    let taken = |name, mode, until| {
        let locks = Arc::clone(&known.locks);
        of_key(name, move |key| Ok(locks.try_lock(key, mode, until)?))
    };
    let unlocked = |name, mode| {
        let (locks, notices) = (Arc::clone(&known.locks), Arc::clone(&known.notices));
        of_key(name, move |key| {
            let is_unlocked = locks.unlock(key, mode);
            if !is_unlocked {
                notices.add(not_owned(mode));
            }
            Ok(is_unlocked)
        })
    };
    let locks = Arc::clone(&known.locks);
    let all = Function::new("pg_advisory_unlock_all", &[], Give::Text, move |_| {
        locks.unlock_all();
        Ok(text(Some("")))
    });
    vec![
        taken("pg_try_advisory_lock", Exclusive, SessionEnds),
        taken("pg_try_advisory_lock_shared", Shared, SessionEnds),
        taken("pg_try_advisory_xact_lock", Exclusive, TransactionEnds),
        taken("pg_try_advisory_xact_lock_shared", Shared, TransactionEnds),
        unlocked("pg_advisory_unlock", Exclusive),
        unlocked("pg_advisory_unlock_shared", Shared),
        all.volatile(),
    ]
}

/// The warning that the session does not hold the lock that it unlocks.
fn not_owned(mode: Mode) -> Notice {
    let kind = match mode {
        Exclusive => "ExclusiveLock",
        Shared => "ShareLock",
    };
    Notice::warning("01000", format!("you don't own a lock of type {kind}"))
}

fn of_key(
    name: &'static str,
    call: impl Fn(Key) -> Result<bool> + Send + Sync + 'static,
) -> Function {
    let function = Function::new(name, &[Number, Number], Give::Bool, move |row: &Row<'_>| {
        let key = key_in(row)?;
        Ok(boolean(key.map(&call).transpose()?))
    });
    function.optional(Optional::Last(1)).volatile()
}

/// `None` if an argument is NULL.
fn key_in(row: &Row<'_>) -> Result<Option<Key>> {
    if row.len() == 1 {
        return Ok(row.number(0).map(Key::One));
    }
    let (Some(first), Some(second)) = (row.number(0), row.number(1)) else {
        return Ok(None);
    };
    match (i32::try_from(first), i32::try_from(second)) {
        (Ok(first), Ok(second)) => Ok(Some(Key::Two(first, second))),
        _ => Err(PgError::new("22003", "integer out of range").into()),
    }
}

/// See the file's header.
struct Waiting {
    name: &'static str,
    signature: Signature,
    wait: Wait,
    locks: Arc<Owner>,
    /// Where `lock_timeout` is read.
    board: Arc<Board>,
}

#[derive(Clone, Copy)]
enum Wait {
    Sleep,
    Lock(Mode, Until),
}

impl Waiting {
    /// Waits for one row.
    async fn wait(&self, arguments: &[ArrayRef], row: usize) -> Result<()> {
        let (mode, until) = match self.wait {
            Wait::Sleep => {
                let [seconds] = arguments else {
                    return internal_err!("{} takes one number", self.name);
                };
                let seconds = seconds.as_primitive::<Float64Type>().value(row);
                let time = Duration::try_from_secs_f64(seconds.max(0.0));
                sleep(time.unwrap_or(Duration::MAX)).await;
                return Ok(());
            }
            Wait::Lock(mode, until) => (mode, until),
        };
        let key = match arguments {
            [key] => Key::One(key.as_primitive::<Int64Type>().value(row)),
            [first, second] => {
                let number = |column: &ArrayRef| column.as_primitive::<Int32Type>().value(row);
                Key::Two(number(first), number(second))
            }
            _ => return internal_err!("{} takes one or two numbers", self.name),
        };
        let lock = self.locks.lock(key, mode, until);
        let limit = self.board.value("lock_timeout");
        let limit = limit.and_then(|limit| duration(&limit));
        match limit.filter(|limit| !limit.is_zero()) {
            Some(limit) => match timeout(limit, lock).await {
                Ok(locked) => Ok(locked?),
                Err(_) => {
                    let message = "canceling statement due to lock timeout";
                    Err(PgError::new("55P03", message).into())
                }
            },
            None => Ok(lock.await?),
        }
    }
}

impl ScalarUDFImpl for Waiting {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} waits", self.name)
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Waiting {
    /// PostgreSQL's type `void` is an empty text.
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arguments = args.args.iter().map(|value| value.to_array(rows));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let mut done = StringBuilder::new();
        for row in 0..rows {
            if arguments.iter().any(|column| column.is_null(row)) {
                done.append_null();
                continue;
            }
            self.wait(&arguments, row).await?;
            done.append_value("");
        }
        Ok(ColumnarValue::Array(Arc::new(done.finish())))
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waiting").field(&self.name).finish()
    }
}

/// Within one session a name identifies one function.
impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Waiting {}

impl Hash for Waiting {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
