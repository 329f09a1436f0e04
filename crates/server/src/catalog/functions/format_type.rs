//! How does PostgreSQL print a type, and which type does a name mean?

use std::collections::HashMap;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int32Type;
use datafusion::arrow::record_batch::RecordBatch;

use super::function::oids_by_name;

/// The types of `pg_type`.
pub(super) struct Types {
    names: HashMap<i32, String>,
    /// The element type of each array type.
    elements: HashMap<i32, i32>,
    oids: HashMap<String, i32>,
    arrays: HashMap<i32, i32>,
}

impl Types {
    pub(super) fn new(types: &RecordBatch) -> Self {
        let numbers = |name: &str| {
            types
                .column_by_name(name)
                .and_then(|column| column.as_primitive_opt::<Int32Type>())
                .map(|column| column.values().to_vec())
                .unwrap_or_default()
        };
        let names: HashMap<i32, String> = oids_by_name(types, "typname")
            .map(|(oid, name)| (oid, name.to_owned()))
            .collect();
        let arrays: HashMap<i32, i32> = numbers("oid")
            .into_iter()
            .zip(numbers("typarray"))
            .collect();
        let elements = arrays
            .iter()
            .filter(|(_, array)| **array != 0)
            .map(|(element, array)| (*array, *element))
            .collect();
        let oids = names
            .iter()
            .map(|(oid, name)| (name.clone(), *oid))
            .collect();
        Self {
            names,
            elements,
            oids,
            arrays,
        }
    }

    /// The type of this name, in PostgreSQL's spelling or the standard's.
    pub(super) fn oid(&self, name: &str) -> Option<i32> {
        let name = name.trim();
        if let Some(element) = name.strip_suffix("[]") {
            return self.arrays.get(&self.oid(element)?).copied();
        }
        // A precision does not change the type.
        let (word, rest) = match name.split_once('(') {
            Some((word, rest)) => (word, rest.split_once(')').map_or("", |(_, rest)| rest)),
            None => (name, ""),
        };
        let word = format!("{}{rest}", word.trim()).to_lowercase();
        let standard = STANDARD.iter().find(|(_, name)| **name == word);
        let alias = ALIASES.iter().find(|(alias, _)| **alias == word);
        standard
            .map(|(oid, _)| *oid)
            .or(alias.map(|(_, oid)| *oid))
            .or_else(|| self.oids.get(&word).copied())
    }

    /// `format_type`: the standard's name, with the length or precision from the modifier.
    pub(super) fn format(&self, oid: i32, modifier: i32) -> String {
        if oid == 0 {
            return "-".to_owned();
        }
        if let Some(element) = self.elements.get(&oid) {
            return format!("{}[]", self.format(*element, modifier));
        }
        let name = match STANDARD.iter().find(|(found, _)| *found == oid) {
            Some((_, name)) => *name,
            None => match self.names.get(&oid) {
                Some(name) => name.as_str(),
                None => return "???".to_owned(),
            },
        };
        if modifier < 0 {
            return name.to_owned();
        }
        match oid {
            NUMERIC if modifier >= 4 => {
                let (precision, scale) = ((modifier - 4) >> 16, (modifier - 4) & 0x7ff);
                format!("{name}({precision},{scale})")
            }
            BPCHAR | VARCHAR if modifier >= 4 => format!("{name}({})", modifier - 4),
            TIME | TIMESTAMP => format!("{}({modifier}) without time zone", word(name)),
            TIMETZ | TIMESTAMPTZ => format!("{}({modifier}) with time zone", word(name)),
            BIT | VARBIT => format!("{name}({modifier})"),
            _ => name.to_owned(),
        }
    }
}

fn word(name: &str) -> &str {
    name.split(' ').next().unwrap_or(name)
}

const BPCHAR: i32 = 1042;
const VARCHAR: i32 = 1043;
const TIME: i32 = 1083;
const TIMESTAMP: i32 = 1114;
const TIMESTAMPTZ: i32 = 1184;
const TIMETZ: i32 = 1266;
const BIT: i32 = 1560;
const VARBIT: i32 = 1562;
const NUMERIC: i32 = 1700;

/// Types whose standard name differs from their name in `pg_type`.
const STANDARD: &[(i32, &str)] = &[
    (16, "boolean"),
    (18, "\"char\""),
    (20, "bigint"),
    (21, "smallint"),
    (23, "integer"),
    (700, "real"),
    (701, "double precision"),
    (BPCHAR, "character"),
    (VARCHAR, "character varying"),
    (TIME, "time without time zone"),
    (TIMESTAMP, "timestamp without time zone"),
    (TIMESTAMPTZ, "timestamp with time zone"),
    (TIMETZ, "time with time zone"),
    (BIT, "bit"),
    (VARBIT, "bit varying"),
    // Quoted, because it is a keyword.
    (2276, "\"any\""),
];

/// More names of types.
const ALIASES: &[(&str, i32)] = &[
    ("int", 23),
    ("char", BPCHAR),
    ("decimal", NUMERIC),
    ("dec", NUMERIC),
    ("float", 701),
    ("time", TIME),
    ("timestamp", TIMESTAMP),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn types() -> Types {
        Types {
            names: [
                (25, "text"),
                (1700, "numeric"),
                (1007, "_int4"),
                (23, "int4"),
            ]
            .map(|(oid, name)| (oid, name.to_owned()))
            .into(),
            elements: [(1007, 23)].into(),
            oids: [("text".to_owned(), 25), ("_int4".to_owned(), 1007)].into(),
            arrays: [(23, 1007)].into(),
        }
    }

    #[test]
    fn types_print_as_in_postgres() {
        for (oid, modifier, text) in [
            (23, -1, "integer"),
            (1007, -1, "integer[]"),
            (1700, ((12 << 16) | 2) + 4, "numeric(12,2)"),
            (1114, 3, "timestamp(3) without time zone"),
            (1043, 14, "character varying(10)"),
            (25, -1, "text"),
            (9999, -1, "???"),
            (0, -1, "-"),
        ] {
            assert_eq!(types().format(oid, modifier), text);
        }
    }

    #[test]
    fn names_mean_types() {
        for (name, oid) in [
            ("int", Some(23)),
            ("Integer", Some(23)),
            ("int[]", Some(1007)),
            ("_int4", Some(1007)),
            ("character varying(10)", Some(1043)),
            ("timestamp(3) with time zone", Some(1184)),
            ("numeric(12,2)", None),
            ("nothing", None),
        ] {
            assert_eq!(types().oid(name), oid, "{name}");
        }
    }
}
