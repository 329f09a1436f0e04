//! Which kinds of operators exist, and how long can a run of each kind be joined?
//!
//! Not here: whether a given run can be joined now (`mod.rs`).
//! Source: [QPipe05 §3.2, Figure 4a].

/// A kind of operator; each has a micro-engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperatorKind {
    /// A scan whose rows may come in any order.
    Scan,
    /// A scan in order.
    OrderedScan,
    /// Operators that work row by row: filters, projections, unions, limits.
    Rows,
    /// An aggregate without groups.
    SingleAggregate,
    /// An aggregate with groups.
    Aggregate,
    /// A sort.
    Sort,
    /// A hash join.
    HashJoin,
    /// The input of a hash join's hash table.
    HashBuild,
    /// The hash table of a hash join.
    HashTable,
    /// A merge join.
    MergeJoin,
    /// A join by nested loops.
    LoopJoin,
}

/// The window of opportunity: how long after its start a run can be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Linear: at any time, for the remaining output. A late query gets the rest from another run.
    Linear,
    /// Spike: until the first batch.
    Spike,
    /// Step: until a produced batch is not retained.
    Step,
    /// Full: as `Step`; once a satellite has joined, batches that do not fit go to disk.
    Full,
}

impl OperatorKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Scan,
        Self::OrderedScan,
        Self::Rows,
        Self::SingleAggregate,
        Self::Aggregate,
        Self::Sort,
        Self::HashJoin,
        Self::HashBuild,
        Self::HashTable,
        Self::MergeJoin,
        Self::LoopJoin,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::OrderedScan => "ordered scan",
            Self::Rows => "rows",
            Self::SingleAggregate => "single aggregate",
            Self::Aggregate => "aggregate",
            Self::Sort => "sort",
            Self::HashJoin => "hash join",
            Self::HashBuild => "hash build",
            Self::HashTable => "hash table",
            Self::MergeJoin => "merge join",
            Self::LoopJoin => "loop join",
        }
    }

    /// Its window of opportunity.
    #[must_use]
    pub const fn window(self) -> Window {
        match self {
            Self::Scan => Window::Linear,
            Self::OrderedScan => Window::Spike,
            Self::SingleAggregate | Self::HashBuild | Self::HashTable => Window::Full,
            Self::Rows
            | Self::Aggregate
            | Self::Sort
            | Self::HashJoin
            | Self::MergeJoin
            | Self::LoopJoin => Window::Step,
        }
    }
}
