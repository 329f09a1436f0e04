//! How does `coscan demo` scale the paper's experiment down to a few minutes?
//!
//! Idea: only time is scaled. In the paper a full scan of FAST took [`PAPER_SCAN`] and streams
//! started [`PAPER_DELAY`] apart. A smaller table behind a proportionally slower device takes less
//! time for the same number of chunks; dividing the delay by the same factor keeps every ratio:
//! how many scans overlap, how far one gets before the next arrives, how much of the table the
//! buffer holds. The device stays the bottleneck as long as the CPU keeps up.
//!
//! Not scaled: the CPU. It is some ten times faster than the paper's, so a query's own work weighs
//! less here, and SLOW is only a little slower than FAST. The paper's ratio of standalone times,
//! 1.7, takes some 70 terms of extra arithmetic (`coscan bench coop --calibrate-slow` finds the
//! number), which makes the CPU the limit, as it was in the paper. The demo is about the device,
//! and must work on a machine that is busy with other work.
//! Source: [CoopScans07 §5.1, Table 2].

use std::path::PathBuf;
use std::time::Duration;

use crate::dashboard::DashboardOptions;
use crate::smooth::DeviceKind;
use crate::smooth::data::{Keys, Spec};
use crate::smooth::picture::PictureOptions;

/// Standalone time of F-100 in the paper's Table 2.
pub const PAPER_SCAN: Duration = Duration::from_millis(20_370);
/// Time between two streams' starts in the paper.
pub const PAPER_DELAY: Duration = Duration::from_secs(3);
/// Chunks of the paper's table: 4 GB in 16 MB.
pub const PAPER_CHUNKS: u64 = 256;
/// The duration of a full scan in the demo unless the bandwidth is given. Four policies then take
/// about 50 times as long.
pub const DEMO_SCAN: Duration = Duration::from_secs(3);

/// Bytes of a row group of the demo's table: chosen so that a table of any size has about as many
/// chunks as the paper's ([`PAPER_CHUNKS`]), up to the size of the paper's chunks.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Clamped.
pub fn row_group_bytes(scale: f64) -> u64 {
    const CHUNK_BYTES_MIN: f64 = (16 << 10) as f64;
    const CHUNK_BYTES_MAX: f64 = (16 << 20) as f64;
    (LINEITEM_BYTES_PER_SCALE * scale / PAPER_CHUNKS as f64).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
        as u64
}

/// The index scans that the demo pictures: on a table of 20 MB and a device on which a page by
/// itself costs ten in sequence, so that a full scan takes a second. Scales below 1 make the table
/// smaller.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Between 0 and the rows.
pub fn picture(scale: f64) -> PictureOptions {
    PictureOptions {
        spec: Spec {
            rows: (PICTURE_ROWS * scale.clamp(0.0, 1.0)) as u32,
            page_rows: 512,
            seed: 1,
            keys: Keys::Uniform,
        },
        device: DeviceKind::Disk {
            bandwidth: 20_000_000,
            latency: None,
        },
        memory_bytes: 256 << 20,
        limit: Duration::from_secs(20),
    }
}

/// The dashboard that the demo pictures: each viewer comes while the queries of earlier viewers
/// run. The device is faster than that of the scans, because so many queries read several tables.
/// As for the scans, a quarter of the tables fits in the buffer.
#[must_use]
pub fn dashboard(
    tables: Vec<(String, PathBuf)>,
    scale: f64,
    scaling: &Scaling,
    verify: bool,
) -> DashboardOptions {
    let bytes = |(_, path): &(String, PathBuf)| path.metadata().map_or(0, |file| file.len());
    DashboardOptions {
        buffer_bytes: Some((tables.iter().map(bytes).sum::<u64>() / 4).max(1 << 20)),
        tables,
        viewers: 6,
        queries: 4,
        sets: 2,
        seed: 1,
        apart: scaling.scan / 6,
        bandwidth: Some(scaling.bandwidth.saturating_mul(4)),
        chunk_bytes: row_group_bytes(scale),
        verify,
    }
}

/// About 1,000 pages: a picture has room for no more.
const PICTURE_ROWS: f64 = 500e3;

/// The report's explanation of the picture.
pub const PICTURE_EXPLANATION: &str = "The scans by an index read a table of their own, of ten columns of random integers, of which \
     one is indexed, from a device on which a page by itself costs ten in sequence, as on a disk. Each runs once, alone.";

/// Measured with this crate's layout.
const LINEITEM_BYTES_PER_SCALE: f64 = 200e6;

/// A device's bandwidth and the delay that goes with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Bytes per second.
    pub bandwidth: u64,
    /// Time between two streams' starts.
    pub delay: Duration,
    /// How long a full scan of FAST takes at this bandwidth.
    pub scan: Duration,
    /// Seconds of the paper that one second of the demo stands for.
    pub factor: f64,
}

impl Scaling {
    /// `scan_bytes` is what a full scan of FAST reads. The bandwidth is derived from it unless
    /// given; the delay is always derived.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Positive, below 2^63.
    pub fn new(scan_bytes: u64, bandwidth: Option<u64>) -> Self {
        let bandwidth = bandwidth
            .unwrap_or((scan_bytes as f64 / DEMO_SCAN.as_secs_f64()) as u64)
            .max(1);
        let scan = Duration::from_secs_f64((scan_bytes as f64 / bandwidth as f64).min(1e6));
        let factor = PAPER_SCAN.as_secs_f64() / scan.as_secs_f64().max(1e-9);
        Self {
            bandwidth,
            delay: PAPER_DELAY.div_f64(factor),
            scan,
            factor,
        }
    }

    /// Describes the scaling in words.
    #[must_use]
    pub fn explanation(&self) -> String {
        use coscan_quantities::{rate, seconds, significant};
        format!(
            "Time is scaled, nothing else. In the paper a full scan takes {} (4 GB at 200 MB/s) and streams start {} apart. \
             Here the device is held to {}, a full scan takes {}, and streams start {} apart: one second here stands for \
             {} of the paper. The number of streams and queries and the buffer's share of the data are the paper's.",
            seconds(PAPER_SCAN.as_secs_f64()),
            seconds(PAPER_DELAY.as_secs_f64()),
            rate(self.bandwidth),
            seconds(self.scan.as_secs_f64()),
            seconds(self.delay.as_secs_f64()),
            significant(self.factor),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_own_table_is_not_scaled() {
        let scaling = Scaling::new(4_074_000_000, Some(200_000_000));
        assert!((scaling.factor - 1.0).abs() < 1e-9);
        assert!((scaling.delay.as_secs_f64() - 3.0).abs() < 1e-6);
    }

    #[test]
    fn tables_of_all_sizes_have_as_many_chunks_as_the_papers() {
        for scale in [0.1, 1.0, 10.0] {
            let chunks = LINEITEM_BYTES_PER_SCALE * scale / row_group_bytes(scale) as f64;
            assert!(
                (250.0..260.0).contains(&chunks),
                "{chunks} at scale {scale}"
            );
        }
        assert_eq!(row_group_bytes(1000.0), 16 << 20);
    }

    #[test]
    fn the_bandwidth_follows_from_the_table_and_the_delay_from_both() {
        let scaling = Scaling::new(180_000_000, None);
        assert_eq!(scaling.bandwidth, 60_000_000);
        assert!((scaling.delay.as_secs_f64() - 0.4418).abs() < 1e-3);
        let faster = Scaling::new(180_000_000, Some(120_000_000));
        assert!((faster.delay.as_secs_f64() * 2.0 - scaling.delay.as_secs_f64()).abs() < 1e-6);
        assert!(scaling.explanation().contains("60.0 MB/s"));
        let nothing = Scaling::new(0, None);
        assert!(nothing.bandwidth >= 1 && nothing.factor.is_finite());
    }
}
