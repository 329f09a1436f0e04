//! One client's socket: messages in, messages out, and the news that the client has gone.
//!
//! While a statement runs and while rows are written, the connection keeps reading, because a
//! hang-up shows only on the read side. Messages that arrive meanwhile wait in a bounded queue;
//! when that is full, reading stops, and a vanished client is noticed at the next write instead.
//! Not here: the layout of messages (`layout.rs`), what they ask for (`protocol/simple.rs`,
//! `protocol/extended.rs`).
//!
//! W1: until a client is authenticated its messages are at most `STARTUP_BYTES_MAX` long, so that
//! it cannot make the server buffer gigabytes.
//! W2: no bytes of a client make a decoder panic: `layout.rs` checks a message before it is
//! decoded. The answer to a malformed message is PostgreSQL's, and the connection lives on. An
//! impossible length or type ends the connection, because the next message cannot be found.
//! W3: bytes that came before the TLS handshake never count as bytes that came through TLS: a
//! client that sends more plain text after its request for TLS is refused (CVE-2021-23214).
//! W4: a message is charged to the session's memory from the moment its length is known until the
//! next message is requested. Messages read ahead take at most `AHEAD_BYTES_MAX`, plus one
//! message.

mod layout;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use coscan::session_settings::Keepalive;
use futures::{SinkExt, StreamExt};
use pgwire::api::ClientInfo;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::{
    DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion,
};
use pgwire::tokio::server::{MaybeTls, negotiate_tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::codec::{Decoder, Encoder, Framed};

use super::client_wait::ClientWait;
use super::keepalive::keep_alive;
use super::ledger::{Held, Ledger};
use super::unauthenticated::Place;
use crate::failure::Failure;

pub(crate) use layout::{Malformed, check_sasl_initial};

/// A negotiated connection.
pub(crate) struct Wire {
    framed: Framed<MaybeTls, Codec>,
    ahead: VecDeque<Received>,
    ahead_bytes: usize,
    /// Whether the client has sent something that cannot be decoded.
    broken: bool,
    /// Whether rows are in the buffer.
    holds_rows: bool,
    /// The memory of the current message (W4).
    current: Option<Held>,
    /// The memory that the connection holds while idle.
    idle_held: Option<Held>,
    /// The client's place until it is authenticated.
    place: Option<Arc<Place>>,
    pub(crate) client: Arc<ClientWait>,
    pub(crate) peer: SocketAddr,
    pub(crate) secure: bool,
}

impl Wire {
    /// Answers requests for TLS and GSS. `None` if the client has left, or asked for TLS that the
    /// server does not offer.
    pub(crate) async fn negotiate(
        socket: TcpStream,
        tls: Option<TlsAcceptor>,
        place: Arc<Place>,
    ) -> io::Result<Option<Self>> {
        place.waits();
        let negotiated = negotiate_tls::<()>(socket, tls).await?;
        place.spoke();
        let Some(framed) = negotiated else {
            return Ok(None);
        };
        let (peer, secure) = (framed.socket_addr(), framed.is_secure());
        if secure && !framed.read_buffer().is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "W3: unencrypted data after the request for TLS",
            ));
        }
        let framed = framed.map_codec(|_| Codec {
            stage: Stage::Startup,
            context: context(),
            ledger: None,
            begun: None,
        });
        Ok(Some(Self {
            framed,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            broken: false,
            holds_rows: false,
            current: None,
            idle_held: None,
            place: Some(place),
            client: Arc::default(),
            peer,
            secure,
        }))
    }

    /// The next message. `None` when the client has gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Result<PgWireFrontendMessage, Unread>> {
        self.current = None;
        let received = match self.ahead.pop_front() {
            Some(received) => {
                self.ahead_bytes -= received.bytes;
                received
            }
            None => {
                self.client.reads(true);
                let received = self.read().await;
                self.client.reads(false);
                match received? {
                    Ok(received) => received,
                    Err(error) => {
                        self.broken = true;
                        return Some(Err(Unread::Lost(error)));
                    }
                }
            }
        };
        self.current = received.held;
        Some(received.message.map_err(Unread::Malformed))
    }

    async fn read(&mut self) -> Option<PgWireResult<Received>> {
        let Some(place) = &self.place else {
            return self.framed.next().await;
        };
        place.waits();
        let received = self.framed.next().await;
        place.spoke();
        received
    }

    /// Resolves when the client hangs up; reads ahead until then. Cancel safe.
    pub(crate) async fn hung_up(&mut self) {
        poll_fn(|cx| self.poll_hung_up(cx)).await;
    }

    fn poll_hung_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.ahead.len() < AHEAD_MAX && self.ahead_bytes < AHEAD_BYTES_MAX {
            match ready!(self.framed.poll_next_unpin(cx)) {
                Some(Ok(received)) => {
                    self.ahead_bytes += received.bytes;
                    self.ahead.push_back(received);
                }
                Some(Err(_)) | None => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    /// Switches to the messages of the authentication exchange.
    pub(crate) fn authenticating(&mut self, protocol: ProtocolVersion) {
        let codec = self.framed.codec_mut();
        codec.stage = Stage::Authenticating;
        codec.context.protocol_version = protocol;
    }

    /// Switches to messages of any size that the protocol allows. The client is authenticated, and
    /// frees its place among the unauthenticated ones.
    pub(crate) fn authenticated(&mut self) {
        if let Some(place) = self.place.take() {
            place.leave();
        }
        self.framed.codec_mut().stage = Stage::Ready;
    }

    /// Charges messages to a session's memory from now on (W4), and the memory of an idle
    /// connection at once.
    ///
    /// # Errors
    /// If there is not enough memory for an idle connection.
    pub(crate) fn account(&mut self, ledger: &Ledger) -> Result<(), Failure> {
        self.idle_held = Some(ledger.hold("a connection", IDLE_BYTES)?);
        self.framed.codec_mut().ledger = Some(ledger.clone());
        Ok(())
    }

    /// The buffer, for encoded rows. Callers must add whole messages only.
    pub(crate) fn buffer_for_rows(&mut self) -> &mut BytesMut {
        self.holds_rows = true;
        self.framed.write_buffer_mut()
    }

    /// The bytes in the buffer.
    pub(crate) fn buffered(&self) -> usize {
        self.framed.write_buffer().len()
    }

    /// Whether rows are in the buffer: what else may be there means nothing to a client that waits
    /// for its rows.
    pub(crate) fn holds_rows(&self) -> bool {
        self.holds_rows
    }

    /// Adds a message to the buffer.
    pub(crate) fn put(&mut self, message: &PgWireBackendMessage) -> PgWireResult<()> {
        message.encode(self.framed.write_buffer_mut())
    }

    /// Writes the buffer out. While the client takes nothing, reads ahead: a client that hangs up
    /// with a full receive buffer may leave a connection that accepts no byte and reports no error.
    /// Cancel safe: what is not written yet stays in the buffer.
    ///
    /// # Errors
    /// The socket's, or `BrokenPipe` if the client has hung up.
    pub(crate) async fn flush(&mut self) -> PgWireResult<()> {
        poll_fn(|cx| {
            let flushed = self.framed.poll_flush_unpin(cx);
            self.client.writes(flushed.is_pending());
            self.holds_rows &= flushed.is_pending();
            // During startup a message must not be decoded before its stage.
            if flushed.is_ready() || self.place.is_some() {
                return flushed;
            }
            let hung_up = self.poll_hung_up(cx);
            hung_up.map(|()| Err(io::Error::from(io::ErrorKind::BrokenPipe).into()))
        })
        .await
    }

    /// Adds a message and writes everything out.
    pub(crate) async fn send(&mut self, message: &PgWireBackendMessage) -> PgWireResult<()> {
        self.put(message)?;
        self.flush().await
    }

    /// The socket below all layers.
    fn socket(&self) -> Option<&TcpStream> {
        match self.framed.get_ref() {
            MaybeTls::Plain(socket) => Some(socket),
            MaybeTls::Tls(stream) => Some(stream.get_ref().0),
            _ => None,
        }
    }

    /// Applies keepalive settings to the socket.
    pub(crate) fn keep_alive(&self, keepalive: Keepalive) -> io::Result<()> {
        self.socket()
            .map_or(Ok(()), |socket| keep_alive(socket, keepalive))
    }

    /// Flushes and closes. After a malformed message it reads until the client has read the error:
    /// closing a socket with unread bytes would lose the last message sent.
    pub(crate) async fn close(&mut self) -> PgWireResult<()> {
        self.framed.close().await?;
        let mut rest = vec![0; 16 << 10];
        while self.broken && self.framed.get_mut().read(&mut rest).await? > 0 {}
        Ok(())
    }
}

/// Sends a last message to a client before any negotiation, and closes.
pub(crate) async fn last_words(mut socket: TcpStream, failure: Failure) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    let message = failure.into_message();
    message.encode(&mut bytes).map_err(io::Error::other)?;
    socket.write_all(&bytes).await?;
    socket.shutdown().await
}

enum Stage {
    Startup,
    Authenticating,
    Ready,
}

/// Why there is no message.
pub(crate) enum Unread {
    /// The message is malformed; the next one can be read.
    Malformed(Malformed),
    /// The start of the next message is unknown.
    Lost(PgWireError),
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::protocol(malformed.to_string())
    }
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Malformed(malformed) => malformed.into(),
            Unread::Lost(error) => Self::from(error).into_fatal(),
        }
    }
}

/// A message, its length, and its memory if it is long.
struct Received {
    message: Result<PgWireFrontendMessage, Malformed>,
    bytes: usize,
    held: Option<Held>,
}

/// pgwire's messages, with our limits on their size.
struct Codec {
    stage: Stage,
    context: DecodeContext,
    /// Where messages are charged, once there is a session.
    ledger: Option<Ledger>,
    /// The memory of a message that is still incomplete.
    begun: Option<Held>,
}

impl Codec {
    /// Reserves memory for a message before waiting for its bytes.
    fn begin(&mut self, bytes: usize) -> PgWireResult<()> {
        let Some(ledger) = self.ledger.as_ref().filter(|_| bytes > SMALL_BYTES) else {
            return Ok(());
        };
        if self.begun.is_none() {
            let held = ledger.hold("a message", bytes * COPIES);
            self.begun = Some(held.map_err(|failure| PgWireError::ApiError(Box::new(failure)))?);
        }
        Ok(())
    }
}

impl Decoder for Codec {
    type Item = Received;
    type Error = PgWireError;

    fn decode(&mut self, source: &mut BytesMut) -> PgWireResult<Option<Self::Item>> {
        // A startup message has no type byte; a version follows its length.
        let (type_bytes, least, most) = match self.stage {
            Stage::Startup => (0, 8, STARTUP_BYTES_MAX),
            Stage::Authenticating => (1, 4, STARTUP_BYTES_MAX),
            Stage::Ready => (1, 4, MESSAGE_BYTES_MAX),
        };
        let Some(mut length) = source.get(type_bytes..type_bytes + 4) else {
            return Ok(None);
        };
        let length = usize::try_from(length.get_i32()).unwrap_or(usize::MAX);
        if !(least..=most).contains(&length) {
            return Err(PgWireError::MessageTooLarge(most, length));
        }
        let bytes = type_bytes + length;
        self.begin(bytes)?;
        if source.len() < bytes {
            return Ok(None);
        }
        let held = self.begun.take();
        let mut message = source.split_to(bytes);
        if bytes > SMALL_BYTES {
            // Frees the buffer that grew for this message.
            *source = BytesMut::from(&source[..]);
        }
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = matches!(self.stage, Stage::Startup);
        if let (1, [kind, _, _, _, _, body @ ..]) = (type_bytes, &message[..])
            && let Err(malformed) = layout::check(*kind, body)
        {
            return Ok(Some(Received {
                message: Err(malformed),
                bytes,
                held,
            }));
        }
        let decoded = PgWireFrontendMessage::decode(&mut message, &self.context)?;
        Ok(decoded.map(|message| Received {
            message: Ok(message),
            bytes,
            held,
        }))
    }
}

impl Encoder<PgWireBackendMessage> for Codec {
    type Error = PgWireError;

    fn encode(&mut self, message: PgWireBackendMessage, to: &mut BytesMut) -> PgWireResult<()> {
        message.encode(to)
    }
}

fn context() -> DecodeContext {
    DecodeContext::new(ProtocolVersion::default())
}

/// The most messages read ahead: enough for drivers that pipeline.
const AHEAD_MAX: usize = 64;
/// The most bytes read ahead; beyond them the client waits until its statements are handled.
const AHEAD_BYTES_MAX: usize = 256 << 10;
/// The memory of an idle connection: two buffers, a session, settings.
const IDLE_BYTES: usize = 64 << 10;
/// Messages up to this size are covered by `IDLE_BYTES`.
const SMALL_BYTES: usize = 8 << 10;
/// A message is still in the buffer while its text is copied.
const COPIES: usize = 2;
/// PostgreSQL's own limit on startup packets (`MAX_STARTUP_PACKET_LENGTH`).
const STARTUP_BYTES_MAX: usize = 10_000;
/// The largest message, with its statements and parameters; a client with more data should load a
/// file.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers are small"
)]
mod tests {
    use super::layout::tests::{KINDS, Random, mutate, valid};
    use super::*;

    fn codec(stage: Stage) -> Codec {
        Codec {
            stage,
            context: context(),
            ledger: None,
            begun: None,
        }
    }

    /// Decodes runs of valid and mutated messages, with mutated lengths and types, that arrive in
    /// pieces.
    #[test]
    fn no_bytes_make_the_decoder_panic() {
        let (mut read, mut malformed, mut lost) = (0, 0, 0);
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let mut sent = Vec::new();
            for _ in 0..4 {
                let number = random.below(KINDS);
                let mut message = valid(number, &mut random).to_vec();
                match random.below(4) {
                    0 => {}
                    1 => {
                        let at = random.below(message.len());
                        message[at] = random.below(256) as u8;
                    }
                    _ => mutate(&mut message, &mut random),
                }
                sent.extend(message);
            }
            let stage = match random.below(6) {
                0 => Stage::Startup,
                1 => Stage::Authenticating,
                _ => Stage::Ready,
            };
            let (mut codec, mut source) = (codec(stage), BytesMut::new());
            for piece in sent.chunks(1 + random.below(40)) {
                source.extend_from_slice(piece);
                loop {
                    match codec.decode(&mut source) {
                        Ok(Some(Received { message: Ok(_), .. })) => read += 1,
                        Ok(Some(_)) => malformed += 1,
                        Ok(None) => break,
                        Err(_) => {
                            lost += 1;
                            source.clear();
                            break;
                        }
                    }
                }
            }
        }
        let counts = (read, malformed, lost);
        assert!(
            read > 5_000 && malformed > 5_000 && lost > 1_000,
            "{counts:?}"
        );
    }
}
