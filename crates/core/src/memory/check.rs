//! Do the invariants hold?

use super::{Asking, Class, Memory, OnRefusal, Operator, Sums};

impl Memory {
    /// Checks every invariant that is visible in the state.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        assert_eq!(self.sums, self.counted(), "MEM-I1");
        self.check_queries();
        for one in &self.waiting {
            assert!(one.passed <= one.minimum, "MEM-I5: passed too often");
            assert!(
                !self.queries.contains_key(&one.query),
                "MEM-I5: it runs and waits"
            );
        }
        let first = self.waiting.front();
        let for_nothing = first.is_some_and(|first| self.is_next(first.query));
        assert!(!for_nothing, "MEM-I6: a query waits for nothing");
        self.clone().check_that_none_fits();
        let nothing_open = self.scratch.is_empty() && !self.scratch_waiting.is_empty();
        assert!(!nothing_open, "MEM-I6: a chunk waits for nothing");
        assert!(self.waiting.len() <= self.config.waiting_max, "queue");
        for holder in self.asked.keys().chain(&self.spent) {
            assert!(self.holders.contains_key(holder), "MEM-I2: unknown holder");
        }
        assert!(
            self.asking.is_empty() || !self.asked.is_empty(),
            "an operator waits for no holder"
        );
    }

    /// Searching the whole queue admits no query.
    fn check_that_none_fits(mut self) {
        let before = self.waiting.len();
        self.look_at_waiting();
        assert_eq!(self.waiting.len(), before, "MEM-I5: a query fits and waits");
    }

    fn counted(&self) -> Sums {
        let mut sums = Sums::default();
        for query in self.queries.values() {
            sums.operators += query.held;
            sums.spillable += query.spillable;
            sums.spilling += u64::from(query.spillers > 0);
            sums.aside += query.aside();
            sums.small += query.keeps_as_small(self.small_max());
            sums.credit += query.spillable_credit();
        }
        sums.asking = self.asking.iter().map(|one| one.bytes).sum();
        sums.scratch = self.scratch.values().sum();
        for holder in self.holders.values() {
            match holder.class {
                Class::Connections => sums.connections += holder.bytes,
                Class::Keeps => sums.kept += holder.bytes,
                Class::Drops(_) => {
                    sums.kept += holder.floor;
                    sums.droppable += holder.bytes.saturating_sub(holder.floor);
                    sums.unused += holder.floor.saturating_sub(holder.bytes);
                }
            }
        }
        sums
    }

    fn check_queries(&self) {
        for (id, query) in &self.queries {
            let own = || self.operators.values().filter(|one| one.query == *id);
            let spills = || own().filter(|one| matches!(one.on_refusal, OnRefusal::Spills(_)));
            assert_eq!(query.held, own().map(|one| one.bytes).sum(), "MEM-I1: held");
            let spillable = own().map(Operator::spillable).sum();
            assert_eq!(query.spillable, spillable, "MEM-I1: spillable");
            let asking = || {
                let all = self.asking.iter();
                all.filter(|one| self.operators[&one.operator].query == *id)
            };
            let asks = asking().map(|one| one.bytes).sum();
            assert_eq!(query.asks, asks, "MEM-I1: asks");
            let fixed = asking().map(Asking::fixed).sum();
            assert_eq!(query.asks_fixed, fixed, "MEM-I1: asks_fixed");
            let in_room = asking().map(|one| one.in_room).sum();
            assert_eq!(query.asks_in_room, in_room, "MEM-I1: asks_in_room");
            let rooms = own().map(Operator::keeps_room).sum();
            assert_eq!(query.rooms, rooms, "MEM-I1: rooms");
            assert!(query.fresh <= query.credit, "MEM-I1: fresh");
            assert_eq!(query.operators as usize, own().count(), "MEM-I1: operators");
            assert_eq!(
                query.spillers as usize,
                spills().count(),
                "MEM-I1: spillers"
            );
        }
        for operator in self.operators.values() {
            assert!(operator.base <= operator.bytes, "MEM-I1: base");
            assert!(
                self.queries.contains_key(&operator.query),
                "an operator without a query"
            );
        }
    }
}
