//! What does the table look like on disk, and which of its bytes does a query need?
//!
//! Idea: a policy is judged against what must be read. The footers hold the size of each column of
//! each row group and its range of keys, so what a query needs is known before it runs: the lower
//! bound is the union over all queries, the upper bound their sum.
//! Not here: how the engine cuts chunks (`coscan-storage`); the figures here are by row group,
//! which is the engine's default.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;

use crate::error::{BenchError, Result};
use crate::workload::{KEY, Query, Speed, Workload};

/// A table's row groups, in the order of its files.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Bytes of all files.
    pub table_bytes: u64,
    /// Smallest and largest clustering key.
    pub keys: RangeInclusive<i64>,
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    keys: RangeInclusive<i64>,
    /// Compressed bytes by column name.
    columns: BTreeMap<String, u64>,
}

/// How many bytes a workload needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesNeeded {
    /// Of everything that its queries could touch: what a buffer of 100 % would hold.
    pub workload_bytes: u64,
    /// Of everything that at least one query touches.
    pub union_bytes: u64,
    /// Summed over the queries.
    pub demand_bytes: u64,
}

impl Layout {
    /// Reads the footers of a Parquet file, or of all Parquet files of a folder.
    ///
    /// # Errors
    /// There are no files, one cannot be read, or the table has no statistics of [`KEY`].
    pub fn read(path: &Path) -> Result<Self> {
        let mut table_bytes = 0;
        let mut groups = Vec::new();
        for file_path in files(path)? {
            let file = File::open(&file_path).map_err(|error| BenchError::io(&file_path, error))?;
            table_bytes += file
                .metadata()
                .map_err(|error| BenchError::io(&file_path, error))?
                .len();
            let reader = SerializedFileReader::new(file)
                .map_err(|error| BenchError::parquet(&file_path, error))?;
            for group in reader.metadata().row_groups() {
                groups.push(Group::new(group).ok_or_else(|| BenchError::Table {
                    path: file_path.clone(),
                    reason: format!("a row group has no minimum and maximum of an integer {KEY}"),
                })?);
            }
        }
        let first = groups.iter().map(|group| *group.keys.start()).min();
        let last = groups.iter().map(|group| *group.keys.end()).max();
        match (first, last) {
            (Some(first), Some(last)) => Ok(Self {
                table_bytes,
                keys: first..=last,
                groups,
            }),
            _ => Err(BenchError::Table {
                path: path.to_owned(),
                reason: "it has no rows".to_owned(),
            }),
        }
    }

    /// The number of row groups.
    #[must_use]
    pub fn row_groups(&self) -> u32 {
        u32::try_from(self.groups.len()).unwrap_or(u32::MAX)
    }

    /// Bytes that a scan of the whole table at this speed reads. `whole_rows` means the storage
    /// model is `nsm`.
    #[must_use]
    pub fn scan_bytes(&self, speed: Speed, whole_rows: bool) -> u64 {
        self.groups
            .iter()
            .map(|group| group.bytes(names(speed), whole_rows))
            .sum()
    }

    /// What the workload needs. `whole_rows` means the storage model is `nsm`, which reads all
    /// columns.
    #[must_use]
    pub fn bytes_needed(&self, workload: &Workload, whole_rows: bool) -> BytesNeeded {
        let touched: BTreeSet<&str> = workload
            .queries()
            .flat_map(|(_, query)| names(query.class.speed))
            .copied()
            .collect();
        let touched: Vec<&str> = touched.into_iter().collect();
        let mut needs = BytesNeeded::default();
        for group in &self.groups {
            needs.workload_bytes += group.bytes(&touched, whole_rows);
            let mut union = BTreeSet::new();
            for (_, query) in workload.queries() {
                let columns = group.columns_for(query);
                if !columns.is_empty() {
                    needs.demand_bytes += group.bytes(&columns, whole_rows);
                    union.extend(columns);
                }
            }
            if !union.is_empty() {
                let union: Vec<&str> = union.into_iter().collect();
                needs.union_bytes += group.bytes(&union, whole_rows);
            }
        }
        needs
    }
}

impl Group {
    fn new(group: &RowGroupMetaData) -> Option<Self> {
        let mut columns = BTreeMap::new();
        let mut keys = None;
        for column in group.columns() {
            let root = column
                .column_path()
                .parts()
                .first()
                .cloned()
                .unwrap_or_default();
            if root == KEY {
                keys = match column.statistics()? {
                    Statistics::Int64(s) => Some(*s.min_opt()?..=*s.max_opt()?),
                    Statistics::Int32(s) => {
                        Some(i64::from(*s.min_opt()?)..=i64::from(*s.max_opt()?))
                    }
                    _ => None,
                };
            }
            *columns.entry(root).or_default() +=
                u64::try_from(column.compressed_size()).unwrap_or(0);
        }
        Some(Self {
            keys: keys?,
            columns,
        })
    }

    /// Columns that the query reads in this row group; none if its range misses the row group. The
    /// key is read only where the range begins or ends inside the row group: elsewhere the
    /// statistics prove the condition.
    fn columns_for(&self, query: &Query) -> Vec<&'static str> {
        if query.keys.end() < self.keys.start() || query.keys.start() > self.keys.end() {
            return Vec::new();
        }
        let mut columns = names(query.class.speed).to_vec();
        if query.keys.start() > self.keys.start() || query.keys.end() < self.keys.end() {
            columns.push(KEY);
        }
        columns
    }

    fn bytes(&self, columns: &[&str], whole_rows: bool) -> u64 {
        if whole_rows {
            self.columns.values().sum()
        } else {
            columns
                .iter()
                .filter_map(|column| self.columns.get(*column))
                .sum()
        }
    }
}

/// The columns that a query of this speed reads in every row group.
fn names(speed: Speed) -> &'static [&'static str] {
    const ALL: [&str; 7] = [
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_shipdate",
        "l_tax",
        "l_returnflag",
        "l_linestatus",
    ];
    match speed {
        Speed::Fast => &ALL[..4],
        Speed::Slow => &ALL,
    }
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let of_path = |error| BenchError::io(path, error);
    if !std::fs::metadata(path).map_err(of_path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(of_path)? {
        let file = entry.map_err(of_path)?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "parquet")
        {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(BenchError::Table {
            path: path.to_owned(),
            reason: "there is no file that ends in .parquet".to_owned(),
        });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::workload::WorkloadSpec;

    fn layout() -> Layout {
        let columns = |size: u64| {
            let mut columns: BTreeMap<String, u64> = names(Speed::Slow)
                .iter()
                .map(|name| ((*name).to_owned(), size))
                .collect();
            columns.insert(KEY.to_owned(), 5);
            columns.insert("l_comment".to_owned(), 1000);
            columns
        };
        let groups = vec![
            Group {
                keys: 1..=100,
                columns: columns(10),
            },
            Group {
                keys: 101..=200,
                columns: columns(20),
            },
        ];
        Layout {
            table_bytes: 2500,
            keys: 1..=200,
            groups,
        }
    }

    fn workload(mix: &str, streams: usize) -> Workload {
        Workload::draw(WorkloadSpec {
            mix: mix.parse().unwrap(),
            streams,
            queries: 1,
            delay: Duration::ZERO,
            seed: 1,
            keys: 1..=200,
            slow_arithmetic: 0,
            table: "t".to_owned(),
            distinct: false,
        })
        .unwrap()
    }

    #[test]
    fn a_full_scan_needs_its_columns_once() {
        let needs = layout().bytes_needed(&workload("F-100", 3), false);
        assert_eq!(
            needs,
            BytesNeeded {
                workload_bytes: 120,
                union_bytes: 120,
                demand_bytes: 360
            }
        );
        let needs = layout().bytes_needed(&workload("F-100", 1), true);
        assert_eq!(needs.union_bytes, 2000 + 10 + 70 + 140);
        assert_eq!(layout().scan_bytes(Speed::Slow, false), 210);
    }

    #[test]
    fn the_key_is_needed_only_where_a_range_ends() {
        let layout = layout();
        let mut query = workload("F-50", 1).streams[0][0].clone();
        query.keys = 50..=200;
        assert!(layout.groups[0].columns_for(&query).contains(&KEY));
        assert!(!layout.groups[1].columns_for(&query).contains(&KEY));
        query.keys = 101..=200;
        assert!(layout.groups[0].columns_for(&query).is_empty());
    }
}
