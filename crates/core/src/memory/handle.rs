//! Events in, actions out.

use std::collections::btree_map::Entry;

use super::{
    Action, BYTES_MAX, CREDIT_NS, Class, Event, FALL, Holder, HolderId, Memory, MemoryError,
    OnRefusal, Operator, OperatorId, Query, Room, ScratchId, Sums,
};
use crate::ids::Time;
use crate::tasks::QueryId;

impl Sums {
    /// Adds a query to the sums. Small ones have at most `small_max` bytes.
    pub(super) fn put_in(&mut self, query: &Query, small_max: u64) {
        self.small += query.keeps_as_small(small_max);
        self.operators += query.held;
        self.spillable += query.spillable;
        self.spilling += u64::from(query.spillers > 0);
        self.aside += query.aside();
        self.credit += query.spillable_credit();
    }

    /// Removes a query from the sums, because it ends or is about to change.
    pub(super) fn take_out(&mut self, query: &Query, small_max: u64) {
        self.small -= query.keeps_as_small(small_max);
        self.operators -= query.held;
        self.spillable -= query.spillable;
        self.spilling -= u64::from(query.spillers > 0);
        self.aside -= query.aside();
        self.credit -= query.spillable_credit();
    }

    fn put_in_holder(&mut self, holder: &Holder) {
        self.droppable += holder.droppable();
        self.unused += holder.unused();
        match holder.class {
            Class::Connections => self.connections += holder.bytes,
            Class::Drops(_) | Class::Keeps => self.kept += holder.kept(),
        }
    }

    fn take_out_holder(&mut self, holder: &Holder) {
        self.droppable -= holder.droppable();
        self.unused -= holder.unused();
        match holder.class {
            Class::Connections => self.connections -= holder.bytes,
            Class::Drops(_) | Class::Keeps => self.kept -= holder.kept(),
        }
    }
}

impl Memory {
    /// Handles what happened at `now`. Collect the actions with [`Self::poll_action`].
    ///
    /// # Errors
    /// The event contradicts the state, which is unchanged.
    pub fn handle(&mut self, now: Time, event: Event) -> Result<(), MemoryError> {
        self.now = self.now.max(now);
        self.take(event)?;
        self.reclaim(self.lacking(0));
        self.ask_again();
        self.let_in();
        Ok(())
    }

    /// The next action; `None` until the next event.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Longer than a screen: one arm per event.
    fn take(&mut self, event: Event) -> Result<(), MemoryError> {
        match event {
            Event::HolderAdded { holder, class } => self.add_holder(holder, class)?,
            Event::HolderRemoved { holder } => self.remove_holder(holder)?,
            Event::Priced { holder, price } => {
                let is_dropping = |held: &Holder| held.price().is_some();
                if !self.holders.get(&holder).is_some_and(is_dropping) {
                    return Err(MemoryError::Holder(holder));
                }
                self.change_holder(holder, |held| held.class = Class::Drops(price))?;
            }
            Event::Held {
                holder,
                bytes,
                floor,
            } => self.held(holder, bytes.min(BYTES_MAX), floor.min(BYTES_MAX))?,
            Event::Reclaimed { holder } => self.reclaimed(holder)?,
            Event::QueryArrived { query, minimum } => self.query_arrived(query, minimum)?,
            Event::QueryNeedsLess { query, minimum } => self.needs_less(query, minimum)?,
            Event::QueryEnded { query } => self.query_ended(query)?,
            Event::QuerySilent { query } => {
                let now = self.now;
                self.query(query)?.silent_since.get_or_insert(now);
            }
            Event::QueryHeard { query } => self.query(query)?.silent_since = None,
            Event::OperatorBegan {
                operator,
                query,
                on_refusal,
            } => self.operator_began(operator, query, on_refusal)?,
            Event::Asked {
                operator,
                bytes,
                has,
            } => {
                self.asking_nothing(operator)?;
                self.ask(operator, bytes, has);
            }
            Event::Took { operator, bytes } => {
                let has = self.operator(operator)?.bytes;
                self.grow(operator, bytes.min(BYTES_MAX), has);
            }
            Event::Gave {
                operator,
                bytes,
                left,
            } => self.gave(operator, bytes, left)?,
            Event::OperatorEnded { operator } => self.operator_ended(operator)?,
            Event::ScratchArrived { scratch, bytes } => self.scratch_arrived(scratch, bytes)?,
            Event::ScratchClosed { scratch } => self.scratch_closed(scratch)?,
            Event::LimitChanged {
                limit,
                reserve,
                for_small,
                batch,
            } => {
                self.config.batch = batch;
                self.change_limit(limit, reserve, for_small);
            }
            Event::Measured { bytes } => self.measured(bytes),
            Event::Ticked => self.tick(),
        }
        Ok(())
    }

    // ---------------------------------------------------------------- holders

    fn add_holder(&mut self, id: HolderId, class: Class) -> Result<(), MemoryError> {
        match self.holders.entry(id) {
            Entry::Occupied(_) => Err(MemoryError::Holder(id)),
            Entry::Vacant(new) => {
                new.insert(Holder {
                    class,
                    bytes: 0,
                    floor: 0,
                });
                Ok(())
            }
        }
    }

    fn remove_holder(&mut self, id: HolderId) -> Result<(), MemoryError> {
        let holder = self.holders.remove(&id).ok_or(MemoryError::Holder(id))?;
        self.sums.take_out_holder(&holder);
        self.asked.remove(&id);
        self.spent.remove(&id);
        Ok(())
    }

    fn held(&mut self, id: HolderId, bytes: u64, floor: u64) -> Result<(), MemoryError> {
        let before = self.holders.get(&id).map_or(0, Holder::droppable);
        self.change_holder(id, |held| (held.bytes, held.floor) = (bytes, floor))?;
        let gave = self.holders[&id].droppable() < before;
        if let Some(has_given) = self.asked.get_mut(&id) {
            *has_given |= gave;
        }
        Ok(())
    }

    fn reclaimed(&mut self, id: HolderId) -> Result<(), MemoryError> {
        self.change_holder(id, |_| ())?;
        if self.asked.remove(&id) == Some(false) {
            self.spent.insert(id);
        }
        Ok(())
    }

    fn change_holder(
        &mut self,
        id: HolderId,
        change: impl FnOnce(&mut Holder),
    ) -> Result<(), MemoryError> {
        let Some(holder) = self.holders.get_mut(&id) else {
            return Err(MemoryError::Holder(id));
        };
        self.sums.take_out_holder(holder);
        change(holder);
        self.sums.put_in_holder(holder);
        Ok(())
    }

    // ---------------------------------------------------------------- queries

    fn query(&mut self, id: QueryId) -> Result<&mut Query, MemoryError> {
        self.queries.get_mut(&id).ok_or(MemoryError::Query(id))
    }

    fn query_arrived(&mut self, id: QueryId, minimum: u64) -> Result<(), MemoryError> {
        let is_known =
            self.queries.contains_key(&id) || self.waiting.iter().any(|one| one.query == id);
        if is_known {
            return Err(MemoryError::Query(id));
        }
        self.arrive(id, minimum);
        Ok(())
    }

    fn needs_less(&mut self, id: QueryId, minimum: u64) -> Result<(), MemoryError> {
        let small_max = self.small_max();
        let query = self.queries.get_mut(&id).ok_or(MemoryError::Query(id))?;
        self.sums.take_out(query, small_max);
        query.minimum = query.minimum.min(minimum);
        query.wanted = query.wanted.min(minimum);
        self.sums.put_in(query, small_max);
        Ok(())
    }

    fn query_ended(&mut self, id: QueryId) -> Result<(), MemoryError> {
        if let Some(at) = self.waiting.iter().position(|one| one.query == id) {
            self.waiting.remove(at);
            self.room_seen = Room::default();
            return Ok(());
        }
        let query = self.query(id)?;
        if query.operators > 0 {
            return Err(MemoryError::OperatorsLeft(id));
        }
        if let Some(query) = self.queries.remove(&id) {
            self.sums.take_out(&query, self.small_max());
        }
        Ok(())
    }

    // ---------------------------------------------------------------- operators

    fn operator(&self, id: OperatorId) -> Result<&Operator, MemoryError> {
        self.operators.get(&id).ok_or(MemoryError::Operator(id))
    }

    fn asking_nothing(&self, id: OperatorId) -> Result<(), MemoryError> {
        self.operator(id)?;
        let asks = self.asking.iter().any(|other| other.operator == id);
        if asks {
            Err(MemoryError::Operator(id))
        } else {
            Ok(())
        }
    }

    fn operator_began(
        &mut self,
        id: OperatorId,
        query: QueryId,
        on_refusal: OnRefusal,
    ) -> Result<(), MemoryError> {
        if self.operators.contains_key(&id) {
            return Err(MemoryError::Operator(id));
        }
        self.count_operator(query, on_refusal, |count| *count += 1)?;
        let operator = Operator {
            query,
            on_refusal,
            bytes: 0,
            base: 0,
            room: 0,
        };
        self.operators.insert(id, operator);
        Ok(())
    }

    fn count_operator(
        &mut self,
        id: QueryId,
        on_refusal: OnRefusal,
        count: impl Fn(&mut u32),
    ) -> Result<(), MemoryError> {
        let small_max = self.small_max();
        let query = self.queries.get_mut(&id).ok_or(MemoryError::Query(id))?;
        self.sums.take_out(query, small_max);
        count(&mut query.operators);
        if matches!(on_refusal, OnRefusal::Spills(_)) {
            count(&mut query.spillers);
        }
        self.sums.put_in(query, small_max);
        Ok(())
    }

    fn gave(&mut self, id: OperatorId, bytes: u64, left: u64) -> Result<(), MemoryError> {
        let has = self.operator(id)?.bytes;
        if bytes > has {
            return Err(MemoryError::TooMuch {
                operator: id,
                bytes,
                has,
            });
        }
        self.shrink(id, bytes, left);
        Ok(())
    }

    fn operator_ended(&mut self, id: OperatorId) -> Result<(), MemoryError> {
        let &Operator {
            query,
            on_refusal,
            bytes,
            ..
        } = self.operator(id)?;
        self.shrink(id, bytes, 0);
        self.ask_no_more(id);
        self.give_up_room(id);
        self.operators.remove(&id);
        self.count_operator(query, on_refusal, |count| *count -= 1)
    }

    // ---------------------------------------------------------------- chunks in work

    fn scratch_arrived(&mut self, id: ScratchId, bytes: u64) -> Result<(), MemoryError> {
        if self.knows_scratch(id) {
            return Err(MemoryError::Scratch(id));
        }
        self.scratch_waits(id, bytes.min(BYTES_MAX));
        Ok(())
    }

    fn scratch_closed(&mut self, id: ScratchId) -> Result<(), MemoryError> {
        if !self.knows_scratch(id) {
            return Err(MemoryError::Scratch(id));
        }
        self.close_scratch(id);
        Ok(())
    }

    fn knows_scratch(&self, id: ScratchId) -> bool {
        self.scratch.contains_key(&id) || self.scratch_waiting.iter().any(|(other, _)| *other == id)
    }

    // ---------------------------------------------------------------- the process

    /// Credit is dropped: what queries gave back under the old limit may not exist under the new
    /// one.
    fn change_limit(&mut self, limit: u64, reserve: u64, for_small: u64) {
        let small_max = self.small_max();
        (self.config.limit, self.config.reserve) = (limit, reserve);
        self.config.for_small = for_small;
        self.room_seen = Room::default();
        let small_max_then = self.small_max();
        for query in self.queries.values_mut() {
            self.sums.take_out(query, small_max);
            (query.credit, query.fresh) = (0, 0);
            self.sums.put_in(query, small_max_then);
        }
        self.end_youngest(true);
    }

    /// Takes what the kernel counts beyond our own count.
    fn measured(&mut self, bytes: u64) {
        let sums = &self.sums;
        let of_holders = sums.kept - sums.unused + sums.connections + sums.droppable;
        let counted = sums.operators + sums.scratch + of_holders;
        let beyond = bytes.min(BYTES_MAX).saturating_sub(counted);
        // The kernel's count lags behind freed memory, so the lower of two measurements counts.
        let beyond = beyond.min(std::mem::replace(&mut self.beyond_before, beyond));
        let fall = self.unaccounted.saturating_sub(beyond) / FALL;
        self.unaccounted = (self.unaccounted - fall).max(beyond);
        self.end_youngest(false);
    }

    fn tick(&mut self) {
        let small_max = self.small_max();
        let (now, sums) = (self.now.0, &mut self.sums);
        for query in self.queries.values_mut() {
            if query.credit > 0 && now - query.turned_at.0 >= CREDIT_NS {
                sums.take_out(query, small_max);
                query.credit = std::mem::take(&mut query.fresh);
                query.turned_at = self.now;
                sums.put_in(query, small_max);
            }
        }
        self.spent.clear();
        self.open_after_patience();
        self.end_youngest(false);
        self.end_silent();
    }
}
