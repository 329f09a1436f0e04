//! How are EXISTS, IN, ANY and ALL evaluated where they stand?
//!
//! The subquery becomes a plan and conditions ([`Prepared`]): its rows for an outer row are those
//! that meet the conditions. A predicate that is a whole condition of WHERE becomes a semi or an
//! anti join; elsewhere it becomes an expression over the marks of mark joins, or over a number
//! that is computed for each d of a domain (`domain.rs`). `x op ANY` is true if the comparison is
//! true for some row, else NULL if it is NULL for some row, else false; `x op ALL` is the same with
//! true and false exchanged.
//!
//! Whatever does not depend on the outer row is computed once, by a scalar subquery.

use std::sync::Arc;

use datafusion::common::{
    Column, JoinType, NullEquality, ScalarValue, Spans, internal_datafusion_err,
};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::SetQuantifier;
use datafusion::logical_expr::logical_plan::{Aggregate, Join, JoinConstraint, Limit};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, lit, when,
};

use super::domain::{Domain, largest, push};
use crate::once::is_volatile;
use crate::subqueries::Around;
use crate::subqueries::plans::{
    Names, aliased, column_exprs, columns, filter, has_outer, join, outer_to_columns, project,
};
use crate::subqueries::pulled::{Asked, Pulled, is_movable, pull};
use crate::subqueries::references::{correlated, free, holds, subquery, subquery_of};

/// EXISTS, or a comparison with a subquery's column.
pub(in crate::subqueries) enum Predicate {
    Exists,
    Compare {
        left: Expr,
        op: Operator,
        quantifier: SetQuantifier,
    },
}

/// A subquery's rows, under unique names, and the conditions that select those of an outer row.
pub(in crate::subqueries) struct Prepared {
    pub(in crate::subqueries) plan: LogicalPlan,
    /// The subquery's columns, as expressions over the plan and the relation around it.
    pub(in crate::subqueries) outputs: Vec<Expr>,
    pub(in crate::subqueries) conditions: Vec<Expr>,
}

/// Prepares a correlated subquery.
pub(in crate::subqueries) fn prepare(
    around: &mut Around,
    plan: &LogicalPlan,
    asked: Asked,
    names: &mut Names,
) -> Result<Prepared> {
    if let Some(pulled) = pull(plan, asked, names)?
        && (asked != Asked::Rows || !pulled.outputs.iter().any(has_outer))
    {
        let pulled = match asked {
            Asked::Rows => pulled.computed(names)?,
            _ => pulled,
        };
        let Pulled {
            plan,
            outputs,
            conditions,
        } = pulled.sealed(Some(around.plan.schema()), names)?;
        let plain = |exprs: Vec<Expr>| -> Result<Vec<Expr>> {
            exprs.into_iter().map(outer_to_columns).collect()
        };
        return Ok(Prepared {
            plan,
            outputs: plain(outputs)?,
            conditions: plain(conditions)?,
        });
    }
    let d = Domain::of(around, free(plan), names)?;
    let pushed = push(plan.clone(), &d, names)?;
    let own = plan.schema().fields().len();
    let plan = aliased(pushed, &names.next("__sub_"), Some(around.plan.schema()))?;
    let mut outputs = column_exprs(plan.schema());
    let keys: Vec<Column> = plan.schema().columns().split_off(own);
    outputs.truncate(own);
    Ok(Prepared {
        outputs,
        conditions: d.is_outer_in(&keys)?,
        plan,
    })
}

/// Applies a predicate that is a whole condition: keeps the rows of `around` that fulfil it.
/// Returns the condition that remains, if any.
pub(in crate::subqueries) fn restrict(
    around: &mut Around,
    plan: &LogicalPlan,
    predicate: &Predicate,
    negated: bool,
    names: &mut Names,
) -> Result<Option<Expr>> {
    let depends = correlated(plan);
    match predicate {
        Predicate::Exists if depends => {
            let prepared = prepare(around, plan, Asked::Any, names)?;
            let kind = if negated {
                JoinType::LeftAnti
            } else {
                JoinType::LeftSemi
            };
            around.plan = join(
                around.plan.clone(),
                prepared.plan,
                kind,
                prepared.conditions,
            )?;
            around.is_reduced();
            Ok(None)
        }
        Predicate::Compare {
            left,
            op,
            quantifier: SetQuantifier::Any,
        } if !negated && (left.any_column_refs() || depends) => {
            let mut prepared = prepared_set(around, plan, names)?;
            let right = prepared.outputs.swap_remove(0);
            prepared.conditions.insert(0, compared(left, *op, right));
            let kind = JoinType::LeftSemi;
            around.plan = join(
                around.plan.clone(),
                prepared.plan,
                kind,
                prepared.conditions,
            )?;
            around.is_reduced();
            Ok(None)
        }
        Predicate::Compare {
            left,
            op: Operator::NotEq,
            quantifier: SetQuantifier::All,
        } if !negated && !depends && is_key(left) => {
            not_in(around, plan, left, names)?;
            Ok(None)
        }
        Predicate::Compare {
            left,
            op,
            quantifier: SetQuantifier::All,
        } if !negated && depends && left.any_column_refs() => {
            let mut prepared = prepared_set(around, plan, names)?;
            let right = prepared.outputs.swap_remove(0);
            // A row for which the comparison is not true removes the outer row.
            let mut fails = binary_expr(left.clone(), *op, right.clone()).is_not_true();
            let schema = around.plan.schema().join(prepared.plan.schema())?;
            if *op == Operator::NotEq && !left.nullable(&schema)? && !right.nullable(&schema)? {
                fails = left.clone().eq(right);
            }
            prepared.conditions.push(fails);
            let kind = JoinType::LeftAnti;
            around.plan = join(
                around.plan.clone(),
                prepared.plan,
                kind,
                prepared.conditions,
            )?;
            around.is_reduced();
            Ok(None)
        }
        _ => Ok(Some(value(around, plan, predicate, negated, names)?)),
    }
}

/// `left op right`. A row comparison moved into the subquery arrives as `true = comparison`.
fn compared(left: &Expr, op: Operator, right: Expr) -> Expr {
    if op == Operator::Eq && *left == lit(true) {
        return right;
    }
    binary_expr(left.clone(), op, right)
}

/// Like [`prepare`], but an uncorrelated subquery gets no conditions.
fn prepared_set(around: &mut Around, plan: &LogicalPlan, names: &mut Names) -> Result<Prepared> {
    if correlated(plan) {
        return prepare(around, plan, Asked::Set, names);
    }
    let sealed = Pulled {
        plan: plan.clone(),
        outputs: column_exprs(plan.schema()),
        conditions: vec![],
    };
    let Pulled {
        plan,
        outputs,
        conditions,
    } = sealed.sealed(Some(around.plan.schema()), names)?;
    Ok(Prepared {
        plan,
        outputs,
        conditions,
    })
}

/// Whether a value can be the key of a join: it depends on the row, and on no other subquery.
fn is_key(value: &Expr) -> bool {
    value.any_column_refs() && !holds(value, |part| subquery_of(part).is_some())
}

/// Uncorrelated `value NOT IN (SELECT …)`: a null-aware anti join. Its condition is a key from the
/// start: if the optimizer found the value to be constant before it made a key of a condition, a
/// nested loop would join, which is not null-aware.
fn not_in(around: &mut Around, plan: &LogicalPlan, left: &Expr, names: &mut Names) -> Result<()> {
    let mut prepared = prepared_set(around, plan, names)?;
    let right = prepared.outputs.swap_remove(0);
    let nullable =
        left.nullable(around.plan.schema())? || right.nullable(prepared.plan.schema())?;
    around.plan = LogicalPlan::Join(Join::try_new(
        Arc::new(around.plan.clone()),
        Arc::new(prepared.plan),
        vec![(left.clone(), right)],
        None,
        JoinType::LeftAnti,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        nullable,
    )?);
    Ok(())
}

/// Turns a predicate into an expression.
pub(in crate::subqueries) fn value(
    around: &mut Around,
    plan: &LogicalPlan,
    predicate: &Predicate,
    negated: bool,
    names: &mut Names,
) -> Result<Expr> {
    let value = match predicate {
        Predicate::Exists => mark(around, plan, Asked::Any, None, names)?,
        Predicate::Compare {
            left,
            op,
            quantifier,
        } => {
            let all = *quantifier == SetQuantifier::All;
            if is_of_domain(plan, left, names)? {
                ranked(around, plan, (left, *op), all, names)?
            } else {
                marked(around, plan, (left, *op), all, names)?
            }
        }
    };
    Ok(if negated { !value } else { value })
}

/// `left op ANY` (or ALL) as an expression over up to three marks.
fn marked(
    around: &mut Around,
    plan: &LogicalPlan,
    (left, op): (&Expr, Operator),
    all: bool,
    names: &mut Names,
) -> Result<Expr> {
    let decides = |right: Expr| match (all, op) {
        (false, _) => compared(left, op, right),
        // A key of a hash join.
        (true, Operator::NotEq) => compared(left, Operator::Eq, right),
        (true, _) => compared(left, op, right).is_false(),
    };
    let decided = mark(around, plan, Asked::Set, Some(&decides), names)?;
    let mut result = when(decided, lit(!all));
    let is_null = |right: Expr| right.is_null();
    if plan.schema().field(0).is_nullable() {
        let nulls = mark(around, plan, Asked::Set, Some(&is_null), names)?;
        result.when(nulls, unknown());
    }
    if left.nullable(around.plan.schema())? {
        let some = mark(around, plan, Asked::Any, None, names)?;
        result.when(left.clone().is_null().and(some), unknown());
    }
    result.otherwise(lit(all))
}

/// Whether a comparison is evaluated over a domain that has the columns of its left side, too.
fn is_of_domain(plan: &LogicalPlan, left: &Expr, names: &mut Names) -> Result<bool> {
    let outer = free(plan);
    let has_left = left
        .column_refs()
        .iter()
        .all(|column| outer.contains(column));
    Ok(!outer.is_empty()
        && has_left
        && is_movable(left)
        && pull(plan, Asked::Set, names)?.is_none())
}

/// `left op ANY` (or ALL) as the largest rank of a comparison in S(d): 2 decides, 1 is NULL. One
/// join instead of three: each copies the levels below.
fn ranked(
    around: &mut Around,
    plan: &LogicalPlan,
    (left, op): (&Expr, Operator),
    all: bool,
    names: &mut Names,
) -> Result<Expr> {
    let d = Domain::of(around, free(plan), names)?;
    let right = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let compared = compared(&d.in_domain(left)?, op, right);
    let decides = if all {
        compared.clone().is_false()
    } else {
        compared.clone()
    };
    let rank = when(decides, lit(2_i32))
        .when(compared.is_null(), lit(1_i32))
        .otherwise(lit(0_i32))?;
    let found = largest(plan.clone(), rank, &d, names)?;
    let found = aliased(found, &names.next("__ranked_"), Some(around.plan.schema()))?;
    let mut keys = columns(found.schema());
    let rank = keys
        .pop()
        .map(Expr::Column)
        .ok_or_else(|| internal_datafusion_err!("no rank"))?;
    let conditions = d.is_outer_in(&keys)?;
    around.plan = join(around.plan.clone(), found, JoinType::Left, conditions)?;
    when(rank.clone().eq(lit(2_i32)), lit(!all))
        .when(rank.eq(lit(1_i32)), unknown())
        .otherwise(lit(all))
}

fn unknown() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

/// Whether the subquery has a row that meets `such`, as a column of a mark join or a scalar
/// subquery.
fn mark(
    around: &mut Around,
    plan: &LogicalPlan,
    asked: Asked,
    such: Option<&dyn Fn(Expr) -> Expr>,
    names: &mut Names,
) -> Result<Expr> {
    let depends = correlated(plan);
    if !depends {
        let Some(such) = such else {
            return any_row(plan.clone(), names);
        };
        let alone = Expr::Column(Column::new_unqualified("__right"));
        let compares_columns = such(alone).column_refs().len() > 1;
        if !compares_columns {
            let first = Column::from(plan.schema().qualified_field(0));
            let such = filter(vec![such(Expr::Column(first))], plan.clone())?;
            return any_row(such, names);
        }
    }
    let mut prepared = match asked {
        Asked::Any if depends => prepare(around, plan, asked, names)?,
        _ => prepared_set(around, plan, names)?,
    };
    if let Some(such) = such {
        prepared
            .conditions
            .push(such(prepared.outputs.swap_remove(0)));
    }
    // All columns of a prepared plan have the same qualifier, which the mark gets, too.
    let (qualifier, _) = prepared.plan.schema().qualified_field(0);
    let mark = Column::new(qualifier.cloned(), "mark");
    let conditions = prepared.conditions;
    around.plan = join(
        around.plan.clone(),
        prepared.plan,
        JoinType::LeftMark,
        conditions,
    )?;
    Ok(Expr::Column(mark))
}

/// A scalar subquery that is true if the plan has a row.
fn any_row(plan: LogicalPlan, names: &mut Names) -> Result<Expr> {
    // DataFusion runs equal subqueries once, even volatile ones.
    let name = is_volatile(&plan)?.then(|| names.next("any_"));
    let one = LogicalPlan::Limit(Limit {
        skip: None,
        fetch: Some(Box::new(lit(1_i64))),
        input: Arc::new(plan),
    });
    let counted = Aggregate::try_new(Arc::new(one), vec![], vec![count(lit(1_i64))])?;
    let mut counted = LogicalPlan::Aggregate(counted);
    if let Some(name) = name {
        let rows = column_exprs(counted.schema()).swap_remove(0);
        counted = project(vec![rows.alias(name)], counted)?;
    }
    let counted = subquery(counted, &Spans::new());
    Ok(Expr::ScalarSubquery(counted).gt(lit(0_i64)))
}
