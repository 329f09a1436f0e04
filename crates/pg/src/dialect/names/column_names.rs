//! The names of columns in results and in relations of FROM.
//!
//! DataFusion wants the columns of a projection to have distinct names, and names an expression by
//! its text. PostgreSQL names it by its function or type, or `?column?`, and allows duplicates.
//! Here each column without a name gets PostgreSQL's name followed by [`MARK`] and its position.
//! No statement can refer to such a name, so the meaning of GROUP BY does not change; `order_by`
//! resolves ORDER BY. [`on_the_wire`] drops the mark where a result is described, and
//! `outer_names` where a relation is used.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CopySource, DataType, Expr, Ident, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, TableWithJoins,
    TrimWhereField, VisitorMut,
};
use std::ops::ControlFlow;

use crate::dialect::ast::last_word;
use crate::names::MARK;
use crate::visits::{Walk, visit_expressions};

/// Calls `each` with every query whose result a client sees.
pub(super) fn each_result(statement: &mut Statement, each: &mut impl FnMut(&mut Query)) {
    match statement {
        Statement::Query(query)
        | Statement::Copy {
            source: CopySource::Query(query),
            ..
        } => each(query),
        Statement::Declare { stmts } => stmts
            .iter_mut()
            .filter_map(|declare| declare.for_query.as_mut())
            .for_each(|query| each(query)),
        Statement::Prepare { statement, .. } => each_result(statement, each),
        _ => {}
    }
}

/// Names the columns of results and of relations, and makes the names within each unique.
pub(in crate::dialect) fn unique(statement: &mut Statement) {
    each_result(statement, &mut |query| {
        name_all(&mut query.body);
        keep_from_wildcard(query);
    });
    let statement = match statement {
        Statement::Prepare { statement, .. } => statement,
        plain => plain,
    };
    match statement {
        Statement::CreateView(view) => name_relation(&mut view.query),
        Statement::CreateTable(table) => {
            if let Some(query) = &mut table.query {
                name_relation(query);
            }
        }
        _ => {}
    }
    let _ = statement.walk(&mut Inner);
    let _ = statement.walk(&mut Apart);
}

/// Names the columns to which a statement can refer: those of relations, and those that ORDER BY
/// may name.
struct Inner;

impl VisitorMut for Inner {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let relations = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        relations.for_each(|relation| name_relation(&mut relation.query));
        if query.order_by.is_some() && !is_wild(&query.body) {
            name_all(&mut query.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor {
            name_relation(subquery);
        }
        ControlFlow::Continue(())
    }
}

/// Names the columns of a relation. `outer_names.rs` removes the marks outside of the relation,
/// but only if it can count the columns; so columns beside `*` get no marks.
fn name_relation(query: &mut Query) {
    if !is_wild(&query.body) {
        return name_all(&mut query.body);
    }
    let Some(select) = first_select(&mut query.body) else {
        return;
    };
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) => Some(of(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    });
    let named: Vec<String> = named.collect();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && !is_column(expr)
        {
            let name = of(expr);
            if named.iter().filter(|known| **known == name).count() == 1 {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', name),
                };
            }
        }
    }
}

/// The branch of a query that names the result's columns.
pub(in crate::dialect) fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&mut query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

pub(in crate::dialect) fn is_wild(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.projection.iter().any(|item| {
            matches!(
                item,
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
            )
        }),
        SetExpr::Query(query) => is_wild(&query.body),
        SetExpr::SetOperation { left, .. } => is_wild(left),
        _ => false,
    }
}

struct Apart;

impl VisitorMut for Apart {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        keep_apart(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn name_all(body: &mut SetExpr) {
    match body {
        // `SELECT … INTO` creates a table, whose columns keep their names.
        SetExpr::Select(select) if select.into.is_some() => {}
        SetExpr::Select(select) => {
            for (position, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item
                    && !is_column(expr)
                {
                    rename(item, position);
                }
            }
        }
        SetExpr::Query(query) => name_all(&mut query.body),
        // The result has the names of the first branch.
        SetExpr::SetOperation { left, .. } => name_all(left),
        _ => {}
    }
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        // `current_schema` is a function without parentheses.
        Expr::Identifier(word) => {
            word.quote_style.is_some() || !word.value.eq_ignore_ascii_case("current_schema")
        }
        Expr::CompoundIdentifier(_) => true,
        _ => false,
    }
}

fn keep_apart(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) if select.into.is_some() => {}
        SetExpr::Select(select) => keep_columns_apart(select),
        SetExpr::SetOperation { left, right, .. } => {
            keep_apart(left);
            keep_apart(right);
            // DataFusion gives some of these columns the left side's names, while others keep
            // theirs.
            if let SetExpr::Select(select) = right.as_mut() {
                name_mixed(select);
            }
        }
        _ => {}
    }
}

/// Names the columns of a later branch of a set operation, unless all are of one table. The result
/// has the first branch's names.
fn name_mixed(select: &mut Select) {
    let mut tables = HashSet::new();
    for item in &select.projection {
        tables.insert(match item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(words)) => {
                words.iter().rev().nth(1).map(folded)
            }
            SelectItem::UnnamedExpr(Expr::Identifier(_)) => Some(String::new()),
            _ => None,
        });
    }
    if tables.len() == 1 && !tables.contains(&None) {
        return;
    }
    for (position, item) in select.projection.iter_mut().enumerate() {
        if matches!(item, SelectItem::UnnamedExpr(_)) {
            rename(item, position);
        }
    }
}

/// Renames all but the first of the columns that DataFusion would give the same name, and those
/// that a wildcard beside them also brings.
fn keep_columns_apart(select: &mut Select) {
    let wildcards: Vec<Option<String>> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::Wildcard(_) => Some(None),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                Some(last_word(name))
            }
            _ => None,
        })
        .collect();
    let mut seen = HashSet::new();
    for (position, item) in select.projection.iter_mut().enumerate() {
        let known = match &*item {
            SelectItem::UnnamedExpr(expr) => {
                let brought = match expr {
                    Expr::Identifier(_) => wildcards.contains(&None),
                    Expr::CompoundIdentifier(words) => {
                        let table = words
                            .iter()
                            .rev()
                            .nth(1)
                            .map(|word| word.value.to_lowercase());
                        wildcards.iter().any(|all| all.is_none() || *all == table)
                    }
                    _ => false,
                };
                let name = match expr {
                    Expr::Identifier(word) => folded(word),
                    // `a.x` and `b.x` differ, except where `a` is a table of an outer query.
                    Expr::CompoundIdentifier(words) => words.last().map(folded).unwrap_or_default(),
                    _ => expr.to_string(),
                };
                brought || !seen.insert(name)
            }
            SelectItem::ExprWithAlias { alias, .. } => !seen.insert(folded(alias)),
            _ => false,
        };
        if known {
            rename(item, position);
        }
    }
}

/// Marks the names that a result gives to columns beside `*`, which may bring columns of these
/// names. Other clauses may refer to a name that they mention, so it stays.
fn keep_from_wildcard(query: &mut Query) {
    if !is_wild(&query.body) {
        return;
    }
    let mut mentioned = HashSet::new();
    let mut note = |expr: &Expr| {
        if let Expr::Identifier(word) = expr {
            mentioned.insert(folded(word));
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = visit_expressions(&query.order_by, &mut note);
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    if select.into.is_some() {
        return;
    }
    let _ = visit_expressions(&select.distinct, &mut note);
    let _ = visit_expressions(&select.group_by, &mut note);
    let _ = visit_expressions(&select.having, &mut note);
    for (position, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && !alias.value.contains(MARK)
            && !mentioned.contains(&folded(alias))
        {
            rename(item, position);
        }
    }
}

fn rename(item: &mut SelectItem, position: usize) {
    let (expr, name) = match item {
        SelectItem::UnnamedExpr(expr) => (expr.clone(), of(expr)),
        SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), folded(alias)),
        _ => return,
    };
    let alias = Ident::with_quote('"', format!("{name}{MARK}{position}"));
    *item = SelectItem::ExprWithAlias { expr, alias };
}

/// PostgreSQL's name for the column of an expression (`FigureColname` in its `parse_target.c`).
pub(in crate::dialect) fn of(expr: &Expr) -> String {
    figured(expr).map_or_else(|| "?column?".to_owned(), |figured| figured.name)
}

/// A name that an expression gives.
struct Figured {
    name: String,
    /// Whether a cast or CASE around the expression has a name that goes before.
    is_weak: bool,
}

impl Figured {
    fn strong(name: impl Into<String>) -> Self {
        let name = name.into();
        let is_weak = false;
        Self { name, is_weak }
    }

    fn weak(name: impl Into<String>) -> Self {
        let name = name.into();
        let is_weak = true;
        Self { name, is_weak }
    }
}

fn figured(expr: &Expr) -> Option<Figured> {
    let named = |name: &str| Some(Figured::strong(name));
    match expr {
        Expr::Identifier(word) => Some(Figured::strong(folded(word))),
        Expr::CompoundIdentifier(words) => words.last().map(folded).map(Figured::strong),
        Expr::QualifiedWildcard(table, _) => {
            let table = table.0.last()?.as_ident()?;
            Some(Figured::strong(folded(table)))
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figured(inner),
        // The last field's name, also in front of subscripts.
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(field)) => Some(folded(field)),
                _ => None,
            });
            field.map(Figured::strong).or_else(|| figured(root))
        }
        Expr::Function(function) => last_word(&function.name).map(Figured::strong),
        Expr::Cast {
            expr, data_type, ..
        } => match figured(expr) {
            Some(inner) if !inner.is_weak => Some(inner),
            inner => type_name(data_type).map(Figured::weak).or(inner),
        },
        Expr::TypedString(typed) => type_name(&typed.data_type).map(Figured::weak),
        Expr::Interval(_) => Some(Figured::weak("interval")),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(figured) {
            Some(inner) if !inner.is_weak => Some(inner),
            _ => Some(Figured::weak("case")),
        },
        Expr::Exists { .. } => named("exists"),
        Expr::Array(_) => named("array"),
        Expr::Extract { .. } => named("extract"),
        Expr::Substring { shorthand, .. } => named(if *shorthand { "substr" } else { "substring" }),
        Expr::Position { .. } => named("position"),
        Expr::Trim { trim_where, .. } => named(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::IsNormalized { negated: false, .. } => named("is_normalized"),
        Expr::BinaryOp {
            op: BinaryOperator::Overlaps,
            ..
        } => named("overlaps"),
        Expr::Overlay { .. } => named("overlay"),
        Expr::Ceil { .. } => named("ceil"),
        Expr::Floor { .. } => named("floor"),
        Expr::Tuple(_) => named("row"),
        Expr::AtTimeZone { .. } => named("timezone"),
        Expr::Subquery(query) => of_query(&query.body).map(Figured::strong),
        _ => None,
    }
}

/// The name of a query's first column.
fn of_query(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => Some(of(expr)),
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            SelectItem::Wildcard(_) => of_relation(select.from.first()?),
            _ => None,
        },
        SetExpr::Query(query) => of_query(&query.body),
        SetExpr::SetOperation { left, .. } => of_query(left),
        SetExpr::Values(_) => Some("column1".to_owned()),
        _ => None,
    }
}

/// The name of the first column of a subquery in FROM; the columns of tables are not known here.
fn of_relation(item: &TableWithJoins) -> Option<String> {
    let TableFactor::Derived {
        subquery, alias, ..
    } = &item.relation
    else {
        return None;
    };
    if !item.joins.is_empty() {
        return None;
    }
    match alias.as_ref().and_then(|alias| alias.columns.first()) {
        Some(column) => Some(folded(&column.name)),
        None => of_query(&subquery.body),
    }
}

/// An identifier as PostgreSQL folds it: in lower case, unless it is quoted.
pub(crate) fn folded(word: &Ident) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    }
}

/// PostgreSQL's internal name of a type.
fn type_name(data_type: &DataType) -> Option<String> {
    Some(
        match data_type {
            DataType::Boolean | DataType::Bool => "bool",
            DataType::SmallInt(_) | DataType::Int2(_) => "int2",
            DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4",
            DataType::BigInt(_) | DataType::Int8(_) => "int8",
            DataType::Real | DataType::Float4 => "float4",
            DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 => "float8",
            DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric",
            DataType::Text => "text",
            DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => {
                "varchar"
            }
            DataType::Char(_) | DataType::Character(_) => "bpchar",
            DataType::Date => "date",
            DataType::Time(..) => "time",
            DataType::Timestamp(_, zone) => {
                use datafusion::sql::sqlparser::ast::TimezoneInfo;
                match zone {
                    TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => "timestamptz",
                    _ => "timestamp",
                }
            }
            DataType::Interval { .. } => "interval",
            DataType::Bytea => "bytea",
            DataType::Uuid => "uuid",
            DataType::JSON => "json",
            DataType::JSONB => "jsonb",
            DataType::Regclass => "regclass",
            DataType::Custom(name, _) => return last_word(name),
            DataType::Array(element) => {
                use datafusion::sql::sqlparser::ast::ArrayElemTypeDef;
                return match element {
                    ArrayElemTypeDef::SquareBracket(element, _)
                    | ArrayElemTypeDef::AngleBracket(element)
                    | ArrayElemTypeDef::Parenthesis(element) => type_name(element),
                    ArrayElemTypeDef::None => None,
                };
            }
            _ => return None,
        }
        .to_owned(),
    )
}
