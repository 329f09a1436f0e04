//! What does a page cost on this device? Measured while the scan runs, not assumed.
//!
//! Idea: the time between two finished regions is the time of one jump and of the pages in
//! sequence, so it is linear in the number of pages. A line fitted to the measurements, with less
//! weight on older regions, gives both prices. They include everything that matters: the device's
//! latency and bandwidth, its concurrent requests, and the decoding of a page. Before the first
//! measurement the device's meters give the prices.
//! Bounds: constant size.

use super::morphing::PageCosts;

/// Estimates the price of a jump and of a page in sequence.
#[derive(Clone, Copy, Debug)]
pub struct DeviceCosts {
    /// Weighted sums over regions: 1, pages, pages², nanoseconds, pages × nanoseconds.
    weight: f64,
    pages: f64,
    squares: f64,
    time: f64,
    products: f64,
    believed: Believed,
}

/// The prices from the meters, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Believed {
    jump: f64,
    page: f64,
}

/// The weight of a region halves after this many more regions.
const HALF_LIFE: f64 = 32.0;
/// The meters' prices weigh as much as this many measured regions of one page, and as many of
/// [`FAR`] pages.
const PRIOR_REGIONS: f64 = 2.0;
/// A region of this many pages, in which the jump hardly matters.
const FAR: f64 = 64.0;

impl DeviceCosts {
    /// The state before the first measurement: assumes `random_ns` for a page alone and
    /// `sequential_ns` for the next page in sequence.
    #[must_use]
    pub fn new(random_ns: u64, sequential_ns: u64) -> Self {
        let page = (sequential_ns as f64).max(1.0);
        let jump = (random_ns.saturating_sub(sequential_ns)) as f64;
        let mut costs = Self {
            weight: 0.0,
            pages: 0.0,
            squares: 0.0,
            time: 0.0,
            products: 0.0,
            believed: Believed { jump, page },
        };
        costs.add(PRIOR_REGIONS, 1.0, jump + page);
        costs.add(PRIOR_REGIONS, FAR, jump + FAR * page);
        costs
    }

    /// Records a region of `pages` pages that was finished `nanoseconds` after the region before
    /// it.
    pub fn measured(&mut self, pages: u32, nanoseconds: u64) {
        let keep = 0.5_f64.powf(1.0 / HALF_LIFE);
        for sum in [
            &mut self.weight,
            &mut self.pages,
            &mut self.squares,
            &mut self.time,
            &mut self.products,
        ] {
            *sum *= keep;
        }
        self.add(1.0, f64::from(pages), nanoseconds as f64);
    }

    /// The measured prices.
    #[must_use]
    pub fn costs(&self) -> PageCosts {
        let spread = self.weight * self.squares - self.pages * self.pages;
        let mean_pages = self.pages / self.weight;
        let mean_time = self.time / self.weight;
        // Regions of equal size do not show what one more page costs, so the ratio of the assumed
        // prices is kept.
        let slope = if spread > SPREAD_MIN * self.weight * self.weight {
            (self.weight * self.products - self.pages * self.time) / spread
        } else {
            let Believed { jump, page } = self.believed;
            mean_time * page / (jump + mean_pages * page)
        };
        let page = slope.clamp(1.0, (mean_time / mean_pages).max(1.0));
        let jump = (mean_time - page * mean_pages).max(0.0);
        PageCosts {
            random: nanoseconds(jump + page),
            sequential: nanoseconds(page),
        }
    }

    fn add(&mut self, weight: f64, pages: f64, time: f64) {
        self.weight += weight;
        self.pages += weight * pages;
        self.squares += weight * pages * pages;
        self.time += weight * time;
        self.products += weight * pages * time;
    }
}

/// The least variance of sizes, in pages², at which the measured slope is used.
const SPREAD_MIN: f64 = 0.1;

fn nanoseconds(time: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A float cast saturates.
    let time = time as u64;
    time.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(ours: u64, expected: f64, within: f64) {
        assert!(
            (ours as f64 / expected - 1.0).abs() < within,
            "{ours} {expected}"
        );
    }

    #[test]
    fn the_meters_prices_apply_at_first() {
        let costs = DeviceCosts::new(10_000, 1_000).costs();
        near(costs.random, 10_000.0, 0.01);
        near(costs.sequential, 1_000.0, 0.01);
    }

    #[test]
    fn measurements_replace_the_meters_prices() {
        let mut costs = DeviceCosts::new(100_000, 1_000);
        // The true prices: a jump costs 3000 and a page 2000.
        for round in 0..100 {
            let pages = 1 << (round % 4);
            costs.measured(pages, 3_000 + 2_000 * u64::from(pages));
        }
        let costs = costs.costs();
        near(costs.sequential, 2_000.0, 0.2);
        near(costs.random, 5_000.0, 0.2);
    }

    #[test]
    fn regions_of_one_size_keep_the_ratio() {
        let mut costs = DeviceCosts::new(10_000, 1_000);
        for _ in 0..2_000 {
            costs.measured(1, 20_000);
        }
        let costs = costs.costs();
        near(costs.random, 20_000.0, 0.01);
        near(costs.sequential, 2_000.0, 0.01);
    }
}
