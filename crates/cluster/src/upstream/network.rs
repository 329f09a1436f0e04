//! Which thread do connections have?
//!
//! One of their own, which runs no part of a query. The threads of queries may be in one step for
//! seconds (a join with a filter); a connection that shared them would answer no ping, and its
//! node would count as lost. Requests go to the threads of queries, where answers are made, in the
//! turns of the query that asks. Only what a node says of itself is answered here: it takes
//! microseconds, and matters most while the threads of queries are busy.
//! Bounds: [`FRAMES_AHEAD`] for each answer; a frame is a batch at most.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::{Arc, mpsc as threads};
use std::task::{Context, Poll};

use bytes::Bytes;
use coscan::running::QueryRuntime;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::status;
use crate::nodes::report::Reporting;

/// How many frames of an answer wait for its connection. No budget counts them.
const FRAMES_AHEAD: usize = 1;

/// What the message of a status begins with if a request came to no end: it panicked, or its
/// threads are gone.
const FAILED: &str = "a request failed";

/// A thread for connections. Dropped, it ends soon, and all of its connections with it.
#[derive(Debug)]
pub(super) struct Network {
    handle: Handle,
    /// The thread waits for its end.
    _stop: oneshot::Sender<()>,
}

impl Network {
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn start() -> io::Result<Self> {
        let (started, made) = threads::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("coscan-network".to_owned());
        thread.spawn(move || {
            // Made here: a thread of another runtime could not drop it.
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            drop(started.send(Ok(runtime.handle().clone())));
            runtime.block_on(stopped.map(drop));
            runtime.shutdown_background();
        })?;
        let handle = made.recv().map_err(|_| io::Error::other("it ended"))??;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where connections that this process opens run.
    pub(super) fn executor(&self) -> Executor {
        Executor(self.handle.clone())
    }
}

/// See [`Network::executor`].
pub(super) struct Executor(Handle);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// A service of connections whose requests run on the threads of queries.
#[derive(Clone)]
pub(super) struct RunOn<S> {
    pub(super) queries: Arc<QueryRuntime>,
    pub(super) reporting: Reporting,
    pub(super) service: S,
}

impl<S> Service<Request<Body>> for RunOn<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let asks_for_status = status::is_asked_for(&request);
        let answered = self.service.call(request);
        if asks_for_status {
            let reporting = Arc::clone(&self.reporting);
            return async move {
                let mut answer = answered.await?;
                status::say(&reporting(), answer.headers_mut());
                Ok(answer)
            }
            .boxed();
        }
        let queries = Arc::clone(&self.queries);
        async move {
            let query = queries.tasks.begin();
            // A request whose connection is gone ends with it.
            let mut running = JoinSet::new();
            running.spawn_on(query.schedule(answered.boxed()), &queries.handle);
            let failed = match running.join_next().await {
                Some(Ok(Ok(response))) => {
                    return Ok(response.map(|body| {
                        let made = |sending: BoxFuture<'static, ()>| {
                            queries.handle.spawn(query.schedule(sending));
                        };
                        made_by(made, body)
                    }));
                }
                Some(Err(error)) => format!("{FAILED}: {error}"),
                None => FAILED.to_owned(),
            };
            Ok(Status::internal(failed).into_http())
        }
        .boxed()
    }
}

/// The same body, whose frames are made by a future that `run` runs, as far ahead as there is room.
fn made_by(run: impl FnOnce(BoxFuture<'static, ()>), body: Body) -> Body {
    if http_body::Body::is_end_stream(&body) {
        return body;
    }
    let (sender, frames) = mpsc::channel(FRAMES_AHEAD);
    run(sending(body, sender).boxed());
    let frames = futures::stream::unfold(Some(frames), |frames| async move {
        let mut frames = frames?;
        match frames.recv().await {
            Some(Some(frame)) => Some((frame, Some(frames))),
            Some(None) => None,
            None => Some((Err(Status::internal(FAILED)), None)),
        }
    });
    Body::new(StreamBody::new(frames))
}

/// Sends the frames of a body, and `None` after the last; less if its reader is gone.
async fn sending(body: Body, sender: mpsc::Sender<Option<Result<Frame<Bytes>, Status>>>) {
    let mut body = pin!(BodyStream::new(body));
    // Fails once the reader is gone.
    while let Ok(room) = sender.reserve().await {
        let next = tokio::select! {
            next = body.next() => next,
            () = sender.closed() => return,
        };
        let is_last = next.is_none();
        room.send(next);
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;
    use http_body_util::BodyExt;

    use super::*;

    fn spawned(sending: BoxFuture<'static, ()>) {
        tokio::spawn(sending);
    }

    fn body(
        frames: impl futures::Stream<Item = Result<Frame<Bytes>, Status>> + Send + 'static,
    ) -> Body {
        made_by(spawned, Body::new(StreamBody::new(frames)))
    }

    fn data(text: &'static str) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn frames_and_trailers_arrive_in_order() {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        let last = Frame::trailers(trailers.clone());
        let frames = [data("a"), data("b"), last].map(Ok);
        let all = body(futures::stream::iter(frames)).collect().await.unwrap();
        assert_eq!(all.trailers(), Some(&trailers));
        assert_eq!(all.to_bytes(), "ab");
    }

    #[tokio::test]
    async fn an_error_and_a_panic_are_no_end() {
        let frames = [Ok(data("a")), Err(Status::data_loss("x"))];
        let error = body(futures::stream::iter(frames))
            .collect()
            .await
            .unwrap_err();
        assert_eq!(error.code(), tonic::Code::DataLoss);

        let frames = futures::stream::iter([Ok(data("a"))]);
        let frames = frames.chain(futures::stream::once(async { panic!("in a part") }));
        let error = body(frames).collect().await.unwrap_err();
        assert_eq!(error.message(), FAILED);
    }

    #[tokio::test]
    async fn a_body_ends_when_its_reader_is_dropped() {
        let (alive, ended) = oneshot::channel::<()>();
        let frames = futures::stream::once(async move {
            let _alive = alive;
            std::future::pending().await
        });
        let mut unread = body(frames);
        let wait = Duration::from_millis(20);
        assert!(tokio::time::timeout(wait, unread.frame()).await.is_err());
        drop(unread);
        ended.await.expect_err("its frames are dropped");
    }
}
