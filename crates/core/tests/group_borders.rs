//! Promised: in whatever order the chunks of a sorted table arrive, each group is given back once,
//! whole, and as soon as the known chunks prove it complete; descending keys are detected.

use std::collections::BTreeMap;

use coscan_core::group_borders::{BorderError, Borders, Edges};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// A part of a group: its key, and the number of its rows in the chunk.
type Part = (u8, u64);

/// The keys of each chunk's rows, ascending.
type Table = Vec<Vec<u8>>;

/// The groups that an ordered aggregation of one chunk has to keep, and those that it completes at
/// once.
fn worked_on(rows: &[u8]) -> (Edges<u8, Part>, Vec<Part>) {
    let mut runs: Vec<Part> = Vec::new();
    for row in rows {
        match runs.last_mut() {
            Some((key, count)) if key == row => *count += 1,
            _ => runs.push((*row, 1)),
        }
    }
    let of = |part: Part| (part.0, part);
    match runs.as_slice() {
        [] => (Edges::Empty, Vec::new()),
        [one] => (Edges::One(one.0, *one), Vec::new()),
        [first, between @ .., last] => {
            let (first, last) = (of(*first), of(*last));
            (Edges::Two { first, last }, between.to_vec())
        }
    }
}

/// The keys at borders of known chunks that may still grow, found by examining every chunk.
fn open_keys(table: &Table, known: &[bool]) -> Vec<u8> {
    let mut open = Vec::new();
    for (at, rows) in table.iter().enumerate() {
        let (Some(first), Some(last), true) = (rows.first(), rows.last(), known[at]) else {
            continue;
        };
        // Outwards from a border of the chunk: does an unknown chunk precede rows of another key?
        let mut behind = at + 1..table.len();
        let mut before = (0..at).rev();
        let grows = |key: u8, others: &mut dyn Iterator<Item = usize>| {
            for other in others {
                if !known[other] {
                    return true;
                }
                let rows = &table[other];
                match rows.first() {
                    None => {}
                    Some(_) if rows.iter().all(|row| *row == key) => {}
                    Some(_) => return false,
                }
            }
            false
        };
        if grows(*last, &mut behind) {
            open.push(*last);
        }
        if grows(*first, &mut before) {
            open.push(*first);
        }
    }
    open.sort_unstable();
    open.dedup();
    open
}

fn tables() -> impl Strategy<Value = (Table, Vec<usize>)> {
    let rows = prop_oneof![
        2 => Just(0..1usize),
        3 => Just(1..3usize),
        2 => Just(2..8usize),
    ];
    let sizes = prop::collection::vec(rows.prop_flat_map(|sizes| sizes), 0..12);
    let steps = prop::collection::vec(prop_oneof![4 => Just(0u8), 2 => Just(1u8)], 100);
    (sizes, steps).prop_flat_map(|(sizes, steps)| {
        let mut key = 0;
        let mut steps = steps.into_iter();
        let table: Table = sizes
            .into_iter()
            .map(|size| {
                let mut row = || {
                    key += steps.next().unwrap_or(1);
                    key
                };
                (0..size).map(|_| row()).collect()
            })
            .collect();
        let order: Vec<usize> = (0..table.len()).collect();
        (Just(table), Just(order).prop_shuffle())
    })
}

proptest! {
    #![proptest_config(Config { max_global_rejects: 1 << 16, ..Config::with_cases(4096) })]

    #[test]
    fn each_group_is_returned_once_as_soon_as_it_is_complete((table, order) in tables()) {
        let mut borders = Borders::new(table.len());
        let mut known = vec![false; table.len()];
        let mut counted: BTreeMap<u8, u64> = BTreeMap::new();
        for chunk in order {
            let (edges, between) = worked_on(&table[chunk]);
            let ready = borders.came(chunk, edges).expect("ascending");
            borders.check();
            known[chunk] = true;
            let groups = ready.into_iter().map(|parts| {
                let key = parts[0].0;
                assert!(parts.iter().all(|part| part.0 == key), "parts of one group");
                (key, parts.iter().map(|part| part.1).sum::<u64>())
            });
            for (key, rows) in groups.chain(between) {
                prop_assert!(counted.insert(key, rows).is_none(), "{key} came twice");
            }
            let open = open_keys(&table, &known);
            for (at, rows) in table.iter().enumerate().filter(|(at, _)| known[*at]) {
                for key in rows {
                    let passed_on = counted.contains_key(key);
                    prop_assert_eq!(
                        passed_on, !open.contains(key), "key {} of chunk {}", key, at
                    );
                }
            }
        }
        prop_assert!(borders.is_complete());
        prop_assert_eq!(borders.parts(), 0);
        let mut whole: BTreeMap<u8, u64> = BTreeMap::new();
        for row in table.iter().flatten() {
            *whole.entry(*row).or_default() += 1;
        }
        prop_assert_eq!(counted, whole);
    }

    #[test]
    fn keys_that_descend_between_chunks_are_found(
        (mut table, order) in tables(), at in any::<prop::sample::Index>()
    ) {
        let with_rows: Vec<usize> = (0..table.len()).filter(|at| !table[*at].is_empty()).collect();
        prop_assume!(with_rows.len() > 1);
        let wrong = with_rows[at.index(with_rows.len() - 1) + 1];
        // Below every key of the preceding chunk.
        for chunk in &mut table {
            for row in chunk {
                *row += 1;
            }
        }
        table[wrong] = vec![0];
        let mut borders = Borders::new(table.len());
        let mut found = None;
        for chunk in order {
            let (edges, _) = worked_on(&table[chunk]);
            if let Err(error) = borders.came(chunk, edges) {
                found = Some(error);
                break;
            }
        }
        let Some(BorderError::Descends { before, after }) = found else {
            panic!("found {found:?}");
        };
        prop_assert_eq!(after, wrong);
        prop_assert!(before < wrong);
    }
}

#[test]
fn a_chunk_comes_once() {
    let mut borders: Borders<u8, ()> = Borders::new(2);
    assert_eq!(
        borders.came(2, Edges::Empty),
        Err(BorderError::NotAwaited(2))
    );
    assert_eq!(borders.came(1, Edges::Empty), Ok(Vec::new()));
    assert_eq!(
        borders.came(1, Edges::One(0, ())),
        Err(BorderError::NotAwaited(1))
    );
    assert_eq!(borders.came(0, Edges::One(7, ())), Ok(vec![vec![()]]));
    assert!(borders.is_complete());
}

#[test]
fn a_table_without_chunks_is_complete_when_its_ends_meet() {
    let borders: Borders<u8, ()> = Borders::new(0);
    assert!(borders.is_complete());
}
