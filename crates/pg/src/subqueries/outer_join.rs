//! An outer join whose condition has a subquery over both sides.
//!
//! The subquery is evaluated for each pair of rows, so the pairs must exist before the condition
//! is evaluated. The sides are joined on the other conditions alone, and the rows of the preserved
//! side are numbered. Of the pairs of each number, those that meet the condition are kept, or else
//! one, with NULLs for the other side.

use std::sync::Arc;

use datafusion::common::{Column, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Join, Window};
use datafusion::logical_expr::{Expr, LogicalPlan, lit, when};

use super::plans::{column_exprs, filter, join, project, project_as, row_numbers};
use super::{Around, Unnesting, unsupported};

impl Unnesting {
    /// A LEFT or RIGHT JOIN on `pairwise`, which contains subqueries, and on the conditions
    /// `without`.
    pub(super) fn joined_by_pairs(
        &mut self,
        given: Join,
        pairwise: Expr,
        without: Vec<Expr>,
    ) -> Result<LogicalPlan> {
        let (kept, other) = match given.join_type {
            JoinType::Left => (&given.left, &given.right),
            JoinType::Right => (&given.right, &given.left),
            _ => {
                return Err(unsupported(
                    "a subquery over both sides in the condition of a full join",
                ));
            }
        };
        let [row, paired, holds, place] =
            ["__row_", "__paired_", "__holds_", "__place_"].map(|name| self.names.next(name));
        let column = |name: &str| Expr::Column(Column::new_unqualified(name));
        let own = Arc::clone(kept.schema());
        let kept = numbered(row_numbers(vec![], vec![], &row)?, kept.as_ref().clone())?;
        let mut columns = column_exprs(other.schema());
        columns.push(lit(true).alias(&paired));
        let other = project(columns, other.as_ref().clone())?;
        let mut around = Around::from(join(kept, other, JoinType::Left, without)?);
        let condition = self.expression(&mut around, pairwise)?;
        let condition = column(&paired).is_not_null().and(condition).is_true();
        let mut columns = column_exprs(around.plan.schema());
        columns.push(condition.alias(&holds));
        let pairs = project(columns, around.plan)?;
        let first = vec![column(&holds).sort(false, false)];
        let places = row_numbers(vec![column(&row)], first, &place)?;
        let plan = numbered(places, pairs)?;
        let stays = column(&holds).or(column(&place).eq(lit(1_u64)));
        let values = given.schema.iter().map(|qualified| {
            let value = Column::from(qualified);
            match own.has_column(&value) {
                true => Ok(Expr::Column(value)),
                false => when(column(&holds), Expr::Column(value)).end(),
            }
        });
        let values: Vec<Expr> = values.collect::<Result<_>>()?;
        project_as(values, &given.schema, vec![], filter(vec![stays], plan)?)
    }
}

fn numbered(number: Expr, plan: LogicalPlan) -> Result<LogicalPlan> {
    Window::try_new(vec![number], Arc::new(plan)).map(LogicalPlan::Window)
}
