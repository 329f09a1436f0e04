//! The Active Buffer Manager: takes one event at a time and answers with the actions that follow.
//!
//! Idea: the [`State`] holds what is known of tables and scans; a policy's [`Rules`] read it and
//! choose; the files of this folder change it. `event.rs` and `config.rs` are the driver's
//! interface, `validate.rs` refuses events that contradict the state, `handle/` applies the
//! others, `check.rs` and `snapshot.rs` read the state, `log/` writes events and actions to a log.
//! Not here: the choices (`policy/`), reads and memory (the driver).
//! Bounds: at most `loads_max` outstanding loads per device; actions queue until the driver polls
//! them.
//! ABM-I1 a segment is loading at most once. ABM-I2 a pinned segment is never a victim. ABM-I3
//! bytes resident or loading stay within the budget. ABM-I4 every load has a scan that wants it.
//! ABM-I5 each scan consumes each chunk that it announced once, by a delivery or through a chunk
//! job.
//! Source: [CoopScans07 §4, Figure 3]; contract: `docs/design/abm.md`.

#[cfg(feature = "canary")]
mod canary;
mod check;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod event;
mod handle;
pub mod log;
pub(crate) mod snapshot;
mod validate;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::policy::Rules;
use crate::state::State;
use crate::{AbmConfig, Action, ChunkId, ScanId, TableId, Time, TurnLimit};

use handle::jobs::Jobs;
use handle::loading::OutstandingLoad;
use handle::pages::Pages;
use handle::turns::Turns;

/// The scheduler of all scans over all tables of one buffer pool.
///
/// ```
/// use coscan_core::*;
/// let config = AbmConfig {
///     policy: Policy::Relevance,
///     model: StorageModel::Dsm,
///     budget_bytes: 1 << 20,
///     loads_max: 1,
///     stall_after_ns: 5_000_000_000,
///     wait_unit_ns: 1_000_000_000,
///     turns: None,
/// };
/// let mut abm = Abm::new(config);
/// let chunk = ChunkLayout { device: DeviceId(0), bytes: vec![4096, 8192].into() };
/// let layout = TableLayout { columns: 2, chunks: vec![chunk], shared: vec![] };
/// abm.handle(Time(0), Event::TableRegistered { table: TableId(0), layout })?;
/// let part = Part { chunks: ChunkSet::from_range(0..1), columns: ColumnSet::all(2) };
/// let (table, parts) = (TableId(0), vec![part]);
/// let spec = ScanSpec { table, parts, consumers: 1, ordered: false, devices_max: None };
/// abm.handle(Time(0), Event::ScanRegistered { scan: ScanId(1), spec })?;
/// assert!(matches!(abm.poll_action(), Some(Action::Load { bytes: 12288, .. })));
/// # Ok::<(), EventError>(())
/// ```
#[derive(Debug)]
pub struct Abm {
    rules: &'static dyn Rules,
    /// A scan is stalled when its consumers have been silent this long.
    stall_after_ns: u64,
    /// `None` if scans take no turns.
    turn_limit: Option<TurnLimit>,
    pub(crate) state: State,
    scan_last: Option<ScanId>,
    /// Scans with a waiting consumer that may be served.
    serve: BTreeSet<ScanId>,
    /// When each scan that is neither waiting nor stalled becomes stalled.
    stalls: BTreeSet<(Time, ScanId)>,
    turns: Turns,
    /// Running chunk jobs.
    jobs: Jobs,
    /// Outstanding loads, with the columns that have not arrived.
    loads: BTreeMap<(TableId, ChunkId), Vec<OutstandingLoad>>,
    pages: Pages,
    actions: VecDeque<Action>,
}

impl Abm {
    /// A buffer manager without tables.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a configuration is given away"
    )]
    pub fn new(config: AbmConfig) -> Self {
        let rules = config.policy.rules();
        Self {
            rules,
            stall_after_ns: config.stall_after_ns,
            turn_limit: config.turns.filter(|_| rules.takes_turns()),
            state: State::new(
                config.model,
                config.budget_bytes,
                config.loads_max,
                config.wait_unit_ns,
            ),
            scan_last: None,
            serve: BTreeSet::new(),
            stalls: BTreeSet::new(),
            turns: Turns::default(),
            jobs: Jobs::default(),
            loads: BTreeMap::new(),
            pages: Pages::default(),
            actions: VecDeque::new(),
        }
    }

    /// Takes the oldest action; `None` if the driver has taken all.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When the driver should send `TimePassed`: the next moment at which a scan may become
    /// stalled, or at which a turn's length is over.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let stall = self.stalls.first().map(|&(time, _)| time);
        stall.into_iter().chain(self.turn_deadline()).min()
    }

    /// Bytes resident or loading (ABM-I3).
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state.used
    }

    /// The current budget in bytes.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.state.budget
    }
}
