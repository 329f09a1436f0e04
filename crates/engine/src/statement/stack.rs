//! How does work get a stack that is large enough, wherever it is asked for?
//!
//! Syntax trees, expressions and plans are cloned, compared and dropped by derived code, which
//! calls itself once per level and checks no limit. A thread of Tokio has 2 MiB of stack. So
//! parsing and planning run on a stack of their own, as large as the statement may need. It takes
//! memory only as far as it is used. Making it, touching it first and unmapping it took a quarter
//! of the processor time of `SELECT 1` in a server, so a server's threads have
//! [`THREAD_STACK_BYTES`](super::THREAD_STACK_BYTES), and only statements that need more get
//! another stack.
//! Refused: only threads with large stacks, which every embedder would have to set up.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs `work` with at least `bytes` of stack.
pub(crate) fn with_stack<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(bytes, bytes + SLACK_BYTES, work)
}

/// A future that is polled, and dropped, with at least so many bytes of stack.
pub(crate) struct OnStack<F> {
    /// `None` once the future is ready or being dropped.
    future: Option<Pin<Box<F>>>,
    bytes: usize,
}

impl<F> OnStack<F> {
    pub(crate) fn new(bytes: usize, future: F) -> Self {
        Self {
            future: Some(Box::pin(future)),
            bytes,
        }
    }
}

impl<F: Future> Future for OnStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, bytes } = &mut *self;
        with_stack(*bytes, || {
            let Some(polled) = future.as_mut().map(|work| work.as_mut().poll(context)) else {
                return Poll::Pending;
            };
            if polled.is_ready() {
                // What the future still holds is dropped on this stack, too.
                *future = None;
            }
            polled
        })
    }
}

impl<F> Drop for OnStack<F> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            with_stack(self.bytes, || drop(future));
        }
    }
}

/// Stack for the caller's frames that may come before the check.
const SLACK_BYTES: usize = 64 << 10;
