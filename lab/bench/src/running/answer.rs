//! Are two results the same rows?
//!
//! Everything but floats is compared exactly. A sum of floats depends on the order of the rows,
//! and a cooperative scan delivers rows in any order. Adding up billions of doubles in another
//! order changes the sum by a relative 1e-9 at most; an error in a scan (a chunk lost or counted
//! twice) changes it far more.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// A query's rows, in a comparable form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug)]
enum Cell {
    Exact(String),
    Float(f64),
}

impl Answer {
    /// The rows of all batches.
    pub(crate) fn new(batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let mut rows = Vec::new();
        for batch in batches {
            let columns = batch
                .columns()
                .iter()
                .map(cells)
                .collect::<Result<Vec<_>, ArrowError>>()?;
            for row in 0..batch.num_rows() {
                rows.push(columns.iter().map(|column| column[row].clone()).collect());
            }
        }
        Ok(Self { rows })
    }

    /// The first difference, in words; None if there is none.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        if self.rows.len() != other.rows.len() {
            return Some(format!(
                "{} rows instead of {}",
                self.rows.len(),
                other.rows.len()
            ));
        }
        for (number, (ours, theirs)) in self.rows.iter().zip(&other.rows).enumerate() {
            if ours.len() != theirs.len() || !ours.iter().zip(theirs).all(|(a, b)| a.same(b)) {
                return Some(format!(
                    "row {number} is {} instead of {}",
                    show(ours),
                    show(theirs)
                ));
            }
        }
        None
    }
}

impl Cell {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => {
                a.to_bits() == b.to_bits() || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
            }
            _ => false,
        }
    }
}

fn cells(column: &ArrayRef) -> Result<Vec<Cell>, ArrowError> {
    let float = |row: usize| -> Option<f64> {
        match column.data_type() {
            _ if column.is_null(row) => None,
            DataType::Float64 => Some(column.as_primitive::<Float64Type>().value(row)),
            DataType::Float32 => Some(f64::from(column.as_primitive::<Float32Type>().value(row))),
            _ => None,
        }
    };
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
    Ok((0..column.len())
        .map(|row| {
            float(row).map_or_else(
                || Cell::Exact(formatter.value(row).to_string()),
                Cell::Float,
            )
        })
        .collect())
}

fn show(row: &[Cell]) -> String {
    let cells: Vec<String> = row
        .iter()
        .map(|cell| match cell {
            Cell::Exact(text) => text.clone(),
            Cell::Float(number) => number.to_string(),
        })
        .collect();
    format!("({})", cells.join(", "))
}

/// The largest relative difference between two equal floats.
const TOLERANCE: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array};

    use super::*;

    fn answer(floats: Vec<Option<f64>>, integers: Vec<i64>) -> Answer {
        let floats: ArrayRef = Arc::new(Float64Array::from(floats));
        let integers: ArrayRef = Arc::new(Int64Array::from(integers));
        let batch =
            RecordBatch::try_from_iter_with_nullable([("f", floats, true), ("i", integers, false)]);
        Answer::new(&[batch.unwrap()]).unwrap()
    }

    #[test]
    fn floats_may_differ_in_their_last_digits_and_nothing_else_may() {
        let base = answer(vec![Some(1e12), None], vec![1, 2]);
        assert_eq!(
            base.difference(&answer(vec![Some(1e12 + 100.0), None], vec![1, 2])),
            None
        );
        assert!(
            base.difference(&answer(vec![Some(1e12 + 1e5), None], vec![1, 2]))
                .is_some()
        );
        assert!(
            base.difference(&answer(vec![Some(1e12), Some(0.0)], vec![1, 2]))
                .is_some()
        );
        assert!(
            base.difference(&answer(vec![Some(1e12), None], vec![1, 3]))
                .is_some()
        );
        let text = base.difference(&answer(vec![Some(1e12)], vec![1])).unwrap();
        assert_eq!(text, "2 rows instead of 1");
    }
}
