//! Parameters of prepared statements: the types announced for them, and their values.
//!
//! A value is read as the type the client sent it as and put into the plan as that, not as the type
//! of the column it meets: DataFusion coerces both sides, so that `price > $1` with the float 0.055
//! is not rounded to the price's two digits. The column's type is only what a client is told to
//! send when it does not say.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::ParamValues;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use datafusion_postgres::arrow_pg::datatypes::df::deserialize_parameters;
use pgwire::api::Type;
use pgwire::api::portal::Portal;
use pgwire::api::stmt::StoredStatement;
use pgwire::messages::data::{FORMAT_CODE_BINARY, FORMAT_CODE_TEXT};
use pgwire::messages::extendedquery::Bind;

use crate::encode::{numeric_text, pg_type};
use crate::failure::Failure;

/// The types of `$1`, `$2`, … of a plan: as the client said, else as their use suggests, else text.
pub(crate) fn parameter_types(
    plan: &LogicalPlan,
    client: &[Option<Type>],
) -> Result<Vec<Type>, Failure> {
    let used = inferred(plan)?;
    let count = used.keys().last().copied().unwrap_or(0).max(client.len());
    if count > PARAMETERS_MAX {
        return Err(Failure::new(
            "54000",
            format!("at most {PARAMETERS_MAX} parameters"),
        ));
    }
    let one = |index: usize| {
        let said = client
            .get(index)
            .cloned()
            .flatten()
            .filter(|said| *said != Type::UNKNOWN);
        let suggested = || used.get(&(index + 1)).cloned().flatten();
        said.or_else(suggested).unwrap_or(Type::TEXT)
    };
    Ok((0..count).map(one).collect())
}

/// The values of a Bind message, for the plan whose parameters have `types`.
pub(crate) fn parameter_values(types: &[Type], bind: &Bind) -> Result<ParamValues, Failure> {
    let given = bind.parameters.len();
    if given != types.len() {
        let needed = types.len();
        return Err(Failure::protocol(format!(
            "{given} parameters, but {needed} are needed"
        )));
    }
    let formats = &bind.parameter_format_codes;
    if formats.len() > 1 && formats.len() != given {
        return Err(Failure::protocol(format!(
            "{} formats for {given} parameters",
            formats.len()
        )));
    }
    let mut wire = Vec::with_capacity(given);
    for (index, (pg_type, value)) in types.iter().zip(&bind.parameters).enumerate() {
        let format = match formats[..] {
            [] => FORMAT_CODE_TEXT,
            [all] => all,
            ref each => each[index],
        };
        wire.push(
            Value {
                pg_type: pg_type.clone(),
                value: value.clone(),
                format,
            }
            .readable()?,
        );
    }
    let bind = Bind::new(
        None,
        None,
        wire.iter().map(|value| value.format).collect(),
        wire.iter().map(|value| value.value.clone()).collect(),
        vec![],
    );
    let read_as = wire.into_iter().map(|value| Some(value.pg_type)).collect();
    let statement = Arc::new(StoredStatement::new(String::new(), (), read_as));
    let values = deserialize_parameters(&Portal::try_new(&bind, statement)?, &[])?;
    let ParamValues::List(values) = values else {
        return Err(Failure::protocol("parameters have no order"));
    };
    let values: Vec<_> = values
        .into_iter()
        .zip(types)
        .map(|(value, pg_type)| as_numeric(value.value().clone(), pg_type))
        .collect::<Result<_, _>>()?;
    Ok(ParamValues::from(values))
}

/// A parameter as it came.
struct Value {
    pg_type: Type,
    value: Option<Bytes>,
    format: i16,
}

impl Value {
    /// arrow-pg reads numerics through a 96-bit decimal and loses their precision, and refuses what
    /// it does not know: both are read as text.
    fn readable(self) -> Result<Self, Failure> {
        let Self {
            pg_type,
            value,
            format,
        } = self;
        let binary = format == FORMAT_CODE_BINARY;
        match pg_type {
            Type::NUMERIC => {
                let value = match value {
                    Some(raw) if binary => {
                        let text = numeric_text(&raw)
                            .ok_or_else(|| Failure::new("22P03", "not a finite numeric"))?;
                        Some(Bytes::from(text))
                    }
                    value => value,
                };
                Ok(Self {
                    pg_type: Type::TEXT,
                    value,
                    format: FORMAT_CODE_TEXT,
                })
            }
            Type::NAME | Type::BPCHAR | Type::UNKNOWN => Ok(Self {
                pg_type: Type::TEXT,
                value,
                format,
            }),
            // An oid is an int4 whose sign nobody means.
            Type::OID if !binary => Ok(Self {
                pg_type: Type::INT8,
                value,
                format,
            }),
            Type::OID => Ok(Self {
                pg_type: Type::INT4,
                value,
                format,
            }),
            pg_type => Ok(Self {
                pg_type,
                value,
                format,
            }),
        }
    }
}

fn as_numeric(value: ScalarValue, pg_type: &Type) -> Result<ScalarValue, Failure> {
    let (ScalarValue::Utf8(text), true) = (&value, *pg_type == Type::NUMERIC) else {
        return Ok(value);
    };
    let Some(text) = text else {
        return Ok(ScalarValue::Decimal128(None, 38, 10));
    };
    decimal(text.trim()).ok_or_else(|| {
        Failure::new(
            "22P02",
            format!("cannot use {text:?} as a numeric parameter"),
        )
    })
}

/// A decimal with as many digits as its text has. With an exponent it is a float.
fn decimal(text: &str) -> Option<ScalarValue> {
    if text.contains(['e', 'E']) {
        return text
            .parse()
            .ok()
            .map(|value| ScalarValue::Float64(Some(value)));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let value: i128 = format!("{whole}{fraction}").parse().ok()?;
    let digits = value.unsigned_abs().to_string().len().max(fraction.len());
    let (precision, scale) = (
        u8::try_from(digits).ok()?,
        i8::try_from(fraction.len()).ok()?,
    );
    (precision <= 38).then_some(ScalarValue::Decimal128(Some(value), precision, scale))
}

/// What the use of each parameter says about its type, by its number.
fn inferred(plan: &LogicalPlan) -> Result<BTreeMap<usize, Option<Type>>, Failure> {
    let mut fields: HashMap<String, Option<Type>> = plan
        .get_parameter_fields()?
        .into_iter()
        .map(|(id, field)| (id, field.map(|field| pg_type(&field))))
        .collect();
    // `$1::date` says what it wants, though DataFusion does not take it from there.
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for count in [&limit.skip, &limit.fetch].into_iter().flatten() {
                if let Expr::Placeholder(placeholder) = count.as_ref()
                    && let Some(unknown @ None) = fields.get_mut(&placeholder.id)
                {
                    *unknown = Some(Type::INT8);
                }
            }
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Cast(cast) = expr
                    && let Expr::Placeholder(placeholder) = cast.expr.as_ref()
                    && let Some(unknown @ None) = fields.get_mut(&placeholder.id)
                {
                    *unknown = Some(pg_type(&cast.field));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    fields
        .into_iter()
        .map(|(id, field)| {
            let number = id.strip_prefix('$').and_then(|number| number.parse().ok());
            match number {
                Some(number) if number > 0 => Ok((number, field)),
                _ => Err(Failure::new("42P02", format!("there is no parameter {id}"))),
            }
        })
        .collect()
}

/// The protocol counts them in 16 bits.
const PARAMETERS_MAX: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_keep_their_digits() {
        let Some(ScalarValue::Decimal128(Some(5), 2, 2)) = decimal("0.05") else {
            panic!("{:?}", decimal("0.05"));
        };
        let Some(ScalarValue::Decimal128(Some(-12), 2, 0)) = decimal("-12") else {
            panic!("{:?}", decimal("-12"));
        };
        assert!(decimal("twelve").is_none());
    }
}
