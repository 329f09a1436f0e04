//! The experiments of [CoopScans07].
//!
//! | where | question |
//! |---|---|
//! | `intro.rs`, `figures/`, `tables/` | does this sentence, figure or table of the paper hold? |
//! | `machine.rs` | on which machine, with which queries? |
//! | `measure.rs` | which figures does a run give? |
//! | `verdict.rs` | how do the policies' figures compare with the paper's? |

mod figures;
pub(crate) mod intro;
pub(crate) mod machine;
pub(crate) mod measure;
mod tables;
pub(crate) mod verdict;

pub(crate) use figures::{fig2, fig4, fig5, fig6, fig7, fig8};
pub(crate) use tables::{table2, table3, table4};
