//! `PREPARE p AS SELECT … WHERE t > '2024-01-01 12:00'`: which constants are moments with a time
//! zone, and what are they in the zone in which the statement was prepared?
//!
//! PostgreSQL reads an untyped constant once, when it parses the statement. Here a plan is made a
//! second time when the zone has changed, and moments take the place of the constants that
//!
//! | constants | are found |
//! |---|---|
//! | that are cast to a moment, or compared with one | by the function that reads them |
//! | beside a moment in BETWEEN, IN, ANY, CASE, COALESCE, GREATEST, ARRAY, … | by the others' types |
//! | that INSERT and UPDATE store in a column of moments | by the column's type |
//!
//! Not here: words such as `today`, and constants of arguments (`array_append(a, '…')`), which get
//! their type when the plan is analysed.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, Values, WriteOp};

use super::{Folding, is_written};
use crate::casts::{CAST, PgCast, Target, cast_expr};
use crate::dialect::AS_ARRAY;
use crate::functions::arrays::{ALL, ANY};
use crate::numbers::aggregation::Common;
use crate::operators::is_unknown;
use crate::parameters::bare;
use crate::trees::{PlanTree, Tree};

/// How `planners/time_planner.rs` reads a constant beside a moment (`functions/time/values.rs`).
const MOMENT: &str = "timestamptz_value";

/// Replaces the untyped constants of a plan that are moments with a time zone (`'2024-01-01
/// 12:00'::timestamptz`) by what they are in a session with these settings.
///
/// PostgreSQL reads them when it parses a statement, so that a prepared statement keeps them when
/// the time zone changes.
///
/// # Errors
/// The error of the first constant that is not a moment.
pub fn read_moments(plan: LogicalPlan, options: &Arc<ConfigOptions>) -> Result<LogicalPlan> {
    let folding = Folding::new(Arc::clone(options));
    let plan = match plan {
        LogicalPlan::Dml(change) => LogicalPlan::Dml(folding.stored(change, options)?),
        other => other,
    };
    let read = plan.change_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.change_expressions(|expr| {
            let name = names.save(&expr);
            let read = expr.change_up(|expr| folding.moments(expr, &schema, options))?;
            Ok(read.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(read.data)
}

impl Folding {
    /// Reads the constants that INSERT and UPDATE store in columns of moments.
    fn stored(&self, mut change: DmlStatement, options: &ConfigOptions) -> Result<DmlStatement> {
        let is_projected = matches!(change.input.as_ref(), LogicalPlan::Projection(_));
        if is_projected && matches!(change.op, WriteOp::Insert(_) | WriteOp::Update) {
            let table = change.target.schema();
            let fields = table.fields().iter().enumerate();
            let moments = fields.filter(|(_, field)| is_moment(field.data_type()));
            let moments: Vec<usize> = moments.map(|(at, _)| at).collect();
            change.input = Arc::new(self.columns(&change.input, &moments, options)?);
        }
        Ok(change)
    }

    /// Reads these columns of a plan where they are constants: in projections and rows of VALUES.
    fn columns(
        &self,
        plan: &LogicalPlan,
        columns: &[usize],
        options: &ConfigOptions,
    ) -> Result<LogicalPlan> {
        if columns.is_empty() {
            return Ok(plan.clone());
        }
        match plan {
            LogicalPlan::Projection(given) => {
                let mut items = given.expr.clone();
                let mut below = vec![];
                for at in columns {
                    let Expr::Column(of) = bare(&items[*at]) else {
                        self.item(&mut items[*at], options)?;
                        continue;
                    };
                    let readers = items.iter().filter(|item| item.column_refs().contains(of));
                    if readers.count() == 1 {
                        below.extend(given.input.schema().maybe_index_of_column(of));
                    }
                }
                let input = Arc::new(self.columns(&given.input, &below, options)?);
                Ok(LogicalPlan::Projection(Projection::try_new(items, input)?))
            }
            LogicalPlan::Values(values) => {
                let read = self.rows(values.clone(), columns, options)?;
                Ok(LogicalPlan::Values(read))
            }
            other => Ok(other.clone()),
        }
    }

    /// Reads these columns of VALUES. A column of constants becomes one of moments; in a column
    /// of moments, DataFusion's casts are around the constants.
    fn rows(
        &self,
        mut values: Values,
        columns: &[usize],
        options: &ConfigOptions,
    ) -> Result<Values> {
        let fields = values.schema.iter();
        let fields = fields.map(|(table, field)| (table.cloned(), FieldRef::clone(field)));
        let mut fields: Vec<_> = fields.collect();
        for at in columns {
            let is_open = |row: &Vec<Expr>| is_unknown(&row[*at]) && !has_word(&row[*at]);
            let held = is_moment(values.schema.field(*at).data_type());
            if !held && !values.values.iter().all(is_open) {
                continue;
            }
            for row in &mut values.values {
                self.constant(&mut row[*at], options)?;
            }
            if !held && let Some(row) = values.values.first() {
                let read = row[*at].get_type(&DFSchema::empty())?;
                let field = fields[*at].1.as_ref().clone();
                fields[*at].1 = Arc::new(field.with_data_type(read).with_nullable(true));
            }
        }
        let schema = DFSchema::new_with_metadata(fields, HashMap::new())?;
        values.schema = Arc::new(schema);
        Ok(values)
    }

    /// Reads a projection's item that is a constant, and keeps its name.
    fn item(&self, item: &mut Expr, options: &ConfigOptions) -> Result<()> {
        let name = NamePreserver::new_for_projection().save(item);
        self.constant(item, options)?;
        *item = name.restore(std::mem::take(item));
        Ok(())
    }

    /// Reads an expression that is a constant, apart from an alias and casts of DataFusion's.
    fn constant(&self, expr: &mut Expr, options: &ConfigOptions) -> Result<()> {
        if !is_unknown(bare(expr)) {
            return Ok(());
        }
        let read = std::mem::take(expr).change_up(|mut part| {
            if matches!(part, Expr::Literal(..)) {
                self.beside_moment(&mut part, options)?;
                return Ok(Transformed::yes(part));
            }
            Ok(Transformed::no(part))
        })?;
        *expr = read.data;
        Ok(())
    }

    /// See [`read_moments`].
    fn moments(
        &self,
        expr: Expr,
        schema: &DFSchema,
        options: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let has_moment = |expr: &Expr| {
            let held = expr.get_type(schema);
            held.is_ok_and(|held| is_moment(&held))
        };
        match expr {
            Expr::Between(mut given) if has_moment(&given.expr) => {
                self.beside_moment(&mut given.low, options)?;
                self.beside_moment(&mut given.high, options)?;
                Ok(Transformed::yes(Expr::Between(given)))
            }
            Expr::InList(mut given) if has_moment(&given.expr) => {
                for constant in &mut given.list {
                    self.beside_moment(constant, options)?;
                }
                Ok(Transformed::yes(Expr::InList(given)))
            }
            Expr::ScalarFunction(mut call) if [ANY, ALL].contains(&call.name()) => {
                if let [_, value, array] = call.args.as_mut_slice()
                    && has_moment(value)
                {
                    self.elements(array, options)?;
                }
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            Expr::ScalarFunction(mut call) if call.func.inner().is::<Common>() => {
                self.alike(&mut call, &has_moment, options)?;
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            other => self.moment(other, options),
        }
    }

    /// Reads the constants of CASE, COALESCE, … that stand beside moments.
    fn alike(
        &self,
        call: &mut ScalarFunction,
        has_moment: &dyn Fn(&Expr) -> bool,
        options: &ConfigOptions,
    ) -> Result<()> {
        let Some(common) = call.func.inner().downcast_ref::<Common>() else {
            return Ok(());
        };
        for group in common.alike(call.args.len()) {
            if group.iter().any(|at| has_moment(&call.args[*at])) {
                for at in group {
                    self.beside_moment(&mut call.args[at], options)?;
                }
            }
        }
        Ok(())
    }

    /// Reads an array that is written as a text (`t = ANY ('{…}')`).
    fn elements(&self, array: &mut Expr, options: &ConfigOptions) -> Result<()> {
        if let Expr::ScalarFunction(call) = &*array
            && call.name() == AS_ARRAY
            && let Some(text) = call.args.first()
            && is_unknown(text)
        {
            let mut read = text.clone();
            let target = Target::Array(Box::new(Target::Timestamptz(None)));
            self.read_as(&target, &mut read, options)?;
            if !is_unknown(&read) {
                *array = read;
            }
        }
        Ok(())
    }

    /// Reads an untyped constant beside a moment with a time zone.
    fn beside_moment(&self, constant: &mut Expr, options: &ConfigOptions) -> Result<()> {
        self.read_as(&Target::Timestamptz(None), constant, options)
    }

    /// Reads an untyped constant as a moment, or as an array of them.
    fn read_as(&self, to: &Target, constant: &mut Expr, options: &ConfigOptions) -> Result<()> {
        if is_unknown(constant) && !has_word(constant) {
            let cast = cast_expr(constant.clone(), to, options);
            *constant = self.moment(cast, options)?.data;
        }
        Ok(())
    }

    /// Reads an untyped constant that is cast to a moment with a time zone, or an array of them.
    fn moment(&self, expr: Expr, options: &ConfigOptions) -> Result<Transformed<Expr>> {
        let found = match &expr {
            Expr::ScalarFunction(call) if call.name() == CAST => {
                PgCast::target(&call.args).zip(call.args.first())
            }
            Expr::ScalarFunction(call) if call.name() == MOMENT => {
                let text = call.args.first();
                text.map(|text| (Target::Timestamptz(None), text))
            }
            _ => None,
        };
        let found = found
            .filter(|(target, text)| is_moment_type(target) && is_written(text) && !has_word(text));
        let cast = found.map(|(target, text)| cast_expr(text.clone(), &target, options));
        let Some(cast) = cast else {
            return Ok(Transformed::no(expr));
        };
        let metadata = FieldMetadata::from(cast.to_field(&self.schema)?.1.as_ref());
        Ok(match self.value(&cast)? {
            Some(value) => Transformed::yes(Expr::Literal(value, Some(metadata))),
            None => Transformed::no(expr),
        })
    }
}

/// Whether values of this type are moments with a time zone.
fn is_moment(held: &DataType) -> bool {
    matches!(held, DataType::Timestamp(_, Some(_)))
}

fn is_moment_type(target: &Target) -> bool {
    match target {
        Target::Timestamptz(_) => true,
        Target::Array(element) => is_moment_type(element),
        _ => false,
    }
}

/// Whether a constant, or one of an array of them, is a word such as `now`, which is another moment
/// in each transaction.
fn has_word(constant: &Expr) -> bool {
    match constant {
        Expr::ScalarFunction(array) => array.args.iter().any(has_word),
        Expr::Literal(value, _) => {
            let text = value.try_as_str().flatten();
            text.is_some_and(|text| !text.contains(|part: char| part.is_ascii_digit()))
        }
        _ => false,
    }
}
