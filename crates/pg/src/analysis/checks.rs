//! Refuses plans that are errors in PostgreSQL, and those that DataFusion answers wrongly, before
//! anything runs.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, JoinType};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::logical_plan::JoinConstraint;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::PgError;
use crate::operators::is_unknown;
use crate::output::pg_type;
use crate::resolve::{self, Oid, UNKNOWN, Undecided};
use crate::trees::{PlanTree, Tree};

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Checks;

impl AnalyzerRule for Checks {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.each_with_subqueries(|node| {
            check(node)?;
            node.each_expression(|expr| {
                expr.each(|part| {
                    call(part)?;
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "postgresql_checks"
    }
}

fn check(node: &LogicalPlan) -> Result<(), PgError> {
    match node {
        LogicalPlan::Window(window) => {
            let schema = window.input.schema();
            let mut functions = window.window_expr.iter();
            functions.try_for_each(|expr| window_function(expr, schema))
        }
        LogicalPlan::Filter(filter) => {
            let is_window = |expr: &Expr| Ok(matches!(expr, Expr::WindowFunction(_)));
            if !filter.predicate.has(is_window).unwrap_or(false) {
                return Ok(());
            }
            let clause = match filter.input.as_ref() {
                LogicalPlan::Aggregate(_) => "HAVING",
                _ => "WHERE",
            };
            let message = format!("window functions are not allowed in {clause}");
            Err(PgError::new("42P20", message))
        }
        LogicalPlan::Limit(limit) => {
            if limit
                .fetch
                .as_deref()
                .and_then(integer)
                .is_some_and(|rows| rows < 0)
            {
                return Err(PgError::new("2201W", "LIMIT must not be negative"));
            }
            if limit
                .skip
                .as_deref()
                .and_then(integer)
                .is_some_and(|rows| rows < 0)
            {
                return Err(PgError::new("2201X", "OFFSET must not be negative"));
            }
            Ok(())
        }
        // `dialect/queries/using.rs` has given all other joins ON.
        LogicalPlan::Join(join)
            if join.join_constraint == JoinConstraint::Using
                && matches!(join.join_type, JoinType::Right | JoinType::Full) =>
        {
            Err(PgError::unsupported(
                "RIGHT and FULL JOIN with NATURAL, or with USING after other joins, is not supported",
            ))
        }
        _ => Ok(()),
    }
}

/// Refuses an ambiguous call whose arguments are all untyped constants.
fn call(expr: &Expr) -> Result<(), PgError> {
    let (name, args) = match expr {
        Expr::ScalarFunction(call) => (call.name(), &call.args),
        // An `ARRAY(SELECT …)` is recognized by a filter that no statement contains
        // (`dialect/expressions/arrays.rs`).
        Expr::AggregateFunction(call)
            if !matches!(call.params.filter.as_deref(), Some(Expr::Literal(..))) =>
        {
            (call.func.name(), &call.params.args)
        }
        _ => return Ok(()),
    };
    let is_open =
        |arg: &Expr| is_unknown(arg) || matches!(arg, Expr::Literal(ScalarValue::Null, None));
    if args.is_empty() || !args.iter().all(is_open) {
        return Ok(());
    }
    match resolve::function(name, &vec![UNKNOWN; args.len()]) {
        Err(Undecided::Polymorphic) => Err(PgError::polymorphic()),
        Err(Undecided::Several) if matches!(expr, Expr::AggregateFunction(_)) => {
            let given = vec!["unknown"; args.len()].join(", ");
            let message = format!("function {name}({given}) is not unique");
            Err(PgError::new("42725", message))
        }
        _ => Ok(()),
    }
}

fn window_function(expr: &Expr, schema: &DFSchema) -> Result<(), PgError> {
    let call: &WindowFunction = match expr {
        Expr::Alias(alias) => return window_function(&alias.expr, schema),
        Expr::WindowFunction(call) => call,
        _ => return Ok(()),
    };
    if call.params.distinct {
        let message = "DISTINCT is not implemented for window functions";
        return Err(PgError::unsupported(message));
    }
    let given = call.params.args.iter().map(|arg| oid(arg, schema));
    let given: Vec<Oid> = given.collect();
    if resolve::function(call.fun.name(), &given) == Err(Undecided::Polymorphic) {
        return Err(PgError::polymorphic());
    }
    let number = |place: usize| call.params.args.get(place).and_then(integer);
    match call.fun.name() {
        "nth_value" if number(1).is_some_and(|number| number < 1) => {
            let message = "argument of nth_value must be greater than zero";
            Err(PgError::new("22016", message))
        }
        "ntile" if number(0).is_some_and(|number| number < 1) => {
            let message = "argument of ntile must be greater than zero";
            Err(PgError::new("22014", message))
        }
        // DataFusion treats an offset of NULL as 1. `windows/` has no defaults.
        "lag" | "lead" if is_default_of_none(&call.params.args) => Err(PgError::unsupported(
            "lag and lead with an offset of NULL and a default are not supported",
        )),
        _ => Ok(()),
    }
}

/// The PostgreSQL type of an argument.
fn oid(expr: &Expr, schema: &DFSchema) -> Oid {
    match expr {
        Expr::Literal(ScalarValue::Null, None) => UNKNOWN,
        expr if is_unknown(expr) => UNKNOWN,
        expr => expr
            .to_field(schema)
            .map_or(UNKNOWN, |(_, field)| pg_type(&field).oid()),
    }
}

/// Whether `lag` has an offset of NULL and a default.
fn is_default_of_none(args: &[Expr]) -> bool {
    matches!(args, [_, rows, default] if is_null(rows) && !is_null(default))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// The value of an integer literal.
fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(value, _) => value.to_string().parse().ok(),
        Expr::Negative(inner) => Some(-integer(inner)?),
        Expr::Cast(cast) => integer(&cast.expr),
        _ => None,
    }
}
