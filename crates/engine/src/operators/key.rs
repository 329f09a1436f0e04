//! What does an operator compute? Equal keys mean equal rows.
//!
//! Idea: a key is a tree of texts, one for each node of the plan, made once for a query. The keys
//! of all operators above a subtree share its texts; a hash in front decides nearly every
//! comparison.
//! Not here: the texts (`plan/share_operators/`).

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::tasks::Threads;

/// The functions that a text names by their addresses. They take no part in comparisons.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptFunctions {
    _keeps: Arc<[Function]>,
}

impl KeptFunctions {
    pub(crate) fn new(functions: Vec<Function>) -> Self {
        Self {
            _keeps: functions.into(),
        }
    }
}

impl PartialEq for KeptFunctions {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeptFunctions {}

impl PartialOrd for KeptFunctions {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeptFunctions {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// A function that a text names by its address.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    Scalar { _keeps: ScalarUDF },
    Aggregate { _keeps: AggregateUDF },
}

/// What a subtree of a plan computes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlanKey {
    hash: u64,
    node: Box<str>,
    inputs: Vec<Arc<Self>>,
    functions: KeptFunctions,
    /// Bytes of the texts of all nodes.
    bytes: usize,
}

impl PlanKey {
    /// `functions`: those that `node` names.
    pub(crate) fn new(node: String, functions: KeptFunctions, inputs: Vec<Arc<Self>>) -> Self {
        let mut hasher = DefaultHasher::new();
        node.hash(&mut hasher);
        for input in &inputs {
            input.hash.hash(&mut hasher);
        }
        Self {
            hash: hasher.finish(),
            bytes: node.len() + inputs.iter().map(|input| input.bytes).sum::<usize>(),
            node: node.into(),
            inputs,
            functions,
        }
    }
}

/// What an operator computes, and all that it may depend on besides its plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperatorKey {
    plan: Arc<PlanKey>,
    /// The schema of its output, as a text.
    schema: Arc<str>,
    /// The session's options.
    options: Arc<str>,
    /// Where the operator runs: two runtimes of DataFusion may have different stores, and tasks
    /// that a plan starts end with the threads on which they were started.
    place: (Threads, usize),
}

impl OperatorKey {
    pub(crate) fn new(plan: Arc<PlanKey>, schema: Arc<str>, options: Arc<str>) -> Self {
        Self {
            plan,
            schema,
            options,
            place: (Threads::default(), 0),
        }
    }

    /// Bytes of the key's texts without the options, which the keys of a session's queries share.
    pub(crate) fn bytes(&self) -> usize {
        self.plan.bytes + self.schema.len()
    }

    /// The key of an operator that runs here; `None` outside of any runtime of Tokio.
    ///
    /// The stores of a runtime are named by their address. It stays theirs as long as the key can
    /// be found, because a run keeps the runtime of its host alive. A server's queries have
    /// runtimes of their own with the same stores.
    pub(crate) fn at(&self, context: &TaskContext) -> Option<Self> {
        let threads = Threads::current()?;
        let stores = Arc::as_ptr(&context.runtime_env().object_store_registry);
        Some(Self {
            place: (threads, stores.addr()),
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(node: &str) -> Arc<PlanKey> {
        Arc::new(PlanKey::new(
            node.to_owned(),
            KeptFunctions::default(),
            Vec::new(),
        ))
    }

    #[test]
    fn keys_tell_trees_apart() {
        let over = |inputs: Vec<Arc<PlanKey>>| {
            PlanKey::new("join".to_owned(), KeptFunctions::default(), inputs)
        };
        assert_eq!(
            over(vec![leaf("a"), leaf("b")]),
            over(vec![leaf("a"), leaf("b")])
        );
        assert_ne!(
            over(vec![leaf("a"), leaf("b")]),
            over(vec![leaf("b"), leaf("a")])
        );
        assert_ne!(over(vec![leaf("ab")]), over(vec![leaf("a"), leaf("b")]));
        assert_ne!(leaf("a"), Arc::new(over(vec![leaf("a")])));
    }
}
