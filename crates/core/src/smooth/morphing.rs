//! How much does a smooth scan read around a page: the size of the morphing region.
//!
//! Idea: after every region its density, the share of its pages that held results, is compared with that of all pages so far. Denser doubles
//! the region. Under `Elastic` the contrary halves it, so that a dense part of the table does not mislead the scan for the rest of it.
//! We differ: a region of nothing but results counts as denser, for its density cannot rise (the paper's rule taken literally would never
//! expand where every page holds results).
//! And once it is known what pages cost, that decides under `Elastic`. Reading on pays where the share of results among the pages that the
//! index did not name exceeds the price of a page in sequence over that of one by itself. As small regions show little, an eighth of what
//! jumps cost is spent on looking further without evidence. Where half of the pages hold results at random, the paper's rule goes up and
//! down and stays small: 2.3 times the best access path on a disk, 55 times on an object store (`coscan sim run smooth-density`).
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
    prices: Option<Prices>,
}

/// What the device showed, and what was spent on looking further without evidence.
#[derive(Clone, Copy, Debug)]
struct Prices {
    costs: PageCosts,
    /// Whether the region last grew without evidence; what it then reads in vain was spent on looking further, until there is evidence.
    exploring: bool,
    jumps_cost: u64,
    exploring_cost: u64,
}

/// What share of the price of jumps may be spent on looking further: one in so many.
const EXPLORE_ONE_IN: u64 = 8;

impl Prices {
    /// Whether the next region should be larger, of `doubled` pages. `others`: pages of this one that the index did not name.
    fn look_further(&mut self, others: Density, doubled: u32) -> bool {
        let PageCosts { random, sequential } = self.costs;
        let break_even = Density {
            results: sequential,
            seen: random,
        };
        if self.exploring {
            let vain = others.seen - others.results;
            self.exploring_cost = self.exploring_cost.saturating_add(vain * sequential);
        }
        self.jumps_cost = self.jumps_cost.saturating_add(random);
        if others.exceeds(break_even) {
            self.exploring = false;
            return true;
        }
        let exploring_cost = self
            .exploring_cost
            .saturating_add(sequential * u64::from(doubled));
        let affordable = exploring_cost <= self.jumps_cost / EXPLORE_ONE_IN;
        self.exploring |= affordable;
        affordable
    }
}

impl Morphing {
    pub(crate) fn new(policy: SmoothPolicy, region_pages_max: u32) -> Self {
        Self {
            policy,
            region_pages: 1,
            region_pages_max: region_pages_max.max(1),
            so_far: Density::default(),
            prices: None,
        }
    }

    pub(crate) fn set_costs(&mut self, costs: PageCosts) {
        let prices = self.prices.get_or_insert(Prices {
            costs,
            exploring: false,
            jumps_cost: 0,
            exploring_cost: 0,
        });
        prices.costs = costs;
    }

    /// Pages of the next region.
    pub(crate) fn region_pages(&self) -> u32 {
        self.region_pages
    }

    /// (Pages that held results, pages seen).
    pub(crate) fn seen(&self) -> (u64, u64) {
        (self.so_far.results, self.so_far.seen)
    }

    /// A region was examined: so many of its pages held results.
    pub(crate) fn examined(&mut self, pages: u32, results: u32) {
        let region = Density {
            results: results.into(),
            seen: pages.into(),
        };
        let grows = self.grows(region);
        self.so_far.results += region.results;
        self.so_far.seen += region.seen;
        self.region_pages = match self.policy {
            _ if grows => self.doubled(),
            SmoothPolicy::Greedy | SmoothPolicy::SelectivityIncrease => self.region_pages,
            SmoothPolicy::Elastic => (self.region_pages / 2).max(1),
        };
    }

    fn grows(&mut self, region: Density) -> bool {
        let doubled = self.doubled();
        match (self.policy, &mut self.prices) {
            (SmoothPolicy::Greedy, _) => true,
            (SmoothPolicy::Elastic, Some(prices)) => {
                // The page that the index named says nothing about the others.
                let others = Density {
                    results: region.results.saturating_sub(1),
                    seen: region.seen.saturating_sub(1),
                };
                prices.look_further(others, doubled)
            }
            (SmoothPolicy::SelectivityIncrease | SmoothPolicy::Elastic, _) => {
                let full = region.results == region.seen;
                full || self.so_far.seen == 0 || region.exceeds(self.so_far)
            }
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

    #[test]
    fn an_eighth_of_the_price_of_jumps_is_spent_on_looking_further() {
        let mut morphing = Morphing::new(SmoothPolicy::Elastic, 64);
        morphing.set_costs(DISK);
        let (mut jumps, mut vain, mut largest) = (0, 0, 0);
        for _ in 0..1_000 {
            let pages = morphing.region_pages();
            (jumps, vain) = (jumps + 10, vain + pages - 1);
            largest = largest.max(pages);
            morphing.examined(pages, 1);
        }
        // What is left of the last attempt on its way back comes on top.
        assert!(
            vain <= jumps / 8 + 8 && vain > jumps / 16,
            "{vain} of {jumps}"
        );
        assert!(largest >= 4, "{largest}");
    }
}
