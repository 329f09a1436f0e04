//! One connection, from its first byte to its last.
//!
//! Startup (TLS, authentication, a connection slot, a session) must be complete within
//! `STARTUP_TIMEOUT`. After that the server handles one message at a time; meanwhile [`supervise`]
//! watches for whatever may end the current one.
//! Not here: the messages themselves (`simple.rs`, `extended.rs`), bytes on the wire (`wire`).

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use coscan::running::guarded;
use coscan::session_settings::{Keepalive, SessionSettings};
use coscan::{AfterFailure, BlockStatus};
use coscan_pg::{Moments, POSITION_BYTES_MAX};
use datafusion::error::DataFusionError;
use pgwire::api::{
    ClientInfo, ConnectionGuard, ConnectionHandle, DefaultClient, PidSecretKeyGenerator,
};
use pgwire::error::PgWireError;
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, Startup,
};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::shared::Shared;
use crate::advisory::OfConnection;
use crate::catalog::{Backend, Listed};
use crate::failure::{Failure, stopping};
use crate::net::{
    FLUSH_BYTES, GOODBYE_TIMEOUT, Interrupt, Ledger, Phase, Place, Unread, Wire, authenticate,
    authentication, bound_unsent, keep_alive, last_words, passed, reached,
};
use crate::statements::{Portals, Session, Transaction};

/// An authenticated client.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) session: Session,
    pub(crate) portals: Portals,
    pub(crate) transaction: Transaction,
    pub(crate) locks: OfConnection,
    /// Whether results go without a description: in the extended protocol the client asks for one
    /// separately.
    pub(crate) described: bool,
    /// After an error in the extended protocol, messages are skipped up to the next Sync.
    skipping: bool,
    cancel: Arc<ConnectionHandle>,
    phase: watch::Receiver<Phase>,
    /// The settings last applied to the socket.
    keepalive: Keepalive,
    /// What other connections see of this one.
    listed: Listed,
    _registered: ConnectionGuard,
    _slot: OwnedSemaphorePermit,
}

/// Why the server stopped handling a message.
pub(crate) enum Halt {
    /// The client has gone and gets no error.
    Gone,
    Failed(Failure),
}

impl Halt {
    /// With the place in the client's text, of which `statement` has failed ([`Failure::placed`]).
    pub(super) fn placed(self, text: Option<&str>, statement: Range<usize>) -> Self {
        match (self, text) {
            (Self::Failed(failure), Some(text)) => Self::Failed(failure.placed(text, statement)),
            (halt, _) => halt,
        }
    }
}

/// A copy of a client's text, if errors have places in it: planning takes the text itself.
pub(super) fn with_places(text: &str) -> Option<String> {
    (text.len() <= POSITION_BYTES_MAX).then(|| text.to_owned())
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<DataFusionError> for Halt {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<io::Error> for Halt {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<PgWireError> for Halt {
    fn from(error: PgWireError) -> Self {
        match error {
            PgWireError::IoError(_) => Self::Gone,
            error => Self::Failed(error.into()),
        }
    }
}

/// Serves one client until it leaves or the server stops.
pub(crate) async fn serve(socket: TcpStream, place: Place, shared: Arc<Shared>) {
    if let Err(error) = keep_alive(&socket, Keepalive::default()) {
        log::debug!("a socket without keepalive: {error}");
    }
    if let Err(error) = bound_unsent(&socket) {
        log::debug!("a socket with a large buffer: {error}");
    }
    let deadline = Instant::now() + STARTUP_TIMEOUT;
    let mut phase = shared.phase.clone();
    let begun = tokio::select! {
        begun = place.begin(&socket) => begun,
        () = reached(&mut phase, Phase::Draining) => Err(stopping()),
        () = sleep_until(deadline) => return,
    };
    match begun {
        // Boxed separately, so that clients that have sent nothing hold no memory for this future.
        Ok(()) => Box::pin(shake_hands(socket, place, shared, deadline)).await,
        Err(failure) => drop(timeout(GOODBYE_TIMEOUT, last_words(socket, failure)).await),
    }
}

/// Admits a client that has begun to speak, and serves it.
async fn shake_hands(socket: TcpStream, place: Place, shared: Arc<Shared>, deadline: Instant) {
    // Held until a refused client has its last message: it counts against the bound on
    // unauthenticated clients.
    let place = Arc::new(place);
    let tls = shared.tls.as_ref().map(|tls| tls.acceptor.clone());
    let negotiated = place.shake_hands(Wire::negotiate(socket, tls, Arc::clone(&place)));
    let mut wire = match timeout_at(deadline, negotiated).await {
        Ok(Ok(Ok(Some(wire)))) => wire,
        Ok(Ok(Err(error))) => {
            log::info!("a connection ended while it was negotiated: {error}");
            return;
        }
        // During the TLS handshake there is no way to tell the client why.
        Ok(Ok(Ok(None)) | Err(_)) | Err(_) => return,
    };
    let peer = wire.peer;
    let admitted = place.shake_hands(admit(&mut wire, &shared));
    let admitted = match timeout_at(deadline, admitted).await {
        Ok(Ok(Ok(Some(admitted)))) => admitted,
        Ok(Ok(Ok(None))) => return,
        Ok(Ok(Err(failure)) | Err(failure)) => {
            log::info!("{peer}: {failure}");
            refuse(wire, failure).await;
            return;
        }
        Err(_) => {
            log::info!("{peer}: startup took too long");
            return;
        }
    };
    log::debug!("{peer}: connected");
    Box::pin(admitted.into_connection(wire, &shared).serve()).await;
    log::debug!("{peer}: disconnected");
}

/// Sends a last message and closes; gives up if the client does not read.
async fn refuse(mut wire: Wire, failure: Failure) {
    let goodbye = async {
        let _ = wire.send(&failure.into_fatal().into_message()).await;
        let _ = wire.close().await;
    };
    let _ = timeout(GOODBYE_TIMEOUT, goodbye).await;
}

struct Admitted {
    session: Session,
    cancel: Arc<ConnectionHandle>,
    listed: Listed,
    registered: ConnectionGuard,
    slot: OwnedSemaphorePermit,
}

impl Admitted {
    fn into_connection(self, wire: Wire, shared: &Shared) -> Connection {
        let state = self.session.context.state_ref();
        let origins = state.read().config().get_extension();
        let locks = OfConnection(state.read().config().get_extension());
        Connection {
            wire,
            session: self.session,
            portals: Portals::new(origins.unwrap_or_default()),
            transaction: Transaction::default(),
            locks,
            described: false,
            skipping: false,
            cancel: self.cancel,
            phase: shared.phase.clone(),
            keepalive: Keepalive::default(),
            listed: self.listed,
            _registered: self.registered,
            _slot: self.slot,
        }
    }
}

/// Does everything up to the first `ReadyForQuery`. `None` for a connection that ends here without
/// an error.
async fn admit(wire: &mut Wire, shared: &Arc<Shared>) -> Result<Option<Admitted>, Failure> {
    let Some(startup) = first_message(wire, shared).await? else {
        return Ok(None);
    };
    if shared.tls_required && !wire.secure {
        let text = "this server requires TLS: connect with sslmode=require or stricter";
        return Err(Failure::new("28000", text));
    }
    let mut client = DefaultClient::<()>::new(wire.peer, wire.secure);
    let protocol = negotiate_protocol(wire, &startup).await?;
    client.set_protocol_version(protocol);
    client.metadata_mut().extend(startup.parameters.clone());
    wire.authenticating(protocol);

    let Some(user) = startup
        .parameters
        .get("user")
        .filter(|user| !user.is_empty())
    else {
        return Err(Failure::new("28000", "no user name in the startup message"));
    };
    if let Some(verifier) = &shared.verifier {
        let cert_pem = shared.tls.as_ref().map(|tls| tls.cert_pem.as_slice());
        authenticate(wire, &client, verifier, cert_pem).await?;
    }
    // Checked after authentication, so that unauthenticated clients do not learn how busy the
    // server is.
    let Ok(slot) = Arc::clone(&shared.slots).try_acquire_owned() else {
        return Err(Failure::new("53300", "sorry, too many clients already"));
    };
    wire.authenticated();

    let (pid, secret) = shared.keys.generate(&client);
    let session = open_session(shared, user, pid, &startup).await?;
    wire.account(&session.ledger)?;
    let (cancel, registered) = shared.cancels.register(pid, secret.clone());
    let client = (wire.peer, Arc::clone(&wire.client));
    let (context, moments) = (&session.context, session.moments.clone());
    let backend = Backend::new(pid, user, client, context, moments);
    let listed = shared.catalog.backends().enter(backend);
    wire.put(&authentication(Authentication::Ok))?;
    for (name, value) in session.settings.reports(&session.context) {
        let status = ParameterStatus::new(name.to_owned(), value);
        wire.put(&PgWireBackendMessage::ParameterStatus(status))?;
    }
    wire.put(&PgWireBackendMessage::BackendKeyData(BackendKeyData::new(
        pid, secret,
    )))?;
    wire.send(&ready(BlockStatus::Idle)).await?;
    Ok(Some(Admitted {
        session,
        cancel,
        listed,
        registered,
        slot,
    }))
}

/// The startup message of a client; `None` if it has gone, or only cancels another's statement.
async fn first_message(wire: &mut Wire, shared: &Shared) -> Result<Option<Startup>, Failure> {
    match wire.next().await {
        Some(Ok(PgWireFrontendMessage::Startup(startup))) => Ok(Some(startup)),
        Some(Ok(PgWireFrontendMessage::CancelRequest(request))) => {
            // The answer to a cancel request is to close, whether or not it found a statement.
            shared
                .cancels
                .cancel(request.pid, &request.secret_key)
                .await;
            Ok(None)
        }
        Some(Ok(_)) => Err(Failure::protocol("expected a startup message")),
        Some(Err(error)) => Err(error.into()),
        None => Ok(None),
    }
}

/// Tells a client of a newer minor version the server's version, and continues with that one.
async fn negotiate_protocol(
    wire: &mut Wire,
    startup: &Startup,
) -> Result<ProtocolVersion, Failure> {
    let (major, minor) = (startup.protocol_number_major, startup.protocol_number_minor);
    let newest = ProtocolVersion::default();
    let known = ProtocolVersion::from_version_number(major, minor);
    let options: Vec<_> = startup
        .parameters
        .keys()
        .filter(|name| name.starts_with("_pq_."))
        .cloned()
        .collect();
    if let (Some(known), true) = (known, options.is_empty()) {
        return Ok(known);
    }
    if major != newest.version_number().0 {
        let text = format!("unsupported frontend protocol {major}.{minor}");
        return Err(Failure::new("0A000", text));
    }
    let answer = NegotiateProtocolVersion::new(known.unwrap_or(newest).into(), options);
    wire.send(&PgWireBackendMessage::NegotiateProtocolVersion(answer))
        .await?;
    Ok(known.unwrap_or(newest))
}

/// Makes the session and applies the settings of the startup message.
async fn open_session(
    shared: &Arc<Shared>,
    user: &str,
    pid: i32,
    startup: &Startup,
) -> Result<Session, Failure> {
    let (owned, name) = (Arc::clone(shared), user.to_owned());
    let database = startup.parameters.get("database").cloned();
    let open = async move {
        let session = owned.confinement.session(&(owned.factory)()?);
        let client = (name.as_str(), database.as_deref());
        Ok::<_, Failure>(owned.catalog.install(&session, client, pid))
    };
    // Does not run among the queries: the server admits a client however busy they are.
    let context = guarded(&Handle::current(), open).await?;
    let mut settings = SessionSettings::new(&context, user);
    for (name, value) in &startup.parameters {
        match name.as_str() {
            "user" | "database" => {}
            "replication" if matches!(value.as_str(), "false" | "off" | "no" | "0") => {}
            "replication" => return Err(Failure::unsupported("replication is not supported")),
            "options" => {
                for (name, value) in options(value)? {
                    settings.set(&context, &name, &value).await?;
                }
            }
            name if name.starts_with("_pq_.") => {}
            name => drop(settings.set(&context, &name.to_lowercase(), value).await?),
        }
    }
    settings.have_started(&context);
    let ledger = Ledger::new(&coscan::connection_memory(&context.runtime_env()));
    let options = Arc::clone(context.state_ref().read().config_options());
    shared.known.count_in(&options);
    let moments = options.extensions.get::<Moments>().cloned();
    let notices = context.state_ref().read().config().get_extension();
    Ok(Session {
        context,
        settings,
        threads: Arc::clone(&shared.threads),
        senders: shared.senders.clone(),
        ledger,
        known: Arc::clone(&shared.known),
        current_cost: None,
        undoable: false,
        snapshot: None,
        moments: moments.unwrap_or_default(),
        notices: notices.unwrap_or_default(),
    })
}

/// Parses the settings in `-c name=value --name=value`, where a backslash escapes the next
/// character.
fn options(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' => words.push(String::new()),
            '\\' => words
                .last_mut()
                .into_iter()
                .for_each(|word| word.extend(characters.next())),
            other => words
                .last_mut()
                .into_iter()
                .for_each(|word| word.push(other)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("--")
                .or_else(|| word.strip_prefix("-c"))
                .map(str::to_owned)
        };
        let Some((name, value)) = setting
            .as_deref()
            .and_then(|setting| setting.split_once('='))
        else {
            return Err(Failure::syntax(format!(
                "not a setting in the options: {word}"
            )));
        };
        settings.push((name.to_lowercase().replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

impl Connection {
    async fn serve(mut self) {
        loop {
            self.keep_alive();
            let in_transaction = self.in_transaction();
            let idle = self.session.settings.idle_timeout(in_transaction);
            let idle = idle.map(|idle| Instant::now() + idle);
            let message = tokio::select! {
                biased;
                () = reached(&mut self.phase, Phase::Draining) => {
                    refuse(self.wire, stopping()).await;
                    return;
                }
                message = self.wire.next() => message,
                () = passed(idle) => {
                    // The session's cursors are closed at once, whether or not the client reads
                    // the error.
                    self.portals.close_all();
                    refuse(self.wire, idle_for_too_long(in_transaction)).await;
                    return;
                }
            };
            let (extended, handled) = match message {
                None | Some(Ok(PgWireFrontendMessage::Terminate(_))) => return,
                Some(Ok(message)) => (message.is_extended_query(), self.handle(message).await),
                Some(Err(Unread::Malformed(malformed))) => {
                    if self.skipping && !malformed.is_sync() {
                        continue;
                    }
                    self.skipping = false;
                    (
                        malformed.is_extended(),
                        Err(Failure::from(malformed).into()),
                    )
                }
                Some(Err(error)) => {
                    refuse(self.wire, error.into()).await;
                    return;
                }
            };
            self.session.current_cost = None;
            let failure = match handled {
                Ok(()) => continue,
                Err(Halt::Gone) => return,
                Err(Halt::Failed(failure)) => failure,
            };
            log::debug!("{}: {failure}", self.wire.peer);
            let failure = self.redacted(failure);
            if failure.is_fatal() {
                refuse(self.wire, failure).await;
                return;
            }
            if self.fail(failure, extended).await.is_err() {
                return;
            }
        }
    }

    async fn handle(&mut self, message: PgWireFrontendMessage) -> Result<(), Halt> {
        if let PgWireFrontendMessage::Sync(_) = message {
            self.skipping = false;
            match self.end_implicit_transaction().await {
                Err(Halt::Failed(failure)) => {
                    let failure = self.redacted(failure);
                    self.undo(failure).await?;
                }
                ended => ended?,
            }
            let ready = self.ready();
            return Ok(self.wire.send(&ready).await?);
        }
        if self.skipping {
            return Ok(());
        }
        // Descriptions and tags go out without rows, too, before they take memory.
        if self.wire.buffered() >= FLUSH_BYTES {
            self.wire.flush().await?;
        }
        self.begin_statement(&message);
        match message {
            PgWireFrontendMessage::Query(query) => {
                self.simple_query(query.query).await?;
                let ready = self.ready();
                Ok(self.wire.send(&ready).await?)
            }
            PgWireFrontendMessage::Parse(parse) => self.parse(parse).await,
            PgWireFrontendMessage::Bind(bind) => self.bind(bind).await,
            PgWireFrontendMessage::Describe(describe) => self.describe(&describe),
            PgWireFrontendMessage::Execute(execute) => self.execute(execute).await,
            PgWireFrontendMessage::Close(close) => self.close(&close),
            PgWireFrontendMessage::Flush(_) => Ok(self.wire.flush().await?),
            // The rest of a COPY that was refused.
            PgWireFrontendMessage::CopyData(_)
            | PgWireFrontendMessage::CopyDone(_)
            | PgWireFrontendMessage::CopyFail(_) => Ok(()),
            _ => Err(Failure::protocol("unexpected message").into_fatal().into()),
        }
    }

    /// Notes that a statement begins, or goes on, with this message.
    fn begin_statement(&self, message: &PgWireFrontendMessage) {
        if matches!(
            message,
            PgWireFrontendMessage::Query(_)
                | PgWireFrontendMessage::Parse(_)
                | PgWireFrontendMessage::Bind(_)
                | PgWireFrontendMessage::Execute(_)
        ) {
            self.session.moments.begin_statement();
        }
        match message {
            PgWireFrontendMessage::Query(query) => self.listed.begins(&query.query),
            PgWireFrontendMessage::Parse(parse) => self.listed.begins(&parse.query),
            PgWireFrontendMessage::Bind(bind) => {
                let name = bind.statement_name.as_deref();
                self.listed.begins_prepared(name.unwrap_or_default());
            }
            PgWireFrontendMessage::Execute(_) => self.listed.goes_on(),
            _ => {}
        }
    }

    /// Tells the client, and whoever asks, that it may begin the next statement.
    fn ready(&self) -> PgWireBackendMessage {
        let status = self.transaction.status();
        self.listed.idles(status);
        ready(status)
    }

    /// Removes folders' names from a failure if this client may not see them.
    fn redacted(&self, failure: Failure) -> Failure {
        if self.session.settings.may_name_files() {
            failure
        } else {
            failure.without_folders()
        }
    }

    /// Reports a failure to the client, and rolls back the transaction unless the client began it.
    async fn undo(&mut self, failure: Failure) -> Result<(), Halt> {
        self.described = false;
        self.session.settings.end_turn();
        self.send_notices()?;
        self.wire.put(&failure.into_message())?;
        match self.transaction.fail() {
            AfterFailure::MayRevive => Ok(()),
            AfterFailure::AwaitEnd => {
                // Before its locks, which its cursors may take.
                self.portals.fail();
                self.locks.end_transaction();
                Ok(())
            }
            // The statements of one message, or of the messages up to a Sync, are one transaction.
            AfterFailure::RollBack => match self.roll_back().await {
                Err(Halt::Failed(failure)) => {
                    let peer = self.wire.peer;
                    log::warn!("{peer}: a setting was not rolled back: {failure}");
                    Ok(())
                }
                rolled_back => rolled_back,
            },
        }
    }

    /// Reports a failure to the client, and prepares for its next message.
    async fn fail(&mut self, failure: Failure, extended: bool) -> Result<(), Halt> {
        self.undo(failure).await?;
        if extended {
            self.skipping = true;
        } else {
            let ready = self.ready();
            self.wire.put(&ready)?;
        }
        Ok(self.wire.flush().await?)
    }

    /// Whether the client still has to end something: a transaction, or a run of messages up to a
    /// Sync.
    fn in_transaction(&self) -> bool {
        self.transaction.status().is_block() || self.portals.in_transaction()
    }

    /// Applies changed keepalive settings to the socket.
    fn keep_alive(&mut self) {
        let wanted = self.session.settings.keepalive();
        if wanted != self.keepalive {
            self.keepalive = wanted;
            if let Err(error) = self.wire.keep_alive(wanted) {
                log::warn!("{}: keepalive is not set: {error}", self.wire.peer);
            }
        }
    }

    /// The interrupt of the statement that starts now.
    pub(crate) async fn interrupt(&self) -> Interrupt {
        let timeout = self.session.settings.statement_timeout();
        Interrupt::start(&self.cancel, timeout, self.phase.clone()).await
    }
}

/// Runs `work` until it is done, interrupted, or pointless because the client has gone. In the
/// last two cases it is dropped (S3), unless its changes are appearing: then it is carried through,
/// and an interrupt comes too late.
pub(crate) async fn supervise<T>(
    wire: &mut Wire,
    interrupt: &mut Interrupt,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Halt> {
    let mut work = pin!(work);
    let halt = tokio::select! {
        biased;
        failure = interrupt.fired() => failure.into(),
        () = wire.hung_up() => Halt::Gone,
        result = &mut work => return Ok(result?),
    };
    if interrupt.commit_point.abandon() {
        return Err(halt);
    }
    let result = work.await;
    match halt {
        Halt::Gone => Err(Halt::Gone),
        Halt::Failed(_) => Ok(result?),
    }
}

fn idle_for_too_long(in_transaction: bool) -> Failure {
    let (state, what) = if in_transaction {
        ("25P03", "idle-in-transaction")
    } else {
        ("57P05", "idle-session")
    };
    Failure::fatal(
        state,
        format!("terminating connection due to {what} timeout"),
    )
}

fn ready(status: BlockStatus) -> PgWireBackendMessage {
    let status = match status {
        BlockStatus::Idle => TransactionStatus::Idle,
        BlockStatus::Open => TransactionStatus::Transaction,
        BlockStatus::Failed => TransactionStatus::Error,
    };
    PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(status))
}

/// PostgreSQL's `authentication_timeout`.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let read =
            options(r"-c coscan.policy=normal --statement-timeout=5s -capplication_name=a\ b");
        let read = read.ok().unwrap();
        let expected = [
            ("coscan.policy", "normal"),
            ("statement_timeout", "5s"),
            ("application_name", "a b"),
        ];
        assert_eq!(read.len(), expected.len());
        for ((name, value), wanted) in read.iter().zip(expected) {
            assert_eq!((name.as_str(), value.as_str()), wanted);
        }
        assert!(options("-x").is_err());
    }
}
