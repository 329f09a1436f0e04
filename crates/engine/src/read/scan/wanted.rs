//! Which chunks do statistics leave for a scan that is not run here?
//!
//! Not here: what a node that runs it finds besides, by bloom filters and dynamic filters
//! (`execution.rs`, `dynamic.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use coscan_storage::pool::TableFile;
use datafusion::error::Result;

use super::spec::ScanPlan;
use crate::read::prune::Questions;
use crate::read::{FilePlan, FilePlans};

/// Per file of the plan, for each of its chunks whether a row of it may be in the result.
///
/// # Errors
/// If a file does not fit the table: a column has another type.
pub(crate) fn wanted_chunks(plan: &ScanPlan, files: &[Arc<TableFile>]) -> Result<Vec<Vec<bool>>> {
    let mut file_plans = FilePlans::new(&plan.table);
    // With the plans, so that no other has the address of one.
    let mut asked: HashMap<usize, (Arc<FilePlan>, Questions)> = HashMap::new();
    let mut wanted = Vec::with_capacity(files.len());
    for (listed, file) in plan.files.iter().zip(files) {
        let file_plan = file_plans.of(listed, file)?;
        let (file_plan, questions) =
            asked
                .entry(Arc::as_ptr(&file_plan).addr())
                .or_insert_with(|| {
                    let questions = Questions::new(&file_plan, plan.prunes, plan.in_list_max);
                    (file_plan, questions)
                });
        wanted.push(questions.judge(file, &file_plan.schema).wanted);
    }
    Ok(wanted)
}
