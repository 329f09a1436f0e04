//! How are events and actions written as lines?
//!
//! Not here: reading them back (`decode.rs`), which must follow every change of this file (LOG-I1).

use std::fmt::{Result, Write};

use super::{MAGIC, VERSION};
use crate::{
    AbmConfig, Action, ChunkLayout, ChunkSet, ColumnId, ColumnSet, Event, EventError, LoadOrigin,
    ScanId, ScanSpec, SharedExtent, Time, TurnLimit,
};

/// Writes the first line: the configuration.
///
/// # Errors
/// Errors of `out`.
pub fn write_config(out: &mut impl Write, config: &AbmConfig) -> Result {
    let AbmConfig {
        policy,
        model,
        budget_bytes,
        loads_max,
        stall_after_ns,
        wait_unit_ns,
        turns,
    } = config;
    let (policy, model) = (policy.name(), model.name());
    write!(
        out,
        "{MAGIC} {VERSION} policy={policy} model={model} budget={budget_bytes} loads={loads_max} stall={stall_after_ns} unit={wait_unit_ns} turns="
    )?;
    match turns {
        Some(TurnLimit {
            chunks_max,
            length_ns_max,
        }) => writeln!(out, "{chunks_max}:{length_ns_max}"),
        None => out.write_str("-\n"),
    }
}

/// Writes the line that closes a log.
///
/// # Errors
/// Errors of `out`.
pub fn write_end(out: &mut impl Write) -> Result {
    out.write_str("end\n")
}

/// Writes that the core refused the preceding event.
///
/// # Errors
/// Errors of `out`.
pub fn write_refusal(out: &mut impl Write, refused: &EventError) -> Result {
    writeln!(out, "! {refused}")
}

/// Writes an event. Longer than a screen: one arm per event.
///
/// # Errors
/// Errors of `out`.
pub fn write_event(out: &mut impl Write, now: Time, event: &Event) -> Result {
    write!(out, "{now} ")?;
    match event {
        Event::TableRegistered { table, layout } => {
            write!(out, "TableRegistered {table} columns={} ", layout.columns)?;
            write_layout(out, &layout.chunks, &layout.shared)?;
        }
        Event::ChunksAppended {
            table,
            chunks,
            shared,
        } => {
            write!(out, "ChunksAppended {table} ")?;
            write_layout(out, chunks, shared)?;
        }
        Event::TableDropped { table } => write!(out, "TableDropped {table}")?,
        Event::ScanRegistered { scan, spec } => {
            write!(out, "ScanRegistered {scan} ")?;
            write_spec(out, spec)?;
        }
        Event::ChunkRequested { scan } => write!(out, "ChunkRequested {scan}")?,
        Event::DegreeChanged { scan, devices_max } => {
            write!(out, "DegreeChanged {scan}")?;
            write_degree(out, *devices_max)?;
        }
        Event::RequestWithdrawn { scan } => write!(out, "RequestWithdrawn {scan}")?,
        Event::ChunkProgressed { scan, chunk } => write!(out, "ChunkProgressed {scan} {chunk}")?,
        Event::ChunkLapsed { scan, chunk } => write!(out, "ChunkLapsed {scan} {chunk}")?,
        Event::ChunkReleased { scan, chunk } => write!(out, "ChunkReleased {scan} {chunk}")?,
        Event::ChunksWithdrawn { scan, chunks } => {
            write!(out, "ChunksWithdrawn {scan} ")?;
            write_chunks(out, chunks)?;
        }
        Event::ChunkJobBegun {
            scan,
            chunk,
            members,
        } => {
            write!(out, "ChunkJobBegun {scan} {chunk} members=")?;
            write_scans(out, members)?;
        }
        Event::ChunkJobEnded {
            scan,
            chunk,
            given_back,
        } => {
            write!(out, "ChunkJobEnded {scan} {chunk} given_back=")?;
            write_scans(out, given_back)?;
        }
        Event::ScanEnded { scan } => write!(out, "ScanEnded {scan}")?,
        Event::LoadCompleted {
            table,
            chunk,
            columns,
        } => {
            write!(out, "LoadCompleted {table} {chunk} ")?;
            write_columns(out, columns.iter().copied())?;
        }
        Event::LoadFailed {
            table,
            chunk,
            columns,
        } => {
            write!(out, "LoadFailed {table} {chunk} ")?;
            write_columns(out, columns.iter().copied())?;
        }
        Event::SegmentResized {
            table,
            chunk,
            column,
            bytes,
        } => write!(out, "SegmentResized {table} {chunk} {column} {bytes}")?,
        Event::PageRequested {
            request,
            table,
            chunk,
            columns,
        } => {
            write!(out, "PageRequested {request} {table} {chunk} ")?;
            write_columns(out, columns.iter())?;
        }
        Event::PageCompleted { request } => write!(out, "PageCompleted {request}")?,
        Event::PageReleased { request } => write!(out, "PageReleased {request}")?,
        Event::BudgetChanged { bytes } => write!(out, "BudgetChanged {bytes}")?,
        Event::TimePassed => out.write_str("TimePassed")?,
    }
    out.write_char('\n')
}

/// Writes an action that followed the preceding event.
///
/// # Errors
/// Errors of `out`.
pub fn write_action(out: &mut impl Write, action: &Action) -> Result {
    out.write_str("> ")?;
    match action {
        Action::Load {
            table,
            chunk,
            columns,
            extents,
            bytes,
            scan,
        } => {
            write!(out, "Load {table} {chunk} columns=")?;
            write_columns(out, columns.iter().copied())?;
            out.write_str(" extents=")?;
            write_list(out, extents.iter().map(|extent| extent.0))?;
            write!(out, " bytes={bytes} scan={scan}")?;
        }
        Action::Evict {
            table,
            chunk,
            column,
        } => write!(out, "Evict {table} {chunk} {column}")?,
        Action::EvictExtent { table, extent } => write!(out, "EvictExtent {table} {extent}")?,
        Action::Deliver {
            scan,
            chunk,
            origin,
        } => {
            let origin = match origin {
                LoadOrigin::FromBuffer => "FromBuffer",
                LoadOrigin::LoadedForMe => "LoadedForMe",
                LoadOrigin::LoadedForOthers => "LoadedForOthers",
            };
            write!(out, "Deliver {scan} {chunk} {origin}")?;
        }
        Action::Exhausted { scan } => write!(out, "Exhausted {scan}")?,
        Action::Fail { scan, chunk } => write!(out, "Fail {scan} {chunk}")?,
        Action::ServePage { request } => write!(out, "ServePage {request}")?,
        Action::DropPageRequest { request } => write!(out, "DropPageRequest {request}")?,
        Action::FailPage { request } => write!(out, "FailPage {request}")?,
    }
    out.write_char('\n')
}

fn write_spec(out: &mut impl Write, spec: &ScanSpec) -> Result {
    let ScanSpec {
        table,
        parts,
        consumers,
        ordered,
        devices_max,
    } = spec;
    let ordered = u8::from(*ordered);
    write!(
        out,
        "table={table} consumers={consumers} ordered={ordered} parts="
    )?;
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            out.write_char(';')?;
        }
        write_chunks(out, &part.chunks)?;
        out.write_char(':')?;
        write_columns(out, ColumnSet::iter(&part.columns))?;
    }
    none_if(out, parts.is_empty())?;
    write_degree(out, *devices_max)
}

/// Writes the limit on devices; writes nothing if there is no limit.
fn write_degree(out: &mut impl Write, devices_max: Option<u32>) -> Result {
    match devices_max {
        Some(max) => write!(out, " devices={max}"),
        None => Ok(()),
    }
}

/// Writes a layout; equal neighbouring chunks are written once, with their count.
fn write_layout(out: &mut impl Write, chunks: &[ChunkLayout], shared: &[SharedExtent]) -> Result {
    out.write_str("chunks=")?;
    for (at, alike) in chunks.chunk_by(|a, b| a == b).enumerate() {
        if at > 0 {
            out.write_char(',')?;
        }
        let ChunkLayout { device, bytes } = &alike[0];
        write!(out, "{device}:")?;
        for (at, bytes) in bytes.iter().enumerate() {
            if at > 0 {
                out.write_char('/')?;
            }
            write!(out, "{bytes}")?;
        }
        if alike.len() > 1 {
            write!(out, "*{}", alike.len())?;
        }
    }
    none_if(out, chunks.is_empty())?;
    out.write_str(" shared=")?;
    for (at, extent) in shared.iter().enumerate() {
        if at > 0 {
            out.write_char(',')?;
        }
        let SharedExtent {
            column,
            first,
            last,
            bytes,
        } = extent;
        write!(out, "{column}:{first}-{last}:{bytes}")?;
    }
    none_if(out, shared.is_empty())
}

fn write_chunks(out: &mut impl Write, chunks: &ChunkSet) -> Result {
    for (at, run) in chunks.runs().enumerate() {
        if at > 0 {
            out.write_char(',')?;
        }
        write_run(out, run.start, run.end - 1)?;
    }
    none_if(out, chunks.is_empty())
}

fn write_columns(out: &mut impl Write, columns: impl Iterator<Item = ColumnId>) -> Result {
    write_list(out, columns.map(|column| column.0.into()))
}

/// Writes ids one by one. A run of 64-bit numbers could make the reader allocate any amount of
/// memory.
fn write_scans(out: &mut impl Write, scans: &[ScanId]) -> Result {
    for (at, scan) in scans.iter().enumerate() {
        if at > 0 {
            out.write_char(',')?;
        }
        write!(out, "{scan}")?;
    }
    none_if(out, scans.is_empty())
}

/// Writes numbers in the given order; numbers that ascend by 1 become a run.
fn write_list(out: &mut impl Write, numbers: impl Iterator<Item = u32>) -> Result {
    let mut numbers = numbers.peekable();
    none_if(out, numbers.peek().is_none())?;
    while let Some(first) = numbers.next() {
        let mut last = first;
        while let Some(next) = numbers.next_if(|&next| Some(next) == last.checked_add(1)) {
            last = next;
        }
        write_run(out, first, last)?;
        if numbers.peek().is_some() {
            out.write_char(',')?;
        }
    }
    Ok(())
}

fn write_run(out: &mut impl Write, first: u32, last: u32) -> Result {
    write!(out, "{first}")?;
    if last > first {
        write!(out, "-{last}")?;
    }
    Ok(())
}

fn none_if(out: &mut impl Write, empty: bool) -> Result {
    if empty { out.write_char('-') } else { Ok(()) }
}
