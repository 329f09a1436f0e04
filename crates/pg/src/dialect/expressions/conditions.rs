//! Strings where a condition is expected: `b AND 'true'` is `b AND 'true'::boolean`.
//!
//! In PostgreSQL an untyped constant becomes a boolean there; DataFusion refuses a text.
//!
//! Not here: the conditions of joins.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Select, Statement, UnaryOperator, VisitorMut,
};

use crate::dialect::ast::{literal_text, null};

pub(in crate::dialect) struct Conditions;

impl VisitorMut for Conditions {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        let condition = match statement {
            Statement::Update(update) => &mut update.selection,
            Statement::Delete(delete) => &mut delete.selection,
            _ => return ControlFlow::Continue(()),
        };
        condition.iter_mut().for_each(read);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let conditions = [&mut select.selection, &mut select.having];
        conditions.into_iter().flatten().for_each(read);
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

/// Casts a condition that is a string.
fn read(condition: &mut Expr) {
    if literal_text(condition).is_some() {
        *condition = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(std::mem::replace(condition, null())),
            data_type: DataType::Boolean,
            array: false,
            format: None,
        };
    }
}
