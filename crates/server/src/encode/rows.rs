//! The rows of a result on their way to the client.
//!
//! S2: one batch is held here while its rows are sent. They are encoded straight into the socket's
//! buffer, which is written out whenever it reaches `FLUSH_BYTES`.
//! Not here: where batches come from (`running.rs`, `held.rs`), how a cell is written
//! (`coscan_pg::output`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use coscan::running::IDLE_AFTER;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::runtime_env::RuntimeEnv;

use pgwire::messages::PgWireBackendMessage;

use super::columns::{Column, columns};
use super::copy::CopyFormat;
use super::held::HeldRows;
use super::latin1::Unwritten;
use crate::failure::Failure;
use crate::net::{FLUSH_BYTES, Ledger, Sending};
use coscan_pg::output::{
    CellWriter, IntervalStyle, in_style, in_zone, pg_type, typed_writer, with_length,
};

/// A result: its columns, and the rows not sent yet.
pub(crate) struct Rows {
    pub(crate) columns: Vec<Column>,
    /// The columns as described to the client. A batch with other types is sent unchanged if they
    /// map to the same PostgreSQL types; otherwise it is cast, if the cast loses nothing.
    announced: SchemaRef,
    source: Source,
    /// The session's time zone, in which timestamps are written.
    zone: String,
    /// The style in which the session shows intervals.
    style: IntervalStyle,
    writer: Option<RowWriter>,
    /// The format of a COPY; `None` for the rows of a result.
    copy: Option<CopyFormat>,
    /// Whether a row has been written.
    begun: bool,
    /// The first word of the tag that ends the result ([`coscan::running::rows_tag`]).
    pub(crate) tag: &'static str,
}

/// Where batches come from.
pub(crate) enum Source {
    Query(Box<Sending>),
    Ready(VecDeque<RecordBatch>),
    Held(Box<HeldRows>),
}

impl Rows {
    /// `announced` are the columns as described to the client, `formats` the formats it asked for.
    pub(crate) fn new(
        announced: SchemaRef,
        formats: &[i16],
        source: Source,
        tag: &'static str,
    ) -> Result<Self, Failure> {
        if let Source::Query(running) = &source
            && running.schema().fields().len() != announced.fields().len()
        {
            return Err(Failure::unsupported(
                "the result has other columns than were announced",
            ));
        }
        let columns = columns(&announced, formats)?;
        Ok(Self {
            columns,
            announced,
            source,
            zone: UTC.to_owned(),
            style: IntervalStyle::default(),
            writer: None,
            copy: None,
            begun: false,
            tag,
        })
    }

    /// Writes timestamps in the session's time zone.
    pub(crate) fn in_zone(mut self, zone: String) -> Self {
        self.zone = zone;
        self
    }

    /// Writes intervals in the session's style, where they are texts.
    pub(crate) fn in_style(mut self, style: IntervalStyle) -> Self {
        self.style = style;
        self
    }

    /// Sends the rows as COPY data. The tag becomes `COPY`.
    pub(crate) fn copy_as(&mut self, format: CopyFormat) -> Result<(), Failure> {
        self.reformat(&[i16::from(format.is_binary())])?;
        format.check(&self.columns)?;
        self.copy = Some(format);
        self.tag = "COPY";
        Ok(())
    }

    /// The messages that end a COPY; none if the rows are not COPY data.
    pub(crate) fn copy_end(&self) -> Vec<PgWireBackendMessage> {
        let copy = self.copy.as_ref();
        copy.map_or_else(Vec::new, |format| format.end(self.begun))
    }

    /// The format of a COPY, if the rows are COPY data.
    pub(crate) fn copy_format(&self) -> Option<&CopyFormat> {
        self.copy.as_ref()
    }

    /// Changes the formats of the remaining rows. No batch must be loaded.
    pub(crate) fn reformat(&mut self, formats: &[i16]) -> Result<(), Failure> {
        self.columns = columns(&self.announced, formats)?;
        Ok(())
    }

    /// Called when the client has the rows it asked for, and may not come back for long: puts the
    /// rest of the loaded batch back in front of the source's other batches.
    pub(crate) fn put_aside(&mut self) {
        self.give_up_turn();
        let Some(writer) = self.writer.take() else {
            return;
        };
        let rest = writer.batch.slice(writer.next, writer.rows - writer.next);
        match &mut self.source {
            Source::Query(running) => running.put_aside(rest),
            Source::Ready(batches) => batches.push_front(rest),
            Source::Held(held) => held.put_aside(rest),
        }
    }

    /// How long the rest of the loaded batch stays in memory while the client does not read.
    pub(crate) fn patience(&self) -> Duration {
        match &self.source {
            Source::Query(running) => running.patience(),
            Source::Ready(_) | Source::Held(_) => IDLE_AFTER,
        }
    }

    /// Lets other connections send.
    pub(crate) fn give_up_turn(&mut self) {
        if let Source::Query(running) = &mut self.source {
            running.give_up_turn();
        }
    }

    /// Ends the query: no more rows come.
    pub(crate) fn end(&mut self) {
        self.writer = None;
        self.source = Source::Ready(VecDeque::new());
    }

    /// The columns as described to the client.
    pub(crate) fn announced(&self) -> SchemaRef {
        Arc::clone(&self.announced)
    }

    /// The next batch to encode. Cancel safe.
    pub(crate) async fn next_batch(&mut self) -> Result<Option<RecordBatch>, Failure> {
        match &mut self.source {
            Source::Query(running) => running.next().await,
            Source::Ready(batches) => Ok(batches.pop_front()),
            Source::Held(held) => held.next().await,
        }
    }

    /// Computes all remaining rows; no batch must be loaded. If this fails, or is dropped before
    /// its end, some rows are lost.
    pub(crate) async fn hold(
        &mut self,
        ledger: &Ledger,
        environment: Arc<RuntimeEnv>,
    ) -> Result<(), Failure> {
        if let Source::Query(running) = &mut self.source {
            self.source = Source::Held(Box::new(HeldRows::of(running, ledger, environment).await?));
        }
        Ok(())
    }

    /// Loads the batch that [`Rows::put_rows`] encodes.
    pub(crate) fn load(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let mut arrays = Vec::with_capacity(batch.num_columns());
        for (index, array) in batch.columns().iter().enumerate() {
            let announced = self.announced.field(index).data_type();
            let same = array.data_type() == announced
                || pg_type(batch.schema_ref().field(index)) == self.columns[index].pg_type;
            let array = if same {
                Arc::clone(array)
            } else {
                self.widened(index, array)?
            };
            let array = in_zone(&array, &self.zone)?;
            arrays.push(if self.columns[index].binary {
                array
            } else {
                in_style(&array, self.style)?
            });
        }
        self.writer = Some(RowWriter::new(batch, &arrays, &self.columns)?);
        Ok(())
    }

    /// Casts a column to its announced type, if that loses nothing.
    fn widened(&self, index: usize, array: &ArrayRef) -> Result<ArrayRef, Failure> {
        let announced = match self.announced.field(index).data_type() {
            DataType::Null => &DataType::Utf8,
            other => other,
        };
        let given = array.data_type();
        let is_integer = given.is_integer() && announced.is_integer();
        let fits = is_integer && given.primitive_width() <= announced.primitive_width();
        if *given == DataType::Null || fits {
            let strict = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            return Ok(cast_with_options(array, announced, &strict)?);
        }
        let column = &self.columns[index];
        Err(Failure::new(
            "XX000",
            format!(
                "column {:?} was announced as {} and is {given}",
                column.name, column.pg_type
            ),
        ))
    }

    /// Encodes rows of the loaded batch until `max` are written, the batch ends, or `out` is large
    /// enough to be written out. Returns the number of rows.
    pub(crate) fn put_rows(&mut self, out: &mut BytesMut, max: usize) -> Result<usize, Failure> {
        let Some(writer) = &mut self.writer else {
            return Ok(0);
        };
        let mut written = 0;
        while written < max && out.len() < FLUSH_BYTES {
            let head = if self.begun { None } else { self.copy.as_ref() };
            let head = head.map_or(&[][..], CopyFormat::head);
            let copy = self.copy.as_ref();
            let copy = copy.map(|format| (format, self.columns.as_slice(), head));
            if !writer.put_row(copy, out)? {
                break;
            }
            self.begun = true;
            written += 1;
        }
        if writer.next == writer.rows {
            self.writer = None;
        }
        Ok(written)
    }

    /// Discards up to `most` of the next rows. Returns how many there were.
    pub(crate) async fn skip(&mut self, most: usize) -> Result<usize, Failure> {
        let mut skipped = 0;
        while skipped < most {
            if let Some(writer) = &mut self.writer {
                let step = (writer.rows - writer.next).min(most - skipped);
                writer.next += step;
                skipped += step;
                if writer.next == writer.rows {
                    self.writer = None;
                }
            } else if let Some(batch) = self.next_batch().await? {
                self.load(&batch)?;
            } else {
                break;
            }
        }
        Ok(skipped)
    }

    /// Whether the loaded batch has rows left.
    pub(crate) fn is_loaded(&self) -> bool {
        self.writer.is_some()
    }
}

const UTC: &str = "UTC";

struct RowWriter {
    batch: RecordBatch,
    cells: Vec<(CellWriter, Option<NullBuffer>)>,
    next: usize,
    rows: usize,
    width: i16,
}

impl RowWriter {
    /// `arrays` are those of `batch`, cast where necessary.
    fn new(batch: &RecordBatch, arrays: &[ArrayRef], columns: &[Column]) -> Result<Self, Failure> {
        let width = i16::try_from(arrays.len())
            .map_err(|_| Failure::new("54011", "a result has at most 32767 columns"))?;
        let cells = arrays
            .iter()
            .zip(columns)
            .map(|(array, column)| {
                let write = typed_writer(&column.pg_type, array, column.binary)?;
                Ok((write, array.logical_nulls()))
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Self {
            batch: batch.clone(),
            cells,
            next: 0,
            rows: batch.num_rows(),
            width,
        })
    }

    /// Encodes one row; false after the last. On failure `out` holds nothing of the row.
    fn put_row(
        &mut self,
        copy: Option<(&CopyFormat, &[Column], &[u8])>,
        out: &mut BytesMut,
    ) -> Result<bool, Failure> {
        if self.next == self.rows {
            return Ok(false);
        }
        let start = out.len();
        let row = self.next;
        let mut cells = self.cells.iter().map(|(write, nulls)| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            (!is_null).then_some(write)
        });
        out.put_u8(if copy.is_some() { b'd' } else { b'D' });
        // The length of a message counts itself; the length of a value does not.
        out.put_i32(0);
        let result = if let Some((format, columns, head)) = copy {
            out.put_slice(head);
            format.put_row(columns, cells, row, out)
        } else {
            out.put_i16(self.width);
            cells
                .try_for_each(|cell| match cell {
                    Some(write) => with_length(out, |out| write(row, out)),
                    None => {
                        out.put_i32(-1);
                        Ok(())
                    }
                })
                .map_err(Unwritten::from)
        };
        let length = i32::try_from(out.len() - start - 1).map_err(|_| Unwritten::Row);
        let length = match result.and(length) {
            Ok(length) => length,
            Err(error) => {
                out.truncate(start);
                return Err(error.error(row).into());
            }
        };
        out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
        self.next += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn a_row_is_a_message() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Utf8, true),
        ]));
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(Int32Array::from(vec![Some(7)])),
                Arc::new(StringArray::from(vec![None::<&str>])),
            ],
        )
        .unwrap();
        let mut rows = Rows::new(schema, &[], Source::Ready(VecDeque::new()), "SELECT").unwrap();
        rows.load(&batch).unwrap();
        let mut out = BytesMut::new();
        assert_eq!(rows.put_rows(&mut out, usize::MAX).unwrap(), 1);
        assert_eq!(&out[..], b"D\0\0\0\x0f\0\x02\0\0\0\x017\xff\xff\xff\xff");
        assert!(!rows.is_loaded());
    }
}
