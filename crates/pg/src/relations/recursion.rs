//! The column types of WITH RECURSIVE: those of the first term, except that an undeclared numeric
//! accepts the digits of later terms (`declared.rs`).

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::declared::open;
use super::is_number_or_time;
use crate::PgError;
use crate::casts::Target;
use crate::trees::{PlanTree, Tree};

/// Whether a query reads the relation of this name itself, not in a subquery of FROM.
fn names_itself(plan: &LogicalPlan, name: &str) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => scan.table_name.table() == name,
        LogicalPlan::SubqueryAlias(alias) => {
            matches!(*alias.input, LogicalPlan::TableScan(_)) && names_itself(&alias.input, name)
        }
        other => other
            .inputs()
            .into_iter()
            .any(|input| names_itself(input, name)),
    }
}

/// Error 42P19 if the later terms of a recursive query aggregate the query itself, which would
/// never end; 42804 if they have wider types than the first term, to which DataFusion would cast
/// them. The first term's types are those of the work table.
pub(super) fn check_later(name: &str, later: &LogicalPlan) -> Result<()> {
    later.each(|node| match node {
        LogicalPlan::Aggregate(given)
            if !given.aggr_expr.is_empty() && names_itself(&given.input, name) =>
        {
            let message =
                "aggregate functions are not allowed in a recursive query's recursive term";
            Err(PgError::new("42P19", message).into())
        }
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    let mut first: Option<SchemaRef> = None;
    later.each_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && scan.table_name.table() == name
        {
            first = Some(scan.source.schema());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(first) = first else { return Ok(()) };
    let columns = first.fields().iter().zip(later.schema().fields());
    for (at, (own, given)) in (1..).zip(columns) {
        if Some(own.data_type()) == open(given.data_type()).as_ref()
            || own.data_type() == given.data_type()
        {
            continue;
        }
        let (Some(own), Some(given)) = (Target::of_field(own), Target::of_field(given)) else {
            continue;
        };
        if !is_number_or_time(&own) || !is_number_or_time(&given) {
            continue;
        }
        let both = match (&own, &given) {
            (Target::NumericOf(..), Target::NumericOf(..)) => "numeric".to_owned(),
            (Target::Int4 | Target::Int8, Target::Int2) | (Target::Int8, Target::Int4) => continue,
            (Target::Float4 | Target::Float8, other) if *other != Target::Float8 => continue,
            (Target::NumericOf(..), other) if other.is_integer() => continue,
            (Target::Timestamp(_) | Target::Timestamptz(_), Target::Date)
            | (Target::Timestamptz(_), Target::Timestamp(_))
            | (Target::Array(_), _)
            | (_, Target::Array(_)) => continue,
            (own, given) if *own == *given => continue,
            (_, given) => given.name(),
        };
        let own = match own {
            Target::NumericOf(precision, scale) => format!("numeric({precision},{scale})"),
            own => own.name(),
        };
        let message = format!(
            "recursive query \"{name}\" column {at} has type {own} in non-recursive term but type \
             {both} overall"
        );
        return Err(PgError::new("42804", message).into());
    }
    Ok(())
}
