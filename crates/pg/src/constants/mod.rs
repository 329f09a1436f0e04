//! `SELECT 1 / 0 FROM t WHERE false`: which constants are errors even if no row needs them?
//!
//! PostgreSQL evaluates constant expressions during planning, so they fail whatever the rows are;
//! DataFusion leaves failing ones to the execution, which may never reach them. Here they are
//! evaluated once, in the order of `eval_const_expressions` (PostgreSQL's
//! `optimizer/util/clauses.c`): AND, OR, CASE and COALESCE stop at the constant that decides them,
//! and nothing else protects what follows. Columns of subqueries that are not read are not
//! evaluated, as in PostgreSQL. An untyped constant is read when the statement is parsed, wherever
//! it stands: `'a'::uuid`.
//! Not here: stable functions. (In PostgreSQL a cast of text to a date is stable, unless it is of
//! an untyped constant, `date 'x'`; here both are evaluated ahead.) Moments whose zone is that of
//! PREPARE are in `moments.rs`.

mod moments;

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, Volatility,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ColumnarValue;

pub use moments::read_moments;

use crate::casts::CAST;
use crate::error::{PgError, translate};
use crate::functions::first_value;
use crate::operators::is_unknown;
use crate::parameters::has_open_frame;
use crate::parts::plan_has_part;
use crate::trees::{PlanTree, Tree};

/// See the file's header. It runs first, because other rules remove expressions that no row needs.
#[derive(Debug)]
pub(crate) struct ConstantErrors;

impl OptimizerRule for ConstantErrors {
    fn name(&self) -> &'static str {
        "coscan_constant_errors"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !plan_has_part(&plan, may_fail) {
            return Ok(Transformed::no(plan));
        }
        // Other parameters without values fail where they are evaluated.
        if plan_has_part(&plan, has_open_frame) {
            let message = "there is no parameter for the offset of a window's frame";
            return Err(PgError::new("42P02", message).into());
        }
        let folding = Folding::new(config.options());
        folding.literals(&plan)?;
        folding.check(&plan, &Read::All)?;
        Ok(Transformed::no(plan))
    }
}

/// Whether a part of an expression may be evaluated ahead and fail. Comparisons of columns with
/// literals are all that many statements have.
fn may_fail(part: &Expr) -> bool {
    use Operator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    match part {
        Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) | Expr::AggregateFunction(_) => false,
        Expr::BinaryExpr(given) => {
            !matches!(given.op, And | Eq | Gt | GtEq | Lt | LtEq | NotEq | Or)
        }
        _ => true,
    }
}

/// Reads the untyped constants that a plan casts to a type, such as `'a'::uuid`.
///
/// # Errors
/// The error of the first constant that is not a value of its type.
pub fn check_literals(plan: &LogicalPlan, options: &Arc<ConfigOptions>) -> Result<()> {
    Folding::new(Arc::clone(options)).literals(plan)
}

/// Evaluates the constants of an expression and of its subqueries.
///
/// # Errors
/// The error of the first constant that has no value.
pub(crate) fn check_expr(expr: &Expr, options: &Arc<ConfigOptions>) -> Result<()> {
    Folding::new(Arc::clone(options)).settle(expr)
}

/// The value of a constant; `None` if the expression is not constant, or has no value.
pub(crate) fn value_of(expr: &Expr, options: &ConfigOptions) -> Option<ScalarValue> {
    let folding = Folding::new(Arc::new(options.clone()));
    if !folding.is_constant(expr).ok()? {
        return None;
    }
    folding.value(expr).ok()?
}

/// The columns of a node that are read above it, by their indices.
enum Read {
    All,
    Some(HashSet<usize>),
}

impl Read {
    fn none() -> Self {
        Self::Some(HashSet::new())
    }

    fn has(&self, place: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(places) => places.contains(&place),
        }
    }

    /// The columns of `schema` that expressions read; all of them if subqueries may read others.
    fn by(exprs: &[&Expr], schema: &DFSchema) -> Self {
        let mut places = HashSet::new();
        for expr in exprs {
            if expr
                .has(|inner| Ok(subquery(inner).is_some()))
                .unwrap_or(true)
            {
                return Self::All;
            }
            let columns = expr.column_refs().into_iter();
            places.extend(columns.filter_map(|column| schema.maybe_index_of_column(column)));
        }
        Self::Some(places)
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Some(mut these), Self::Some(those)) => {
                these.extend(those);
                Self::Some(these)
            }
            _ => Self::All,
        }
    }

    /// The part for `len` columns from `start` on, with indices relative to `start`.
    fn part(&self, start: usize, len: usize) -> Self {
        match self {
            Self::All => Self::All,
            Self::Some(places) => {
                let within = places.iter().filter_map(|place| place.checked_sub(start));
                Self::Some(within.filter(|place| *place < len).collect())
            }
        }
    }
}

/// Evaluates constants with the session's settings.
struct Folding {
    props: ExecutionProps,
    context: PhysicalPlanningContext,
    schema: DFSchema,
}

impl Folding {
    fn new(options: Arc<ConfigOptions>) -> Self {
        let mut props = ExecutionProps::new();
        props.config_options = Some(options);
        Self {
            props,
            context: PhysicalPlanningContext::default(),
            schema: DFSchema::empty(),
        }
    }

    /// Reads untyped constants where they are written, even if their values are not needed:
    /// `'a'::uuid`.
    fn literals(&self, plan: &LogicalPlan) -> Result<()> {
        plan.each_with_subqueries(|node| {
            node.each_expression(|expr| {
                expr.each(|inner| {
                    if is_typed_literal(inner) {
                        match self.value(inner) {
                            // Elements of an array have no common type before coercion.
                            Err(DataFusionError::ArrowError(error, _))
                                if matches!(*error, ArrowError::InvalidArgumentError(_)) => {}
                            other => drop(other?),
                        }
                        return Ok(TreeNodeRecursion::Jump);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(())
    }

    /// Evaluates the constants of a plan of which the columns `read` are read.
    fn check(&self, plan: &LogicalPlan, read: &Read) -> Result<()> {
        let width = plan.schema().fields().len();
        match plan {
            LogicalPlan::Projection(node) => {
                let exprs = read_ones(&node.expr, 0, read);
                self.below(exprs.collect(), &node.input, Read::none())
            }
            LogicalPlan::Aggregate(node) => {
                let start = width - node.aggr_expr.len();
                let functions = read_ones(&node.aggr_expr, start, read);
                let exprs = node.group_expr.iter().chain(functions);
                self.below(exprs.collect(), &node.input, Read::none())
            }
            LogicalPlan::Window(node) => {
                let start = width - node.window_expr.len();
                let functions = read_ones(&node.window_expr, start, read);
                self.below(functions.collect(), &node.input, read.part(0, start))
            }
            LogicalPlan::Filter(node) => {
                self.below(vec![&node.predicate], &node.input, read.part(0, width))
            }
            LogicalPlan::Sort(node) => {
                let keys = node.expr.iter().map(|key| &key.expr);
                self.below(keys.collect(), &node.input, read.part(0, width))
            }
            LogicalPlan::Join(node) => {
                use JoinType::{LeftAnti, LeftMark, LeftSemi, RightAnti, RightMark, RightSemi};
                let on = node.on.iter().flat_map(|(left, right)| [left, right]);
                let exprs: Vec<&Expr> = on.chain(&node.filter).collect();
                exprs.iter().try_for_each(|expr| self.settle(expr))?;
                let [left, right] = [&node.left, &node.right];
                let width = left.schema().fields().len();
                let (of_left, of_right) = match node.join_type {
                    LeftSemi | LeftAnti | LeftMark => (read.part(0, width), Read::none()),
                    RightSemi | RightAnti | RightMark => {
                        (Read::none(), read.part(0, right.schema().fields().len()))
                    }
                    _ => (read.part(0, width), read.part(width, usize::MAX)),
                };
                for (side, above) in [(left, of_left), (right, of_right)] {
                    self.check(side, &above.and(Read::by(&exprs, side.schema())))?;
                }
                Ok(())
            }
            LogicalPlan::SubqueryAlias(node) => self.check(&node.input, read),
            LogicalPlan::Limit(node) => {
                let mut counts = node.skip.iter().chain(&node.fetch);
                counts.try_for_each(|count| self.settle(count))?;
                self.check(&node.input, read)
            }
            other => {
                other.each_expression(|expr| {
                    self.settle(expr)?;
                    Ok(TreeNodeRecursion::Continue)
                })?;
                let mut inputs = other.inputs().into_iter();
                inputs.try_for_each(|input| self.check(input, &Read::All))
            }
        }
    }

    /// Evaluates the constants of a node's expressions and of its input, of which the columns
    /// `read` are read elsewhere.
    fn below(&self, exprs: Vec<&Expr>, input: &LogicalPlan, read: Read) -> Result<()> {
        exprs.iter().try_for_each(|expr| self.settle(expr))?;
        self.check(input, &read.and(Read::by(&exprs, input.schema())))
    }

    /// Evaluates an expression if it is constant, otherwise the constants in it.
    fn settle(&self, expr: &Expr) -> Result<()> {
        if self.is_constant(expr)? && !matches!(expr, Expr::Literal(..)) {
            self.value(expr)?;
        }
        Ok(())
    }

    /// Whether an expression is constant. If not, evaluates the constants in it.
    fn is_constant(&self, expr: &Expr) -> Result<bool> {
        match expr {
            Expr::Literal(..) => return Ok(true),
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::And | Operator::Or),
                right,
            }) => {
                let decisive = ScalarValue::Boolean(Some(*op == Operator::Or));
                let left_is = self.is_constant(left)?;
                if left_is && self.value(left)?.is_some_and(|value| value == decisive) {
                    return Ok(true);
                }
                let right_is = self.is_constant(right)?;
                if right_is && !left_is {
                    self.value(right)?;
                }
                return Ok(left_is && right_is);
            }
            Expr::Case(case) => return self.is_constant_case(case),
            Expr::ScalarFunction(call) if call.name() == "coalesce" => {
                // The deciding argument makes a constant, but evaluating the whole would evaluate
                // the rest.
                for argument in &call.args {
                    if self.is_constant(argument)?
                        && self.value(argument)?.is_none_or(|value| !value.is_null())
                    {
                        break;
                    }
                }
                return Ok(false);
            }
            _ => {}
        }
        if let Some(plan) = subquery(expr) {
            let read = match expr {
                Expr::Exists(_) if is_plain(plan) => Read::none(),
                _ => Read::All,
            };
            self.check(plan, &read)?;
        }
        let mut children = vec![];
        expr.apply_children(|child| {
            children.push(child);
            Ok(TreeNodeRecursion::Continue)
        })?;
        let constant = children.iter().map(|child| self.is_constant(child));
        let constant: Vec<bool> = constant.collect::<Result<_>>()?;
        if is_immutable(expr) && !constant.contains(&false) {
            return Ok(true);
        }
        for (child, _) in children
            .iter()
            .zip(constant)
            .filter(|(_, constant)| *constant)
        {
            if !matches!(child, Expr::Literal(..)) {
                self.value(child)?;
            }
        }
        Ok(false)
    }

    fn is_constant_case(&self, case: &Case) -> Result<bool> {
        let branches = &case.when_then_expr;
        if let Some(operand) = &case.expr {
            // The branches that a constant operand leaves are not determined here, so the CASE is
            // skipped.
            if self.is_constant(operand)? {
                return Ok(false);
            }
            for (when, then) in branches {
                self.settle(when)?;
                self.settle(then)?;
            }
            return case
                .else_expr
                .iter()
                .try_for_each(|other| self.settle(other))
                .map(|()| false);
        }
        let mut constant = true;
        let mut last = case.else_expr.as_deref();
        for (when, then) in branches {
            if !self.is_constant(when)? {
                constant = false;
                self.settle(then)?;
            } else if self.value(when)? == Some(ScalarValue::Boolean(Some(true))) {
                last = Some(then);
                break;
            }
        }
        match last {
            Some(last) if constant => self.is_constant(last),
            Some(last) => self.settle(last).map(|()| false),
            None => Ok(constant),
        }
    }

    /// The value of a constant; `None` if it cannot be evaluated ahead.
    fn value(&self, expr: &Expr) -> Result<Option<ScalarValue>> {
        if let Expr::Literal(value, _) = expr {
            return Ok(Some(value.clone()));
        }
        let Ok(computed) = create_physical_expr(expr, &self.schema, &self.props, &self.context)
        else {
            return Ok(None);
        };
        let one_row = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row)?;
        match computed.evaluate(&row) {
            Ok(ColumnarValue::Scalar(value)) => Ok(Some(value)),
            Ok(ColumnarValue::Array(values)) => first_value(&values).map(Some),
            Err(error) if is_of_data(&error) => Err(error),
            // For example a function that cannot run before it is simplified.
            Err(_) => Ok(None),
        }
    }
}

/// Whether an expression is a cast of an untyped constant.
fn is_typed_literal(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) if call.name() == CAST => {
            call.args.first().is_some_and(is_written)
        }
        _ => false,
    }
}

/// Whether an expression is an untyped constant, or an array of such (`'{1}'::int[]`). An array of
/// arrays of unequal lengths (`pg_of_arrays`) is none: PostgreSQL refuses it when it evaluates it.
fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) if call.name() == "make_array" => {
            call.args.iter().all(is_written)
        }
        Expr::Literal(value, None) if value.is_null() => true,
        other => is_unknown(other),
    }
}

/// Whether an error is about values: of SQLSTATE class 22, or refused by a function of ours
/// (`date_trunc('week', interval '1 day')`).
fn is_of_data(error: &DataFusionError) -> bool {
    let refused = PgError::of(error).is_some_and(|said| said.code() == "0A000");
    refused || translate(error, &|_| None).code().starts_with("22")
}

/// The expressions of a node's columns, from `start` on, that are read.
fn read_ones<'a>(exprs: &'a [Expr], start: usize, read: &Read) -> impl Iterator<Item = &'a Expr> {
    let places = exprs.iter().zip(start..);
    places.filter_map(|(expr, place)| read.has(place).then_some(expr))
}

/// The plan of a subquery.
fn subquery(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::InSubquery(of) => Some(&of.subquery.subquery),
        Expr::SetComparison(of) => Some(&of.subquery.subquery),
        Expr::Exists(of) => Some(&of.subquery.subquery),
        _ => None,
    }
}

/// Whether EXISTS only depends on the existence of rows, so that PostgreSQL drops the columns
/// (`simplify_EXISTS_query`).
fn is_plain(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(node) = plan else {
        return false;
    };
    let mut input = node.input.as_ref();
    while let LogicalPlan::Filter(node) = input {
        input = &node.input;
    }
    !matches!(input, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_))
}

/// Whether a function of constants depends on the session's time zone, which makes it stable in
/// PostgreSQL.
fn asks_for_zone(call: &ScalarFunction) -> bool {
    let of_moment = matches!(call.name(), "date_trunc" | "date_part" | "extract");
    let moment = call.args.get(1).filter(|_| of_moment);
    let held = moment.map(|moment| moment.get_type(&DFSchema::empty()));
    matches!(held, Some(Ok(DataType::Timestamp(_, Some(_)))))
}

/// Whether PostgreSQL evaluates an expression ahead if its arguments are constant.
fn is_immutable(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            call.func.signature().volatility == Volatility::Immutable && !asks_for_zone(call)
        }
        Expr::Alias(_)
        | Expr::BinaryExpr(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Like(_)
        | Expr::SimilarTo(_)
        | Expr::InList(_)
        | Expr::Cast(_)
        | Expr::TryCast(_) => true,
        _ => false,
    }
}
