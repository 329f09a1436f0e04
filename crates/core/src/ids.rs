//! Identifiers: small integers of distinct types, so that they cannot be mixed up.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A table at one version, numbered by the driver. Never used twice.
    TableId(u32)
);
id!(
    /// A chunk's position in its table, from 0, in file order.
    ChunkId(u32)
);
id!(
    /// A column of a table: a root column under `dsm`; under `nsm` the one column that stands for
    /// all.
    ColumnId(u16)
);
id!(
    /// A registered scan. Ids ascend with registration and are never used twice.
    ScanId(u64)
);
id!(
    /// A device: it has its own bandwidth and queue.
    DeviceId(u16)
);
id!(
    /// A shared extent's position in its table's list.
    ExtentId(u32)
);
id!(
    /// A page request of a smooth scan. Never used twice.
    PageRequestId(u64)
);
id!(
    /// Nanoseconds since an origin that the driver chooses. Never goes back.
    Time(u64)
);
