//! How much does a smooth scan read around a page: the size of the morphing region.
//!
//! Idea: after every region its density, the share of its pages that held results, is compared with
//! that of all pages so far. Denser doubles the region. Under `Elastic` the contrary halves it, so
//! that a dense part of the table does not mislead the scan for the rest of it. We differ: a region
//! of nothing but results counts as denser, for its density cannot rise (the paper's rule taken
//! literally would never expand where every page holds results). And once it is known what pages
//! cost, that decides under `Elastic`. Reading on pays where the share of results among the pages
//! that the index did not name exceeds the price of a page in sequence over that of one by itself
//! (break-even). Where half of the pages hold results at random, the paper's rule goes up and down
//! and stays small: 2.3 times the best access path on a disk, 55 times on an object store (`coscan
//! sim run smooth-density`). Three more rules then hold, so that neither chance nor a dense
//! beginning costs much (`smooth-skew`):
//! - As small regions show little, some of what jumps cost is spent on looking further without
//!   evidence, the less the longer it was in vain.
//! - A region that should have shown results and did not shrinks the next one to what its results
//!   support, not by half.
//! - Regions on their way are all read before the first of them can say that results have become
//!   rare. So what they may cost in vain is bounded by what was found and spent so far: however
//!   many are asked for, they are small until there is evidence.
//!
//! Source: [SmoothScan18 §3.2, eq. 1 and 2].

/// What makes the morphing region grow and shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SmoothPolicy {
    /// It doubles with every region.
    Greedy,
    /// It doubles when a region is denser than all so far, and stays otherwise.
    SelectivityIncrease,
    /// It doubles when a region is denser than all so far, and is halved otherwise.
    Elastic,
}

/// What reading one more page takes, as the device shows it. Any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCosts {
    /// By itself.
    pub random: u64,
    /// After the page before it.
    pub sequential: u64,
}

/// Pages seen, and those of them that held results.
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
    /// Pages of regions that were given out and not examined, and how many regions these are: never
    /// more than pages.
    pages_coming: u64,
    regions_coming: u64,
    prices: Option<Prices>,
}

/// What the device showed, and what was spent on looking further without evidence.
#[derive(Clone, Copy, Debug)]
struct Prices {
    costs: PageCosts,
    /// Whether the region last grew without evidence; what it then reads in vain was spent on
    /// looking further, until there is evidence.
    exploring: bool,
    /// Regions examined.
    jumps: u64,
    /// Pages read in vain while exploring.
    explored: u64,
}

/// At first one in so many of the pages that jumps would pay for may be spent on looking further:
/// little, and soon enough to see much.
const EXPLORE_ONE_IN: u64 = 8;
/// One in so many of the pages that held results may be on their way beyond the pages that the
/// index named.
const COMING_ONE_IN: u64 = 16;
/// From so many results on that break-even predicts in a region, a lack of them is no chance.
const EXPECTED_MIN: u64 = 2;

impl Prices {
    /// Pages in sequence that cost as much as the square root of the jumps so far. What is tried at
    /// a loss may grow like this: always enough to notice a change, and ever less of the whole.
    fn pages_at_risk(&self) -> u64 {
        let PageCosts { random, sequential } = self.costs;
        random.saturating_mul(self.jumps.isqrt()) / sequential.max(1)
    }

    /// Whether the next region should be larger, of `doubled` pages. `others`: pages of this one
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

    /// Pages of the region after one of `region_pages` that should not grow: half, or what its
    /// results support if break-even predicts enough.
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

    /// Pages of a region that may be given out beyond the one that the index names.
    fn may_come(&self, results: u64, coming: u64) -> u64 {
        let allowed = results / COMING_ONE_IN + self.pages_at_risk().saturating_mul(2);
        allowed.saturating_sub(coming)
    }
}

/// The largest power of two that is not above, or 1.
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

    /// Pages that the next region would have, whatever is on its way.
    pub(crate) fn region_pages_unbounded(&self) -> u32 {
        self.region_pages
    }

    /// Pages of the next region.
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

    /// A region of so many pages was given out.
    pub(crate) fn given(&mut self, pages: u32) {
        self.pages_coming += u64::from(pages);
        self.regions_coming += 1;
    }

    /// So many pages of a region will not be looked at.
    pub(crate) fn pages_pruned(&mut self, pages: u32) {
        self.pages_coming = self.pages_coming.saturating_sub(pages.into());
    }

    /// A region was examined: so many of its pages held results. One of no pages says nothing.
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
            // The page that the index named says nothing about the others.
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

    /// [SmoothScan18 §6.2]: the least that makes it grow is 1/2, 3/4, 6/8, 12/16, ...
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
    fn elastic_goes_back_where_results_become_rare() {
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
    fn reading_on_pays_from_the_share_of_results_that_prices_say() {
        // Of the pages that were not named: 1/1, 1/3, 1/7, 1/15 (too few), 0/7, 0/3.
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

    /// Examines regions as they are asked for, one at a time, with results in the named page only.
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
    fn ever_less_of_the_price_of_jumps_is_spent_on_looking_further() {
        for (regions, at_most, at_least) in [(16, 8, 12), (1_600, 50, 120)] {
            let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
            morphing.set_costs(DISK);
            // What is left of the last attempt on its way back comes on top.
            let vain = sparse(&mut morphing, regions);
            let jumps = 10 * regions;
            let share = jumps / at_least..=jumps / at_most + 8;
            assert!(share.contains(&vain), "{vain} of {jumps}");
        }
    }

    #[test]
    fn it_grows_where_results_become_frequent_late() {
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
    fn a_region_without_the_results_it_should_have_shrinks_to_what_it_supports() {
        // Break-even predicts 6.3 of 63. Of 19 it predicts too few to tell, so half.
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
    fn what_is_on_its_way_bounds_what_is_given_out() {
        let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
        morphing.set_costs(DISK);
        morphing.region_pages = 64;
        assert_eq!(morphing.region_pages(), 1, "nothing is known");
        morphing.given(4);
        morphing.examined(4, 4);
        morphing.region_pages = 64;
        // 2 × 10 × √1 pages beyond those that were named.
        let mut given = Vec::new();
        for _ in 0..5 {
            given.push(morphing.region_pages());
            morphing.given(morphing.region_pages());
        }
        assert_eq!(given, [16, 4, 2, 2, 1]);
        // What will not be looked at, and what was, make room again.
        morphing.pages_pruned(15);
        assert_eq!(morphing.region_pages(), 16);
        morphing.examined(1, 1);
        morphing.examined(0, 0);
        assert_eq!(morphing.so_far.seen, 5);
    }

    #[test]
    fn without_costs_nothing_bounds_it() {
        let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
        morphing.region_pages = 64;
        morphing.given(64);
        assert_eq!(morphing.region_pages(), 64);
    }
}
