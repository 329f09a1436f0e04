//! An operator of a query's plan that can be shared: what it is, who reads it, and what is shown of
//! its part in a run.
//!
//! Not here: its plan node (`exec.rs`), its streams (`reader.rs`).

use std::fmt;
use std::sync::Arc;

use coscan_core::operators::{OperatorKind, Owner};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use parking_lot::Mutex;

use super::coordinator::Coordinator;
use super::key::OperatorKey;

/// An operator of a query's plan that can be shared.
pub(crate) struct SharedOperator {
    pub(crate) key: OperatorKey,
    pub(crate) kind: OperatorKind,
    /// The plan of the operator.
    pub(crate) child: Arc<dyn ExecutionPlan>,
    /// Bytes that its scans read.
    pub(crate) cost_bytes: u64,
    /// Bytes of kept runs that the session allows; 0: its run is not kept, and it reads no kept
    /// run.
    pub(crate) keep_bytes_max: u64,
    /// The number of its query.
    pub(crate) query: u64,
    /// Who reads it.
    pub(crate) outer: Arc<OwnerCell>,
    /// Who reads the shared operators below it.
    pub(crate) inside: Arc<OwnerCell>,
    pub(crate) coordinator: Arc<Coordinator>,
}

impl SharedOperator {
    pub(super) fn owner(&self) -> Owner {
        self.outer.get()
    }
}

/// Who reads the operators between one shared operator of a plan and the next: the query, or the
/// run of the operator above. It is known once the operator above has arrived; the operators below
/// are not read earlier.
#[derive(Debug)]
pub(crate) struct OwnerCell(Mutex<Owner>);

impl OwnerCell {
    pub(crate) fn of_query(query: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Owner::Query(query))))
    }

    fn get(&self) -> Owner {
        *self.0.lock()
    }

    pub(super) fn set(&self, owner: Owner) {
        *self.0.lock() = owner;
    }
}

/// What EXPLAIN ANALYZE shows.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) metrics: ExecutionPlanMetricsSet,
    part: Mutex<Option<Part>>,
}

/// The part of a query in a run.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Host,
    Satellite {
        /// The host's query.
        of: u64,
    },
    /// The query reads a kept run.
    Late {
        /// The host's query.
        of: u64,
    },
    Alone,
}

impl Shown {
    pub(super) fn say(&self, part: Part) {
        *self.part.lock() = Some(part);
    }

    /// Writes which part query `query` has; nothing before it has one.
    pub(super) fn fmt_part(&self, query: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.part.lock() {
            None => Ok(()),
            Some(Part::Host) => write!(f, ", query={query}, host"),
            Some(Part::Satellite { of }) => write!(f, ", query={query}, satellite of query {of}"),
            Some(Part::Late { of }) => write!(f, ", query={query}, kept of query {of}"),
            Some(Part::Alone) => write!(f, ", query={query}, alone"),
        }
    }

    /// A metric of the whole packet, not of one partition.
    pub(super) fn count(&self, name: &'static str) -> Count {
        MetricBuilder::new(&self.metrics).global_counter(name)
    }
}
