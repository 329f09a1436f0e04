//! Promised: a lease gives single rows of its chunk, equal to those of whole batches, and decodes
//! little for them. It does not pick from a column that another scan needs or that is decoded
//! already, because whole batches then cost no more; nor does it pick without limit. A lease gives
//! any batch at any time, even if all readers of the column have passed it.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod world;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use coscan_core::{Policy, StorageModel};
use coscan_storage::pool::{ChunkLease, Scan};

use world::{Layout, column, pool, setup_as, start};

const FEW: [Range<usize>; 3] = [0..1, 1000..1003, 2999..3000];

/// The next chunk, in batches so small that a few rows touch only a few batches.
async fn next(scan: &Arc<Scan>) -> Option<ChunkLease> {
    let mut lease = scan.next_chunk().await.unwrap()?;
    lease.set_batch_rows(100);
    Some(lease)
}

async fn picks(lease: &ChunkLease, name: &str) -> bool {
    let picked = lease.pick(&[column(name)], &FEW).await.unwrap();
    picked.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn picked_rows_are_those_of_the_batches() {
    for layout in [Layout::RowGroups, Layout::Pages] {
        for model in [StorageModel::Dsm, StorageModel::Nsm] {
            let (setup, _) = setup_as(64 << 20, Vec::new(), layout).await;
            let pool = pool(&setup, Policy::Relevance, model, None);
            let view = pool.table(&setup.files).unwrap();
            let all: Vec<usize> = (0..view.chunks().len()).collect();
            let scan = start(&pool, &view, all, &["k", "v", "s"], 1);
            let (columns, mut count) = ([column("v"), column("s"), column("absent")], 0);
            while let Some(lease) = next(&scan).await {
                let keys = lease.batch(&[column("k")], 0).await.unwrap().unwrap();
                let first = keys[0].as_primitive::<Int64Type>().value(0);
                let mut wanted = FEW.to_vec();
                wanted.retain(|rows| rows.end as u64 <= lease.info().rows());
                let picked = lease.pick(&columns, &wanted).await.unwrap().unwrap();
                let rows: Vec<usize> = wanted.into_iter().flatten().collect();
                for (at, row) in rows.iter().enumerate() {
                    let key = first + *row as i64;
                    assert_eq!(picked[0].as_primitive::<Int64Type>().value(at), 3 * key);
                    let text = picked[1].as_string::<i32>().value(at);
                    assert_eq!(text, format!("row {}", key % 100));
                }
                assert!(picked.iter().all(|column| column.len() == rows.len()));
                assert_eq!(picked[2].null_count(), rows.len());
                count += rows.len() as u64;
            }
            assert!(count > 50);
            assert_eq!(scan.metrics().rows_picked, count);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn little_is_decoded_for_few_rows() {
    let (setup, _) = setup_as(64 << 20, Vec::new(), Layout::RowGroups).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, vec![0], &["v"], 1);
    let lease = next(&scan).await.unwrap();
    lease.pick(&[column("v")], &FEW).await.unwrap().unwrap();
    let few = setup.shared.decoded_bytes_total();
    for batch in 0..lease.batches().len() {
        lease.batch(&[column("v")], batch).await.unwrap().unwrap();
    }
    let whole = setup.shared.decoded_bytes_total() - few;
    assert!(few > 0 && few * 20 < whole, "{few} of {whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_picked_from_shared_columns() {
    let (setup, _) = setup_as(64 << 20, Vec::new(), Layout::RowGroups).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, vec![0, 1], &["k", "v"], 1);
    let lease = next(&scan).await.unwrap();
    assert!(picks(&lease, "v").await);

    // Scans of another chunk, or of another column, do not count.
    let other = 1 - lease.index();
    let elsewhere = start(&pool, &view, vec![other], &["v"], 1);
    let beside = start(&pool, &view, vec![lease.index()], &["k"], 1);
    assert!(picks(&lease, "v").await && !picks(&lease, "k").await);
    drop((elsewhere, beside));
    assert!(picks(&lease, "k").await);

    // A scan that needs the column, or that holds the chunk, does.
    let needing = start(&pool, &view, vec![lease.index()], &["v"], 1);
    assert!(!picks(&lease, "v").await);
    let held = needing.next_chunk().await.unwrap().unwrap();
    assert!(!picks(&lease, "v").await);
    drop((held, needing));
    assert!(picks(&lease, "v").await);

    // A column that is decoded already costs nothing.
    lease.batch(&[column("v")], 0).await.unwrap().unwrap();
    assert!(!picks(&lease, "v").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn picking_ends_once_it_has_cost_as_much_as_decoding() {
    let (setup, _) = setup_as(64 << 20, Vec::new(), Layout::RowGroups).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, vec![0], &["k", "v"], 1);
    let lease = next(&scan).await.unwrap();
    let mut times = 0;
    while picks(&lease, if times % 2 == 0 { "k" } else { "v" }).await {
        times += 1;
    }
    // Each pick touches three of fifty batches.
    assert!((5..=16).contains(&times), "{times}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_goes_back_gets_dropped_batches() {
    for layout in [Layout::RowGroups, Layout::Pages] {
        let (setup, _) = setup_as(1 << 20, Vec::new(), layout).await;
        let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
        let view = pool.table(&setup.files).unwrap();
        // Earlier reads use up the memory.
        let all: Vec<usize> = (0..view.chunks().len()).collect();
        let before = start(&pool, &view, all, &["k", "v", "s"], 1);
        while next(&before).await.is_some() {}
        let scan = start(&pool, &view, vec![0], &["k", "v"], 1);
        let lease = next(&scan).await.unwrap();
        let last = lease.batches().len() - 1;
        assert!(last > 20, "all would be kept");
        for at in [0, last - 1, 3, 4, last, 0, 20] {
            let columns = [column("k"), column("v")];
            let batch = tokio::time::timeout(Duration::from_secs(20), lease.batch(&columns, at));
            let batch = batch.await.expect("an answer").unwrap().unwrap();
            let k = batch[0].as_primitive::<Int64Type>();
            let v = batch[1].as_primitive::<Int64Type>();
            let first = lease.batches().range_of(at).start as i64;
            assert_eq!((k.value(0), v.value(0)), (first, 3 * first), "{at}");
        }
        let begun = scan.metrics().decode_begun;
        assert!(begun > 2, "batches were gone: {begun}");
    }
}
