//! Which of PostgreSQL's settings exist here, and what does SET do with each?
//!
//! Not here: what a value's text means (`values.rs`).

use coscan_pg::PgError;

use super::modes::{ISOLATION, LEVELS, READ_ONLY};

/// One of PostgreSQL's settings. Lookup ignores case.
pub(super) struct Known {
    /// PostgreSQL's spelling.
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) rule: Rule,
    /// Whether changes are reported to clients, as in PostgreSQL.
    pub(super) reported: bool,
}

/// The effect of SET.
pub(super) enum Rule {
    /// The value is kept, without effect.
    Kept,
    /// Only these values, in lower case; all of them mean the default.
    Fixed(&'static [&'static str]),
    /// Describes the server, and cannot be set.
    ReadOnly,
    Timeout,
    Boolean,
    /// One of these values.
    One(&'static [&'static str]),
    /// A keepalive setting of the client's socket.
    Keepalive,
    /// A style of intervals, but not `sql_standard`, in which they are read differently.
    IntervalStyle,
    TimeZone,
    SearchPath,
}

const fn known(name: &'static str, default: &'static str, rule: Rule) -> Known {
    Known {
        name,
        default,
        rule,
        reported: false,
    }
}

const fn reported(name: &'static str, default: &'static str, rule: Rule) -> Known {
    Known {
        name,
        default,
        rule,
        reported: true,
    }
}

/// The value of `server_version`. Clients choose their catalog queries by it, and drivers refuse
/// to talk to a version that they cannot parse.
const SERVER_VERSION: &str = concat!("16.6 (Coscan ", env!("CARGO_PKG_VERSION"), ")");
/// The answer of `version()`. `SQLAlchemy` insists on the first word.
pub const VERSION: &str = concat!("PostgreSQL 16.6 (Coscan ", env!("CARGO_PKG_VERSION"), ")");

/// The least severity of the messages that a client is sent.
pub(super) const MESSAGES: &str = "client_min_messages";
/// From the lowest to the highest, as PostgreSQL accepts them.
const MESSAGE_LEVELS: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning",
    "error",
];
const ENCODINGS: &[&str] = &["utf8", "utf-8", "unicode", "sql_ascii"];
const DATE_STYLES: &[&str] = &["iso", "iso, mdy", "iso,mdy"];
/// Output never has more digits than needed, and fewer would change a value.
const FLOAT_DIGITS: &[&str] = &["1", "2", "3"];
const ON: &[&str] = &["on", "true", "yes", "1"];

pub(super) static KNOWN: &[Known] = &[
    reported("application_name", "", Rule::Kept),
    known("bytea_output", "hex", Rule::Fixed(&["hex"])),
    known(MESSAGES, "notice", Rule::One(MESSAGE_LEVELS)),
    reported("client_encoding", "UTF8", Rule::Fixed(ENCODINGS)),
    reported("DateStyle", "ISO, MDY", Rule::Fixed(DATE_STYLES)),
    known("default_table_access_method", "heap", Rule::ReadOnly),
    known(
        "default_transaction_isolation",
        "read committed",
        Rule::One(LEVELS),
    ),
    reported("default_transaction_read_only", "off", Rule::Boolean),
    known("extra_float_digits", "1", Rule::Fixed(FLOAT_DIGITS)),
    known("idle_in_transaction_session_timeout", "0", Rule::Timeout),
    known("idle_session_timeout", "0", Rule::Timeout),
    reported("in_hot_standby", "off", Rule::ReadOnly),
    reported("integer_datetimes", "on", Rule::ReadOnly),
    reported("IntervalStyle", "postgres", Rule::IntervalStyle),
    reported("is_superuser", "off", Rule::ReadOnly),
    // There is no compiler of expressions to turn on; drivers turn it off.
    known("jit", "off", Rule::Kept),
    known("lc_collate", "C", Rule::ReadOnly),
    known("lc_ctype", "C", Rule::ReadOnly),
    known("lc_messages", "C", Rule::Kept),
    known("lc_monetary", "C", Rule::Kept),
    known("lc_numeric", "C", Rule::Kept),
    known("lc_time", "C", Rule::Kept),
    known("lock_timeout", "0", Rule::Timeout),
    known("max_identifier_length", "63", Rule::ReadOnly),
    known("max_index_keys", "32", Rule::ReadOnly),
    known("row_security", "on", Rule::Kept),
    reported("scram_iterations", "4096", Rule::ReadOnly),
    known("search_path", "\"$user\", public", Rule::SearchPath),
    reported("server_encoding", "UTF8", Rule::ReadOnly),
    reported("server_version", SERVER_VERSION, Rule::ReadOnly),
    known("server_version_num", "160006", Rule::ReadOnly),
    reported("session_authorization", "", Rule::ReadOnly),
    reported("standard_conforming_strings", "on", Rule::Fixed(ON)),
    known("statement_timeout", "0", Rule::Timeout),
    known("synchronous_commit", "on", Rule::Kept),
    known("synchronize_seqscans", "on", Rule::Kept),
    known("tcp_keepalives_count", "6", Rule::Keepalive),
    known("tcp_keepalives_idle", "60", Rule::Keepalive),
    known("tcp_keepalives_interval", "10", Rule::Keepalive),
    known("tcp_user_timeout", "0", Rule::Keepalive),
    reported("TimeZone", "UTC", Rule::TimeZone),
    known(ISOLATION, "read committed", Rule::One(LEVELS)),
    known(READ_ONLY, "off", Rule::Boolean),
    known("work_mem", "4MB", Rule::Kept),
    // PostgreSQL's planner settings have no effect here.
    known("constraint_exclusion", "partition", Rule::Kept),
    known("cpu_index_tuple_cost", "0.005", Rule::Kept),
    known("cpu_operator_cost", "0.0025", Rule::Kept),
    known("cpu_tuple_cost", "0.01", Rule::Kept),
    known("cursor_tuple_fraction", "0.1", Rule::Kept),
    known("default_statistics_target", "100", Rule::Kept),
    known("effective_cache_size", "4GB", Rule::Kept),
    known("effective_io_concurrency", "1", Rule::Kept),
    known("enable_async_append", "on", Rule::Kept),
    known("enable_bitmapscan", "on", Rule::Kept),
    known("enable_gathermerge", "on", Rule::Kept),
    known("enable_hashagg", "on", Rule::Kept),
    known("enable_hashjoin", "on", Rule::Kept),
    known("enable_incremental_sort", "on", Rule::Kept),
    known("enable_indexonlyscan", "on", Rule::Kept),
    known("enable_indexscan", "on", Rule::Kept),
    known("enable_material", "on", Rule::Kept),
    known("enable_memoize", "on", Rule::Kept),
    known("enable_mergejoin", "on", Rule::Kept),
    known("enable_nestloop", "on", Rule::Kept),
    known("enable_parallel_append", "on", Rule::Kept),
    known("enable_parallel_hash", "on", Rule::Kept),
    known("enable_partition_pruning", "on", Rule::Kept),
    known("enable_partitionwise_aggregate", "off", Rule::Kept),
    known("enable_partitionwise_join", "off", Rule::Kept),
    known("enable_presorted_aggregate", "on", Rule::Kept),
    known("enable_seqscan", "on", Rule::Kept),
    known("enable_sort", "on", Rule::Kept),
    known("enable_tidscan", "on", Rule::Kept),
    known("from_collapse_limit", "8", Rule::Kept),
    known("geqo", "on", Rule::Kept),
    known("geqo_effort", "5", Rule::Kept),
    known("geqo_threshold", "12", Rule::Kept),
    known("hash_mem_multiplier", "2", Rule::Kept),
    known("jit_above_cost", "100000", Rule::Kept),
    known("jit_inline_above_cost", "500000", Rule::Kept),
    known("jit_optimize_above_cost", "500000", Rule::Kept),
    known("join_collapse_limit", "8", Rule::Kept),
    known("maintenance_work_mem", "64MB", Rule::Kept),
    known("max_parallel_workers", "8", Rule::Kept),
    known("max_parallel_workers_per_gather", "2", Rule::Kept),
    known("min_parallel_index_scan_size", "512kB", Rule::Kept),
    known("min_parallel_table_scan_size", "8MB", Rule::Kept),
    known("parallel_leader_participation", "on", Rule::Kept),
    known("parallel_setup_cost", "1000", Rule::Kept),
    known("parallel_tuple_cost", "0.1", Rule::Kept),
    known("plan_cache_mode", "auto", Rule::Kept),
    known("random_page_cost", "4", Rule::Kept),
    known("recursive_worktable_factor", "10", Rule::Kept),
    known("seq_page_cost", "1", Rule::Kept),
    known("temp_buffers", "8MB", Rule::Kept),
    known("temp_file_limit", "-1", Rule::Kept),
];

/// The setting of this name.
///
/// # Errors
/// 42704 if there is none.
pub(super) fn find(name: &str) -> Result<&'static Known, PgError> {
    KNOWN
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| unknown(name))
}

pub(super) fn unknown(name: &str) -> PgError {
    let text = format!("unrecognized configuration parameter {name:?}");
    PgError::new("42704", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = KNOWN
            .iter()
            .map(|known| known.name.to_lowercase())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KNOWN.len());
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(find("timezone").unwrap().name, "TimeZone");
        assert_eq!(find("no_such").err().unwrap().code(), "42704");
    }
}
