//! Where is the table?
//!
//! `coscan spread --by range(l_orderkey)` puts a range of keys in each folder, so that every device
//! has an equal part of a scan and a predicate on the key needs few of them. It is made once and
//! kept; the folder's name says of what.

use std::path::{Path, PathBuf};

use coscan::{Engine, EngineConfig};
use coscan_rewrite::{SpreadBy, spread};

use crate::error::{BenchError, Result};
use crate::workload::KEY;

/// In the folder's name: files of another layout are not taken for these.
const LAYOUT_VERSION: u32 = 1;

/// The folders below `root` that hold the rows of lineitem at `source`, which was made at this
/// scale factor, a range of keys in each. Made now if they are not there.
///
/// It is cancel safe: what was begun is removed.
///
/// # Errors
/// The disk refuses, or there is not the memory to sort.
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
    for folder in &folders {
        std::fs::create_dir_all(folder).map_err(|error| BenchError::io(folder, error))?;
    }
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        BenchError::engine("spreading lineitem", error)
    };
    let engine = Engine::new(EngineConfig::default()).map_err(|error| failed(error.into()))?;
    let (source, by) = (source.to_string_lossy(), SpreadBy::Range(KEY.to_owned()));
    spread(&engine, &source, &folders, &by, |_| ())
        .await
        .map_err(|error| failed(error.into()))?;
    std::fs::write(&whole, "").map_err(|error| BenchError::io(&whole, error))?;
    Ok(folders)
}
