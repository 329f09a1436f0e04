//! `COPY … TO STDOUT`: a query's rows as text, CSV or binary, in messages of their own.
//!
//! The rows arrive like those of any result ([`rows`](super::rows)); only the message of a row
//! differs. The same writers write the cells. `COPY … TO 'file'` with PostgreSQL's options, or to
//! a `.csv` file without options, writes the same rows (`copy_file.rs`).
//!
//! Not here: COPY with DataFusion's options, which DataFusion plans; `COPY … FROM STDIN`.

use std::collections::HashSet;
use std::path::Path;

use bytes::{BufMut, BytesMut};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, ObjectName,
    Statement as SqlStatement, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};

use super::columns::Column;
use super::latin1::{Unwritten, convert, is_latin1};
use crate::failure::Failure;
use coscan_pg::dialect::is_every_column;
use coscan_pg::output::CellWriter;

/// The name of the file format in DataFusion's statement (`copy_file.rs`).
pub(super) const FORMAT: &str = "coscan_copy";
/// The option that holds the format as text.
pub(super) const OPTION: &str = "format.options";

/// How the rows are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopyFormat {
    Text(Delimited),
    Csv {
        delimited: Delimited,
        quote: u8,
        escape: u8,
        force: Force,
    },
    Binary,
}

/// The columns whose values are always quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Force {
    All,
    /// The columns with these names, if any.
    Named(Vec<String>),
}

impl Default for Force {
    fn default() -> Self {
        Self::Named(vec![])
    }
}

impl Force {
    fn of(columns: &[Ident]) -> Self {
        match columns {
            [every] if is_every_column(&every.value) => Self::All,
            named => Self::Named(named.iter().map(folded).collect()),
        }
    }

    /// Whether the values of a column are quoted. Of columns with one name the first is meant.
    fn is_of(&self, columns: &[Column], index: usize) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => columns.get(index).is_some_and(|column| {
                let is_same = |other: &Column| other.name == column.name;
                names.contains(&column.name) && !columns[..index].iter().any(is_same)
            }),
        }
    }
}

/// A name as PostgreSQL folds it: in lower case, unless it is quoted.
fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// What the text and CSV formats share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delimited {
    delimiter: u8,
    null: String,
    header: bool,
    /// Whether the rows are in LATIN1 and not in UTF-8.
    latin1: bool,
}

/// The query and the format of a `COPY … TO STDOUT`; `None` for any other statement.
pub(crate) fn copy_to_stdout(
    statement: &SqlStatement,
) -> Result<Option<(DfStatement, CopyFormat)>, Failure> {
    let SqlStatement::Copy {
        source,
        to,
        target,
        options,
        legacy_options,
        ..
    } = statement
    else {
        return Ok(None);
    };
    if matches!(target, CopyTarget::Stdin) && !to {
        return Err(Failure::unsupported(
            "COPY FROM STDIN is not supported: tables are read from files",
        ));
    }
    if !to || !matches!(target, CopyTarget::Stdout) {
        return Ok(None);
    }
    let query = match source {
        CopySource::Query(query) => SqlStatement::Query(query.clone()),
        CopySource::Table {
            table_name,
            columns,
        } => select(table_name, columns)?,
    };
    let format = Options::read(options, legacy_options)?.format()?;
    Ok(Some((DfStatement::Statement(Box::new(query)), format)))
}

/// DataFusion's statement for a `COPY … TO 'file'` with PostgreSQL's options; `None` for any other
/// statement.
pub(crate) fn copy_to_file(statement: &SqlStatement) -> Result<Option<DfStatement>, Failure> {
    let SqlStatement::Copy {
        source,
        to: true,
        target: CopyTarget::File { filename },
        options,
        legacy_options,
        ..
    } = statement
    else {
        return Ok(None);
    };
    let source = match source {
        CopySource::Query(query) => CopyToSource::Query(query.clone()),
        CopySource::Table {
            table_name,
            columns,
        } if columns.is_empty() => CopyToSource::Relation(table_name.clone()),
        CopySource::Table {
            table_name,
            columns,
        } => match select(table_name, columns)? {
            SqlStatement::Query(query) => CopyToSource::Query(query),
            _ => return Err(Failure::syntax("COPY needs a table")),
        },
    };
    let options = Options::read(options, legacy_options)?;
    let (stored_as, options) = match options.format.as_deref() {
        // DataFusion writes these formats itself, in UTF-8.
        Some(known @ ("parquet" | "json" | "arrow")) => {
            if options.latin1 == Some(true) {
                let text = format!("COPY in {known} does not support LATIN1");
                return Err(Failure::unsupported(text));
            }
            (known.to_owned(), vec![])
        }
        _ => {
            let format = options.format()?.to_text();
            let option = (OPTION.to_owned(), Value::SingleQuotedString(format));
            (FORMAT.to_owned(), vec![option])
        }
    };
    Ok(Some(DfStatement::CopyTo(CopyToStatement {
        source,
        target: filename.clone(),
        partitioned_by: vec![],
        stored_as: Some(stored_as),
        options,
    })))
}

/// Gives a COPY to a `.csv` file without options PostgreSQL's CSV with a header. DataFusion's would
/// be taken by the file's name: it writes other booleans and moments, and the same for NULL and ''.
pub(crate) fn as_csv(statement: &mut DfStatement) {
    match statement {
        DfStatement::Explain(explain) => as_csv(&mut explain.statement),
        DfStatement::CopyTo(copy) if is_plain_csv(copy) => {
            let format = CopyFormat::Csv {
                delimited: Delimited {
                    delimiter: b',',
                    null: String::new(),
                    header: true,
                    latin1: false,
                },
                quote: b'"',
                escape: b'"',
                force: Force::default(),
            };
            let format = Value::SingleQuotedString(format.to_text());
            copy.stored_as = Some(FORMAT.to_owned());
            copy.options = vec![(OPTION.to_owned(), format)];
        }
        _ => {}
    }
}

fn is_plain_csv(copy: &CopyToStatement) -> bool {
    let extension = Path::new(&copy.target).extension();
    let is_plain = copy.stored_as.is_none() && copy.options.is_empty();
    is_plain
        && copy.partitioned_by.is_empty()
        && extension.is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
}

fn select(table: &ObjectName, columns: &[Ident]) -> Result<SqlStatement, Failure> {
    let columns = if columns.is_empty() {
        "*".to_owned()
    } else {
        let names: Vec<_> = columns.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    let sql = format!("SELECT {columns} FROM {table}");
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, &sql)
        .map_err(|error| Failure::syntax(error.to_string()))?;
    let mut statement = statements
        .pop()
        .ok_or_else(|| Failure::syntax("COPY needs a table"))?;
    // Checked like a client's statement: the list of columns may be long.
    coscan::shape_statement(&mut statement)?;
    Ok(statement)
}

/// The options as given, in either syntax.
#[derive(Default)]
struct Options {
    format: Option<String>,
    delimiter: Option<char>,
    null: Option<String>,
    header: Option<bool>,
    quote: Option<char>,
    escape: Option<char>,
    force: Option<Force>,
    latin1: Option<bool>,
}

impl Options {
    fn read(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Self, Failure> {
        let mut read = Self::default();
        for option in options {
            match option {
                CopyOption::Format(word) => note(&mut read.format, word.value.to_lowercase())?,
                CopyOption::Delimiter(delimiter) => note(&mut read.delimiter, *delimiter)?,
                CopyOption::Null(null) => note(&mut read.null, null.clone())?,
                CopyOption::Header(header) => note(&mut read.header, *header)?,
                CopyOption::Quote(quote) => note(&mut read.quote, *quote)?,
                CopyOption::Escape(escape) => note(&mut read.escape, *escape)?,
                CopyOption::ForceQuote(columns) => note(&mut read.force, Force::of(columns))?,
                CopyOption::Encoding(encoding) if is_latin1(encoding).is_some() => {
                    note(&mut read.latin1, is_latin1(encoding) == Some(true))?;
                }
                other => {
                    return Err(Failure::unsupported(format!(
                        "COPY TO does not support {other}"
                    )));
                }
            }
        }
        for option in legacy {
            match option {
                CopyLegacyOption::Binary => note(&mut read.format, "binary".to_owned())?,
                CopyLegacyOption::Delimiter(delimiter) => note(&mut read.delimiter, *delimiter)?,
                CopyLegacyOption::Null(null) => note(&mut read.null, null.clone())?,
                CopyLegacyOption::Header => note(&mut read.header, true)?,
                CopyLegacyOption::Csv(options) => {
                    note(&mut read.format, "csv".to_owned())?;
                    for option in options {
                        match option {
                            CopyLegacyCsvOption::Header => note(&mut read.header, true)?,
                            CopyLegacyCsvOption::Quote(quote) => note(&mut read.quote, *quote)?,
                            CopyLegacyCsvOption::Escape(escape) => {
                                note(&mut read.escape, *escape)?;
                            }
                            CopyLegacyCsvOption::ForceQuote(columns) => {
                                note(&mut read.force, Force::of(columns))?;
                            }
                            CopyLegacyCsvOption::ForceNotNull(_) => {
                                let text = "COPY TO does not support FORCE NOT NULL";
                                return Err(Failure::unsupported(text));
                            }
                        }
                    }
                }
                other => {
                    return Err(Failure::unsupported(format!(
                        "COPY TO does not support {other}"
                    )));
                }
            }
        }
        Ok(read)
    }

    fn format(&self) -> Result<CopyFormat, Failure> {
        match self.format.as_deref() {
            Some("binary") => self.binary(),
            None | Some("text") => self.text(),
            Some("csv") => self.csv(),
            Some(other) => {
                let text = format!("COPY format {other:?} not recognized");
                Err(Failure::new("22023", text))
            }
        }
    }

    fn binary(&self) -> Result<CopyFormat, Failure> {
        let (code, option) = if self.delimiter.is_some() {
            ("42601", "DELIMITER")
        } else if self.null.is_some() {
            ("42601", "NULL")
        } else if self.header == Some(true) {
            ("0A000", "HEADER")
        } else {
            self.check_plain()?;
            return Ok(CopyFormat::Binary);
        };
        let text = format!("cannot specify {option} in BINARY mode");
        Err(Failure::new(code, text))
    }

    fn text(&self) -> Result<CopyFormat, Failure> {
        let delimited = self.delimited('\t', "\\N")?;
        let separator = char::from(delimited.delimiter);
        if separator.is_ascii_lowercase()
            || separator.is_ascii_digit()
            || ['\\', '.'].contains(&separator)
        {
            let text = format!("COPY delimiter cannot be \"{separator}\"");
            return Err(Failure::new("22023", text));
        }
        self.check_plain()?;
        delimited.check()?;
        Ok(CopyFormat::Text(delimited))
    }

    fn csv(&self) -> Result<CopyFormat, Failure> {
        let delimited = self.delimited(',', "")?;
        let quote = one_byte(self.quote.unwrap_or('"'), "quote")?;
        if delimited.delimiter == quote {
            let text = "COPY delimiter and quote must be different";
            return Err(Failure::new("22023", text));
        }
        let escape = match self.escape {
            Some(escape) => one_byte(escape, "escape")?,
            None => quote,
        };
        delimited.check()?;
        if delimited.null.as_bytes().contains(&quote) {
            let text = "CSV quote character must not appear in the NULL specification";
            return Err(Failure::unsupported(text));
        }
        Ok(CopyFormat::Csv {
            delimited,
            quote,
            escape,
            force: self.force.clone().unwrap_or_default(),
        })
    }

    /// What the text and CSV formats share, with the format's own delimiter and NULL unless others
    /// are given.
    fn delimited(&self, delimiter: char, null: &str) -> Result<Delimited, Failure> {
        let delimiter = one_byte(self.delimiter.unwrap_or(delimiter), "delimiter")?;
        if matches!(delimiter, b'\r' | b'\n') {
            let text = "COPY delimiter cannot be newline or carriage return";
            return Err(Failure::new("22023", text));
        }
        let null = self.null.as_deref().unwrap_or(null);
        if null.contains(['\r', '\n']) {
            let text = "COPY null representation cannot use newline or carriage return";
            return Err(Failure::new("22023", text));
        }
        Ok(Delimited {
            delimiter,
            null: null.to_owned(),
            header: self.header.unwrap_or_default(),
            latin1: self.latin1.unwrap_or_default(),
        })
    }

    /// Checks that nothing is said of quotes, which only CSV has.
    fn check_plain(&self) -> Result<(), Failure> {
        let option = if self.quote.is_some() {
            "quote"
        } else if self.escape.is_some() {
            "escape"
        } else if self.force.is_some() {
            "force quote"
        } else {
            return Ok(());
        };
        let text = format!("COPY {option} available only in CSV mode");
        Err(Failure::unsupported(text))
    }
}

/// Notes an option, which must not be given twice.
fn note<T>(option: &mut Option<T>, value: T) -> Result<(), Failure> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Failure::syntax("conflicting or redundant options")),
    }
}

impl Delimited {
    /// Checks that NULL does not look like the end of a value.
    fn check(&self) -> Result<(), Failure> {
        if self.null.as_bytes().contains(&self.delimiter) {
            let text = "COPY delimiter must not appear in the NULL specification";
            return Err(Failure::unsupported(text));
        }
        Ok(())
    }

    /// Puts what was written from `start` on into the encoding.
    fn encode(&self, out: &mut BytesMut, start: usize) -> Result<(), Unwritten> {
        if self.latin1 {
            convert(out, start)?;
        }
        Ok(())
    }

    fn between(&self, index: usize, out: &mut BytesMut) {
        if index > 0 {
            out.put_u8(self.delimiter);
        }
    }

    /// Whether a value would be misread without quotes.
    fn needs_quotes(&self, value: &[u8], quote: u8, width: usize) -> bool {
        let ends = |byte: &u8| *byte == self.delimiter || [quote, b'\r', b'\n'].contains(byte);
        // `\.` alone on a line would end the data.
        let is_end = width == 1 && value == b"\\.";
        is_end || value == self.null.as_bytes() || value.iter().any(ends)
    }
}

fn one_byte(character: char, what: &str) -> Result<u8, Failure> {
    u8::try_from(character)
        .ok()
        .filter(u8::is_ascii)
        .ok_or_else(|| {
            let text = format!("COPY {what} must be a single one-byte character");
            Failure::new("0A000", text)
        })
}

impl Default for CopyFormat {
    fn default() -> Self {
        Self::Text(Delimited {
            delimiter: b'\t',
            null: "\\N".to_owned(),
            header: false,
            latin1: false,
        })
    }
}

impl CopyFormat {
    /// Encodes the format as text, for [`CopyFormat::from_text`].
    pub(crate) fn to_text(&self) -> String {
        let of = |delimited: &Delimited| {
            let (header, latin1) = (u8::from(delimited.header), u8::from(delimited.latin1));
            let null = hex(&delimited.null);
            format!("{} {header} {latin1} .{null}", delimited.delimiter)
        };
        match self {
            Self::Binary => "binary".to_owned(),
            Self::Text(delimited) => format!("text {}", of(delimited)),
            Self::Csv {
                delimited,
                quote,
                escape,
                force,
            } => {
                let force = match force {
                    Force::All => "*".to_owned(),
                    Force::Named(names) => {
                        let names = names.iter().map(|name| format!(".{}", hex(name)));
                        names.collect::<Vec<_>>().concat()
                    }
                };
                format!("csv {} {quote} {escape} {force}", of(delimited))
            }
        }
    }

    /// Decodes a text of [`CopyFormat::to_text`].
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let kind = parts.next()?;
        if kind == "binary" {
            return Some(Self::Binary);
        }
        let delimited = Delimited {
            delimiter: parts.next()?.parse().ok()?,
            header: parts.next()? == "1",
            latin1: parts.next()? == "1",
            null: unhex(parts.next()?.strip_prefix('.')?)?,
        };
        if kind == "text" {
            return Some(Self::Text(delimited));
        }
        let (quote, escape) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let force = match parts.next()? {
            "*" => Force::All,
            names => Force::Named(names.split('.').skip(1).map(unhex).collect::<Option<_>>()?),
        };
        Some(Self::Csv {
            delimited,
            quote,
            escape,
            force,
        })
    }

    /// Checks the names of the columns that are always quoted.
    ///
    /// # Errors
    /// 42703 for one that the rows do not have, 42701 for one that is named twice.
    pub(crate) fn check(&self, columns: &[Column]) -> Result<(), Failure> {
        let Self::Csv {
            force: Force::Named(names),
            ..
        } = self
        else {
            return Ok(());
        };
        let known: HashSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let mut seen = HashSet::new();
        for name in names {
            if !known.contains(name.as_str()) {
                let text = format!("column \"{name}\" does not exist");
                return Err(Failure::new("42703", text));
            }
            if !seen.insert(name) {
                let text = format!("column \"{name}\" specified more than once");
                return Err(Failure::new("42701", text));
            }
        }
        Ok(())
    }

    /// The bytes before the first row of a file.
    pub(crate) fn file_start(&self, columns: &[Column]) -> Result<BytesMut, Unwritten> {
        let mut start = BytesMut::from(self.head());
        self.put_header(columns, &mut start)?;
        Ok(start)
    }

    /// The bytes after the last row of a file.
    pub(crate) fn file_end(&self) -> &'static [u8] {
        if self.is_binary() { &[0xff, 0xff] } else { &[] }
    }

    pub(crate) fn is_binary(&self) -> bool {
        *self == Self::Binary
    }

    /// The messages before the first row.
    pub(crate) fn start(&self, columns: &[Column]) -> Result<Vec<PgWireBackendMessage>, Failure> {
        let width = i16::try_from(columns.len())
            .map_err(|_| Failure::new("54011", "a result has at most 32767 columns"))?;
        let format = i8::from(self.is_binary());
        let formats = vec![i16::from(self.is_binary()); columns.len()];
        let response = CopyOutResponse::new(format, width, formats);
        let mut messages = vec![PgWireBackendMessage::CopyOutResponse(response)];
        let mut first = BytesMut::new();
        let put = self.put_header(columns, &mut first);
        put.map_err(|error| error.error(0))?;
        if !first.is_empty() {
            messages.push(PgWireBackendMessage::CopyData(CopyData::new(
                first.freeze(),
            )));
        }
        Ok(messages)
    }

    /// Writes the line of names, if the format has one.
    fn put_header(&self, columns: &[Column], first: &mut BytesMut) -> Result<(), Unwritten> {
        let start = first.len();
        match self {
            Self::Text(delimited) if delimited.header => {
                for (index, column) in columns.iter().enumerate() {
                    delimited.between(index, first);
                    put_escaped(column.name.as_bytes(), delimited.delimiter, first);
                }
                first.put_u8(b'\n');
                delimited.encode(first, start)
            }
            Self::Csv {
                delimited,
                quote,
                escape,
                ..
            } if delimited.header => {
                for (index, column) in columns.iter().enumerate() {
                    delimited.between(index, first);
                    let name = column.name.as_bytes();
                    let quoting = delimited.needs_quotes(name, *quote, columns.len());
                    put_csv(name, quoting, *quote, *escape, first);
                }
                first.put_u8(b'\n');
                delimited.encode(first, start)
            }
            _ => Ok(()),
        }
    }

    /// The bytes that precede the first row, or the end, within its message, where clients expect
    /// them.
    pub(crate) fn head(&self) -> &'static [u8] {
        match self {
            Self::Binary => BINARY_HEAD,
            _ => &[],
        }
    }

    /// The messages after the last row; `begun` says whether a row was sent.
    pub(crate) fn end(&self, begun: bool) -> Vec<PgWireBackendMessage> {
        let done = PgWireBackendMessage::CopyDone(CopyDone::new());
        if self.is_binary() {
            let head: &[u8] = if begun { &[] } else { self.head() };
            let last = [head, &(-1_i16).to_be_bytes()].concat();
            return vec![
                PgWireBackendMessage::CopyData(CopyData::new(last.into())),
                done,
            ];
        }
        vec![done]
    }

    /// Writes one row, without the message around it. `cells` gives the writer of each column's
    /// cell, `None` for NULL.
    pub(crate) fn put_row<'a>(
        &self,
        columns: &[Column],
        cells: impl Iterator<Item = Option<&'a CellWriter>>,
        row: usize,
        out: &mut BytesMut,
    ) -> Result<(), Unwritten> {
        let mut value = BytesMut::new();
        let start = out.len();
        let width = columns.len();
        match self {
            Self::Binary => {
                out.put_i16(i16::try_from(width).map_err(|_| std::fmt::Error)?);
                for cell in cells {
                    match cell {
                        Some(write) => coscan_pg::output::with_length(out, |out| write(row, out))?,
                        None => out.put_i32(-1),
                    }
                }
            }
            Self::Text(delimited) => {
                for (index, cell) in cells.enumerate() {
                    delimited.between(index, out);
                    match cell {
                        Some(write) => {
                            value.clear();
                            write(row, &mut value)?;
                            put_escaped(&value, delimited.delimiter, out);
                        }
                        None => out.put_slice(delimited.null.as_bytes()),
                    }
                }
                out.put_u8(b'\n');
                delimited.encode(out, start)?;
            }
            Self::Csv {
                delimited,
                quote,
                escape,
                force,
            } => {
                for (index, cell) in cells.enumerate() {
                    delimited.between(index, out);
                    match cell {
                        Some(write) => {
                            value.clear();
                            write(row, &mut value)?;
                            let forced = force.is_of(columns, index);
                            let quoting = forced || delimited.needs_quotes(&value, *quote, width);
                            put_csv(&value, quoting, *quote, *escape, out);
                        }
                        None => out.put_slice(delimited.null.as_bytes()),
                    }
                }
                out.put_u8(b'\n');
                delimited.encode(out, start)?;
            }
        }
        Ok(())
    }
}

/// Encodes any text as one word.
fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut hex, byte| {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
        hex.extend([digit(byte >> 4), digit(byte & 15)]);
        hex
    })
}

fn unhex(hex: &str) -> Option<String> {
    let bytes = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

fn put_csv(value: &[u8], quoting: bool, quote: u8, escape: u8, out: &mut BytesMut) {
    if !quoting {
        out.put_slice(value);
        return;
    }
    out.put_u8(quote);
    for byte in value {
        if *byte == quote || *byte == escape {
            out.put_u8(escape);
        }
        out.put_u8(*byte);
    }
    out.put_u8(quote);
}

/// PostgreSQL's text format: a backslash escapes what would end a value or a row.
fn put_escaped(value: &[u8], delimiter: u8, out: &mut BytesMut) {
    for byte in value {
        let letter = match byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b'\\' => b'\\',
            other if *other == delimiter => delimiter,
            other => {
                out.put_u8(*other);
                continue;
            }
        };
        out.put_u8(b'\\');
        out.put_u8(letter);
    }
}

/// The first bytes of a binary copy: a signature, no flags, no extension.
const BINARY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> Result<Option<(DfStatement, CopyFormat)>, Failure> {
        let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        copy_to_stdout(&statements[0])
    }

    fn csv(text: &str) -> String {
        let (_, format) = read(&format!("COPY t TO STDOUT (FORMAT csv{text})"))
            .unwrap()
            .unwrap();
        let values = ["plain", "a,b", "q\"", "", "two\nlines", "\\."];
        let writers: Vec<CellWriter> = values
            .iter()
            .map(|value| -> CellWriter {
                let value = (*value).to_owned();
                Box::new(move |_, out| {
                    out.put_slice(value.as_bytes());
                    Ok(())
                })
            })
            .collect();
        let mut out = BytesMut::new();
        let cells = writers.iter().map(Some).chain([None]);
        format.put_row(&[], cells, 0, &mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        assert_eq!(
            csv(""),
            "plain,\"a,b\",\"q\"\"\",\"\",\"two\nlines\",\\.,\n"
        );
        assert_eq!(
            csv(", DELIMITER ';', NULL 'plain', QUOTE '''', ESCAPE '\\'"),
            "'plain';a,b;q\";;'two\nlines';\\.;plain\n"
        );
    }

    #[test]
    fn rows_in_latin1() {
        let (_, format) = read("COPY t TO STDOUT (ENCODING 'latin-1', NULL 'é')")
            .unwrap()
            .unwrap();
        let put = |value: &'static str| -> Result<Vec<u8>, Unwritten> {
            let write: CellWriter = Box::new(move |_, out| {
                out.put_slice(value.as_bytes());
                Ok(())
            });
            let mut out = BytesMut::from("é".as_bytes());
            let cells = [Some(&write), None].into_iter();
            format.put_row(&[], cells, 0, &mut out)?;
            Ok(out.to_vec())
        };
        assert_eq!(put("ü"), Ok(vec![0xc3, 0xa9, 0xfc, b'\t', 0xe9, b'\n']));
        assert_eq!(put("€"), Err(Unwritten::Character('€')));
    }

    #[test]
    fn formats_of_datafusion_are_in_utf8() {
        for (options, is_written) in [
            ("FORMAT json", true),
            ("FORMAT json, ENCODING 'UTF8'", true),
            ("FORMAT csv, ENCODING 'LATIN1'", true),
            ("FORMAT json, ENCODING 'LATIN1'", false),
            ("FORMAT parquet, ENCODING 'LATIN1'", false),
        ] {
            let sql = format!("COPY t TO 'f' ({options})");
            let statements = Parser::parse_sql(&PostgreSqlDialect {}, &sql).unwrap();
            let copy = copy_to_file(&statements[0]);
            assert_eq!(matches!(copy, Ok(Some(_))), is_written, "{sql}");
        }
    }

    #[test]
    fn text_escapes_what_would_end_a_value() {
        let mut out = BytesMut::new();
        put_escaped(b"a\tb\nc\\d|e\x08", b'|', &mut out);
        assert_eq!(&out[..], br"a\tb\nc\\d\|e\b");
    }

    #[test]
    fn a_format_survives_as_text() {
        for options in [
            "FORMAT binary",
            "FORMAT text, NULL 'a b', DELIMITER '|'",
            "ENCODING 'LATIN1'",
            "FORMAT csv, HEADER, NULL '', QUOTE '~', ESCAPE '/', FORCE_QUOTE (a, \"b.c é\")",
        ] {
            let sql = format!("COPY t TO STDOUT ({options})");
            let (_, format) = read(&sql).unwrap().unwrap();
            assert_eq!(
                CopyFormat::from_text(&format.to_text()),
                Some(format),
                "{options}"
            );
        }
    }

    #[test]
    fn statements() {
        let (query, format) = read("COPY t (a, \"B\") TO STDOUT").unwrap().unwrap();
        assert_eq!(query.to_string(), "SELECT a, \"B\" FROM t");
        assert!(matches!(format, CopyFormat::Text(d) if d.null == "\\N" && d.delimiter == b'\t'));
        let (query, format) = read("COPY (SELECT 1) TO STDOUT BINARY").unwrap().unwrap();
        assert_eq!(query.to_string(), "SELECT 1");
        assert!(format.is_binary());
        assert!(read("COPY t TO '/x.parquet'").unwrap().is_none());
        assert!(read("SELECT 1").unwrap().is_none());
        for wrong in [
            "COPY t TO STDOUT (FORMAT parquet)",
            "COPY t TO STDOUT (QUOTE '|')",
            "COPY t TO STDOUT (FORMAT binary, HEADER)",
            "COPY t TO STDOUT (DELIMITER 'a')",
            "COPY t TO STDOUT (FORMAT csv, NULL 'a,b')",
            "COPY t TO STDOUT (FORMAT csv, DELIMITER '\"')",
            "COPY t TO STDOUT (FREEZE)",
            "COPY t TO STDOUT (ENCODING 'latin2')",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
