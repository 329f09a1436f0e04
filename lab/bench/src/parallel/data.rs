//! How is the table laid out over the devices?
//!
//! Each device has a folder with its part of the table in two layouts. *Dealt*: runs of rows are
//! dealt in turn, so that every device has an equal part of any scan (the physical declustering of
//! [RahmStohr94 §2]). In *ranges* of the key: a predicate on the key then needs few devices. Pages
//! are not compressed, so that a few cores keep several devices busy. The folders are made once
//! and kept; their names say what they were made from.

use std::path::{Path, PathBuf};

use coscan::{Engine, EngineConfig};
use coscan_rewrite::{PageCompression, PageLayout, SpreadBy, SpreadOptions, spread};

use crate::error::{BenchError, Result};
use crate::workload::KEY;

/// Part of the folder's name, so that files of another layout are not taken for these.
const LAYOUT_VERSION: u32 = 2;

/// Subfolder of a device's folder with the rows dealt in turn.
pub(crate) const DEALT: &str = "dealt";
/// Subfolder of a device's folder with a range of keys.
pub(crate) const RANGES: &str = "ranges";

/// The devices' folders below `root` with the rows of the lineitem file `source`, which was made
/// at this scale factor. Makes missing folders.
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
            // A killed process may have left an unfinished folder.
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
