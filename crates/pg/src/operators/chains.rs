//! Long chains of an operator as one call: `a + b - c + …` of integers, `a || b || …` of texts.
//!
//! DataFusion asks for the type of a chain at each of its operators, several times, and makes the
//! names of all of its parts for that. So planning took the third power of its length: 0.5 s for a
//! sum of a hundred columns, 25 s for one of four hundred. A call with all terms has no parts.
//! Chains of fewer than [`LONG`] operators stay nested, as other rules know them.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, binary_expr, lit,
};
use datafusion::scalar::ScalarValue;

use crate::numbers::integers::{self, CheckedInteger, checked};

/// `pg_int_chain('+-', a, b, c)`: the terms, which have one type, from the left; see
/// [`CheckedInteger`].
pub(crate) const INTEGERS: &str = "pg_int_chain";
/// `pg_text_chain(a, b, c)`: NULL if a term is NULL.
const TEXTS: &str = "pg_text_chain";

/// How many operators a chain must have to become a call.
const LONG: usize = 8;

/// `left op right` of integers of one type.
pub(crate) fn integers(mut left: Expr, op: Operator, right: Expr) -> Expr {
    let (Some(sign), false) = (sign(op), is_open(&right)) else {
        return checked(left, op, right);
    };
    if let Expr::ScalarFunction(call) = &mut left
        && call.name() == INTEGERS
        && let Some(Expr::Literal(ScalarValue::Utf8(Some(signs)), _)) = call.args.first_mut()
    {
        signs.push(sign);
        call.args.push(right);
        return left;
    }
    let mut terms = vec![];
    let mut signs = vec![];
    let mut first = &left;
    while let Expr::ScalarFunction(call) = first
        && let Some(inner) = call.func.inner().downcast_ref::<CheckedInteger>()
        && let Some(inner) = self::sign(inner.op())
        && let [before, term] = call.args.as_slice()
    {
        signs.push(inner);
        terms.push(term);
        first = before;
    }
    terms.push(first);
    if signs.len() < LONG || terms.iter().any(|term| is_open(term)) {
        return checked(left, op, right);
    }
    let signs: String = signs.into_iter().rev().chain([sign]).collect();
    let terms = terms.into_iter().rev().cloned().chain([right]);
    let args = [lit(signs)].into_iter().chain(terms).collect();
    ScalarUDF::new_from_impl(IntegerChain::default()).call(args)
}

/// `left || right` of texts.
pub(crate) fn texts(mut left: Expr, right: Expr) -> Expr {
    if is_open(&right) {
        return binary_expr(left, Operator::StringConcat, right);
    }
    if let Expr::ScalarFunction(call) = &mut left
        && call.name() == TEXTS
    {
        call.args.push(right);
        return left;
    }
    let mut terms = vec![];
    let mut first = &left;
    while let Expr::BinaryExpr(BinaryExpr {
        left: before,
        op: Operator::StringConcat,
        right: term,
    }) = first
    {
        terms.push(term.as_ref());
        first = before;
    }
    terms.push(first);
    if terms.len() <= LONG || terms.iter().any(|term| is_open(term)) {
        return binary_expr(left, Operator::StringConcat, right);
    }
    let terms = terms.into_iter().rev().cloned().chain([right]).collect();
    ScalarUDF::new_from_impl(TextChain::default()).call(terms)
}

/// Both functions.
pub(crate) fn called() -> [ScalarUDF; 2] {
    [
        ScalarUDF::new_from_impl(IntegerChain::default()),
        ScalarUDF::new_from_impl(TextChain::default()),
    ]
}

/// Whether a term has no type yet.
fn is_open(term: &Expr) -> bool {
    matches!(term, Expr::Placeholder(_))
}

fn sign(op: Operator) -> Option<char> {
    Some(match op {
        Operator::Plus => '+',
        Operator::Minus => '-',
        Operator::Multiply => '*',
        _ => return None,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntegerChain {
    signature: Signature,
}

impl Default for IntegerChain {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for IntegerChain {
    fn name(&self) -> &'static str {
        INTEGERS
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [
            Expr::Literal(ScalarValue::Utf8(Some(signs)), _),
            first,
            rest @ ..,
        ] = args
        else {
            return Ok(INTEGERS.to_owned());
        };
        let mut name = "(".repeat(rest.len());
        let _infallible = write!(name, "{}", first.schema_name());
        for (sign, term) in signs.chars().zip(rest) {
            let _infallible = write!(name, " {sign} {})", term.schema_name());
        }
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let wider = self.return_type(given)?;
        let terms = given.iter().skip(1).map(|_| wider.clone());
        Ok([DataType::Utf8].into_iter().chain(terms).collect())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            [_, terms @ ..] if !terms.is_empty() => integers::wider(terms),
            _ => plan_err!("{INTEGERS} takes operators and terms"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(signs))),
            first,
            rest @ ..,
        ] = args.args.as_slice()
        else {
            return exec_err!("{INTEGERS} takes operators and terms");
        };
        let mut value = first.clone();
        for (sign, term) in signs.chars().zip(rest) {
            let op = match sign {
                '+' => Operator::Plus,
                '-' => Operator::Minus,
                _ => Operator::Multiply,
            };
            value = integers::apply(op, &value, term)?;
        }
        Ok(value)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TextChain {
    signature: Signature,
}

impl Default for TextChain {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for TextChain {
    fn name(&self) -> &'static str {
        TEXTS
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = String::new();
        for (at, term) in args.iter().enumerate() {
            let between = if at == 0 { "" } else { " || " };
            let _infallible = write!(name, "{between}{}", term.schema_name());
        }
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Utf8View; given.len()])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of_rows = |value: &ColumnarValue| matches!(value, ColumnarValue::Array(_));
        let is_scalar = !args.args.iter().any(of_rows);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let terms = args.args.iter().map(|term| {
            let term = term.to_array(rows)?;
            Ok(cast(&term, &DataType::Utf8View)?)
        });
        let terms: Vec<ArrayRef> = terms.collect::<Result<_>>()?;
        let terms: Vec<_> = terms.iter().map(AsArray::as_string_view).collect();
        let mut joined = StringViewBuilder::with_capacity(rows);
        let mut text = String::new();
        for row in 0..rows {
            if terms.iter().any(|term| term.is_null(row)) {
                joined.append_null();
                continue;
            }
            text.clear();
            for term in &terms {
                text.push_str(term.value(row));
            }
            joined.try_append_value(&text)?;
        }
        let joined: ArrayRef = Arc::new(joined.finish());
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
            false => ColumnarValue::Array(joined),
        })
    }
}
