//! Which columns does ALTER TABLE leave a table in memory, and where do their values come from?
//!
//! Idea: the changes are made to a list of columns, each with its origin, before a row is looked
//! at. A column that stays is shared by the old and the new batches, not copied.
//! Not here: which change is refused (`statements/alter.rs`), how the new table takes the place of
//! the old one (`table.rs`, `catalogs.rs`).
//! O9: the columns that stay come first, in their order, so that keys find theirs by position.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coscan_pg::PgError;
use datafusion::catalog::TableProvider;
use datafusion::common::{Constraint, Constraints};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

use crate::statement::Check;

/// The columns of a changed table.
#[derive(Debug)]
pub(super) struct Columns {
    columns: Vec<Column>,
    /// The keys of the table as it was.
    keys: Constraints,
    new_keys: Vec<NewKey>,
    /// Those of the table as it was all of whose columns are still there.
    checks: Vec<Check>,
    metadata: HashMap<String, String>,
    /// The old and the new name of a column.
    renamed: Option<(String, String)>,
}

/// A key that the table gets.
#[derive(Debug)]
struct NewKey {
    columns: Vec<String>,
    is_primary: bool,
}

#[derive(Debug)]
struct Column {
    field: Field,
    default: Option<Expr>,
    origin: Origin,
}

/// Where the values of a column come from.
#[derive(Debug)]
enum Origin {
    /// The column of this index of the table as it was.
    Kept(usize),
    /// All rows have the value of this array of one row.
    Given(ArrayRef),
}

impl Columns {
    /// The columns that a table with these keys has.
    pub(super) fn of(table: &dyn TableProvider, keys: Constraints) -> Self {
        let schema = table.schema();
        let columns = schema.fields().iter().enumerate();
        let columns = columns.map(|(at, field)| Column {
            field: field.as_ref().clone(),
            default: table.get_column_default(field.name()).cloned(),
            origin: Origin::Kept(at),
        });
        Self {
            columns: columns.collect(),
            keys,
            new_keys: vec![],
            checks: vec![],
            metadata: schema.metadata().clone(),
            renamed: None,
        }
    }

    /// The columns that a table with these CHECK constraints has.
    pub(super) fn with_checks(self, checks: &[Check]) -> Self {
        let checks = checks.to_vec();
        Self { checks, ..self }
    }

    pub(super) fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Adds CHECK constraints of these columns.
    pub(super) fn add_checks(&mut self, checks: &[Check]) {
        self.checks.extend_from_slice(checks);
    }

    /// Whether there is a column of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// The field of a column.
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        Some(&self.columns[self.position(name)?].field)
    }

    /// The default of a column.
    pub(super) fn default_of(&self, name: &str) -> Option<&Expr> {
        self.columns[self.position(name)?].default.as_ref()
    }

    fn position(&self, name: &str) -> Option<usize> {
        let mut columns = self.columns.iter();
        columns.position(|column| column.field.name() == name)
    }

    /// Adds a column, which has the value of an array of one row in all rows that there are.
    pub(super) fn add(&mut self, field: Field, default: Option<Expr>, value: ArrayRef) {
        self.columns.push(Column {
            field,
            default,
            origin: Origin::Given(value),
        });
    }

    /// Removes a column with the keys that it is part of and the CHECK constraints that read it;
    /// false if there is none of this name. The other columns of a primary key stay NOT NULL, as in
    /// PostgreSQL.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.position(name) else {
            return false;
        };
        self.checks.retain(|check| !check.reads(name));
        let Origin::Kept(gone) = self.columns.remove(at).origin else {
            return true;
        };
        let broken = self.keys.iter().filter_map(|key| match key {
            Constraint::PrimaryKey(key) if key.contains(&gone) => Some(key),
            _ => None,
        });
        for key in broken {
            for column in &mut self.columns {
                if matches!(column.origin, Origin::Kept(other) if key.contains(&other)) {
                    column.field = column.field.clone().with_nullable(false);
                }
            }
        }
        true
    }

    /// Gives a column another name; false if there is none of this name.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<bool> {
        let Some(at) = self.position(from) else {
            return Ok(false);
        };
        for check in &mut self.checks {
            *check = check.with_renamed(from, to)?;
        }
        let column = &mut self.columns[at];
        column.field = column.field.clone().with_name(to);
        self.renamed = Some((from.to_owned(), to.to_owned()));
        Ok(true)
    }

    /// The old and the new name of the column that has another name now.
    pub(super) fn renamed(&self) -> Option<(&str, &str)> {
        let (from, to) = self.renamed.as_ref()?;
        Some((from.as_str(), to.as_str()))
    }

    /// Lets a column have NULL, or not. Nothing happens if there is none of this name.
    pub(super) fn set_nullable(&mut self, name: &str, nullable: bool) {
        if let Some(at) = self.position(name) {
            let column = &mut self.columns[at];
            column.field = column.field.clone().with_nullable(nullable);
        }
    }

    /// Gives a column another default, or none. Nothing happens if there is none of this name.
    pub(super) fn set_default(&mut self, name: &str, default: Option<Expr>) {
        if let Some(at) = self.position(name) {
            self.columns[at].default = default;
        }
    }

    /// Adds a key of these columns. Those of the primary key are NOT NULL.
    pub(super) fn add_key(&mut self, columns: Vec<String>, is_primary: bool) {
        for column in columns.iter().filter(|_| is_primary) {
            self.set_nullable(column, false);
        }
        self.new_keys.push(NewKey {
            columns,
            is_primary,
        });
    }

    /// Whether the rows of the table must be checked for new keys.
    pub(super) fn adds_keys(&self) -> bool {
        !self.new_keys.is_empty()
    }

    /// The positions of the columns of the primary key.
    pub(super) fn primary_key(&self) -> Option<Vec<usize>> {
        let keys = self.constraints();
        keys.iter().find_map(|key| match key {
            Constraint::PrimaryKey(columns) => Some(columns.clone()),
            Constraint::Unique(_) => None,
        })
    }

    /// Whether a column is part of the primary key.
    pub(super) fn is_primary(&self, name: &str) -> bool {
        match (self.position(name), self.primary_key()) {
            (Some(at), Some(key)) => key.contains(&at),
            _ => false,
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|column| column.field.clone());
        let fields: Vec<Field> = fields.collect();
        Arc::new(Schema::new_with_metadata(fields, self.metadata.clone()))
    }

    /// The keys all of whose columns are still there (O9), and the new ones.
    pub(super) fn constraints(&self) -> Constraints {
        let origins = self.columns.iter().map(|column| &column.origin);
        let kept = origins.filter_map(|origin| match origin {
            Origin::Kept(at) => Some(*at),
            Origin::Given(_) => None,
        });
        let kept: Vec<usize> = kept.collect();
        let mut keys = self.keys.project(&kept).unwrap_or_default();
        let new = self.new_keys.iter().map(|key| {
            let columns = key.columns.iter();
            let columns = columns.filter_map(|column| self.position(column)).collect();
            if key.is_primary {
                Constraint::PrimaryKey(columns)
            } else {
                Constraint::Unique(columns)
            }
        });
        keys.extend(Constraints::new_unverified(new.collect()));
        keys
    }

    /// The defaults, by the names of their columns.
    pub(super) fn defaults(&self) -> HashMap<String, Expr> {
        let defaults = self.columns.iter().filter_map(|column| {
            let default = column.default.clone()?;
            Some((column.field.name().clone(), default))
        });
        defaults.collect()
    }

    /// Checks the rows of a batch of the old table for NULL in columns that are NOT NULL, also new
    /// ones.
    ///
    /// # Errors
    /// 23502.
    pub(super) fn check_nulls(&self, table: &str, batch: &RecordBatch) -> Result<()> {
        for Column { field, origin, .. } in &self.columns {
            if field.is_nullable() || batch.num_rows() == 0 {
                continue;
            }
            let has_null = match origin {
                Origin::Kept(at) => batch.column(*at).logical_null_count() > 0,
                Origin::Given(value) => value.is_null(0),
            };
            if has_null {
                return Err(contains_null(field.name(), table).into());
            }
        }
        Ok(())
    }

    /// The rows of a batch of the old table, with these columns, whose schema is `schema`.
    pub(super) fn batch(&self, schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut arrays = Vec::with_capacity(self.columns.len());
        for Column { field, origin, .. } in &self.columns {
            let array = match origin {
                Origin::Kept(at) => Arc::clone(batch.column(*at)),
                Origin::Given(value) => {
                    take(value.as_ref(), &UInt64Array::from_value(0, rows), None)?
                }
            };
            // The names of a list's elements may differ.
            arrays.push(if array.data_type() == field.data_type() {
                array
            } else {
                cast(array.as_ref(), field.data_type())?
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// The error for a table whose rows have NULL in a column that becomes NOT NULL.
pub(super) fn contains_null(column: &str, table: &str) -> PgError {
    let told = format!("column \"{column}\" of relation \"{table}\" contains null values");
    PgError::new("23502", told)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::{DataType, Int32Type};
    use datafusion::catalog::MemTable;
    use datafusion::logical_expr::lit;

    use super::*;

    /// A table (a, b, c) with the keys (a, b), primary, and (c), with a default of b.
    fn columns() -> Columns {
        let fields = ["a", "b", "c"].map(|name| Field::new(name, DataType::Int32, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let keys = vec![
            Constraint::PrimaryKey(vec![0, 1]),
            Constraint::Unique(vec![2]),
        ];
        let defaults = HashMap::from([("b".to_owned(), lit(5))]);
        let table = MemTable::try_new(schema, vec![vec![]]).unwrap();
        let table = table.with_column_defaults(defaults);
        Columns::of(&table, Constraints::new_unverified(keys))
    }

    fn rows() -> RecordBatch {
        let schema = columns().schema();
        let values = [[1, 2], [3, 4], [5, 6]];
        let values = values.map(|of| Arc::new(Int32Array::from(of.to_vec())) as ArrayRef);
        RecordBatch::try_new(schema, values.to_vec()).unwrap()
    }

    /// Names, and values of the rows.
    fn shown(columns: &Columns) -> Vec<(String, Vec<i32>)> {
        let schema = columns.schema();
        let batch = columns.batch(&schema, &rows()).unwrap();
        let fields = schema.fields().iter().zip(batch.columns());
        let shown = fields.map(|(field, values)| {
            let values = values.as_primitive::<Int32Type>().values().to_vec();
            (field.name().clone(), values)
        });
        shown.collect()
    }

    #[test]
    fn a_new_column_has_one_value_in_all_rows() {
        let mut columns = columns();
        let value: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        columns.add(Field::new("d", DataType::Int32, false), Some(lit(7)), value);
        assert_eq!(shown(&columns)[3], ("d".to_owned(), vec![7, 7]));
        assert_eq!(shown(&columns)[0], ("a".to_owned(), vec![1, 2]));
        assert_eq!(columns.constraints().len(), 2);
        assert_eq!(columns.defaults().len(), 2);
        assert!(columns.has("d") && !columns.remove("e"));
    }

    #[test]
    fn a_key_goes_with_a_column_of_it() {
        let mut columns = columns();
        assert!(columns.remove("a"));
        assert_eq!(
            shown(&columns),
            [("b".to_owned(), vec![3, 4]), ("c".to_owned(), vec![5, 6])]
        );
        let keys = columns.constraints();
        assert_eq!(keys[..], [Constraint::Unique(vec![1])]);
        let nullable = columns.schema();
        let nullable = nullable.fields().iter().map(|field| field.is_nullable());
        assert_eq!(nullable.collect::<Vec<_>>(), [false, true]);
        assert!(columns.remove("c") && columns.remove("b"));
        let schema = columns.schema();
        assert_eq!(columns.batch(&schema, &rows()).unwrap().num_rows(), 2);
        assert!(columns.constraints().is_empty());
    }

    #[test]
    fn new_keys_follow_their_columns() {
        let mut columns = columns();
        assert!(columns.remove("a"));
        assert_eq!(columns.primary_key(), None);
        columns.add_key(vec!["c".to_owned(), "b".to_owned()], true);
        columns.add_key(vec!["b".to_owned()], false);
        let keys = columns.constraints();
        let expected = [
            Constraint::Unique(vec![1]),
            Constraint::PrimaryKey(vec![1, 0]),
            Constraint::Unique(vec![0]),
        ];
        assert_eq!(keys[..], expected);
        assert!(columns.adds_keys() && columns.is_primary("b"));
        assert!(!columns.field("c").unwrap().is_nullable());
        columns.check_nulls("t", &rows()).unwrap();
        columns.set_default("b", None);
        assert_eq!(columns.default_of("b"), None);
    }

    #[test]
    fn a_renamed_column_keeps_its_values_keys_and_default() {
        let mut columns = columns();
        assert!(!columns.rename("x", "y").unwrap() && columns.rename("b", "y").unwrap());
        assert_eq!(columns.renamed(), Some(("b", "y")));
        assert_eq!(shown(&columns)[1], ("y".to_owned(), vec![3, 4]));
        assert_eq!(columns.constraints().len(), 2);
        assert_eq!(columns.defaults().keys().collect::<Vec<_>>(), ["y"]);
    }
}
