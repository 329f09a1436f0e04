//! The plan node of a Parquet scan that has nodes to run on.
//!
//! It stands for the scan while a plan is divided. First it is whole, and knows its pieces and the
//! nodes that may read them. When it is known how many tasks its stage has, it becomes one part
//! for each task: the scan of the pieces that this task's node reads, or all of it for a single
//! task. The part travels, and what arrives is the scan itself.
//! Not here: the codec of a part (`upstream/codec.rs`).
//! PLACED-I1: task `i` of a stage runs on node `i` of the query's nodes, in their order, whatever
//! its scans, so that two scans of a stage agree.

use std::fmt;
use std::sync::Arc;

use coscan::parts::{Scan, ScanPiece};
use coscan_core::placement::{NodeOrder, Piece};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use url::Url;

use crate::nodes::{self, Present};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct PlacedScanExec {
    scan: Arc<dyn ExecutionPlan>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// The whole scan, which runs on at most `degree` nodes.
    Whole {
        pieces: Vec<ScanPiece>,
        degree: usize,
        order: NodeOrder,
        urls: Vec<Url>,
    },
    /// The part of one node.
    Part { node: Url, pieces: usize },
}

impl PlacedScanExec {
    /// The whole scan of these pieces.
    pub(crate) fn whole(
        scan: Arc<dyn ExecutionPlan>,
        pieces: Vec<ScanPiece>,
        degree: usize,
        present: &Present,
    ) -> Self {
        let place = Place::Whole {
            pieces,
            degree,
            order: present.order.clone(),
            urls: present.urls.clone(),
        };
        Self { scan, place }
    }

    /// The scan as it runs on its node.
    pub(crate) fn scan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.scan
    }

    /// The most tasks that the scan is divided into.
    pub(crate) fn degree(&self) -> usize {
        match &self.place {
            Place::Whole { degree, .. } => *degree,
            Place::Part { .. } => 1,
        }
    }

    /// The node of a part.
    pub(crate) fn node(&self) -> Option<&Url> {
        match &self.place {
            Place::Whole { .. } => None,
            Place::Part { node, .. } => Some(node),
        }
    }

    /// The parts of `tasks` tasks, in their order.
    ///
    /// # Errors
    /// If this is a part already, or there are more tasks than nodes: bugs.
    pub(crate) fn parts(&self, tasks: usize) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let Place::Whole {
            pieces,
            order,
            urls,
            ..
        } = &self.place
        else {
            return internal_err!("a scan is divided twice");
        };
        let (Some(scan), true) = (Scan::of(&self.scan), (1..=order.len()).contains(&tasks)) else {
            return internal_err!("a scan is divided into {tasks} parts");
        };
        let placed: Vec<Piece> = pieces.iter().map(|piece| piece.placed).collect();
        let placed = order.place(&placed, tasks);
        let mut own: Vec<Vec<&ScanPiece>> = vec![vec![]; tasks];
        for (piece, task) in pieces.iter().zip(placed) {
            own[task].push(piece);
        }
        let nodes = order.first(tasks);
        let parts = own.iter().zip(nodes).map(|(own, node)| {
            let part = Self {
                scan: match tasks {
                    1 => Arc::clone(&self.scan),
                    _ => scan.cut(own),
                },
                place: Place::Part {
                    node: urls[node].clone(),
                    pieces: own.len(),
                },
            };
            Arc::new(part) as Arc<dyn ExecutionPlan>
        });
        Ok(parts.collect())
    }
}

impl DisplayAs for PlacedScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Whole { pieces, degree, .. } => {
                write!(
                    f,
                    "PlacedScanExec: pieces={}, nodes={degree}, ",
                    pieces.len()
                )?;
            }
            Place::Part { node, pieces } => {
                let node = nodes::name(node);
                write!(f, "PlacedScanExec: node={node}, pieces={pieces}, ")?;
            }
        }
        self.scan.fmt_as(t, f)
    }
}

impl ExecutionPlan for PlacedScanExec {
    fn name(&self) -> &'static str {
        "PlacedScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.scan.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            return Ok(self);
        }
        internal_err!("a PlacedScanExec has no children")
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a scan that has a node runs there")
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.scan.statistics_from_inputs(&[], args)
    }
}
