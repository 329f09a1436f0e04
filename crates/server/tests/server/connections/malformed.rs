//! Promised: the server answers a message whose body does not fit its type with 08P01, as
//! PostgreSQL does, and the connection survives. No bytes of a client make the server panic.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::TestServer;
use crate::common::raw::{RawClient, STARTUP};

const NONE: &str = "08P01 no data left in message";
const SHORT: &str = "08P01 insufficient data left in message";
const UNENDED: &str = "08P01 invalid string in message";
const BEYOND: &str = "08P01 invalid message format";

/// Malformed messages, and PostgreSQL 15's answers. (It counts a Bind's parameters before it reads
/// their values, and says so if the statement has a different number of them.)
const MESSAGES: &[(u8, &[u8], &str)] = &[
    (b'Q', b"SELECT 1", UNENDED),
    (b'Q', b"SELECT 1\0x", BEYOND),
    (b'P', b"", UNENDED),
    (b'P', b"\0SELECT 1\0\0\x02\0\0\0\x17", SHORT),
    (b'P', b"\0SELECT 1\0\0\0\0", BEYOND),
    (b'B', b"\0\0\0\0\xFF\xFF", SHORT),
    (b'B', b"\0\0\0\0\0\x01\0\0\x40\0x\0\0", SHORT),
    (b'B', b"\0\0\0\0\0\x01\xFF\xFF\xFF\xF0\0\0", SHORT),
    (b'B', b"\0\0\0\0\0\0\0\x01", SHORT),
    (b'D', b"", NONE),
    (b'D', b"Sname", UNENDED),
    (b'C', b"S\0\0", BEYOND),
    (b'E', b"\0\0", SHORT),
    (b'H', b"x", BEYOND),
    (b'S', b"x", BEYOND),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_malformed_message_is_answered_and_the_connection_survives() {
    let server = TestServer::start().await;
    let mut client = RawClient::connect(server.addr);
    for (kind, body, expected) in MESSAGES {
        client.send(*kind, body);
        if !matches!(kind, b'Q' | b'S') {
            // The server skips these messages up to the Sync, malformed or not.
            client.send(b'P', b"\0SELECT nothing\0\0\0");
            client.send(b'B', b"\0\0\xFF\xFF");
            client.send(b'S', b"");
        }
        let answer = client.answer();
        let kind = char::from(*kind);
        assert_eq!(answer.error.as_deref(), Some(*expected), "{kind} {body:?}");
        assert_eq!(client.simple("SELECT 7").shown(), "7", "{kind} {body:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_answers_to_an_authentication_request_are_refused() {
    let server = TestServer::start_with(|config| config.password = Some("sesame".to_owned())).await;
    for body in [
        &b""[..],
        b"SCRAM-SHA-256",
        b"SCRAM-SHA-256\0\x80\0\0\0",
        b"x\0\0\0\0\x09n",
    ] {
        let mut socket = TcpStream::connect(server.addr).await.unwrap();
        socket.write_all(STARTUP).await.unwrap();
        let mut message = vec![b'p'];
        message.extend((body.len() as u32 + 4).to_be_bytes());
        message.extend(body);
        socket.write_all(&message).await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("C08P01"), "{body:?}: {answer:?}");
    }
}

/// Random numbers, fixed by a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// A run of messages as a driver sends them, each of which may have a few bytes changed.
fn run(random: &mut Random) -> Vec<u8> {
    let messages: [(u8, &[u8]); 7] = [
        (b'P', b"s\0SELECT $1, $2\0\0\x02\0\0\0\x17\0\0\0\x19"),
        (b'D', b"Ss\0"),
        (
            b'B',
            b"\0s\0\0\x02\0\x01\0\0\0\x02\0\0\0\x04\0\0\0\x07\0\0\0\x01x\0\x01\0\x01",
        ),
        (b'E', b"\0\0\0\0\0"),
        (b'C', b"Ss\0"),
        (b'S', b""),
        (b'Q', b"SELECT 1\0"),
    ];
    let mut sent = STARTUP.to_vec();
    for _ in 0..4 {
        for (kind, body) in messages {
            let mut body = body.to_vec();
            match random.below(5) {
                0 => body.truncate(random.below(body.len() + 1)),
                1 | 2 if !body.is_empty() => {
                    let at = random.below(body.len());
                    body[at] = [0, 1, 0x7F, 0x80, 0xFF, random.below(256) as u8][random.below(6)];
                }
                3 => body.insert(random.below(body.len() + 1), random.below(256) as u8),
                _ => {}
            }
            sent.push(kind);
            sent.extend((body.len() as u32 + 4).to_be_bytes());
            sent.extend(body);
        }
    }
    // Sometimes a type, or a message's own length, changes too.
    if random.below(4) == 0 {
        let at = STARTUP.len() + random.below(sent.len() - STARTUP.len());
        sent[at] = random.below(256) as u8;
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bytes_make_the_server_panic() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        // Other tests panic on purpose, in code that they pass to the server.
        let file = panicked.location().map_or("", |location| location.file());
        if ["pgwire", "/bytes", "server/src"]
            .iter()
            .any(|ours| file.contains(ours))
        {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        before(panicked);
    }));
    let server = TestServer::start().await;
    let mut malformed = 0;
    for round in 0..20 {
        let clients: Vec<_> = (0..20)
            .map(|number| {
                let addr = server.addr;
                let mut random = Random(round * 1000 + number);
                tokio::spawn(async move {
                    let mut socket = TcpStream::connect(addr).await.unwrap();
                    socket.write_all(&run(&mut random)).await.unwrap();
                    socket.shutdown().await.unwrap();
                    let mut answer = Vec::new();
                    let end = socket.read_to_end(&mut answer);
                    // A reset is an end too: the server closed before it had read everything.
                    let ended = tokio::time::timeout(Duration::from_secs(60), end).await;
                    assert!(ended.is_ok(), "the connection ends");
                    String::from_utf8_lossy(&answer).matches("C08P01").count()
                })
            })
            .collect();
        for client in clients {
            malformed += client.await.unwrap();
        }
    }
    assert!(malformed > 100, "{malformed}");
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    assert_eq!(
        RawClient::connect(server.addr).simple("SELECT 7").shown(),
        "7"
    );
}
