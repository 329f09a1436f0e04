//! Clients that are not authenticated yet: their places, their clock and their wake-ups.
//!
//! `admission.rs` decides which client may begin and which must make room. This file brings its
//! decisions to the clients' tasks. A task is asked to leave, not aborted: it first reads what has
//! arrived, and tells the client why it is refused. On a busy runtime a message may wait in the
//! kernel for long before its task runs. So a task that is asked to leave lingers by its own
//! clock: timers fire after the runtime has polled the sockets.
//! Not here: the listener, which asks whether another client may come (`listen.rs`).

mod admission;

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::cancel::passed;
use crate::failure::Failure;
use admission::{Action, Admission, SILENCE};

/// The unauthenticated clients of a server.
#[derive(Clone)]
pub(crate) struct Unauthenticated(Arc<Registry>);

struct Registry {
    opened: Instant,
    /// A client has gone, or has sent its first bytes.
    changed: Notify,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    admission: Admission,
    calls: HashMap<u64, watch::Sender<Call>>,
}

/// The last order to an unauthenticated client's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Wait,
    Begin,
    Leave,
}

/// An unauthenticated client's place. Dropping this frees the place.
pub(crate) struct Place {
    clients: Unauthenticated,
    number: u64,
    call: watch::Receiver<Call>,
}

impl Default for Unauthenticated {
    fn default() -> Self {
        Self(Arc::new(Registry {
            opened: Instant::now(),
            changed: Notify::new(),
            inner: Mutex::default(),
        }))
    }
}

impl Unauthenticated {
    /// Takes a place. Call this only after [`Unauthenticated::settle`] has returned true.
    pub(crate) fn enter(&self, address: IpAddr) -> Place {
        let mut inner = self.lock();
        let number = inner.admission.arrived(self.now(), address);
        let (sender, call) = watch::channel(Call::Wait);
        inner.calls.insert(number, sender);
        drop(inner);
        Place {
            clients: self.clone(),
            number,
            call,
        }
    }

    /// Tells tasks to begin or to leave. Returns whether another client may come. `short` says
    /// that other parts of the server need descriptors.
    pub(crate) fn settle(&self, short: bool) -> bool {
        let (now, mut inner) = (self.now(), self.lock());
        while let Some(action) = inner.admission.poll_action(now, short) {
            let (number, call) = match action {
                Action::Begin(number) => (number, Call::Begin),
                Action::Leave(number) => (number, Call::Leave),
            };
            if let Some(sender) = inner.calls.get(&number) {
                sender.send_replace(call);
            }
        }
        inner.admission.is_open(short)
    }

    /// Resolves when [`Unauthenticated::settle`] has something new to do. Cancel safe.
    pub(crate) async fn unsettled(&self, short: bool) {
        let silence = self.lock().admission.poll_timeout(short);
        tokio::select! {
            () = self.0.changed.notified() => {}
            () = passed(silence.map(|silence| self.0.opened + silence)) => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().calls.is_empty()
    }

    fn leave(&self, number: u64) {
        let mut inner = self.lock();
        inner.admission.left(self.now(), number);
        if inner.calls.remove(&number).is_some() {
            self.0.changed.notify_one();
        }
    }

    fn now(&self) -> Duration {
        self.0.opened.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics under the lock, and the state is consistent between any two calls.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until the client has sent something and may begin. Until then it has no buffer.
    pub(crate) async fn begin(&self, socket: &TcpStream) -> Result<(), Failure> {
        let spoken = async {
            // The next read of the socket reports the error.
            let _ = socket.peek(&mut [0]).await;
            self.spoke();
        };
        self.unless_asked(spoken, LOOK).await?;
        // The client begins at once if a handshake is free; otherwise another must make room.
        self.clients.settle(false);
        if *self.call.borrow() != Call::Begin {
            self.clients.0.changed.notify_one();
            self.called(|call| call == Call::Begin).await;
        }
        Ok(())
    }

    /// Runs `work`, a part of the handshake, unless the client falls silent and must make room for
    /// others. `work` reports each wait for the client with [`Place::waits`] and [`Place::spoke`].
    pub(crate) async fn shake_hands<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        self.unless_asked(work, SILENCE).await
    }

    async fn unless_asked<T>(
        &self,
        work: impl Future<Output = T>,
        linger: Duration,
    ) -> Result<T, Failure> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.called(|call| call == Call::Leave) => {}
            }
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.called(|call| call != Call::Leave) => {}
                () = sleep(linger) => return Err(Failure::fatal(
                    "53300",
                    "too many clients are connecting, and this one has sent nothing for a second",
                )),
            }
        }
    }

    /// The server now waits for the client's next message.
    pub(crate) fn waits(&self) {
        let (now, mut inner) = (self.clients.now(), self.clients.lock());
        inner.admission.is_awaited(now, self.number);
        // `unsettled` may have to wake up earlier now.
        if inner.admission.poll_timeout(false).is_some() {
            self.clients.0.changed.notify_one();
        }
    }

    /// The client has sent what the server waited for.
    pub(crate) fn spoke(&self) {
        let mut inner = self.clients.lock();
        let begun = inner.admission.spoke(self.clients.now(), self.number);
        if let Some(sender) = inner.calls.get(&self.number) {
            sender.send_replace(if begun { Call::Begin } else { Call::Wait });
        }
    }

    /// STRANGER-I2: the client no longer counts as unauthenticated.
    pub(crate) fn leave(&self) {
        self.clients.leave(self.number);
    }

    /// Waits for a call that satisfies `wanted`. Cancel safe.
    async fn called(&self, wanted: impl Fn(Call) -> bool) {
        let mut call = self.call.clone();
        if call.wait_for(|call| wanted(*call)).await.is_err() {
            // The client has left, and gets no more calls.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Long enough for the runtime to poll the sockets once more.
const LOOK: Duration = Duration::from_millis(5);
