//! How do keys compare with each other, and with the rows of a batch?

use std::cmp::Ordering;
use std::ops::Bound;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::kernels::cmp;
use arrow::compute::{and, filter_record_batch, not};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

/// A value of a join's key that is not NULL. Only keys of the same column are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key(pub(super) ScalarValue);

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        // The values have the same type, which is not a float, so they have an order.
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl Key {
    /// Whether all keys lie between `low` and `high`, inclusive, and none is NULL.
    ///
    /// # Errors
    /// If they are not of the same type.
    pub(super) fn are_between(keys: &ArrayRef, low: &Self, high: &Self) -> Result<bool> {
        let (low, high) = (low.0.to_scalar()?, high.0.to_scalar()?);
        let out = |below: &BooleanArray| below.true_count() > 0;
        let outside =
            keys.null_count() > 0 || out(&cmp::lt(keys, &low)?) || out(&cmp::gt(keys, &high)?);
        Ok(!outside)
    }

    /// Separates the rows of a batch with this key from the others; `None` for a part without
    /// rows.
    ///
    /// # Errors
    /// As [`Key::are_between`].
    pub(super) fn part(
        &self,
        rows: RecordBatch,
        keys: &ArrayRef,
    ) -> Result<(Option<RecordBatch>, Option<RecordBatch>)> {
        let has_it = cmp::eq(keys, &self.0.to_scalar()?)?;
        Ok(match has_it.true_count() {
            0 => (None, Some(rows)),
            all if all == rows.num_rows() => (Some(rows), None),
            _ => (
                Some(filter_record_batch(&rows, &has_it)?),
                Some(filter_record_batch(&rows, &not(&has_it)?)?),
            ),
        })
    }
}

/// The rows of a batch with keys in an interval; `None` if there are none.
///
/// # Errors
/// As [`Key::are_between`].
pub(super) fn within(
    rows: &RecordBatch,
    keys: &ArrayRef,
    from: &Bound<Key>,
    to: &Bound<Key>,
) -> Result<Option<RecordBatch>> {
    let from = match from {
        Bound::Included(key) => Some(cmp::gt_eq(keys, &key.0.to_scalar()?)?),
        Bound::Excluded(key) => Some(cmp::gt(keys, &key.0.to_scalar()?)?),
        Bound::Unbounded => None,
    };
    let to = match to {
        Bound::Included(key) => Some(cmp::lt_eq(keys, &key.0.to_scalar()?)?),
        Bound::Excluded(key) => Some(cmp::lt(keys, &key.0.to_scalar()?)?),
        Bound::Unbounded => None,
    };
    let wanted = match (from, to) {
        (Some(from), Some(to)) => and(&from, &to)?,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return Ok(Some(rows.clone())),
    };
    Ok(match wanted.true_count() {
        0 => None,
        all if all == rows.num_rows() => Some(rows.clone()),
        _ => Some(filter_record_batch(rows, &wanted)?),
    })
}

/// Whether keys between `low` and `high`, inclusive, may lie in an interval.
pub(super) fn meets(low: &Key, high: &Key, from: &Bound<Key>, to: &Bound<Key>) -> bool {
    let begins = match from {
        Bound::Included(from) => high >= from,
        Bound::Excluded(from) => high > from,
        Bound::Unbounded => true,
    };
    let ends = match to {
        Bound::Included(to) => low <= to,
        Bound::Excluded(to) => low < to,
        Bound::Unbounded => true,
    };
    begins && ends
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;

    fn key(value: i64) -> Key {
        Key(ScalarValue::from(value))
    }

    #[test]
    fn rows_are_separated_by_their_keys() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 3, 3, 7]));
        let rows = RecordBatch::try_from_iter([("k", Arc::clone(&keys))]).unwrap();
        let count = |from, to| {
            let found = within(&rows, &keys, &from, &to).unwrap();
            found.map_or(0, |rows| rows.num_rows())
        };
        assert_eq!(count(Bound::Included(key(3)), Bound::Excluded(key(7))), 2);
        assert_eq!(count(Bound::Excluded(key(3)), Bound::Unbounded), 1);
        assert_eq!(count(Bound::Unbounded, Bound::Included(key(7))), 4);
        assert_eq!(count(Bound::Excluded(key(3)), Bound::Excluded(key(7))), 0);
        assert!(Key::are_between(&keys, &key(1), &key(7)).unwrap());
        assert!(!Key::are_between(&keys, &key(2), &key(7)).unwrap());
        assert!(!Key::are_between(&keys, &key(1), &key(6)).unwrap());
        let (having, others) = key(3).part(rows.clone(), &keys).unwrap();
        assert_eq!(having.unwrap().num_rows(), 2);
        assert_eq!(others.unwrap().num_rows(), 2);
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), None]));
        assert!(!Key::are_between(&nulls, &key(1), &key(7)).unwrap());
    }

    #[test]
    fn keys_that_reach_into_an_interval_meet_it() {
        let meets = |low, high, from, to| meets(&key(low), &key(high), &from, &to);
        assert!(meets(1, 5, Bound::Included(key(5)), Bound::Unbounded));
        assert!(!meets(1, 5, Bound::Excluded(key(5)), Bound::Unbounded));
        assert!(!meets(5, 9, Bound::Unbounded, Bound::Excluded(key(5))));
        assert!(meets(5, 9, Bound::Unbounded, Bound::Included(key(5))));
    }
}
