//! Clients that have not been authenticated yet: their places, clock and wake-ups.
//!
//! `rooms.rs` decides who begins and who makes room. Here its decisions reach the tasks of the
//! strangers. A task is asked to leave, not aborted: it reads first what has arrived, and tells the
//! client why it goes. When the runtime has much to do, a message may be long in the kernel before
//! its task is run. So a task that is asked to leave lingers, by its own clock: timers fire after
//! the runtime has looked at the sockets.
//! Not here: the listener, which asks whether another may come (`listen.rs`).

mod rooms;

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use crate::cancel::passed;
use crate::failure::Failure;
use rooms::{Action, Rooms, SILENCE};

/// The strangers of a server.
#[derive(Clone)]
pub(crate) struct Strangers(Arc<Lobby>);

struct Lobby {
    opened: Instant,
    /// Somebody has gone or has first spoken.
    changed: Notify,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    rooms: Rooms,
    calls: HashMap<u64, watch::Sender<Call>>,
}

/// What a stranger has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Wait,
    Begin,
    Leave,
}

/// A stranger's place. Dropping it gives the place back.
pub(crate) struct Place {
    strangers: Strangers,
    number: u64,
    call: watch::Receiver<Call>,
}

impl Default for Strangers {
    fn default() -> Self {
        Self(Arc::new(Lobby {
            opened: Instant::now(),
            changed: Notify::new(),
            inner: Mutex::default(),
        }))
    }
}

impl Strangers {
    /// Takes a place. Call it only after [`Strangers::settle`] has said that there is one.
    pub(crate) fn enter(&self, address: IpAddr) -> Place {
        let mut inner = self.lock();
        let number = inner.rooms.arrived(self.now(), address);
        let (sender, call) = watch::channel(Call::Wait);
        inner.calls.insert(number, sender);
        drop(inner);
        Place {
            strangers: self.clone(),
            number,
            call,
        }
    }

    /// Calls those who may begin or must leave. Returns whether another stranger may come.
    /// `short`: descriptors are wanted for other things.
    pub(crate) fn settle(&self, short: bool) -> bool {
        let (now, mut inner) = (self.now(), self.lock());
        while let Some(action) = inner.rooms.poll_action(now, short) {
            let (number, call) = match action {
                Action::Begin(number) => (number, Call::Begin),
                Action::Leave(number) => (number, Call::Leave),
            };
            if let Some(sender) = inner.calls.get(&number) {
                sender.send_replace(call);
            }
        }
        inner.rooms.is_open(short)
    }

    /// Resolves when [`Strangers::settle`] has something new to do. Cancel safe.
    pub(crate) async fn unsettled(&self, short: bool) {
        let silence = self.lock().rooms.poll_timeout(short);
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
        inner.rooms.left(self.now(), number);
        if inner.calls.remove(&number).is_some() {
            self.0.changed.notify_one();
        }
    }

    fn now(&self) -> Duration {
        self.0.opened.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics under the lock, and the rooms are whole between any two calls.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until the client has sent something and may begin. Until then it has no buffer.
    pub(crate) async fn begin(&self, socket: &TcpStream) -> Result<(), Failure> {
        let spoken = async {
            // An error is seen by whoever reads.
            let _ = socket.peek(&mut [0]).await;
            self.spoke();
        };
        self.unless_asked(spoken, LOOK).await?;
        // At once, if a handshake is free; else somebody has to make room.
        self.strangers.settle(false);
        if *self.call.borrow() != Call::Begin {
            self.strangers.0.changed.notify_one();
            self.called(|call| call == Call::Begin).await;
        }
        Ok(())
    }

    /// Shakes hands unless the client falls silent and must make room for others. Whatever it waits
    /// for comes between [`Place::waits`] and [`Place::spoke`].
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

    /// The server waits for the client's next message from now on.
    pub(crate) fn waits(&self) {
        let (now, mut inner) = (self.strangers.now(), self.strangers.lock());
        inner.rooms.is_awaited(now, self.number);
        // `unsettled` may wait for another moment now.
        if inner.rooms.poll_timeout(false).is_some() {
            self.strangers.0.changed.notify_one();
        }
    }

    /// The client has sent what the server waited for.
    pub(crate) fn spoke(&self) {
        let mut inner = self.strangers.lock();
        let begun = inner.rooms.spoke(self.strangers.now(), self.number);
        if let Some(sender) = inner.calls.get(&self.number) {
            sender.send_replace(if begun { Call::Begin } else { Call::Wait });
        }
    }

    /// STRANGER-I2: the client is not a stranger from now on.
    pub(crate) fn leave(&self) {
        self.strangers.leave(self.number);
    }

    /// Waits for such a call. Cancel safe.
    async fn called(&self, wanted: impl Fn(Call) -> bool) {
        let mut call = self.call.clone();
        if call.wait_for(|call| wanted(*call)).await.is_err() {
            // It has left: nobody calls it any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Long enough for the runtime to look at the sockets once more.
const LOOK: Duration = Duration::from_millis(5);
