//! Which holder gives memory back?
//!
//! Idea: the holder whose bytes are cheapest to get back, then the next. Bytes of one owner whose
//! prices differ much are separate holders (frames that a running scan wants, and others).
//! Bounds: one step per holder.
//! MEM-I2.

use std::collections::btree_map::Entry;

use super::{Action, Class, Holder, HolderId, Memory};

/// The least that is asked for, as a divisor of the limit: holders should not be asked once per
/// batch.
const STEP: u64 = 64;

impl Holder {
    pub(super) fn droppable(&self) -> u64 {
        match self.class {
            Class::Drops(_) => self.bytes.saturating_sub(self.floor),
            Class::Keeps | Class::Connections => 0,
        }
    }

    /// The bytes that no request takes away.
    pub(super) fn kept(&self) -> u64 {
        match self.class {
            Class::Drops(_) => self.floor,
            Class::Keeps | Class::Connections => self.bytes,
        }
    }

    /// The part of `kept` that it does not use.
    pub(super) fn unused(&self) -> u64 {
        self.kept().saturating_sub(self.bytes)
    }

    pub(super) fn price(&self) -> Option<u64> {
        match self.class {
            Class::Drops(price) => Some(price),
            Class::Keeps | Class::Connections => None,
        }
    }
}

impl Memory {
    /// The bytes that a holder may have in all. For the class `Drops`: what it has, what is free,
    /// and what cheaper holders would give back for it. For `Connections`: the reserve, and what
    /// is neither taken nor for small queries (MEM-I9). For `Keeps`: 0.
    #[must_use]
    pub fn room(&self, holder: HolderId) -> u64 {
        if self
            .holders
            .get(&holder)
            .is_some_and(|own| own.class == Class::Connections)
        {
            let beyond = self.sums.connections.saturating_sub(self.config.reserve);
            let others = (self.taken() - beyond).saturating_add(self.left_for_small());
            let free = self.ceiling().saturating_sub(others);
            return free.saturating_add(self.config.reserve);
        }
        let Some((own, price)) = self
            .holders
            .get(&holder)
            .and_then(|h| Some((h, h.price()?)))
        else {
            return 0;
        };
        let others = self.holders.iter().filter(|(id, _)| **id != holder);
        let dearer = others.map(|(_, other)| match other.price() {
            Some(p) if p < price => 0,
            Some(_) => other.droppable(),
            None => 0,
        });
        let own_floor = own.kept();
        let beside = (self.taken() - own_floor).saturating_add(dearer.sum());
        self.ceiling().saturating_sub(beside).max(own_floor)
    }

    /// The bytes that holders must give back before `bytes` more can be taken.
    pub(super) fn lacking(&self, bytes: u64) -> u64 {
        let with = self.taken() + self.sums.droppable;
        with.saturating_add(bytes).saturating_sub(self.ceiling())
    }

    /// The bytes that holders would give back at a price below `price`.
    pub(super) fn cheaper(&self, price: u64) -> u64 {
        let holders = self.holders.values();
        let cheaper = holders.filter(|holder| holder.price().is_some_and(|p| p < price));
        cheaper.map(Holder::droppable).sum()
    }

    /// Asks the cheapest holders for `bytes` bytes, at least a [`STEP`]. A holder that has not
    /// answered the last request is not asked for more, and one that gave nothing is left alone
    /// until the next tick.
    pub(super) fn reclaim(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut left = bytes.max(self.config.limit / STEP);
        let mut by_price: Vec<(u64, HolderId, u64)> = Vec::new();
        for (id, holder) in &self.holders {
            if self.spent.contains(id) {
                continue;
            }
            if let (Some(price), bytes @ 1..) = (holder.price(), holder.droppable()) {
                by_price.push((price, *id, bytes));
            }
        }
        by_price.sort_unstable();
        for (_, holder, droppable) in by_price {
            if left == 0 {
                return;
            }
            let bytes = droppable.min(left);
            left -= bytes;
            if let Entry::Vacant(asked) = self.asked.entry(holder) {
                asked.insert(false);
                self.actions.push_back(Action::Reclaim { holder, bytes });
            }
        }
    }
}
