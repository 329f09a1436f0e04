//! Which columns does a Parquet file have, and which does a table of such files have?
//!
//! A file's columns are those of its own schema: `arrow` metadata in the footer, otherwise
//! Parquet's types, with INT96 in the configured unit, dictionaries with wide keys
//! (`read/wide_keys.rs`), and UUID and JSON marked as such. A table's columns are the union of its
//! files' columns (`wider.rs`); if the session says so, text and binary are read as views. Other
//! metadata of columns and table is kept unless `skip_metadata` is on.
//! Not here: reading footers (`footers.rs`), converting a file's values to the table's types
//! (DataFusion's expression adapter).
//! T1: rows are stored with the types that were written (`coscan_pg`'s `as_stored`), never as views
//! that only the reader wanted. The keys of a dictionary are no part of the type: new files have
//! wide ones.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use coscan_storage::{INTERVAL, StorageError, UNKNOWN_TYPES, is_interval};
use datafusion::common::config::TableParquetOptions;
use datafusion::datasource::physical_plan::parquet::Int96Coercer;
use datafusion::error::Result;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::LogicalType;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::Type;

use super::wider::{is_binary, is_text, merged, wider};
use crate::error::external;
use crate::read::{int96, wide_keys};

/// Marks a field whose values cannot be read.
pub(crate) const UNREADABLE: &str = "coscan.unreadable";
/// The extension type of UUIDs in Arrow.
const UUID: &str = "arrow.uuid";
/// The extension type of JSON in Arrow.
const JSON: &str = "arrow.json";
/// The key under which Arrow stores the name of a field's extension type.
const EXTENSION: &str = "ARROW:extension:name";

/// The columns of one file as they are stored.
///
/// # Errors
/// `BadFooter` if two columns have the same name; parquet's, for types that Arrow does not have.
pub(in crate::tables) fn of_file(
    name: &str,
    footer: &ParquetMetaData,
    options: &TableParquetOptions,
) -> Result<Schema> {
    let file = footer.file_metadata();
    let parquet = file.schema_descr();
    let mut schema = parquet_to_arrow_schema(parquet, file.key_value_metadata())?;
    if let Some((unit, zone)) = int96(options)?
        && let Some(coerced) = Int96Coercer::new(parquet, &schema, &unit)
            .with_timezone(zone)
            .coerce()
    {
        schema = coerced;
    }
    if let Some(twice) = named_twice(&schema) {
        return Err(bad(name, format!("it has two columns named {twice:?}")));
    }
    let roots = parquet.root_schema().get_fields();
    let mut notes = file.key_value_metadata().into_iter().flatten();
    let unknown = notes.any(|note| note.key == UNKNOWN_TYPES);
    let fields = schema.fields().iter().zip(roots);
    let fields = fields.map(|(field, root)| column(field, root, unknown, options));
    let fields: Fields = fields.collect();
    Ok(if options.global.skip_metadata {
        Schema::new(fields)
    } else {
        Schema::new_with_metadata(fields, schema.metadata().clone())
    })
}

/// A column as it is read. `unknown` says whether the file's metadata tells of types that Arrow
/// lacks.
fn column(field: &Field, root: &Type, unknown: bool, options: &TableParquetOptions) -> Field {
    // Files that Coscan wrote have only Arrow's mark (parquet 59 writes the other with a feature).
    let is = |extension: &str, logical: LogicalType| {
        let mark = field.metadata().get(EXTENSION);
        mark.is_some_and(|name| name == extension)
            || root.get_basic_info().logical_type_ref() == Some(&logical)
    };
    let is_uuid = is(UUID, LogicalType::Uuid);
    let is_json = is(JSON, LogicalType::Json);
    let data_type = match field.data_type() {
        DataType::Binary if options.global.binary_as_string => DataType::Utf8,
        DataType::Interval(_) if is_interval(root) => INTERVAL,
        DataType::LargeBinary if options.global.binary_as_string => DataType::LargeUtf8,
        other => wide_keys(other),
    };
    let mut field = field.clone().with_data_type(data_type);
    if options.global.skip_metadata {
        field.metadata_mut().clear();
    }
    // Only metadata of an unknown kind says what the bytes mean.
    let is_bare = matches!(field.data_type(), DataType::FixedSizeBinary(_)) && !is_uuid;
    if unknown && is_bare {
        let metadata = field.metadata_mut();
        metadata.insert(
            UNREADABLE.to_owned(),
            "its type is not supported".to_owned(),
        );
    }
    let mark = match field.data_type() {
        DataType::FixedSizeBinary(16) if is_uuid => Some(UUID),
        held if is_json && is_text(held) => Some(JSON),
        _ => None,
    };
    if let Some(mark) = mark {
        let metadata = field.metadata_mut();
        metadata.insert(EXTENSION.to_owned(), mark.to_owned());
    }
    field
}

fn named_twice(schema: &Schema) -> Option<&str> {
    let mut names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map(|pair| pair[0])
}

/// The columns of all files together, as they are stored. The files must come in the order of
/// their names.
///
/// # Errors
/// `BadFooter`, which names the first file that does not fit the previous ones, and the column or
/// the key of the metadata.
pub(in crate::tables) fn of_files(
    files: impl IntoIterator<Item = (String, Schema)>,
) -> Result<Schema> {
    let mut all: Option<(String, Schema)> = None;
    for (name, schema) in files {
        let Some((first, known)) = &mut all else {
            all = Some((name, schema));
            continue;
        };
        if schema == *known {
            continue;
        }
        let mut metadata = known.metadata().clone();
        for (key, value) in schema.metadata() {
            let agreed = metadata.entry(key.clone()).or_insert_with(|| value.clone());
            if agreed != value {
                let reason = format!("{key:?} is {value:?} here and {agreed:?} in {first}");
                return Err(bad(&name, reason));
            }
        }
        let all = merged(known, &schema).map_err(|conflict| {
            let reason = format!(
                "column {:?} is {} here and {} in {first} and others; no type holds both",
                conflict.column, conflict.other, conflict.one
            );
            bad(&name, reason)
        })?;
        *known = all.with_metadata(metadata);
    }
    Ok(all.map_or_else(Schema::empty, |(_, schema)| schema))
}

/// The first column of a table that cannot hold a file's column of the same name, because the
/// table's type is not the wider one. All forms of text count as one type, and so do all binary
/// types.
pub(in crate::tables) fn misfit<'a>(
    table: &'a Schema,
    file: &'a Schema,
) -> Option<(&'a Field, &'a Field)> {
    let mut pairs = file.fields().iter().filter_map(|found| {
        let known = table.field_with_name(found.name()).ok()?;
        Some((known, found.as_ref()))
    });
    pairs.find(|(known, found)| !holds(known.data_type(), found.data_type()))
}

fn holds(known: &DataType, found: &DataType) -> bool {
    if is_text(known) && is_text(found) {
        return true;
    }
    let is_fixed = |of: &DataType| matches!(of, DataType::FixedSizeBinary(_));
    if is_binary(known) && is_binary(found) && !is_fixed(known) {
        return true;
    }
    let known = plain(known);
    wider(&known, &plain(found)).is_some_and(|wider| wider == known)
}

/// The columns as they are read: with views, if the session wants them.
pub(in crate::tables) fn as_read(stored: Schema, options: &TableParquetOptions) -> Schema {
    if !options.global.schema_force_view_types {
        return stored;
    }
    let fields = stored.fields().iter().map(|field| {
        let view = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            _ => return Arc::clone(field),
        };
        Arc::new(Field::clone(field).with_data_type(view))
    });
    Schema::new_with_metadata(fields.collect::<Fields>(), stored.metadata().clone())
}

/// The columns for files without older files beside them: without views, which not every reader
/// knows.
pub(in crate::tables) fn without_views(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(plain_field);
    Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone())
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let plain = plain(field.data_type());
    if plain == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_data_type(plain))
}

fn plain(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::Utf8View => T::Utf8,
        T::BinaryView => T::Binary,
        T::List(of) | T::ListView(of) => T::List(plain_field(of)),
        T::LargeList(of) | T::LargeListView(of) => T::LargeList(plain_field(of)),
        T::FixedSizeList(of, length) => T::FixedSizeList(plain_field(of), *length),
        T::Struct(fields) => T::Struct(fields.iter().map(plain_field).collect()),
        T::Map(entries, sorted) => T::Map(plain_field(entries), *sorted),
        T::Dictionary(key, value) => T::Dictionary(key.clone(), Box::new(plain(value))),
        other => other.clone(),
    }
}

fn bad(file: &str, reason: String) -> datafusion::error::DataFusionError {
    external(StorageError::BadFooter {
        file: file.to_owned(),
        reason,
    })
}
