//! How is a page-aligned file laid out, and what are the reasons for the defaults?

use std::str::FromStr;

use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::error::RewriteError;

/// The layout of a Parquet file whose pages begin at the same rows in all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Rows per page, 1 to [`PAGE_ROWS_MAX`]. Only the last page of a row group may have fewer.
    pub page_rows: usize,
    /// The most rows of a row group, rounded up to whole pages.
    pub row_group_rows: usize,
    /// The intended most bytes of a row group on disk, estimated from the preceding row groups.
    /// The first row group is closed when its arrays have this many bytes in memory.
    pub row_group_bytes: u64,
    /// The compression of pages.
    pub compression: PageCompression,
}

/// The compression of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageCompression {
    /// No compression.
    None,
    /// Snappy: half of the work of zstd, a third more bytes.
    Snappy,
    /// Zstandard, level 1.
    #[default]
    Zstd,
}

/// 2,048 rows of ten integers are 80 KiB over all columns: on a disk a seek costs ten times as
/// much as such a page, so one page more or less hardly matters, and a query that needs 1 row of
/// 20,000 still skips most pages. With fewer than a thousand rows per page, headers, index entries
/// and restarted compression cost more than they save.
pub const PAGE_ROWS_DEFAULT: usize = 2048;

/// As in most writers. Pages are the unit of reading, so row groups may be large: each costs a
/// dictionary per column and an entry per column in the footer.
pub const ROW_GROUP_ROWS_DEFAULT: usize = 1 << 20;

/// Bounds the memory of readers and writers of a whole row group; wide tables reach this limit
/// before [`ROW_GROUP_ROWS_DEFAULT`].
pub const ROW_GROUP_BYTES_DEFAULT: u64 = 128 << 20;

/// Reading one page of a dictionary-encoded column requires its dictionary too. 64 KiB take 0.3 ms
/// at 200 MB/s: less than the seek that such a read includes anyway. A column with a larger
/// dictionary has so many values that the dictionary would save little.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 64 << 10;

/// A page is read as a whole; a larger page would be as large as a row group.
pub const PAGE_ROWS_MAX: usize = 1 << 20;

impl Default for PageLayout {
    fn default() -> Self {
        Self {
            page_rows: PAGE_ROWS_DEFAULT,
            row_group_rows: ROW_GROUP_ROWS_DEFAULT,
            row_group_bytes: ROW_GROUP_BYTES_DEFAULT,
            compression: PageCompression::default(),
        }
    }
}

impl PageLayout {
    /// Checks that every number is in its range.
    ///
    /// # Errors
    /// [`RewriteError::Layout`] for the first number that is not.
    pub(crate) fn check(&self) -> Result<(), RewriteError> {
        let numbers = [
            ("page_rows", self.page_rows as u64, PAGE_ROWS_MAX as u64),
            ("row_group_rows", self.row_group_rows as u64, u64::MAX),
            ("row_group_bytes", self.row_group_bytes, u64::MAX),
        ];
        for (name, value, max) in numbers {
            if !(1..=max).contains(&value) {
                return Err(RewriteError::Layout {
                    name,
                    value,
                    min: 1,
                    max,
                });
            }
        }
        Ok(())
    }

    /// The properties for parquet's writer. Pages are cut by rows only: the byte limit is out of
    /// reach.
    pub(crate) fn properties(
        &self,
        dictionaries: bool,
        key_values: Vec<KeyValue>,
        sorting: Vec<SortingColumn>,
    ) -> Result<WriterProperties, ParquetError> {
        let compression = match self.compression {
            PageCompression::None => Compression::UNCOMPRESSED,
            PageCompression::Snappy => Compression::SNAPPY,
            PageCompression::Zstd => Compression::ZSTD(ZstdLevel::try_new(1)?),
        };
        Ok(WriterProperties::builder()
            .set_data_page_row_count_limit(self.page_rows)
            .set_write_batch_size(self.page_rows)
            .set_data_page_size_limit(usize::MAX)
            // `writer.rs` closes row groups, at the end of a page.
            .set_max_row_group_row_count(None)
            .set_dictionary_enabled(dictionaries)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES_MAX)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_compression(compression)
            .set_key_value_metadata((!key_values.is_empty()).then_some(key_values))
            .set_sorting_columns((!sorting.is_empty()).then_some(sorting))
            .build())
    }
}

impl PageCompression {
    /// All compressions.
    pub const ALL: [Self; 3] = [Self::None, Self::Snappy, Self::Zstd];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
        }
    }
}

impl FromStr for PageCompression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| format!("'{text}'; it is snappy, zstd or none"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        assert!(PageLayout::default().check().is_ok());
        let refused = |layout: PageLayout| layout.check().unwrap_err().to_string();
        let zero = refused(PageLayout {
            page_rows: 0,
            ..PageLayout::default()
        });
        assert_eq!(
            zero,
            "page_rows cannot be 0; it is a number from 1 to 1048576"
        );
        let zero = refused(PageLayout {
            row_group_bytes: 0,
            ..PageLayout::default()
        });
        assert!(zero.starts_with("row_group_bytes"), "{zero}");
    }

    #[test]
    fn compressions_are_named_as_on_the_command_line() {
        for kind in PageCompression::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("lzma".parse::<PageCompression>().is_err());
    }
}
