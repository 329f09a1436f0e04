//! What do access paths cost: full scan, index scan, and smooth scan by mode?
//!
//! Prices are in the unit of `random`, `sequential` and `cpu`. As in the paper, the index leaves
//! that the smooth scan reads in modes 1 and 2 are not counted. Pages are full.
//! Source: [SmoothScan18 §5, eq. 3 to 27].

/// A table, its index, and the prices of its accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// Rows (`#T`).
    pub rows: u64,
    /// Bytes of a row (`T_S`). At least 1, at most `page_bytes`.
    pub row_bytes: u64,
    /// Bytes of a page of table and index (`P_S`).
    pub page_bytes: u64,
    /// Bytes of an index key (`K_S`). At least 1; an index page holds two keys or more.
    pub key_bytes: u64,
    /// Price of a page read alone (`rand_cost`).
    pub random: f64,
    /// Price of a page read right after its predecessor (`seq_cost`).
    pub sequential: f64,
    /// Price of examining a row (`cpu_cost`).
    pub cpu: f64,
}

/// Values that follow from the sizes alone (eq. 3 to 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexShape {
    /// Rows per page (`#T_P`).
    pub rows_per_page: u64,
    /// Pages of the table (`#P`).
    pub pages: u64,
    /// Keys per index page.
    pub fanout: u64,
    /// Leaf pages.
    pub leaves: u64,
    /// Levels, the leaf level included.
    pub height: u32,
}

/// The price of an access path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AccessCost {
    /// The price of the pages read.
    pub io: f64,
    /// The price of the rows examined.
    pub cpu: f64,
}

impl AccessCost {
    /// The sum of both.
    #[must_use]
    pub fn total(self) -> f64 {
        self.io + self.cpu
    }

    fn plus(self, other: Self) -> Self {
        Self {
            io: self.io + other.io,
            cpu: self.cpu + other.cpu,
        }
    }
}

impl CostModel {
    /// Eq. 3 to 7.
    #[must_use]
    pub fn shape(&self) -> IndexShape {
        let rows_per_page = (self.page_bytes / self.row_bytes).max(1);
        // A key takes a fifth more than its bytes, for the pointer.
        let fanout = (self.page_bytes * 10 / (self.key_bytes * 12)).max(2);
        let leaves = self.rows.div_ceil(fanout);
        let mut height = 1;
        let mut reached = 1_u64;
        while reached < leaves {
            reached = reached.saturating_mul(fanout);
            height += 1;
        }
        IndexShape {
            rows_per_page,
            pages: self.rows.div_ceil(rows_per_page),
            fanout,
            leaves,
            height,
        }
    }

    /// Eq. 10 and 11.
    #[must_use]
    pub fn full_scan(&self) -> AccessCost {
        AccessCost {
            io: self.shape().pages as f64 * self.sequential,
            cpu: self.rows as f64 * self.cpu,
        }
    }

    /// Eq. 9, 12 and 13, for `results` rows.
    #[must_use]
    pub fn index_scan(&self, results: u64) -> AccessCost {
        let leaves = results.div_ceil(self.shape().fanout);
        let random = f64::from(self.shape().height) + results as f64;
        AccessCost {
            io: random * self.random + leaves as f64 * self.sequential,
            cpu: (self.descent() + results as f64) * self.cpu,
        }
    }

    /// Rows examined on the way down.
    fn descent(&self) -> f64 {
        let shape = self.shape();
        f64::from(shape.height) * (shape.fanout as f64).log2()
    }

    /// Eq. 16 to 27: the cost of finding the given numbers of result rows in modes 0, 1 and 2.
    #[must_use]
    pub fn smooth_scan(&self, results: [u64; 3]) -> AccessCost {
        let [index, entire_page, flattening] = results;
        let shape = self.shape();
        let with_index = index > 0;
        let mode_0 = AccessCost {
            cpu: (self.descent() + 2.0 * index as f64) * self.cpu,
            ..self.index_scan(index)
        };
        let pages_1 = entire_page.min(shape.pages);
        let mode_1 = AccessCost {
            io: pages_1 as f64 * self.random,
            cpu: self.pages_cpu(pages_1, with_index),
        };
        let pages_2 = flattening.min(shape.pages - pages_1) as f64;
        let jumps = ((shape.pages + 1) as f64).log2().min(pages_2);
        let mode_2 = AccessCost {
            io: jumps * self.random + (pages_2 - jumps) * self.sequential,
            cpu: self.pages_cpu(flattening.min(shape.pages - pages_1), with_index),
        };
        mode_0.plus(mode_1).plus(mode_2)
    }

    /// Eq. 19 and 27.
    fn pages_cpu(&self, pages: u64, with_index: bool) -> f64 {
        let rows = (pages * self.shape().rows_per_page) as f64;
        let again = if with_index { rows } else { 0.0 };
        (rows + 2.0 * pages as f64 + again) * self.cpu
    }

    /// The SLA-driven trigger: the number of rows that can be fetched one by one such that a
    /// smooth scan which begins to morph then, and finds results in every page, still ends within
    /// `sla`. 0 if even a smooth scan that morphs at once does not.
    #[must_use]
    pub fn rows_within(&self, sla: f64) -> u64 {
        let rest = self.shape().pages;
        let cost = |rows: u64| self.smooth_scan([rows, 0, rest]).total();
        let (mut fits, mut fails) = (0, self.rows + 1);
        while fits + 1 < fails {
            let middle = fits + (fails - fits) / 2;
            if cost(middle) <= sla {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million rows of 64 bytes in pages of 8 KiB, an integer key, a hard disk.
    const TABLE: CostModel = CostModel {
        rows: 1_000_000,
        row_bytes: 64,
        page_bytes: 8192,
        key_bytes: 8,
        random: 10.0,
        sequential: 1.0,
        cpu: 0.0001,
    };

    fn near(ours: f64, expected: f64) {
        assert!(
            (ours - expected).abs() <= 1e-9 * expected.abs(),
            "{ours} {expected}"
        );
    }

    #[test]
    fn shapes_follow_from_sizes() {
        let shape = TABLE.shape();
        assert_eq!((shape.rows_per_page, shape.pages), (128, 7_813));
        // 8192 / 9.6 keys; 1173 leaves under two pages under a root.
        assert_eq!((shape.fanout, shape.leaves, shape.height), (853, 1_173, 3));
        let tiny = CostModel { rows: 10, ..TABLE };
        assert_eq!((tiny.shape().leaves, tiny.shape().height), (1, 1));
    }

    #[test]
    fn paths_cost_what_the_equations_say() {
        near(TABLE.full_scan().io, 7_813.0);
        near(TABLE.full_scan().cpu, 100.0);
        near(TABLE.index_scan(1_000).io, 1_003.0 * 10.0 + 2.0);
        let descent = 3.0 * 853_f64.log2();
        near(TABLE.index_scan(1_000).cpu, (descent + 1_000.0) * 0.0001);
        // Eager, 100 pages one by one, the rest of the table by doubling.
        let eager = TABLE.smooth_scan([0, 100, 1_000_000]);
        let jumps = 7_814_f64.log2();
        let rest = 7_713.0 - jumps;
        near(eager.io, (3.0 + 100.0 + jumps) * 10.0 + rest);
        near(eager.cpu, (descent + 7_813.0 * 130.0) * 0.0001);
        // After an index scan each row is checked against the rows that it returned.
        let after = TABLE.smooth_scan([50, 0, 1_000_000]);
        near(after.io, (53.0 + jumps) * 10.0 + 1.0 + 7_813.0 - jumps);
        near(after.cpu, (descent + 100.0 + 7_813.0 * 258.0) * 0.0001);
    }

    #[test]
    fn the_worst_smooth_scan_costs_little_more_than_a_full_scan() {
        let worst = TABLE.smooth_scan([0, 0, TABLE.rows]).total();
        assert!(worst < 1.03 * TABLE.full_scan().total(), "{worst}");
    }

    #[test]
    fn the_sla_is_kept_and_used() {
        let sla = 2.0 * TABLE.full_scan().total();
        let rows = TABLE.rows_within(sla);
        let cost = |rows| TABLE.smooth_scan([rows, 0, TABLE.rows]).total();
        assert!(cost(rows) <= sla && sla < cost(rows + 1));
        assert!((600..800).contains(&rows), "{rows}");
        assert_eq!(TABLE.rows_within(0.0), 0);
    }
}
