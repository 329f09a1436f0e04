//! Values that Arrow compares differently from PostgreSQL: intervals, `jsonb`, padded texts, and
//! arrays and rows of these and of floats.
//!
//! Wherever they are compared, grouped, sorted or joined, this analyzer rule replaces them with a
//! key with PostgreSQL's order: the length of an interval, the text of `functions/json/key.rs`, or
//! the bytes of an array or a row (`list_key.rs`). It runs before DataFusion's type coercion, which
//! refuses windows over intervals. Values of `json` have neither an order nor an equality (42883);
//! operators of arrays and rows of them are refused where they run (`functions/arrays/`, `rows/`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions::string::rtrim;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, Case, GroupingSet, InList, InSubquery, ScalarFunction,
    SetComparison, Sort as SortExpr, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Join, JoinConstraint, LogicalPlan,
    Operator, Projection, Subquery, WindowFunctionDefinition, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::list_key::{is_nested, list_key};
use crate::PgError;
use crate::casts::PG_TYPE;
use crate::functions::arrays::{ALL, ANY, ARRAY_EQ, has_json};
use crate::functions::json::{jsonb_elements, jsonb_extreme, jsonb_key};
use crate::functions::scalar::marked_type;
use crate::functions::time::operators;
use crate::functions::{are_alike, has_floats, has_key, marked_like, named_row, needs_keys};
use crate::intervals::{Overloaded, greatest, least, percentile_of_times};
use crate::operators::sign_of;
use crate::parts::has_part;
use crate::trees::{PlanTree, Tree};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct SortKeys;

impl AnalyzerRule for SortKeys {
    fn name(&self) -> &'static str {
        "sort_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.change_up_with_subqueries(rewrite)?;
        Ok(analyzed.data)
    }
}

/// The key by which a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Interval,
    Jsonb,
    /// A `character` of any length, whose trailing blanks are ignored.
    Padded,
    /// An array or a row whose values are compared by keys.
    Nested,
    /// No key: the value is of this type, a `json`, an array of them or a row with one.
    None(&'static str),
}

const JSON: &str = "json";
const JSON_ARRAY: &str = "json[]";
const RECORD: &str = "record";
const NO_COMPARISON: &str = "could not identify a comparison function for type json";

impl Key {
    fn of_field(field: &Field) -> Option<Self> {
        // Values of the same declared length are padded to it.
        if field
            .metadata()
            .get(PG_TYPE)
            .is_some_and(|name| name == "bpchar")
        {
            return Some(Self::Padded);
        }
        match (field.data_type(), marked_type(field)) {
            (DataType::Interval(IntervalUnit::MonthDayNano), _) => Some(Self::Interval),
            (_, Some("jsonb")) => Some(Self::Jsonb),
            (_, Some("json")) => Some(Self::None(JSON)),
            (DataType::List(element), _) if marked_type(element) == Some("json") => {
                Some(Self::None(JSON_ARRAY))
            }
            (held, _) if held.is_nested() && has_json(field) => Some(Self::None(RECORD)),
            (held, _) if needs_keys(held) => Some(Self::Nested),
            _ => None,
        }
    }

    /// `None` for a value that is its own key, or has no type yet.
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        Self::of_field(&expr.to_field(schema).ok()?.1)
    }

    /// See [`Key::of`], for comparisons outside of keys, in which arrays of floats have bytes, too.
    fn of_compared(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        let field = expr.to_field(schema).ok()?.1;
        let is_nested = || has_floats(field.data_type()).then_some(Self::Nested);
        Self::of_field(&field).or_else(is_nested)
    }

    /// The key by which a value is compared with others; `None` also if these are arrays or rows
    /// of other types, whose keys have another form. NULL is compared with any.
    fn beside<'a>(
        expr: &Expr,
        mut others: impl Iterator<Item = &'a Expr>,
        schema: &DFSchema,
    ) -> Option<Self> {
        let key = Self::of_compared(expr, schema)?;
        if key != Self::Nested {
            return Some(key);
        }
        let held = expr.get_type(schema).ok()?;
        let is_comparable = |other: &Expr| {
            let other = other.get_type(schema);
            other.is_ok_and(|other| other.is_null() || are_alike(&held, &other))
        };
        others.all(is_comparable).then_some(key)
    }

    /// See [`Key::beside`], for the values of a subquery.
    fn beside_query(expr: &Expr, query: &Subquery, schema: &DFSchema) -> Option<Self> {
        let key = Self::of_compared(expr, schema)?;
        if key != Self::Nested {
            return Some(key);
        }
        let other = query.subquery.schema().field(0).data_type();
        are_alike(&expr.get_type(schema).ok()?, other).then_some(key)
    }

    fn call(self, expr: Expr) -> Expr {
        match self {
            Self::Interval => operators::key().call(vec![expr]),
            Self::Jsonb => jsonb_key(expr),
            Self::Padded => rtrim().call(vec![expr]),
            Self::Nested => list_key(expr),
            Self::None(_) => expr,
        }
    }

    /// # Errors
    /// For a `json`, an array of them or a row with one, which have no equality. (PostgreSQL
    /// refuses rows only where it compares two that are equal up to their `json`.)
    fn groups(self) -> Result<Self> {
        self.has("equality")
    }

    /// See [`Key::groups`].
    fn sorts(self) -> Result<Self> {
        self.has("ordering")
    }

    fn has(self, operator: &str) -> Result<Self> {
        let message = match self {
            Self::None(RECORD) => NO_COMPARISON.to_owned(),
            Self::None(held) => {
                format!("could not identify an {operator} operator for type {held}")
            }
            _ => return Ok(self),
        };
        Err(PgError::new("42883", message).into())
    }
}

fn keyed(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(match Key::of(&expr, schema) {
        Some(key) => key.groups()?.call(expr),
        None => expr,
    })
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let by_columns = matches!(plan, LogicalPlan::Sort(_) | LogicalPlan::Join(_));
    if !by_columns && !has_keys(&plan) && !has_part(&plan, compares) {
        return Ok(Transformed::no(plan));
    }
    let inputs = plan.inputs();
    let schema = if inputs.is_empty() {
        DFSchema::empty()
    } else {
        merge_schema(&inputs)
    };
    let sorts = matches!(plan, LogicalPlan::Sort(_));
    let joins = matches!(plan, LogicalPlan::Join(_));
    let names = NamePreserver::new(&plan);
    let mut turned = false;
    let plan = match plan {
        LogicalPlan::Sort(mut sort) => {
            for key in &mut sort.expr {
                has_order(&key.expr, &schema)?;
                if is_turned(key, &schema) {
                    key.expr = list_key(std::mem::take(&mut key.expr));
                    turned = true;
                }
            }
            LogicalPlan::Sort(sort)
        }
        LogicalPlan::Join(mut join) => {
            turned = join_nested(&mut join);
            LogicalPlan::Join(join)
        }
        other => other,
    };
    let mut mapped = plan.change_expressions(|expr| {
        let name = names.save(&expr);
        let mut changed = expr.change_up(|expr| compare(expr, &schema))?;
        // The keys of a sort, and the columns of a join.
        let is_key = sorts || (joins && !matches!(changed.data, Expr::BinaryExpr(_)));
        if is_key
            && let Some(key) = Key::of(&changed.data, &schema)
            && (sorts || key != Key::Nested)
        {
            let key = if sorts { key.sorts()? } else { key.groups()? };
            changed = Transformed::yes(key.call(changed.data));
            return Ok(changed);
        }
        Ok(changed.update_data(|expr| name.restore(expr)))
    })?;
    mapped.transformed |= turned;
    if !mapped.transformed && !has_keys(&mapped.data) {
        return Ok(mapped);
    }
    match mapped.data {
        LogicalPlan::Aggregate(aggregate) => group(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) if has_key_columns(input.schema()) => {
            let columns = input.schema().columns().into_iter().map(Expr::Column);
            group(Aggregate::try_new(input, columns.collect(), vec![])?)
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            on.on_expr = on
                .on_expr
                .into_iter()
                .map(|expr| keyed(expr, &schema))
                .collect::<Result<_>>()?;
            if let Some(sorts) = on.sort_expr.take() {
                let mut changed = false;
                on.sort_expr = Some(sorted(sorts, &schema, &mut changed)?);
            }
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
        }
        other if mapped.transformed => Ok(Transformed::yes(other.recompute_schema()?)),
        other => Ok(Transformed::no(other)),
    }
}

/// Joins by the keys of arrays and rows, if both sides have keys of one form. Returns whether any
/// was changed.
fn join_nested(join: &mut Join) -> bool {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let types = (
            left.get_type(join.left.schema()),
            right.get_type(join.right.schema()),
        );
        if let (Ok(one), Ok(other)) = types
            && needs_keys(&one)
            && are_alike(&one, &other)
        {
            *left = list_key(std::mem::take(left));
            *right = list_key(std::mem::take(right));
            changed = true;
        }
    }
    if changed {
        // USING requires plain columns.
        join.join_constraint = JoinConstraint::On;
    }
    changed
}

fn has_key_columns(schema: &DFSchema) -> bool {
    let mut fields = schema.fields().iter();
    fields.any(|field| Key::of_field(field).is_some())
}

fn has_keys(plan: &LogicalPlan) -> bool {
    plan.inputs()
        .iter()
        .any(|input| has_key_columns(input.schema()))
        || has_key_columns(plan.schema())
}

/// The key by which an expression compares its operands.
fn compared_by(expr: &Expr, schema: &DFSchema) -> Option<Key> {
    let of = |expr: &Expr| Key::of(expr, schema);
    let beside = |expr: &Expr, others: Vec<&Expr>| Key::beside(expr, others.into_iter(), schema);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            let key = beside(left, vec![right.as_ref()]);
            key.filter(|key| Key::of_compared(right, schema) == Some(*key))
        }
        Expr::Between(between) => {
            let bounds = vec![between.low.as_ref(), between.high.as_ref()];
            beside(&between.expr, bounds)
        }
        Expr::InList(list) => beside(&list.expr, list.list.iter().collect()),
        Expr::InSubquery(query) => Key::beside_query(&query.expr, &query.subquery, schema),
        Expr::SetComparison(query) => Key::beside_query(&query.expr, &query.subquery, schema),
        Expr::Case(case) => {
            let whens = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
            let operand = case.expr.as_deref()?;
            beside(operand, whens.collect())
        }
        // `rules/arrays.rs` compares arrays there.
        Expr::ScalarFunction(call) if ["greatest", "least"].contains(&call.name()) => {
            let key = call.args.iter().find_map(of);
            key.filter(|key| *key != Key::Nested)
        }
        Expr::ScalarFunction(call) if [ANY, ALL].contains(&call.name()) => call
            .args
            .get(1)
            .and_then(of)
            .filter(|key| matches!(key, Key::Jsonb | Key::None(JSON))),
        _ => None,
    }
}

/// Whether [`compare`] may change or refuse a part of an expression.
fn compares(part: &Expr) -> bool {
    match part {
        Expr::BinaryExpr(given) => is_comparison(given.op),
        Expr::Between(_)
        | Expr::InList(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::Case(_)
        | Expr::ScalarFunction(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_) => true,
        _ => false,
    }
}

/// A row that DataFusion makes without the types of its values, with them if these have keys.
fn marked_row(call: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let is_compared = |value: &Expr| {
        let field = value.to_field(schema);
        field.is_ok_and(|(_, field)| has_key(&field))
    };
    if call.name() != "struct" || !call.args.iter().any(is_compared) {
        return None;
    }
    let fields = call.args.iter().enumerate();
    let fields = fields.flat_map(|(at, value)| [lit(at.to_string()), value.clone()]);
    Some(named_row(fields.collect()))
}

/// `a = b` of two arrays as an equality of their bytes, by which a hash join can match rows. A
/// comparison with a constant joins nothing, and stays.
fn equal_arrays(call: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let [left, right] = call.args.as_slice() else {
        return None;
    };
    let varies = |array: &Expr| array.any_column_refs() || array.contains_outer();
    if call.name() != ARRAY_EQ || !varies(left) || !varies(right) {
        return None;
    }
    let (one, other) = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
    let have_bytes = is_nested(left, schema) && is_nested(right, schema);
    let is_refused = |array| matches!(Key::of(array, schema), Some(Key::None(_)));
    if !matches!(one, DataType::List(_))
        || !have_bytes
        || !are_alike(&one, &other)
        || is_refused(left)
        || is_refused(right)
    {
        return None;
    }
    Some(list_key(left.clone()).eq(list_key(right.clone())))
}

/// Replaces the operands of comparisons in an expression with keys.
fn compare(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::ScalarFunction(call) = &expr
        && OF_ELEMENTS.contains(&call.name())
    {
        return of_elements(expr, schema);
    }
    if let Expr::ScalarFunction(call) = &expr
        && let Some(row) = marked_row(call, schema)
    {
        return Ok(Transformed::yes(row));
    }
    if let Expr::ScalarFunction(call) = &expr
        && let Some(equal) = equal_arrays(call, schema)
    {
        return Ok(Transformed::yes(equal));
    }
    let key = compared_by(&expr, schema);
    let call = |expr: Box<Expr>| key.map_or(expr.clone(), |key| Box::new(key.call(*expr)));
    Ok(Transformed::yes(match (expr, key) {
        (Expr::AggregateFunction(function), _) => return aggregate(function, schema),
        (Expr::WindowFunction(function), _) => return window(*function, schema),
        (expr, Some(Key::None(held))) => return Err(not_compared(&expr, held).into()),
        (expr, None) => return Ok(Transformed::no(expr)),
        (Expr::BinaryExpr(BinaryExpr { left, op, right }), _) => {
            Expr::BinaryExpr(BinaryExpr::new(call(left), op, call(right)))
        }
        (Expr::Between(between), _) => Expr::Between(Between::new(
            call(between.expr),
            between.negated,
            call(between.low),
            call(between.high),
        )),
        (Expr::InList(list), Some(key)) => Expr::InList(InList::new(
            call(list.expr),
            list.list.into_iter().map(|value| key.call(value)).collect(),
            list.negated,
        )),
        (Expr::InSubquery(query), Some(key)) => Expr::InSubquery(InSubquery::new(
            call(query.expr),
            keys_of(query.subquery, key)?,
            query.negated,
        )),
        (Expr::SetComparison(query), Some(key)) => Expr::SetComparison(SetComparison {
            expr: call(query.expr),
            subquery: keys_of(query.subquery, key)?,
            ..query
        }),
        (Expr::Case(case), Some(key)) => Expr::Case(Case::new(
            case.expr.map(call),
            case.when_then_expr
                .into_iter()
                .map(|(when, then)| (Box::new(key.call(*when)), then))
                .collect(),
            case.else_expr,
        )),
        (Expr::ScalarFunction(ScalarFunction { func, mut args }), Some(key)) => {
            if [ANY, ALL].contains(&func.name()) {
                args[1..]
                    .iter_mut()
                    .for_each(|arg| *arg = key.call(arg.clone()));
                return Ok(Transformed::yes(func.call(args)));
            }
            let is_greatest = func.name() == "greatest";
            match key {
                Key::Jsonb => jsonb_extreme(is_greatest, args),
                Key::Interval if is_greatest => greatest().call(args),
                Key::Interval => least().call(args),
                Key::Padded | Key::Nested | Key::None(_) => func.call(args),
            }
        }
        (other, _) => return Ok(Transformed::no(other)),
    }))
}

/// The error for an expression that compares values of this type, which have no key.
fn not_compared(expr: &Expr, held: &str) -> PgError {
    let sign = match expr {
        Expr::ScalarFunction(call) if [ANY, ALL].contains(&call.name()) => {
            let sign = match call.args.first() {
                Some(Expr::Literal(sign, _)) => sign.try_as_str().flatten(),
                _ => None,
            };
            sign.unwrap_or("=").to_owned()
        }
        Expr::ScalarFunction(_) if held == JSON_ARRAY => {
            let message = format!("could not identify a comparison function for type {held}");
            return PgError::new("42883", message);
        }
        Expr::ScalarFunction(_) => return PgError::new("42883", NO_COMPARISON),
        _ if held != JSON => {
            let message = "could not identify an equality operator for type json";
            return PgError::new("42883", message);
        }
        Expr::BinaryExpr(binary) => sign_of(binary.op),
        Expr::Between(_) => ">=".to_owned(),
        _ => "=".to_owned(),
    };
    let message = format!("operator does not exist: json {sign} json");
    PgError::new("42883", message)
}

/// Functions that search an array for an element.
const OF_ELEMENTS: [&str; 4] = [
    "array_position",
    "array_positions",
    "array_remove",
    "array_replace",
];

/// Searches or changes an array of `jsonb` by the element's key.
fn of_elements(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let is_jsonb = match call.args.first() {
        Some(array) => match array.to_field(schema)?.1.data_type() {
            DataType::List(element) => Key::of_field(element) == Some(Key::Jsonb),
            _ => false,
        },
        None => false,
    };
    if !is_jsonb {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    if !call.name().starts_with("array_position") {
        let removes = call.name() == "array_remove";
        return Ok(Transformed::yes(jsonb_elements(removes, call.args)));
    }
    for argument in call.args.iter_mut().take(2) {
        *argument = Key::Jsonb.call(argument.clone());
    }
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

/// A subquery that returns the keys of its values.
fn keys_of(query: Subquery, key: Key) -> Result<Subquery> {
    let plan = Arc::unwrap_or_clone(query.subquery);
    let column = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let name = plan.schema().field(0).name().clone();
    let keys = Projection::try_new(vec![key.call(column).alias(name)], Arc::new(plan))?;
    Ok(Subquery {
        subquery: Arc::new(LogicalPlan::Projection(keys)),
        ..query
    })
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// # Errors
/// See [`Key::sorts`].
fn has_order(expr: &Expr, schema: &DFSchema) -> Result<()> {
    match Key::of(expr, schema) {
        Some(key) => key.sorts().map(|_| ()),
        None => Ok(()),
    }
}

/// Whether a sort of arrays or rows puts NULL at the opposite end from NULL elements and fields, or
/// is one of arrays of several dimensions.
fn is_turned(sort: &SortExpr, schema: &DFSchema) -> bool {
    let is_opposite = sort.asc == sort.nulls_first;
    sort.expr.get_type(schema).is_ok_and(|held| match held {
        DataType::List(element) => is_opposite || element.data_type().is_list(),
        DataType::Struct(_) => is_opposite,
        _ => false,
    })
}

/// Sort keys in PostgreSQL's order. An expression that already is a key is dropped: it does not
/// change the order, and in an aggregate DataFusion 55.2 fails on it ("column types must match
/// schema types").
fn sorted(
    mut order: Vec<SortExpr>,
    schema: &DFSchema,
    changed: &mut bool,
) -> Result<Vec<SortExpr>> {
    let given = order.len();
    let mut known = vec![];
    order.retain(|sort| {
        let is_first = !known.contains(&sort.expr);
        known.push(sort.expr.clone());
        is_first
    });
    *changed |= order.len() < given;
    let keys = order.into_iter().map(|sort| {
        has_order(&sort.expr, schema)?;
        if is_turned(&sort, schema) {
            *changed = true;
            return Ok(SortExpr {
                expr: list_key(sort.expr),
                ..sort
            });
        }
        let Some(key) = Key::of(&sort.expr, schema) else {
            return Ok(sort);
        };
        *changed = true;
        Ok(SortExpr {
            expr: key.sorts()?.call(sort.expr),
            ..sort
        })
    });
    keys.collect()
}

fn aggregate(mut function: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    if let Some(overloaded) = function.func.inner().downcast_ref::<Overloaded>() {
        let argument = argument(&function.params.args, schema);
        overloaded.cast(&mut function.params.args, argument.as_ref());
        function.func = overloaded.function(argument.as_ref());
        changed = true;
    }
    changed |= percentile_of_times(&function.func, &mut function.params, schema);
    let params = &mut function.params;
    let key = match params.args.as_slice() {
        [argument] => Key::of(argument, schema),
        _ => None,
    };
    if let Some(key) = key.filter(|_| params.distinct) {
        key.groups()?;
    }
    // `rules/aggregates.rs` and `rules/distinct.rs` sort the distinct elements of arrays.
    let is_nested = |value: &Expr| value.get_type(schema).is_ok_and(|held| held.is_nested());
    let is_listed = key.is_some() || params.args.first().is_some_and(is_nested);
    let is_sorted_there = is_listed && params.distinct;
    if !is_sorted_there {
        let order = std::mem::take(&mut params.order_by);
        params.order_by = sorted(order, schema, &mut changed)?;
    }
    match (function.func.name(), key) {
        ("grouping", _) => {
            let arguments = std::mem::take(&mut params.args).into_iter();
            let keys = arguments.map(|argument| keyed(argument, schema));
            params.args = keys.collect::<Result<_>>()?;
        }
        ("count", Some(key)) if params.distinct => {
            let arguments = std::mem::take(&mut params.args).into_iter();
            params.args = arguments.map(|argument| key.call(argument)).collect();
        }
        _ => {
            let expr = Expr::AggregateFunction(function);
            return Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue));
        }
    }
    Ok(Transformed::yes(Expr::AggregateFunction(function)))
}

/// A function's only argument.
fn argument(args: &[Expr], schema: &DFSchema) -> Option<FieldRef> {
    match args {
        [argument] => Some(argument.to_field(schema).ok()?.1),
        _ => None,
    }
}

fn window(mut function: WindowFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    if let WindowFunctionDefinition::AggregateUDF(known) = &function.fun
        && let Some(overloaded) = known.inner().downcast_ref::<Overloaded>()
    {
        let argument = argument(&function.params.args, schema);
        overloaded.cast(&mut function.params.args, argument.as_ref());
        let resolved = overloaded.function(argument.as_ref());
        function.fun = WindowFunctionDefinition::AggregateUDF(resolved);
        changed = true;
    }
    let params = &mut function.params;
    let order = std::mem::take(&mut params.order_by);
    params.order_by = sorted(order, schema, &mut changed)?;
    let partitions = std::mem::take(&mut params.partition_by);
    params.partition_by = partitions
        .into_iter()
        .map(|expr| {
            changed |= Key::of(&expr, schema).is_some();
            keyed(expr, schema)
        })
        .collect::<Result<_>>()?;
    let expr = Expr::WindowFunction(Box::new(function));
    Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
}

/// Groups by keys; a group shows its first value, as in PostgreSQL.
fn group(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(aggregate.input.schema());
    let sets = match aggregate.group_expr.as_slice() {
        [Expr::GroupingSet(sets)] => Some(sets.clone()),
        _ => None,
    };
    let exprs: Vec<Expr> = match &sets {
        Some(sets) => sets.distinct_expr().into_iter().cloned().collect(),
        None => aggregate.group_expr.clone(),
    };
    let fields = exprs.iter().map(|expr| Ok(expr.to_field(&schema)?.1));
    let fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
    let keys = fields
        .iter()
        .map(|field| Key::of_field(field).map(Key::groups));
    let keys: Vec<Option<Key>> = keys.map(Option::transpose).collect::<Result<_>>()?;
    if keys.iter().all(Option::is_none) {
        return Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)));
    }
    let mut groups = vec![];
    let mut aggregates = aggregate.aggr_expr.clone();
    for (at, (expr, key)) in exprs.into_iter().zip(&keys).enumerate() {
        let Some(key) = key else {
            groups.push(expr);
            continue;
        };
        let first = AggregateFunction::new_udf(
            first_value_udaf(),
            vec![kept(expr.clone(), &fields[at])],
            false,
            None,
            vec![],
            None,
        );
        aggregates.push(Expr::AggregateFunction(first).alias(shown(at)));
        groups.push(key.call(expr).alias(format!("sort_key_{at}")));
    }
    let is_of_sets = sets.is_some();
    if let Some(sets) = sets {
        groups = vec![Expr::GroupingSet(keyed_sets(sets, &schema)?)];
    }
    let grouped = Aggregate::try_new(aggregate.input, groups, aggregates)?;
    let columns = grouped.schema.columns();
    let projected = aggregate.schema.iter().zip(columns).enumerate();
    let projected = projected.map(|(at, ((qualifier, field), column))| {
        let is_same = column.relation.as_ref() == qualifier && column.name == *field.name();
        let mut value = Expr::Column(column);
        if keys.get(at).is_some_and(Option::is_some) {
            let first = first_of(at, &fields[at]);
            value = match is_of_sets {
                true => of_set(value, first, &fields[at]),
                false => first,
            };
        } else if is_same {
            return value;
        }
        value.alias_qualified(qualifier.cloned(), field.name())
    });
    let projected = projected.collect();
    let grouped = Arc::new(LogicalPlan::Aggregate(grouped));
    let projection = Projection::try_new(projected, grouped)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

fn keyed_sets(sets: GroupingSet, schema: &DFSchema) -> Result<GroupingSet> {
    let keyed = |exprs: Vec<Expr>| -> Result<Vec<Expr>> {
        let keys = exprs.into_iter().map(|expr| keyed(expr, schema));
        keys.collect()
    };
    Ok(match sets {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(keyed(exprs)?),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(keyed(exprs)?),
        GroupingSet::GroupingSets(sets) => {
            let sets = sets.into_iter().map(keyed);
            GroupingSet::GroupingSets(sets.collect::<Result<_>>()?)
        }
    })
}

/// The value of a group in a grouping set; NULL if the set does not group by it.
fn of_set(key: Expr, first: Expr, field: &Field) -> Expr {
    let has_key = Box::new(key.is_not_null());
    let value = Case::new(None, vec![(has_key, Box::new(first))], None);
    marked_like(Expr::Case(value), field)
}

/// A value as `first_value` keeps it: an array in a row. By itself it would lose the metadata that
/// names the type of its elements (`functions/marked.rs`, `first_value`).
fn kept(value: Expr, field: &Field) -> Expr {
    match field.data_type() {
        DataType::List(_) => named_row(vec![lit("value"), value]),
        _ => value,
    }
}

/// The value that a group expression shows, from the row of [`kept`].
fn first_of(at: usize, field: &Field) -> Expr {
    let column = Expr::Column(Column::new_unqualified(shown(at)));
    match field.data_type() {
        DataType::List(_) => get_field(column, "value"),
        _ => column,
    }
}

/// The name of the column that holds the shown value of group expression `at`.
fn shown(at: usize) -> String {
    format!("key_shown_{at}")
}
