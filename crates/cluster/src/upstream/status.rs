//! How does a node say how busy it is, and how is that heard?
//!
//! The library's question for a node's version is the question for its status. Its answer has the
//! version alone, which is fixed when a node starts; how busy the node is comes in a header beside
//! it. A node of an older program sends no such header.
//! Not here: what is in the header (`nodes/report.rs`).

use std::sync::Arc;
use std::task::{Context, Poll};

use coscan_core::parallelism::nodes::NodeReport;
use datafusion_distributed::grpc::BoxCloneSyncChannel;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response};
use parking_lot::Mutex;
use tonic::body::Body;
use tower::Service;

use crate::nodes::report;

/// The header.
const HEADER: &str = "x-coscan-load";

/// The question, as the library asks it.
const QUESTION: &str = "/worker.WorkerService/GetWorkerInfo";

/// Whether a request asks for a node's status.
pub(super) fn is_asked_for(request: &Request<Body>) -> bool {
    request.uri().path() == QUESTION
}

/// Adds how busy the node is to its answer.
pub(super) fn say(said: &NodeReport, headers: &mut HeaderMap) {
    // Digits and spaces are a header's value.
    if let Ok(value) = HeaderValue::from_str(&report::written(said)) {
        headers.insert(HEADER, value);
    }
}

fn read(headers: &HeaderMap) -> Option<NodeReport> {
    report::read(headers.get(HEADER)?.to_str().ok()?)
}

/// What was said over a connection. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Option<NodeReport>>>);

impl Heard {
    /// The connection, of which the answers are listened to.
    pub(super) fn on(&self, channel: BoxCloneSyncChannel) -> BoxCloneSyncChannel {
        BoxCloneSyncChannel::new(Listening {
            channel,
            heard: self.clone(),
        })
    }

    /// What the last answer said.
    pub(super) fn last(&self) -> Option<NodeReport> {
        *self.0.lock()
    }
}

#[derive(Clone)]
struct Listening {
    channel: BoxCloneSyncChannel,
    heard: Heard,
}

impl Service<Request<Body>> for Listening {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, tonic::transport::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answered = self.channel.call(request);
        let heard = self.heard.clone();
        async move {
            let answer = answered.await?;
            *heard.0.lock() = read(answer.headers());
            Ok(answer)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read() {
        let said = NodeReport {
            tasks: 1,
            processors: 2,
            device_permille: 3,
            free_permille: 4,
        };
        let mut headers = HeaderMap::new();
        assert_eq!(read(&headers), None, "an older program");
        say(&said, &mut headers);
        assert_eq!(read(&headers), Some(said));
    }
}
