//! How many decimal places does the text of a quotient, an average, a root or a power have?
//!
//! A column of computed numerics has one scale, so trailing zeros that PostgreSQL would show
//! cannot be told from padding: `avg(x)::text` of 1 and 1 is `1.00000000000000000000`. The scale
//! of a quotient depends on its two operands (`select_div_scale`), that of a root or a power on its
//! arguments, so where one of these becomes text or json, its text is written with that scale. An
//! average is a quotient in the projection below, which gets an additional column for the scale.
//!
//! Not here: quotients and roots of quotients, and averages of subqueries (`ROADMAP.md`).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, LogicalPlan, Projection, ScalarUDF, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::casts::{CAST, OPEN_SCALE, Target};
use crate::functions::json::{ELEMENT, PAIR};
use crate::functions::marked_like;
use crate::functions::scalar::Take::{Any, Int, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value, typed_field};
use crate::numbers::arithmetic::{self, OPEN, digits};
use crate::numbers::numeric::{Numeric, PLAIN_SCALE_MAX};
use crate::numbers::{SCALED, result_scale};
use crate::parts::has_part;
use crate::trees::{PlanTree, Tree};

/// Functions that convert their arguments to text.
const TEXTS: [&str; 3] = ["concat", "concat_ws", "format"];
/// Functions that convert their arguments to json.
const JSONS: [&str; 8] = [
    "to_json",
    "to_jsonb",
    "json_build_array",
    "jsonb_build_array",
    "json_build_object",
    "jsonb_build_object",
    ELEMENT,
    PAIR,
];

/// See the file's header. It runs after averages have become quotients.
#[derive(Debug)]
pub(super) struct ShownScales;

impl AnalyzerRule for ShownScales {
    fn name(&self) -> &'static str {
        "postgres_shown_scales"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_up_with_subqueries(of_node).data()
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // Only calls show numbers.
    if !has_part(&plan, |part| matches!(part, Expr::ScalarFunction(_))) {
        return Ok(Transformed::no(plan));
    }
    let inputs = plan.inputs();
    let schema = match inputs.is_empty() {
        true => DFSchema::empty(),
        false => merge_schema(&inputs),
    };
    let mut below = match &plan {
        LogicalPlan::Projection(node) => Below::of(&node.input),
        _ => None,
    };
    let names = NamePreserver::new(&plan);
    let mut changed = plan.change_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.change_up(|part| Ok(shown(part, &schema, below.as_mut())))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })?;
    if let Some(below) = below.filter(|below| !below.scales.is_empty())
        && let LogicalPlan::Projection(node) = &mut changed.data
    {
        node.input = Arc::new(below.with_scales()?);
    }
    Ok(changed)
}

/// The projection below a projection, and the scales to add to it.
struct Below {
    node: Projection,
    /// The condition of HAVING, which stands between the two.
    having: Option<Expr>,
    scales: Vec<Expr>,
}

impl Below {
    fn of(input: &LogicalPlan) -> Option<Self> {
        let (input, having) = match input {
            LogicalPlan::Filter(filter) => (filter.input.as_ref(), Some(filter.predicate.clone())),
            other => (other, None),
        };
        let LogicalPlan::Projection(node) = input else {
            return None;
        };
        Some(Self {
            node: node.clone(),
            having,
            scales: vec![],
        })
    }

    /// The column that holds the scale of a column that is a quotient.
    fn scale(&mut self, column: &Column) -> Option<Expr> {
        let place = self.node.schema.maybe_index_of_column(column)?;
        let scale = quotient_scale(self.node.expr.get(place)?, self.node.input.schema())?;
        let name = format!("__scale_{place}");
        let scale = scale.alias(&name);
        if !self.scales.contains(&scale) {
            self.scales.push(scale);
        }
        Some(Expr::Column(Column::new_unqualified(name)))
    }

    fn with_scales(mut self) -> Result<LogicalPlan> {
        self.node.expr.extend(self.scales);
        let node = Projection::try_new(self.node.expr, self.node.input)?;
        let node = LogicalPlan::Projection(node);
        Ok(match self.having {
            Some(having) => LogicalPlan::Filter(Filter::try_new(having, Arc::new(node))?),
            None => node,
        })
    }
}

/// Writes the quotients in an expression with their scales.
fn shown(expr: Expr, schema: &DFSchema, mut below: Option<&mut Below>) -> Transformed<Expr> {
    let Expr::ScalarFunction(mut call) = expr else {
        return Transformed::no(expr);
    };
    let mut scale_of = |value: &Expr| {
        if value.get_type(schema).ok()? != OPEN {
            return None;
        }
        match (value, below.as_deref_mut()) {
            (Expr::Column(column), Some(below)) => below.scale(column),
            (computed, _) => {
                quotient_scale(computed, schema).or_else(|| function_scale(computed, schema))
            }
        }
    };
    if let ("scale", [value]) = (call.name(), call.args.as_slice())
        && let Some(scale) = scale_of(value)
    {
        return Transformed::yes(scale);
    }
    let Some(as_json) = shows(&call) else {
        return Transformed::no(Expr::ScalarFunction(call));
    };
    let mut changed = false;
    for value in &mut call.args {
        let Some(scale) = scale_of(value) else {
            continue;
        };
        let text = SHOWN.call(vec![std::mem::take(value), scale]);
        *value = match as_json {
            true => marked_like(text, &typed_field("", DataType::Utf8, "json")),
            false => text,
        };
        changed = true;
    }
    Transformed::new_transformed(Expr::ScalarFunction(call), changed)
}

/// Whether a call converts its arguments to text, and whether to json.
fn shows(call: &ScalarFunction) -> Option<bool> {
    let name = call.name();
    if name == CAST {
        let Some(Expr::Literal(target, _)) = call.args.get(1) else {
            return None;
        };
        let target: Target = target.try_as_str().flatten()?.parse().ok()?;
        return target.is_text().then_some(false);
    }
    if TEXTS.contains(&name) {
        return Some(false);
    }
    JSONS.contains(&name).then_some(true)
}

/// The scale of a quotient of numbers with known scales.
fn quotient_scale(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let call = match expr {
        Expr::Alias(alias) => return quotient_scale(&alias.expr, schema),
        Expr::ScalarFunction(call) => call,
        _ => return None,
    };
    let is_quotient = call.args.len() == 2 && arithmetic::symbol(call.name()) == Some("/");
    let has_scale = is_quotient && have_scales(&call.args, schema);
    has_scale.then(|| QUOTIENT_SCALE.call(call.args.clone()))
}

/// The scale of a root, a power or a logarithm of numbers with known scales.
fn function_scale(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let call = match expr {
        Expr::Alias(alias) => return function_scale(&alias.expr, schema),
        Expr::ScalarFunction(call) if SCALED.contains(&call.name()) => call,
        _ => return None,
    };
    let args = std::iter::once(lit(call.name())).chain(call.args.iter().cloned());
    have_scales(&call.args, schema).then(|| FUNCTION_SCALE.call(args.collect()))
}

/// Whether the types of operands say which scale PostgreSQL's numerics have.
fn have_scales(operands: &[Expr], schema: &DFSchema) -> bool {
    let has_scale = |operand: &Expr| {
        let held = operand.get_type(schema).ok()?;
        match digits(&held) {
            Some((_, scale)) => u32::try_from(scale).ok(),
            None => held.is_integer().then_some(0),
        }
    };
    let mut scales = operands.iter().map(has_scale);
    scales.all(|scale| scale.is_some_and(|scale| scale <= PLAIN_SCALE_MAX))
}

static SHOWN: LazyLock<ScalarUDF> = LazyLock::new(|| {
    let form = Form::text(&[Any, Int], |row| {
        let scale = row.int(1).min(i64::from(OPEN_SCALE));
        let value = number(row, 0).map(|value| value.rounded(scale).to_string());
        Ok(Cow::Owned(value.unwrap_or_default()))
    });
    Function::new("pg_shown", vec![form]).udf()
});

static QUOTIENT_SCALE: LazyLock<ScalarUDF> = LazyLock::new(|| {
    let form = Form::new(&[Any, Any], Give::Int4, |row| {
        let (dividend, divisor) = (number(row, 0), number(row, 1));
        let scale = dividend.zip(divisor).map(|(a, b)| a.quotient_scale(&b));
        Ok(scale.map_or(Value::Null, Value::Int))
    });
    Function::new("pg_quotient_scale", vec![form]).udf()
});

static FUNCTION_SCALE: LazyLock<ScalarUDF> = LazyLock::new(|| {
    let form = Form::new(&[Text, Any, Any], Give::Int4, |row| {
        let args: Option<Vec<Numeric>> = (1..row.len()).map(|at| number(row, at)).collect();
        let scale = match args {
            Some(args) => result_scale(row.text(0), &args)?,
            None => None,
        };
        Ok(scale.map_or(Value::Null, |scale| Value::Int(scale.into())))
    });
    Function::new("pg_function_scale", vec![form.optional(1)]).udf()
});

/// An argument that is an integer or a decimal.
fn number(row: &Row<'_>, argument: usize) -> Option<Numeric> {
    let (array, at) = row.array(argument);
    let scale = digits(array.data_type()).map_or(0, |(_, scale)| scale);
    let scale = u32::try_from(scale).ok()?;
    Some(match array.data_type() {
        DataType::Int8 => Numeric::new(array.as_primitive::<Int8Type>().value(at), 0),
        DataType::Int16 => Numeric::new(array.as_primitive::<Int16Type>().value(at), 0),
        DataType::Int32 => Numeric::new(array.as_primitive::<Int32Type>().value(at), 0),
        DataType::Int64 => Numeric::new(array.as_primitive::<Int64Type>().value(at), 0),
        DataType::UInt8 => Numeric::new(array.as_primitive::<UInt8Type>().value(at), 0),
        DataType::UInt16 => Numeric::new(array.as_primitive::<UInt16Type>().value(at), 0),
        DataType::UInt32 => Numeric::new(array.as_primitive::<UInt32Type>().value(at), 0),
        DataType::UInt64 => Numeric::new(array.as_primitive::<UInt64Type>().value(at), 0),
        DataType::Decimal128(..) => {
            Numeric::new(array.as_primitive::<Decimal128Type>().value(at), scale)
        }
        DataType::Decimal256(..) => {
            Numeric::of_i256(array.as_primitive::<Decimal256Type>().value(at), scale)
        }
        _ => return None,
    })
}
