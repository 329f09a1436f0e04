//! Are these the rows of the query?
//!
//! Each row becomes a number, and the numbers are summed and xored. So the order of rows does not
//! matter, but a lost, doubled or changed row does. The expected checksum needs no file or engine:
//! the table's rows are drawn once more from its seed. The checksum is cheap (a multiplication per
//! value), because it is part of the measured time, the same for every access path.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type};

use super::data::{COLUMNS, KEY, Spec};
use crate::random::Random;

/// A set of rows, as three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) rows: u64,
    sum: u64,
    xor: u64,
}

/// Checks rows as they arrive: their checksum, and whether their keys ascend.
pub(crate) struct Checker {
    weights: [u64; COLUMNS],
    checksum: Checksum,
    /// The last key, if keys must ascend.
    last: Option<i32>,
    ordered: bool,
    /// Kept to reuse its memory.
    hashes: Vec<u64>,
}

impl Checksum {
    fn add(&mut self, hash: u64) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash);
        self.xor ^= hash;
    }

    /// The checksum of both sets together.
    fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            sum: self.sum.wrapping_add(other.sum),
            xor: self.xor ^ other.xor,
        }
    }

    /// The first difference from the expected checksum, in words; None if there is none.
    pub(crate) fn difference(&self, expected: &Self) -> Option<String> {
        if self.rows != expected.rows {
            return Some(format!("{} rows instead of {}", self.rows, expected.rows));
        }
        (self != expected).then(|| format!("{} rows, but not the same ones", self.rows))
    }
}

impl Checker {
    /// A checker without rows. `ordered` means that keys must ascend.
    pub(crate) fn new(ordered: bool) -> Self {
        Self {
            weights: weights(),
            checksum: Checksum::default(),
            last: None,
            ordered,
            hashes: Vec::new(),
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// A description of the problem: the columns are not the table's, or keys are out of order.
    pub(crate) fn take(&mut self, batch: &RecordBatch) -> Result<(), String> {
        hash(batch, &self.weights, &mut self.hashes)?;
        for hash in &self.hashes {
            self.checksum.add(*hash);
        }
        if self.ordered {
            let keys = batch.column(KEY).as_primitive::<Int32Type>().values();
            let joint = self.last.into_iter().chain(keys.first().copied());
            if !keys.is_sorted() || !joint.is_sorted() {
                return Err("keys that do not ascend".to_owned());
            }
            self.last = keys.last().copied().or(self.last);
        }
        Ok(())
    }

    /// The checksum of all rows so far.
    pub(crate) fn checksum(&self) -> Checksum {
        self.checksum
    }
}

/// For each of these bounds, the checksum of the table's rows with `c2 < bound`.
pub(crate) fn expected(spec: &Spec, bounds: &[u32]) -> Vec<Checksum> {
    let mut ascending = bounds.to_vec();
    ascending.sort_unstable();
    // Each row counts for the first bound above its key and for all larger bounds.
    let mut parts = vec![Checksum::default(); ascending.len() + 1];
    let weights = weights();
    let mut hashes = Vec::new();
    for batch in spec.batches() {
        hash(&batch, &weights, &mut hashes).expect("the table's own columns");
        let keys = batch.column(KEY).as_primitive::<Int32Type>().values();
        for (key, hash) in keys.iter().zip(&hashes) {
            let first = ascending.partition_point(|bound| i64::from(*bound) <= i64::from(*key));
            parts[first].add(*hash);
        }
    }
    let of = |bound: &u32| {
        let last = ascending.partition_point(|other| other <= bound);
        let below = parts[..last].iter().copied();
        below.fold(Checksum::default(), Checksum::and)
    };
    bounds.iter().map(of).collect()
}

/// A number for each row.
fn hash(
    batch: &RecordBatch,
    weights: &[u64; COLUMNS],
    hashes: &mut Vec<u64>,
) -> Result<(), String> {
    let known = |column: &std::sync::Arc<dyn Array>| {
        *column.data_type() == DataType::Int32 && column.null_count() == 0
    };
    if batch.num_columns() != COLUMNS || !batch.columns().iter().all(known) {
        return Err(format!("other columns: {}", batch.schema()));
    }
    hashes.clear();
    hashes.resize(batch.num_rows(), 0);
    for (column, weight) in batch.columns().iter().zip(weights) {
        let values = column.as_primitive::<Int32Type>().values();
        for (hash, value) in hashes.iter_mut().zip(values.iter()) {
            *hash = hash.wrapping_add(weight.wrapping_mul(u64::from(value.cast_unsigned())));
        }
    }
    for hash in hashes {
        // A weighted sum alone would not notice values that move between rows. Mixing each row's
        // sum prevents that.
        *hash = Random::new(*hash).next_u64();
    }
    Ok(())
}

/// Odd weights, so that no two values of a column weigh the same.
fn weights() -> [u64; COLUMNS] {
    let mut random = Random::new(0);
    [(); COLUMNS].map(|()| random.next_u64() | 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, UInt32Array};
    use arrow::compute::{concat_batches, sort_to_indices, take, take_record_batch};

    use super::*;
    use crate::smooth::data::{Keys, schema};

    const SPEC: Spec = Spec {
        rows: 100_000,
        page_rows: 100,
        seed: 9,
        keys: Keys::Uniform,
    };

    fn rows() -> RecordBatch {
        concat_batches(&schema(), &SPEC.batches().collect::<Vec<_>>()).unwrap()
    }

    fn checked(batches: &[RecordBatch], ordered: bool) -> Result<Checksum, String> {
        let mut checker = Checker::new(ordered);
        batches.iter().try_for_each(|batch| checker.take(batch))?;
        Ok(checker.checksum())
    }

    #[test]
    fn the_order_of_rows_does_not_matter_and_anything_else_does() {
        let all = rows();
        let expected = expected(&SPEC, &[100_001, 0, 100_001])[0];
        assert_eq!(expected.rows, 100_000);
        let same = checked(&[all.slice(700, 99_300), all.slice(0, 700)], false).unwrap();
        assert_eq!(same.difference(&expected), None);

        let lost = checked(&[all.slice(1, 99_999)], false).unwrap();
        assert_eq!(
            lost.difference(&expected).unwrap(),
            "99999 rows instead of 100000"
        );
        let twice = checked(&[all.slice(0, 1), all.slice(0, 99_999)], false).unwrap();
        assert!(
            twice
                .difference(&expected)
                .unwrap()
                .contains("not the same")
        );
        // Every column keeps its values, but those of c8 are in other rows.
        let mut columns = all.columns().to_vec();
        let others = UInt32Array::from_iter_values((0..100_000).map(|row| (row + 1) % 100_000));
        columns[7] = take(&columns[7], &others, None).unwrap();
        let moved = RecordBatch::try_new(all.schema(), columns).unwrap();
        let moved = checked(&[moved], false).unwrap();
        assert!(moved.difference(&expected).is_some());
    }

    #[test]
    fn each_bound_has_the_rows_below_it() {
        let all = rows();
        let bounds = [1, 50_000, 0, 100_001, 1];
        let expected = expected(&SPEC, &bounds);
        for (bound, expected) in bounds.iter().zip(&expected) {
            let keys = all.column(KEY).as_primitive::<Int32Type>().values();
            let below = (0..100_000_u32).filter(|row| keys[*row as usize].cast_unsigned() < *bound);
            let below = UInt32Array::from_iter_values(below);
            let below = take_record_batch(&all, &below).unwrap();
            assert_eq!(checked(&[below], false).unwrap(), *expected, "{bound}");
        }
    }

    #[test]
    fn keys_have_to_ascend_where_they_must_also_between_batches() {
        let all = rows();
        let order = sort_to_indices(all.column(KEY), None, None).unwrap();
        let sorted = take_record_batch(&all, &order).unwrap();
        let (first, second) = (sorted.slice(0, 50_000), sorted.slice(50_000, 50_000));
        let empty = sorted.slice(0, 0);
        assert!(checked(&[first.clone(), empty.clone(), second.clone()], true).is_ok());
        assert!(checked(&[second.clone(), empty, first.clone()], true).is_err());
        assert!(checked(&[second, first], false).is_ok());
        assert!(checked(&[all], true).is_err());
    }

    #[test]
    fn other_columns_are_no_rows_of_the_table() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("c1", column)]).unwrap();
        assert!(
            checked(&[batch], false)
                .unwrap_err()
                .contains("other columns")
        );
    }
}
