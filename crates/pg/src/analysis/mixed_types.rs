//! IN, ANY and BETWEEN over mixed types that DataFusion coerces differently from PostgreSQL.
//!
//! | operands | DataFusion | here |
//! |---|---|---|
//! | dates, timestamps | timestamps of nanoseconds, which end in 2262 | timestamps, timestamptz |
//! | floats, numerics | numerics with 15 decimal places | floats |
//! | numerics of more than 38 digits together | an error | numerics of 76 digits |
//! | `character(n)`, other texts | texts with their blanks | `operators/padded.rs` |
//! | texts, others | texts | an error |
//! | arrays of other elements | in a common type | an error |
//! | `x = ANY ('{…}')` | texts, read by Arrow | values of the type of `x`, without its modifier |
//! | `'…' = ANY (array)` | texts | a value of the type of the elements |
//! | rows of other types | columns by their names, cast | `functions/rows/unlike.rs` |
//!
//! The rule runs before DataFusion's coercion. Not here: UNION (`relations/`), lists of numbers
//! (`rules/lists.rs`), untyped constants beside IN and BETWEEN (`rules/open_left.rs`), and
//! comparison operators, which already have PostgreSQL's types.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::casts::{Target, cast_expr};
use crate::dialect::{AS_ARRAY, elements};
use crate::functions::arrays::{ALL, ANY, EQUALITY, are_unlike, check_rows, sign_of_arrays};
use crate::functions::rows_compared;
use crate::functions::scalar::marked_type;
use crate::operators::padded::{self, Trimmed};
use crate::operators::{
    ComparedIn, check_comparable, check_fields, is_of_catalogue, is_unknown, numeric_of, sign_of,
    typed,
};
use crate::parts::has_part;
use crate::trees::{PlanTree, Tree};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct MixedTypes;

impl AnalyzerRule for MixedTypes {
    fn name(&self) -> &'static str {
        "mixed_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_up_with_subqueries(|mut node| {
            let joined = match &mut node {
                LogicalPlan::Join(join) => padded::join(join),
                _ => false,
            };
            if !joined && !has_part(&node, concerns) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            let mut mapped = node.change_expressions(|expr| {
                let name = names.save(&expr);
                let united = expr.change_up(|part| united(part, &schema, config))?;
                Ok(united.update_data(|expr| name.restore(expr)))
            })?;
            mapped.transformed |= joined;
            Ok(mapped)
        })
        .data()
    }
}

/// Whether [`united`] may change or refuse a part of an expression.
fn concerns(part: &Expr) -> bool {
    match part {
        Expr::InList(_)
        | Expr::Between(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::Case(_) => true,
        Expr::BinaryExpr(given) => is_comparison(given.op),
        Expr::ScalarFunction(call) => {
            [ANY, ALL].contains(&call.name()) || sign_of_arrays(call.name()).is_some()
        }
        _ => false,
    }
}

fn united(expr: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InList(list) if has_unlike_rows(&list, schema) => Ok(Transformed::yes(in_rows(list))),
        Expr::InList(mut list) => {
            let sign = if list.negated { "<>" } else { "=" };
            for value in &list.list {
                check_comparable(sign, &list.expr, value, schema)?;
            }
            let mut all = vec![list.expr.get_type(schema)?];
            for value in &list.list {
                all.push(value.get_type(schema)?);
            }
            if let Some(texts) = padded::in_list(&list, schema) {
                return Ok(Transformed::yes(texts));
            }
            let Some(common) = ComparedIn::of(&all) else {
                return Ok(Transformed::no(Expr::InList(list)));
            };
            *list.expr = common.cast(std::mem::take(&mut list.expr), &all[0]);
            for (value, held) in list.list.iter_mut().zip(&all[1..]) {
                *value = common.cast(std::mem::take(value), held);
            }
            Ok(Transformed::yes(Expr::InList(list)))
        }
        Expr::Between(mut between) => {
            let [above, below] = if between.negated {
                ["<", ">"]
            } else {
                [">=", "<="]
            };
            check_comparable(above, &between.expr, &between.low, schema)?;
            check_comparable(below, &between.expr, &between.high, schema)?;
            if let Some(texts) = padded::between(&between, schema) {
                return Ok(Transformed::yes(texts));
            }
            let parts = [&between.expr, &between.low, &between.high];
            let all = parts.map(|part| part.get_type(schema));
            let [value, low, high] = all;
            let all = [value?, low?, high?];
            let Some(common) = ComparedIn::of(&all) else {
                return Ok(Transformed::no(Expr::Between(between)));
            };
            *between.expr = common.cast(std::mem::take(&mut between.expr), &all[0]);
            *between.low = common.cast(std::mem::take(&mut between.low), &all[1]);
            *between.high = common.cast(std::mem::take(&mut between.high), &all[2]);
            Ok(Transformed::yes(Expr::Between(between)))
        }
        Expr::InSubquery(mut given) => {
            let (value, subquery) = (&mut given.expr, &mut given.subquery);
            let changed = with_subquery("=", value, subquery, schema, config)?;
            Ok(Transformed::new_transformed(
                Expr::InSubquery(given),
                changed,
            ))
        }
        Expr::SetComparison(mut given) => {
            let sign = given.op.to_string();
            let (value, subquery) = (&mut given.expr, &mut given.subquery);
            let changed = with_subquery(&sign, value, subquery, schema, config)?;
            Ok(Transformed::new_transformed(
                Expr::SetComparison(given),
                changed,
            ))
        }
        Expr::BinaryExpr(given) if is_comparison(given.op) => {
            check_comparable(&sign_of(given.op), &given.left, &given.right, schema)?;
            let compared = match are_unlike_rows(&given.left, &given.right, schema) {
                true => rows_compared(given.op, *given.left.clone(), *given.right.clone()),
                false => padded::compared(&given.left, given.op, &given.right, schema),
            };
            match compared {
                Some(compared) => Ok(Transformed::yes(compared)),
                None => Ok(Transformed::no(Expr::BinaryExpr(given))),
            }
        }
        Expr::ScalarFunction(mut call) if [ANY, ALL].contains(&call.name()) => {
            let changed = with_array(&mut call.args, schema, config)?;
            let call = Expr::ScalarFunction(call);
            Ok(Transformed::new_transformed(call, changed))
        }
        Expr::ScalarFunction(call) => {
            if let ([left, right], Some(sign)) = (&*call.args, sign_of_arrays(call.name())) {
                check_comparable(sign, left, right, schema)?;
            }
            Ok(Transformed::no(Expr::ScalarFunction(call)))
        }
        Expr::Case(given) => {
            if let Some(value) = &given.expr {
                for (other, _) in &given.when_then_expr {
                    check_comparable("=", value, other, schema)?;
                    if let (Ok((_, value)), Ok((_, other))) =
                        (value.to_field(schema), other.to_field(schema))
                    {
                        check_rows(&value, &other, EQUALITY)?;
                    }
                }
            }
            Ok(Transformed::no(Expr::Case(given)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
    )
}

/// Whether DataFusion would compare two rows differently.
fn are_unlike_rows(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    match (left.to_field(schema), right.to_field(schema)) {
        (Ok((_, left)), Ok((_, right))) => are_unlike(&left, &right),
        _ => false,
    }
}

fn has_unlike_rows(list: &InList, schema: &DFSchema) -> bool {
    let mut rows = list.list.iter();
    rows.any(|row| are_unlike_rows(&list.expr, row, schema))
}

/// Replaces a list of such rows with comparisons.
fn in_rows(list: InList) -> Expr {
    let value = list.expr.as_ref();
    let equal = list.list.into_iter();
    let equal = equal.filter_map(|row| rows_compared(Operator::Eq, value.clone(), row));
    let any = equal.reduce(Expr::or).unwrap_or_else(|| lit(false));
    if list.negated { !any } else { any }
}

/// Casts a value and the elements of an array to the type in which they are compared.
fn with_array(args: &mut Vec<Expr>, schema: &DFSchema, config: &ConfigOptions) -> Result<bool> {
    let read = read_elements(args, schema, config)? || read_value(args, schema, config)?;
    let united = unite_texts(args, schema, config)?;
    Ok(read || united)
}

/// Casts texts of which one side is `character(n)`, and checks that the others can be compared.
fn unite_texts(args: &mut Vec<Expr>, schema: &DFSchema, config: &ConfigOptions) -> Result<bool> {
    let [Expr::Literal(sign, _), value, array] = args.as_slice() else {
        return Ok(false);
    };
    let DataType::List(element) = array.get_type(schema)? else {
        return Ok(false);
    };
    if is_unknown(value) {
        return Ok(false);
    }
    let element = varying(array, schema).unwrap_or(element);
    let given = value.to_field(schema)?.1;
    let symbol = sign.try_as_str().flatten().unwrap_or("=");
    check_fields(symbol, &given, &element)?;
    // LIKE and regular expressions do not ignore the trailing blanks.
    if !compares(sign) {
        return Ok(false);
    }
    let Some((value, array)) = padded::with_elements((value, &given), (array, &element), config)
    else {
        return Ok(false);
    };
    args.truncate(1);
    args.extend([value, array]);
    Ok(true)
}

/// Whether the operator of ANY or ALL compares values of one type. (LIKE and regular expressions
/// take texts.)
fn compares(sign: &ScalarValue) -> bool {
    let sign = sign.try_as_str().flatten().unwrap_or("=");
    sign.chars().all(|part| "<>!=".contains(part))
}

/// Casts an array that is written as a text (`x = ANY ('{…}')`) to an array of the type of the
/// value beside it.
fn read_elements(args: &mut [Expr], schema: &DFSchema, config: &ConfigOptions) -> Result<bool> {
    let [Expr::Literal(sign, _), value, array] = args else {
        return Ok(false);
    };
    let Expr::ScalarFunction(call) = &*array else {
        return Ok(false);
    };
    let text = call.args.first().filter(|text| is_unknown(text));
    let (AS_ARRAY, Some(text), false) = (call.name(), text, is_unknown(value)) else {
        return Ok(false);
    };
    let given = value.to_field(schema)?.1;
    if !compares(sign) || is_of_catalogue(&given) {
        return Ok(false);
    }
    let Some(target) = element_type(&given, text) else {
        return Ok(false);
    };
    *array = cast_expr(text.clone(), &Target::Array(Box::new(target)), config);
    Ok(true)
}

/// The type of the elements written in a text, beside a value with this field; `None` if they are
/// texts.
fn element_type(value: &Field, text: &Expr) -> Option<Target> {
    match Target::of_field(value)?.unmodified() {
        // The operators of varchar and name are those of text; json has none.
        Target::Text | Target::Varchar(_) | Target::Name | Target::Json | Target::JsonPath => None,
        // There are no arrays of arrays.
        Target::Array(_) => None,
        // With the digits of the numbers, so that the array folds to a list that prunes files.
        Target::Numeric(_) | Target::NumericOf(..) => {
            let written = match text {
                Expr::Literal(text, _) => text.try_as_str().flatten().and_then(elements),
                _ => None,
            };
            let texts = written.iter().flatten().flatten().map(String::as_str);
            let known = written.as_ref().and_then(|_| numeric_of(texts));
            Some(known.unwrap_or(Target::Numeric(None)))
        }
        other => Some(other),
    }
}

/// Gives an untyped constant the type of the elements with which it is compared.
fn read_value(args: &mut [Expr], schema: &DFSchema, config: &ConfigOptions) -> Result<bool> {
    let [Expr::Literal(sign, _), value, array] = args else {
        return Ok(false);
    };
    if !is_unknown(value) || !compares(sign) {
        return Ok(false);
    }
    let (mut held, mut element) = (array.get_type(schema)?, None);
    while let DataType::List(inner)
    | DataType::LargeList(inner)
    | DataType::FixedSizeList(inner, _) = &held
    {
        let inner = Arc::clone(inner);
        held = inner.data_type().clone();
        element = Some(inner);
    }
    let Some(element) = element.filter(|element| !is_of_catalogue(element)) else {
        return Ok(false);
    };
    let is_read = match Target::of_field(&element) {
        Some(Target::Bpchar(_)) => true,
        Some(target) => !target.is_text(),
        None => false,
    };
    if is_read {
        *value = typed(std::mem::take(value), &element, config);
    }
    Ok(is_read)
}

/// The element field of `ARRAY[…]` if the elements are `varchar`; the array's type does not keep
/// this.
fn varying(array: &Expr, schema: &DFSchema) -> Option<FieldRef> {
    let Expr::ScalarFunction(call) = array else {
        return None;
    };
    let values = call.args.iter().filter(|value| !is_unknown(value));
    let fields = values.map(|value| Some(value.to_field(schema).ok()?.1));
    let fields: Vec<FieldRef> = fields.collect::<Option<_>>()?;
    let is_varying = |field: &FieldRef| marked_type(field) == Some("varchar");
    let all = call.name() == "make_array" && fields.iter().all(is_varying);
    fields.into_iter().next().filter(|_| all)
}

/// Casts a value and the column of the subquery that it is compared with to their common type.
fn with_subquery(
    sign: &str,
    value: &mut Expr,
    subquery: &mut Subquery,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<bool> {
    let plan = &subquery.subquery;
    let Some((qualifier, field)) = plan.schema().iter().next() else {
        return Ok(false);
    };
    if is_unknown(value) {
        *value = typed(std::mem::take(value), field, config);
        return Ok(true);
    }
    let given = value.to_field(schema)?.1;
    check_fields(sign, &given, field)?;
    check_rows(&given, field, EQUALITY)?;
    let column = Expr::Column(Column::from((qualifier, field)));
    let cast = if let Some(which) = Trimmed::of((value, &given), (&column, field)) {
        let (left, right) = which.sides(std::mem::take(value), column);
        *value = left;
        right
    } else {
        let all = [given.data_type().clone(), field.data_type().clone()];
        let Some(common) = ComparedIn::of(&all).or_else(|| ComparedIn::widest(&all)) else {
            return Ok(false);
        };
        *value = common.cast(std::mem::take(value), &all[0]);
        common.cast(column, &all[1])
    };
    let cast = cast.alias(field.name());
    let plan = LogicalPlanBuilder::new_from_arc(Arc::clone(plan)).project([cast])?;
    subquery.subquery = Arc::new(plan.build()?);
    Ok(true)
}
