//! The rows of the views of `information_schema`.
//!
//! Columns that a row does not name are NULL.

use datafusion::arrow::datatypes::Field;
use datafusion::error::Result;
use pgwire::api::Type;

use crate::catalog::grid::{Cell, Columns};
use crate::catalog::model::{Model, Opened, Relation};
use coscan_pg::array_types::element_of;
use coscan_pg::output::{modifier, pg_type};

/// A row, as cells with the names of their columns.
pub(super) struct Row(Vec<(&'static str, Cell)>);

impl Row {
    /// The cells in the order of a view's columns.
    pub(super) fn in_order_of(self, columns: Columns) -> Vec<Cell> {
        let cell = |name: &str| {
            let found = self.0.iter().find(|(column, _)| *column == name);
            found.map_or(Cell::Null, |(_, cell)| cell.clone())
        };
        columns.iter().map(|(name, _)| cell(name)).collect()
    }
}

/// The rows of a view.
pub(super) async fn of(view: &str, model: &Model) -> Result<Vec<Row>> {
    Ok(match view {
        "tables" => {
            each_relation(model, |relation, opened| {
                vec![table(model, relation, opened)]
            })
            .await?
        }
        "columns" => {
            each_relation(model, |relation, opened| {
                let fields = opened.schema.fields().iter().enumerate();
                fields
                    .map(|(index, field)| column(model, relation, opened, index, field))
                    .collect()
            })
            .await?
        }
        "views" => {
            each_relation(model, |relation, opened| {
                let view = opened.is_view.then(|| view_row(model, relation, opened));
                view.into_iter().collect()
            })
            .await?
        }
        "schemata" => {
            let spaces = model.namespaces().into_iter();
            let row = |name: String| {
                Row(vec![
                    ("catalog_name", database(model)),
                    ("schema_name", name.into()),
                    ("schema_owner", model.user.as_str().into()),
                ])
            };
            spaces.map(|space| row(space.name)).collect()
        }
        "information_schema_catalog_name" => vec![Row(vec![("catalog_name", database(model))])],
        "enabled_roles" => vec![Row(vec![("role_name", model.user.as_str().into())])],
        "character_sets" => vec![Row(vec![
            ("character_set_name", "UTF8".into()),
            ("character_repertoire", "UCS".into()),
            ("form_of_use", "UTF8".into()),
            ("default_collate_catalog", database(model)),
            ("default_collate_schema", "pg_catalog".into()),
            ("default_collate_name", "C".into()),
        ])],
        _ => vec![],
    })
}

async fn each_relation(
    model: &Model,
    rows: impl Fn(&Relation, &Opened) -> Vec<Row>,
) -> Result<Vec<Row>> {
    let mut all = vec![];
    for relation in model.relations() {
        if let Some(opened) = model.open(&relation).await? {
            all.extend(rows(&relation, &opened));
        }
    }
    Ok(all)
}

fn database(model: &Model) -> Cell {
    model.shown.as_str().into()
}

fn yes_or_no(yes: bool) -> Cell {
    if yes { "YES" } else { "NO" }.into()
}

/// The columns that identify a relation.
fn named(model: &Model, relation: &Relation) -> Vec<(&'static str, Cell)> {
    vec![
        ("table_catalog", database(model)),
        ("table_schema", relation.namespace.name.as_str().into()),
        ("table_name", relation.name.as_str().into()),
    ]
}

fn table(model: &Model, relation: &Relation, opened: &Opened) -> Row {
    let kind = match (opened.is_view, opened.is_temporary) {
        (true, _) => "VIEW",
        (false, true) => "LOCAL TEMPORARY",
        (false, false) => "BASE TABLE",
    };
    let mut row = named(model, relation);
    row.extend([
        ("table_type", kind.into()),
        ("is_insertable_into", yes_or_no(!opened.is_view)),
        ("is_typed", "NO".into()),
    ]);
    Row(row)
}

fn view_row(model: &Model, relation: &Relation, opened: &Opened) -> Row {
    let mut row = named(model, relation);
    row.extend([
        ("view_definition", opened.definition.clone().into()),
        ("check_option", "NONE".into()),
        ("is_updatable", "NO".into()),
        ("is_insertable_into", "NO".into()),
        ("is_trigger_updatable", "NO".into()),
        ("is_trigger_deletable", "NO".into()),
        ("is_trigger_insertable_into", "NO".into()),
    ]);
    Row(row)
}

fn column(model: &Model, relation: &Relation, opened: &Opened, index: usize, field: &Field) -> Row {
    let position = i32::try_from(index + 1).unwrap_or(i32::MAX);
    let pg_type = pg_type(field);
    let mut row = named(model, relation);
    row.extend([
        ("column_name", field.name().as_str().into()),
        ("ordinal_position", position.into()),
        ("is_nullable", yes_or_no(!opened.is_not_null(index))),
        ("data_type", type_name(&pg_type).into()),
        ("udt_catalog", database(model)),
        ("udt_schema", "pg_catalog".into()),
        ("udt_name", pg_type.name().into()),
        ("dtd_identifier", position.to_string().into()),
        ("is_self_referencing", "NO".into()),
        ("is_identity", "NO".into()),
        ("identity_cycle", "NO".into()),
        ("is_generated", "NEVER".into()),
        ("is_updatable", yes_or_no(!opened.is_view)),
    ]);
    row.extend(sizes(&pg_type, modifier(field.data_type())));
    Row(row)
}

/// The precisions and lengths of a type with this modifier (`pg_attribute.atttypmod`).
fn sizes(pg_type: &Type, modifier: i32) -> Vec<(&'static str, Cell)> {
    let binary = |precision: i32| {
        vec![
            ("numeric_precision", precision.into()),
            ("numeric_precision_radix", 2.into()),
        ]
    };
    let exact = |precision: i32| {
        let mut sizes = binary(precision);
        sizes.push(("numeric_scale", 0.into()));
        sizes
    };
    match *pg_type {
        Type::INT2 => exact(16),
        Type::INT4 => exact(32),
        Type::INT8 => exact(64),
        Type::FLOAT4 => binary(24),
        Type::FLOAT8 => binary(53),
        Type::NUMERIC if modifier < 4 => vec![("numeric_precision_radix", 10.into())],
        Type::NUMERIC => vec![
            ("numeric_precision", ((modifier - 4) >> 16).into()),
            ("numeric_precision_radix", 10.into()),
            ("numeric_scale", ((modifier - 4) & 0xffff).into()),
        ],
        Type::TEXT | Type::VARCHAR | Type::BPCHAR => {
            vec![("character_octet_length", TEXT_OCTETS_MAX.into())]
        }
        Type::DATE => vec![("datetime_precision", 0.into())],
        Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL => {
            vec![("datetime_precision", MICROSECOND_DIGITS.into())]
        }
        _ => vec![],
    }
}

/// The standard's name of a type, as in `format_type`; arrays are `ARRAY`.
fn type_name(pg_type: &Type) -> &str {
    match *pg_type {
        Type::BOOL => "boolean",
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::FLOAT4 => "real",
        Type::FLOAT8 => "double precision",
        Type::VARCHAR => "character varying",
        Type::BPCHAR => "character",
        Type::CHAR => "\"char\"",
        Type::TIME => "time without time zone",
        Type::TIMESTAMP => "timestamp without time zone",
        Type::TIMESTAMPTZ => "timestamp with time zone",
        _ if element_of(pg_type).is_some() => "ARRAY",
        _ => pg_type.name(),
    }
}

/// PostgreSQL's value for text without a declared length.
const TEXT_OCTETS_MAX: i32 = 1 << 30;
const MICROSECOND_DIGITS: i32 = 6;
