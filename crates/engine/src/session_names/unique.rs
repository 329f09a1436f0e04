//! Do the rows of a table keep its primary key and its unique constraints?
//!
//! DataFusion relies on them (it leaves out columns of GROUP BY that a key determines), so a row
//! that breaks one causes wrong answers. Keys are compared before the table changes: an INSERT's
//! with those that the previous INSERT left here, and all keys after an UPDATE of a key column.
//! Not here: NOT NULL (DataFusion's sink, `change/apply.rs`).
//! U1: two rows of a table have no equal keys without NULL; a primary key has no NULL.
//! U2: DataFusion is told only of keys without NULL. It takes the columns of any key for ones that
//! determine a row, but several rows may have NULL in the columns of UNIQUE.
//! Bounds: the table's account holds the keys of all rows.

use std::collections::HashSet;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::row::{RowConverter, SortField};
use coscan_pg::PgError;
use coscan_pg::casts::Target;
use datafusion::common::{Constraint, Constraints};
use datafusion::error::Result;

use super::allowance::Growth;

/// The bytes of an entry in a set of keys, without the key's bytes.
const ENTRY_BYTES: usize = 32;

/// How the error begins for two equal keys.
const TWICE: &str = "duplicate key value violates unique constraint";

/// Checks that the columns of keys have types whose values can be compared by their bytes.
///
/// # Errors
/// 0A000 for a key of a type whose equal values may differ in their bytes.
pub(super) fn check_types(constraints: &Constraints, schema: &SchemaRef) -> Result<()> {
    for column in constraints.iter().flat_map(columns_of) {
        let field = schema.field(*column);
        if !is_comparable(field) {
            let told = format!(
                "a primary key or unique constraint over column \"{}\" of this type is not supported",
                field.name()
            );
            return Err(PgError::new("0A000", told).into());
        }
    }
    Ok(())
}

/// Checks the rows of a table that gets keys.
///
/// # Errors
/// 23505, 23502; 0A000 for types that cannot be compared; `ResourcesExhausted`.
pub(super) fn check_new(
    table: &str,
    constraints: &Constraints,
    schema: &SchemaRef,
    rows: &[Vec<RecordBatch>],
    growth: Growth,
) -> Result<()> {
    check_types(constraints, schema)?;
    let mut keys = Keys::new(constraints, growth);
    let added = keys.add(table, constraints, schema, &rows.iter().flatten());
    added.map_err(|error| {
        let known = PgError::of(&error).filter(|known| known.code() == "23505");
        let told = known.map(|known| {
            known
                .message()
                .replace(TWICE, "could not create unique index")
        });
        told.map_or(error, |told| PgError::new("23505", told).into())
    })
}

/// The constraints whose columns determine a row (U2).
pub(super) fn determining(constraints: &Constraints, schema: &SchemaRef) -> Constraints {
    let has_no_null = |columns: &[usize]| {
        let mut columns = columns.iter();
        columns.all(|column| !schema.field(*column).is_nullable())
    };
    let told = constraints.iter().filter(|constraint| match constraint {
        Constraint::PrimaryKey(_) => true,
        Constraint::Unique(columns) => has_no_null(columns),
    });
    Constraints::new_unverified(told.cloned().collect())
}

fn columns_of(constraint: &Constraint) -> &[usize] {
    match constraint {
        Constraint::PrimaryKey(columns) | Constraint::Unique(columns) => columns,
    }
}

/// Whether values are equal if and only if their bytes are.
fn is_comparable(field: &Field) -> bool {
    let is_exact = match field.data_type() {
        DataType::Decimal128(..) | DataType::Decimal256(..) => true,
        other => other.is_integer() || other.is_temporal() || matches!(other, DataType::Boolean),
    };
    let interval = matches!(field.data_type(), DataType::Interval(_));
    let is_text = field.data_type().is_string()
        && matches!(
            Target::of_field(field),
            Some(Target::Text | Target::Varchar(_) | Target::Uuid)
        );
    (is_exact && !interval) || is_text
}

/// The keys of a table's rows.
#[derive(Debug)]
pub(super) struct Keys {
    /// The keys of each constraint.
    seen: Vec<HashSet<Box<[u8]>>>,
    growth: Growth,
}

impl Keys {
    /// An empty set of keys.
    pub(super) fn new(constraints: &Constraints, growth: Growth) -> Self {
        Self {
            seen: vec![HashSet::new(); constraints.iter().len()],
            growth,
        }
    }

    /// Adds the keys of more rows. After an error the set belongs to no table and must be dropped.
    ///
    /// # Errors
    /// 23505, 23502; `ResourcesExhausted` if there is no memory for the keys.
    pub(super) fn add<'a>(
        &mut self,
        table: &str,
        constraints: &Constraints,
        schema: &SchemaRef,
        batches: &(impl Iterator<Item = &'a RecordBatch> + Clone),
    ) -> Result<()> {
        let Self { seen, growth } = self;
        for (constraint, seen) in constraints.iter().zip(seen) {
            add(table, constraint, schema, batches, seen, growth)?;
        }
        Ok(())
    }
}

/// Whether one of these columns is part of a key.
pub(super) fn has_key_of(constraints: &Constraints, changed: &[usize]) -> bool {
    let mut keys = constraints.iter().flat_map(columns_of);
    keys.any(|column| changed.contains(column))
}

fn add<'a>(
    table: &str,
    constraint: &Constraint,
    schema: &SchemaRef,
    batches: &(impl Iterator<Item = &'a RecordBatch> + Clone),
    seen: &mut HashSet<Box<[u8]>>,
    growth: &mut Growth,
) -> Result<()> {
    let columns = columns_of(constraint);
    let types = columns
        .iter()
        .map(|column| schema.field(*column).data_type());
    let types = types.map(|data_type| SortField::new(data_type.clone()));
    let converter = RowConverter::new(types.collect())?;
    let names: Vec<&str> = columns
        .iter()
        .map(|column| schema.field(*column).name().as_str())
        .collect();
    for batch in batches.clone() {
        let keys: Vec<ArrayRef> = columns
            .iter()
            .map(|column| batch.column(*column).clone())
            .collect();
        let rows = converter.convert_columns(&keys)?;
        growth.add(rows.size() + rows.num_rows() * ENTRY_BYTES)?;
        for (at, row) in rows.iter().enumerate() {
            if let Some(null) = keys.iter().position(|key| key.is_null(at)) {
                if matches!(constraint, Constraint::PrimaryKey(_)) {
                    return Err(null_in(names[null], table));
                }
            } else if !seen.insert(row.data().into()) {
                return Err(twice(table, constraint, &names));
            }
        }
    }
    Ok(())
}

fn null_in(column: &str, table: &str) -> datafusion::error::DataFusionError {
    let told = format!(
        "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
    );
    PgError::new("23502", told).into()
}

fn twice(
    table: &str,
    constraint: &Constraint,
    names: &[&str],
) -> datafusion::error::DataFusionError {
    let name = match constraint {
        Constraint::PrimaryKey(_) => format!("{table}_pkey"),
        Constraint::Unique(_) => format!("{table}_{}_key", names.join("_")),
    };
    let told = format!("{TWICE} \"{name}\"");
    PgError::new("23505", told).into()
}
