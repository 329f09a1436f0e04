//! Promised: the pages of a table partition its rows, whatever columns are needed. Pages are read
//! as they were written, from the device or from a chunk in memory, whole or some of their rows. A
//! chunk in memory is not read from the device. A page that fails affects no other. Every request
//! is taken back, so that the table can be scanned and dropped afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod world;

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use coscan_core::smooth::PageLayout;
use coscan_core::{Policy, StorageModel};
use coscan_storage::PageMap;
use coscan_storage::device::{Device, Fault, Rule, When};
use coscan_storage::pool::{BufferPool, PageRequest, TableView};

use world::{Layout, ROWS, SUM, column, consume, pool, setup_as, start};

const COLUMNS: [&str; 3] = ["k", "v", "s"];

fn map(view: &TableView, columns: &[String]) -> PageMap {
    PageMap::new(view, |_| Some(columns), |_| 0)
}

fn names(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&name| name.to_owned()).collect()
}

/// Reads some pages and checks every value; returns whether they came from memory.
async fn read(
    pool: &BufferPool,
    view: &TableView,
    map: &PageMap,
    pages: std::ops::Range<u32>,
) -> Vec<bool> {
    let mut from_buffer = Vec::new();
    for run in map.runs(pages) {
        let pieces = map.pieces(&run, 1500);
        let request = PageRequest {
            chunk: run.chunk,
            pieces: pieces.iter().map(|piece| piece.piece.clone()).collect(),
            columns: names(&COLUMNS),
        };
        let read = pool.read_pages(view, &request).await.unwrap();
        for (at, piece) in pieces.iter().enumerate() {
            let first = piece.position as i64;
            let rows = piece.piece.rows.end - piece.piece.rows.start;
            let columns = COLUMNS.map(column);
            let all = read.decode(at, &columns, None).await.unwrap();
            let keys: Vec<i64> = (first..first + rows as i64).collect();
            assert_eq!(all[0].as_primitive::<Int64Type>().values().to_vec(), keys);
            let some = vec![0..1, 3..rows as usize / 2];
            let picked = read.decode(at, &columns, Some(some.clone())).await.unwrap();
            let wanted: Vec<i64> = some.into_iter().flatten().map(|row| keys[row]).collect();
            let texts = picked[2].as_string::<i32>();
            assert_eq!(picked[1].len(), wanted.len());
            for (at, key) in wanted.iter().enumerate() {
                assert_eq!(picked[1].as_primitive::<Int64Type>().value(at), 3 * key);
                assert_eq!(texts.value(at), format!("row {}", key % 100));
            }
        }
        from_buffer.push(read.from_buffer());
    }
    from_buffer
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_partition_the_rows_whatever_columns_are_needed() {
    for layout in [Layout::RowGroups, Layout::Pages] {
        let (setup, _) = setup_as(64 << 20, Vec::new(), layout).await;
        let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
        let view = pool.table(&setup.files).unwrap();
        for needed in [vec!["k"], vec!["v", "s"], COLUMNS.to_vec()] {
            let map = map(&view, &names(&needed));
            assert!(
                layout == Layout::RowGroups || map.len() > 60,
                "{}",
                map.len()
            );
            let mut next = 0;
            for number in 0..map.len() {
                let page = map.page(number);
                assert_eq!(page.position, next);
                next += page.rows();
                for position in [page.position, next - 1] {
                    assert_eq!(map.page_of(position), Some(number));
                }
            }
            assert_eq!((next, map.page_of(next)), (ROWS as u64, None));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_read_as_written_from_any_source() {
    for layout in [Layout::RowGroups, Layout::Pages] {
        for model in [StorageModel::Dsm, StorageModel::Nsm] {
            let (setup, device) = setup_as(64 << 20, Vec::new(), layout).await;
            let pool = pool(&setup, Policy::Relevance, model, None);
            let view = pool.table(&setup.files).unwrap();
            let map = map(&view, &names(&COLUMNS));
            let cold = read(&pool, &view, &map, 0..map.len()).await;
            assert!(cold.iter().all(|from_buffer| !from_buffer));
            let all: Vec<usize> = (0..view.chunks().len()).collect();
            let scan = start(&pool, &view, all, &COLUMNS, 1);
            assert_eq!(
                consume(scan, Duration::ZERO).await.unwrap(),
                (SUM, ROWS as u64)
            );
            let before = device.meter().snapshot().requests;
            let warm = read(&pool, &view, &map, 0..map.len()).await;
            assert!(warm.iter().all(|from_buffer| *from_buffer), "{warm:?}");
            assert_eq!(device.meter().snapshot().requests, before);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_fails_affects_no_other() {
    let (setup, device) = setup_as(64 << 20, Vec::new(), Layout::Pages).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let map = map(&view, &names(&COLUMNS));
    device.add(Rule {
        when: When::Always,
        fault: Fault::Error(std::io::ErrorKind::Other),
        times: 1,
    });
    let run = map.runs(5..6).next().unwrap();
    let request = PageRequest {
        chunk: run.chunk,
        pieces: vec![map.page(5).piece.clone()],
        columns: names(&COLUMNS),
    };
    pool.read_pages(&view, &request).await.unwrap_err();
    read(&pool, &view, &map, 0..map.len()).await;
    let all: Vec<usize> = (0..view.chunks().len()).collect();
    let scan = start(&pool, &view, all, &["v"], 1);
    assert_eq!(
        consume(scan, Duration::ZERO).await.unwrap(),
        (SUM, ROWS as u64)
    );
}
