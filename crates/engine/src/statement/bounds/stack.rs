//! How does parsing or planning get a large enough stack on any thread?
//!
//! Derived code clones, compares and drops syntax trees, expressions and plans; it calls itself
//! once per level and checks no limit. A Tokio thread has 2 MiB of stack. So parsing and planning
//! run on a separate stack, as large as the statement may need; it takes memory only as far as it
//! is used. Mapping such a stack, touching it and unmapping it took a quarter of the processor
//! time of `SELECT 1` in a server, so a server's threads have
//! [`THREAD_STACK_BYTES`](crate::statement::THREAD_STACK_BYTES), and only statements that need
//! more get another stack.
//! Rejected: only threads with large stacks, which every embedder would have to set up.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs `work` with at least `bytes` of stack.
pub(crate) fn with_stack<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(bytes, bytes + SLACK_BYTES, work)
}

/// A future that is polled and dropped on a stack of at least this many bytes.
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
                // Whatever the future still holds is dropped on this stack, too.
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

/// Extra stack for the caller's frames, which may come before the check.
const SLACK_BYTES: usize = 64 << 10;
