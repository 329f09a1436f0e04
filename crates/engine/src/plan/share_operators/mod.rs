//! Which operators of a plan may be shared with other queries?
//!
//! The whole query, aggregates, sorts, joins, hash tables and their inputs. Their subtree must
//! have a key (`node.rs`, `scan.rs`). All that its nodes get from other nodes at run time (dynamic
//! filters, results of subqueries) must be made in it. Its scans must read more than
//! `coscan.small_table_bytes`. If only nodes that hardly work are between two operators, the upper
//! one is shared.
//! Equal subtrees of the plan itself run once (`equal.rs`).
//! Not here: how operators are shared (`crate::operators`).
//! I9: an operator without a key is never shared. Operators of queries whose options differ are not
//! shared either, unless only options in `IGNORED` differ.

mod equal;
mod node;
mod scan;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Weak};

use coscan_core::operators::OperatorKind;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;

use self::equal::{Equal, condenses};
use self::node::{Noted, cost_bytes, note, table_key};
use crate::once::{OnceExec, Shared};
use crate::operators::{
    Coordinator, HashTable, OperatorKey, OwnerCell, SharedHashJoinExec, SharedOperator,
    has_shareable_table, share,
};
use crate::resources::Resources;
use crate::settings::Settings;

/// Options on which no row depends.
const IGNORED: [&str; 2] = ["coscan.label", "coscan.memory"];

/// What the names of options begin with that say how rows come from other nodes. What reads them
/// has no key.
const OF_OTHER_NODES: &str = "distributed.";

/// The rule's name.
pub(crate) const SHARE_OPERATORS: &str = "CoscanShareOperators";

/// Puts a `SharedExec` over each operator that may be shared. Runs last.
#[derive(Debug)]
pub(crate) struct ShareOperators {
    resources: Weak<Resources>,
}

impl ShareOperators {
    pub(crate) fn new(resources: Weak<Resources>) -> Self {
        Self { resources }
    }
}

impl PhysicalOptimizerRule for ShareOperators {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(settings) = config.extensions.get::<Settings>() else {
            return Ok(plan);
        };
        let Some(resources) = self.resources.upgrade() else {
            return Ok(plan);
        };
        if !settings.cooperative || !settings.share_operators {
            return Ok(plan);
        }
        let cost_bytes = cost_bytes(&plan);
        if cost_bytes <= settings.small_table_bytes {
            return Ok(plan);
        }
        let noted = note(&plan);
        debug_assert_eq!(noted.cost_bytes, cost_bytes, "counted as noted");
        let coordinator = resources.operators();
        let query = coordinator.next_query();
        let mut wrapping = Wrapping {
            coordinator,
            query,
            options: coordinator.intern(options(config)),
            cheap_bytes: settings.small_table_bytes,
            keep_bytes_max: settings.state_cache_bytes(),
            equal: Equal::default(),
        };
        wrapping.equal = Equal::of(&noted, &|noted| wrapping.key_of_equal(noted));
        wrapping.wrap(noted, Above::Root, &OwnerCell::of_query(query))
    }

    fn name(&self) -> &'static str {
        SHARE_OPERATORS
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What a query's operators are wrapped with.
struct Wrapping<'a> {
    coordinator: &'a Arc<Coordinator>,
    query: u64,
    options: Arc<str>,
    cheap_bytes: u64,
    /// 0: no run is kept, and no kept run is read.
    keep_bytes_max: u64,
    equal: Equal,
}

/// What stands above a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Above {
    /// Nothing: the node is the whole query.
    Root,
    /// A shared operator, with no node that works in between.
    Shared,
    /// A hash join that builds its hash table from the node's rows.
    HashBuild,
    Nothing,
}

impl Wrapping<'_> {
    fn wrap(
        &self,
        noted: Noted,
        above: Above,
        outer: &Arc<OwnerCell>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.equal.is_empty() {
            return self.wrap_one(noted, above, outer);
        }
        let key = self.key_of_equal(&noted);
        match key.filter(|key| self.equal.has(key)) {
            Some(key) => self.wrap_equal(noted, key),
            None => self.wrap_one(noted, above, outer),
        }
    }

    /// The key of a node that runs once if other nodes of the plan have the same one.
    fn key_of_equal(&self, noted: &Noted) -> Option<OperatorKey> {
        if !condenses(noted) || !self.is_worth_sharing(noted) {
            return None;
        }
        self.key(noted)
    }

    fn key(&self, noted: &Noted) -> Option<OperatorKey> {
        let plan = noted.key.clone()?;
        let schema = format!("{:?}", noted.node.schema());
        let options = Arc::clone(&self.options);
        Some(OperatorKey::new(plan, schema.into(), options))
    }

    /// One of several equal subtrees.
    fn wrap_equal(&self, noted: Noted, key: OperatorKey) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(shared) = self.equal.planned(&key) {
            return Ok(Arc::new(OnceExec::new(&shared)));
        }
        // Any of the places may be the first to be read, so no operator above one of them reads it.
        let outer = OwnerCell::of_query(self.query);
        let input = self.wrap_one(noted, Above::Nothing, &outer)?;
        let shared = Shared::new(equal::NAME, input);
        self.equal.plan(key, &shared);
        Ok(Arc::new(OnceExec::new(&shared).showing()))
    }

    fn wrap_one(
        &self,
        noted: Noted,
        above: Above,
        outer: &Arc<OwnerCell>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let kind = match above {
            Above::Root if noted.works && !is_left_to_queries(&noted) => {
                Some(noted.kind.unwrap_or(OperatorKind::Rows))
            }
            Above::HashBuild => Some(OperatorKind::HashBuild),
            Above::Nothing => noted.kind,
            Above::Root | Above::Shared => None,
        };
        let kind = kind.filter(|_| self.is_worth_sharing(&noted));
        let Some((kind, key)) = kind.zip(self.key(&noted)) else {
            return self.children(noted, above, outer);
        };
        let inside = OwnerCell::of_query(self.query);
        let cost_bytes = noted.cost_bytes;
        let child = self.children(noted, Above::Shared, &inside)?;
        Ok(Arc::new(share(SharedOperator {
            key,
            kind,
            child,
            cost_bytes,
            keep_bytes_max: self.keep_bytes_max,
            query: self.query,
            outer: Arc::clone(outer),
            inside,
            coordinator: Arc::clone(self.coordinator),
        })))
    }

    /// The node, with the operators below it wrapped.
    fn children(
        &self,
        noted: Noted,
        above: Above,
        outer: &Arc<OwnerCell>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let left_to_queries = is_left_to_queries(&noted);
        let node = noted.node;
        let below = match above {
            Above::Root if left_to_queries => Above::Root,
            Above::Shared if noted.is_thin => Above::Shared,
            _ => Above::Nothing,
        };
        let table = self.table(&node, &noted.children, outer);
        let is_join = node.is::<HashJoinExec>();
        let children = noted.children.into_iter().enumerate().map(|(at, child)| {
            if !is_join || at != 0 {
                return self.wrap(child, below, outer);
            }
            let reader = table.as_ref().map_or(outer, |table| &table.inside);
            self.wrap(child, Above::HashBuild, reader)
        });
        let children = children.collect::<Result<Vec<_>>>()?;
        if children.is_empty() {
            return Ok(node);
        }
        let node = replace_children_if_necessary(node, children)?;
        Ok(match table {
            Some(table) => Arc::new(SharedHashJoinExec::new(node, table)),
            None => node,
        })
    }

    /// The making of the hash table of a join, if queries may share the table.
    fn table(
        &self,
        node: &Arc<dyn ExecutionPlan>,
        children: &[Noted],
        outer: &Arc<OwnerCell>,
    ) -> Option<HashTable> {
        let join = node.downcast_ref::<HashJoinExec>()?;
        let build = children.first()?;
        if !self.is_worth_sharing(build) || !has_shareable_table(join) {
            return None;
        }
        let schema = format!("{:?}", build.node.schema());
        let key = table_key(join, build.key.as_ref()?)?;
        Some(HashTable {
            key: OperatorKey::new(key, schema.into(), Arc::clone(&self.options)),
            cost_bytes: build.cost_bytes,
            query: self.query,
            outer: Arc::clone(outer),
            inside: OwnerCell::of_query(self.query),
            coordinator: Arc::clone(self.coordinator),
        })
    }

    /// Whether queries gain from sharing a subtree, and what nodes tell each other at run time
    /// stays in it.
    fn is_worth_sharing(&self, noted: &Noted) -> bool {
        noted.cost_bytes > self.cheap_bytes && noted.is_closed()
    }
}

/// Whether each query does by itself what a node does as its root. That is merging partitions,
/// since whoever runs the query may merge as the client asks for rows, and expressions over an
/// aggregate (`avg` is a quotient of a sum and a count): other queries share the aggregate.
fn is_left_to_queries(noted: &Noted) -> bool {
    let node = &noted.node;
    let merges = node.is::<CoalescePartitionsExec>() && node.fetch().is_none();
    let over_aggregate = || {
        let below = noted.children.first().and_then(|child| child.kind);
        matches!(
            below,
            Some(OperatorKind::Aggregate | OperatorKind::SingleAggregate)
        )
    };
    merges || node.is::<ProjectionExec>() && over_aggregate()
}

/// The session's options as a text, without those that have DataFusion's default: nearly all have.
fn options(config: &ConfigOptions) -> String {
    static DEFAULTS: LazyLock<HashMap<String, Option<String>>> = LazyLock::new(|| {
        let entries = ConfigOptions::default().entries().into_iter();
        entries.map(|entry| (entry.key, entry.value)).collect()
    });
    let mut text = String::new();
    for entry in config.entries() {
        let is_default = DEFAULTS.get(&entry.key) == Some(&entry.value);
        let is_ignored =
            IGNORED.contains(&entry.key.as_str()) || entry.key.starts_with(OF_OTHER_NODES);
        if !is_default && !is_ignored {
            let _infallible = write!(text, "{}={:?};", entry.key, entry.value);
        }
    }
    text
}
