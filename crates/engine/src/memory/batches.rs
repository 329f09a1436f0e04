//! How many rows has a batch at most?
//!
//! Whatever an operator does, it needs memory for a few batches: a sort for one that arrives and
//! for those of a merge, a join and an aggregate for one on its way out, a repartition for one of
//! each output. Batches on their way from one operator to the next are in no account at all. A
//! batch of 8,192 rows often has a megabyte; a hundred of them are two thirds of a memory of 150
//! MiB, and a sort that has spilled all it had does not find room for the next one. So batches are
//! as much smaller as the memory is below half a gigabyte. The limit at the engine's beginning
//! decides: arrays are kept for the batches of later queries.
//! Not here: batches in results, which are the server's.

/// One row in a batch for so many bytes of the limit: 8,192 rows from 512 MiB on.
const LIMIT_PER_ROW: u64 = 64 << 10;
/// Smaller batches would cost more time than they save memory.
const ROWS_MIN: usize = 1024;

/// The most rows of a batch in a memory of this limit, in bytes: a power of two.
pub(crate) fn batch_rows_max(limit: u64) -> usize {
    let rows = usize::try_from(limit / LIMIT_PER_ROW).unwrap_or(usize::MAX);
    match rows.checked_ilog2() {
        Some(power) => (1 << power).max(ROWS_MIN),
        None => ROWS_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_with_the_memory() {
        for (mebibytes, rows) in [(0, 1024), (64, 1024), (150, 2048), (511, 4096), (512, 8192)] {
            assert_eq!(batch_rows_max(mebibytes << 20), rows, "{mebibytes} MiB");
        }
        assert_eq!(batch_rows_max(u64::MAX).count_ones(), 1);
    }
}
