//! Promised: a statement that names a table several times sees one state of its files, and the next
//! statement sees the files that were added.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};

use crate::common::{self, config, rows};

/// A store to which a file is added after each listing.
#[derive(Debug, Default)]
struct Growing {
    inner: InMemory,
    listed: AtomicU32,
}

impl Growing {
    async fn grow(&self) {
        let number = self.listed.fetch_add(1, Ordering::SeqCst);
        let (from, to) = ("t/0.parquet", format!("t/{}.parquet", number + 1));
        let (from, to) = (StorePath::from(from), StorePath::from(to));
        self.inner.copy(&from, &to).await.expect("copied");
    }
}

impl fmt::Display for Growing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Growing")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Growing {
    async fn put_opts(
        &self,
        location: &StorePath,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &StorePath,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &StorePath, options: GetOptions) -> StoreResult<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<StorePath>>,
    ) -> BoxStream<'static, StoreResult<StorePath>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let found: Vec<_> = self
            .inner
            .list(prefix)
            .collect()
            .now_or_never()
            .expect("there");
        self.grow().now_or_never().expect("in memory");
        stream::iter(found).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &StorePath,
        to: &StorePath,
        options: CopyOptions,
    ) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_sees_one_state_of_a_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let schema = common::schema(vec![Field::new("v", DataType::Int64, false)]);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1; 10]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).expect("a batch");
    common::write(&path, schema, &[batch], 10);
    let store = Arc::new(Growing::default());
    let bytes = std::fs::read(&path).expect("read");
    let first = StorePath::from("t/0.parquet");
    store.inner.put(&first, bytes.into()).await.expect("put");
    let session = common::session(config(), &[]).await;
    let url = url::Url::parse("growing://store").expect("a URL");
    let runtime = session.engine().runtime();
    runtime.register_object_store(&url, Arc::clone(&store) as Arc<dyn ObjectStore>);
    session
        .register("t", "growing://store/t/")
        .await
        .expect("registered");
    let mut before = 0;
    for sql in [
        "SELECT (SELECT count(*) FROM t) a, (SELECT sum(v) FROM t) b",
        "WITH x AS (SELECT * FROM t) SELECT (SELECT count(*) FROM x) a, (SELECT sum(v) FROM t) b",
        "SELECT count(*) a, max(b) b FROM t, (SELECT sum(v) b FROM t) s",
        "SELECT count(*) a, (SELECT sum(v) FROM t) b FROM t WHERE v IN (SELECT v FROM t)",
    ] {
        let found: Vec<String> = rows(&session, sql).await;
        let numbers: Vec<u64> = found[0]
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        assert_eq!(numbers.len(), 2, "{sql}: {found:?}");
        assert_eq!(numbers[0], numbers[1], "{sql}");
        assert!(numbers[0] > before, "{sql}: files that were added are seen");
        before = numbers[0];
    }
}
