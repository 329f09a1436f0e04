//! How does a consumer get the next chunk of its scan?
//!
//! Idea: a consumer that asks holds a claim; the core's answers go to any consumer with a claim. A
//! dropped call gives up its claim, or passes its answer on.
//! Not here: which chunk (coscan-core), what the consumer then holds (`place.rs`).
//! C1: `next_chunk` is cancel safe: a chunk that was handed to a dropped call goes to the next
//! consumer that asks.
//! C2: every chunk of a scan is handed out once, or withdrawn, or the scan fails.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use coscan_core::{Event, LoadOrigin};

use super::place::{Kept, Place};
use super::scan::Scan;
use crate::pool::Inner;
use crate::pool::state::{Answer, Handed};
use crate::{Result, StorageError};

impl Scan {
    /// Like [`Scan::next_chunk`], for a new lease or for one that resumes after a lapse.
    pub(crate) async fn next_place(self: &Arc<Self>) -> Result<Option<Kept>> {
        let begun = Instant::now();
        let mut claim = Claim {
            scan: self,
            active: false,
        };
        let answer = poll_fn(|cx| self.poll_answer(cx, &mut claim)).await?;
        let Answer::Chunk(handed) = answer else {
            return Ok(None);
        };
        let tries = self.with_scan(|state| state.again.map_or(0, |(_, tries)| tries));
        let place = Place::new(self, &handed, tries.unwrap_or(0));
        let mut taken = Taken {
            scan: self,
            kept: Some(Kept::new(Arc::clone(&place))),
        };
        place.enter().await;
        let waited = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.with_scan(|state| state.metrics.waited_ns += waited);
        Ok(taken.kept.take())
    }

    /// Gives the chunk to whichever consumer asks next.
    pub(crate) fn hand_on(&self, kept: Kept) {
        let handed = kept.hand_on();
        self.inner().with_state(|pool, effects| {
            if let Some(scan) = pool.scans.get_mut(self.id()) {
                scan.answers.push_front(Answer::Chunk(handed));
                effects.wakers.append(&mut scan.wakers);
            }
        });
    }

    fn poll_answer(&self, cx: &Context<'_>, claim: &mut Claim<'_>) -> Poll<Result<Answer>> {
        self.inner().with_state(|pool, effects| {
            let gone = || StorageError::Internal("the scan has ended".into());
            let Some(scan) = pool.scans.get_mut(self.id()) else {
                return Poll::Ready(Err(gone()));
            };
            if let Some(failure) = &scan.failure {
                return Poll::Ready(Err(failure.clone()));
            }
            if !claim.active {
                // Answers beyond the number of claims were meant for cancelled calls (C1).
                if scan.answers.len() > scan.claims
                    && let Some(answer) = scan.answers.pop_front()
                {
                    return Poll::Ready(Ok(answer));
                }
                if let Some(chunk) = scan.without_bytes.pop_front() {
                    scan.metrics.chunks_without_bytes += 1;
                    let handed = Handed::new(chunk, LoadOrigin::FromBuffer, false);
                    return Poll::Ready(Ok(Answer::Chunk(handed)));
                }
                scan.claims += 1;
                claim.active = true;
                if let Err(error) = pool.handle(Event::ChunkRequested { scan: self.id() }, effects)
                {
                    return Poll::Ready(Err(error));
                }
            }
            let Some(scan) = pool.scans.get_mut(self.id()) else {
                return Poll::Ready(Err(gone()));
            };
            if let Some(answer) = scan.answers.pop_front() {
                scan.claims -= 1;
                claim.active = false;
                return Poll::Ready(Ok(answer));
            }
            if !scan.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                scan.wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// A chunk on its way to a consumer; it goes to another consumer if the call is cancelled.
struct Taken<'a> {
    scan: &'a Scan,
    kept: Option<Kept>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.scan.hand_on(kept);
        }
    }
}

/// A consumer's claim to an answer; a cancelled call gives it up.
struct Claim<'a> {
    scan: &'a Scan,
    active: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.active {
            return;
        }
        let id = self.scan.id();
        self.scan.inner().with_state(|pool, effects| {
            let Some(scan) = pool.scans.get_mut(id) else {
                return;
            };
            scan.claims -= 1;
            if scan.failure.is_some() {
                return;
            }
            if scan.answers.len() > scan.claims {
                // The answer to this claim is already queued: another consumer may take it (C1).
                effects.wakers.append(&mut scan.wakers);
            } else {
                Inner::log(pool.handle(Event::RequestWithdrawn { scan: id }, effects));
            }
        });
    }
}
