//! Where is the table?
//!
//! Each device has a folder with the table's rows twice. *Dealt*: runs of rows in turn, so that
//! every device has an equal part of any scan (the physical declustering of [RahmStohr94 §2]). In
//! *ranges* of the key: so that a predicate on the key needs few devices. Pages are not compressed,
//! so that a few cores can keep several devices busy. The folders are made once and kept; their
//! name says what they were made from.

use std::path::{Path, PathBuf};

use coscan::{Engine, EngineConfig};
use coscan_rewrite::{PageCompression, PageLayout, SpreadBy, SpreadOptions, spread};

use crate::error::{BenchError, Result};
use crate::workload::KEY;

/// Part of the folder's name, so that files of another layout are not taken for these.
const LAYOUT_VERSION: u32 = 2;

/// In a device's folder: the files with rows dealt in turn.
pub(crate) const DEALT: &str = "dealt";
/// In a device's folder: the files with a range of keys.
pub(crate) const RANGES: &str = "ranges";

/// The devices' folders below `root` that hold the rows of lineitem at `source`, which was made at
/// this scale factor. Makes the folders if they are missing.
///
/// Cancel safe: unfinished files are removed.
///
/// # Errors
/// The disk refuses, or there is too little memory to sort.
pub async fn ensure(
    root: &Path,
    source: &Path,
    scale: f64,
    devices: usize,
) -> Result<Vec<PathBuf>> {
    let root = root.join(format!("parallel-sf{scale}-{devices}-v{LAYOUT_VERSION}"));
    let of_root = |error| BenchError::io(&root, error);
    std::fs::create_dir_all(&root).map_err(of_root)?;
    // Devices are named by absolute paths.
    let root = std::fs::canonicalize(&root).map_err(of_root)?;
    let folders = (1..=devices).map(|number| root.join(format!("d{number}")));
    let folders: Vec<PathBuf> = folders.collect();
    let whole = root.join("whole");
    if whole.is_file() {
        return Ok(folders);
    }
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        BenchError::engine("spreading lineitem", error)
    };
    let engine = Engine::new(EngineConfig::default()).map_err(|error| failed(error.into()))?;
    let source = source.to_string_lossy();
    let tables = [
        (DEALT, SpreadBy::RoundRobin),
        (RANGES, SpreadBy::Range(KEY.to_owned())),
    ];
    for (table, by) in tables {
        let parts = parts(&folders, table);
        for part in &parts {
            // What a killed process left unfinished is made anew.
            if part.exists() {
                std::fs::remove_dir_all(part).map_err(|error| BenchError::io(part, error))?;
            }
            std::fs::create_dir_all(part).map_err(|error| BenchError::io(part, error))?;
        }
        let options = SpreadOptions {
            by,
            layout: PageLayout {
                compression: PageCompression::None,
                ..PageLayout::default()
            },
        };
        spread(&engine, &source, &parts, &options, |_| ())
            .await
            .map_err(|error| failed(error.into()))?;
    }
    std::fs::write(&whole, "").map_err(|error| BenchError::io(&whole, error))?;
    Ok(folders)
}

/// The parts of a table ([`DEALT`] or [`RANGES`]) in the devices' folders.
pub(crate) fn parts(folders: &[PathBuf], table: &str) -> Vec<PathBuf> {
    folders.iter().map(|folder| folder.join(table)).collect()
}
