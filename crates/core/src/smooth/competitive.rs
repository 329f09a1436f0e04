//! How much more than the best access path can a smooth scan cost?
//!
//! The *competitive ratio* compares it with an oracle that knows the pages that hold results and
//! reads only these, in sequence. Each function is the ratio for one distribution of results, as a
//! formula; `coscan sim run smooth-worst` runs the state machine over the same distributions. Page
//! costs are in any unit.
//! Source: [SmoothScan18 §6, eq. 28 to 42].

use super::PageCosts;

impl PageCosts {
    /// The price of `pages` pages, of which `jumps` are read alone.
    #[must_use]
    pub fn of(self, pages: f64, jumps: f64) -> f64 {
        jumps * self.random as f64 + (pages - jumps) * self.sequential as f64
    }

    /// The oracle's price.
    fn oracle(self, results: f64) -> f64 {
        results * self.sequential as f64
    }
}

/// The greedy policy where only the first page of every region holds results (eq. 29 to 31).
#[must_use]
pub fn greedy(costs: PageCosts, pages: u64) -> f64 {
    let jumps = (pages as f64 + 1.0).log2();
    costs.of(pages as f64, jumps) / costs.oracle(jumps)
}

/// The selectivity-increase policy, misled by `growths` regions that are just dense enough to
/// double it, after which each region holds one page with results (eq. 32 to 36).
#[must_use]
pub fn selectivity_increase(costs: PageCosts, pages: u64, growths: u32) -> f64 {
    let largest = f64::from(growths).exp2();
    let sparse = (pages as f64 + 2.0) / largest - 2.0;
    let results = just_dense_enough(growths) + sparse;
    let jumps = f64::from(growths) + sparse;
    costs.of(pages as f64, jumps) / costs.oracle(results)
}

/// The elastic policy over the same distribution; `sparse` regions, at least `growths` of them,
/// hold one page with results (eq. 37 to 39).
#[must_use]
pub fn elastic(costs: PageCosts, growths: u32, sparse: u32) -> f64 {
    let pages = 4.0 * f64::from(growths).exp2() - 3.0 + f64::from(sparse) - f64::from(growths);
    let results = just_dense_enough(growths) + f64::from(sparse);
    let jumps = f64::from(growths) + f64::from(sparse);
    costs.of(pages, jumps) / costs.oracle(results)
}

/// Pages with results in regions of 2, 4, 8, ... pages, where each region holds just enough results
/// to double the next: 1, 3, 6, 12, ...
fn just_dense_enough(growths: u32) -> f64 {
    1.0 + 3.0 * ((f64::from(growths) - 1.0).exp2() - 1.0)
}

/// The elastic policy where one page in `factor` holds results and the region stays at `factor`
/// pages: the most jumps possible for that growth factor of regions (eq. 40 to 42 for 2).
/// Independent of the size of the table.
#[must_use]
pub fn one_in(costs: PageCosts, factor: u32) -> f64 {
    costs.of(factor.into(), 1.0) / costs.oracle(1.0)
}

/// Like [`one_in`], compared with a full scan.
#[must_use]
pub fn one_in_against_full_scan(costs: PageCosts, factor: u32) -> f64 {
    costs.of(factor.into(), 1.0) / costs.of(factor.into(), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: PageCosts = PageCosts {
        random: 10,
        sequential: 1,
    };

    #[test]
    fn the_papers_numbers() {
        // "For 1000 pages the value of CR is equal to 110 ... 760 for 10000 pages."
        assert!((109.0..110.5).contains(&greedy(DISK, 1_000)));
        assert!((758.0..762.0).contains(&greedy(DISK, 10_000)));
        // "... a value of 100 for 100K pages for the x peak value of 8".
        let ratio = |growths| selectivity_increase(DISK, 100_000, growths);
        let peak = (1..16).max_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
        assert_eq!(peak, Some(8));
        assert!((95.0..135.0).contains(&ratio(8)), "{}", ratio(8));
        // "... 11 ... in the case of SSD ... 6. When compared to Full Scan ... 5.5 for HDD, and 3
        // for SSD." These hold for a random page at five times the price of one in sequence; the
        // paper states twice, which gives 3 and 1.5.
        let flash = PageCosts {
            random: 5,
            sequential: 1,
        };
        let ratios = |costs| (one_in(costs, 2), one_in_against_full_scan(costs, 2));
        assert_eq!(ratios(DISK), (11.0, 5.5));
        assert_eq!(ratios(flash), (6.0, 3.0));
        // "the morphing increase factor of 10 for HDD gives a competitive ratio of 19".
        assert!((one_in(DISK, 10) - 19.0).abs() < 1e-9);
        // "... from an initial value of 10 for one random access": regions of one page that holds
        // results.
        assert!((elastic(DISK, 1, 1_000) - 10.0).abs() < 0.05);
    }

    /// The paper's figure 12 converges to 2; its equations as printed converge to 8/3, because 3/8
    /// of the pages hold results.
    #[test]
    fn the_elastic_policy_is_bounded_where_the_others_are_not() {
        let elastic: Vec<f64> = (10..20).map(|x| elastic(DISK, x, x)).collect();
        assert!(elastic.is_sorted_by(|a, b| a > b), "{elastic:?}");
        assert!((elastic[9] - 8.0 / 3.0).abs() < 0.01, "{elastic:?}");
        assert!(greedy(DISK, 3_000_000) > 1e5);
        assert!(selectivity_increase(DISK, 3_000_000, 10) > 300.0);
    }
}
