//! How many pages does a smooth scan read around a page? The size of the morphing region.
//!
//! Idea: after every region its density, the share of its pages that held results, is compared
//! with that of all pages examined before. A denser region doubles the size. Under `Elastic` any
//! other region halves it, so that a dense part of the table does not mislead the scan for the
//! rest of the table. We differ: a region in which every page holds results counts as denser,
//! because its density cannot rise (the paper's rule taken literally would never expand where
//! every page holds results). And once the prices of pages are known, they decide under `Elastic`.
//! Reading on pays off where the share of results among the pages that the index did not name
//! exceeds the price of a page in sequence divided by that of a page alone (break-even). Where
//! half of the pages hold results at random, the size under the paper's rule goes up and down and
//! stays small: 2.3 times the best access path on a disk, 55 times on an object store (`coscan sim
//! run smooth-density`). Three more rules keep chance and a dense beginning from costing much
//! (`smooth-skew`):
//! - Small regions give little evidence, so a part of what jumps cost is spent on larger regions
//!   without evidence; the longer this finds nothing, the smaller the part.
//! - A region that should have shown results and did not shrinks the next one to the size that its
//!   results support, instead of by half.
//! - Outstanding regions are all read before the first of them can show that results have become
//!   rare. So the pages that they may read in vain are bounded by the results found and the jumps
//!   paid so far: regions stay small until there is evidence, however many are requested.
//!
//! Source: [SmoothScan18 §3.2, eq. 1 and 2].

/// The rule by which the morphing region grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SmoothPolicy {
    /// The region doubles every time.
    Greedy,
    /// The region doubles when the last one was denser than all pages before it, and keeps its
    /// size otherwise.
    SelectivityIncrease,
    /// The region doubles when the last one was denser than all pages before it, and halves
    /// otherwise.
    Elastic,
}

/// The prices of reading one page, as measured on the device. Any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCosts {
    /// A page read alone.
    pub random: u64,
    /// A page read right after its predecessor.
    pub sequential: u64,
}

/// Examined pages, and those of them that held results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Density {
    results: u64,
    seen: u64,
}

impl Density {
    fn exceeds(self, other: Self) -> bool {
        u128::from(self.results) * u128::from(other.seen)
            > u128::from(other.results) * u128::from(self.seen)
    }
}

/// The size of the morphing region.
#[derive(Clone, Debug)]
pub(crate) struct Morphing {
    policy: SmoothPolicy,
    region_pages: u32,
    region_pages_max: u32,
    so_far: Density,
    /// Pages of issued regions that have not been examined, and the number of these regions, which
    /// is never larger.
    pages_coming: u64,
    regions_coming: u64,
    prices: Option<Prices>,
}

/// The prices of pages, and what was spent on growing without evidence.
#[derive(Clone, Copy, Debug)]
struct Prices {
    costs: PageCosts,
    /// Whether the region last grew without evidence. Until there is evidence, pages that such
    /// regions read in vain count as `explored`.
    exploring: bool,
    /// Regions examined.
    jumps: u64,
    /// Pages read in vain while exploring.
    explored: u64,
}

/// At first, exploring may take one in this many of the pages that the price of the jumps would
/// have paid for: few pages, and evidence soon enough.
const EXPLORE_ONE_IN: u64 = 8;
/// In addition to the pages that the index named, one page may be outstanding for every this many
/// pages that held results.
const COMING_ONE_IN: u64 = 16;
/// When break-even predicts at least this many results in a region, their absence is not chance.
const EXPECTED_MIN: u64 = 2;

impl Prices {
    /// The pages in sequence that cost as much as the square root of the number of jumps so far.
    /// Speculative reads may grow at this rate: always enough to notice a change, and a falling
    /// share of the whole.
    fn pages_at_risk(&self) -> u64 {
        let PageCosts { random, sequential } = self.costs;
        random.saturating_mul(self.jumps.isqrt()) / sequential.max(1)
    }

    /// Whether the next region should grow to `doubled` pages. `others`: the pages of this region
    /// that the index did not name.
    fn look_further(&mut self, others: Density, doubled: u32) -> bool {
        let PageCosts { random, sequential } = self.costs;
        let break_even = Density {
            results: sequential,
            seen: random,
        };
        if self.exploring {
            self.explored += others.seen - others.results;
        }
        self.jumps += 1;
        if others.exceeds(break_even) {
            self.exploring = false;
            return true;
        }
        let share = random.saturating_mul(self.jumps) / sequential.max(1) / EXPLORE_ONE_IN;
        let affordable = self.explored + u64::from(doubled) <= share.min(self.pages_at_risk() / 2);
        self.exploring |= affordable;
        affordable
    }

    /// The size of the region after one of `region_pages` that should not grow: half, or the size
    /// that its results support if break-even predicts enough of them.
    fn shrunk(&self, region_pages: u32, others: Density) -> u32 {
        let PageCosts { random, sequential } = self.costs;
        let half = region_pages / 2;
        let expected = u128::from(others.seen) * u128::from(sequential);
        if expected < u128::from(EXPECTED_MIN) * u128::from(random) {
            return half.max(1);
        }
        let found = u128::from(others.results) * u128::from(random);
        let supported = u128::from(region_pages) * found / expected;
        let supported = u32::try_from(supported).unwrap_or(half);
        power_of_two_within(supported.min(half))
    }

    /// The pages that a region may have in addition to the page that the index names.
    fn may_come(&self, results: u64, coming: u64) -> u64 {
        let allowed = results / COMING_ONE_IN + self.pages_at_risk().saturating_mul(2);
        allowed.saturating_sub(coming)
    }
}

/// The largest power of two that is at most `pages`, at least 1.
fn power_of_two_within(pages: u32) -> u32 {
    1 << pages.max(1).ilog2()
}

impl Morphing {
    pub(crate) fn new(policy: SmoothPolicy, region_pages_max: u32) -> Self {
        Self {
            policy,
            region_pages: 1,
            region_pages_max: region_pages_max.max(1),
            so_far: Density::default(),
            pages_coming: 0,
            regions_coming: 0,
            prices: None,
        }
    }

    pub(crate) fn set_costs(&mut self, costs: PageCosts) {
        let prices = self.prices.get_or_insert(Prices {
            costs,
            exploring: false,
            jumps: 0,
            explored: 0,
        });
        prices.costs = costs;
    }

    /// The size of the next region, without the bound by outstanding regions.
    pub(crate) fn region_pages_unbounded(&self) -> u32 {
        self.region_pages
    }

    /// The size of the next region.
    pub(crate) fn region_pages(&self) -> u32 {
        match (self.policy, &self.prices) {
            (SmoothPolicy::Elastic, Some(prices)) => {
                let coming = self.pages_coming.saturating_sub(self.regions_coming);
                let others = prices.may_come(self.so_far.results, coming);
                let pages = u32::try_from(others.saturating_add(1)).unwrap_or(u32::MAX);
                if pages < self.region_pages {
                    power_of_two_within(pages)
                } else {
                    self.region_pages
                }
            }
            _ => self.region_pages,
        }
    }

    /// Records that a region of `pages` pages was issued.
    pub(crate) fn given(&mut self, pages: u32) {
        self.pages_coming += u64::from(pages);
        self.regions_coming += 1;
    }

    /// Records that `pages` pages of a region will not be examined.
    pub(crate) fn pages_pruned(&mut self, pages: u32) {
        self.pages_coming = self.pages_coming.saturating_sub(pages.into());
    }

    /// Records that a region was examined: `results` of its `pages` pages held results. A region
    /// of no pages gives no evidence.
    pub(crate) fn examined(&mut self, pages: u32, results: u32) {
        self.pages_coming = self.pages_coming.saturating_sub(pages.into());
        self.regions_coming = self.regions_coming.saturating_sub(1);
        if pages == 0 {
            return;
        }
        let region = Density {
            results: results.into(),
            seen: pages.into(),
        };
        self.region_pages = self.next(region);
        self.so_far.results += region.results;
        self.so_far.seen += region.seen;
    }

    fn next(&mut self, region: Density) -> u32 {
        let doubled = self.doubled();
        if let (SmoothPolicy::Elastic, Some(prices)) = (self.policy, &mut self.prices) {
            // The page that the index named gives no evidence about the others.
            let others = Density {
                results: region.results.saturating_sub(1),
                seen: region.seen.saturating_sub(1),
            };
            if prices.look_further(others, doubled) {
                return doubled;
            }
            return prices.shrunk(self.region_pages, others);
        }
        let full = region.results == region.seen;
        let denser = full || self.so_far.seen == 0 || region.exceeds(self.so_far);
        match self.policy {
            SmoothPolicy::Greedy => doubled,
            _ if denser => doubled,
            SmoothPolicy::SelectivityIncrease => self.region_pages,
            SmoothPolicy::Elastic => (self.region_pages / 2).max(1),
        }
    }

    fn doubled(&self) -> u32 {
        self.region_pages
            .saturating_mul(2)
            .min(self.region_pages_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes after each region of (results, pages).
    fn sizes(policy: SmoothPolicy, costs: Option<PageCosts>, regions: &[(u32, u32)]) -> Vec<u32> {
        let mut morphing = Morphing::new(policy, 64);
        if let Some(costs) = costs {
            morphing.set_costs(costs);
        }
        let after = |&(results, pages): &(u32, u32)| {
            morphing.examined(pages, results);
            morphing.region_pages()
        };
        regions.iter().map(after).collect()
    }

    #[test]
    fn greedy_doubles_whatever_it_finds() {
        let regions = [(1, 1), (0, 2), (0, 4), (1, 8), (0, 16), (0, 32), (0, 64)];
        let expected = [2, 4, 8, 16, 32, 64, 64];
        assert_eq!(sizes(SmoothPolicy::Greedy, None, &regions), expected);
    }

    /// [SmoothScan18 §6.2]: the smallest shares that make the region grow are 1/2, 3/4, 6/8, 12/16,
    /// ...
    #[test]
    fn selectivity_increase_grows_on_the_papers_sequence_and_on_nothing_less() {
        let policy = SmoothPolicy::SelectivityIncrease;
        let regions = [(1, 2), (3, 4), (6, 8), (12, 16), (24, 32)];
        assert_eq!(sizes(policy, None, &regions), [2, 4, 8, 16, 32]);
        for at in 1..regions.len() {
            let mut less = regions[..=at].to_vec();
            less[at].0 -= 1;
            let sizes = sizes(policy, None, &less);
            assert_eq!(sizes[at], sizes[at - 1], "{less:?}");
        }
    }

    #[test]
    fn elastic_shrinks_where_results_become_rare() {
        let dense = (0..7).map(|n| (1 << n, 1 << n));
        let sparse = (1..7).rev().map(|n| (1, 1 << n));
        let regions: Vec<(u32, u32)> = dense.chain(sparse).chain([(1, 1), (1, 2)]).collect();
        let expected = [2, 4, 8, 16, 32, 64, 64, 32, 16, 8, 4, 2, 1, 2, 1];
        assert_eq!(sizes(SmoothPolicy::Elastic, None, &regions), expected);
    }

    const DISK: PageCosts = PageCosts {
        random: 10,
        sequential: 1,
    };

    #[test]
    fn reading_on_pays_off_above_the_break_even_share() {
        // Shares among the pages that were not named: 1/1, 1/3, 1/7, 1/15 (too few), 0/7, 0/3.
        let regions = [(2, 2), (2, 4), (2, 8), (2, 16), (1, 8), (1, 4)];
        let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
        morphing.region_pages = 2;
        morphing.set_costs(DISK);
        let after = regions.map(|(results, pages)| {
            morphing.examined(pages, results);
            morphing.region_pages()
        });
        assert_eq!(after, [4, 8, 16, 8, 4, 2]);
    }

    /// Examines regions one at a time, as they are requested, where only the named page holds
    /// results.
    fn sparse(morphing: &mut Morphing, regions: u32) -> u32 {
        let examine = |_| {
            let pages = morphing.region_pages();
            morphing.given(pages);
            morphing.examined(pages, 1);
            pages - 1
        };
        (0..regions).map(examine).sum()
    }

    #[test]
    fn exploring_takes_a_falling_share_of_the_price_of_jumps() {
        for (regions, at_most, at_least) in [(16, 8, 12), (1_600, 50, 120)] {
            let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
            morphing.set_costs(DISK);
            // The remainder of the last attempt, while the size shrinks, is added.
            let vain = sparse(&mut morphing, regions);
            let jumps = 10 * regions;
            let share = jumps / at_least..=jumps / at_most + 8;
            assert!(share.contains(&vain), "{vain} of {jumps}");
        }
    }

    #[test]
    fn the_region_grows_where_results_become_frequent_late() {
        let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
        morphing.set_costs(DISK);
        sparse(&mut morphing, 10_000);
        let mut regions = 0;
        while morphing.region_pages() < 64 {
            let pages = morphing.region_pages();
            morphing.given(pages);
            morphing.examined(pages, pages);
            regions += 1;
        }
        assert!(regions <= 100, "{regions}");
    }

    #[test]
    fn a_region_without_predicted_results_shrinks_to_what_it_supports() {
        // Break-even predicts 6.3 of 63. Of 19 pages it predicts too few to tell, so the size
        // halves.
        let after = |results, pages| {
            let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
            morphing.set_costs(DISK);
            morphing.region_pages = 64;
            morphing.examined(pages, results);
            morphing.region_pages
        };
        assert_eq!([after(1, 64), after(2, 64), after(4, 64)], [1, 8, 16]);
        assert_eq!([after(1, 20), after(1, 21)], [32, 1]);
    }

    #[test]
    fn outstanding_pages_bound_the_next_region() {
        let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
        morphing.set_costs(DISK);
        morphing.region_pages = 64;
        assert_eq!(morphing.region_pages(), 1, "nothing is known");
        morphing.given(4);
        morphing.examined(4, 4);
        morphing.region_pages = 64;
        // 2 × 10 × √1 pages in addition to the named pages.
        let mut given = Vec::new();
        for _ in 0..5 {
            given.push(morphing.region_pages());
            morphing.given(morphing.region_pages());
        }
        assert_eq!(given, [16, 4, 2, 2, 1]);
        // Pruned pages and examined pages do not count as outstanding.
        morphing.pages_pruned(15);
        assert_eq!(morphing.region_pages(), 16);
        morphing.examined(1, 1);
        morphing.examined(0, 0);
        assert_eq!(morphing.so_far.seen, 5);
    }

    #[test]
    fn without_costs_the_region_is_unbounded() {
        let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
        morphing.region_pages = 64;
        morphing.given(64);
        assert_eq!(morphing.region_pages(), 64);
    }
}
