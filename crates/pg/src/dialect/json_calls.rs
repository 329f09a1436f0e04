//! `JSON_OBJECT` and `JSON_ARRAY` of the standard, as calls of PostgreSQL's older functions.
//!
//! `JSON_OBJECT('a' VALUE x, 'b': y RETURNING jsonb)` is `jsonb_build_object('a', x, 'b', y)`.
//! PostgreSQL 16 has these constructors, and clients that are told of that version write them
//! (Django's `JSONObject`).
//! Not here: ABSENT ON NULL, which leaves members out and is what `JSON_ARRAY` does by itself;
//! types other than json and jsonb. Such calls are left alone, and planning them fails.

use datafusion::sql::sqlparser::ast::{
    DataType, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArgumentClause,
    FunctionArguments, Ident, JsonNullClause, ObjectName,
};

use super::ast::last_word;

/// Makes a constructor a call of the function that builds the same value, if there is one.
pub(super) fn rewrite(function: &mut Function) {
    let Some((name, arguments)) = built(function) else {
        return;
    };
    function.name = ObjectName::from(vec![Ident::new(name)]);
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = arguments;
        list.clauses.clear();
    }
}

/// The function that builds the same value, and its arguments.
fn built(function: &Function) -> Option<(&'static str, Vec<FunctionArg>)> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let is_object = match last_word(&function.name)?.as_str() {
        "json_object" => true,
        "json_array" => false,
        _ => return None,
    };
    let (mut keeps_nulls, mut is_binary) = (is_object, false);
    for clause in &list.clauses {
        match clause {
            FunctionArgumentClause::JsonNullClause(JsonNullClause::NullOnNull) => {
                keeps_nulls = true;
            }
            FunctionArgumentClause::JsonReturningClause(returning) => {
                is_binary = match returning.data_type {
                    DataType::JSON => false,
                    DataType::JSONB => true,
                    _ => return None,
                };
            }
            _ => return None,
        }
    }
    if !keeps_nulls {
        return None;
    }
    // `json_object(keys, values)` of two arrays is another function.
    let arguments = if is_object {
        members(&list.args)?
    } else {
        list.args.clone()
    };
    let name = match (is_object, is_binary) {
        (true, true) => "jsonb_build_object",
        (true, false) => "json_build_object",
        (false, true) => "jsonb_build_array",
        (false, false) => "json_build_array",
    };
    Some((name, arguments))
}

/// The keys and values of an object's members, in turn; `None` if an argument is not a member.
fn members(arguments: &[FunctionArg]) -> Option<Vec<FunctionArg>> {
    let mut members = Vec::with_capacity(2 * arguments.len());
    for argument in arguments {
        let FunctionArg::ExprNamed {
            name,
            arg: value,
            operator: FunctionArgOperator::Value | FunctionArgOperator::Colon,
        } = argument
        else {
            return None;
        };
        members.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(name.clone())));
        members.push(FunctionArg::Unnamed(value.clone()));
    }
    Some(members)
}
