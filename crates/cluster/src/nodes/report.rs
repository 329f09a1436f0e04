//! How does what a node says of its load travel?
//!
//! As numbers in one line, which the answer to the question for its version carries beside it. A
//! node that says nothing, or says it otherwise, is silent about its load, and runs parts as any
//! other. A node may say more than is read here.

use std::sync::Arc;

use coscan_core::parallelism::nodes::NodeReport;

/// What a node says of itself when it is asked.
pub(crate) type Reporting = Arc<dyn Fn() -> NodeReport + Send + Sync>;

/// The report as it travels.
pub(crate) fn written(report: &NodeReport) -> String {
    let NodeReport {
        tasks,
        processors,
        device_permille,
        free_permille,
    } = report;
    format!("{tasks} {processors} {device_permille} {free_permille}")
}

/// The report that has travelled.
pub(crate) fn read(text: &str) -> Option<NodeReport> {
    let mut numbers = text.split(' ').map(str::parse::<u32>);
    let mut next = || numbers.next()?.ok();
    Some(NodeReport {
        tasks: next()?,
        processors: next()?,
        device_permille: next()?,
        free_permille: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_arrives_as_it_was() {
        let report = NodeReport {
            tasks: 7,
            processors: 4,
            device_permille: 990,
            free_permille: 120,
        };
        assert_eq!(read(&written(&report)), Some(report));
        let more = format!("{} 1 x", written(&report));
        assert_eq!(read(&more), Some(report), "a later version says more");
        for text in ["", "7", "7 4 990", "7 4 990 x", "7 4 990 -1"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
