//! How are files in several places one table?
//!
//! `-t lineitem=/disk1/li,s3://b/li`: each place is a file, a folder, a glob or a URL. All have
//! the same format and the same columns, so a row may lie in any of them. This is how a table that
//! is spread over devices is named.
//! Not here: which files are at one place (`registration.rs`), how files of several stores are
//! planned (`object_stores/joint_store.rs`), which device a file is on (coscan-storage,
//! `devices.rs`).

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::datasource::listing::{ListingOptions, ListingTableUrl};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use futures::TryStreamExt;
use object_store::ObjectMeta;

use crate::object_stores::joint_store::written;

/// The places that a text names: one, or several separated by commas. A file or folder whose own
/// name has a comma is one place. So is a URL, unless a path or URL begins after each comma.
pub(super) fn split(text: &str) -> Vec<&str> {
    let pieces: Vec<&str> = text.split(',').collect();
    let begins = |piece: &&str| piece.starts_with('/') || piece.contains("://");
    let one_url = text.contains("://") && !pieces.iter().skip(1).all(begins);
    if pieces.len() == 1 || one_url || Path::new(text).exists() {
        return vec![text];
    }
    pieces
}

/// One of several places, with the options for listing and reading its files.
pub(super) struct Place {
    pub(super) text: String,
    pub(super) url: ListingTableUrl,
    pub(super) options: ListingOptions,
}

impl Place {
    /// The name of one of its files in messages.
    fn name(&self, file: &ObjectMeta) -> String {
        written(&self.url.object_store(), &file.location)
    }

    async fn files(&self, state: &SessionState) -> Result<Vec<ObjectMeta>> {
        let store = state.runtime_env().object_store(&self.url)?;
        let extension = &self.options.file_extension;
        let files = self.url.list_all_files(state, store.as_ref(), extension);
        let mut files: Vec<ObjectMeta> = files.await?.try_collect().await?;
        files.retain(|file| file.size > 0);
        files.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(files)
    }

    async fn schema(&self, state: &SessionState) -> Result<SchemaRef> {
        self.options.infer_schema(state, &self.url).await
    }
}

/// The columns that all places agree on.
///
/// # Errors
/// If two places differ in format, in partition columns or in the files' columns. Both are named,
/// in the last case by a file of each.
pub(super) async fn agreed(state: &SessionState, places: &[Place]) -> Result<SchemaRef> {
    let [first, others @ ..] = places else {
        return refuse("no place is named".to_owned());
    };
    let schema = first.schema(state).await?;
    let mut merged = Schema::clone(&schema);
    for other in others {
        let (a, b) = (&first.text, &other.text);
        if first.options.format.get_ext() != other.options.format.get_ext() {
            return refuse(format!("{a} and {b} have files of different formats"));
        }
        if first.options.table_partition_cols != other.options.table_partition_cols {
            return refuse(format!(
                "{a} and {b} have different folders named key=value"
            ));
        }
        let theirs = other.schema(state).await?;
        if let Some(reason) = differ(&schema, &theirs) {
            let a = culprit(state, first, &theirs).await?.unwrap_or(a.clone());
            let b = culprit(state, other, &schema).await?.unwrap_or(b.clone());
            return refuse(format!("{a} and {b} have different columns: {reason}"));
        }
        merged = Schema::try_merge([merged, Schema::clone(&theirs)])?;
    }
    Ok(Arc::new(merged))
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(DataFusionError::Configuration(reason))
}

/// How the columns of two schemas differ, if they do. Nullability and metadata do not count.
fn differ(a: &Schema, b: &Schema) -> Option<String> {
    for field in a.fields() {
        let name = field.name();
        let Ok(other) = b.field_with_name(name) else {
            return Some(format!("only the first has {name}"));
        };
        let (one, two) = (field.data_type(), other.data_type());
        if one != two {
            return Some(format!("{name} is {one} and {two}"));
        }
    }
    let unknown = |name: &&String| a.field_with_name(name).is_err();
    let mut names = b.fields().iter().map(|field| field.name());
    names
        .find(unknown)
        .map(|name| format!("only the second has {name}"))
}

/// The first file of a place that does not have these columns.
async fn culprit(state: &SessionState, place: &Place, schema: &Schema) -> Result<Option<String>> {
    let store = state.runtime_env().object_store(&place.url)?;
    for file in place.files(state).await? {
        let one = std::slice::from_ref(&file);
        let own = place
            .options
            .format
            .infer_schema(state, &store, one)
            .await?;
        if differ(schema, &own).is_some() {
            return Ok(Some(place.name(&file)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_lie_between_places() {
        let folder = tempfile::tempdir().expect("a folder");
        let with_comma = folder.path().join("a,b");
        std::fs::create_dir(&with_comma).expect("made");
        let with_comma = with_comma.to_str().expect("UTF-8");
        assert_eq!(split(with_comma), [with_comma]);
        assert_eq!(split("/a/x,/b/x"), ["/a/x", "/b/x"]);
        assert_eq!(split("a,b"), ["a", "b"]);
        assert_eq!(split("s3://b/x,y.parquet"), ["s3://b/x,y.parquet"]);
        assert_eq!(split("s3://b/x,s3://b/y"), ["s3://b/x", "s3://b/y"]);
        assert_eq!(split("/a"), ["/a"]);
    }
}
