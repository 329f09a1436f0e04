//! How are files of several object stores files of one table?
//!
//! DataFusion reads all files of a table from one store. So a table with places in several stores
//! (`-t t=/disk1/t,s3://b/t`) is planned as a table of a joint store. The URL of a joint store
//! names its stores, as in `joint://file+s3.b`, and the path of each of its files begins with the
//! name of the file's own store: `file/disk1/t/1.parquet`, `s3.b/t/2.parquet`. Scans, indexes and
//! messages call [`own_place`] to find where a file really is, so the file's own device reads it.
//! Not here: which places make up one table (`tables/locations.rs`).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use url::{Position, Url};

/// The scheme of joint stores' URLs.
pub(crate) const SCHEME: &str = "joint";
/// Separates the names of stores in the URL of a joint store.
const BETWEEN: char = '+';
/// The name of the local store.
const LOCAL: &str = "file";

/// The same places in one store: in their own store if they share one, otherwise in a joint store,
/// which this function registers.
///
/// # Errors
/// If a store is unknown.
pub(crate) fn of_one_store(
    runtime: &RuntimeEnv,
    places: Vec<ListingTableUrl>,
) -> DataFusionResult<Vec<ListingTableUrl>> {
    let mut stores: Vec<ObjectStoreUrl> = Vec::new();
    for store in places.iter().map(ListingTableUrl::object_store) {
        if !stores.contains(&store) {
            stores.push(store);
        }
    }
    if stores.len() < 2 {
        return Ok(places);
    }
    stores.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    let mut known = Vec::with_capacity(stores.len());
    for store in &stores {
        known.push((name_of(store), runtime.object_store(store)?));
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let joint = format!("{SCHEME}://{}", names.join(&BETWEEN.to_string()));
    let joint = Url::parse(&joint).map_err(|error| DataFusionError::External(Box::new(error)))?;
    runtime.register_object_store(&joint, Arc::new(JointStore { stores: known }));
    let within = |place: &ListingTableUrl| {
        let own: &Url = place.as_ref();
        let mut url = joint.clone();
        url.set_path(&format!(
            "/{}{}",
            name_of(&place.object_store()),
            &own[Position::BeforePath..Position::AfterPath]
        ));
        ListingTableUrl::try_new(url, place.get_glob().clone())
    };
    places.iter().map(within).collect()
}

/// The file's own store, and its path there. Only files of a joint store are elsewhere than their
/// path says.
pub(crate) fn own_place(store: &ObjectStoreUrl, location: &Path) -> (ObjectStoreUrl, Path) {
    let mut parts = location.parts();
    if joined_in(store).is_some()
        && let Some(name) = parts.next()
        && let Some(own) = store_named(name.as_ref())
    {
        return (own, parts.collect());
    }
    (store.clone(), location.clone())
}

/// The stores behind a store: itself, unless it is a joint one.
pub(crate) fn own_stores(store: &ObjectStoreUrl) -> Vec<ObjectStoreUrl> {
    match joined_in(store) {
        Some(names) => names.split(BETWEEN).filter_map(store_named).collect(),
        None => vec![store.clone()],
    }
}

/// A file or folder as users write it: a local path or a URL.
pub(crate) fn written(store: &ObjectStoreUrl, location: &Path) -> String {
    let (store, location) = own_place(store, location);
    if store == ObjectStoreUrl::local_filesystem() {
        format!("/{location}")
    } else {
        format!("{store}{location}")
    }
}

/// The names of the stores behind a joint store.
fn joined_in(store: &ObjectStoreUrl) -> Option<&str> {
    let names = store.as_str().strip_prefix(SCHEME)?.strip_prefix("://")?;
    Some(names.trim_end_matches('/'))
}

/// The name of a store: its scheme, a dot, and its authority, in characters without a meaning in
/// URLs and paths.
fn name_of(store: &ObjectStoreUrl) -> String {
    let url: &Url = store.as_ref();
    let authority = &url[Position::AfterScheme..Position::BeforePath];
    let authority = authority.trim_start_matches("://");
    if authority.is_empty() {
        return url.scheme().to_owned();
    }
    let escaped = authority.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
        other => format!("_{other:02x}"),
    });
    format!("{}.{}", url.scheme(), escaped.collect::<String>())
}

/// The store with this name.
fn store_named(name: &str) -> Option<ObjectStoreUrl> {
    if name == LOCAL {
        return Some(ObjectStoreUrl::local_filesystem());
    }
    let (scheme, escaped) = name.split_once('.')?;
    let mut authority = Vec::with_capacity(escaped.len());
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'_' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            authority.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            authority.push(byte);
        }
    }
    let authority = String::from_utf8(authority).ok()?;
    ObjectStoreUrl::parse(format!("{scheme}://{authority}")).ok()
}

/// The files of several stores. It is read-only: tables in several stores cannot be written to.
#[derive(Debug)]
struct JointStore {
    /// The stores by name.
    stores: Vec<(String, Arc<dyn ObjectStore>)>,
}

impl JointStore {
    /// The store that has a file, and the file's path there.
    fn own(&self, location: &Path) -> Result<(&str, &Arc<dyn ObjectStore>, Path)> {
        let mut parts = location.parts();
        let name = parts.next();
        let named = |(own, _): &&(String, Arc<dyn ObjectStore>)| {
            name.as_ref().is_some_and(|name| name.as_ref() == own)
        };
        match self.stores.iter().find(named) {
            Some((name, store)) => Ok((name, store, parts.collect())),
            None => Err(Error::NotFound {
                path: location.to_string(),
                source: "none of the joined stores has such a path".into(),
            }),
        }
    }

    fn refuses<T>(&self, operation: &str) -> Result<T> {
        Err(Error::NotImplemented {
            operation: operation.to_owned(),
            implementer: self.to_string(),
        })
    }
}

/// A path of a store, as the joint store has it.
fn within(name: &str, location: &Path) -> Path {
    std::iter::once(name.into())
        .chain(location.parts())
        .collect()
}

fn entry_within(name: &str, meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        location: within(name, &meta.location),
        ..meta
    }
}

#[async_trait]
impl ObjectStore for JointStore {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        self.refuses("put")
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.refuses("put_multipart")
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (_, store, own) = self.own(location)?;
        let mut found = store.get_opts(&own, options).await?;
        found.meta.location = location.clone();
        Ok(found)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (_, store, own) = self.own(location)?;
        store.get_ranges(&own, ranges).await
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        stream::iter([self.refuses("delete")]).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.own(prefix.unwrap_or(&Path::default())) {
            Ok((name, store, own)) => {
                let name = name.to_owned();
                let entries = store.list(Some(&own));
                entries
                    .map_ok(move |entry| entry_within(&name, entry))
                    .boxed()
            }
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let (name, store, own) = self.own(prefix.unwrap_or(&Path::default()))?;
        let listed = store.list_with_delimiter(Some(&own)).await?;
        let (objects, folders) = (listed.objects.into_iter(), listed.common_prefixes.iter());
        Ok(ListResult {
            objects: objects.map(|entry| entry_within(name, entry)).collect(),
            common_prefixes: folders.map(|folder| within(name, folder)).collect(),
        })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        self.refuses("copy")
    }
}

impl fmt::Display for JointStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.stores.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "the joint store of {}", names.join(" and "))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    fn url(text: &str) -> ObjectStoreUrl {
        ObjectStoreUrl::parse(text).unwrap()
    }

    #[test]
    fn a_store_is_found_by_its_name() {
        let local = ObjectStoreUrl::local_filesystem();
        assert_eq!(name_of(&local), LOCAL);
        for text in ["s3://my-bucket", "http://host.org:9000", "s3://a_b.c"] {
            let name = name_of(&url(text));
            assert!(!name.contains(['/', ':', BETWEEN]), "{name}");
            assert_eq!(store_named(&name), Some(url(text)));
        }
        assert_eq!(store_named(&name_of(&local)), Some(local));
        assert_eq!(store_named("nonsense"), None);
        assert_eq!(store_named("s3.a_z"), None);
    }

    #[tokio::test]
    async fn a_joint_store_reads_files_from_their_own_stores() {
        let runtime = RuntimeEnv::default();
        let mut own = Vec::new();
        for (name, file) in [("one", "t/1.parquet"), ("two", "deep/er/2 2.parquet")] {
            let store = Arc::new(InMemory::new());
            store.put(&file.into(), vec![7; 5].into()).await.unwrap();
            let at = format!("memory://{name}");
            runtime.register_object_store(&Url::parse(&at).unwrap(), store);
            own.push((url(&at), Path::from(file)));
        }
        let places = ["memory://one/t/", "memory://two/deep/er/"];
        let places: Vec<_> = places.map(|at| ListingTableUrl::parse(at).unwrap()).into();
        assert_eq!(
            of_one_store(&runtime, places[..1].to_vec()).unwrap(),
            places[..1]
        );
        let joined = of_one_store(&runtime, places).unwrap();
        let joint = joined[0].object_store();
        assert_eq!(joined[1].object_store(), joint);
        assert_eq!(
            own_stores(&joint),
            [url("memory://one"), url("memory://two")]
        );
        let store = runtime.object_store(&joint).unwrap();
        for (place, own) in joined.iter().zip(own) {
            let files: Vec<_> = store
                .list(Some(place.prefix()))
                .try_collect()
                .await
                .unwrap();
            assert_eq!(files.len(), 1);
            let location = &files[0].location;
            assert!(place.contains(location, false), "{place} {location}");
            assert_eq!(own_place(&joint, location), own);
            assert_eq!(written(&joint, location), format!("{}{}", own.0, own.1));
            assert_eq!(store.head(location).await.unwrap(), files[0]);
            let ranges = store.get_ranges(location, &[1..3, 4..5]).await.unwrap();
            assert_eq!((ranges[0].len(), ranges[1].len()), (2, 1));
            let folder = store
                .list_with_delimiter(Some(place.prefix()))
                .await
                .unwrap();
            assert_eq!(folder.objects, files);
        }
        assert!(
            store
                .put(&"memory.one/x".into(), vec![1].into())
                .await
                .is_err()
        );
        assert!(store.head(&"memory.three/x".into()).await.is_err());
    }
}
