//! The policies that `relevance` is compared with, from the papers.
//!
//! | file | policy |
//! |---|---|
//! | `normal.rs` | `normal`: every scan reads its chunks in order; the buffer is LRU |
//! | `attach.rs` | `attach`: a new scan starts where the running scan with the largest overlap is |
//! | `elevator.rs` | `elevator`: one cursor per table moves over the chunks |
//! | `pbm.rs` | `pbm`: evicts first the segment that will be needed last, by the scans' paces |
//! | `pbm_sampling.rs` | `pbm-sampling`: the same among a few segments drawn at random |
//!
//! Not here: `relevance` and `relevance-2007` (`../relevance.rs`, `../relevance_2007.rs`).

mod attach;
mod elevator;
mod normal;
mod pbm;
mod pbm_sampling;

pub(super) use attach::Attach;
pub(super) use elevator::Elevator;
pub(super) use normal::Normal;
pub(super) use pbm::Pbm;
pub(super) use pbm_sampling::PbmSampling;
