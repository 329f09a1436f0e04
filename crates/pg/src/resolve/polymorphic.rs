//! Resolves `anyelement`, `anyarray` and other polymorphic types in a call.

use super::catalog::{Oid, catalog};
use super::{Chosen, UNKNOWN, array_of, common, element_of};

const ANY: Oid = 2276;
const ANY_ARRAY: Oid = 2277;
const ANY_ELEMENT: Oid = 2283;
const ANY_NONARRAY: Oid = 2776;
const ANY_ENUM: Oid = 3500;
const ANY_RANGE: Oid = 3831;
const ANY_MULTIRANGE: Oid = 4537;
const ANY_COMPATIBLE: Oid = 5077;
const ANY_COMPATIBLE_ARRAY: Oid = 5078;
const ANY_COMPATIBLE_NONARRAY: Oid = 5079;
const ANY_COMPATIBLE_RANGE: Oid = 5080;

/// Whether a polymorphic type accepts a known type.
pub(super) fn takes(polymorphic: Oid, given: Oid) -> bool {
    let category = catalog().facts(given).map_or('X', |facts| facts.category);
    match polymorphic {
        ANY | ANY_ELEMENT | ANY_COMPATIBLE => true,
        ANY_ARRAY | ANY_COMPATIBLE_ARRAY => element_of(given).is_some(),
        ANY_NONARRAY | ANY_COMPATIBLE_NONARRAY => element_of(given).is_none(),
        ANY_ENUM => category == 'E',
        ANY_RANGE | ANY_MULTIRANGE | ANY_COMPATIBLE_RANGE => category == 'R',
        _ => false,
    }
}

/// The element type of a polymorphic array.
pub(super) fn element(polymorphic: Oid) -> Oid {
    match polymorphic {
        ANY_ARRAY => ANY_ELEMENT,
        ANY_COMPATIBLE_ARRAY => ANY_COMPATIBLE,
        other => other,
    }
}

/// Whether all arguments agree on the actual types of polymorphic ones.
pub(super) fn is_consistent(arguments: &[Oid], given: &[Oid]) -> bool {
    let same = elements(arguments, given, false);
    same.windows(2).all(|pair| pair[0] == pair[1])
        && common(&elements(arguments, given, true)).is_some()
}

/// Whether there are polymorphic arguments of the family that needs a type, and all are untyped.
pub(super) fn is_open(arguments: &[Oid], given: &[Oid]) -> bool {
    let needs =
        |argument: &Oid| matches!(*argument, ANY_ELEMENT | ANY_NONARRAY | ANY_ENUM | ANY_ARRAY);
    arguments.iter().any(needs) && elements(arguments, given, false).is_empty()
}

/// The known types for one family of polymorphic arguments, as element types.
fn elements(arguments: &[Oid], given: &[Oid], compatible: bool) -> Vec<Oid> {
    let pairs = arguments.iter().zip(given);
    let known = pairs.filter(|(_, given)| **given != UNKNOWN);
    known
        .filter_map(|(argument, given)| match *argument {
            ANY_ELEMENT | ANY_NONARRAY | ANY_ENUM if !compatible => Some(*given),
            ANY_ARRAY if !compatible => element_of(*given),
            ANY_COMPATIBLE | ANY_COMPATIBLE_NONARRAY if compatible => Some(*given),
            ANY_COMPATIBLE_ARRAY if compatible => element_of(*given),
            _ => None,
        })
        .collect()
}

/// The types of a selection, with polymorphic ones replaced.
pub(super) fn filled(arguments: &[Oid], result: Oid, given: &[Oid]) -> Chosen {
    let same = elements(arguments, given, false).first().copied();
    // Text, if all are untyped.
    let alike = common(&elements(arguments, given, true));
    let array = |element: Option<Oid>| element.and_then(array_of).unwrap_or(UNKNOWN);
    let fill = |argument: Oid, given: Option<Oid>| match argument {
        ANY_ELEMENT | ANY_NONARRAY | ANY_ENUM => same.unwrap_or(UNKNOWN),
        ANY_ARRAY => array(same),
        ANY_COMPATIBLE | ANY_COMPATIBLE_NONARRAY => alike.unwrap_or(UNKNOWN),
        ANY_COMPATIBLE_ARRAY => array(alike),
        ANY | ANY_RANGE | ANY_MULTIRANGE | ANY_COMPATIBLE_RANGE => given.unwrap_or(UNKNOWN),
        fixed => fixed,
    };
    let pairs = arguments.iter().zip(given);
    Chosen {
        arguments: pairs
            .map(|(argument, given)| fill(*argument, Some(*given)))
            .collect(),
        result: fill(result, None),
    }
}
