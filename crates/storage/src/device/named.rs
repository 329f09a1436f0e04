//! Which files are on a device that the configuration names?
//!
//! A disk is identified by its number (`st_dev`). That is wrong if several disks share a number (a
//! volume manager), if one disk has several (partitions), or if an experiment needs four slow
//! disks and has one. So the configuration can give paths the name of a device: files below a
//! named path are on that device, whatever their number; several paths with one name are one
//! device.
//! Not here: making the device (`devices.rs`).
//! N1: a file is on the device of the longest configured path that it lies below.

use std::path::{Path, PathBuf};

use super::Throttle;

/// A path whose files are on the device of this name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedDevice {
    /// The name of the device.
    pub name: String,
    /// A folder or a file, absolute.
    pub path: PathBuf,
    /// Throttles the device. If the device has several paths, the first path's throttle applies.
    pub throttle: Option<Throttle>,
}

/// The first entry of the named device that a path is on, if it is on one.
pub(super) fn of<'a>(named: &'a [NamedDevice], path: &Path) -> Option<&'a NamedDevice> {
    let above = named.iter().filter(|named| path.starts_with(&named.path));
    let nearest = above.max_by_key(|named| named.path.components().count())?;
    named.iter().find(|named| named.name == nearest.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_names_the_device() {
        let entry = |name: &str, path: &str| NamedDevice {
            name: name.to_owned(),
            path: path.into(),
            throttle: None,
        };
        let named = [entry("a", "/d"), entry("b", "/d/b"), entry("a", "/e")];
        let of = |path: &str| of(&named, Path::new(path)).map(|named| named.path.to_str());
        assert_eq!(of("/d/x"), Some(Some("/d")));
        assert_eq!(of("/d/b/x"), Some(Some("/d/b")));
        assert_eq!(of("/d/bb/x"), Some(Some("/d")));
        assert_eq!(of("/e"), Some(Some("/d")), "one device with /d");
        assert_eq!(of("/f"), None);
    }
}
