//! Which thread do connections have?
//!
//! One of their own, which does nothing else. The threads of queries may be in one step for
//! seconds (a join with a filter); a connection that shared them would answer no ping, and its
//! node would count as lost. Requests go to the threads of queries, where answers are made, too.
//! Bounds: [`FRAMES_AHEAD`] for each answer.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{Request, Response};
use http_body_util::{BodyStream, StreamBody};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

/// How many frames of an answer wait for its connection.
const FRAMES_AHEAD: usize = 2;

/// A thread for connections. It ends when this is dropped, and with it all of its connections.
#[derive(Debug)]
pub(super) struct Network {
    handle: Handle,
    /// The thread waits for its end.
    _stop: oneshot::Sender<()>,
}

impl Network {
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("coscan-network".to_owned());
        thread.spawn(move || {
            runtime.block_on(stopped.map(drop));
            runtime.shutdown_background();
        })?;
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

/// A service of connections whose requests run elsewhere.
#[derive(Clone)]
pub(super) struct RunOn<S> {
    pub(super) threads: Handle,
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
        let answered = self.service.call(request);
        let threads = self.threads.clone();
        async move {
            // A request whose connection is gone ends with it.
            let mut running = JoinSet::new();
            running.spawn_on(answered, &threads);
            match running.join_next().await {
                Some(Ok(Ok(response))) => {
                    Ok(response.map(|body| Body::new(made_on(&threads, body))))
                }
                _ => Ok(Status::internal("a request failed").into_http()),
            }
        }
        .boxed()
    }
}

/// The same body, whose frames are made on these threads, as far ahead as there is room.
fn made_on(
    threads: &Handle,
    body: Body,
) -> impl http_body::Body<Data = bytes::Bytes, Error = Status> + Send + 'static {
    let (sender, frames) = mpsc::channel(FRAMES_AHEAD);
    threads.spawn(async move {
        let mut body = pin!(BodyStream::new(body));
        loop {
            let room = tokio::select! {
                room = sender.reserve() => room,
                // Nobody reads on.
                () = sender.closed() => return,
            };
            let Ok(room) = room else { return };
            tokio::select! {
                frame = body.next() => match frame {
                    Some(frame) => room.send(frame),
                    None => return,
                },
                () = sender.closed() => return,
            }
        }
    });
    let frames = futures::stream::unfold(frames, |mut frames| async move {
        let frame = frames.recv().await?;
        Some((frame, frames))
    });
    StreamBody::new(frames)
}
