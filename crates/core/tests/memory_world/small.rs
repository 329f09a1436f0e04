//! A memory of 1000 bytes with its clock, for tests of one rule each.

use coscan_core::Time;
use coscan_core::memory::{
    Action, Class, Event, HolderId, Memory, MemoryConfig, OnRefusal, OperatorId, ScratchId, WHOLE,
};
use coscan_core::tasks::QueryId;

const MS: u64 = 1_000_000;

/// A memory with its clock.
pub(crate) struct Small {
    pub(crate) core: Memory,
    now: u64,
}

impl Small {
    /// Of 1000 bytes; queries never get 100.
    pub(crate) fn new() -> Self {
        Self::with_memory_for_small(0)
    }

    /// The same; `for_small` bytes are for small queries only.
    pub(crate) fn with_memory_for_small(for_small: u64) -> Self {
        Self::with(for_small, 0)
    }

    /// The same; operators that spill need up to `batch` bytes for a batch of rows.
    pub(crate) fn with_batch(batch: u64) -> Self {
        Self::with(0, batch)
    }

    fn with(for_small: u64, batch: u64) -> Self {
        let config = MemoryConfig {
            limit: 1_000,
            reserve: 100,
            for_small,
            batch,
            waiting_max: 4,
        };
        Self {
            core: Memory::new(config),
            now: 0,
        }
    }

    pub(crate) fn tell(&mut self, event: Event) -> Vec<Action> {
        self.core.handle(Time(self.now), event).expect("possible");
        self.core.check();
        std::iter::from_fn(|| self.core.poll_action()).collect()
    }

    pub(crate) fn tick_after(&mut self, ms: u64) -> Vec<Action> {
        self.now += ms * MS;
        self.tell(Event::Ticked)
    }

    pub(crate) fn arrive(&mut self, query: u64, minimum: u64) -> Vec<Action> {
        let query = QueryId(query);
        self.tell(Event::QueryArrived { query, minimum })
    }

    pub(crate) fn end(&mut self, query: u64) -> Vec<Action> {
        let query = QueryId(query);
        self.tell(Event::QueryEnded { query })
    }

    /// An operator with the number of its query.
    pub(crate) fn begin(&mut self, id: u64, on_refusal: OnRefusal) {
        let (operator, query) = (OperatorId(id), QueryId(id));
        let began = Event::OperatorBegan {
            operator,
            query,
            on_refusal,
        };
        assert_eq!(self.tell(began), []);
    }

    pub(crate) fn ask(&mut self, id: u64, bytes: u64) -> Vec<Action> {
        self.ask_for_part(id, WHOLE, bytes)
    }

    /// A part of the operator asks that has this much.
    pub(crate) fn ask_for_part(&mut self, id: u64, has: u64, bytes: u64) -> Vec<Action> {
        let operator = OperatorId(id);
        self.tell(Event::Asked {
            operator,
            bytes,
            has,
        })
    }

    pub(crate) fn give(&mut self, id: u64, bytes: u64) -> Vec<Action> {
        self.give_of_part(id, bytes, WHOLE)
    }

    /// A part of the operator gives back that has this much left.
    pub(crate) fn give_of_part(&mut self, id: u64, bytes: u64, left: u64) -> Vec<Action> {
        let operator = OperatorId(id);
        self.tell(Event::Gave {
            operator,
            bytes,
            left,
        })
    }

    pub(crate) fn hold(&mut self, holder: u32, class: Class, bytes: u64) {
        let holder = HolderId(holder);
        let floor = 0;
        self.tell(Event::HolderAdded { holder, class });
        let held = Event::Held {
            holder,
            bytes,
            floor,
        };
        assert_eq!(self.tell(held), []);
    }

    /// The holder has this much left.
    pub(crate) fn gave_way(&mut self, holder: u32, bytes: u64) -> Vec<Action> {
        let holder = HolderId(holder);
        let floor = 0;
        let mut all = self.tell(Event::Held {
            holder,
            bytes,
            floor,
        });
        all.extend(self.tell(Event::Reclaimed { holder }));
        all
    }
}

pub(crate) fn admit(query: u64) -> Action {
    let query = QueryId(query);
    Action::Admit { query }
}

pub(crate) fn grant(id: u64) -> Action {
    let operator = OperatorId(id);
    Action::Grant { operator }
}

pub(crate) fn refuse(id: u64, needed: u64, others: u64) -> Action {
    let operator = OperatorId(id);
    Action::Refuse {
        operator,
        needed,
        others,
        fits_alone: false,
    }
}

/// The operator would have got its bytes, had the others not been there.
pub(crate) fn refuse_beside_others(id: u64, needed: u64, others: u64) -> Action {
    let operator = OperatorId(id);
    Action::Refuse {
        operator,
        needed,
        others,
        fits_alone: true,
    }
}

pub(crate) fn reclaim(holder: u32, bytes: u64) -> Action {
    let holder = HolderId(holder);
    Action::Reclaim { holder, bytes }
}

pub(crate) const FAILS: OnRefusal = OnRefusal::Fails;
pub(crate) const SPILLS: OnRefusal = OnRefusal::Spills(100);

pub(crate) fn small_arrives(small: &mut Small, query: u64) {
    assert_eq!(small.arrive(query, 0), [admit(query)]);
}

pub(crate) fn end(query: u64) -> Action {
    let query = QueryId(query);
    Action::End { query }
}

impl Small {
    pub(crate) fn scratch(&mut self, scratch: u64, bytes: u64) -> Vec<Action> {
        let scratch = ScratchId(scratch);
        self.tell(Event::ScratchArrived { scratch, bytes })
    }

    pub(crate) fn held(&mut self, holder: u32, bytes: u64, floor: u64) -> Vec<Action> {
        let holder = HolderId(holder);
        self.tell(Event::Held {
            holder,
            bytes,
            floor,
        })
    }
}
