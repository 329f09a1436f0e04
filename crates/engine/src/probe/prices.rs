//! What do pages cost, before any is read?

use coscan_core::smooth::PageCosts;
use coscan_storage::device::{footprint, merge};
use coscan_storage::{PageMap, bytes_of_rows};

use crate::read::scan::Running;

/// The prices of pages in one scan.
#[derive(Clone, Copy)]
pub(crate) struct Prices {
    /// The average bytes on disk of a page's needed columns.
    pub(crate) page_bytes: u64,
    /// The approximate bytes of memory for a page that is read on its own: reads cover whole
    /// sectors.
    pub(crate) page_alone_bytes: u64,
    /// The costs of a page according to the device's meters, in nanoseconds.
    pub(crate) believed: PageCosts,
}

/// The prices in this scan; `columns` are the needed columns of each chunk.
pub(super) fn prices(running: &Running, map: &PageMap, columns: &[Option<Vec<String>>]) -> Prices {
    let mut bytes = 0;
    for (chunk, info) in running.table.chunks().iter().enumerate() {
        let names = columns[chunk].iter().flatten();
        bytes += names
            .filter_map(|name| info.file.column(name))
            .map(|c| info.bytes(c))
            .sum::<u64>();
    }
    let pages = u64::from(map.len()).max(1);
    let page_bytes = (bytes / pages).max(1);
    // A page in the middle represents all: how many requests it takes on its own, and how many
    // bytes, including gaps between its ranges.
    let sample = (0..map.len())
        .map(|n| (n + map.len() / 2) % map.len())
        .find_map(|n| {
            let page = map.page(n);
            Some((page, columns[page.chunk].as_ref()?))
        });
    let Some((page, names)) = sample else {
        return Prices {
            page_bytes,
            page_alone_bytes: page_bytes,
            believed: PageCosts {
                random: 1,
                sequential: 1,
            },
        };
    };
    let file = &running.table.chunks()[page.chunk].file;
    let mut ranges: Vec<_> = names
        .iter()
        .filter_map(|name| file.column(name))
        .flat_map(|column| bytes_of_rows(file.metadata(), column, &page.piece))
        .collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    let requests = merge::plan(&ranges, file.device().request_cost_bytes(), u64::MAX);
    let read: u64 = requests.iter().map(merge::Request::len).sum();
    let meter = file.device().meter().snapshot();
    let transfer = |bytes: u64| bytes as f64 / meter.bytes_per_second.max(1.0) * 1e9;
    let random = requests.len() as f64 * meter.latency.as_secs_f64() * 1e9 + transfer(read);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Float casts saturate.
    let believed = PageCosts {
        random: (random as u64).max(1),
        sequential: (transfer(page_bytes) as u64).max(1),
    };
    Prices {
        page_bytes,
        page_alone_bytes: ranges.iter().map(footprint).sum(),
        believed,
    }
}
