//! Operators and subscripts of texts, arrays and JSON, selected by their operands' types.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::PgError;
use crate::casts::{CAST, Target};
use crate::dialect::elements;
use crate::functions::arrays::{ARRAY_EQ, SLICE, SUBSCRIPT, written_out};
use crate::functions::json::jsonb_key;
use crate::functions::scalar::{is_bytes, is_text, marked_type, type_name};
use crate::functions::{mark_of, marked_like};
use crate::operators::{chains, numeric_of};

/// Follows a path of texts into a jsonb value.
const JSONB_PART: &str = "jsonb_extract_path";

/// Plans these operators and leaves everything else to other planners.
#[derive(Debug)]
pub(crate) struct TextPlanner {
    functions: HashMap<String, Arc<ScalarUDF>>,
}

/// An operand and its field.
struct Operand {
    expr: Expr,
    field: Arc<Field>,
}

impl Operand {
    fn new(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        let field = match row_of_set(expr, schema) {
            Some(element) => element,
            None => expr.to_field(schema).ok()?.1,
        };
        Some(Self {
            expr: expr.clone(),
            field,
        })
    }

    fn marked(&self, pg_type: &str) -> bool {
        marked_type(&self.field) == Some(pg_type)
    }

    fn is_list(&self) -> bool {
        matches!(
            self.field.data_type(),
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
        )
    }

    fn is_text(&self) -> bool {
        is_text(self.field.data_type())
    }

    /// Whether this is a text whose type is determined by the other operand.
    fn is_literal(&self) -> bool {
        match &self.expr {
            Expr::Literal(value, _) => is_text(&value.data_type()) || value.is_null(),
            Expr::Placeholder(_) => true,
            _ => false,
        }
    }

    fn is_json(&self) -> bool {
        self.marked("json") || self.marked("jsonb")
    }

    /// Whether DataFusion may find an element or a field in it.
    fn may_have_parts(&self) -> bool {
        let held = self.field.data_type();
        held.is_nested() || held.is_null() || self.is_literal()
    }
}

/// The field of the elements of an unnested array, which names a type that Arrow lacks. In
/// DataFusion the rows of a set have a field of their own.
fn row_of_set(expr: &Expr, schema: &DFSchema) -> Option<Arc<Field>> {
    let Expr::Unnest(set) = expr else {
        return None;
    };
    match set.expr.to_field(schema).ok()?.1.data_type() {
        DataType::List(element) => Some(Arc::clone(element)),
        _ => None,
    }
}

impl TextPlanner {
    pub(crate) fn new(functions: impl IntoIterator<Item = Arc<ScalarUDF>>) -> Self {
        let named = functions
            .into_iter()
            .map(|udf| (udf.name().to_owned(), udf));
        Self {
            functions: named.collect(),
        }
    }

    fn call(&self, name: &str, arguments: Vec<Expr>) -> Option<Expr> {
        Some(self.functions.get(name)?.call(arguments))
    }

    fn cast(&self, expr: Expr, target: &str) -> Option<Expr> {
        self.call(CAST, vec![expr, lit(target)])
    }

    /// The function of an operator with its arguments; `None` if the operator is not one of ours.
    fn planned(
        &self,
        op: &BinaryOperator,
        left: &Operand,
        right: &Operand,
    ) -> Result<Option<Expr>> {
        let both = || vec![left.expr.clone(), right.expr.clone()];
        if left.marked("json") && is_of_jsonb_only(op) {
            return Err(no_operator(op, left, right));
        }
        if let Some(name) = json_operator(op, left, right) {
            let mut arguments = both();
            let takes_json = matches!(name, "jsonb_contains" | "jsonb_contained" | "jsonb_concat");
            if takes_json {
                for (argument, operand) in arguments.iter_mut().zip([left, right]) {
                    if !operand.marked("jsonb") {
                        let plain = std::mem::replace(argument, lit(""));
                        *argument = self.cast(plain, "jsonb").unwrap_or_else(|| lit(""));
                    }
                }
            }
            return Ok(self.call(name, arguments));
        }
        let is_jsonb = |operand: &Operand| operand.marked("jsonb") || operand.is_literal();
        if is_comparison(op)
            && (left.marked("jsonb") || right.marked("jsonb"))
            && is_jsonb(left)
            && is_jsonb(right)
        {
            let key = |operand: &Operand| {
                let value = operand.expr.clone();
                let value = match operand.marked("jsonb") {
                    true => Some(value),
                    false => self.cast(value, "jsonb"),
                };
                value.map(jsonb_key)
            };
            let (left, right) = (key(left), key(right));
            return Ok(left.and_then(|left| self.compared(op, left, right)));
        }
        if is_comparison(op) && (left.is_json() || right.is_json()) {
            return Err(no_operator(op, left, right));
        }
        if left.is_list() || right.is_list() {
            return self.of_arrays(op, left, right);
        }
        if *op == BinaryOperator::StringConcat {
            return self.concatenated(left, right);
        }
        if !is_comparison(op) {
            return Ok(None);
        }
        // An untyped text takes the other operand's type.
        if left.marked("uuid") && !right.marked("uuid") && right.is_literal() {
            let right = self.cast(right.expr.clone(), "uuid");
            return Ok(self.compared(op, left.expr.clone(), right));
        }
        if right.marked("uuid") && !left.marked("uuid") && left.is_literal() {
            let left = self.cast(left.expr.clone(), "uuid");
            return Ok(left.and_then(|left| self.compared(op, left, Some(right.expr.clone()))));
        }
        if is_bytes(left.field.data_type()) && right.is_literal() && right.is_text() {
            return Ok(self.compared(
                op,
                left.expr.clone(),
                self.cast(right.expr.clone(), "bytea"),
            ));
        }
        if is_bytes(right.field.data_type()) && left.is_literal() && left.is_text() {
            let left = self.cast(left.expr.clone(), "bytea");
            return Ok(left.and_then(|left| self.compared(op, left, Some(right.expr.clone()))));
        }
        Ok(None)
    }

    #[expect(clippy::unused_self, reason = "the same form as related methods")]
    fn compared(&self, op: &BinaryOperator, left: Expr, right: Option<Expr>) -> Option<Expr> {
        Some(datafusion::logical_expr::binary_expr(
            left,
            plain_operator(op)?,
            right?,
        ))
    }

    fn of_arrays(
        &self,
        op: &BinaryOperator,
        left: &Operand,
        right: &Operand,
    ) -> Result<Option<Expr>> {
        // A text beside an array is parsed as an array.
        let spelled = |operand: &Operand, other: &Operand| {
            if operand.is_literal() && other.is_list() && !operand.field.data_type().is_null() {
                let target = spelled_as(&operand.expr, &other.field)?;
                let array = written_out(&operand.expr).map(|(array, _)| array);
                let array = array.unwrap_or_else(|| operand.expr.clone());
                return self.cast(array, &target.to_string());
            }
            Some(operand.expr.clone())
        };
        let name = match op {
            BinaryOperator::Eq => ARRAY_EQ,
            BinaryOperator::NotEq => "array_ne",
            BinaryOperator::Lt => "array_lt",
            BinaryOperator::LtEq => "array_le",
            BinaryOperator::Gt => "array_gt",
            BinaryOperator::GtEq => "array_ge",
            BinaryOperator::AtArrow => "arraycontains",
            BinaryOperator::ArrowAt => "arraycontained",
            BinaryOperator::PGOverlap => "arrayoverlap",
            BinaryOperator::StringConcat => {
                return self.array_concatenated(
                    left,
                    right,
                    spelled(left, right),
                    spelled(right, left),
                );
            }
            _ => return Ok(None),
        };
        let is_jsonb = [left, right]
            .iter()
            .any(|operand| mark_of(&operand.field) == Some(Target::Array(Box::new(Target::Jsonb))));
        let (Some(mut left), Some(mut right)) = (spelled(left, right), spelled(right, left)) else {
            return Ok(None);
        };
        if is_jsonb {
            (left, right) = (jsonb_key(left), jsonb_key(right));
        }
        Ok(self.call(name, vec![left, right]))
    }

    fn array_concatenated(
        &self,
        left: &Operand,
        right: &Operand,
        spelled_left: Option<Expr>,
        spelled_right: Option<Expr>,
    ) -> Result<Option<Expr>> {
        let array = |operand: &Operand| operand.is_list() || operand.is_literal();
        if array(left) && array(right) {
            let (Some(left), Some(right)) = (spelled_left, spelled_right) else {
                return Ok(None);
            };
            return Ok(self.call("array_cat", vec![left, right]));
        }
        let both = vec![left.expr.clone(), right.expr.clone()];
        let name = if left.is_list() {
            "array_append"
        } else {
            "array_prepend"
        };
        Ok(self.call(name, both))
    }

    /// A part of a jsonb value: `j['a'][0]` is `j #> '{a,0}'`.
    fn part_of_jsonb(
        &self,
        json: &Operand,
        access: &GetFieldAccess,
        schema: &DFSchema,
    ) -> Result<Option<Expr>> {
        let step = match access {
            GetFieldAccess::NamedStructField { name } => Some(lit(name.clone())),
            GetFieldAccess::ListIndex { key } => self.step_in_jsonb(key, schema)?,
            GetFieldAccess::ListRange { .. } => {
                let message = "jsonb subscript does not support slices";
                return Err(PgError::new("42804", message).into());
            }
        };
        let mut arguments = match &json.expr {
            Expr::ScalarFunction(call) if call.name() == JSONB_PART => call.args.clone(),
            whole => vec![whole.clone()],
        };
        arguments.extend(step);
        Ok(self.call(JSONB_PART, arguments))
    }

    /// A subscript of a jsonb value, as a text.
    fn step_in_jsonb(&self, key: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
        let Some(operand) = Operand::new(key, schema) else {
            return Ok(Some(key.clone()));
        };
        let held = operand.field.data_type();
        if operand.is_literal() || held.is_null() {
            return Ok(Some(key.clone()));
        }
        if !operand.is_text() && !held.is_integer() {
            let name = type_name(&operand.field);
            let message = format!("subscript type {name} is not supported");
            return Err(PgError::new("42804", message).into());
        }
        Ok(self.cast(key.clone(), "text"))
    }

    fn concatenated(&self, left: &Operand, right: &Operand) -> Result<Option<Expr>> {
        let is_null = |operand: &Operand| operand.field.data_type().is_null();
        // Bytes are concatenated with bytes, NULL and literals; beside a typed text they become
        // text.
        let is_binary = |operand: &Operand| is_bytes(operand.field.data_type());
        let meets =
            |operand: &Operand| is_binary(operand) || is_null(operand) || operand.is_literal();
        if (is_binary(left) && meets(right)) || (is_binary(right) && meets(left)) {
            return Ok(self.call("byteacat", vec![left.expr.clone(), right.expr.clone()]));
        }
        if !left.is_text() && !right.is_text() && !is_null(left) && !is_null(right) {
            let names = [&left.field, &right.field].map(|field| type_name(field));
            let message = format!("operator does not exist: {} || {}", names[0], names[1]);
            return Err(PgError::new("42883", message).into());
        }
        let adapted = |operand: &Operand| {
            let plain = operand.is_text() && marked_type(&operand.field).is_none();
            if plain || is_null(operand) || matches!(operand.expr, Expr::Placeholder(_)) {
                return None;
            }
            self.cast(operand.expr.clone(), "text")
        };
        let (new_left, new_right) = (adapted(left), adapted(right));
        if new_left.is_none() && new_right.is_none() {
            return Ok(None);
        }
        let left = new_left.unwrap_or_else(|| left.expr.clone());
        let right = new_right.unwrap_or_else(|| right.expr.clone());
        Ok(Some(chains::texts(left, right)))
    }
}

/// The type of a text beside an array: the array's, or numerics of any digits if the text has more
/// than the array holds.
fn spelled_as(text: &Expr, array: &Field) -> Option<Target> {
    let target = Target::of_field(array)?.unmodified();
    let (Target::Array(element), Expr::Literal(value, _)) = (&target, text) else {
        return Some(target);
    };
    let Target::NumericOf(precision, scale) = element.as_ref() else {
        return Some(target);
    };
    let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    let texts = value.try_as_str().flatten().and_then(elements);
    let texts = texts.as_ref().map(|texts| texts.iter().flatten());
    let needed = texts.and_then(|texts| numeric_of(texts.map(String::as_str)));
    Some(match needed {
        Some(Target::NumericOf(own, digits))
            if digits <= *scale && whole(own, digits) <= whole(*precision, *scale) =>
        {
            target
        }
        _ => Target::Array(Box::new(Target::Numeric(None))),
    })
}

fn is_comparison(op: &BinaryOperator) -> bool {
    plain_operator(op).is_some()
}

fn plain_operator(op: &BinaryOperator) -> Option<datafusion::logical_expr::Operator> {
    use datafusion::logical_expr::Operator;
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

fn no_subscripts(operand: &Operand) -> DataFusionError {
    let name = type_name(&operand.field);
    let message = format!("cannot subscript type {name} because it does not support subscripting");
    PgError::new("42804", message).into()
}

fn no_operator(op: &BinaryOperator, left: &Operand, right: &Operand) -> DataFusionError {
    let name = |operand: &Operand| match operand.is_literal() {
        true => "unknown".to_owned(),
        false => type_name(&operand.field),
    };
    let (left, right) = (name(left), name(right));
    PgError::new(
        "42883",
        format!("operator does not exist: {left} {op} {right}"),
    )
    .into()
}

/// Whether `jsonb` has the operator but `json` does not.
fn is_of_jsonb_only(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Question
            | BinaryOperator::QuestionPipe
            | BinaryOperator::QuestionAnd
            | BinaryOperator::HashMinus
            | BinaryOperator::AtQuestion
            | BinaryOperator::AtAt
            | BinaryOperator::AtArrow
            | BinaryOperator::ArrowAt
            | BinaryOperator::Minus
    )
}

/// The function of an operator of `json` or `jsonb`.
fn json_operator(op: &BinaryOperator, left: &Operand, right: &Operand) -> Option<&'static str> {
    let jsonb = left.marked("jsonb") || right.marked("jsonb");
    let name = match op {
        BinaryOperator::Arrow => "json_get",
        BinaryOperator::LongArrow => "json_get_text",
        BinaryOperator::HashArrow => "json_get_path",
        BinaryOperator::HashLongArrow => "json_get_path_text",
        BinaryOperator::Question => "jsonb_exists",
        BinaryOperator::QuestionPipe => "jsonb_exists_any",
        BinaryOperator::QuestionAnd => "jsonb_exists_all",
        BinaryOperator::HashMinus => "jsonb_delete_path",
        BinaryOperator::AtQuestion => "jsonb_path_exists_opr",
        BinaryOperator::AtAt if left.marked("jsonb") || right.marked("jsonpath") => {
            "jsonb_path_match_opr"
        }
        BinaryOperator::AtArrow if jsonb => "jsonb_contains",
        BinaryOperator::ArrowAt if jsonb => "jsonb_contained",
        BinaryOperator::StringConcat
            if jsonb
                && (left.is_literal() || left.is_json())
                && (right.is_literal() || right.is_json()) =>
        {
            "jsonb_concat"
        }
        BinaryOperator::Minus if left.marked("jsonb") => "jsonb_delete",
        _ => return None,
    };
    Some(name)
}

impl ExprPlanner for TextPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let operands = (
            Operand::new(&expr.left, schema),
            Operand::new(&expr.right, schema),
        );
        let (Some(left), Some(right)) = operands else {
            return Ok(PlannerResult::Original(expr));
        };
        Ok(match self.planned(&expr.op, &left, &right)? {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let (name, root, mut arguments) = match &expr.expr {
            Expr::ScalarFunction(call) if [SUBSCRIPT, SLICE].contains(&call.name()) => {
                let (root, given) = call.args.split_at(1);
                let name = if call.name() == SLICE {
                    SLICE
                } else {
                    SUBSCRIPT
                };
                (Some(name), root[0].clone(), given.to_vec())
            }
            other => (None, other.clone(), vec![]),
        };
        let is_named = matches!(expr.field_access, GetFieldAccess::NamedStructField { .. });
        let whole = Operand::new(&expr.expr, schema);
        if let Some(json) = &whole
            && json.marked("jsonb")
            // Another subscript of an array of jsonb is one of the array.
            && (name.is_none() || is_named)
        {
            let part = self.part_of_jsonb(json, &expr.field_access, schema)?;
            return Ok(part.map_or(PlannerResult::Original(expr), PlannerResult::Planned));
        }
        let is_list = Operand::new(&root, schema).is_some_and(|operand| operand.is_list());
        if !is_list {
            return match whole.filter(|whole| !whole.may_have_parts()) {
                Some(whole) => Err(no_subscripts(&whole)),
                None => Ok(PlannerResult::Original(expr)),
            };
        }
        let one = || lit(1_i64);
        let planned = match &expr.field_access {
            GetFieldAccess::ListIndex { key } if name == Some(SLICE) => {
                arguments.extend([one(), key.as_ref().clone()]);
                SLICE
            }
            GetFieldAccess::ListIndex { key } => {
                arguments.push(key.as_ref().clone());
                SUBSCRIPT
            }
            GetFieldAccess::ListRange { start, stop, .. } => {
                if name == Some(SUBSCRIPT) {
                    arguments = arguments.into_iter().flat_map(|at| [one(), at]).collect();
                }
                arguments.extend([start.as_ref().clone(), stop.as_ref().clone()]);
                SLICE
            }
            GetFieldAccess::NamedStructField { .. } => return Ok(PlannerResult::Original(expr)),
        };
        arguments.insert(0, root);
        Ok(match self.call(planned, arguments) {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }

    fn plan_array_literal(
        &self,
        exprs: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let operands: Vec<_> = exprs
            .iter()
            .filter_map(|expr| Operand::new(expr, schema))
            .collect();
        let typed = operands.iter().find(|operand| !operand.is_literal());
        let mark = typed.and_then(|typed| mark_of(&typed.field));
        let target = match typed {
            Some(typed) if operands.len() == exprs.len() && !typed.is_list() => {
                let is_plain = !typed.is_text() || mark.is_some();
                Target::of_field(&typed.field).filter(|_| is_plain)
            }
            _ => None,
        };
        let target = match target {
            Some(target) => target.unmodified(),
            None => return Ok(PlannerResult::Original(exprs)),
        };
        let literals = operands
            .iter()
            .any(|operand| operand.is_literal() && operand.is_text());
        if !literals && mark.is_none() {
            return Ok(PlannerResult::Original(exprs));
        }
        let same = |operand: &Operand| Target::of_field(&operand.field) == mark;
        if let Some(Target::Json | Target::Jsonb) = mark
            && let Some(other) = operands
                .iter()
                .find(|operand| operand.is_json() && !same(operand))
        {
            let from = type_name(&other.field);
            let message = format!("ARRAY could not convert type {from} to {}", target.name());
            return Err(PgError::new("42846", message).into());
        }
        let is_marked = operands
            .iter()
            .all(|operand| operand.is_literal() || same(operand));
        let exprs = operands.into_iter().map(|operand| {
            let adapts = operand.is_literal() && operand.is_text();
            let cast = adapts.then(|| self.cast(operand.expr.clone(), &target.to_string()));
            cast.flatten().unwrap_or(operand.expr)
        });
        let exprs: Vec<Expr> = exprs.collect();
        if mark.is_none() || !is_marked {
            return Ok(PlannerResult::Original(exprs));
        }
        let element = target.field("item", DataType::Utf8, true);
        let field = Field::new("", DataType::List(Arc::new(element)), true);
        let array = make_array_udf().call(exprs);
        Ok(PlannerResult::Planned(marked_like(array, &field)))
    }
}
