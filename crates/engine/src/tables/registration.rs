//! Which files are the table at a path, folder, glob or URL?
//!
//! The extension of the files tells their format: Parquet if any file has that extension, or if no
//! file has one. Files with other extensions are then not part of the table, and neither are files
//! in a folder whose names begin with `.` or `_` (Spark's `.x.parquet.crc` and `_metadata`,
//! Coscan's `_coscan`). Folders named `key=value` become columns (`partitioned.rs`). The schema is
//! read when the table is registered and when its files have changed
//! (`session/catalog/shared_tables.rs`); every query lists the files.
//! Not here: credentials (`object_stores/store_urls.rs`), which file cannot be read
//! (`parquet_format.rs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::{TableProvider, TableProviderFactory};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableConfigExt, ListingTableUrl,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::CreateExternalTable;
use futures::TryStreamExt;
use glob::Pattern;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use url::Url;

use super::locations::{self, Place};
use super::parquet_format::{CheckedParquet, CheckedParquetFactory};
use super::partitioned::PartitionedTable;
use crate::object_stores::joint_store;
use crate::object_stores::local_store::settle;
use crate::settings::Settings;

/// The extension of Parquet files.
const PARQUET: &str = "parquet";

/// The names in a folder that are not hidden, as a glob.
const VISIBLE: &str = "[!._]*";

/// The table of the files at `path`, which may be several places separated by commas
/// (`locations.rs`).
///
/// # Errors
/// If the path does not exist, or a file is not what its extension says, or does not fit the
/// others; a Parquet file is named.
pub(crate) async fn table_at(state: &SessionState, path: &str) -> Result<Arc<dyn TableProvider>> {
    let config = match locations::split(path).as_slice() {
        [one] => {
            let place = place_at(state, one).await?;
            let config = ListingTableConfig::new(place.url);
            let config = config.with_listing_options(place.options);
            config.infer_schema(state).await?
        }
        several => {
            let mut places = Vec::with_capacity(several.len());
            for one in several {
                let place = place_at(state, one).await;
                places.push(place.map_err(|why| named(one, why))?);
            }
            let schema = locations::agreed(state, &places).await?;
            let mut options = places[0].options.clone();
            let urls = places.into_iter().map(|place| place.url).collect();
            let urls = joint_store::of_one_store(state.runtime_env(), urls)?;
            if options.format.get_ext() == PARQUET {
                options.format = parquet_of(state, urls[0].object_store());
            }
            let config = ListingTableConfig::new_with_multi_paths(urls);
            config.with_listing_options(options).with_schema(schema)
        }
    };
    let cache = state.runtime_env().cache_manager.get_file_statistic_cache();
    let table = ListingTable::try_new(config)?.with_cache(cache);
    PartitionedTable::over(state, table).await
}

/// Adds the place to a configuration error. Other errors already name their files.
fn named(place: &str, error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Configuration(reason) => {
            DataFusionError::Configuration(format!("{place}: {reason}"))
        }
        error => error,
    }
}

/// The files at one place, with the options for listing and reading them.
async fn place_at(state: &SessionState, path: &str) -> Result<Place> {
    let url = parse(path)?;
    let store = state.runtime_env().object_store(&url)?;
    if url.scheme() == "file" && url.is_collection() {
        let folder = PathBuf::from(format!("/{}", url.prefix()));
        let settled = tokio::task::spawn_blocking(move || settle(&folder)).await;
        settled.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
    }
    let first = first_file(state, &url, store.as_ref()).await?;
    let store_url = url.object_store();
    let is_file = *url.prefix() == first.location;
    let extension = known_extension(state, &first.location);
    let url = if is_file || url.get_glob().is_some() {
        url
    } else {
        let dot_extension = extension.map_or_else(String::new, |e| format!(".{e}"));
        url.with_glob(&format!("{VISIBLE}{dot_extension}"))?
    };
    let config = ListingTableConfig::new(url);
    let config = match extension {
        Some(other) if other != PARQUET => config.infer_options(state).await?,
        parquet => {
            let options = ListingOptions::new(parquet_of(state, store_url));
            config.with_listing_options(options.with_file_extension(parquet.unwrap_or_default()))
        }
    };
    let config = config.infer_partitions_from_path(state).await?;
    let (Some(url), Some(options)) = (config.table_paths.first(), &config.options) else {
        let lost = "a place of files has lost its options".to_owned();
        return Err(DataFusionError::Internal(lost));
    };
    Ok(Place {
        text: path.to_owned(),
        url: url.clone(),
        options: options.clone(),
    })
}

/// The format of a store's Parquet files.
fn parquet_of(state: &SessionState, store: ObjectStoreUrl) -> Arc<dyn FileFormat> {
    let mut options = state.default_table_options().parquet;
    options.global.binary_as_string |= takes_binary_for_text(state);
    let format = ParquetFormat::new().with_options(options);
    Arc::new(CheckedParquet::new(Arc::new(format), store, true))
}

fn takes_binary_for_text(state: &SessionState) -> bool {
    let settings = state.config_options().extensions.get::<Settings>();
    settings.is_some_and(|settings| settings.binary_as_string)
}

/// Makes COPY write Parquet as INSERT does (`writing.rs`).
pub(crate) fn write_by_our_rules(state: &mut SessionState) {
    let Some(inner) = state.get_file_format_factory(PARQUET) else {
        return;
    };
    let format = CheckedParquetFactory {
        inner,
        store: ObjectStoreUrl::local_filesystem(),
        inferred: false,
    };
    // Refused only if there were no such format.
    let _ = state.register_file_format(Arc::new(format), true);
}

/// The table that `CREATE EXTERNAL TABLE … STORED AS PARQUET` declares: DataFusion's table, except
/// that errors name the unreadable file, and hidden files of local folders are not part of the
/// table.
///
/// # Errors
/// Those of DataFusion.
pub(crate) async fn declared_table(
    state: &SessionState,
    command: &CreateExternalTable,
    factory: &dyn TableProviderFactory,
) -> Result<Arc<dyn TableProvider>> {
    let urls = command.locations.iter();
    let urls: Vec<ListingTableUrl> = urls.map(ListingTableUrl::parse).collect::<Result<_>>()?;
    let joined = joint_store::of_one_store(state.runtime_env(), urls.clone())?;
    let (Some(first), Some(format)) = (joined.first(), state.get_file_format_factory(PARQUET))
    else {
        return factory.create(state, command).await;
    };
    let store = first.object_store();
    let ours = format.downcast_ref::<CheckedParquetFactory>();
    let inner = ours.map_or(&format, |ours| &ours.inner);
    let format = CheckedParquetFactory {
        inner: Arc::clone(inner),
        store,
        inferred: command.schema.fields().is_empty(),
    };
    let binary_as_string = takes_binary_for_text(state);
    // The session's own format stays unchanged, because it also writes, to any store.
    let mut state = state.clone();
    let parquet = &mut state.config_mut().options_mut().execution.parquet;
    parquet.binary_as_string |= binary_as_string;
    state.register_file_format(Arc::new(format), true)?;
    let mut command = command.clone();
    for (location, (own, joined)) in command.locations.iter_mut().zip(urls.iter().zip(&joined)) {
        *location = if joined == own {
            without_hidden(&state, location).await?
        } else {
            joined.to_string()
        };
    }
    let table = factory.create(&state, &command).await?;
    match table.downcast_ref::<ListingTable>() {
        Some(files) => PartitionedTable::over(&state, files.clone()).await,
        None => Ok(table),
    }
}

/// A location of Parquet files for DataFusion: a local folder without its hidden files.
///
/// A location in another store stays as it is, because DataFusion has no globs there. So does one
/// whose files have no extension.
async fn without_hidden(state: &SessionState, location: &str) -> Result<String> {
    let url = ListingTableUrl::parse(location)?;
    let folder = format!("/{}", url.prefix());
    if !url.is_folder() || url.get_glob().is_some() || folder.contains(['*', '?', '[']) {
        return Ok(location.to_owned());
    }
    let store = state.runtime_env().object_store(&url)?;
    match first_file(state, &url, store.as_ref()).await {
        Ok(file) if file.location.extension() != Some(PARQUET) => Ok(location.to_owned()),
        // The first file is Parquet, or there is none yet.
        _ => Ok(format!("{folder}/{VISIBLE}.{PARQUET}")),
    }
}

/// The file whose extension tells the format of all: the first Parquet file, otherwise the first
/// one of a known format, otherwise the first one.
///
/// Empty files do not count, as in inferring the schema: they are markers of other tools. Hidden
/// files in a folder do not count either.
async fn first_file(
    state: &SessionState,
    url: &ListingTableUrl,
    store: &dyn ObjectStore,
) -> Result<ObjectMeta> {
    let on_web_server = matches!(url.scheme(), "http" | "https");
    let is_one = !url.is_collection() && url.get_glob().is_none();
    if on_web_server && is_one {
        return file_at(url, store).await;
    }
    let unlistable = |error: DataFusionError| {
        if on_web_server {
            unlisted(&error)
        } else {
            error
        }
    };
    let mut files = url
        .list_all_files(state, store, "")
        .await
        .map_err(unlistable)?;
    let mut first: Option<ObjectMeta> = None;
    let mut reason = "there are no files";
    while let Some(file) = files.try_next().await.map_err(unlistable)? {
        if url.get_glob().is_none() && is_hidden(url, &file.location) {
            continue;
        }
        if file.size == 0 {
            reason = "all files are empty";
            continue;
        }
        let rank = |file: &ObjectMeta| match known_extension(state, &file.location) {
            Some(PARQUET) => 2,
            Some(_) => 1,
            None => 0,
        };
        let better = first.as_ref().is_none_or(|best| rank(&file) > rank(best));
        if rank(&file) == 2 {
            return Ok(file);
        }
        if better {
            first = Some(file);
        }
    }
    if let Some(first) = first {
        return Ok(first);
    }
    let reason = match below(url, store).await? {
        Some(file) => format!(
            "its files are in folders below it, such as {file}; only folders named key=value are looked into, so name the folder that the files are in"
        ),
        None => reason.to_owned(),
    };
    Err(DataFusionError::Configuration(reason))
}

/// The one file at a URL of a web server. DataFusion would list a missing one as a folder, which
/// hardly any web server supports.
async fn file_at(url: &ListingTableUrl, store: &dyn ObjectStore) -> Result<ObjectMeta> {
    match store.head(url.prefix()).await {
        Err(object_store::Error::NotFound { .. }) => Err(DataFusionError::Configuration(
            "the server has no such file".to_owned(),
        )),
        found => Ok(found?),
    }
}

fn unlisted(error: &DataFusionError) -> DataFusionError {
    DataFusionError::Configuration(format!(
        "only web servers that speak WebDAV list their files, so name one file: {}",
        error.strip_backtrace()
    ))
}

/// The path of a Parquet file below the URL's folder, relative to that folder.
async fn below(url: &ListingTableUrl, store: &dyn ObjectStore) -> Result<Option<String>> {
    if url.get_glob().is_some() {
        return Ok(None);
    }
    let mut files = store.list(Some(url.prefix()));
    while let Some(file) = files.try_next().await? {
        if file.location.extension() == Some(PARQUET) && !is_hidden(url, &file.location) {
            let path: Option<Vec<&str>> = url.strip_prefix(&file.location).map(Iterator::collect);
            return Ok(path.map(|path| path.join("/")));
        }
    }
    Ok(None)
}

/// Whether a file in a folder belongs to another tool, or is one of Coscan's indexes: its name, or
/// that of a folder above it, begins with `.` or `_`. The `_` of a partition column does not
/// count.
fn is_hidden(url: &ListingTableUrl, file: &object_store::path::Path) -> bool {
    let hidden =
        |name: &str| name.starts_with('.') || (name.starts_with('_') && !name.contains('='));
    *file != *url.prefix()
        && url
            .strip_prefix(file)
            .is_some_and(|mut path| path.any(hidden))
}

/// The file's extension, if it is that of a readable format.
fn known_extension<'a>(
    state: &SessionState,
    file: &'a object_store::path::Path,
) -> Option<&'a str> {
    let extension = file.extension()?;
    state.get_file_format_factory(extension).map(|_| extension)
}

/// Parses a path as DataFusion does, and also globs in URLs.
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
