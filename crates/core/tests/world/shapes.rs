//! Which tables, scans and operations occur, drawn before the world is known?
//!
//! Idea: shapes and operations hold numbers that are taken modulo what exists, so that proptest
//! can shrink them freely.
//! Not here: their meaning in a given world (`next.rs`).

use coscan_core::{
    ChunkId, ChunkLayout, ColumnId, DeviceId, SharedExtent, StorageModel, TableLayout,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// The most columns per table.
const COLUMNS_MAX: usize = 5;

/// A table before its model is known.
#[derive(Clone, Debug)]
pub(crate) struct TableShape {
    columns: u16,
    devices: u16,
    chunks: Vec<(u16, [u64; COLUMNS_MAX])>,
    /// Column, first chunk, further chunks, bytes.
    shared: Vec<(u16, u32, u32, u64)>,
}

/// A scan before its table is known.
#[derive(Clone, Debug)]
pub(crate) struct ScanShape {
    pub(super) table: usize,
    /// Start, length, bits of columns. Neighbouring ranges with the same columns make one part of
    /// several ranges.
    pub(super) ranges: Vec<(u32, u32, u16)>,
    pub(super) consumers: u32,
    pub(super) ordered: bool,
    pub(super) devices_max: Option<u32>,
}

/// Chunks to append, and their shared extents.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    pub(super) chunks: Vec<(u16, [u64; COLUMNS_MAX])>,
    pub(super) shared: Vec<(u16, u32, u32, u64)>,
}

/// An operation. Indices are taken modulo what exists; an operation that is impossible now is
/// skipped.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Table(TableShape),
    Append(usize, Growth),
    DropTable(usize),
    Scan(ScanShape),
    Request(usize),
    WithdrawRequest(usize),
    Degree(usize, Option<u32>),
    Progress(usize),
    Lapse(usize),
    Release(usize),
    WithdrawChunks(usize, u32, u32),
    /// The index of the held chunk, and bits of the other scans that need it.
    BeginJob(usize, u16),
    /// The index of the job, and bits of the scans that the chunk is given back to.
    EndJob(usize, u16),
    End(usize),
    /// The index of the load, and bits of its columns.
    Complete(usize, u16),
    Fail(usize, u16),
    /// The index of the resident segment, and the bytes that it takes from now on.
    Resize(usize, u64),
    Page(usize, u32, u16),
    CompletePage(usize),
    ReleasePage(usize),
    Budget(u64),
    Pass,
}

/// What random worlds leave out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) model: StorageModel,
    pub(crate) ordered: bool,
    pub(crate) shared: bool,
}

fn sizes() -> impl Strategy<Value = [u64; COLUMNS_MAX]> {
    prop::array::uniform5(prop_oneof![1 => Just(0u64), 2 => 1u64..4, 4 => 1u64..60])
}

fn chunks(
    count: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Vec<(u16, [u64; COLUMNS_MAX])>> {
    vec((0u16..3, sizes()), count)
}

/// No shared extents in half the cases.
fn shared(limits: Limits) -> impl Strategy<Value = Vec<(u16, u32, u32, u64)>> {
    let extent = (any::<u16>(), any::<u32>(), 0u32..4, 0u64..30);
    let most = if limits.shared { 4 } else { 0 };
    prop_oneof![Just(Vec::new()), vec(extent, 0..=most)]
}

pub(crate) fn table_shape(limits: Limits) -> impl Strategy<Value = TableShape> {
    // Some tables have more than the 64 chunks of a block of the fast scheduler's sets.
    let chunks =
        prop_oneof![24 => chunks(1..=12), 2 => chunks(40), 1 => chunks(60..200), 1 => chunks(0)];
    let columns = match limits.model {
        StorageModel::Nsm => 1u16..=1,
        StorageModel::Dsm => 1u16..=5,
    };
    (columns, 1u16..=3, chunks, shared(limits)).prop_map(|(columns, devices, chunks, shared)| {
        TableShape {
            columns,
            devices,
            chunks,
            shared,
        }
    })
}

fn scan_shape(limits: Limits) -> impl Strategy<Value = ScanShape> {
    let range = prop_oneof![
        1 => (Just(0u32), Just(u32::MAX), any::<u16>()),
        2 => (any::<u32>(), 1u32..8, any::<u16>()),
    ];
    let ordered = prop::bool::weighted(if limits.ordered { 0.2 } else { 0.0 });
    let consumers = prop_oneof![3 => Just(1u32), 1 => 2u32..=3];
    (
        any::<usize>(),
        vec(range, 0..=4),
        consumers,
        ordered,
        degree(),
    )
        .prop_map(
            |(table, ranges, consumers, ordered, devices_max)| ScanShape {
                table,
                ranges,
                consumers,
                ordered,
                devices_max,
            },
        )
}

/// How many devices a scan may read from; mostly all.
fn degree() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![3 => Just(None), 1 => (0u32..4).prop_map(Some)]
}

pub(crate) fn op(limits: Limits) -> impl Strategy<Value = Op> {
    let at = any::<usize>;
    prop_oneof![
        1 => table_shape(limits).prop_map(Op::Table),
        1 => (at(), chunks(1..4), shared(limits)).prop_map(|(table, chunks, shared)| Op::Append(table, Growth { chunks, shared })),
        1 => at().prop_map(Op::DropTable),
        12 => scan_shape(limits).prop_map(Op::Scan),
        40 => at().prop_map(Op::Request),
        4 => (at(), degree()).prop_map(|(scan, most)| Op::Degree(scan, most)),
        2 => at().prop_map(Op::WithdrawRequest),
        10 => at().prop_map(Op::Progress),
        6 => at().prop_map(Op::Lapse),
        30 => at().prop_map(Op::Release),
        2 => (at(), any::<u32>(), 1u32..6).prop_map(|(scan, start, len)| Op::WithdrawChunks(scan, start, len)),
        10 => (at(), any::<u16>()).prop_map(|(held, bits)| Op::BeginJob(held, bits)),
        8 => (at(), prop_oneof![Just(0), any::<u16>()]).prop_map(|(job, bits)| Op::EndJob(job, bits)),
        5 => at().prop_map(Op::End),
        40 => (at(), prop_oneof![Just(u16::MAX), any::<u16>()]).prop_map(|(load, bits)| Op::Complete(load, bits)),
        2 => (at(), any::<u16>()).prop_map(|(load, bits)| Op::Fail(load, bits)),
        6 => (at(), 0u64..120).prop_map(|(segment, bytes)| Op::Resize(segment, bytes)),
        6 => (at(), any::<u32>(), any::<u16>()).prop_map(|(table, chunk, bits)| Op::Page(table, chunk, bits)),
        3 => at().prop_map(Op::CompletePage),
        4 => at().prop_map(Op::ReleasePage),
        3 => (0u64..600).prop_map(Op::Budget),
        5 => Just(Op::Pass),
    ]
}

impl TableShape {
    pub(crate) fn layout(&self) -> TableLayout {
        TableLayout {
            columns: self.columns,
            chunks: chunk_layouts(&self.chunks, self.columns, self.devices),
            shared: shared_extents(&self.shared, self.columns, 0, self.chunks.len()),
        }
    }
}

/// Extents that serve some of `count` chunks from `base` on.
pub(super) fn shared_extents(
    shared: &[(u16, u32, u32, u64)],
    columns: u16,
    base: u32,
    count: usize,
) -> Vec<SharedExtent> {
    let count = u32::try_from(count).expect("few chunks");
    let shared = if count == 0 { &[] } else { shared };
    let extent = |&(column, first, more, bytes): &(u16, u32, u32, u64)| SharedExtent {
        column: ColumnId(column % columns),
        first: ChunkId(base + first % count),
        last: ChunkId(base + (first % count + more).min(count - 1)),
        bytes,
    };
    shared.iter().map(extent).collect()
}

pub(super) fn chunk_layouts(
    chunks: &[(u16, [u64; COLUMNS_MAX])],
    columns: u16,
    devices: u16,
) -> Vec<ChunkLayout> {
    let layout = |(device, bytes): &(u16, [u64; COLUMNS_MAX])| ChunkLayout {
        device: DeviceId(device % devices),
        bytes: bytes[..usize::from(columns)].into(),
    };
    chunks.iter().map(layout).collect()
}
