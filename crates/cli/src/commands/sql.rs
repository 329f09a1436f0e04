//! `coscan sql`: statements over Parquet files, one after the other or all at once.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use clap::Args;
use coscan::{BlockStatement, NamesStatement, Session, StatementText};
use coscan_quantities as quantities;
use datafusion::sql::parser::Statement as Parsed;
use futures::TryStreamExt;

use crate::args::{OnNodes, Settings, Tables};
use crate::concurrent::Statements;
use crate::failure::Failure;
use crate::output::{Format, Writer};
use crate::progress;

/// Options of `coscan sql`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    tables: Tables,
    /// The statements, separated by semicolons. Without any, and without -f, they are read from
    /// standard input.
    #[arg(value_name = "SQL")]
    statements: Vec<String>,
    /// Read statements from a file; `-` is standard input.
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "statements")]
    file: Option<PathBuf>,
    /// The format of the rows.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Run all statements at once, so none that needs a place among the others, such as BEGIN or
    /// EXECUTE. Results are written in the order of the statements; a large one waits for its turn
    /// in a temporary file.
    #[arg(long)]
    concurrent: bool,
    #[command(flatten)]
    nodes: OnNodes,
    #[command(flatten)]
    settings: Settings,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let text = text(options)?;
    let statements =
        coscan::split_statements(&text).map_err(|error| Failure::new(format!("SQL: {error}")))?;
    if statements.is_empty() {
        return Err(Failure::new("there is no statement to run"));
    }
    if options.format == Format::Arrow && statements.len() > 1 {
        return Err(Failure::new(
            "--format arrow takes one statement: a stream has one schema",
        ));
    }
    if options.concurrent {
        check_without_order(&statements)?;
    }
    crate::block_on(async {
        let engine = options.settings.engine()?;
        let session = options.nodes.session(&engine).await?;
        options.tables.register(&session).await?;
        let outcome = if options.concurrent {
            concurrently(&session, &statements, options.format).await
        } else {
            in_order(&session, &statements, options.format).await
        };
        engine.finish_recording();
        outcome
    })
}

/// Refuses statements whose place among the others matters, before any of them runs.
fn check_without_order(statements: &[&str]) -> Result<(), Failure> {
    match statements.iter().find(|statement| needs_order(statement)) {
        None => Ok(()),
        Some(statement) => Err(Failure::new(format!(
            "with --concurrent statements have no order, which this one needs: {statement}"
        ))),
    }
}

/// Whether a statement is about a block or about prepared statements. The error of one that cannot
/// be parsed comes when it runs.
fn needs_order(statement: &str) -> bool {
    let text = StatementText::whole(statement).ok();
    let parsed = text.and_then(|text| coscan::parse_postgresql(text).ok());
    parsed.into_iter().flatten().any(|parsed| {
        let Parsed::Statement(parsed) = parsed else {
            return false;
        };
        let about_names = NamesStatement::of(&parsed);
        BlockStatement::of(&parsed).is_some() || !matches!(about_names, Ok(None))
    })
}

/// Runs one statement and writes its rows as a table.
pub(crate) async fn run_one(session: &Session, statement: &str) -> Result<(), Failure> {
    in_order(session, &[statement], Format::Table).await
}

fn text(options: &Options) -> Result<String, Failure> {
    if !options.statements.is_empty() {
        return Ok(options.statements.join(";\n"));
    }
    match &options.file {
        Some(path) if path.as_os_str() != "-" => std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display()))),
        None if io::stdin().is_terminal() => Err(Failure::new(
            "there is no statement: write one, or give a file with -f",
        )),
        _ => {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::new(format!("standard input: {error}")))?;
            Ok(text)
        }
    }
}

async fn in_order(session: &Session, statements: &[&str], format: Format) -> Result<(), Failure> {
    let mut sink = Sink::new(format);
    for statement in statements {
        let started = Instant::now();
        let mut bar = progress::Statements::watch(session.engine());
        let prepared = session.prepare(statement, &[]).await?;
        let mut rows = prepared.execute(vec![]).await?;
        let schema = rows.schema();
        let mut result = sink.begin(&schema)?;
        while let Some(batch) = rows.try_next().await? {
            bar.make_way();
            result.write(&batch)?;
        }
        bar.clear();
        result.finish(&schema, started.elapsed())?;
    }
    Ok(())
}

async fn concurrently(
    session: &Session,
    statements: &[&str],
    format: Format,
) -> Result<(), Failure> {
    let mut bar = progress::Statements::watch(session.engine());
    let statements = Statements::start(session, statements).await?;
    let mut sink = Sink::new(format);
    for mut running in statements.running {
        let schema = SchemaRef::clone(&running.schema);
        let mut result = sink.begin(&schema)?;
        while let Some(batch) = running.next().await? {
            bar.make_way();
            result.write(&batch)?;
        }
        let elapsed = running.end().await?;
        bar.make_way();
        result.finish(&schema, elapsed)?;
    }
    bar.clear();
    Ok(())
}

/// Standard output, which receives several results.
struct Sink {
    format: Format,
    first: bool,
}

impl Sink {
    fn new(format: Format) -> Self {
        Self {
            format,
            first: true,
        }
    }

    /// Begins a result. Statements without columns (SET) write nothing.
    fn begin(&mut self, schema: &SchemaRef) -> Result<ResultWriter, Failure> {
        if schema.fields().is_empty() {
            return Ok(ResultWriter {
                writer: None,
                rows: 0,
            });
        }
        let mut out = io::BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, io::stdout().lock());
        if !self.first && matches!(self.format, Format::Csv | Format::Table) {
            writeln!(out)?;
        }
        self.first = false;
        Ok(ResultWriter {
            writer: Some(Writer::new(self.format, schema, out)?),
            rows: 0,
        })
    }
}

/// One result on its way to standard output.
struct ResultWriter {
    writer: Option<Writer<io::BufWriter<io::StdoutLock<'static>>>>,
    rows: u64,
}

impl ResultWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.rows += batch.num_rows() as u64;
        self.writer
            .as_mut()
            .map_or(Ok(()), |writer| writer.write(batch))
    }

    fn finish(self, schema: &SchemaRef, elapsed: Duration) -> Result<(), Failure> {
        let Some(writer) = self.writer else {
            return Ok(());
        };
        let for_people = matches!(writer, Writer::Table(_)) && io::stdout().is_terminal();
        writer.finish(schema, self.rows)?;
        io::stdout().flush()?;
        if for_people {
            eprintln!("{}", quantities::seconds(elapsed.as_secs_f64()));
        }
        Ok(())
    }
}

const OUTPUT_BUFFER_BYTES: usize = 64 << 10;
