//! Which copy of a page is the newest?
//!
//! Idea: on-request invalidation. A change increases a page's version by one and sends the page to
//! its owner, the node with the authority over its lock. Copies on other nodes stay until they are
//! accessed under a lock: the grant contains the version, and an older copy is dropped. The newest
//! version is on disk once the owner's buffer has evicted and written it; until then other nodes
//! get the page from the owner.
//! C1: a page whose newest version is not on disk is in its owner's buffer, dirty.
//! Source: [RahmStohr94 §3 "Concurrency and coherency control"], [Rahm86].

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::shared_disk::hardware::lru::Copy;

#[derive(Clone, Copy, Debug)]
struct Newest {
    version: u32,
    on_disk: bool,
}

/// Versions of the pages that were changed.
#[derive(Debug, Default)]
pub(crate) struct Coherency {
    changed: IndexMap<u32, Newest, FxBuildHasher>,
}

impl Coherency {
    /// The newest version of a page.
    pub(crate) fn version(&self, page: u32) -> u32 {
        self.changed.get(&page).map_or(0, |newest| newest.version)
    }

    /// Whether a copy in a buffer is the newest version.
    pub(crate) fn valid(&self, copy: Copy) -> bool {
        copy.version == self.version(copy.page)
    }

    /// Whether other nodes get the page from its owner.
    pub(crate) fn at_owner(&self, page: u32) -> bool {
        let newest = self.changed.get(&page);
        newest.is_some_and(|newest| !newest.on_disk)
    }

    /// Records a change of a page. Returns the copy that its owner keeps.
    pub(crate) fn change(&mut self, page: u32) -> Copy {
        let version = self.version(page) + 1;
        let on_disk = false;
        self.changed.insert(page, Newest { version, on_disk });
        Copy {
            page,
            version,
            dirty: true,
        }
    }

    /// The owner has written its copy. Older copies have no effect.
    pub(crate) fn written(&mut self, copy: Copy) {
        if let Some(newest) = self.changed.get_mut(&copy.page)
            && newest.version == copy.version
        {
            newest.on_disk = true;
        }
    }

    /// Pages whose newest version only the owner has.
    pub(crate) fn only_at_owner(&self) -> impl Iterator<Item = (u32, u32)> {
        let changed = self.changed.iter();
        changed.filter_map(|(&page, newest)| (!newest.on_disk).then_some((page, newest.version)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_copy_is_invalid_and_the_disk_has_what_was_written() {
        let mut coherency = Coherency::default();
        let old = Copy {
            page: 5,
            version: 0,
            dirty: false,
        };
        assert!(coherency.valid(old) && !coherency.at_owner(5));
        let first = coherency.change(5);
        let second = coherency.change(5);
        assert!(!coherency.valid(old) && coherency.valid(second));
        coherency.written(first);
        assert!(coherency.at_owner(5), "what was written is not the newest");
        coherency.written(second);
        assert!(!coherency.at_owner(5));
        assert_eq!(coherency.only_at_owner().count(), 0);
    }
}
