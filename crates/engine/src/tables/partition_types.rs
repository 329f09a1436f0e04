//! Of which type are the values of folders named `key=value`?
//!
//! Integers if every value is one as PostgreSQL would write it, otherwise text: `p=10` is above
//! `p=2`, and `month=01` keeps its zero. A folder that comes later and does not fit is an error of
//! the query that reads it.
//! Bounds: one listing of the table's files, when it is registered.

use arrow::datatypes::DataType;
use datafusion::datasource::listing::helpers::parse_partitions_for_path;
use datafusion::datasource::listing::{ListingOptions, ListingTableUrl};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use futures::TryStreamExt;

/// The options with the types of the partition columns that all files agree with.
///
/// # Errors
/// The store's.
pub(super) async fn typed(
    state: &SessionState,
    url: &ListingTableUrl,
    mut options: ListingOptions,
) -> Result<ListingOptions> {
    if options.table_partition_cols.is_empty() {
        return Ok(options);
    }
    let store = state.runtime_env().object_store(url)?;
    let extension = options.file_extension.clone();
    let files = url.list_all_files(state, store.as_ref(), &extension);
    let mut files = files.await?;
    let mut seen = false;
    let mut integers = vec![true; options.table_partition_cols.len()];
    while let Some(file) = files.try_next().await? {
        let names = options.table_partition_cols.iter();
        let names = names.map(|(name, _)| name.as_str());
        if let Some(values) = parse_partitions_for_path(url, &file.location, names) {
            seen = true;
            for (integer, value) in integers.iter_mut().zip(values) {
                *integer &= is_integer(&value);
            }
        }
    }
    let columns = options.table_partition_cols.iter_mut().zip(integers);
    for ((_, data_type), integer) in columns {
        if seen && integer {
            *data_type = DataType::Int64;
        }
    }
    Ok(options)
}

/// Makes columns text whose types differ from place to place.
pub(super) fn agree<'a>(places: impl Iterator<Item = &'a mut ListingOptions>) {
    let mut places: Vec<&mut ListingOptions> = places.collect();
    let columns = places.iter().map(|place| place.table_partition_cols.len());
    for at in 0..columns.min().unwrap_or(0) {
        let mut types = places.iter().map(|place| &place.table_partition_cols[at].1);
        let first = types.next().cloned();
        if types.any(|other| Some(other) != first.as_ref()) {
            for place in &mut places {
                place.table_partition_cols[at].1 = text();
            }
        }
    }
}

/// The type that DataFusion gives to the values of folders.
fn text() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8))
}

fn is_integer(text: &str) -> bool {
    let number = text.parse::<i64>();
    number.is_ok_and(|number| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_in_one_way() {
        for text in ["0", "10", "-3", "9223372036854775807"] {
            assert!(is_integer(text), "{text}");
        }
        let others = [
            "",
            "01",
            "+1",
            "-0",
            "1.0",
            "1e3",
            " 1",
            "9223372036854775808",
            "a",
        ];
        for text in others {
            assert!(!is_integer(text), "{text}");
        }
    }
}
