//! Which facts about the catalog hold for a column of a SELECT?
//!
//! Not here: the simplifications that these facts allow (`folding.rs`).

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    Expr, JoinOperator, ObjectName, ObjectNamePart, Select, TableFactor,
};

use super::facts::{Fact, fact};
use crate::dialect::ast::qualifier;

/// A table of the catalog that a SELECT reads.
struct Read {
    table: String,
    /// Whether an outer join may have added rows in which its columns are NULL.
    outer: bool,
}

/// The tables of the catalog that a SELECT reads, by their qualifiers.
pub(in crate::dialect) struct Scope {
    read: HashMap<String, Read>,
    /// The number of tables and subqueries that the SELECT reads, of the catalog or not.
    factors: usize,
}

impl Scope {
    pub(in crate::dialect) fn of(select: &Select) -> Self {
        let mut scope = Self {
            read: HashMap::new(),
            factors: 0,
        };
        for from in &select.from {
            // From the last join to the first. `outer`: a later join may fill everything to its
            // left with NULLs.
            let mut outer = false;
            for join in from.joins.iter().rev() {
                let (keeps_left, keeps_right) = match &join.join_operator {
                    JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_) => {
                        (true, true)
                    }
                    JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (true, false),
                    JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (false, true),
                    _ => (false, false),
                };
                scope.add(&join.relation, outer || !keeps_right);
                outer |= !keeps_left;
            }
            scope.add(&from.relation, outer);
        }
        scope
    }

    fn add(&mut self, factor: &TableFactor, outer: bool) {
        self.factors += 1;
        if let TableFactor::Table {
            name, args: None, ..
        } = factor
            && let (Some(name), Some(table)) = (qualifier(factor), catalog_table(name))
        {
            self.read.insert(name.to_lowercase(), Read { table, outer });
        }
    }

    /// The table of the catalog that a name refers to, unless an outer join may fill it with
    /// NULLs.
    pub(in crate::dialect) fn table(&self, name: &str) -> Option<&str> {
        let read = self.read.get(&name.to_lowercase())?;
        (!read.outer).then_some(read.table.as_str())
    }

    /// The table of the catalog, if the SELECT reads only it, and no outer join may fill it with
    /// NULLs.
    pub(in crate::dialect) fn only_table(&self) -> Option<&str> {
        let read = self.read.values().next()?;
        (self.factors == 1 && !read.outer).then_some(read.table.as_str())
    }

    /// The fact that holds for a column in every row.
    pub(in crate::dialect) fn fact(&self, expr: &Expr) -> Option<Fact> {
        let (fact, outer) = self.known(expr)?;
        (!outer || fact == Fact::Null).then_some(fact)
    }

    /// The fact that holds for a column wherever it is not NULL.
    pub(in crate::dialect) fn fact_or_null(&self, expr: &Expr) -> Option<Fact> {
        Some(self.known(expr)?.0)
    }

    /// The fact about a column, and whether an outer join may fill it with NULLs. A column without
    /// a qualifier belongs to the only table of the catalog; with several tables it is ambiguous.
    fn known(&self, expr: &Expr) -> Option<(Fact, bool)> {
        let (read, column) = match expr {
            Expr::Nested(inner) => return self.known(inner),
            Expr::CompoundIdentifier(words) => {
                let [.., table, column] = words.as_slice() else {
                    return None;
                };
                (self.read.get(&table.value.to_lowercase())?, column)
            }
            Expr::Identifier(column) => {
                let mut all = self.read.values();
                (all.next().filter(|_| all.next().is_none())?, column)
            }
            _ => return None,
        };
        Some((fact(&read.table, &column.value)?, read.outer))
    }
}

/// The table's name, if it is qualified with `pg_catalog`.
pub(in crate::dialect) fn catalog_table(name: &ObjectName) -> Option<String> {
    let words: Vec<_> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
    match words[..] {
        [.., schema, table] if schema.value.eq_ignore_ascii_case("pg_catalog") => {
            Some(table.value.to_lowercase())
        }
        _ => None,
    }
}
