//! The distinct expressions of all members of a chunk job, as one graph: each node is evaluated once a batch.
//!
//! Idea: an expression is cut into nodes wherever a part of it may be somebody else's too. What is evaluated lazily (CASE,
//! AND, OR and functions that may skip arguments) stays whole: a part of it might fail for rows that the whole never asks.
//! Values are kept in a [`Frame`], one for a batch, or for those rows of it that a class wants.
//! Not here: which rows (`query_sets.rs`), aggregates (`program.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coscan_storage::pool::ColumnRequest;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr,
};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use super::expr_key::{Key, KeyWriter};

/// A node's position in its graph.
pub(crate) type NodeId = usize;

/// The graph of a chunk job.
#[derive(Default)]
pub(crate) struct Graph {
    /// The columns that are read, each once.
    inputs: Vec<ColumnRequest>,
    nodes: Vec<Node>,
    known: HashMap<Key, NodeId>,
}

enum Node {
    /// Position in [`Graph::inputs`].
    Input(usize),
    Compute {
        /// Over `schema`.
        expr: Arc<dyn PhysicalExpr>,
        /// The nodes that are the columns of `schema`.
        children: Vec<NodeId>,
        schema: SchemaRef,
    },
}

/// The values of nodes for some rows.
pub(crate) struct Frame {
    rows: usize,
    values: Vec<Option<ArrayRef>>,
}

impl Graph {
    /// The columns that the nodes read.
    pub(crate) fn inputs(&self) -> &[ColumnRequest] {
        &self.inputs
    }

    /// The node of an expression over `schema`. `None` if it has no key.
    ///
    /// # Errors
    /// If the expression does not fit the schema: a bug.
    pub(crate) fn add(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
    ) -> Result<Option<NodeId>> {
        let Some(key) = KeyWriter::key_of(expr, schema) else {
            return Ok(None);
        };
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(*known));
        }
        let node = if let Some(column) = expr.downcast_ref::<Column>() {
            let field = Arc::clone(&schema.fields()[column.index()]);
            self.inputs.push(ColumnRequest {
                name: field.name().clone(),
                field,
            });
            Node::Input(self.inputs.len() - 1)
        } else {
            self.compute(expr, schema)?
        };
        self.nodes.push(node);
        self.known.insert(key, self.nodes.len() - 1);
        Ok(Some(self.nodes.len() - 1))
    }

    fn compute(&mut self, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Node> {
        let mut fields: Vec<Arc<Field>> = Vec::new();
        let mut children = Vec::new();
        if !is_divisible(expr) {
            let mut columns: Vec<Column> = collect_columns(expr).into_iter().collect();
            columns.sort_by_key(Column::index);
            for column in columns {
                fields.push(Arc::clone(&schema.fields()[column.index()]));
                let column: Arc<dyn PhysicalExpr> = Arc::new(column);
                children.extend(self.add(&column, schema)?);
            }
            let schema = Arc::new(Schema::new(fields));
            let expr = reassign_expr_columns(Arc::clone(expr), &schema)?;
            return Ok(Node::Compute {
                expr,
                children,
                schema,
            });
        }
        let mut replaced: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for child in expr.children() {
            if child.is::<Literal>() {
                replaced.push(Arc::clone(child));
                continue;
            }
            let name = format!("{}", children.len());
            let (data_type, nullable) = (child.data_type(schema)?, child.nullable(schema)?);
            let node = self.add(child, schema)?;
            children.push(node.ok_or_else(|| internal_datafusion_err!("{child} has no key"))?);
            replaced.push(Arc::new(Column::new(&name, fields.len())));
            fields.push(Arc::new(Field::new(name, data_type, nullable)));
        }
        Ok(Node::Compute {
            expr: Arc::clone(expr).with_new_children(replaced)?,
            children,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The inputs that these nodes read, each once, as positions in [`Graph::inputs`].
    pub(crate) fn inputs_of(&self, nodes: impl Iterator<Item = NodeId>) -> Vec<usize> {
        let mut inputs = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        let mut open: Vec<NodeId> = nodes.collect();
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut seen[node], true) {
                continue;
            }
            match &self.nodes[node] {
                Node::Input(input) => inputs.push(*input),
                Node::Compute { children, .. } => open.extend(children),
            }
        }
        inputs.sort_unstable();
        inputs
    }

    /// The node's values for the rows of the frame; `inputs` are the columns for the same rows.
    ///
    /// # Errors
    /// What an expression fails with.
    pub(crate) fn value(
        &self,
        node: NodeId,
        frame: &mut Frame,
        inputs: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        if let Some(known) = &frame.values[node] {
            return Ok(Arc::clone(known));
        }
        let value = match &self.nodes[node] {
            Node::Input(input) => inputs(*input)?,
            Node::Compute {
                expr,
                children,
                schema,
            } => {
                let columns = children
                    .iter()
                    .map(|child| self.value(*child, frame, inputs))
                    .collect::<Result<_>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(frame.rows));
                let batch =
                    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
                expr.evaluate(&batch)?.into_array(frame.rows)?
            }
        };
        frame.values[node] = Some(Arc::clone(&value));
        Ok(value)
    }

    /// An empty frame for so many rows.
    pub(crate) fn frame(&self, rows: usize) -> Frame {
        Frame {
            rows,
            values: vec![None; self.nodes.len()],
        }
    }
}

impl Frame {
    /// How many rows it is for.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

/// A filter that is used for several columns.
pub(crate) fn filter_of(mask: &BooleanArray) -> FilterPredicate {
    FilterBuilder::new(mask).optimize().build()
}

/// Whether the children are evaluated for every row whenever the expression is.
fn is_divisible(expr: &Arc<dyn PhysicalExpr>) -> bool {
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => !matches!(binary.op(), Operator::And | Operator::Or),
        None => {
            expr.is::<CastExpr>()
                || expr.is::<NotExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<IsNotNullExpr>()
                || expr.is::<NegativeExpr>()
                || expr.is::<LikeExpr>()
                || expr
                    .downcast_ref::<InListExpr>()
                    .is_some_and(|list| list.list().iter().all(|item| item.is::<Literal>()))
        }
    }
}
