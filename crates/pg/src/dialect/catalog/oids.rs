//! Casts to PostgreSQL's oid alias types (`regclass`, `regtype`, …), which convert a name to an
//! oid or an oid to a name.
//!
//! `'people'::regclass` becomes `regclass_oid('people')`, and `….::regclass::text` becomes
//! `regclass_name(…)`: functions that look up the catalog (`catalog/functions`). A result column
//! that is such a cast shows the name, as in PostgreSQL, also in an array; `to_regclass(…)` does
//! so, too. A quoted name of a relation whose size is asked for is such a cast. Where it is shown
//! or cast to text, `x::regtype[]` is `regtype_names(x::text)`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Query, SelectItem, SetExpr, VisitorMut,
};

use crate::dialect::ast::{call, is_placeholder, last_word, literal_text, null};

/// The kind of object that an oid identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OidKind {
    /// `regclass`: a table or view.
    Class,
    /// `regtype`: a type.
    Type,
    /// `regnamespace`: a schema.
    Namespace,
    /// `regproc`: a function.
    Procedure,
    /// A function with the types of its arguments.
    Signature,
    /// `regrole`: a user.
    Role,
}

impl OidKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Class,
        Self::Type,
        Self::Namespace,
        Self::Procedure,
        Self::Signature,
        Self::Role,
    ];

    /// The function that turns a name or an oid into an oid.
    #[must_use]
    pub fn oid_function(self) -> &'static str {
        match self {
            Self::Class => "regclass_oid",
            Self::Type => "regtype_oid",
            Self::Namespace => "regnamespace_oid",
            Self::Procedure => "regproc_oid",
            Self::Signature => "regprocedure_oid",
            Self::Role => "regrole_oid",
        }
    }

    /// The function that turns a name or an oid into a name.
    #[must_use]
    pub fn name_function(self) -> &'static str {
        match self {
            Self::Class => "regclass_name",
            Self::Type => "regtype_name",
            Self::Namespace => "regnamespace_name",
            Self::Procedure => "regproc_name",
            Self::Signature => "regprocedure_name",
            Self::Role => "regrole_name",
        }
    }

    fn of(data_type: &DataType) -> Option<Self> {
        Self::named(&type_word(data_type)?)
    }

    /// The kind with this type.
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "regclass" => Self::Class,
            "regtype" => Self::Type,
            "regnamespace" => Self::Namespace,
            "regproc" => Self::Procedure,
            "regprocedure" => Self::Signature,
            "regrole" => Self::Role,
            _ => return None,
        })
    }
}

pub(in crate::dialect) struct Oids;

impl VisitorMut for Oids {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        shown(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (inner, data_type) = match expr {
            Expr::Cast {
                expr, data_type, ..
            } => (expr, data_type),
            Expr::Function(function) => {
                named_relation(function);
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        if is_text(data_type)
            && let Some((kind, named)) = oid_value(inner)
        {
            *expr = call(kind.name_function(), vec![argument(named.clone())]);
        } else if is_text(data_type) || is_texts(data_type) {
            name_types(inner);
        } else if let Some((kind, named)) = oid_cast(inner) {
            let named = argument(named.clone());
            if is_oid(data_type) {
                *expr = call(kind.oid_function(), vec![named]);
            }
        } else if let Some(kind) = OidKind::of(data_type) {
            let named = std::mem::replace(&mut **inner, null());
            *expr = call(kind.oid_function(), vec![argument(named)]);
        }
        ControlFlow::Continue(())
    }
}

/// Functions of a relation's `regclass`.
const OF_RELATIONS: [&str; 4] = [
    "pg_indexes_size",
    "pg_relation_size",
    "pg_table_size",
    "pg_total_relation_size",
];

/// `pg_relation_size('t')` is `pg_relation_size('t'::regclass)`.
fn named_relation(function: &mut Function) {
    if last_word(&function.name).is_none_or(|name| !OF_RELATIONS.contains(&name.as_str())) {
        return;
    }
    if let FunctionArguments::List(list) = &mut function.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(relation))) = list.args.first_mut()
        && literal_text(relation).is_some()
    {
        let name = std::mem::replace(relation, null());
        *relation = call(OidKind::Class.oid_function(), vec![name]);
    }
}

/// Rewrites result columns that are such casts so that they show the name.
fn shown(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            shown(left);
            shown(right);
        }
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                let (expr, alias) = match item {
                    SelectItem::UnnamedExpr(expr) => {
                        let name = crate::dialect::names::column_names::of(expr);
                        (expr, Ident::with_quote('"', name))
                    }
                    SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
                    _ => continue,
                };
                if show(expr) {
                    let expr = std::mem::replace(expr, null());
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
        }
        _ => {}
    }
}

/// Replaces such a value, or the elements of an array of them, with their names.
fn show(expr: &mut Expr) -> bool {
    if let Some((kind, named)) = oid_value(expr) {
        *expr = call(kind.name_function(), vec![argument(named.clone())]);
        return true;
    }
    if name_types(expr) {
        return true;
    }
    match expr {
        Expr::Nested(inner) => show(inner),
        Expr::Array(array) => {
            let elements = &mut array.elem;
            let are_oids = elements.iter().all(|element| oid_value(element).is_some());
            are_oids && elements.iter_mut().fold(false, |_, element| show(element))
        }
        Expr::Function(function) if last_word(&function.name).as_deref() == Some("array_agg") => {
            match &mut function.args {
                FunctionArguments::List(list) => match list.args.as_mut_slice() {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(element))] => show(element),
                    _ => false,
                },
                _ => false,
            }
        }
        _ => false,
    }
}

/// Replaces `x::regtype[]`, also as an argument of COALESCE, with an array of names.
fn name_types(expr: &mut Expr) -> bool {
    match expr {
        Expr::Nested(inner) => name_types(inner),
        Expr::Cast {
            expr: inner,
            data_type,
            ..
        } if is_types(data_type) => {
            let types = as_text(std::mem::replace(&mut **inner, null()));
            *expr = call(TYPE_NAMES, vec![types]);
            true
        }
        Expr::Function(function) if last_word(&function.name).as_deref() == Some("coalesce") => {
            let FunctionArguments::List(list) = &mut function.args else {
                return false;
            };
            let mut is_changed = false;
            for argument in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument {
                    is_changed |= name_types(value);
                }
            }
            is_changed
        }
        _ => false,
    }
}

/// The kind and what is named, of a cast to an oid alias type or a function that returns one.
fn oid_value(expr: &Expr) -> Option<(OidKind, &Expr)> {
    match expr {
        Expr::Nested(inner) => oid_value(inner),
        Expr::Function(function) => {
            let name = last_word(&function.name)?;
            let word = name.strip_prefix("to_")?;
            Some((OidKind::named(word)?, expr))
        }
        other => oid_cast(other),
    }
}

/// The kind and the operand, if the expression is a cast to an oid alias type.
fn oid_cast(expr: &Expr) -> Option<(OidKind, &Expr)> {
    match expr {
        Expr::Nested(inner) => oid_cast(inner),
        Expr::Cast {
            expr, data_type, ..
        } => Some((OidKind::of(data_type)?, expr)),
        _ => None,
    }
}

/// Casts a parameter to text, because it is a name and nothing else determines its type.
fn argument(named: Expr) -> Expr {
    if is_placeholder(&named) {
        as_text(named)
    } else {
        named
    }
}

fn as_text(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type: DataType::Text,
        array: false,
        format: None,
    }
}

/// Whether this is the type `regtype[]`.
fn is_types(data_type: &DataType) -> bool {
    element_of(data_type).and_then(OidKind::of) == Some(OidKind::Type)
}

/// Whether this is the type of arrays of texts.
fn is_texts(data_type: &DataType) -> bool {
    element_of(data_type).is_some_and(is_text)
}

fn element_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => Some(element),
        _ => None,
    }
}

/// The function of the names of types, whose oids or names are in the text of an array or an
/// `oidvector`.
pub const TYPE_NAMES: &str = "regtype_names";

fn type_word(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Regclass => Some("regclass".to_owned()),
        DataType::Custom(name, arguments) if arguments.is_empty() => last_word(name),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_)
    ) || type_word(data_type)
        .is_some_and(|word| matches!(word.as_str(), "text" | "varchar" | "name"))
}

fn is_oid(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int(_)
            | DataType::Integer(_)
            | DataType::Int4(_)
            | DataType::BigInt(_)
            | DataType::Int8(_)
    ) || type_word(data_type).is_some_and(|word| word == "oid")
}
