//! Which types do the arguments of an operator, a function or a CASE have if some are unknown?
//!
//! String literals and undeclared parameters have the type `unknown`. PostgreSQL selects among the
//! operators or functions of a name by the known arguments, and the selection determines the types
//! of the unknown ones. This is its algorithm, over its own catalogs (`catalog.rs`).
//! Source: PostgreSQL's manual, chapter 10 (Type Conversion); `parse_oper.c`, `parse_func.c`,
//! `parse_coerce.c`.

mod catalog;
mod polymorphic;

use catalog::{Signature, catalog};

pub use catalog::Oid;

/// The type of untyped values.
pub const UNKNOWN: Oid = 705;
const BOOL: Oid = 16;
const TEXT: Oid = 25;
/// Array types to which no other array is cast: `int2vector` and `oidvector`.
const VECTORS: [Oid; 2] = [22, 30];

/// The selected types of the arguments, and the result type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// A type for each given argument.
    pub arguments: Vec<Oid>,
    /// The result type; [`UNKNOWN`] if the arguments do not determine it.
    pub result: Oid,
}

/// The reason why nothing was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Nothing of this name accepts the arguments.
    None,
    /// Several fit equally well.
    Several,
    /// One fits, but all of its polymorphic arguments are untyped.
    Polymorphic,
}

/// A type's name in error messages; `???` for a type that PostgreSQL lacks.
#[must_use]
pub fn type_name(oid: Oid) -> &'static str {
    catalog().name(oid).unwrap_or("???")
}

/// The array type of a type, if there is one.
#[must_use]
pub fn array_of(oid: Oid) -> Option<Oid> {
    let facts = catalog().facts(oid)?;
    (facts.array != 0).then_some(facts.array)
}

/// The element type of an array type; `None` for other types.
#[must_use]
pub fn element_of(oid: Oid) -> Option<Oid> {
    let facts = catalog().facts(oid)?;
    (facts.element != 0).then_some(facts.element)
}

/// Whether a value of a type can be stored in a column (or parameter) of another without a cast.
#[must_use]
pub fn is_assignable(from: Oid, to: Oid) -> bool {
    if let Some((from, to)) = elements_of(from, to) {
        return is_assignable(from, to);
    }
    let from_category = catalog().facts(from).map(|facts| facts.category);
    let to_category = catalog().facts(to).map(|facts| facts.category);
    implicitly(from, to)
        || catalog().casts_to_store(from, to)
        // Any type can be stored as text, by its output function.
        || (to_category == Some('S') && from_category.is_some())
}

/// The binary operator that PostgreSQL selects for arguments of these types.
///
/// # Errors
/// [`Undecided`] if none fits, or several fit equally well.
pub fn binary(operator: &str, left: Oid, right: Oid) -> Result<Chosen, Undecided> {
    let all = catalog().operators(operator);
    // An unknown argument is first taken to have the other's type.
    let same = match (left, right) {
        (UNKNOWN, known) | (known, UNKNOWN) => (known, known),
        both => both,
    };
    if same.0 != UNKNOWN
        && let Some(exact) = all.iter().find(|found| found.arguments == [same.0, same.1])
    {
        return Ok(chosen(exact, &[left, right]));
    }
    choose(all, &[left, right])
}

/// The prefix operator that PostgreSQL selects for an argument of this type.
///
/// # Errors
/// See [`binary`].
pub fn unary(operator: &str, argument: Oid) -> Result<Chosen, Undecided> {
    choose(catalog().operators(operator), &[argument])
}

/// The function or aggregate that PostgreSQL selects for arguments of these types.
///
/// # Errors
/// See [`binary`].
pub fn function(name: &str, arguments: &[Oid]) -> Result<Chosen, Undecided> {
    choose(catalog().functions(name), arguments)
}

/// Whether PostgreSQL has a type of this name.
#[must_use]
pub fn is_type(name: &str) -> bool {
    catalog().has_type(name)
}

/// Whether PostgreSQL has a function of this name with arguments.
#[must_use]
pub fn is_function(name: &str) -> bool {
    !catalog().functions(name).is_empty()
}

/// Whether PostgreSQL has a function of this name with arguments that returns a single value.
#[must_use]
pub(crate) fn is_scalar(name: &str) -> bool {
    catalog().is_scalar(name)
}

/// The common type of the branches of CASE, COALESCE, UNION, VALUES or ARRAY: one of the branches'
/// types, to which the others can be cast. `None` if their categories differ.
#[must_use]
pub fn common(types: &[Oid]) -> Option<Oid> {
    let mut known = types.iter().copied().filter(|oid| *oid != UNKNOWN);
    let Some(mut best) = known.next() else {
        return Some(TEXT);
    };
    for next in known {
        if next == best {
            continue;
        }
        let (now, then) = (catalog().facts(best)?, catalog().facts(next)?);
        if now.category != then.category {
            return None;
        }
        if !now.preferred && implicitly(best, next) && !implicitly(next, best) {
            best = next;
        }
    }
    Some(best)
}

/// Whether an argument of type `from` is accepted for one of type `to`.
fn implicitly(from: Oid, to: Oid) -> bool {
    if from == to || from == UNKNOWN || polymorphic::takes(to, from) {
        return true;
    }
    if catalog().casts_implicitly(from, to) {
        return true;
    }
    elements_of(from, to).is_some_and(|(from, to)| catalog().casts_implicitly(from, to))
}

/// The element types of two arrays, if one is cast to the other element by element.
fn elements_of(from: Oid, to: Oid) -> Option<(Oid, Oid)> {
    let is_cast = !VECTORS.contains(&to);
    is_cast.then_some((element_of(from)?, element_of(to)?))
}

/// Selects among all signatures of a name.
fn choose(all: &[Signature], given: &[Oid]) -> Result<Chosen, Undecided> {
    let mut fitting: Vec<Signature> = all
        .iter()
        .filter_map(|signature| spread(signature, given.len()))
        .collect();
    // An exact match decides.
    if let Some(exact) = fitting.iter().find(|found| found.arguments == given) {
        return Ok(chosen(exact, given));
    }
    fitting.retain(|found| {
        found
            .arguments
            .iter()
            .zip(given)
            .all(|(to, from)| implicitly(*from, *to))
            && polymorphic::is_consistent(&found.arguments, given)
    });
    match select(fitting, given).as_slice() {
        [] => Err(Undecided::None),
        [one] if polymorphic::is_open(&one.arguments, given) => Err(Undecided::Polymorphic),
        [one] => Ok(chosen(one, given)),
        _ => Err(Undecided::Several),
    }
}

/// A signature expanded to the number of arguments; `None` if it does not accept that number.
fn spread(signature: &Signature, count: usize) -> Option<Signature> {
    let mut arguments = signature.arguments.clone();
    if signature.variadic && count >= arguments.len() {
        let last = arguments.pop()?;
        let element = element_of(last).unwrap_or_else(|| polymorphic::element(last));
        arguments.resize(count, element);
    } else if count < arguments.len() && count + signature.defaults >= arguments.len() {
        arguments.truncate(count);
    }
    (arguments.len() == count).then(|| Signature {
        arguments,
        ..signature.clone()
    })
}

fn chosen(signature: &Signature, given: &[Oid]) -> Chosen {
    polymorphic::filled(&signature.arguments, signature.result, given)
}

/// `func_select_candidate`: each step keeps the best candidates, if some are better than others.
fn select(mut fitting: Vec<Signature>, given: &[Oid]) -> Vec<Signature> {
    if fitting.len() < 2 {
        return fitting;
    }
    let facts = |oid: Oid| catalog().facts(oid);
    let category = |oid: Oid| facts(oid).map_or('X', |facts| facts.category);
    let is_preferred = |oid: Oid| facts(oid).is_some_and(|facts| facts.preferred);
    keep_best(&mut fitting, given, |to, from| to == from);
    if fitting.len() > 1 {
        keep_best(&mut fitting, given, |to, from| {
            to == from || (is_preferred(to) && category(to) == category(from))
        });
    }
    let unknown: Vec<usize> = (0..given.len()).filter(|i| given[*i] == UNKNOWN).collect();
    if fitting.len() < 2 || unknown.is_empty() {
        return fitting;
    }
    let slots: Option<Vec<(usize, char, bool)>> = unknown
        .iter()
        .map(|index| {
            let types = || fitting.iter().map(|found| found.arguments[*index]);
            let first = category(types().next()?);
            let of = if types().any(|oid| category(oid) == 'S') {
                'S'
            } else {
                first
            };
            let is_one = of == 'S' || types().all(|oid| category(oid) == of);
            let preferred = types().any(|oid| category(oid) == of && is_preferred(oid));
            is_one.then_some((*index, of, preferred))
        })
        .collect();
    if let Some(slots) = slots {
        let fits = |found: &Signature| {
            slots.iter().all(|(index, of, preferred)| {
                let oid = found.arguments[*index];
                category(oid) == *of && (!preferred || is_preferred(oid))
            })
        };
        if fitting.iter().any(fits) {
            fitting.retain(fits);
        }
    }
    // Assume that the unknown arguments have the type that all known ones share.
    let mut known = given.iter().copied().filter(|oid| *oid != UNKNOWN);
    if fitting.len() > 1
        && let Some(one) = known.next()
        && known.all(|oid| oid == one)
    {
        let all = vec![one; given.len()];
        let alike = |found: &Signature| {
            found.arguments.iter().all(|to| implicitly(one, *to))
                && polymorphic::is_consistent(&found.arguments, &all)
        };
        if fitting.iter().filter(|found| alike(found)).count() == 1 {
            fitting.retain(alike);
        }
    }
    fitting
}

/// Keeps the signatures for which the most known arguments satisfy `good`.
fn keep_best(fitting: &mut Vec<Signature>, given: &[Oid], good: impl Fn(Oid, Oid) -> bool) {
    let count = |found: &Signature| {
        let pairs = found.arguments.iter().zip(given);
        let pairs = pairs.filter(|(_, from)| **from != UNKNOWN);
        pairs.filter(|(to, from)| good(**to, **from)).count()
    };
    let best = fitting.iter().map(count).max().unwrap_or_default();
    if best > 0 {
        fitting.retain(|found| count(found) == best);
    }
}

/// The type of conditions.
#[must_use]
pub const fn condition() -> Oid {
    BOOL
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT4: Oid = 23;
    const INT8: Oid = 20;
    const FLOAT8: Oid = 701;
    const NUMERIC: Oid = 1700;
    const DATE: Oid = 1082;
    const TIMESTAMP: Oid = 1114;
    const TIMESTAMPTZ: Oid = 1184;
    const INTERVAL: Oid = 1186;
    const INT4_ARRAY: Oid = 1007;

    #[test]
    fn operators_give_unknown_arguments_their_types() {
        for (operator, left, right, expected) in [
            ("+", INT4, UNKNOWN, Ok([INT4, INT4])),
            ("=", UNKNOWN, UNKNOWN, Ok([TEXT, TEXT])),
            ("||", UNKNOWN, UNKNOWN, Ok([TEXT, TEXT])),
            ("+", DATE, UNKNOWN, Err(Undecided::Several)),
            ("-", DATE, UNKNOWN, Ok([DATE, DATE])),
            ("+", TIMESTAMP, UNKNOWN, Ok([TIMESTAMP, INTERVAL])),
            ("+", UNKNOWN, INTERVAL, Ok([INTERVAL, INTERVAL])),
            ("*", INTERVAL, UNKNOWN, Ok([INTERVAL, FLOAT8])),
            ("+", UNKNOWN, UNKNOWN, Err(Undecided::Several)),
            ("^", INT4, UNKNOWN, Ok([FLOAT8, FLOAT8])),
            ("+", INT8, FLOAT8, Ok([FLOAT8, FLOAT8])),
            ("<", 700, NUMERIC, Ok([700, FLOAT8])),
            ("+", INT4, TEXT, Err(Undecided::None)),
            ("=", INT4_ARRAY, UNKNOWN, Ok([INT4_ARRAY, INT4_ARRAY])),
            ("<", UNKNOWN, INT4_ARRAY, Ok([INT4_ARRAY, INT4_ARRAY])),
            ("||", INT4_ARRAY, UNKNOWN, Ok([INT4_ARRAY, INT4_ARRAY])),
            ("||", UNKNOWN, INT4_ARRAY, Ok([INT4_ARRAY, INT4_ARRAY])),
        ] {
            let found = binary(operator, left, right).map(|chosen| chosen.arguments);
            let expected = expected.map(|types| types.to_vec());
            assert_eq!(found, expected, "{left} {operator} {right}");
        }
    }

    #[test]
    fn functions_give_unknown_arguments_their_types() {
        for (name, given, expected) in [
            ("abs", vec![UNKNOWN], Ok(vec![FLOAT8])),
            ("upper", vec![UNKNOWN], Ok(vec![TEXT])),
            ("round", vec![UNKNOWN, INT4], Ok(vec![NUMERIC, INT4])),
            ("trunc", vec![UNKNOWN], Err(Undecided::Several)),
            (
                "date_trunc",
                vec![UNKNOWN, UNKNOWN],
                Err(Undecided::Several),
            ),
            ("sum", vec![UNKNOWN], Err(Undecided::Several)),
            ("min", vec![UNKNOWN], Ok(vec![TEXT])),
            ("mod", vec![UNKNOWN, INT4], Ok(vec![INT4, INT4])),
            ("power", vec![UNKNOWN, INT4], Ok(vec![FLOAT8, FLOAT8])),
            ("repeat", vec![UNKNOWN, UNKNOWN], Ok(vec![TEXT, INT4])),
            (
                "make_date",
                vec![UNKNOWN, INT4, INT4],
                Ok(vec![INT4, INT4, INT4]),
            ),
            ("array_append", vec![1007, UNKNOWN], Ok(vec![1007, INT4])),
            ("generate_series", vec![INT4, UNKNOWN], Ok(vec![INT4, INT4])),
            (
                "timezone",
                vec![UNKNOWN, UNKNOWN],
                Ok(vec![TEXT, TIMESTAMPTZ]),
            ),
            (
                "width_bucket",
                vec![UNKNOWN, INT4, INT4, INT4],
                Ok(vec![FLOAT8, FLOAT8, FLOAT8, INT4]),
            ),
        ] {
            let found = function(name, &given).map(|chosen| chosen.arguments);
            assert_eq!(found, expected, "{name} {given:?}");
        }
    }

    #[test]
    fn branches_have_a_common_type() {
        assert_eq!(common(&[UNKNOWN, UNKNOWN]), Some(TEXT));
        assert_eq!(common(&[INT4, UNKNOWN, NUMERIC]), Some(NUMERIC));
        assert_eq!(common(&[NUMERIC, FLOAT8, INT4]), Some(FLOAT8));
        assert_eq!(common(&[DATE, TIMESTAMP]), Some(TIMESTAMP));
        assert_eq!(common(&[DATE, INT4]), None);
    }
}
