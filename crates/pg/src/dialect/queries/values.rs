//! `VALUES ('1'::jsonb), ('2')`: one type for each column.
//!
//! DataFusion's planner compares what fields say of types that Arrow lacks (json, uuid, varchar)
//! and refuses rows that differ. It takes texts beside numbers for texts. A constant without a type
//! has the type of the first cast.

use datafusion::sql::sqlparser::ast::{CastKind, CharacterLength, DataType, Expr, Value, Values};

use crate::casts::Target;
use crate::dialect::ast::{is_placeholder, literal_text, null};

pub(super) fn rewrite(values: &mut Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for at in 0..width {
        let column = || values.rows.iter().filter_map(|row| row.content.get(at));
        let mut types = column().filter_map(type_of);
        let Some(first) = types.next().cloned() else {
            continue;
        };
        let is_one =
            types.all(|other| *other == first) && column().all(|value| type_of(value).is_some());
        if is_one {
            continue;
        }
        let is_marked = column().filter_map(type_of).any(is_marked);
        let common = without_length(&first);
        for row in &mut values.rows {
            let Some(value) = row.content.get_mut(at) else {
                continue;
            };
            let adapts = match type_of(value) {
                Some(own) => *own != common && is_text(own) && is_text(&common),
                None => literal_text(value).is_some() || (is_marked && is_untyped(value)),
            };
            if adapts {
                let inner = std::mem::replace(value, null());
                *value = Expr::Cast {
                    kind: CastKind::DoubleColon,
                    expr: Box::new(inner),
                    data_type: common.clone(),
                    array: false,
                    format: None,
                };
            }
        }
    }
}

fn type_of(value: &Expr) -> Option<&DataType> {
    match value {
        Expr::Cast { data_type, .. } => Some(data_type),
        Expr::TypedString(typed) => Some(&typed.data_type),
        Expr::Nested(inner) => type_of(inner),
        _ => None,
    }
}

fn is_untyped(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(constant) => is_placeholder(value) || constant.value == Value::Null,
        _ => false,
    }
}

/// Whether Arrow lacks the type.
fn is_marked(data_type: &DataType) -> bool {
    let target = Target::of_sql(data_type);
    target.is_some_and(|target| {
        let held = target.arrow(&datafusion::arrow::datatypes::DataType::Null);
        !target.field("", held, true).metadata().is_empty()
    })
}

fn is_text(data_type: &DataType) -> bool {
    Target::of_sql(data_type).is_some_and(|target| target.is_text())
}

/// The length of one value is not that of the column.
fn without_length(data_type: &DataType) -> DataType {
    let no_length: Option<CharacterLength> = None;
    match Target::of_sql(data_type) {
        Some(Target::Varchar(Some(_))) => DataType::Varchar(no_length),
        Some(Target::Bpchar(Some(_))) => {
            let name = datafusion::sql::sqlparser::ast::Ident::new("bpchar");
            DataType::Custom(vec![name].into(), vec![])
        }
        _ => data_type.clone(),
    }
}
