//! A spare file descriptor for the moment when no other is left.
//!
//! A process that may open no more files cannot even accept a connection to refuse it: clients
//! would wait until another client leaves. So the server closes the spare descriptor, accepts the
//! connection, refuses and closes it, and takes the descriptor back.
//! Not here: unauthenticated clients that make room for new ones (`unauthenticated/`).

use std::fs::File;
use std::io;

use tokio::net::TcpListener;
use tokio::time::timeout;

use super::cancel::GOODBYE_TIMEOUT;
use super::wire::last_words;
use crate::failure::Failure;

/// The spare descriptor; `None` while there is none.
pub(crate) struct Spare(Option<File>);

impl Spare {
    pub(crate) fn take() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Accepts a client for which there was no descriptor, and tells it why it is refused.
    pub(crate) async fn refuse(&mut self, listener: &TcpListener) {
        if self.0.take().is_none() {
            *self = Self::take();
            return;
        }
        let refusal = Failure::fatal("53300", "the server has no file descriptors left");
        let goodbye = async {
            let (socket, _) = listener.accept().await?;
            last_words(socket, refusal).await
        };
        if let Ok(Err(error)) = timeout(GOODBYE_TIMEOUT / 20, goodbye).await {
            log::debug!("a client was not told that there are no descriptors: {error}");
        }
        *self = Self::take();
    }
}

/// Whether there are enough descriptors for the files of a query or two.
pub(crate) fn some_are_left() -> bool {
    let some = (0..FOR_QUERIES).map(|_| File::open("/dev/null"));
    some.collect::<io::Result<Vec<File>>>().is_ok()
}

/// The descriptors that unauthenticated clients leave to queries.
const FOR_QUERIES: usize = 16;

/// Whether a connection could not be accepted for lack of descriptors.
pub(crate) fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// The process has too many open files.
const EMFILE: i32 = 24;
/// The system has too many open files.
const ENFILE: i32 = 23;
