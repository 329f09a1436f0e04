//! The types, casts, operators and functions in PostgreSQL's catalogs.
//!
//! `data/*.tsv` are `pg_type`, `pg_cast`, `pg_operator` and `pg_proc` of PostgreSQL 15, extracted
//! by `data/extract.sql`. Functions for internal use are left out.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The oid of a type, as in `pg_type.oid`.
pub type Oid = u32;

/// A type's columns of `pg_type`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypeFacts {
    pub(super) category: char,
    pub(super) preferred: bool,
    /// The type of its elements if it is an array, otherwise 0.
    pub(super) element: Oid,
    /// Its array type, or 0.
    pub(super) array: Oid,
}

/// The arguments and the result of an operator or a function.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub(super) arguments: Vec<Oid>,
    /// Whether the last argument stands for any number of its elements.
    pub(super) variadic: bool,
    /// The number of arguments at the end that may be omitted.
    pub(super) defaults: usize,
    pub(super) result: Oid,
}

pub(super) struct Catalog {
    types: HashMap<Oid, (&'static str, TypeFacts)>,
    casts: HashSet<(Oid, Oid)>,
    assignments: HashSet<(Oid, Oid)>,
    operators: HashMap<&'static str, Vec<Signature>>,
    functions: HashMap<&'static str, Vec<Signature>>,
    /// Set-returning functions, aggregates and window functions.
    of_rows: HashSet<&'static str>,
}

/// The catalogs, parsed at the first use.
pub(super) fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::read);
    &CATALOG
}

impl Catalog {
    pub(super) fn facts(&self, oid: Oid) -> Option<TypeFacts> {
        self.types.get(&oid).map(|(_, facts)| *facts)
    }

    pub(super) fn name(&self, oid: Oid) -> Option<&'static str> {
        self.types.get(&oid).map(|(name, _)| *name)
    }

    pub(super) fn has_type(&self, name: &str) -> bool {
        self.types.values().any(|(known, _)| *known == name)
    }

    /// Whether `pg_cast` has an implicit cast.
    pub(super) fn casts_implicitly(&self, from: Oid, to: Oid) -> bool {
        self.casts.contains(&(from, to))
    }

    /// Whether `pg_cast` has a cast for assignment.
    pub(super) fn casts_to_store(&self, from: Oid, to: Oid) -> bool {
        self.casts_implicitly(from, to) || self.assignments.contains(&(from, to))
    }

    /// The operators of a name. Prefix operators have one argument.
    pub(super) fn operators(&self, name: &str) -> &[Signature] {
        self.operators.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn functions(&self, name: &str) -> &[Signature] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a function returns one value per row.
    pub(super) fn is_scalar(&self, name: &str) -> bool {
        self.functions.contains_key(name) && !self.of_rows.contains(name)
    }

    fn read() -> Self {
        let mut types = HashMap::new();
        let mut oids = HashMap::new();
        for [oid, name, category, preferred, element, array] in
            lines(include_str!("data/types.tsv"))
        {
            let number = |text: &str| text.parse().unwrap_or_default();
            let facts = TypeFacts {
                category: category.chars().next().unwrap_or('X'),
                preferred: preferred == "t",
                element: if category == "A" || name == "_record" {
                    number(element)
                } else {
                    0
                },
                array: number(array),
            };
            types.insert(number(oid), (name, facts));
            oids.insert(name, number(oid));
        }
        let oid = |name: &str| oids.get(name).copied().unwrap_or_default();
        let (mut casts, mut assignments) = (HashSet::new(), HashSet::new());
        for [from, to, context] in lines(include_str!("data/casts.tsv")) {
            match context {
                "i" => casts.insert((oid(from), oid(to))),
                "a" => assignments.insert((oid(from), oid(to))),
                _ => continue,
            };
        }
        let mut operators: HashMap<_, Vec<_>> = HashMap::new();
        for [name, left, right, result] in lines(include_str!("data/operators.tsv")) {
            let arguments = [left, right].into_iter().filter(|name| *name != "-");
            operators.entry(name).or_default().push(Signature {
                arguments: arguments.map(oid).collect(),
                variadic: false,
                defaults: 0,
                result: oid(result),
            });
        }
        let mut functions: HashMap<_, Vec<_>> = HashMap::new();
        let mut of_rows = HashSet::new();
        for [name, variadic, defaults, arguments, result, kind] in
            lines(include_str!("data/functions.tsv"))
        {
            if kind != "f" {
                of_rows.insert(name);
            }
            functions.entry(name).or_default().push(Signature {
                arguments: arguments.split(',').map(oid).collect(),
                variadic: variadic == "v",
                defaults: defaults.parse().unwrap_or_default(),
                result: oid(result),
            });
        }
        Self {
            types,
            casts,
            assignments,
            operators,
            functions,
            of_rows,
        }
    }
}

/// The lines of a file with N columns. Other lines are skipped; a test counts the lines.
fn lines<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    text.lines().filter_map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        columns.try_into().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let catalog = Catalog::read();
        let count = |map: &HashMap<_, Vec<Signature>>| map.values().map(Vec::len).sum::<usize>();
        let lines = |text: &str| text.lines().count();
        assert_eq!(catalog.types.len(), lines(include_str!("data/types.tsv")));
        assert_eq!(
            count(&catalog.operators),
            lines(include_str!("data/operators.tsv"))
        );
        assert_eq!(
            count(&catalog.functions),
            lines(include_str!("data/functions.tsv"))
        );
        let casts = catalog.casts.len() + catalog.assignments.len();
        let explicit = include_str!("data/casts.tsv")
            .lines()
            .filter(|line| line.ends_with("\te"));
        assert_eq!(
            casts + explicit.count(),
            lines(include_str!("data/casts.tsv"))
        );
        for signature in catalog
            .functions
            .values()
            .chain(catalog.operators.values())
            .flatten()
        {
            assert!(!signature.arguments.contains(&0), "{signature:?}");
            assert!(signature.result != 0, "{signature:?}");
        }
    }
}
