//! Which file does the target's name denote?
//!
//! The name is a path, or a URL in a store. Links in the folder part of a local path are resolved,
//! so that the path can be compared with the source's files; a link in place of the file itself is
//! replaced, not followed. Nothing is opened here (`target.rs`).

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use object_store::path::Path as ObjectPath;
use url::{Position, Url};

use crate::error::RewriteError;

/// The place of a new file.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The name as the user wrote it.
    pub(crate) text: String,
    /// The store's URL: `file:///`, `s3://bucket`.
    pub(crate) store: Url,
    /// The file's path in its store.
    pub(crate) path: ObjectPath,
    /// The path of a local file.
    pub(crate) local: Option<PathBuf>,
}

impl Place {
    /// Reads a path or a URL.
    ///
    /// # Errors
    /// [`RewriteError::Folder`]; [`RewriteError::Write`] for a file in a folder that does not
    /// exist.
    pub(crate) fn parse(text: &str) -> Result<Self, RewriteError> {
        if !text.contains("://") {
            return Self::local(text, Path::new(text));
        }
        let url = Url::parse(text).map_err(|error| wrong(text, &error))?;
        if url.scheme() != "file" {
            return Self::object(text, &url);
        }
        let path = url.to_file_path();
        let no_path = |()| write_error(text, io::ErrorKind::InvalidFilename.into());
        Self::local(text, &path.map_err(no_path)?)
    }

    fn local(text: &str, path: &Path) -> Result<Self, RewriteError> {
        let name = path.file_name();
        let name = name.filter(|_| !text.ends_with('/') && !path.is_dir());
        let name = name.ok_or_else(|| folder(text))?;
        let beside = path.parent().filter(|beside| *beside != Path::new(""));
        let beside = beside.unwrap_or(Path::new("."));
        let missing = |error: io::Error| {
            let about = format!("{}: {error}", beside.display());
            write_error(text, io::Error::new(error.kind(), about))
        };
        let path = std::fs::canonicalize(beside).map_err(missing)?.join(name);
        Ok(Self {
            text: text.to_owned(),
            store: Url::parse("file:///").map_err(|error| wrong(text, &error))?,
            path: ObjectPath::from_absolute_path(&path).map_err(|error| wrong(text, &error))?,
            local: Some(path),
        })
    }

    fn object(text: &str, url: &Url) -> Result<Self, RewriteError> {
        let path = ObjectPath::from_url_path(url.path()).map_err(|error| wrong(text, &error))?;
        if path.as_ref().is_empty() || url.path().ends_with('/') {
            return Err(folder(text));
        }
        Ok(Self {
            text: text.to_owned(),
            store: store_url(url).map_err(|error| wrong(text, &error))?,
            path,
            local: None,
        })
    }
}

/// The error for a target that cannot be written for this reason.
pub(crate) fn write_error(path: &str, source: io::Error) -> RewriteError {
    RewriteError::Write {
        path: path.to_owned(),
        source,
    }
}

/// The part of a URL that names its store: scheme, host and port.
fn store_url(url: &Url) -> Result<Url, url::ParseError> {
    Url::parse(&url[Position::BeforeScheme..Position::BeforePath])
}

fn wrong(text: &str, error: &dyn Error) -> RewriteError {
    let kind = io::ErrorKind::InvalidInput;
    write_error(text, io::Error::new(kind, error.to_string()))
}

fn folder(path: &str) -> RewriteError {
    RewriteError::Folder {
        path: path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_of_the_same_file_are_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(folder.path()).unwrap();
        let path = Place::parse(&format!("{}/./t.parquet", folder.path().display())).unwrap();
        let url = Place::parse(&format!("file://{}/t.parquet", folder.path().display())).unwrap();
        assert_eq!(path.local, Some(real.join("t.parquet")));
        assert_eq!(
            (&path.local, &path.path, &path.store),
            (&url.local, &url.path, &url.store)
        );
        let here = Place::parse("t.parquet").unwrap();
        let folder = std::env::current_dir().unwrap();
        assert_eq!(
            here.local,
            Some(std::fs::canonicalize(folder).unwrap().join("t.parquet"))
        );
        let object = Place::parse("s3://bucket/a/b%20c.parquet").unwrap();
        assert_eq!(
            (object.path.as_ref(), object.store.as_str()),
            ("a/b c.parquet", "s3://bucket")
        );
        assert!(object.local.is_none());
    }
}
