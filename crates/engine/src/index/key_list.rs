//! Which leaves can hold a key of a list?
//!
//! DataFusion's pruning turns a list into a disjunction with one term per key, and evaluates that
//! recursively. That suits a few keys, and overflows the stack for ten thousand. A leaf has a
//! smallest and a largest key, so a binary search in the sorted list answers the question.
//! Bounds: O(log keys) per leaf.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::{SortOptions, sort};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{InListExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

/// Lists up to this length are pruned by DataFusion.
pub(super) const SHORT_LIST_MAX: usize = 20;

/// The keys of the longer lists among the conjuncts of a predicate over the key alone: ascending,
/// without NULL.
pub(super) fn long_lists(predicate: &Arc<dyn PhysicalExpr>) -> Vec<ArrayRef> {
    let lists = split_conjunction(predicate).into_iter();
    lists.filter_map(keys).collect()
}

fn keys(conjunct: &Arc<dyn PhysicalExpr>) -> Option<ArrayRef> {
    let list = conjunct.downcast_ref::<InListExpr>()?;
    if list.negated() || list.list().len() <= SHORT_LIST_MAX {
        return None;
    }
    let values = list.list().iter();
    let values: Option<Vec<ScalarValue>> = values
        .map(|value| Some(value.downcast_ref::<Literal>()?.value().clone()))
        .collect();
    let values = values?.into_iter().filter(|value| !value.is_null());
    // A list of NULLs only is true for no row; evaluating the predicate finds that out.
    let keys = ScalarValue::iter_to_array(values).ok()?;
    sort(&keys, None).ok()
}

/// For each leaf, whether a key of the list lies between the leaf's smallest and largest key; true
/// if these are unknown.
pub(super) fn may_hold(keys: &ArrayRef, smallest: &ArrayRef, largest: &ArrayRef) -> Vec<bool> {
    let leaves = smallest.len();
    let ascending = SortOptions::default();
    let (Ok(to_smallest), Ok(to_largest)) = (
        make_comparator(keys, smallest, ascending),
        make_comparator(keys, largest, ascending),
    ) else {
        return vec![true; leaves];
    };
    let positions: Vec<usize> = (0..keys.len()).collect();
    let holds = |leaf: usize| {
        if smallest.is_null(leaf) || largest.is_null(leaf) {
            return true;
        }
        let first = positions.partition_point(|key| to_smallest(*key, leaf) == Ordering::Less);
        first < keys.len() && to_largest(first, leaf) != Ordering::Greater
    };
    (0..leaves).map(holds).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::array::{Int32Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{col, in_list, lit};

    use super::*;

    #[test]
    fn a_leaf_is_kept_if_a_key_lies_in_it() {
        let schema = Schema::new(vec![Field::new("key", DataType::Int32, true)]);
        let list = |keys: &[i32]| {
            let values = keys.iter().map(|key| lit(*key)).collect();
            in_list(col("key", &schema).unwrap(), values, &false, &schema).unwrap()
        };
        assert!(long_lists(&list(&[1, 2, 3])).is_empty());
        let many: Vec<i32> = (0..30).rev().map(|key| key * 10).collect();
        let keys = long_lists(&list(&many)).pop().unwrap();
        let leaf =
            |values: [Option<i32>; 6]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
        let smallest = leaf([Some(-9), Some(-9), Some(11), Some(15), Some(291), None]);
        let largest = leaf([Some(-1), Some(0), Some(19), Some(20), Some(400), Some(3)]);
        let holds = may_hold(&keys, &smallest, &largest);
        assert_eq!(holds, [false, true, false, true, false, true]);
        // Bounds of another type give no answer.
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert_eq!(may_hold(&keys, &texts, &texts), [true]);
    }
}
