//! How is a line of a log read back?
//!
//! Actions are not read back: the program that replays a log compares its own lines with them.
//! Bounds: at most `CHUNKS_MAX` chunks per layout, whatever a line says; everything else is bounded
//! by the length of the line or by its number type.

use std::ops::RangeInclusive;
use std::str::{FromStr, Split};

use super::{MAGIC, VERSION};
use crate::{
    AbmConfig, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event, PageRequestId,
    Part, ScanId, ScanSpec, SharedExtent, TableId, TableLayout, Time, TurnLimit,
};

/// The most chunks of a layout, more than any layout has. The bound keeps a damaged line from
/// allocating all memory.
const CHUNKS_MAX: usize = 1 << 24;

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// The first line: the configuration of the core.
    Config(AbmConfig),
    /// An event and its time.
    Event(Time, Event),
    /// An action that followed the preceding event: the whole line, as [`super::write_action`]
    /// writes it.
    Action,
    /// The refusal of the preceding event: the whole line, as [`super::write_refusal`] writes it.
    Refusal,
    /// The end of a complete log.
    End,
}

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The log has another version of the format.
    #[error("the log has version {0}, this program reads {VERSION}")]
    Version(u32),
    /// The line is neither the first line of a log, nor an event, an action, a refusal or the end.
    #[error("neither an event nor an action")]
    UnknownLine,
    /// No event of this name.
    #[error("no event is called {0}")]
    UnknownEvent(String),
    /// A field is missing or malformed.
    #[error("no {field} in {found:?}")]
    BadField {
        /// The expected field.
        field: &'static str,
        /// The text found in its place.
        found: String,
    },
    /// Something follows the last field.
    #[error("{0:?} after the last field")]
    Trailing(String),
}

/// Reads one line, without its line feed.
///
/// # Errors
/// The line is damaged, or of another version.
pub fn parse(line: &str) -> Result<Record, LogError> {
    match line.as_bytes().first() {
        Some(b'>') => Ok(Record::Action),
        Some(b'!') => Ok(Record::Refusal),
        Some(b'0'..=b'9') => parse_event(line).map(|(now, event)| Record::Event(now, event)),
        _ if line == "end" => Ok(Record::End),
        _ if line.starts_with(MAGIC) => parse_config(line).map(Record::Config),
        _ => Err(LogError::UnknownLine),
    }
}

fn parse_config(line: &str) -> Result<AbmConfig, LogError> {
    let mut fields = Fields(line.split(' '));
    fields.next("first word")?;
    let version = fields.number("version")?;
    if version != VERSION {
        return Err(LogError::Version(version));
    }
    let config = AbmConfig {
        policy: name(fields.named("policy=")?, "policy")?,
        model: name(fields.named("model=")?, "model")?,
        budget_bytes: number(fields.named("budget=")?, "budget")?,
        loads_max: number(fields.named("loads=")?, "loads")?,
        stall_after_ns: number(fields.named("stall=")?, "stall")?,
        wait_unit_ns: number(fields.named("unit=")?, "unit")?,
        turns: turns(fields.named("turns=")?)?,
    };
    fields.end()?;
    Ok(config)
}

/// Longer than a screen: one arm per event.
fn parse_event(line: &str) -> Result<(Time, Event), LogError> {
    let mut fields = Fields(line.split(' '));
    let now = Time(fields.number("time")?);
    let name = fields.next("event")?;
    let event = match name {
        "TableRegistered" => Event::TableRegistered {
            table: fields.table()?,
            layout: TableLayout {
                columns: number(fields.named("columns=")?, "columns")?,
                chunks: layouts(fields.named("chunks=")?)?,
                shared: extents(fields.named("shared=")?)?,
            },
        },
        "ChunksAppended" => Event::ChunksAppended {
            table: fields.table()?,
            chunks: layouts(fields.named("chunks=")?)?,
            shared: extents(fields.named("shared=")?)?,
        },
        "TableDropped" => Event::TableDropped {
            table: fields.table()?,
        },
        "ScanRegistered" => Event::ScanRegistered {
            scan: fields.scan()?,
            spec: fields.spec()?,
        },
        "ChunkRequested" => Event::ChunkRequested {
            scan: fields.scan()?,
        },
        "DegreeChanged" => Event::DegreeChanged {
            scan: fields.scan()?,
            devices_max: fields.degree()?,
        },
        "RequestWithdrawn" => Event::RequestWithdrawn {
            scan: fields.scan()?,
        },
        "ChunkProgressed" => Event::ChunkProgressed {
            scan: fields.scan()?,
            chunk: fields.chunk()?,
        },
        "ChunkLapsed" => Event::ChunkLapsed {
            scan: fields.scan()?,
            chunk: fields.chunk()?,
        },
        "ChunkReleased" => Event::ChunkReleased {
            scan: fields.scan()?,
            chunk: fields.chunk()?,
        },
        "ChunksWithdrawn" => Event::ChunksWithdrawn {
            scan: fields.scan()?,
            chunks: chunk_set(fields.next("chunks")?)?,
        },
        "ChunkJobBegun" => Event::ChunkJobBegun {
            scan: fields.scan()?,
            chunk: fields.chunk()?,
            members: scans(fields.named("members=")?)?,
        },
        "ChunkJobEnded" => Event::ChunkJobEnded {
            scan: fields.scan()?,
            chunk: fields.chunk()?,
            given_back: scans(fields.named("given_back=")?)?,
        },
        "ScanEnded" => Event::ScanEnded {
            scan: fields.scan()?,
        },
        "LoadCompleted" => Event::LoadCompleted {
            table: fields.table()?,
            chunk: fields.chunk()?,
            columns: columns(fields.next("columns")?)?,
        },
        "LoadFailed" => Event::LoadFailed {
            table: fields.table()?,
            chunk: fields.chunk()?,
            columns: columns(fields.next("columns")?)?,
        },
        "SegmentResized" => Event::SegmentResized {
            table: fields.table()?,
            chunk: fields.chunk()?,
            column: ColumnId(fields.number("column")?),
            bytes: fields.number("bytes")?,
        },
        "PageRequested" => Event::PageRequested {
            request: PageRequestId(fields.number("page request")?),
            table: fields.table()?,
            chunk: fields.chunk()?,
            columns: columns(fields.next("columns")?)?.into_iter().collect(),
        },
        "PageCompleted" => Event::PageCompleted {
            request: PageRequestId(fields.number("page request")?),
        },
        "PageReleased" => Event::PageReleased {
            request: PageRequestId(fields.number("page request")?),
        },
        "BudgetChanged" => Event::BudgetChanged {
            bytes: fields.number("bytes")?,
        },
        "TimePassed" => Event::TimePassed,
        other => return Err(LogError::UnknownEvent(other.to_owned())),
    };
    fields.end()?;
    Ok((now, event))
}

/// The words of a line.
struct Fields<'a>(Split<'a, char>);

impl<'a> Fields<'a> {
    fn next(&mut self, field: &'static str) -> Result<&'a str, LogError> {
        self.0.next().ok_or_else(|| bad(field, ""))
    }

    fn number<T: FromStr>(&mut self, field: &'static str) -> Result<T, LogError> {
        number(self.next(field)?, field)
    }

    /// The value of the field `name`, which ends with `=`.
    fn named(&mut self, name: &'static str) -> Result<&'a str, LogError> {
        let word = self.next(name)?;
        word.strip_prefix(name).ok_or_else(|| bad(name, word))
    }

    fn table(&mut self) -> Result<TableId, LogError> {
        self.number("table").map(TableId)
    }

    fn scan(&mut self) -> Result<ScanId, LogError> {
        self.number("scan").map(ScanId)
    }

    fn chunk(&mut self) -> Result<ChunkId, LogError> {
        self.number("chunk").map(ChunkId)
    }

    fn spec(&mut self) -> Result<ScanSpec, LogError> {
        let table = TableId(number(self.named("table=")?, "table")?);
        let consumers = number(self.named("consumers=")?, "consumers")?;
        let ordered = number::<u8>(self.named("ordered=")?, "ordered")? == 1;
        let part = |text: &str| {
            let (chunks, cols) = text.split_once(':').ok_or_else(|| bad("part", text))?;
            Ok(Part {
                chunks: chunk_set(chunks)?,
                columns: columns(cols)?.into_iter().collect::<ColumnSet>(),
            })
        };
        let parts = items(self.named("parts=")?, ';')
            .map(part)
            .collect::<Result<_, _>>()?;
        Ok(ScanSpec {
            table,
            parts,
            consumers,
            ordered,
            devices_max: self.degree()?,
        })
    }

    /// The limit on devices, if the line has one more field.
    fn degree(&mut self) -> Result<Option<u32>, LogError> {
        let Some(word) = self.0.next() else {
            return Ok(None);
        };
        let max = word.strip_prefix("devices=");
        let max = max.ok_or_else(|| LogError::Trailing(word.to_owned()))?;
        Ok(Some(number(max, "devices")?))
    }

    fn end(mut self) -> Result<(), LogError> {
        match self.0.next() {
            Some(word) => Err(LogError::Trailing(word.to_owned())),
            None => Ok(()),
        }
    }
}

fn bad(field: &'static str, found: &str) -> LogError {
    let found = found.to_owned();
    LogError::BadField { field, found }
}

fn number<T: FromStr>(text: &str, field: &'static str) -> Result<T, LogError> {
    text.parse().map_err(|_| bad(field, text))
}

fn name<T: FromStr>(text: &str, field: &'static str) -> Result<T, LogError> {
    text.parse().map_err(|_| bad(field, text))
}

fn turns(text: &str) -> Result<Option<TurnLimit>, LogError> {
    let limit = |(chunks, length)| {
        Ok(TurnLimit {
            chunks_max: number(chunks, "turns")?,
            length_ns_max: number(length, "turns")?,
        })
    };
    if text == "-" {
        return Ok(None);
    }
    let both = text.split_once(':').ok_or_else(|| bad("turns", text))?;
    limit(both).map(Some)
}

/// The parts of a list; `-` is the empty list.
fn items(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let text = (text != "-").then_some(text);
    text.into_iter().flat_map(move |text| text.split(separator))
}

fn run<T: FromStr + Copy>(text: &str, field: &'static str) -> Result<RangeInclusive<T>, LogError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok(number(first, field)?..=number(last, field)?)
}

fn columns(text: &str) -> Result<Vec<ColumnId>, LogError> {
    let mut all = Vec::new();
    for item in items(text, ',') {
        all.extend(run::<u16>(item, "columns")?.map(ColumnId));
    }
    Ok(all)
}

fn chunk_set(text: &str) -> Result<ChunkSet, LogError> {
    let mut set = ChunkSet::new();
    for item in items(text, ',') {
        let run = run::<u32>(item, "chunks")?;
        let end = run
            .end()
            .checked_add(1)
            .ok_or_else(|| bad("chunks", item))?;
        set.insert_range(*run.start()..end);
    }
    Ok(set)
}

fn scans(text: &str) -> Result<Vec<ScanId>, LogError> {
    let scan = |item| number(item, "scan").map(ScanId);
    items(text, ',').map(scan).collect()
}

fn layouts(text: &str) -> Result<Vec<ChunkLayout>, LogError> {
    let mut all = Vec::new();
    for item in items(text, ',') {
        let (chunk, count) = item.split_once('*').unwrap_or((item, "1"));
        let (device, bytes) = chunk.split_once(':').ok_or_else(|| bad("chunk", item))?;
        let count: usize = number(count, "number of chunks")?;
        let bytes = bytes.split('/').filter(|bytes| !bytes.is_empty());
        let chunk = ChunkLayout {
            device: DeviceId(number(device, "device")?),
            bytes: bytes
                .map(|b| number(b, "bytes"))
                .collect::<Result<_, _>>()?,
        };
        if count > CHUNKS_MAX - all.len() {
            return Err(bad("number of chunks", item));
        }
        all.extend(std::iter::repeat_n(chunk, count));
    }
    Ok(all)
}

fn extents(text: &str) -> Result<Vec<SharedExtent>, LogError> {
    let extent = |item: &str| {
        let mut fields = item.split(':');
        let mut next = || fields.next().ok_or_else(|| bad("shared extent", item));
        let column = ColumnId(number(next()?, "column")?);
        let range = run::<u32>(next()?, "chunks")?;
        Ok(SharedExtent {
            column,
            first: ChunkId(*range.start()),
            last: ChunkId(*range.end()),
            bytes: number(next()?, "bytes")?,
        })
    };
    items(text, ',').map(extent).collect()
}
