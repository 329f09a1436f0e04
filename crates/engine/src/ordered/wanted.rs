//! Which chunks does an execution want, and what do their statistics say about one column?
//!
//! Not here: which sequence follows (`sequence.rs`).
//! Bounds: O(chunks), and O(pages) where row groups are split.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};

use crate::error::Error;
use crate::read::prune::column_bounds::{self, ColumnBounds};
use crate::read::scan::{Running, ScanPlan};

/// The wanted chunks of each file that has any, in the file's order.
pub(super) struct Wanted {
    /// The positions of the chunks in the table.
    pub(super) chunks: Vec<Vec<usize>>,
    pub(super) bounds: Vec<Vec<ColumnBounds>>,
}

/// The wanted chunks, and the bounds of the column at position `at` of the scan's output. `None`
/// if a file lacks the column or has it in another type.
///
/// # Errors
/// If the execution does not fit together: a bug.
pub(super) fn wanted(running: &Running, scan: &ScanPlan, at: usize) -> Result<Option<Wanted>> {
    let mut by_file: HashMap<_, Vec<usize>> = HashMap::new();
    for (chunk, info) in running.table.chunks().iter().enumerate() {
        if running.pipelines[chunk].is_some() {
            by_file
                .entry(Arc::as_ptr(&info.file))
                .or_default()
                .push(chunk);
        }
    }
    let mut wanted = Wanted {
        chunks: Vec::new(),
        bounds: Vec::new(),
    };
    for file in &running.files {
        let Some(mut chunks) = by_file.remove(&Arc::as_ptr(file)) else {
            continue;
        };
        let of = |chunk: &usize| running.table.chunks()[*chunk].file_chunk;
        chunks.sort_by_key(of);
        let judged = chunks
            .first()
            .and_then(|chunk| running.judged[*chunk].as_ref());
        let Some(judged) = judged else {
            return internal_err!("a chunk that is wanted was not judged");
        };
        // The column may have another type in the file, or be absent.
        let file_plan = &judged.plan;
        let column = file_plan.projection.get(at);
        let Some(column) = column.and_then(column_of) else {
            return Ok(None);
        };
        let field = file_plan.schema.field(column.index());
        if field.data_type() != scan.schema.field(at).data_type() {
            return Ok(None);
        }
        let (metadata, all) = (file.metadata(), &file.chunks().chunks);
        let all = column_bounds::of_chunks(metadata, all, &file_plan.schema, field.name());
        let bounds = chunks.iter().map(|chunk| all[of(chunk)].clone());
        wanted.bounds.push(bounds.collect());
        wanted.chunks.push(chunks);
    }
    Ok(Some(wanted))
}

/// The file's column that an output of a scan returns, with or without a cast.
fn column_of(output: &Arc<dyn PhysicalExpr>) -> Option<&Column> {
    // A field with other metadata in the file than in the table, such as a field number, is cast
    // to the type that it already has.
    let cast = output.downcast_ref::<CastExpr>();
    cast.map_or(output, CastExpr::expr).downcast_ref::<Column>()
}

/// The error for a chunk that is out of order.
pub(super) fn out_of_order(
    running: &Running,
    chunk: usize,
    column: &str,
    declared: bool,
) -> DataFusionError {
    let info = &running.table.chunks()[chunk];
    let pieces = &info.file.chunks().chunks[info.file_chunk].pieces;
    let row_group = |piece: Option<&coscan_storage::Piece>| piece.map_or(0, |p| p.row_group);
    let error = Error::OutOfOrder {
        file: info.file.name().to_owned(),
        row_groups: row_group(pieces.first())..=row_group(pieces.last()),
        column: column.to_owned(),
        declared,
    };
    DataFusionError::External(Box::new(error))
}
