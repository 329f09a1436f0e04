//! How much memory do the batches of a column take together?
//!
//! Idea: batches share memory. Strings that are not copied refer to the page that they were
//! decompressed to, and so do those of the neighbouring batches; all batches of a dictionary refer
//! to the same values. Counting each batch whole would count TPC-H's `o_comment` 2.6 times. So
//! each batch is compared with the one before it: pages are shared only by neighbours.
//! Not here: the allocator's overhead (`../../memory/process.rs`).

use arrow::array::{Array, ArrayData, ArrayRef};
use arrow::buffer::Buffer;

/// The bytes of an array alone.
pub(in crate::pool) fn bytes_of(array: &ArrayRef) -> u64 {
    bytes_beyond(array, None)
}

/// The bytes of an array that `before` does not share.
pub(super) fn bytes_beyond(array: &ArrayRef, before: Option<&ArrayRef>) -> u64 {
    let mut known = Vec::new();
    if let Some(before) = before {
        known.extend(addresses(&before.to_data()));
    }
    let mut shared = 0;
    for_each_buffer(&array.to_data(), &mut |buffer| {
        let address = buffer.data_ptr().as_ptr().cast_const();
        if known.contains(&address) {
            shared += buffer.capacity();
        } else {
            known.push(address);
        }
    });
    array.get_array_memory_size().saturating_sub(shared) as u64
}

fn addresses(data: &ArrayData) -> Vec<*const u8> {
    let mut all = Vec::new();
    for_each_buffer(data, &mut |buffer| {
        all.push(buffer.data_ptr().as_ptr().cast_const());
    });
    all
}

fn for_each_buffer(data: &ArrayData, each: &mut impl FnMut(&Buffer)) {
    data.buffers().iter().for_each(&mut *each);
    if let Some(nulls) = data.nulls() {
        each(nulls.buffer());
    }
    for child in data.child_data() {
        for_each_buffer(child, each);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
pub(in crate::pool) mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int8Array, Int64Array, StringArray, StringViewArray};
    use arrow::buffer::ScalarBuffer;

    use super::*;

    pub(in crate::pool) const PAGE_BYTES: usize = 100_000;

    /// A page of strings.
    pub(in crate::pool) fn page() -> Buffer {
        Buffer::from(vec![b'x'; PAGE_BYTES])
    }

    /// Ten strings that refer to byte `at` of the page.
    pub(in crate::pool) fn texts_in(page: &Buffer, at: u32) -> ArrayRef {
        let view = u128::from(20_u32) | u128::from(at) << 96 | 0x7878_7878_u128 << 32;
        let views = ScalarBuffer::from(vec![view; 10]);
        Arc::new(StringViewArray::try_new(views, vec![page.clone()], None).unwrap())
    }

    /// Two batches of strings in one page, and a batch in another page.
    #[test]
    fn memory_that_two_batches_share_counts_once() {
        let page_of_two = page();
        let (first, second) = (texts_in(&page_of_two, 0), texts_in(&page_of_two, 50_000));
        let other = texts_in(&page(), 0);
        assert!((100_000..101_000).contains(&bytes_of(&first)));
        assert!((160..1000).contains(&bytes_beyond(&second, Some(&first))));
        assert_eq!(bytes_beyond(&other, Some(&first)), bytes_of(&other));
    }

    #[test]
    fn dictionaries_are_shared_and_numbers_are_not() {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["a value"; 100]));
        let batch = || -> ArrayRef {
            let keys = Int8Array::from(vec![7; 1000]);
            Arc::new(DictionaryArray::new(keys, Arc::clone(&values)))
        };
        let (first, second) = (batch(), batch());
        let shared = bytes_of(&first) - bytes_beyond(&second, Some(&first));
        assert!((700..2000).contains(&shared), "{shared}");
        let numbers = || -> ArrayRef { Arc::new(Int64Array::from(vec![Some(1), None])) };
        let (first, second) = (numbers(), numbers());
        assert_eq!(bytes_beyond(&second, Some(&first)), bytes_of(&second));
    }
}
