//! Strings where a condition is expected: `b AND 'yes'` is `b AND true`.
//!
//! In PostgreSQL an untyped constant becomes a boolean there; DataFusion refuses a text.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, JoinConstraint, Select, Statement, TableFactor,
    TableWithJoins, UnaryOperator, UpdateTableFromKind, VisitorMut,
};

use crate::casts::parse_bool;
use crate::dialect::ast::{boolean, constraint, literal_text, null};

pub(in crate::dialect) struct Conditions;

impl VisitorMut for Conditions {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        match statement {
            Statement::Update(update) => {
                update.selection.iter_mut().for_each(read);
                if let Some(
                    UpdateTableFromKind::BeforeSet(items) | UpdateTableFromKind::AfterSet(items),
                ) = &mut update.from
                {
                    items.iter_mut().for_each(read_joins);
                }
            }
            Statement::Delete(delete) => {
                delete.selection.iter_mut().for_each(read);
                let items = delete.using.iter_mut().flatten();
                items.for_each(read_joins);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let conditions = [&mut select.selection, &mut select.having];
        conditions.into_iter().flatten().for_each(read);
        select.from.iter_mut().for_each(read_joins);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = factor
        {
            read_joins(table_with_joins);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And | BinaryOperator::Or,
                right,
            } => {
                read(left);
                read(right);
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: inner,
            }
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => read(inner),
            Expr::Case {
                operand: None,
                conditions,
                ..
            } => conditions
                .iter_mut()
                .for_each(|when| read(&mut when.condition)),
            Expr::Function(function) => {
                if let Some(filter) = &mut function.filter {
                    read(filter);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Reads the conditions of an item's joins.
fn read_joins(item: &mut TableWithJoins) {
    for join in &mut item.joins {
        if let Some(JoinConstraint::On(condition)) = constraint(&mut join.join_operator) {
            read(condition);
        }
    }
}

/// Makes a boolean of a condition that is a string. A string that is none gets a cast, which fails
/// with PostgreSQL's error.
fn read(condition: &mut Expr) {
    let Some(text) = literal_text(condition) else {
        return;
    };
    *condition = match parse_bool(text) {
        Ok(value) => boolean(value),
        Err(_) => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(std::mem::replace(condition, null())),
            data_type: DataType::Boolean,
            array: false,
            format: None,
        },
    };
}
