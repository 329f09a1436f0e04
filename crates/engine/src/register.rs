//! From a path, folder, glob or URL to a table.
//!
//! The files' format is known by their extension (Parquet if they have none); folders named `key=value` become columns, of the type that all
//! their values have. The schema is read once, when the table is registered; files are listed anew for every query.
//! Not here: credentials (`stores.rs`).

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableConfigExt, ListingTableUrl,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use futures::TryStreamExt;
use glob::Pattern;
use url::Url;

/// Makes a table of the files at `path`.
///
/// # Errors
/// If nothing is there, or a file is not what its extension says, with the path or file named.
pub(crate) async fn table_at(state: &SessionState, path: &str) -> Result<Arc<dyn TableProvider>> {
    let url = parse(path)?;
    let store = state.runtime_env().object_store(&url)?;
    let mut files = url.list_all_files(state, store.as_ref(), "").await?;
    // Empty files are ignored when the schema is inferred, as markers of other tools that they mostly are.
    let mut empty = false;
    let first = loop {
        match files.try_next().await? {
            Some(file) if file.size > 0 => break file,
            Some(_) => empty = true,
            None => {
                let reason = if empty {
                    "all files are empty"
                } else {
                    "there are no files"
                };
                return Err(DataFusionError::Configuration(reason.to_owned()));
            }
        }
    };
    drop(files);
    let config = ListingTableConfig::new(url);
    let has_extension = first
        .location
        .extension()
        .is_some_and(|e| state.get_file_format_factory(e).is_some());
    let config = if has_extension {
        config.infer_options(state).await?
    } else {
        let format = ParquetFormat::new().with_options(state.default_table_options().parquet);
        config.with_listing_options(ListingOptions::new(Arc::new(format)).with_file_extension(""))
    };
    let config = config
        .infer_partitions_from_path(state)
        .await?
        .infer_schema(state)
        .await?;
    let cache = state.runtime_env().cache_manager.get_file_statistic_cache();
    Ok(Arc::new(ListingTable::try_new(config)?.with_cache(cache)))
}

/// Reads a path as DataFusion does, and globs in URLs too.
fn parse(path: &str) -> Result<ListingTableUrl> {
    let Some((scheme, rest)) = path.split_once("://") else {
        let glob = path.contains(['*', '?', '[']);
        if !glob && !Path::new(path).exists() {
            return Err(DataFusionError::Configuration(
                "no such file or folder".to_owned(),
            ));
        }
        return ListingTableUrl::parse(path);
    };
    let Some(glob) = rest.find(['*', '[']) else {
        return ListingTableUrl::parse(path);
    };
    let folder = rest[..glob]
        .rfind('/')
        .map_or(rest.len(), |slash| slash + 1);
    let wrong = |error: &dyn std::error::Error| DataFusionError::Configuration(error.to_string());
    let url = Url::parse(&format!("{scheme}://{}", &rest[..folder])).map_err(|e| wrong(&e))?;
    let pattern = Pattern::new(&rest[folder..]).map_err(|e| wrong(&e))?;
    ListingTableUrl::try_new(url, Some(pattern))
}
