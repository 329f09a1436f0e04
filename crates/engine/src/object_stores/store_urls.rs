//! Which object store does a URL mean, and how is it configured?
//!
//! As in the AWS tools, `s3://bucket/...` takes `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
//! `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`, `AWS_SKIP_SIGNATURE`
//! and so on from the environment; without credentials there, it takes those of the instance or
//! container. `http://` and `https://` read from web servers that answer range requests.
//! Not here: the devices that read from these stores (`coscan-storage`).

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, RetryConfig};
use url::Url;

use crate::error::{Error, Result};

/// The part of a URL that names its store: scheme, host and port.
pub(crate) fn store_url(url: &Url) -> Result<Url> {
    let text = &url[url::Position::BeforeScheme..url::Position::BeforePath];
    Url::parse(text).map_err(|error| refused(url, &error))
}

/// The store for a URL that is not local; `None` for an unknown scheme.
///
/// # Errors
/// [`Error::Store`] if the environment does not configure it.
pub(crate) fn open(url: &Url) -> Result<Option<Arc<dyn ObjectStore>>> {
    match url.scheme() {
        "s3" | "s3a" => {
            let mut builder = AmazonS3Builder::from_env()
                .with_bucket_name(url.host_str().unwrap_or_default())
                .with_retry(RetryConfig::default());
            let endpoint = std::env::var("AWS_ENDPOINT_URL_S3")
                .or_else(|_| std::env::var("AWS_ENDPOINT_URL"))
                .or_else(|_| std::env::var("AWS_ENDPOINT"));
            // An endpoint with http:// is used as written, as in the AWS tools.
            if endpoint.is_ok_and(|endpoint| endpoint.starts_with("http://")) {
                builder = builder.with_allow_http(true);
            }
            let store = builder.build().map_err(|error| refused(url, &error))?;
            Ok(Some(Arc::new(store)))
        }
        "http" | "https" => {
            let options = ClientOptions::new().with_allow_http(true);
            let store = HttpBuilder::new()
                .with_url(store_url(url)?.as_str())
                .with_client_options(options)
                .build()
                .map_err(|error| refused(url, &error))?;
            Ok(Some(Arc::new(store)))
        }
        _ => Ok(None),
    }
}

fn refused(url: &Url, error: &dyn std::error::Error) -> Error {
    Error::Store {
        url: url.to_string(),
        reason: error.to_string(),
    }
}
