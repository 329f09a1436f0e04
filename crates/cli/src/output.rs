//! Writes rows as a table, CSV, JSON lines or an Arrow stream.
//!
//! Idea: batches are written as they arrive. The columns of a table are as wide as its first
//! [`SAMPLE_ROWS`] rows need; these are held back until the sample is complete or the result ends.
//! A wider row that comes later only makes its own line longer.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::csv::WriterBuilder as CsvBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use clap::ValueEnum;

use crate::failure::Failure;

/// The format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns aligned for people, with the number of rows.
    Table,
    /// Comma-separated values with a header line; an empty line between two results.
    Csv,
    /// One JSON object per row and line.
    Json,
    /// An Arrow IPC stream; for one statement.
    Arrow,
}

/// Writes one result.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, and it does not move"
)]
pub(crate) enum Writer<W: Write> {
    Table(TableWriter<W>),
    Csv(arrow::csv::Writer<W>),
    Json(arrow::json::Writer<W, LineDelimited>),
    Arrow(StreamWriter<W>),
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(format: Format, schema: &SchemaRef, out: W) -> Result<Self, Failure> {
        Ok(match format {
            Format::Table => Self::Table(TableWriter::new(schema, out)),
            Format::Csv => Self::Csv(CsvBuilder::new().with_header(true).build(out)),
            Format::Json => Self::Json(JsonBuilder::new().with_explicit_nulls(true).build(out)),
            Format::Arrow => Self::Arrow(StreamWriter::try_new(out, schema)?),
        })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        match self {
            Self::Table(writer) => writer.write(&with_texts(batch)?),
            Self::Csv(writer) => Ok(writer.write(&with_texts(batch)?)?),
            Self::Json(writer) => Ok(writer.write(batch)?),
            Self::Arrow(writer) => Ok(writer.write(batch)?),
        }
    }

    /// Writes the remaining output. `schema` is needed for a result without rows.
    pub(crate) fn finish(self, schema: &SchemaRef, rows: u64) -> Result<(), Failure> {
        match self {
            Self::Table(writer) => writer.finish(rows),
            Self::Csv(mut writer) => {
                if rows == 0 {
                    // The header is written with the first batch.
                    let none = RecordBatch::new_empty(SchemaRef::clone(schema));
                    writer.write(&with_texts(&none)?)?;
                }
                Ok(())
            }
            Self::Json(mut writer) => Ok(writer.finish()?),
            Self::Arrow(mut writer) => Ok(writer.finish()?),
        }
    }
}

/// The batch with arrays and rows as texts (`{1,2}`, `(1,a)`): CSV has no form of its own for them.
fn with_texts(batch: &RecordBatch) -> Result<RecordBatch, Failure> {
    let schema = batch.schema();
    if !schema
        .fields()
        .iter()
        .any(|field| field.data_type().is_nested())
    {
        return Ok(batch.clone());
    }
    let mut fields = vec![];
    let mut columns = vec![];
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if field.data_type().is_nested() {
            fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
            columns.push(Arc::new(coscan_pg::output::texts(field, column)?) as ArrayRef);
        } else {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
        }
    }
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}

/// Writes aligned columns.
pub(crate) struct TableWriter<W: Write> {
    out: W,
    header: Vec<String>,
    /// Numbers are aligned to the right.
    right: Vec<bool>,
    state: State,
}

enum State {
    /// The rows held back until the widths are known.
    Sampling(Vec<Vec<String>>),
    /// The header has been written, with these widths.
    Writing(Vec<usize>),
}

impl<W: Write> TableWriter<W> {
    fn new(schema: &SchemaRef, out: W) -> Self {
        let fields = schema.fields();
        let number = |kind: &DataType| kind.is_numeric();
        Self {
            out,
            header: fields.iter().map(|field| field.name().clone()).collect(),
            right: fields
                .iter()
                .map(|field| number(field.data_type()))
                .collect(),
            state: State::Sampling(Vec::new()),
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let options = FormatOptions::default().with_null("NULL");
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            match &mut self.state {
                State::Sampling(rows) => {
                    rows.push(cells);
                    if rows.len() >= SAMPLE_ROWS {
                        self.flush_sample()?;
                    }
                }
                State::Writing(widths) => write_row(&mut self.out, &cells, widths, &self.right)?,
            }
        }
        Ok(())
    }

    fn finish(mut self, rows: u64) -> Result<(), Failure> {
        self.flush_sample()?;
        let plural = if rows == 1 { "" } else { "s" };
        Ok(writeln!(self.out, "({rows} row{plural})")?)
    }

    /// Writes the header and the rows held back, unless already done.
    fn flush_sample(&mut self) -> Result<(), Failure> {
        let State::Sampling(rows) = &mut self.state else {
            return Ok(());
        };
        let rows = std::mem::take(rows);
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| {
                let cells = rows.iter().chain(std::iter::once(&self.header));
                cells
                    .flat_map(|row| row[column].lines())
                    .map(width)
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let left = vec![false; widths.len()];
        write_row(&mut self.out, &self.header, &widths, &left)?;
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        writeln!(self.out, "{}", rule.join("┼"))?;
        for row in &rows {
            write_row(&mut self.out, row, &widths, &self.right)?;
        }
        self.state = State::Writing(widths);
        Ok(())
    }
}

/// Writes one row; cells with several lines (plans) take several lines.
fn write_row(
    out: &mut impl Write,
    cells: &[String],
    widths: &[usize],
    right: &[bool],
) -> std::io::Result<()> {
    let height = cells
        .iter()
        .map(|cell| cell.lines().count())
        .max()
        .unwrap_or(1)
        .max(1);
    for line in 0..height {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let cell = cell.lines().nth(line).unwrap_or("");
            let padding = " ".repeat(widths[column].saturating_sub(width(cell)));
            text.push_str(if column == 0 { " " } else { "│ " });
            if right[column] {
                text.push_str(&padding);
                text.push_str(cell);
            } else {
                text.push_str(cell);
                text.push_str(&padding);
            }
            text.push(' ');
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// Enough rows to estimate the width of a column, few enough to hold in memory.
const SAMPLE_ROWS: usize = 1000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn written(format: Format, texts: Vec<Option<&str>>) -> String {
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("text", DataType::Utf8, true),
        ]));
        let mut out = Vec::new();
        let mut writer = Writer::new(format, &schema, &mut out).unwrap();
        let rows = i64::try_from(texts.len()).unwrap();
        if rows > 0 {
            let numbers = Int64Array::from_iter_values((0..rows).map(|n| n * 1000));
            let columns: Vec<arrow::array::ArrayRef> =
                vec![Arc::new(numbers), Arc::new(StringArray::from(texts))];
            writer
                .write(&RecordBatch::try_new(Arc::clone(&schema), columns).unwrap())
                .unwrap();
        }
        writer
            .finish(&schema, u64::try_from(rows).unwrap())
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tables_are_aligned_and_counted() {
        let text = written(Format::Table, vec![Some("a"), None, Some("two\nlines")]);
        let expected = " n    │ text\n──────┼───────\n    0 │ a\n 1000 │ NULL\n 2000 │ two\n      │ lines\n(3 rows)\n";
        assert_eq!(text, expected);
        assert!(written(Format::Table, vec![]).ends_with("(0 rows)\n"));
        assert!(written(Format::Table, vec![None]).ends_with("(1 row)\n"));
    }

    #[test]
    fn a_long_table_is_not_held_back() {
        let text = written(Format::Table, vec![Some("x"); SAMPLE_ROWS + 7]);
        assert_eq!(text.lines().count(), SAMPLE_ROWS + 7 + 3);
    }

    #[test]
    fn csv_has_a_header_even_without_rows() {
        assert_eq!(
            written(Format::Csv, vec![Some("a,b"), None]),
            "n,text\n0,\"a,b\"\n1000,\n"
        );
        assert_eq!(written(Format::Csv, vec![]), "n,text\n");
    }

    #[test]
    fn json_is_one_object_per_line_with_nulls() {
        assert_eq!(
            written(Format::Json, vec![Some("a"), None]),
            "{\"n\":0,\"text\":\"a\"}\n{\"n\":1000,\"text\":null}\n"
        );
    }
}
