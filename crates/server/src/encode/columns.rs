//! The columns of a result, as described to the client.
//!
//! Not here: which PostgreSQL type a field has, and how cells are written (`coscan_pg::output`).

use coscan_pg::dialect::on_the_wire;
use coscan_pg::output::{modifier, pg_type, size};
use datafusion::arrow::datatypes::Schema;
use pgwire::api::Type;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{
    FORMAT_CODE_BINARY, FORMAT_CODE_TEXT, FieldDescription, RowDescription,
};

use crate::failure::Failure;

/// A column of a result, as described to the client.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) pg_type: Type,
    pub(crate) binary: bool,
    modifier: i32,
}

/// The columns of a result in the formats that a Bind message asks for. No format means text for
/// all columns, one format applies to all, and more give one for each column.
pub(crate) fn columns(schema: &Schema, formats: &[i16]) -> Result<Vec<Column>, Failure> {
    let fields = schema.fields();
    if formats.len() > 1 && formats.len() != fields.len() {
        return Err(Failure::protocol(format!(
            "bind message has {} result formats but query has {} columns",
            formats.len(),
            fields.len()
        )));
    }
    let format = |index: usize| match formats {
        [] => FORMAT_CODE_TEXT,
        [all] => *all,
        each => each[index],
    };
    Ok(fields
        .iter()
        .enumerate()
        .map(|(index, field)| Column {
            name: on_the_wire(field.name()).to_owned(),
            pg_type: pg_type(field),
            binary: format(index) == FORMAT_CODE_BINARY,
            modifier: modifier(field.data_type()),
        })
        .collect())
}

/// The message that describes `columns`.
pub(crate) fn description(columns: &[Column]) -> PgWireBackendMessage {
    let fields = columns
        .iter()
        .map(|column| {
            let format = if column.binary {
                FORMAT_CODE_BINARY
            } else {
                FORMAT_CODE_TEXT
            };
            FieldDescription::new(
                // On the wire a NUL would end the column's name.
                column.name.replace('\0', ""),
                0,
                0,
                column.pg_type.oid(),
                size(&column.pg_type),
                column.modifier,
                format,
            )
        })
        .collect();
    PgWireBackendMessage::RowDescription(RowDescription::new(fields))
}
