//! On which nodes does a query run?
//!
//! By its size, the degree is the least power of two with which no node needs more than
//! `bytes_per_node`; or all nodes. `coscan.cluster_width` says whether the nodes' load counts as
//! well. For a query that found no memory on a node, only what memory nodes have counts of that. A
//! query on fewer nodes than its size asks for has the block of the order that is least busy; any
//! other one has the first nodes of the order. A query on one node that its load has not narrowed
//! runs where queries on all nodes read most of what it needs.
//! Not here: how load and degree hang together (`coscan_core::parallelism::nodes`).

use std::sync::Arc;
use std::time::Duration;

use coscan::ClusterWidth;
use coscan::parts::{QueryWidth, ScanPiece};
use coscan_core::parallelism::nodes::Why;
use coscan_core::placement;
use futures::future::join_all;
use tokio::time::timeout;
use url::Url;

use super::loads::{ANSWERED_WITHIN, ASKED_AFTER, ASKED_LATER};
use super::{Members, Present, name};
use crate::error::Result;

/// The nodes of a query.
pub(crate) struct Chosen {
    /// These and no others.
    pub(crate) nodes: Present,
    /// How many, and why, as EXPLAIN shows it.
    pub(crate) why: String,
}

impl Members {
    /// The nodes of a query with these scans. `width`: by what they are chosen; `query`: what is
    /// known of the query's width so far.
    ///
    /// # Errors
    /// As [`Members::present`].
    pub(crate) async fn chosen(
        self: &Arc<Self>,
        scans: &[&[ScanPiece]],
        width: ClusterWidth,
        query: Option<&QueryWidth>,
    ) -> Result<Chosen> {
        let present = self.present().await?;
        let all = present.order.len();
        let pieces = scans.iter().copied().flatten();
        let needed = pieces.map(|piece| piece.needed_bytes);
        let needed = needed.fold(0, u64::saturating_add);
        let by_size = |all| placement::degree(needed, self.nodes.bytes_per_node(), all);
        let (nodes, why) = match width {
            ClusterWidth::Fixed(nodes) => {
                let nodes = usize::try_from(nodes).unwrap_or(all).clamp(1, all.max(1));
                let nodes = present.first(nodes, scans);
                (nodes, "coscan.cluster_width".to_owned())
            }
            ClusterWidth::Size => {
                let nodes = present.first(by_size(all), scans);
                (nodes, Why::Size.to_string())
            }
            ClusterWidth::Load => {
                self.hear_from(&present, by_size(all)).await;
                self.by_load(&present, scans, by_size, query)
            }
        };
        let degree = nodes.order.len();
        Ok(Chosen {
            nodes,
            why: format!("Nodes: {degree} of {all} ({why})"),
        })
    }

    /// Has nodes asked how busy they are; waits for the answers if the query wants several nodes.
    async fn hear_from(self: &Arc<Self>, present: &Present, wanted: usize) {
        if wanted > 1 {
            self.ask_loads(&present.urls, ASKED_AFTER).await;
            return;
        }
        if !self.loads.are_due(&present.urls, ASKED_LATER) {
            return;
        }
        let (members, urls) = (Arc::clone(self), present.urls.clone());
        tokio::spawn(async move { members.ask_loads(&urls, ASKED_LATER).await });
    }

    /// Asks those of the nodes how busy they are that were not asked in this time. One that does
    /// not answer is no suspect for that: a query that needs it will notice.
    pub(super) async fn ask_loads(&self, urls: &[Url], within: Duration) {
        let _turn = self.loads.turn().await;
        let is_due = |url: &&Url| self.loads.is_to_be_asked(name(url), within);
        let due: Vec<Url> = urls.iter().filter(is_due).cloned().collect();
        let asked = due.into_iter().map(|url| async move {
            let status = timeout(ANSWERED_WITHIN, self.distribution.status(&url)).await;
            self.loads.was_asked(name(&url), status.is_err());
            let report = status.ok().and_then(|status| status.ok()?.report);
            if let Some(report) = report {
                self.loads.said(name(&url), report);
            }
        });
        join_all(asked).await;
    }

    /// The nodes of a query, and why these.
    fn by_load(
        &self,
        present: &Present,
        scans: &[&[ScanPiece]],
        by_size: impl Fn(usize) -> usize,
        query: Option<&QueryWidth>,
    ) -> (Present, String) {
        let usable = Present::of(self.loads.with_memory(&present.urls));
        let wanted = by_size(usable.order.len());
        let (degree, why) = if query.is_some_and(QueryWidth::is_by_size) {
            (wanted, Why::Size)
        } else {
            self.loads.degree(wanted)
        };
        if let Some(query) = query {
            query.planned(degree < wanted);
        }
        let nodes = if degree == wanted {
            usable.first(degree, scans)
        } else {
            let needed = usable.needed(scans.iter().copied());
            let ordered = usable.ordered().map(name).zip(needed);
            let first = self.loads.block(degree, ordered);
            usable.block(first, degree)
        };
        let mut why = why.to_string();
        let short = present.urls.len() - usable.urls.len();
        if short > 0 {
            why = format!("{why}; {short} without memory");
        }
        (nodes, why)
    }
}

impl Present {
    /// The first nodes of the order; a single one is that with most of what the scans need.
    fn first(&self, degree: usize, scans: &[&[ScanPiece]]) -> Self {
        if degree > 1 {
            self.block(0, degree)
        } else {
            self.with_most(scans.iter().copied())
        }
    }

    /// So many nodes of the order, from this place on.
    fn block(&self, first: usize, degree: usize) -> Self {
        let urls = self.ordered().skip(first).take(degree);
        Self::of(urls.cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::SchemaRef;
    use async_trait::async_trait;
    use coscan_core::parallelism::nodes::NodeReport;
    use datafusion::error::Result as PlanResult;
    use datafusion::execution::{SessionState, SessionStateBuilder};
    use datafusion::physical_plan::ExecutionPlan;
    use tokio::join;

    use super::super::Nodes;
    use super::*;
    use crate::distribution::{Distribution, NodeStatus};

    /// Of eight tasks for each processor.
    const BUSY: NodeReport = NodeReport {
        tasks: 8,
        processors: 1,
        device_permille: 0,
        free_permille: 1_000,
    };

    /// Nodes that say, after a while, that they are busy.
    #[derive(Debug)]
    struct Busy;

    #[async_trait]
    impl Distribution for Busy {
        fn session(&self, builder: SessionStateBuilder) -> SessionStateBuilder {
            builder
        }

        async fn divide(
            &self,
            plan: Arc<dyn ExecutionPlan>,
            _: usize,
            _: &SessionState,
        ) -> PlanResult<Arc<dyn ExecutionPlan>> {
            Ok(plan)
        }

        async fn status(&self, _: &Url) -> Result<NodeStatus> {
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            Ok(NodeStatus {
                version: String::new(),
                process: String::new(),
                report: Some(BUSY),
            })
        }

        fn keep(&self, _: &[Url]) {}

        fn analyzed(
            &self,
            _: &Arc<dyn ExecutionPlan>,
            _: SchemaRef,
        ) -> Option<Arc<dyn ExecutionPlan>> {
            None
        }

        fn shown(&self, _: &dyn ExecutionPlan) -> String {
            String::new()
        }
    }

    fn members() -> Members {
        let nodes = Nodes::new(["a:1", "b:1", "c:1", "d:1"]).unwrap();
        let list = Arc::new(nodes.list());
        Members::new(nodes, list, Arc::default(), Box::new(Busy))
    }

    async fn heard(members: &Members) -> Option<NodeReport> {
        let urls = members.list.urls();
        members.ask_loads(&urls, ASKED_AFTER).await;
        members.loads.report("a:1")
    }

    #[tokio::test]
    async fn a_query_that_comes_while_nodes_are_asked_hears_the_answers() {
        let members = members();
        let both = join!(heard(&members), heard(&members));
        assert_eq!(both, (Some(BUSY), Some(BUSY)));
    }

    #[tokio::test]
    async fn a_query_that_found_no_memory_on_a_node_is_as_wide_as_its_size() {
        let members = members();
        heard(&members).await;
        let present = Present::of(members.list.urls());
        let query = QueryWidth::default();
        let (nodes, why) = members.by_load(&present, &[], |all| all, Some(&query));
        assert_eq!(nodes.order.len(), 2, "{why}");
        assert!(query.widen(), "it was narrow");
        let (nodes, why) = members.by_load(&present, &[], |all| all, Some(&query));
        assert_eq!((nodes.order.len(), why.as_str()), (4, "by size"));
        assert!(!query.widen(), "it was as wide as it can be");
    }
}
