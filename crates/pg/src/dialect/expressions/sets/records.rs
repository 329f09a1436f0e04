//! `json_to_record(j) AS t(a int, b text)`: the members of an object as columns.
//!
//! | from | to |
//! |---|---|
//! | `json_to_record(j) AS t(a int)` | `SELECT json_member(j, 'a', 'text')::int AS a` |
//! | `json_to_recordset(j) AS t(a int)` | `SELECT unnest(json_members(j, 'a', 'text'))::int AS a` |

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Ident, SelectItem, TableAlias, TableAliasColumnDef,
};

use crate::casts::Target;
use crate::dialect::ast::{call, text};
use crate::functions::json::{ARRAY, MEMBER, MEMBERS, RAW, TEXT};

/// The columns, and the alias without their types; `None` for another function, or if a type has a
/// length, because longer texts would be an error.
pub(super) fn items(
    name: &str,
    given: &[Expr],
    alias: Option<&TableAlias>,
) -> Option<(Vec<SelectItem>, TableAlias)> {
    let (pg_type, set) = name.split_once("_to_record")?;
    let ([value], "json" | "jsonb", "" | "set") = (given, pg_type, set) else {
        return None;
    };
    let mut alias = alias?.clone();
    let member = if set.is_empty() { MEMBER } else { MEMBERS };
    let mut items = vec![];
    for column in &mut alias.columns {
        let TableAliasColumnDef { name, data_type } = column;
        let data_type = data_type.take()?;
        let kind = kind(&Target::of_sql(&data_type)?)?;
        let typed = Expr::Cast {
            kind: CastKind::DoubleColon,
            expr: Box::new(value.clone()),
            data_type: match pg_type {
                "jsonb" => DataType::JSONB,
                _ => DataType::JSON,
            },
            array: false,
            format: None,
        };
        let key = match name.quote_style {
            Some(_) => name.value.clone(),
            None => name.value.to_lowercase(),
        };
        let mut found = call(
            &format!("{pg_type}{member}"),
            vec![typed, text(&key), text(kind)],
        );
        if !set.is_empty() {
            found = call("unnest", vec![found]);
        }
        items.push(SelectItem::ExprWithAlias {
            expr: Expr::Cast {
                kind: CastKind::DoubleColon,
                expr: Box::new(found),
                data_type,
                array: false,
                format: None,
            },
            alias: Ident::with_quote('"', key),
        });
    }
    (!items.is_empty()).then_some((items, alias))
}

/// The form in which a member is read, by the type of its column.
fn kind(target: &Target) -> Option<&'static str> {
    Some(match target {
        Target::Varchar(Some(_)) | Target::Bpchar(Some(_)) => return None,
        Target::Json | Target::Jsonb => RAW,
        Target::Array(_) => ARRAY,
        _ => TEXT,
    })
}
