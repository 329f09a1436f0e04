//! Which other members want this chunk?
//!
//! The board knows the members of every table, and which classes should not be shared: those with
//! so many groups that states are not small, and those whose predicates cut the rows into too many
//! sets. Jobs measure both; nothing is estimated.
//! Not here: what a job does (`job.rs`).
//! Bounds: at most `AVOIDED_MAX` classes are remembered as not worth sharing; then all are
//! forgotten and measured again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use coscan_storage::pool::ChunkLease;
use parking_lot::Mutex;

use super::evaluation::{FragmentPlan, Key, PREDICATES_MAX};
use super::member::{Delivered, Member, Order, TableKey};
use super::state_cache::StateCache;
use super::totals::Totals;

/// An entry takes a few hundred bytes.
const AVOIDED_MAX: usize = 1024;

/// The members, states and counts that the queries of an engine share above their scans.
pub(crate) struct Board {
    tables: Mutex<HashMap<TableKey, Vec<Weak<Member>>>>,
    avoided: Mutex<HashMap<(TableKey, Key), Avoid>>,
    pub(crate) cache: Arc<StateCache>,
    pub(crate) totals: Arc<Totals>,
}

/// A class with members, as a row of `coscan.fragments`.
#[derive(Debug, Default)]
pub(crate) struct ClassRow {
    pub(crate) table: u32,
    pub(crate) grouping: String,
    pub(crate) members: u64,
    /// Members that work row by row.
    pub(crate) alone: u64,
    /// The number of chunks that jobs are working on, over all members.
    pub(crate) outstanding: u64,
}

/// A kind of sharing that does not pay for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Avoid {
    /// Jobs that leave states. The rows of the class go to DataFusion's aggregate instead.
    States,
    /// Jobs that serve more than one predicate.
    Sets,
}

impl Board {
    pub(crate) fn new(cache: Arc<StateCache>) -> Self {
        Self {
            tables: Mutex::default(),
            avoided: Mutex::default(),
            cache,
            totals: Arc::default(),
        }
    }

    /// A new member: one execution of a fragment, whose session allows the cache `cache_bytes`.
    pub(crate) fn member(&self, plan: Arc<FragmentPlan>, cache_bytes: u64) -> Member {
        let (cache, totals) = (Arc::clone(&self.cache), Arc::clone(&self.totals));
        Member::new(plan, cache, totals, cache_bytes)
    }

    /// Registers the member, so that other queries' jobs may serve it.
    pub(crate) fn enter(&self, member: &Arc<Member>) {
        let Some(table) = member.table() else { return };
        let mut tables = self.tables.lock();
        tables.retain(|_, members| {
            members.retain(|member| member.strong_count() > 0);
            !members.is_empty()
        });
        tables
            .entry(table)
            .or_default()
            .push(Arc::downgrade(member));
    }

    /// The members of a table, in the order of their registration.
    fn members(&self, table: TableKey) -> Vec<Arc<Member>> {
        let tables = self.tables.lock();
        let members = tables.get(&table);
        members.map_or_else(Vec::new, |all| {
            all.iter().filter_map(Weak::upgrade).collect()
        })
    }

    /// The classes that currently have members.
    pub(crate) fn classes(&self) -> Vec<ClassRow> {
        let tables = self.tables.lock();
        let mut rows: BTreeMap<(TableKey, String), ClassRow> = BTreeMap::new();
        for (table, members) in &*tables {
            for member in members.iter().filter_map(Weak::upgrade) {
                let grouping = member.grouping();
                let key = (*table, grouping.clone());
                let row = rows.entry(key).or_insert_with(|| ClassRow {
                    table: table.1.0,
                    grouping,
                    ..ClassRow::default()
                });
                row.members += 1;
                row.alone += u64::from(member.is_alone());
                row.outstanding += member.outstanding() as u64;
            }
        }
        rows.into_values().collect()
    }

    /// Remembers a kind of sharing that does not pay for a class.
    pub(crate) fn avoid(&self, table: TableKey, class: Key, what: Avoid) {
        let mut avoided = self.avoided.lock();
        if avoided.len() >= AVOIDED_MAX {
            avoided.clear();
        }
        avoided.insert((table, class), what);
    }

    /// The kind of sharing that is known not to pay for a class.
    pub(crate) fn avoids(&self, table: TableKey, class: &Key) -> Option<Avoid> {
        let avoided = self.avoided.lock();
        avoided.get(&(table, class.clone())).copied()
    }

    /// The orders of all members that join a job on the leased chunk: the host, to which the chunk
    /// was handed, and every other member of its class that wants the chunk and needs only columns
    /// in memory. The chunk is claimed for all of them. A member whose states are cached gets
    /// these instead.
    pub(crate) fn gather(&self, table: TableKey, lease: &ChunkLease, host: Order) -> Vec<Order> {
        let chunk = lease.info().id();
        let class = host.work.class.clone();
        let predicates_max = match self.avoids(table, &class) {
            Some(Avoid::Sets) => 1,
            _ => PREDICATES_MAX,
        };
        let mut predicates = vec![host.work.predicate.clone()];
        let mut orders = vec![host];
        for member in self.members(table) {
            let Some(work) = member.wants(chunk).filter(|work| work.class == class) else {
                continue;
            };
            if let Some(states) = member.recall(lease.info(), &work) {
                if let Some(order) = member.order(chunk, work) {
                    member.withdraw(&order);
                    order.deliver(states, Delivered::Remembered);
                }
                continue;
            }
            let known = predicates.contains(&work.predicate);
            if !known && predicates.len() >= predicates_max || !lease.make_sure_of(&work.columns) {
                continue;
            }
            let predicate = work.predicate.clone();
            let Some(order) = member.order(chunk, work) else {
                continue;
            };
            if !known {
                predicates.push(predicate);
            }
            orders.push(order);
        }
        orders
    }
}
