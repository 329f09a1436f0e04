//! From names to oids and back: `regclass` and similar types, `to_regclass`, `pg_get_userbyid`,
//! and whether an object is visible.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::scalar::ScalarValue;

use super::Take::{Bool, Number, NumberOrText, Text};
use super::format_type::Types;
use super::function::{Function, Give, Optional, Row, boolean, oid, oids_by_name, quoted, text};
use super::signatures::{Signature, signatures};
use super::{Known, Read, session};
use crate::catalog::model::{Model, PG_CATALOG, named};
use crate::catalog::rows::OWNER;
use crate::catalog::tables::Shipped;
use coscan_pg::dialect::{OidKind, TYPE_NAMES, elements};

/// The present names and oids of all objects.
#[derive(Clone)]
struct Names {
    model: Model,
    shipped: Arc<Shipped>,
    read: Arc<Read>,
}

pub(super) fn functions(known: &Known) -> Vec<Function> {
    let names = Names {
        model: known.model.clone(),
        shipped: Arc::clone(&known.shipped),
        read: Arc::clone(&known.read),
    };
    let mut functions = vec![];
    for kind in OidKind::ALL {
        let (one, other, third) = (names.clone(), names.clone(), names.clone());
        functions.push(Function::new(
            kind.oid_function(),
            &[NumberOrText],
            Give::Oid,
            move |row| match row.text(0) {
                Some(name) => one.required(kind, name, row).map(|found| oid(Some(found))),
                None => Ok(oid(row.oid(0))),
            },
        ));
        functions.push(Function::new(
            kind.name_function(),
            &[NumberOrText],
            Give::Text,
            move |row| {
                let found = match row.text(0) {
                    Some(name) => other.required(kind, name, row)?,
                    None => match row.oid(0) {
                        Some(found) => found,
                        None => return Ok(text(None::<String>)),
                    },
                };
                Ok(text(Some(other.name(kind, found, row))))
            },
        ));
        functions.push(Function::new(
            to_function(kind),
            &[Text],
            Give::Oid,
            move |row| {
                let found = row.text(0).and_then(|name| third.oid(kind, name, row));
                Ok(oid(found))
            },
        ));
    }
    functions.push(type_names(&names));
    functions.extend(shown(&names));
    functions.extend(visible(&names));
    functions
}

/// The names of the types in the text of an array, or of an `oidvector`, whose oids have blanks
/// between them.
fn type_names(names: &Names) -> Function {
    let names = names.clone();
    Function::new(TYPE_NAMES, &[Text], Give::Texts, move |row| {
        let Some(list) = row.text(0) else {
            return ScalarValue::try_from(&Give::Texts.data_type());
        };
        let given: Vec<Option<String>> = if list.starts_with('{') {
            elements(list).unwrap_or_default()
        } else {
            let oids = list.split_whitespace();
            oids.map(|oid| Some(oid.to_owned())).collect()
        };
        let shown = |element: Option<String>| -> Result<ScalarValue> {
            let found = element.map(|name| names.required(OidKind::Type, &name, row));
            let found = found.transpose()?;
            Ok(text(found.map(|oid| names.name(OidKind::Type, oid, row))))
        };
        let found = given.into_iter().map(shown);
        let found: Vec<ScalarValue> = found.collect::<Result<_>>()?;
        let found = ScalarValue::new_list(&found, &DataType::Utf8, true);
        Ok(ScalarValue::List(found))
    })
}

fn to_function(kind: OidKind) -> &'static str {
    match kind {
        OidKind::Class => "to_regclass",
        OidKind::Type => "to_regtype",
        OidKind::Namespace => "to_regnamespace",
        OidKind::Procedure => "to_regproc",
        OidKind::Signature => "to_regprocedure",
        OidKind::Role => "to_regrole",
    }
}

/// Functions that describe an object in text: signatures, types, role names, view definitions.
fn shown(names: &Names) -> Vec<Function> {
    let (by_id, types, views) = (names.clone(), names.clone(), names.clone());
    let of_function = |name, pick: fn(&Signature) -> &str| {
        let names = names.clone();
        Function::new(name, &[Number], Give::Text, move |row| {
            Ok(text(
                row.oid(0)
                    .and_then(|oid| names.signatures().get(&oid).map(pick)),
            ))
        })
    };
    vec![
        of_function("pg_get_function_result", |written| &written.result),
        of_function("pg_get_function_arguments", |written| &written.arguments),
        of_function("pg_get_function_identity_arguments", |written| {
            &written.identity
        }),
        Function::new("pg_get_userbyid", &[Number], Give::Text, move |row| {
            let name = row.oid(0).map(|oid| match oid {
                OWNER => by_id.model.user.clone(),
                other => format!("unknown (OID={other})"),
            });
            Ok(text(name))
        }),
        Function::new("format_type", &[Number, Number], Give::Text, move |row| {
            let modifier = row
                .number(1)
                .and_then(|m| i32::try_from(m).ok())
                .unwrap_or(-1);
            Ok(text(
                row.oid(0).map(|oid| types.types().format(oid, modifier)),
            ))
        }),
        Function::new(
            "pg_get_viewdef",
            &[NumberOrText, Bool],
            Give::Text,
            move |row| {
                let found = match row.text(0) {
                    Some(name) => views.oid(OidKind::Class, name, row),
                    None => row.oid(0),
                };
                let mut relations = row.relations(&views.model).iter();
                let view = found.and_then(|oid| relations.find(|r| r.oid == oid));
                Ok(text(view.and_then(|view| views.model.definition(view))))
            },
        )
        .optional(Optional::Last(1)),
    ]
}

/// Whether a name without a schema finds an object. All of PostgreSQL's own objects are in
/// `pg_catalog`.
fn visible(names: &Names) -> Vec<Function> {
    let names = names.clone();
    let table = Function::new("pg_table_is_visible", &[Number], Give::Bool, move |row| {
        let mut relations = row.relations(&names.model).iter();
        let found = row.oid(0).and_then(|oid| relations.find(|r| r.oid == oid));
        let path = session::search_path(row.options, true);
        Ok(boolean(found.map(|r| path.contains(&r.namespace.name))))
    });
    let always = |name| {
        Function::new(name, &[Number], Give::Bool, |row: &Row<'_>| {
            Ok(boolean(row.number(0).map(|_| true)))
        })
    };
    let others = [
        "pg_type_is_visible",
        "pg_function_is_visible",
        "pg_operator_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
        "pg_statistics_obj_is_visible",
    ];
    std::iter::once(table).chain(others.map(always)).collect()
}

impl Names {
    /// The signatures of all functions, made when the first session asks.
    fn signatures(&self) -> &HashMap<i32, Signature> {
        let shipped = &self.shipped;
        self.read
            .signatures
            .get_or_init(|| signatures(&shipped.procedures, &shipped.aggregates, self.types()))
    }

    fn types(&self) -> &Types {
        let read = || Types::new(&self.shipped.types);
        self.read.types.get_or_init(read)
    }

    /// The oids of all functions.
    fn procedures(&self) -> &HashMap<String, i32> {
        self.read.procedures.get_or_init(|| {
            oids_by_name(&self.shipped.procedures, "proname")
                .map(|(oid, name)| (name.to_owned(), oid))
                .collect()
        })
    }

    /// Normalizes `name(types)` to PostgreSQL's spelling of the types.
    fn signature(&self, text: &str) -> Option<String> {
        let (name, arguments) = text.trim().strip_suffix(')')?.split_once('(')?;
        let types = arguments.split(',').map(str::trim);
        let types = types
            .filter(|spelled| !spelled.is_empty())
            .map(|spelled| Some(self.types().format(self.types().oid(spelled)?, -1)));
        let types = types.collect::<Option<Vec<_>>>()?;
        Some(format!("{}({})", name.trim(), types.join(",")))
    }

    /// The oid, or PostgreSQL's error if there is no such object.
    fn required(&self, kind: OidKind, name: &str, row: &Row<'_>) -> Result<i32> {
        self.oid(kind, name, row).ok_or_else(|| {
            let what = match kind {
                OidKind::Class => "relation",
                OidKind::Type => "type",
                OidKind::Namespace => "schema",
                OidKind::Procedure | OidKind::Signature => "function",
                OidKind::Role => "role",
            };
            DataFusionError::Plan(format!("{what} \"{name}\" does not exist"))
        })
    }

    fn oid(&self, kind: OidKind, name: &str, row: &Row<'_>) -> Option<i32> {
        if let Ok(digits) = name.trim().parse() {
            return Some(digits);
        }
        if name == "-" {
            return Some(0);
        }
        let plain = |name: &str| {
            let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
            name.trim_matches('"').to_owned()
        };
        match kind {
            OidKind::Class => {
                let path = session::search_path(row.options, true);
                named(row.relations(&self.model), name, &path).map(|relation| relation.oid)
            }
            OidKind::Type => self.types().oid(&plain(name)),
            OidKind::Namespace => self
                .model
                .namespaces()
                .into_iter()
                .find(|space| space.name == name.trim_matches('"'))
                .map(|space| space.oid),
            OidKind::Signature if name.contains('(') => {
                let wanted = self.signature(&plain(name))?;
                let mut all = self.signatures().iter();
                all.find(|(_, written)| written.procedure == wanted)
                    .map(|(oid, _)| *oid)
            }
            OidKind::Procedure | OidKind::Signature => {
                let name = plain(name);
                let name = name.split('(').next().unwrap_or(&name);
                self.procedures().get(name).copied()
            }
            OidKind::Role => (name.trim_matches('"') == self.model.user).then_some(OWNER),
        }
    }

    /// The name as PostgreSQL shows it: with its schema if the object is not on the search path,
    /// and as a number if there is no such object.
    fn name(&self, kind: OidKind, oid: i32, row: &Row<'_>) -> String {
        if oid == 0 {
            return "-".to_owned();
        }
        let found = match kind {
            OidKind::Class => row
                .relations(&self.model)
                .iter()
                .find(|r| r.oid == oid)
                .map(|r| {
                    let path = session::search_path(row.options, true);
                    if path.contains(&r.namespace.name) || r.namespace.name == PG_CATALOG {
                        quoted(&r.name)
                    } else {
                        format!("{}.{}", quoted(&r.namespace.name), quoted(&r.name))
                    }
                }),
            OidKind::Type => Some(self.types().format(oid, -1)),
            OidKind::Namespace => {
                let spaces = self.model.namespaces().into_iter();
                spaces
                    .filter(|s| s.oid == oid)
                    .map(|s| quoted(&s.name))
                    .next()
            }
            OidKind::Procedure => self
                .procedures()
                .iter()
                .find(|(_, found)| **found == oid)
                .map(|(name, _)| name.clone()),
            OidKind::Signature => self
                .signatures()
                .get(&oid)
                .map(|written| written.procedure.clone()),
            OidKind::Role => (oid == OWNER).then(|| quoted(&self.model.user)),
        };
        found.unwrap_or_else(|| oid.to_string())
    }
}
