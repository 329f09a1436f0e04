//! One client's socket: messages in, messages out, and the news that the client has gone.
//!
//! While a statement runs its connection keeps reading, because a client that hangs up says so only
//! on the read side. What arrives meanwhile waits in a bounded queue; when that is full reading
//! stops, and a vanished client is noticed at the next write instead.
//!
//! W1: before a client is authenticated its messages are at most `STARTUP_BYTES_MAX` long, so that
//! strangers cannot make the server buffer gigabytes.
//! W2: a malformed message is the end of its connection, whatever decoding it does.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Buf, BytesMut};
use futures::{SinkExt, StreamExt};
use pgwire::api::ClientInfo;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::{
    DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion,
};
use pgwire::tokio::server::{MaybeTls, negotiate_tls};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::codec::{Decoder, Encoder, Framed};

use crate::keepalive::Keepalive;

/// A negotiated connection.
pub(crate) struct Wire {
    framed: Framed<MaybeTls, Codec>,
    ahead: VecDeque<PgWireFrontendMessage>,
    pub(crate) peer: SocketAddr,
    pub(crate) secure: bool,
}

impl Wire {
    /// Answers requests for TLS and GSS. `None` if the client left or asked for TLS in vain.
    pub(crate) async fn negotiate(
        socket: TcpStream,
        tls: Option<TlsAcceptor>,
    ) -> io::Result<Option<Self>> {
        let Some(framed) = negotiate_tls::<()>(socket, tls).await? else {
            return Ok(None);
        };
        let (peer, secure) = (framed.socket_addr(), framed.is_secure());
        let framed = framed.map_codec(|_| Codec {
            stage: Stage::Startup,
            context: context(),
        });
        Ok(Some(Self {
            framed,
            ahead: VecDeque::new(),
            peer,
            secure,
        }))
    }

    /// The next message. `None` when the client has gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<PgWireResult<PgWireFrontendMessage>> {
        match self.ahead.pop_front() {
            Some(message) => Some(Ok(message)),
            None => self.framed.next().await,
        }
    }

    /// Resolves when the client hangs up; reads ahead until then. Cancel safe.
    pub(crate) async fn hung_up(&mut self) {
        while self.ahead.len() < AHEAD_MAX {
            match self.framed.next().await {
                Some(Ok(message)) => self.ahead.push_back(message),
                Some(Err(_)) | None => return,
            }
        }
        std::future::pending::<()>().await;
    }

    /// From here on, messages of the authentication exchange.
    pub(crate) fn authenticating(&mut self, protocol: ProtocolVersion) {
        let codec = self.framed.codec_mut();
        codec.stage = Stage::Authenticating;
        codec.context.protocol_version = protocol;
    }

    /// From here on, messages of any size the protocol allows.
    pub(crate) fn authenticated(&mut self) {
        self.framed.codec_mut().stage = Stage::Ready;
    }

    /// Where rows are encoded straight into. Whole messages only.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        self.framed.write_buffer_mut()
    }

    /// Adds a message to the buffer.
    pub(crate) fn put(&mut self, message: &PgWireBackendMessage) -> PgWireResult<()> {
        message.encode(self.framed.write_buffer_mut())
    }

    /// Writes the buffer out. Cancel safe: what is not written yet stays in the buffer.
    pub(crate) async fn flush(&mut self) -> PgWireResult<()> {
        self.framed.flush().await
    }

    /// Adds a message and writes everything out.
    pub(crate) async fn send(&mut self, message: &PgWireBackendMessage) -> PgWireResult<()> {
        self.put(message)?;
        self.flush().await
    }

    /// The socket under all layers.
    fn socket(&self) -> Option<&TcpStream> {
        match self.framed.get_ref() {
            MaybeTls::Plain(socket) => Some(socket),
            MaybeTls::Tls(stream) => Some(stream.get_ref().0),
            _ => None,
        }
    }

    /// How the socket is watched from now on.
    pub(crate) fn keep_alive(&self, keepalive: Keepalive) -> io::Result<()> {
        self.socket()
            .map_or(Ok(()), |socket| keepalive.apply(socket))
    }

    /// Flushes and says goodbye.
    pub(crate) async fn close(&mut self) -> PgWireResult<()> {
        self.framed.close().await
    }
}

enum Stage {
    Startup,
    Authenticating,
    Ready,
}

/// pgwire's messages, with our limits on their size.
struct Codec {
    stage: Stage,
    context: DecodeContext,
}

impl Decoder for Codec {
    type Item = PgWireFrontendMessage;
    type Error = PgWireError;

    fn decode(&mut self, source: &mut BytesMut) -> PgWireResult<Option<Self::Item>> {
        // A startup message has no type byte, but a version behind its length.
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
        if source.len() < type_bytes + length {
            return Ok(None);
        }
        let mut message = source.split_to(type_bytes + length);
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = matches!(self.stage, Stage::Startup);
        // W2: pgwire reads some fields without asking whether they are there, and panics.
        let context = &self.context;
        let decode = || PgWireFrontendMessage::decode(&mut message, context);
        catch_unwind(AssertUnwindSafe(decode)).unwrap_or(Err(PgWireError::InvalidStartupMessage))
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

/// Enough for drivers that pipeline; each message is bounded by `MESSAGE_BYTES_MAX`.
const AHEAD_MAX: usize = 64;
/// PostgreSQL's own limit on startup packets (`MAX_STARTUP_PACKET_LENGTH`).
const STARTUP_BYTES_MAX: usize = 10_000;
/// Statements and parameters; a client that needs more should load a file.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
