//! Which settings are there?
//!
//! Idea: [`SETTINGS`] declares each setting once. SET and RESET, SHOW, the flags of the command
//! line, the check of [`EngineConfig`] and `docs/settings.md` all use this row.
//! Not here: how values are written (`values.rs`), and the code that a setting controls.

use coscan_core::smooth::{AccessPath, SmoothPolicy, SmoothTrigger};
use coscan_core::{Policy, StorageModel};

use super::values::{self, AUTO, UNLIMITED, named, show_switch, switch};
use super::{
    ClusterWidth, EngineConfig, MergeJoins, NamedFolder, Nested, Refusal, Settings, cluster_width,
};
use crate::memory::LIMIT_BY_DEFAULT;
use crate::right::Right;

/// A setting `coscan.*`.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name, without `coscan.`.
    pub name: &'static str,
    /// The values that it may have.
    pub values: Values,
    /// The value that sessions start with unless the engine is configured otherwise.
    pub default: &'static str,
    /// The scope of a change.
    pub applies_to: &'static str,
    /// The effect, as users read it.
    pub help: &'static str,
    /// Changes a session's value.
    pub(super) set: Set<Settings>,
    /// Shows a session's value, in a form that SET accepts.
    pub(super) show: fn(&Settings) -> String,
    /// Changes the value that an engine's sessions start with. A setting with this has a flag.
    pub(super) configure: Option<Set<EngineConfig>>,
}

/// Changes a setting of `T` to the value in a text.
type Set<T> = fn(&mut T, &str) -> Result<(), Refusal>;

/// The values that a setting may have.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these names.
    Names(fn() -> Vec<&'static str>),
    /// `on` or `off`.
    Switch,
    /// A value of this kind, described in words with an example.
    Kind(&'static str),
}

impl Setting {
    /// Whether the engine can be configured with this setting, by a flag or by
    /// [`EngineConfig::set`].
    #[must_use]
    pub fn is_of_engine(&self) -> bool {
        self.configure.is_some()
    }

    /// The possible values, as a list of names or a kind of value.
    #[must_use]
    pub fn values(&self) -> String {
        match self.values {
            Values::Names(names) => names().join(", "),
            Values::Switch => "on, off".to_owned(),
            Values::Kind(kind) => kind.to_owned(),
        }
    }
}

/// The names of all variants of an enum.
macro_rules! names {
    ($variants:ty) => {
        Values::Names(|| <$variants>::ALL.iter().map(|one| one.name()).collect())
    };
}

/// Every setting, in the order in which SHOW lists them.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "policy",
        values: names!(Policy),
        default: "relevance",
        applies_to: NEXT_QUERIES,
        help: "Which scan is served, which chunk is loaded and which is evicted: relevance (what helps most scans first; scans take turns on the cores), relevance-2007 (the paper's, without turns), elevator (one sequential cursor for all), attach (each scan in order, a new one joins a running one), pbm and pbm-sampling (each scan in order, what is needed last is evicted) or normal (each scan by itself, LRU)",
        set: |settings, value| {
            settings.policy = named(value)?;
            Ok(())
        },
        show: |settings| settings.policy.name().to_owned(),
        configure: Some(|config, value| {
            config.policy = named(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "storage_model",
        values: names!(StorageModel),
        default: "dsm",
        applies_to: NEXT_QUERIES,
        help: "What one load brings: nsm (all columns of a chunk) or dsm (the columns that scans need)",
        set: |settings, value| {
            settings.storage_model = named(value)?;
            Ok(())
        },
        show: |settings| settings.storage_model.name().to_owned(),
        configure: Some(|config, value| {
            config.model = named(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "memory",
        values: Values::Kind("a size (2GB, 512MiB) or a share of the machine's memory (50%)"),
        default: "80%, but 320 MiB are left",
        applies_to: "the whole engine, at once",
        help: "Bytes that buffered chunks, decoded columns and operators may use together. Less takes nothing from operators that run: chunks in the buffer go first, operators get no more until they fit again, and scans of which a chunk cannot fit at all fail",
        set: |settings, value| {
            let rights = settings.rights;
            rights.check_setting("coscan.memory", Some(value))?;
            let bytes = match value.trim() {
                LIMIT_BY_DEFAULT => settings.memory_default,
                value => values::memory(value)?,
            };
            settings.budget.set_limit(bytes);
            Ok(())
        },
        show: |settings| settings.budget.limit().to_string(),
        configure: Some(|config, value| {
            config.memory_bytes = Some(values::memory(value)?);
            Ok(())
        }),
    },
    Setting {
        name: "checksums",
        values: Values::Switch,
        default: "on",
        applies_to: "the whole engine, at once",
        help: "Whether the checksums of pages are verified, where files have them",
        set: |settings, value| {
            let verify = match value.trim() {
                LIMIT_BY_DEFAULT => settings.checksums_default,
                value => switch(value)?,
            };
            let rights = settings.rights;
            rights.check_setting("coscan.checksums", Some(value))?;
            settings.budget.verify_checksums(verify);
            Ok(())
        },
        show: |settings| show_switch(settings.budget.verifies_checksums()),
        configure: Some(|config, value| {
            config.checksums = switch(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "chunk_bytes",
        values: Values::Kind("a size from 4KiB to 1GiB"),
        default: "16MiB",
        applies_to: NEXT_QUERIES,
        help: "Target size of a chunk, the unit of scheduling, in bytes on disk over all columns. Queries share reads only with queries of the same chunk size",
        set: |settings, value| {
            settings.chunk_bytes = values::chunk_bytes(value)?;
            Ok(())
        },
        show: |settings| settings.chunk_bytes.to_string(),
        configure: Some(|config, value| {
            config.chunk_bytes = values::chunk_bytes(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "small_table_bytes",
        values: SIZE,
        default: "8MiB",
        applies_to: NEXT_QUERIES,
        help: "Scans that need at most so many bytes, in files and as arrays, are left to DataFusion's own reader",
        set: |settings, value| {
            settings.small_table_bytes = values::bytes(value)?;
            Ok(())
        },
        show: |settings| settings.small_table_bytes.to_string(),
        configure: Some(|config, value| {
            config.small_table_bytes = values::bytes(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "small_plan_bytes",
        values: Values::Kind("a size; 0 is none"),
        default: "4MiB",
        applies_to: NEXT_QUERIES,
        help: "Queries whose scans together need at most so many bytes, in files and as arrays, and at most 200000 rows, run in one partition, without exchanges, however many cores there are. Not: queries that may give many more rows than they read (cross joins, joins without an equality, functions that return rows, recursion, several sets of groups), plans with cooperative scans (more than coscan.small_table_bytes), queries on a cluster, sessions that have changed datafusion.execution.target_partitions",
        set: |settings, value| {
            settings.small_plan_bytes = values::bytes(value)?;
            Ok(())
        },
        show: |settings| settings.small_plan_bytes.to_string(),
        configure: Some(|config, value| {
            config.small_plan_bytes = values::bytes(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "cooperative",
        values: Values::Switch,
        default: "on",
        applies_to: NEXT_QUERIES,
        help: "Whether scans of Parquet tables are scheduled together with other queries' scans (on), or run by themselves with DataFusion's own reader (off)",
        set: |settings, value| {
            settings.cooperative = switch(value)?;
            Ok(())
        },
        show: |settings| show_switch(settings.cooperative),
        configure: Some(|config, value| {
            config.cooperative = switch(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "share_fragments",
        values: Values::Switch,
        default: "on",
        applies_to: NEXT_QUERIES,
        help: "Whether aggregates that stand on a cooperative scan work on a chunk once for all queries that want it (on), or each query for itself (off)",
        set: |settings, value| {
            settings.share_fragments = switch(value)?;
            Ok(())
        },
        show: |settings| show_switch(settings.share_fragments),
        configure: Some(|config, value| {
            config.share_fragments = switch(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "ordered_aggregates",
        values: Values::Switch,
        default: "on",
        applies_to: NEXT_QUERIES,
        help: "Whether GROUP BY the column that a table is sorted by, declared or by its statistics, is done in the table's order, without a hash table (on), or as for any other column (off)",
        set: |settings, value| {
            settings.ordered_aggregates = switch(value)?;
            Ok(())
        },
        show: |settings| show_switch(settings.ordered_aggregates),
        configure: Some(|config, value| {
            config.ordered_aggregates = switch(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "merge_joins",
        values: names!(MergeJoins),
        default: AUTO,
        applies_to: NEXT_QUERIES,
        help: "Whether joins of two tables by what both are sorted by, as their statistics say, are done chunk by chunk, in whatever order the chunks of the larger one come: all (on), those for which a hash join would divide both inputs by hash (auto), or none (off)",
        set: |settings, value| {
            settings.merge_joins = MergeJoins::of(value)?;
            Ok(())
        },
        show: |settings| settings.merge_joins.name().to_owned(),
        configure: Some(|config, value| {
            config.merge_joins = MergeJoins::of(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "share_operators",
        values: Values::Switch,
        default: "on",
        applies_to: NEXT_QUERIES,
        help: "Whether a query joins work that a running query does already, aggregates, sorts, joins and whole queries, as long as it can still get all of its output (on), or does all of its work itself (off)",
        set: |settings, value| {
            settings.share_operators = switch(value)?;
            Ok(())
        },
        show: |settings| show_switch(settings.share_operators),
        configure: Some(|config, value| {
            config.share_operators = switch(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "parallelism",
        values: Values::Kind("auto, or a number from 1"),
        default: AUTO,
        applies_to: "the session's next queries, where a table is on several devices",
        help: "From how many devices a scan reads at a time: auto (as many as other scans, the devices' and the processors' utilisation and memory leave; changed while it runs) or always so many",
        set: |settings, value| {
            settings.parallelism = values::parallelism(value)?;
            Ok(())
        },
        show: |settings| {
            let most = settings.parallelism;
            most.map_or_else(|| AUTO.to_owned(), |most| most.to_string())
        },
        configure: Some(|config, value| {
            config.parallelism = values::parallelism(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "cluster_width",
        values: Values::Kind("size, load, or a number from 1"),
        default: cluster_width::SIZE,
        applies_to: "the session's next queries on a cluster",
        help: "On how many nodes of a cluster a query runs: size (as many as its size asks for), load (fewer while other queries keep the nodes' processors busy, and none that has no memory; what it then reads on fewer nodes others may have in memory) or always so many; EXPLAIN shows the number and the reason",
        set: |settings, value| {
            settings.cluster_width = ClusterWidth::of(value)?;
            Ok(())
        },
        show: |settings| settings.cluster_width.shown(),
        configure: None,
    },
    Setting {
        name: "state_cache",
        values: Values::Kind("a size; 0 is none"),
        default: "1/16 of coscan.memory, at most 64MiB",
        applies_to: NEXT_QUERIES,
        help: "Bytes of partial aggregates of chunks, and as many of results of shared operators, that are kept for queries to come; with 0 this session neither uses nor fills them",
        set: |settings, value| {
            let bytes = values::bytes(value)?;
            if bytes > settings.state_cache_default() {
                settings.rights.require(&[Right::EngineSettings], || {
                    "coscan.state_cache above its default takes memory that all sessions share"
                        .to_owned()
                })?;
            }
            settings.state_cache = Some(bytes);
            Ok(())
        },
        show: |settings| settings.state_cache_bytes().to_string(),
        configure: None,
    },
    Setting {
        name: "access_path",
        values: names!(AccessPath),
        default: "smooth",
        applies_to: "the session's next queries, where an index serves a predicate",
        help: "How rows are found where an index serves the predicate: full (the table is scanned), index (row by row), sort (pages in the table's order), switch (index, then full) or smooth (morphs between them)",
        set: |settings, value| {
            settings.access_path = named(value)?;
            Ok(())
        },
        show: |settings| settings.access_path.name().to_owned(),
        configure: Some(|config, value| {
            config.access_path = named(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "smooth_policy",
        values: names!(SmoothPolicy),
        default: "elastic",
        applies_to: "smooth scans",
        help: "What makes a smooth scan read more or less around a row: greedy (each region is twice the last), selectivity_increase (more where rows are denser than so far) or elastic (more or less)",
        set: |settings, value| {
            settings.smooth_policy = named(value)?;
            Ok(())
        },
        show: |settings| settings.smooth_policy.name().to_owned(),
        configure: None,
    },
    Setting {
        name: "smooth_trigger",
        values: names!(SmoothTrigger),
        default: "eager",
        applies_to: "smooth scans",
        help: "When a smooth scan begins to morph: eager (at once), optimizer (after coscan.smooth_estimate rows) or sla (when coscan.smooth_sla would be in danger)",
        set: |settings, value| {
            settings.smooth_trigger = named(value)?;
            Ok(())
        },
        show: |settings| settings.smooth_trigger.name().to_owned(),
        configure: None,
    },
    Setting {
        name: "smooth_estimate",
        values: Values::Kind("a number of rows"),
        default: "32000",
        applies_to: "the trigger optimizer, and the access path switch",
        help: "Rows that the trigger optimizer and the access path switch fetch one by one first",
        set: |settings, value| {
            settings.smooth_estimate = values::rows(value)?;
            Ok(())
        },
        show: |settings| settings.smooth_estimate.to_string(),
        configure: None,
    },
    Setting {
        name: "smooth_sla",
        values: Values::Kind("a time (500ms, 10s)"),
        default: "10s",
        applies_to: "the trigger sla",
        help: "The time that the trigger sla keeps",
        set: |settings, value| {
            settings.smooth_sla_ms = values::milliseconds(value)?;
            Ok(())
        },
        show: |settings| format!("{}ms", settings.smooth_sla_ms),
        configure: None,
    },
    Setting {
        name: "smooth_region_max",
        values: SIZE,
        default: "16MiB",
        applies_to: "smooth scans",
        help: "Bytes on disk that a smooth scan reads around a row at most",
        set: |settings, value| {
            settings.smooth_region_max = values::bytes(value)?;
            Ok(())
        },
        show: |settings| settings.smooth_region_max.to_string(),
        configure: None,
    },
    Setting {
        name: "smooth_cache",
        values: Values::Kind("a size, or unlimited"),
        default: UNLIMITED,
        applies_to: "smooth scans that give rows in the index's order",
        help: "Bytes of rows that a smooth scan in the index's order keeps in memory until their turn; unlimited: as many as coscan.memory allows. The others wait on disk",
        set: |settings, value| {
            settings.smooth_cache = values::bytes_or_unlimited(value)?;
            Ok(())
        },
        show: |settings| {
            let bytes = settings.smooth_cache;
            bytes.map_or_else(|| UNLIMITED.to_owned(), |bytes| bytes.to_string())
        },
        configure: None,
    },
    Setting {
        name: "index_cache",
        values: Values::Kind("a size; 0 is none"),
        default: "0",
        applies_to: "scans that fetch rows one by one: the access paths index and switch, and smooth scans before their trigger",
        help: "Bytes of decoded pages that a scan keeps while it fetches rows one by one, so that rows of a page that the index names shortly after each other cost one read; at most a quarter of coscan.memory. 0: each page is read for its rows alone, and only these are decoded",
        set: |settings, value| {
            settings.index_cache = values::bytes(value)?;
            Ok(())
        },
        show: |settings| settings.index_cache.to_string(),
        configure: None,
    },
    Setting {
        name: "index_folder",
        values: Values::Kind("a folder or a URL"),
        default: "",
        applies_to: "where the session's next indexes are made, and looked for",
        help: "Where indexes are made and looked for: a folder or a URL; empty for the folder _coscan beside each table's files; default for the one that the engine was started with, which is all that is shown of it to sessions that may not name files",
        set: |settings, value| {
            let value = settings.folder_named(value)?.to_owned();
            let folder = (!value.is_empty()).then(|| NamedFolder::new(&value));
            settings.index_folder = folder.transpose()?;
            Ok(())
        },
        show: Settings::folder_shown,
        configure: Some(|config, value| {
            config.index_folder = (!value.is_empty()).then(|| value.to_owned());
            Ok(())
        }),
    },
    Setting {
        name: "binary_as_string",
        values: Values::Switch,
        default: "off",
        applies_to: "tables that are made from now on; the flag: those of the command line",
        help: "Whether columns of bytes that no writer marked as text are text all the same (on), as in files of old writers, or bytea (off)",
        set: |settings, value| {
            settings.binary_as_string = switch(value)?;
            Ok(())
        },
        show: |settings| show_switch(settings.binary_as_string),
        configure: Some(|config, value| {
            config.binary_as_string = switch(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "nested",
        values: names!(Nested),
        default: "rows",
        applies_to: NEXT_QUERIES,
        help: "How columns that contain structs or maps are answered: rows (PostgreSQL's rows and arrays of rows; a map is an array of rows of key and value) or json",
        set: |settings, value| {
            settings.nested = Nested::of(value)?;
            Ok(())
        },
        show: |settings| settings.nested.name().to_owned(),
        configure: Some(|config, value| {
            config.nested = Nested::of(value)?;
            Ok(())
        }),
    },
    Setting {
        name: "label",
        values: Values::Kind("a text"),
        default: "",
        applies_to: NEXT_QUERIES,
        help: "A name for this session's scans in traces and in coscan.scans",
        set: |settings, value| {
            settings.label = values::label(value)?;
            Ok(())
        },
        show: |settings| settings.label.clone(),
        configure: None,
    },
];

const NEXT_QUERIES: &str = "the session's next queries";

const SIZE: Values = Values::Kind("a size (16MiB, 1.5GB)");
