//! Which setting may a session change, and how far?
//!
//! Most options of `datafusion.*` affect only the session's own queries. With some options, one
//! query on any data can take resources that all sessions share: an array of as many elements as
//! the option says, a task for each of a million partitions, a recursion that overflows the stack.
//! Such an option has a range of harmless values, which includes DataFusion's default; other
//! values need the right to engine settings.
//! Not here: Coscan's own settings (`../settings/`).

use std::num::NonZero;

use datafusion::error::Result;

use super::{Right, Rights, denied};
use crate::memory::SPILL_FILE_BYTES;

/// Implements [`Rights::check_setting`].
pub(super) fn check(rights: Rights, name: &str, value: Option<&str>) -> Result<()> {
    if name.starts_with("datafusion.runtime.") {
        return Err(denied(
            format!("{name} would take this session out of the memory that all sessions share"),
            vec![],
        ));
    }
    if name.starts_with("distributed.") {
        return Err(denied(
            format!("{name} is the cluster's own: nodes rely on its value"),
            vec![],
        ));
    }
    match name {
        "coscan.memory" | "coscan.checksums" => rights.require(&[Right::EngineSettings], || {
            format!("{name} is one for all sessions")
        }),
        _ => match (bound(name), value.and_then(number)) {
            (Some(bound), Some(value)) if !bound.admits(value) => {
                rights.require(&[Right::EngineSettings], || {
                    let Bound { least, most, .. } = bound;
                    format!("{name} below {least} or above {most} takes what all sessions share")
                })
            }
            _ => Ok(()),
        },
    }
}

/// `None` if the value is not a number; DataFusion refuses it then.
fn number(value: &str) -> Option<f64> {
    value.trim().parse().ok()
}

/// The range of an option in which it takes no more than a query may take.
struct Bound {
    name: &'static str,
    least: f64,
    most: f64,
}

impl Bound {
    /// Whether a value is harmless. For some options DataFusion's default is the number of cores.
    fn admits(&self, value: f64) -> bool {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let is_default = self.least <= 0.0 && value <= cores as f64;
        is_default || (self.least..=self.most).contains(&value)
    }
}

fn bound(name: &str) -> Option<&'static Bound> {
    BOUNDS.iter().find(|bound| bound.name == name)
}

const fn most(name: &'static str, most: f64) -> Bound {
    Bound {
        name,
        least: 0.0,
        most,
    }
}

const MIB: f64 = 1_048_576.0;

/// The options that have a range of harmless values; on average it reaches ten times DataFusion's
/// default.
const BOUNDS: &[Bound] = &[
    // Rows of a batch, which each operator and decoder holds.
    most("datafusion.execution.batch_size", 131_072.0),
    // Tasks of each operator; a repartition has a channel for each pair of tasks.
    most("datafusion.execution.target_partitions", 256.0),
    most("datafusion.execution.planning_concurrency", 256.0),
    // Requests at a time.
    most("datafusion.execution.meta_fetch_concurrency", 256.0),
    // Memory that each sort sets aside, whatever it sorts.
    most(
        "datafusion.execution.sort_spill_reservation_bytes",
        10.0 * MIB,
    ),
    most(
        "datafusion.execution.sort_in_place_threshold_bytes",
        64.0 * MIB,
    ),
    most(
        "datafusion.execution.sort_pushdown_buffer_capacity",
        1024.0 * MIB,
    ),
    most(
        "datafusion.execution.hash_join_buffering_capacity",
        64.0 * MIB,
    ),
    // An array with an element for each key between the smallest and the largest, even if there
    // are few keys.
    most(
        "datafusion.execution.perfect_hash_join_small_build_threshold",
        1_048_576.0,
    ),
    Bound {
        name: "datafusion.execution.perfect_hash_join_min_key_density",
        least: 0.01,
        most: f64::MAX,
    },
    // A repartition that spills into larger files may hang (`session/ext.rs`) and keep its memory.
    most(SPILL_FILE_BYTES, 1.0),
    most(
        "datafusion.execution.parquet.metadata_size_hint",
        16.0 * MIB,
    ),
    // IN becomes OR, nested as deep as the list is long.
    most("datafusion.execution.parquet.max_in_list_size", 1_000.0),
    // Depth of the parser's recursion.
    most("datafusion.sql_parser.recursion_limit", 50.0),
    most("datafusion.optimizer.max_passes", 16.0),
    // Lists that a join's build side passes to the probe side.
    most(
        "datafusion.optimizer.hash_join_inlist_pushdown_max_size",
        16.0 * MIB,
    ),
    most(
        "datafusion.optimizer.hash_join_inlist_pushdown_max_distinct_values",
        100_000.0,
    ),
];

#[cfg(test)]
mod tests {
    use datafusion::config::ConfigOptions;

    use super::*;

    /// Numeric options that at any value affect only the session's own queries, or only statements
    /// that write.
    const HARMLESS: &[&str] = &[
        "datafusion.execution.max_buffered_batches_per_output_file",
        "datafusion.execution.minimum_parallel_output_files",
        "datafusion.execution.objectstore_writer_buffer_size",
        "datafusion.execution.parquet.bloom_filter_fpp",
        "datafusion.execution.parquet.bloom_filter_ndv",
        "datafusion.execution.parquet.column_index_truncate_length",
        "datafusion.execution.parquet.content_defined_chunking.max_chunk_size",
        "datafusion.execution.parquet.content_defined_chunking.min_chunk_size",
        "datafusion.execution.parquet.content_defined_chunking.norm_level",
        "datafusion.execution.parquet.data_page_row_count_limit",
        "datafusion.execution.parquet.data_pagesize_limit",
        "datafusion.execution.parquet.dictionary_page_size_limit",
        "datafusion.execution.parquet.max_predicate_cache_size",
        "datafusion.execution.parquet.max_row_group_bytes",
        "datafusion.execution.parquet.max_row_group_size",
        "datafusion.execution.parquet.maximum_buffered_record_batches_per_stream",
        "datafusion.execution.parquet.maximum_parallel_row_group_writers",
        "datafusion.execution.parquet.statistics_truncate_length",
        "datafusion.execution.parquet.write_batch_size",
        "datafusion.execution.parquet.writer_version",
        "datafusion.execution.skip_partial_aggregation_probe_ratio_threshold",
        "datafusion.execution.skip_partial_aggregation_probe_rows_threshold",
        "datafusion.execution.soft_max_rows_per_output_file",
        "datafusion.explain.tree_maximum_render_width",
        "datafusion.optimizer.default_filter_selectivity",
        "datafusion.optimizer.hash_join_single_partition_threshold",
        "datafusion.optimizer.hash_join_single_partition_threshold_rows",
        "datafusion.optimizer.preserve_file_partitions",
        "datafusion.optimizer.repartition_file_min_size",
        "datafusion.optimizer.subset_repartition_threshold",
    ];

    /// An option that is new in a version of DataFusion must be added to one list or the other.
    #[test]
    fn every_number_among_the_options_is_bounded_or_harmless() {
        let entries = ConfigOptions::default().entries();
        let numbers: Vec<_> = entries
            .iter()
            .filter(|entry| entry.value.as_deref().is_none_or(|v| number(v).is_some()))
            .map(|entry| entry.key.as_str())
            .filter(|key| !UNSET_TEXTS.contains(key))
            .collect();
        assert!(numbers.len() > 30, "{numbers:?}");
        let unclear = |key: &&&str| HARMLESS.contains(*key) == bound(key).is_some();
        let unclear: Vec<_> = numbers.iter().filter(unclear).collect();
        assert!(unclear.is_empty(), "{unclear:?}");
        for bound in BOUNDS {
            assert!(numbers.contains(&bound.name), "{} is gone", bound.name);
        }
        for key in HARMLESS {
            assert!(numbers.contains(key), "{key} is gone");
        }
    }

    /// Options without a value that are texts; DataFusion does not tell their type.
    const UNSET_TEXTS: &[&str] = &[
        "datafusion.catalog.location",
        "datafusion.catalog.format",
        "datafusion.execution.time_zone",
        "datafusion.execution.parquet.coerce_int96",
        "datafusion.execution.parquet.coerce_int96_tz",
        "datafusion.execution.parquet.encoding",
        "datafusion.format.timestamp_tz_format",
    ];

    #[test]
    fn defaults_are_harmless() {
        // The excluded option has a default of Coscan's, with which a session starts and which
        // RESET restores.
        let entries = ConfigOptions::default().entries();
        for entry in entries.into_iter().filter(|e| e.key != SPILL_FILE_BYTES) {
            let value = entry.value.as_deref();
            assert!(
                check(Rights::NONE, &entry.key, value).is_ok(),
                "{}",
                entry.key
            );
        }
    }

    #[test]
    fn larger_values_need_the_right_and_no_right_allows_the_runtime_options() {
        let name = "datafusion.execution.target_partitions";
        let may = Rights {
            engine_settings: true,
            ..Rights::NONE
        };
        assert!(check(Rights::NONE, name, Some("1000000")).is_err());
        assert!(check(may, name, Some("1000000")).is_ok());
        assert!(check(Rights::NONE, name, None).is_ok());
        assert!(check(Rights::ALL, "datafusion.runtime.memory_limit", None).is_err());
        assert!(check(Rights::ALL, "distributed.compression", Some("x")).is_err());
        assert!(check(Rights::NONE, "coscan.memory", None).is_err());
        assert!(check(may, "coscan.memory", Some("1GiB")).is_ok());
    }
}
