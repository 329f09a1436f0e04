//! Which file does the next row go to?
//!
//! Not here: the order of the rows (`../source.rs`).

/// The approximate number of rows that go to one file before the next file's turn: as many as a
/// chunk of a wide table has, so that a scan finds work on every disk at once.
const RUN_ROWS: usize = 65_536;

/// Each file's turn comes at least this often, if the table has enough pages: a small table is on
/// all disks too.
const TURNS_MIN: u64 = 8;

/// The distribution of rows to files.
pub(super) struct Route {
    files: usize,
    /// The rows that a file gets before the next file's turn.
    run: usize,
    /// Whether the first file follows the last one.
    by_turns: bool,
    /// The number of rows distributed so far.
    rows: usize,
}

impl Route {
    /// Runs of whole pages in turn, shorter for small tables if the number of rows is known.
    pub(super) fn round_robin(files: usize, page_rows: usize, rows_total: Option<u64>) -> Self {
        let share = |total: u64| usize::try_from(total / (files as u64 * TURNS_MIN));
        let rows = rows_total.map_or(RUN_ROWS, |total| share(total).unwrap_or(RUN_ROWS));
        Self {
            files,
            run: page_rows * (rows.min(RUN_ROWS) / page_rows).max(1),
            by_turns: true,
            rows: 0,
        }
    }

    /// Equal consecutive parts of `rows_total` ordered rows.
    pub(super) fn ranges(files: usize, rows_total: u64) -> Self {
        let run = rows_total.div_ceil(files as u64).max(1);
        Self {
            files,
            run: usize::try_from(run).unwrap_or(usize::MAX),
            by_turns: false,
            rows: 0,
        }
    }

    /// The file of the next rows, and how many of these `rows` it gets.
    pub(super) fn next(&mut self, rows: usize) -> (usize, usize) {
        let run = self.rows / self.run;
        let (file, room) = if self.by_turns {
            (run % self.files, self.run - self.rows % self.run)
        } else if run + 1 < self.files {
            (run, self.run - self.rows % self.run)
        } else {
            // Rows beyond the counted number go to the last file too.
            (self.files - 1, usize::MAX)
        };
        let rows = rows.min(room);
        self.rows += rows;
        (file, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut route: Route, batches: &[usize]) -> Vec<(usize, usize)> {
        let mut given = Vec::new();
        for &batch in batches {
            let mut left = batch;
            while left > 0 {
                let (file, rows) = route.next(left);
                given.push((file, rows));
                left -= rows;
            }
        }
        given
    }

    #[test]
    fn runs_come_by_turns_and_ranges_one_after_the_other() {
        let route = Route {
            files: 2,
            run: 10,
            by_turns: true,
            rows: 0,
        };
        assert_eq!(all(route, &[8, 15]), [(0, 8), (0, 2), (1, 10), (0, 3)]);
        let route = Route::ranges(3, 10);
        assert_eq!(all(route, &[6, 6]), [(0, 4), (1, 2), (1, 2), (2, 4)]);
        assert_eq!(Route::round_robin(3, 100, None).run, 65_500);
        assert_eq!(Route::round_robin(3, 100, Some(1 << 40)).run, 65_500);
        assert_eq!(Route::round_robin(3, 100, Some(10_000)).run, 400);
        assert_eq!(Route::round_robin(3, 100, Some(10)).run, 100);
        assert_eq!(Route::round_robin(3, 100_000, None).run, 100_000);
        assert_eq!(all(Route::ranges(4, 0), &[3]), [(0, 1), (1, 1), (2, 1)]);
    }
}
