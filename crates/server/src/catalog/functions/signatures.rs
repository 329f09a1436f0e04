//! How does PostgreSQL print a function's arguments and result? `pg_get_function_arguments` and
//! similar functions, which psql's `\df` uses.
//!
//! The texts for all of `pg_proc`, three thousand short ones, are made when the first session
//! asks. The rules are those of PostgreSQL's `print_function_arguments` (`ruleutils.c`).
//! Not here: the text after DEFAULT (`defaults.rs`).

use std::collections::HashMap;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, PrimitiveArray, StringArray};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, Int16Type, Int32Type};
use datafusion::arrow::record_batch::RecordBatch;

use super::defaults::{self, Default};
use super::format_type::Types;
use super::function::quoted;

/// A function's texts.
#[derive(Debug)]
pub(super) struct Signature {
    /// The arguments with names, modes and defaults.
    pub(super) arguments: String,
    /// The arguments without defaults, which distinguish functions of the same name.
    pub(super) identity: String,
    pub(super) result: String,
    /// `regprocedure`: the name and the types of the input arguments.
    pub(super) procedure: String,
}

/// All functions of `pg_proc`, by oid.
pub(super) fn signatures(
    procedures: &RecordBatch,
    aggregates: &RecordBatch,
    types: &Types,
) -> HashMap<i32, Signature> {
    let columns = Columns::of(procedures);
    let ordered = ordered_sets(aggregates);
    columns.map_or_else(HashMap::new, |columns| {
        (0..procedures.num_rows())
            .map(|row| {
                (
                    columns.oid.value(row),
                    columns.signature(row, &ordered, types),
                )
            })
            .collect()
    })
}

/// The columns of `pg_proc` that signatures are made of.
struct Columns<'a> {
    oid: &'a PrimitiveArray<Int32Type>,
    name: &'a StringArray,
    kind: &'a StringArray,
    result: &'a PrimitiveArray<Int32Type>,
    returns_set: &'a BooleanArray,
    inputs: &'a StringArray,
    input_count: &'a PrimitiveArray<Int16Type>,
    all: &'a StringArray,
    modes: &'a StringArray,
    names: &'a StringArray,
    defaults: &'a StringArray,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        fn numbers<'a, T: ArrowPrimitiveType>(
            batch: &'a RecordBatch,
            name: &str,
        ) -> Option<&'a PrimitiveArray<T>> {
            batch.column_by_name(name)?.as_primitive_opt::<T>()
        }
        let texts = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
        Some(Self {
            oid: numbers(batch, "oid")?,
            name: texts("proname")?,
            kind: texts("prokind")?,
            result: numbers(batch, "prorettype")?,
            returns_set: batch.column_by_name("proretset")?.as_boolean_opt()?,
            inputs: texts("proargtypes")?,
            input_count: numbers(batch, "pronargs")?,
            all: texts("proallargtypes")?,
            modes: texts("proargmodes")?,
            names: texts("proargnames")?,
            defaults: texts("proargdefaults")?,
        })
    }

    fn signature(&self, row: usize, ordered: &HashMap<&str, usize>, types: &Types) -> Signature {
        let inputs = words(self.inputs.value(row));
        let texts = |array: &'a StringArray| array.is_valid(row).then(|| words(array.value(row)));
        let modes = texts(self.modes).unwrap_or_default();
        let names = texts(self.names).unwrap_or_default();
        let defaults = texts_of(self.defaults, row).map_or_else(Vec::new, defaults::read);
        let arguments = texts(self.all).unwrap_or_else(|| inputs.clone());
        let count = usize::try_from(self.input_count.value(row)).unwrap_or_default();
        let name = self.name.value(row);
        let order_at = ordered
            .get(name)
            .filter(|_| self.kind.value(row) == "a")
            .copied();
        let written = Arguments {
            types: arguments.iter().map(|oid| format(types, oid)).collect(),
            modes: &modes,
            names: &names,
            first_default: count.saturating_sub(defaults.len()),
            defaults: &defaults,
            order_at,
        };
        let set = if self.returns_set.value(row) {
            "SETOF "
        } else {
            ""
        };
        let inputs: Vec<_> = inputs.iter().map(|oid| format(types, oid)).collect();
        Signature {
            arguments: written.write(true),
            identity: written.write(false),
            result: format!("{set}{}", types.format(self.result.value(row), -1)),
            procedure: format!("{}({})", quoted(name), inputs.join(",")),
        }
    }
}

/// One function's arguments.
struct Arguments<'a> {
    types: Vec<String>,
    /// If empty, all arguments are inputs.
    modes: &'a [&'a str],
    names: &'a [&'a str],
    /// The index, among the inputs, of the first one with a default.
    first_default: usize,
    defaults: &'a [Default],
    /// For an aggregate over an ordered set: how many arguments precede ORDER BY.
    order_at: Option<usize>,
}

impl Arguments<'_> {
    fn write(&self, with_defaults: bool) -> String {
        let (mut out, mut printed, mut inputs) = (String::new(), 0_usize, 0_usize);
        let mut put = |at: usize, with_defaults: bool| {
            let mode = self.modes.get(at).copied().unwrap_or("i");
            let goes_in = matches!(mode, "i" | "b" | "v");
            if self.order_at == Some(printed) {
                out.push_str(if printed > 0 {
                    " ORDER BY "
                } else {
                    "ORDER BY "
                });
            } else if printed > 0 {
                out.push_str(", ");
            }
            out.push_str(match mode {
                "b" => "INOUT ",
                "o" => "OUT ",
                "v" => "VARIADIC ",
                _ => "",
            });
            if let Some(name) = self.names.get(at).filter(|name| !name.is_empty()) {
                if KEYWORDS.contains(name) {
                    out.extend(["\"", name, "\" "]);
                } else {
                    out.extend([quoted(name).as_str(), " "]);
                }
            }
            out.push_str(&self.types[at]);
            if let Some(default) = inputs
                .checked_sub(self.first_default)
                .and_then(|default| self.defaults.get(default))
                .filter(|_| goes_in && with_defaults)
            {
                out.push_str(" DEFAULT ");
                out.push_str(default);
            }
            inputs += usize::from(goes_in);
            printed += 1;
            printed
        };
        let last = self.types.len().checked_sub(1);
        for at in 0..self.types.len() {
            let printed = put(at, with_defaults);
            // A VARIADIC argument that is both the last direct and the ordered one appears twice.
            if self.order_at == Some(printed) && last == Some(at) {
                put(at, false);
            }
        }
        out
    }
}

/// The argument names in `pg_proc` that are keywords and need quotes.
const KEYWORDS: &[&str] = &["timestamp", "values"];

/// The aggregates over ordered sets, with the number of direct arguments of each. The shipped
/// `pg_aggregate` has names in place of oids; no name is both such an aggregate and another kind
/// of aggregate.
fn ordered_sets(aggregates: &RecordBatch) -> HashMap<&str, usize> {
    let texts = |name: &str| aggregates.column_by_name(name)?.as_string_opt::<i32>();
    let direct = aggregates
        .column_by_name("aggnumdirectargs")
        .and_then(|column| column.as_primitive_opt::<Int16Type>());
    let (Some(names), Some(kinds), Some(direct)) = (texts("aggfnoid"), texts("aggkind"), direct)
    else {
        return HashMap::new();
    };
    (0..aggregates.num_rows())
        .filter(|row| matches!(kinds.value(*row), "o" | "h"))
        .map(|row| {
            let name = names.value(row);
            let direct = usize::try_from(direct.value(row)).unwrap_or_default();
            (name.strip_prefix("pg_catalog.").unwrap_or(name), direct)
        })
        .collect()
}

fn texts_of(array: &StringArray, row: usize) -> Option<&str> {
    array.is_valid(row).then(|| array.value(row))
}

/// The elements of a list in any of its shipped forms: `25 23`, `[25, 23]` or `['i', 'o']`.
fn words(list: &str) -> Vec<&str> {
    let list = list.trim_matches(['[', ']']);
    if list.is_empty() {
        return vec![];
    }
    let between: &[char] = if list.contains(',') { &[','] } else { &[' '] };
    // An empty word is an argument without a name.
    let all = list.split(between);
    all.map(|word| word.trim().trim_matches('\'')).collect()
}

fn format(types: &Types, oid: &str) -> String {
    oid.parse()
        .map_or_else(|_| "???".to_owned(), |oid| types.format(oid, -1))
}
