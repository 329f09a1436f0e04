//! Promised: decoded arrays take as few bytes as their values need, whatever statistics say or
//! lack, and no query notices. Rows are plain DataFusion's if batches of a column have different
//! widths, at the edges of each width, with nulls, with only nulls, with fragments and without.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field};
use coscan::{Engine, EngineConfig};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::{self, config, plain, plain_rows, rows};

/// The values of a stretch of rows.
#[derive(Clone, Copy, Debug)]
enum Stretch {
    /// Values of this many bits, and their extremes.
    Bits(u32),
    Nulls,
    /// One value of this many bits among values of 8 bits.
    Outlier(u32),
}

#[derive(Clone, Debug)]
struct World {
    stretches: Vec<Stretch>,
    rows: usize,
    group_rows: usize,
    batch_rows: usize,
    /// The number of distinct strings.
    strings: usize,
    statistics: bool,
    small_digits: bool,
    policy: &'static str,
}

fn world() -> impl Strategy<Value = World> {
    let stretch = prop_oneof![
        6 => select(vec![8, 16, 32, 63]).prop_map(Stretch::Bits),
        1 => Just(Stretch::Nulls),
        2 => select(vec![9, 17, 33, 63]).prop_map(Stretch::Outlier),
    ];
    (
        prop::collection::vec(stretch, 1..12),
        1..700usize,
        select(vec![300, 1_000, 5_000]),
        select(vec![64, 1_000, 8_192]),
        select(vec![3, 128, 129, 600]),
        any::<(bool, bool)>(),
        select(vec!["relevance", "normal", "elevator", "attach", "pbm"]),
    )
        .prop_map(
            |(stretches, rows, group_rows, batch_rows, strings, flags, policy)| World {
                stretches,
                rows,
                group_rows,
                batch_rows,
                strings,
                statistics: flags.0,
                small_digits: flags.1,
                policy,
            },
        )
}

/// Row `n` of a stretch, unless it is null: an extreme value or one in between.
fn value(stretch: Stretch, n: usize) -> Option<i64> {
    let mixed = (n as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64);
    let of = |bits: u32| {
        let edge = 1i64 << (bits - 1);
        match n % 23 {
            0 => edge - 1,
            1 => -edge,
            2 => -1,
            3 => 0,
            _ => mixed >> (64 - bits),
        }
    };
    match stretch {
        _ if n % 7 == 5 => None,
        Stretch::Nulls => None,
        Stretch::Bits(bits) => Some(of(bits)),
        Stretch::Outlier(bits) if n % 97 == 50 => Some(-(1i64 << (bits - 1)) - 1),
        Stretch::Outlier(_) => Some(mixed >> 56),
    }
}

fn write(path: &Path, world: &World) {
    let stretches = world.stretches.iter();
    let values: Vec<Option<i64>> = stretches
        .flat_map(|stretch| (0..world.rows).map(|n| value(*stretch, n)))
        .collect();
    let each = |f: &dyn Fn(i64) -> i64| values.iter().map(|v| v.map(f)).collect::<Vec<_>>();
    let small = |v: i64| v.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    let days = |v: i64| small(v).clamp(-600_000, 2_000_000);
    let digits = |precision: u8, scale: i8| -> ArrayRef {
        let most = 10i64.pow(u32::from(precision.min(18))) - 1;
        let digits = each(&|v| v.clamp(-most, most)).into_iter();
        let digits: Decimal128Array = digits.map(|v| v.map(i128::from)).collect();
        Arc::new(digits.with_precision_and_scale(precision, scale).unwrap())
    };
    let precision = if world.small_digits { 9 } else { 18 };
    let text = |n: usize| (n % 11 != 3).then(|| format!("v{}", n * 31 % world.strings));
    let columns: [(&str, ArrayRef); 6] = [
        ("k", Arc::new(Int64Array::from(values.clone()))),
        (
            "i",
            Arc::new(values.iter().map(|v| v.map(small)).collect::<Int32Array>()),
        ),
        (
            "d",
            Arc::new(values.iter().map(|v| v.map(days)).collect::<Date32Array>()),
        ),
        ("p", digits(precision, 2)),
        ("w", digits(30, 4)),
        (
            "s",
            Arc::new((0..values.len()).map(text).collect::<StringArray>()),
        ),
    ];
    let fields = columns
        .iter()
        .map(|(name, c)| Field::new(*name, c.data_type().clone(), true));
    let schema = common::schema(fields.collect());
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let statistics = if world.statistics {
        EnabledStatistics::Page
    } else {
        EnabledStatistics::None
    };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(world.group_rows))
        .set_data_page_row_count_limit(world.group_rows.div_ceil(4))
        .set_write_batch_size(64)
        .set_statistics_enabled(statistics)
        .build();
    common::write_with(path, schema, &[batch], properties);
}

const QUERIES: [&str; 16] = [
    "SELECT * FROM t",
    "SELECT k, d, s FROM t WHERE i > 100",
    "SELECT k, p FROM t WHERE k <= -128 OR i IS NULL",
    "SELECT s, d, w FROM t WHERE k = 127",
    "SELECT k, i, d, p, w, s FROM t WHERE p >= CAST(327.67 AS DECIMAL(9, 4)) AND d <> DATE '1970-01-01'",
    "SELECT k, s FROM t WHERE s = 'v1' AND i < 5",
    "SELECT i, s FROM t WHERE s IN ('v1', 'v2', 'v127', 'v128') AND d < DATE '1970-05-08'",
    "SELECT d FROM t WHERE 32767 >= k AND i BETWEEN -32768 AND 2147483647",
    "SELECT s, count(*), count(k), sum(p), avg(p) FROM t GROUP BY s",
    "SELECT i, sum(p), count(d), min(k), max(w) FROM t WHERE k < 128 GROUP BY i",
    "SELECT d, sum(i), sum(w), count(s) FROM t GROUP BY d",
    "SELECT count(*), sum(p * (1 - p)), sum(p + CAST(0.5 AS DECIMAL(2, 1))), max(d), min(i) FROM t WHERE p < CAST(9.99 AS DECIMAL(9, 4))",
    "SELECT sum(p), avg(w), sum(-p) FROM t WHERE d >= DATE '1969-12-31' AND p > CAST(-1.28 AS DECIMAL(9, 4))",
    "SELECT count(*) FROM t WHERE i < k",
    "SELECT s, sum(p * 2) FROM t WHERE k = i GROUP BY s",
    "SELECT count(*) FROM t WHERE p <= CAST(3276.7 AS DECIMAL(9, 4)) AND w > CAST(0.0127 AS DECIMAL(9, 4)) AND k >= -2147483649",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_of_plain_datafusion(world in world()) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(compare(&world));
    }
}

async fn compare(world: &World) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, world);
    let plain = plain(&[("t", &path)]).await;
    let engine = Engine::new(EngineConfig {
        batch_rows: world.batch_rows,
        ..config()
    })
    .unwrap();
    let first = engine.session();
    first.register("t", path.to_str().unwrap()).await.unwrap();
    for share in ["on", "off"] {
        let session = engine.session();
        session.set("coscan.policy", world.policy).unwrap();
        session.set("coscan.share_fragments", share).unwrap();
        session.set("coscan.state_cache", "0").unwrap();
        for sql in QUERIES {
            // DataFusion decides whether sums that overflow their type are refused.
            let Ok(expected) = tried(&plain, sql).await else {
                continue;
            };
            assert_eq!(
                rows(&session, sql).await,
                expected,
                "{sql}, fragments {share}"
            );
        }
    }
}

async fn tried(
    plain: &datafusion::prelude::SessionContext,
    sql: &str,
) -> datafusion::error::Result<Vec<String>> {
    plain.sql(sql).await?.collect().await?;
    Ok(plain_rows(plain, sql).await)
}

/// Kept arrays count with the bytes that they take.
#[tokio::test]
async fn kept_bytes_are_those_of_the_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rows_max = 200_000;
    let small = Int64Array::from_iter_values((0..rows_max).map(|n| n % 100));
    let wide = Int64Array::from_iter_values((0..rows_max).map(|n| n << 40));
    let schema = common::schema(vec![
        Field::new("small", DataType::Int64, false),
        Field::new("wide", DataType::Int64, false),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::new(small), Arc::new(wide)];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    common::write(&path, schema, &[batch], 50_000);
    let kept = async |column: &str| {
        let session = common::session(config(), &[("t", &path)]).await;
        session.set("coscan.share_fragments", "off").unwrap();
        for _ in 0..2 {
            rows(&session, &format!("SELECT {column} FROM t")).await;
        }
        session.engine().metrics().decoded_bytes
    };
    let (small, wide) = (kept("small").await, kept("wide").await);
    let rows_max = rows_max as u64;
    assert!((rows_max..2 * rows_max).contains(&small), "{small}");
    // A batch that is shorter than others has room for as many values as they have.
    assert!((8 * rows_max..12 * rows_max).contains(&wide), "{wide}");
}
