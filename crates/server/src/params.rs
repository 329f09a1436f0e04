//! Parameters of prepared statements: the types announced for them, and their values.
//!
//! A value is read as the type that the client sent it as, and enters the plan as that type, not as
//! the type of the column that it is compared with. DataFusion coerces both sides, so that
//! `price > $1` with the float 0.055 is not rounded to the price's two digits. The column's type is
//! only announced to clients that do not give a type.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_pg::datatypes::df::deserialize_parameters;
use bytes::{Buf, Bytes};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::ParamValues;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::scalar::ScalarValue;
use pgwire::api::Type;
use pgwire::api::portal::Portal;
use pgwire::api::stmt::StoredStatement;
use pgwire::messages::data::{FORMAT_CODE_BINARY, FORMAT_CODE_TEXT};
use pgwire::messages::extendedquery::Bind;

use crate::failure::Failure;
use coscan_pg::array_types::{array_of, element_of};
use coscan_pg::dialect::{AS_ARRAY, Written, elements};
use coscan_pg::output::{numeric_text, pg_type};

/// The types of `$1`, `$2`, … of a plan: as the client said, else as the statement has `written`
/// them in a cast, else as their use suggests, else text.
pub(crate) fn parameter_types(
    plan: &LogicalPlan,
    client: &[Option<Type>],
    written: &Written,
) -> Result<Vec<Type>, Failure> {
    let used = inferred(plan)?;
    let last = used.keys().chain(written.keys()).max().copied();
    let count = last.unwrap_or(0).max(client.len());
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
        said.or_else(|| written.get(&(index + 1)).cloned().flatten())
            .or_else(suggested)
            .unwrap_or(Type::TEXT)
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
        wire.push(Value {
            pg_type: pg_type.clone(),
            value: value.clone(),
            format,
        });
    }
    Ok(ParamValues::from(scalars(wire)?))
}

/// The values, decoded.
fn scalars(values: Vec<Value>) -> Result<Vec<ScalarValue>, Failure> {
    let types: Vec<_> = values.iter().map(|value| value.pg_type.clone()).collect();
    let mut arrays = BTreeMap::new();
    let mut wire = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        if let Some(element) = element_of(&value.pg_type) {
            arrays.insert(index, array(&element, &value)?);
            // Keeps the place of the array, which is put there below.
            wire.push(Value {
                pg_type: Type::TEXT,
                value: None,
                format: FORMAT_CODE_TEXT,
            });
        } else {
            wire.push(value.readable()?);
        }
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
    values
        .into_iter()
        .zip(types)
        .enumerate()
        .map(|(index, (value, pg_type))| match arrays.remove(&index) {
            Some(array) => Ok(array),
            None => as_numeric(value.value().clone(), &pg_type),
        })
        .collect()
}

/// The list that a value of an array type holds.
fn array(element: &Type, value: &Value) -> Result<ScalarValue, Failure> {
    let nothing = arrow_type(element);
    let Some(raw) = &value.value else {
        return Ok(ScalarValue::new_null_list(nothing, true, 1));
    };
    let found = if value.format == FORMAT_CODE_BINARY {
        binary_elements(raw)?
    } else {
        let text = std::str::from_utf8(raw)
            .map_err(|_| Failure::new("22021", "an array that is not UTF-8"))?;
        let malformed = || Failure::new("22P02", format!("malformed array literal: {text:?}"));
        let texts = elements(text).ok_or_else(malformed)?;
        texts
            .into_iter()
            .map(|text| text.map(Bytes::from))
            .collect()
    };
    let found = found.into_iter().map(|raw| Value {
        pg_type: element.clone(),
        value: raw,
        format: value.format,
    });
    let found = scalars(found.collect())?;
    // Each numeric comes with its own scale; the array takes the largest.
    let scale = found.iter().filter_map(|value| match value {
        ScalarValue::Decimal128(Some(_), _, scale) => Some(*scale),
        _ => None,
    });
    let data_type = match (scale.max(), found.iter().find(|value| !value.is_null())) {
        (Some(scale), _) => DataType::Decimal128(38, scale),
        (None, Some(value)) => value.data_type(),
        (None, None) => nothing,
    };
    let found = found
        .into_iter()
        .map(|value| {
            if value.is_null() {
                ScalarValue::try_from(&data_type)
            } else {
                value.cast_to(&data_type)
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list(
        &found, &data_type, true,
    )))
}

/// The elements of an array in PostgreSQL's binary format.
fn binary_elements(raw: &Bytes) -> Result<Vec<Option<Bytes>>, Failure> {
    let wrong = || Failure::new("22P03", "not an array in binary");
    let mut rest = raw.clone();
    let number = |rest: &mut Bytes| rest.try_get_i32().map_err(|_| wrong());
    let dimensions = number(&mut rest)?;
    // Skips whether there are NULLs, and the elements' type, which the parameter's type gives.
    number(&mut rest)?;
    number(&mut rest)?;
    match dimensions {
        0 => return Ok(vec![]),
        1 => {}
        _ => return Err(Failure::unsupported("arrays of arrays are not supported")),
    }
    let count = usize::try_from(number(&mut rest)?).map_err(|_| wrong())?;
    number(&mut rest)?;
    // Every element has at least a length, so the count cannot make us reserve more than was sent.
    if count > rest.remaining() / 4 {
        return Err(wrong());
    }
    (0..count)
        .map(|_| match number(&mut rest)? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| wrong())?;
                if length > rest.remaining() {
                    return Err(wrong());
                }
                Ok(Some(rest.split_to(length)))
            }
        })
        .collect()
}

/// The type that values of `pg_type` are read as, for an array without a value to show it.
fn arrow_type(pg_type: &Type) -> DataType {
    match *pg_type {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 | Type::OID => DataType::Int32,
        Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(38, 10),
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::BYTEA => DataType::Binary,
        _ => DataType::Utf8,
    }
}

/// A parameter as it was sent.
struct Value {
    pg_type: Type,
    value: Option<Bytes>,
    format: i16,
}

impl Value {
    /// Makes the value readable for arrow-pg, which loses the precision of numerics, as it reads
    /// them through a 96-bit decimal, and refuses types that it does not know: both are read as
    /// text.
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
            Type::NAME | Type::BPCHAR | Type::CHAR | Type::UNKNOWN => Ok(Self {
                pg_type: Type::TEXT,
                value,
                format,
            }),
            // An oid is unsigned. Its text needs an int8; its binary form is read as an int4.
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

/// The type of each parameter as its use suggests, by its number.
fn inferred(plan: &LogicalPlan) -> Result<BTreeMap<usize, Option<Type>>, Failure> {
    let mut fields: HashMap<String, Option<Type>> = plan
        .get_parameter_fields()?
        .into_iter()
        .map(|(id, field)| (id, field.map(|field| pg_type(&field))))
        .collect();
    // The cast in `$1::date` gives a type, but DataFusion does not infer it.
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
                // The catalog's functions say which types they take.
                if let Expr::ScalarFunction(call) = expr {
                    let given: Vec<_> = call
                        .args
                        .iter()
                        .map(|argument| match argument {
                            Expr::Placeholder(_) => DataType::Null,
                            // Only the types that parameters are coerced to are looked at.
                            _ => DataType::Utf8,
                        })
                        .collect();
                    let taken = call.func.coerce_types(&given).unwrap_or_default();
                    for (argument, taken) in call.args.iter().zip(taken) {
                        if let Expr::Placeholder(placeholder) = argument
                            && !matches!(taken, DataType::Null | DataType::Utf8)
                            && let Some(unknown @ None) = fields.get_mut(&placeholder.id)
                        {
                            *unknown = Some(pg_type(&Field::new("", taken, true)));
                        }
                    }
                }
                // `x = ANY($1)`: the parameter is an array of the type of x.
                if let Expr::ScalarFunction(call) = expr
                    && call.name() == AS_ARRAY
                    && let [Expr::Placeholder(placeholder), like] = call.args.as_slice()
                    && let Some(unknown @ None) = fields.get_mut(&placeholder.id)
                {
                    *unknown = node
                        .inputs()
                        .iter()
                        .find_map(|input| like.to_field(input.schema()).ok())
                        .and_then(|(_, field)| array_of(&pg_type(&field)));
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

/// The protocol counts parameters in 16 bits.
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
