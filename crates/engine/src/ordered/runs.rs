//! Where does a key begin and end?
//!
//! The rows of a chunk that is in order are runs of equal keys, and keys never descend. Both are
//! checked by comparing each row with the previous one. Keys of fixed width without NULL are
//! compared directly, other keys as bytes that have the same order.
//! ORD-I2: a key that descends is found before anything is concluded from its batch.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, MutableArrayData,
    downcast_primitive_array, make_array,
};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::error::Result;

/// Finds the runs of keys in a chunk, batch by batch.
pub(super) struct Runs {
    options: SortOptions,
    converter: RowConverter,
    /// The key of the last row, in a separate array.
    last: Option<ArrayRef>,
}

/// The result of looking at the keys of a batch.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// The rows that begin a run: their key differs from that of the previous row.
    Begins(Vec<usize>),
    /// A row's key is below that of the previous row.
    Descends,
}

impl Runs {
    /// A state before the first row.
    ///
    /// # Errors
    /// If keys of this type have no order.
    pub(super) fn new(key: &DataType, options: SortOptions) -> Result<Self> {
        let field = SortField::new_with_options(key.clone(), options);
        Ok(Self {
            options,
            converter: RowConverter::new(vec![field])?,
            last: None,
        })
    }

    /// Forgets the rows seen so far.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Looks at the keys of the next rows.
    ///
    /// # Errors
    /// If the keys are not of the type that was given to [`Runs::new`].
    pub(super) fn look_at(&mut self, keys: &ArrayRef) -> Result<Seen> {
        if keys.is_empty() {
            return Ok(Seen::Begins(Vec::new()));
        }
        let last = self.last.take();
        let descending = self.options.descending;
        let nulls = keys.null_count() > 0 || last.as_ref().is_some_and(|last| last.is_null(0));
        let seen = if nulls {
            self.by_bytes(keys, last.as_ref())?
        } else {
            let plain = keys.as_ref();
            downcast_primitive_array!(
                plain => {
                    let last = last.as_ref().map(|last| first_of(plain, last));
                    begins(plain.values(), last.flatten(), descending)
                }
                _ => self.by_bytes(keys, last.as_ref())?
            )
        };
        self.last = Some(owned(&keys.slice(keys.len() - 1, 1))?);
        Ok(seen)
    }

    /// The sort key of the last row.
    ///
    /// # Errors
    /// As [`Runs::look_at`].
    pub(super) fn last(&self) -> Result<Option<OwnedRow>> {
        let last = self.last.as_ref().map(|last| self.place_of(last, 0));
        last.transpose()
    }

    /// The sort key of a row.
    ///
    /// # Errors
    /// As [`Runs::look_at`].
    pub(super) fn place_of(&self, keys: &ArrayRef, row: usize) -> Result<OwnedRow> {
        let rows = self.converter.convert_columns(&[keys.slice(row, 1)])?;
        Ok(rows.row(0).owned())
    }

    /// The sort keys of all rows.
    ///
    /// # Errors
    /// As [`Runs::look_at`].
    pub(super) fn places(&self, keys: &ArrayRef) -> Result<arrow::row::Rows> {
        Ok(self.converter.convert_columns(std::slice::from_ref(keys))?)
    }

    fn by_bytes(&self, keys: &ArrayRef, last: Option<&ArrayRef>) -> Result<Seen> {
        let last = last.map(|last| self.place_of(last, 0)).transpose()?;
        let rows = self.places(keys)?;
        let mut starts = Vec::new();
        let mut before = last.as_ref().map(OwnedRow::row);
        for (at, row) in rows.iter().enumerate() {
            match before.map(|before| before.cmp(&row)) {
                Some(std::cmp::Ordering::Equal) => {}
                Some(std::cmp::Ordering::Greater) => return Ok(Seen::Descends),
                Some(std::cmp::Ordering::Less) | None => starts.push(at),
            }
            before = Some(row);
        }
        Ok(Seen::Begins(starts))
    }
}

/// The first value of an array of the same type as another.
fn first_of<T: ArrowPrimitiveType>(
    _: &arrow::array::PrimitiveArray<T>,
    array: &ArrayRef,
) -> Option<T::Native> {
    array.as_primitive_opt::<T>().map(|array| array.value(0))
}

fn begins<T: ArrowNativeTypeOp>(values: &[T], last: Option<T>, descending: bool) -> Seen {
    let mut starts = Vec::with_capacity(values.len() / 4);
    let mut values = values.iter().enumerate();
    let mut before = match last {
        Some(last) => last,
        None => match values.next() {
            Some((_, first)) => {
                starts.push(0);
                *first
            }
            None => return Seen::Begins(starts),
        },
    };
    for (at, value) in values {
        if value.is_ne(before) {
            if value.is_lt(before) != descending {
                return Seen::Descends;
            }
            starts.push(at);
            before = *value;
        }
    }
    Seen::Begins(starts)
}

/// The same values in separate memory, so that a kept part does not keep the whole batch alive.
pub(super) fn owned(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => {
            let data = array.to_data();
            let mut copy = MutableArrayData::new(vec![&data], false, data.len());
            copy.try_extend(0, 0, data.len())?;
            make_array(copy.freeze())
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn runs(of: &DataType, descending: bool) -> Runs {
        let options = SortOptions {
            descending,
            nulls_first: false,
        };
        Runs::new(of, options).unwrap()
    }

    #[test]
    fn a_run_continues_in_the_next_batch() {
        let mut seen = runs(&DataType::Int64, false);
        let mut look = |keys: Vec<i64>| {
            let keys: ArrayRef = Arc::new(Int64Array::from(keys));
            seen.look_at(&keys).unwrap()
        };
        assert_eq!(look(vec![1, 1, 2]), Seen::Begins(vec![0, 2]));
        assert_eq!(look(vec![2, 2]), Seen::Begins(vec![]));
        assert_eq!(look(vec![]), Seen::Begins(vec![]));
        assert_eq!(look(vec![3, 3, 4]), Seen::Begins(vec![0, 2]));
        assert_eq!(look(vec![4, 3]), Seen::Descends);
    }

    #[test]
    fn nulls_and_words_are_in_order_too() {
        let mut seen = runs(&DataType::Int64, true);
        let mut look = |keys: Vec<Option<i64>>| {
            let keys: ArrayRef = Arc::new(Int64Array::from(keys));
            seen.look_at(&keys).unwrap()
        };
        assert_eq!(look(vec![Some(9), Some(2)]), Seen::Begins(vec![0, 1]));
        assert_eq!(look(vec![Some(2), None, None]), Seen::Begins(vec![1]));
        assert_eq!(look(vec![None]), Seen::Begins(vec![]));
        assert_eq!(look(vec![Some(1)]), Seen::Descends);

        let mut seen = runs(&DataType::Utf8View, false);
        let mut look = |keys: Vec<&str>| {
            let keys: ArrayRef = Arc::new(StringViewArray::from(keys));
            seen.look_at(&keys).unwrap()
        };
        let long = "a word of more than twelve bytes";
        assert_eq!(look(vec!["", "a", long, long]), Seen::Begins(vec![0, 1, 2]));
        assert_eq!(look(vec![long, "b"]), Seen::Begins(vec![1]));
        assert_eq!(look(vec!["a"]), Seen::Descends);
    }
}
