//! How do the chunks of a table follow each other, by one of its columns?
//!
//! The rows of a table are in sequence if its files, and the row groups or chunks within them, can
//! be ordered so that no value is above a value of a later one. Equal values are then only in
//! neighbours. Statistics prove a sequence if bounds at most touch. A file that is declared to be
//! sorted is trusted about its own row groups if these have no bounds, and checked if they have.
//! Row groups that declare themselves sorted say nothing about each other.
//! Not here: whether the rows within a chunk are in order, which is known only when they are read
//! (`runs.rs`).
//! ORD-I1: a sequence that is found is true if the bounds and the declarations are.
//! Bounds: O(n log n) in files, O(n) in row groups or chunks.

use std::cmp::Ordering;

use arrow::compute::SortOptions;
use datafusion::common::ScalarValue;

use crate::read::prune::column_bounds::ColumnBounds;

/// The result of the search for a sequence.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// The units that have rows, in sequence, as (file, unit of the file).
    InOrder(Sequence),
    /// The units are not in sequence, or that is unknown.
    No,
    /// A file is not sorted as declared: this unit begins below the end of the previous one.
    False { file: usize, unit: usize },
}

/// Units of a table, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sequence {
    pub(super) units: Vec<(usize, usize)>,
    pub(super) options: SortOptions,
}

/// A declared order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) options: SortOptions,
    pub(super) of: DeclaredOf,
}

/// The rows that the declaration covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeclaredOf {
    /// The rows of each file, by `WITH ORDER`.
    Files,
    /// The rows of each row group, by its sorting columns.
    RowGroups,
}

/// The sequence of the units of these files: in the declared order, or in any order if none is
/// declared.
pub(super) fn sequence(files: &[Vec<ColumnBounds>], declared: Option<Declared>) -> Found {
    if let Some(Declared { options, of }) = declared {
        return in_order(files, options, Some(of));
    }
    let both = [false, true];
    let orders = both.iter().flat_map(|descending| {
        both.iter().map(|nulls_first| SortOptions {
            descending: *descending,
            nulls_first: *nulls_first,
        })
    });
    let mut found = orders.map(|options| in_order(files, options, None));
    found
        .find(|found| matches!(found, Found::InOrder(_)))
        .unwrap_or(Found::No)
}

fn in_order(
    files: &[Vec<ColumnBounds>],
    options: SortOptions,
    declared: Option<DeclaredOf>,
) -> Found {
    let Some(order) = in_place(files, options) else {
        return Found::No;
    };
    let mut walk = Walk {
        options,
        declared,
        is_one_file: order.len() == 1,
        units: Vec::new(),
        last: None,
        nulls_began: false,
    };
    for file in order {
        for (at, unit) in files[file].iter().enumerate() {
            if unit.rows > 0
                && let Err(found) = walk.pass(file, at, unit)
            {
                return found;
            }
        }
    }
    let units = walk.units;
    Found::InOrder(Sequence { units, options })
}

/// The files that have rows, each in its place; `None` if a place is unknown.
fn in_place(files: &[Vec<ColumnBounds>], options: SortOptions) -> Option<Vec<usize>> {
    let with_rows = |file: &usize| files[*file].iter().any(|unit| unit.rows > 0);
    let order: Vec<usize> = (0..files.len()).filter(with_rows).collect();
    if order.len() < 2 {
        return Some(order);
    }
    let mut places = Vec::with_capacity(order.len());
    for file in order {
        places.push((place_of(&files[file])?, file));
    }
    places.sort_by(|a, b| before(&a.0, &b.0, options));
    Some(places.into_iter().map(|(_, file)| file).collect())
}

/// A walk along the units that have rows, as long as they are in sequence.
struct Walk<'a> {
    options: SortOptions,
    declared: Option<DeclaredOf>,
    is_one_file: bool,
    /// The units that were passed.
    units: Vec<(usize, usize)>,
    /// The last unit with values, and its file.
    last: Option<(usize, &'a ColumnBounds)>,
    /// Whether a NULL has come.
    nulls_began: bool,
}

impl<'a> Walk<'a> {
    /// Passes a unit; an error ends the walk.
    fn pass(&mut self, file: usize, at: usize, unit: &'a ColumnBounds) -> Result<(), Found> {
        self.units.push((file, at));
        let same_file = self.last.is_some_and(|(known, _)| known == file);
        let is_cut = self.last.is_some_and(|(_, before)| {
            same_file && before.part_of.is_some() && before.part_of == unit.part_of
        });
        let believed = match self.declared {
            Some(DeclaredOf::Files) => same_file || self.last.is_none(),
            Some(DeclaredOf::RowGroups) => is_cut,
            None => false,
        };
        let broken = if self.declared == Some(DeclaredOf::Files) && same_file {
            Found::False { file, unit: at }
        } else {
            Found::No
        };
        match unit.nulls {
            // Each of several sorted files may have its own NULLs at its end.
            None if !believed || !self.is_one_file => return Err(Found::No),
            Some(nulls) if nulls > 0 || unit.is_all_null() => {
                let out_of_place = if self.options.nulls_first {
                    self.last.is_some()
                } else {
                    self.nulls_began && !unit.is_all_null()
                };
                if out_of_place {
                    return Err(broken);
                }
                self.nulls_began |= !self.options.nulls_first;
                if unit.is_all_null() {
                    return Ok(());
                }
            }
            Some(_) if self.nulls_began => return Err(broken),
            None if self.nulls_began && unit.values.is_some() => return Err(broken),
            _ => {}
        }
        match self.last.replace((file, unit)) {
            None if unit.values.is_none() && !believed => Err(Found::No),
            None => Ok(()),
            // The bounds of parts may overlap, because one page may serve two parts.
            Some(_) if believed && is_cut => Ok(()),
            Some((_, before)) => match follows(before, unit, self.options) {
                Some(true) => Ok(()),
                Some(false) if believed && is_rounded(before, unit, self.options) => Ok(()),
                Some(false) => Err(broken),
                None if believed => Ok(()),
                None => Err(Found::No),
            },
        }
    }
}

/// The bounds of a file; `None` if it contains only NULL.
type Place = Option<(ScalarValue, ScalarValue)>;

/// The place of a file among the others; `None` if it is unknown.
fn place_of(units: &[ColumnBounds]) -> Option<Place> {
    let mut place: Place = None;
    for unit in units.iter().filter(|unit| unit.rows > 0) {
        if unit.is_all_null() {
            continue;
        }
        let (low, high) = unit.values.clone()?;
        place = Some(match place {
            None => (low, high),
            Some(known) => (
                if known.0 <= low { known.0 } else { low },
                if known.1 >= high { known.1 } else { high },
            ),
        });
    }
    Some(place)
}

fn before(a: &Place, b: &Place, options: SortOptions) -> Ordering {
    let nulls = |null_first: bool| {
        if null_first {
            Ordering::Less
        } else {
            Ordering::Greater
        }
    };
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => nulls(options.nulls_first),
        (Some(_), None) => nulls(options.nulls_first).reverse(),
        (Some(a), Some(b)) => {
            let by = |a: &ScalarValue, b| a.partial_cmp(b).unwrap_or(Ordering::Equal);
            if options.descending {
                by(&b.1, &a.1).then(by(&b.0, &a.0))
            } else {
                by(&a.0, &b.0).then(by(&a.1, &b.1))
            }
        }
    }
}

/// Whether no value of `before` is above a value of `unit`; `None` if that is unknown.
fn follows(before: &ColumnBounds, unit: &ColumnBounds, options: SortOptions) -> Option<bool> {
    let (a, b) = (before.values.as_ref()?, unit.values.as_ref()?);
    let order = if options.descending {
        b.1.partial_cmp(&a.0)?
    } else {
        a.1.partial_cmp(&b.0)?
    };
    Some(order.is_le())
}

/// Whether overlapping bounds may belong to rows that do not overlap: writers truncate the bounds
/// of long texts.
fn is_rounded(before: &ColumnBounds, unit: &ColumnBounds, options: SortOptions) -> bool {
    let Some(((low, high), of_unit)) = before.values.as_ref().zip(unit.values.as_ref()) else {
        return false;
    };
    let is_below = if options.descending {
        of_unit.0 > *high
    } else {
        of_unit.1 < *low
    };
    low.data_type().is_string() && !is_below
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    fn unit(low: i64, high: i64) -> ColumnBounds {
        ColumnBounds {
            values: Some((ScalarValue::from(low), ScalarValue::from(high))),
            nulls: Some(0),
            rows: 10,
            part_of: None,
        }
    }

    fn with_nulls(unit: ColumnBounds, nulls: u64) -> ColumnBounds {
        ColumnBounds {
            nulls: Some(nulls),
            ..unit
        }
    }

    fn all_null() -> ColumnBounds {
        ColumnBounds {
            values: None,
            nulls: Some(10),
            rows: 10,
            part_of: None,
        }
    }

    fn unknown() -> ColumnBounds {
        ColumnBounds {
            nulls: None,
            ..all_null()
        }
    }

    fn order(files: &[Vec<ColumnBounds>]) -> Option<(Vec<(usize, usize)>, bool)> {
        match sequence(files, None) {
            Found::InOrder(found) => Some((found.units, found.options.descending)),
            Found::No => None,
            Found::False { .. } => panic!("nothing was declared"),
        }
    }

    const fn declared(of: DeclaredOf) -> Declared {
        let options = SortOptions {
            descending: false,
            nulls_first: false,
        };
        Declared { options, of }
    }

    const ASC: Option<Declared> = Some(declared(DeclaredOf::Files));
    const ROW_GROUPS_ASC: Option<Declared> = Some(declared(DeclaredOf::RowGroups));

    #[test]
    fn bounds_that_touch_are_in_sequence_and_those_that_overlap_are_not() {
        let touching = vec![vec![unit(1, 5), unit(5, 5), unit(5, 9)]];
        assert_eq!(
            order(&touching),
            Some((vec![(0, 0), (0, 1), (0, 2)], false))
        );
        assert_eq!(order(&[vec![unit(1, 6), unit(5, 9)]]), None);
        assert_eq!(
            order(&[vec![unit(6, 9), unit(2, 6)]]),
            Some((vec![(0, 0), (0, 1)], true))
        );
        assert_eq!(order(&[vec![unit(1, 2), unknown(), unit(5, 9)]]), None);
    }

    #[test]
    fn files_are_put_one_after_the_other() {
        let files = vec![
            vec![unit(5, 9)],
            vec![],
            vec![unit(1, 3), unit(3, 5)],
            vec![unit(5, 5)],
        ];
        let expected = vec![(2, 0), (2, 1), (3, 0), (0, 0)];
        assert_eq!(order(&files), Some((expected, false)));
        assert_eq!(order(&[vec![unit(1, 5)], vec![unit(2, 3)]]), None);
    }

    #[test]
    fn nulls_are_at_one_end() {
        let last = vec![vec![unit(1, 5), with_nulls(unit(5, 9), 3), all_null()]];
        assert!(order(&last).is_some());
        let first = vec![vec![all_null(), with_nulls(unit(1, 5), 3), unit(5, 9)]];
        assert!(order(&first).is_some());
        let between = vec![vec![unit(1, 5), with_nulls(unit(5, 9), 3), unit(9, 10)]];
        assert_eq!(order(&between), None);
        let both = vec![vec![with_nulls(unit(1, 5), 1), with_nulls(unit(5, 9), 3)]];
        assert_eq!(order(&both), None);
        let files = vec![vec![all_null()], vec![unit(1, 5)], vec![unit(5, 7)]];
        assert!(order(&files).is_some());
    }

    #[test]
    fn a_declaration_is_trusted_and_checked() {
        let silent = vec![vec![unknown(), unknown()]];
        assert!(matches!(sequence(&silent, ASC), Found::InOrder(_)));
        let wrong = vec![vec![unit(1, 5), unit(6, 9), unit(2, 5)]];
        assert_eq!(sequence(&wrong, ASC), Found::False { file: 0, unit: 2 });
        // Sorted files that overlap contradict no declaration.
        let files = vec![vec![unit(1, 5)], vec![unit(2, 6)]];
        assert_eq!(sequence(&files, ASC), Found::No);
        let silent = vec![vec![unknown()], vec![unit(2, 6)]];
        assert_eq!(sequence(&silent, ASC), Found::No);
        let cut = |low, high| ColumnBounds {
            part_of: Some(3),
            ..unit(low, high)
        };
        let parts = vec![vec![cut(1, 6), cut(5, 9)]];
        assert!(matches!(sequence(&parts, ASC), Found::InOrder(_)));
        assert!(matches!(
            sequence(&parts, ROW_GROUPS_ASC),
            Found::InOrder(_)
        ));
        assert_eq!(order(&parts), None);
    }

    #[test]
    fn sorted_row_groups_say_nothing_about_each_other() {
        let overlap = vec![vec![unit(1, 6), unit(5, 9)]];
        assert_eq!(sequence(&overlap, ROW_GROUPS_ASC), Found::No);
        let silent = vec![vec![unit(1, 6), unknown()]];
        assert_eq!(sequence(&silent, ROW_GROUPS_ASC), Found::No);
        let touching = vec![vec![unit(1, 5)], vec![unit(5, 9)]];
        assert!(matches!(
            sequence(&touching, ROW_GROUPS_ASC),
            Found::InOrder(_)
        ));
    }

    #[test]
    fn unknown_bounds_contradict_no_declaration() {
        // Nothing is known about the unit after the first NULL: its rows may all be NULL.
        let nulls = vec![vec![with_nulls(unit(1, 5), 3), unknown()]];
        assert!(matches!(sequence(&nulls, ASC), Found::InOrder(_)));
        let values = ColumnBounds {
            nulls: None,
            ..unit(6, 9)
        };
        let after = vec![vec![with_nulls(unit(1, 5), 3), values.clone()]];
        assert_eq!(
            sequence(&after, ASC),
            Found::False { file: 0, unit: 1 },
            "a value after a NULL"
        );
        // Each of two sorted files may end with NULL.
        let files = vec![vec![values], vec![unit(10, 12)]];
        assert_eq!(sequence(&files, ASC), Found::No);
        // The bounds of long texts are truncated: to their common prefix, and to the next greater
        // text.
        let text = |low: &str, high: &str| ColumnBounds {
            values: Some((ScalarValue::from(low), ScalarValue::from(high))),
            ..unit(0, 0)
        };
        let cut_short = vec![vec![text("aaa", "aab"), text("aaa", "aab")]];
        assert!(matches!(sequence(&cut_short, ASC), Found::InOrder(_)));
        assert_eq!(sequence(&cut_short, None), Found::No);
        let below = vec![vec![text("b", "c"), text("a", "ab")]];
        assert_eq!(sequence(&below, ASC), Found::False { file: 0, unit: 1 });
    }
}
