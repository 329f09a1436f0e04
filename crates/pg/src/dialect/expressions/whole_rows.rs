//! A relation's name used as a value: its whole row.
//!
//! | from | to |
//! |---|---|
//! | `SELECT t FROM t` | `SELECT t <whole> t.⟨row⟩ AS t FROM (SELECT * FROM t) ⟨rows of t⟩` |
//! | `count(t)` | `count(t <whole> t.⟨row⟩)` |
//! | `count(t.*)`, `(t.*)::text` | `count(t.⟨row⟩)`, `(t.⟨row⟩)::text` |
//! | `t IS NULL` | `fields_null(t <whole> t.⟨row⟩, true)` |
//! | `(t).a` | `(t <whole> t.⟨row⟩) <field> 'a'` |
//! | `t.a[1]` | `a[1]` of `t`, whose name is no value here |
//! | `SELECT *` | `SELECT * EXCLUDE (⟨row⟩)` |
//!
//! The syntax tree does not contain a relation's columns, so planning decides:
//! `relations/whole_rows.rs` adds a column to the relation, its row, and takes the operator's left
//! side if that is a column, otherwise its right side. In the rows that an outer join adds, that
//! column is NULL, as in PostgreSQL.
//!
//! WR1: a relation in FROM sees only the rows of relations to its left. So the query that adds a
//! row to a relation gets no row itself, and the pass ends.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, OrderBy, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins,
    VisitorMut,
};

use crate::functions::FIELDS_NULL;

use crate::dialect::ast::{boolean, call, each_branch, last_word, null, template, text};
use crate::dialect::names::folded;
use crate::names::MARK;
use crate::visits::Walk;

/// The operator between a name and the row that it may refer to.
pub(crate) const WHOLE: &str = "\u{1f}whole";
/// The operator between a row and the name of its field.
pub(crate) const FIELD: &str = "\u{1f}field";
/// The prefix of the alias of a relation whose row is used; the relation's name follows.
pub(crate) const ROWS_OF: &str = "rows\u{1f}";

/// The name of the column that holds a relation's row.
pub(crate) fn row_column(relation: &str) -> String {
    format!("{MARK}{relation}")
}

pub(in crate::dialect) fn rewrite(statement: &mut Statement) {
    let _ = statement.walk(&mut Queries::default());
}

#[derive(Default)]
struct Queries {
    /// Whether the next query is one that [`with_row`] made (WR1).
    adds_row: bool,
}

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.adds_row = match factor {
            TableFactor::Derived { alias, .. } => alias
                .as_ref()
                .is_some_and(|alias| alias.name.value.starts_with(ROWS_OF)),
            _ => false,
        };
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if std::mem::take(&mut self.adds_row) {
            return ControlFlow::Continue(());
        }
        let order_by = query.order_by.as_mut();
        match query.body.as_mut() {
            SetExpr::Select(select) => in_select(select, order_by),
            body => each_branch(body, &mut |branch| {
                if let SetExpr::Select(select) = branch {
                    in_select(select, None);
                }
            }),
        }
        ControlFlow::Continue(())
    }
}

fn in_select(select: &mut Select, order_by: Option<&mut OrderBy>) {
    let relations = relations(select);
    for item in &mut select.projection {
        named(item, &relations);
    }
    let mut whole = Whole {
        relations,
        used: HashSet::new(),
        queries: vec![],
        apart: 0,
        factors: 0,
        passed: HashSet::new(),
    };
    let _ = select.walk(&mut whole);
    if let Some(order_by) = order_by {
        let _ = order_by.walk(&mut whole);
    }
    if whole.used.is_empty() {
        return;
    }
    for item in &mut select.from {
        with_row(&mut item.relation, &whole.used);
        for join in &mut item.joins {
            with_row(&mut join.relation, &whole.used);
        }
    }
    for item in &mut select.projection {
        without_rows(item, &whole.used);
    }
}

/// The relations of FROM whose rows can be named.
fn relations(select: &Select) -> HashSet<String> {
    let factors = select.from.iter().flat_map(|item| {
        std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation))
    });
    factors.filter_map(relation).collect()
}

/// The names that mean something in a query with this FROM, and hide a relation around it.
fn hiding(select: &Select) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut items: Vec<&TableWithJoins> = select.from.iter().collect();
    while let Some(item) = items.pop() {
        let joined = item.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&item.relation).chain(joined) {
            match own_alias(factor) {
                Some(alias) => {
                    names.insert(folded(&alias.name));
                    names.extend(alias.columns.iter().map(|column| folded(&column.name)));
                }
                None => names.extend(relation(factor)),
            }
            if let TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } = factor
            {
                items.push(table_with_joins);
            }
        }
    }
    names
}

fn own_alias(factor: &TableFactor) -> Option<&TableAlias> {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// The name of a relation; `None` if it has none, or is a function, whose name refers to a column.
fn relation(factor: &TableFactor) -> Option<String> {
    let (alias, name) = match factor {
        TableFactor::Table {
            args: None,
            alias,
            name,
            ..
        } => (
            alias.as_ref(),
            name.0.last().and_then(|part| part.as_ident()),
        ),
        TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. } => {
            (alias.as_ref(), None)
        }
        _ => return None,
    };
    let name = folded(alias.map(|alias| &alias.name).or(name)?);
    let is_column = |alias: &TableAlias| alias.columns.iter().any(|it| folded(&it.name) == name);
    (!alias.is_some_and(is_column)).then_some(name)
}

/// A column that is a whole row gets the relation's name.
fn named(item: &mut SelectItem, relations: &HashSet<String>) {
    if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
        && relations.contains(&folded(name))
    {
        *item = SelectItem::ExprWithAlias {
            alias: name.clone(),
            expr: Expr::Identifier(name.clone()),
        };
    }
}

fn with_row(factor: &mut TableFactor, used: &HashSet<String>) {
    let Some(name) = relation(factor).filter(|name| used.contains(name)) else {
        return;
    };
    let Some(mut query) = template("SELECT * FROM t") else {
        return;
    };
    let lateral = matches!(factor, TableFactor::Derived { lateral: true, .. });
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        std::mem::swap(&mut from.relation, factor);
        *factor = TableFactor::Derived {
            lateral,
            subquery: Box::new(query),
            alias: Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', format!("{ROWS_OF}{name}")),
                columns: vec![],
                at: None,
            }),
            sample: None,
        };
    }
}

fn without_rows(item: &mut SelectItem, used: &HashSet<String>) {
    let (options, table) = match item {
        SelectItem::Wildcard(options) => (options, None),
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name),
            options,
        ) => match name.0.last().and_then(|part| part.as_ident()) {
            Some(table) => (options, Some(folded(table))),
            None => return,
        },
        _ => return,
    };
    let hidden = used
        .iter()
        .filter(|name| table.as_ref().is_none_or(|table| table == *name));
    let mut hidden: Vec<ObjectName> = hidden
        .map(|name| ObjectName::from(vec![Ident::with_quote('"', row_column(name))]))
        .collect();
    hidden.sort();
    if !hidden.is_empty() {
        options.opt_exclude = Some(ExcludeSelectItem::Multiple(hidden));
    }
}

/// Replaces the names of relations with their rows.
struct Whole {
    relations: HashSet<String>,
    used: HashSet<String>,
    /// The names of the subqueries around the expression, which hide relations of this query.
    queries: Vec<HashSet<String>>,
    /// The number of relations in FROM around the expression that do not see their siblings.
    apart: usize,
    /// The number of relations in FROM around the expression.
    factors: usize,
    /// The relations of FROM to the left of the relation that is visited.
    passed: HashSet<String>,
}

impl Whole {
    /// The row that a name refers to.
    fn row(&mut self, name: &Ident) -> Option<Expr> {
        let relation = folded(name);
        let is_hidden = self.queries.iter().any(|query| query.contains(&relation));
        let is_later = self.factors > 0 && !self.passed.contains(&relation);
        if self.apart > 0 || is_hidden || is_later || !self.relations.contains(&relation) {
            return None;
        }
        let column = Ident::with_quote('"', row_column(&relation));
        self.used.insert(relation);
        Some(Expr::BinaryOp {
            left: Box::new(Expr::Identifier(name.clone())),
            op: BinaryOperator::Custom(WHOLE.to_owned()),
            right: Box::new(Expr::CompoundIdentifier(vec![name.clone(), column])),
        })
    }

    /// The row that `name.*` is: never a column of the relation's name.
    fn row_of(&mut self, name: &ObjectName) -> Option<Expr> {
        let name = name.0.last().and_then(|part| part.as_ident())?;
        match self.row(name)? {
            Expr::BinaryOp { right: row, .. } => Some(*row),
            _ => None,
        }
    }

    fn is_apart(&self, factor: &TableFactor) -> bool {
        self.queries.is_empty() && matches!(factor, TableFactor::Derived { lateral: false, .. })
    }
}

impl VisitorMut for Whole {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut names = HashSet::new();
        each_branch(&mut query.body, &mut |branch| {
            if let SetExpr::Select(select) = branch {
                names.extend(hiding(select));
            }
        });
        self.queries.push(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.apart += usize::from(self.is_apart(factor));
        self.factors += usize::from(self.queries.is_empty());
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.apart -= usize::from(self.is_apart(factor));
        if self.queries.is_empty() {
            self.factors -= 1;
            self.passed.extend(relation(factor));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundFieldAccess { root, access_chain } = expr {
            qualified(root, access_chain);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => {
                if let Some(row) = self.row(name) {
                    *expr = row;
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                if let Some(field) = field(root, access_chain) {
                    *expr = field;
                }
            }
            Expr::Cast { expr: inner, .. } => {
                if let Expr::QualifiedWildcard(name, _) = unbracketed(inner)
                    && let Some(row) = self.row_of(name)
                {
                    **inner = row;
                }
            }
            Expr::IsNull(inner) if is_row(inner) => *expr = fields_null(inner, true),
            Expr::IsNotNull(inner) if is_row(inner) => *expr = fields_null(inner, false),
            Expr::Function(function) if last_word(&function.name).as_deref() != Some("row") => {
                if let FunctionArguments::List(list) = &mut function.args {
                    for argument in &mut list.args {
                        if let FunctionArg::Unnamed(argument) = argument
                            && let FunctionArgExpr::QualifiedWildcard(name) = argument
                            && let Some(row) = self.row_of(name)
                        {
                            *argument = FunctionArgExpr::Expr(row);
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Makes `t.a` of `t.a[1]` a column's name. The parser reads a subscript, and a field `a` before
/// it, of a value `t`.
fn qualified(root: &mut Expr, access_chain: &mut Vec<AccessExpr>) {
    let Expr::Identifier(first) = root else {
        return;
    };
    let names = access_chain.iter().map_while(|access| match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name.clone()),
        _ => None,
    });
    let names: Vec<Ident> = std::iter::once(first.clone()).chain(names).collect();
    let fields = names.len() - 1;
    if fields > 0 && fields < access_chain.len() {
        access_chain.drain(..fields);
        *root = Expr::CompoundIdentifier(names);
    }
}

/// The field of a row in brackets.
fn field(root: &mut Expr, access_chain: &[AccessExpr]) -> Option<Expr> {
    let is_field = |access: &AccessExpr| matches!(access, AccessExpr::Dot(Expr::Identifier(_)));
    if !matches!(root, Expr::Nested(_)) || !access_chain.iter().all(is_field) {
        return None;
    }
    let mut value = std::mem::replace(root, null());
    for access in access_chain {
        if let AccessExpr::Dot(Expr::Identifier(name)) = access {
            value = Expr::BinaryOp {
                left: Box::new(value),
                op: BinaryOperator::Custom(FIELD.to_owned()),
                right: Box::new(text(&folded(name))),
            };
        }
    }
    Some(value)
}

fn unbracketed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unbracketed(inner),
        other => other,
    }
}

fn is_row(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_row(inner),
        Expr::BinaryOp { op, .. } => matches!(op, BinaryOperator::Custom(name) if name == WHOLE),
        _ => false,
    }
}

fn fields_null(row: &mut Expr, wanted: bool) -> Expr {
    call(
        FIELDS_NULL,
        vec![std::mem::replace(row, null()), boolean(wanted)],
    )
}
