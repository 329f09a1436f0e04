//! A client that sends exactly the messages it is given, so that parameters can have any types and
//! formats.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A startup message of protocol 3.0.
pub(crate) const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0x\0\0";

/// A blocking connection.
pub(crate) struct RawClient {
    stream: TcpStream,
}

/// The answer to one statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The types in the description of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// Names and types of the columns, from the description of the statement.
    pub(crate) columns: Vec<(String, u32)>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
    /// SQLSTATE and message.
    pub(crate) error: Option<String>,
    pub(crate) tag: String,
}

impl RawClient {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let mut client = Self {
            stream: TcpStream::connect(addr).unwrap(),
        };
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        body.extend_from_slice(b"user\0tester\0database\0d\0\0");
        let length = (body.len() + 4) as i32;
        client.stream.write_all(&length.to_be_bytes()).unwrap();
        client.stream.write_all(&body).unwrap();
        while client.message().0 != b'Z' {}
        client
    }

    /// Sends any message.
    pub(crate) fn send(&mut self, kind: u8, body: &[u8]) {
        let length = (body.len() + 4) as i32;
        let mut message = vec![kind];
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(body);
        self.stream.write_all(&message).unwrap();
    }

    /// Says that no more will be sent. What the server sends stays unread.
    pub(crate) fn close_writing(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Whether the server sends something within this time, which stays unread.
    pub(crate) fn hears_within(&self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let heard = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(None).unwrap();
        heard.is_ok_and(|bytes| bytes > 0)
    }

    fn message(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).unwrap();
        (head[0], body)
    }

    /// Sends Parse with a name.
    pub(crate) fn prepare(&mut self, name: &str, sql: &str, types: &[u32]) {
        let mut body = format!("{name}\0{sql}\0").into_bytes();
        body.extend_from_slice(&(types.len() as i16).to_be_bytes());
        for oid in types {
            body.extend_from_slice(&oid.to_be_bytes());
        }
        self.send(b'P', &body);
    }

    /// Describes, binds and executes a prepared statement, and sends Sync.
    pub(crate) fn run(&mut self, name: &str, values: &[Option<Vec<u8>>], format: i16) -> Answer {
        self.send(b'D', format!("S{name}\0").as_bytes());
        let mut body = format!("\0{name}\0").into_bytes();
        body.extend_from_slice(&1_i16.to_be_bytes());
        body.extend_from_slice(&format.to_be_bytes());
        body.extend_from_slice(&(values.len() as i16).to_be_bytes());
        for value in values {
            let length = value.as_ref().map_or(-1, |value| value.len() as i32);
            body.extend_from_slice(&length.to_be_bytes());
            body.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        body.extend_from_slice(&0_i16.to_be_bytes());
        self.send(b'B', &body);
        self.send(b'E', b"\0\0\0\0\0");
        self.send(b'S', b"");
        self.answer()
    }

    /// Parses, binds and executes each statement, and sends one Sync after the last.
    pub(crate) fn pipeline(&mut self, statements: &[&str]) -> Answer {
        for sql in statements {
            self.prepare("", sql, &[]);
            self.send(b'B', b"\0\0\0\0\0\0\0\0");
            self.send(b'E', b"\0\0\0\0\0");
        }
        self.send(b'S', b"");
        self.answer()
    }

    /// Sends these messages, by kind and body, and Sync.
    pub(crate) fn messages(&mut self, messages: &[(u8, &[u8])]) -> Answer {
        for (kind, body) in messages {
            self.send(*kind, body);
        }
        self.send(b'S', b"");
        self.answer()
    }

    /// Runs a simple query. The answers of several statements are merged.
    pub(crate) fn simple(&mut self, sql: &str) -> Answer {
        self.send(b'Q', format!("{sql}\0").as_bytes());
        self.answer()
    }

    /// Reads the answer up to the next `ReadyForQuery`.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            let (kind, body) = self.message();
            let short = |at: usize| i16::from_be_bytes([body[at], body[at + 1]]) as usize;
            let long = |at: usize| {
                u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]])
            };
            match kind {
                b't' => answer.parameters = (0..short(0)).map(|i| long(2 + 4 * i)).collect(),
                b'T' => {
                    answer.columns.clear();
                    let mut at = 2;
                    for _ in 0..short(0) {
                        let end = at + body[at..].iter().position(|byte| *byte == 0).unwrap();
                        let name = String::from_utf8(body[at..end].to_vec()).unwrap();
                        answer.columns.push((name, long(end + 7)));
                        at = end + 19;
                    }
                }
                b'D' => {
                    let mut at = 2;
                    let cells = (0..short(0)).map(|_| {
                        let length = long(at) as i32;
                        at += 4;
                        (length >= 0).then(|| {
                            let start = at;
                            at += length as usize;
                            String::from_utf8(body[start..at].to_vec()).unwrap()
                        })
                    });
                    let cells = cells.collect();
                    answer.rows.push(cells);
                }
                b'E' => {
                    let fields = body.split(|byte| *byte == 0);
                    let texts = fields.map(|field| String::from_utf8_lossy(field).into_owned());
                    let texts: Vec<String> = texts.collect();
                    let field = |kind: char| {
                        let field = texts.iter().find_map(|text| text.strip_prefix(kind));
                        field.unwrap_or_default().to_owned()
                    };
                    answer.error = Some(format!("{} {}", field('C'), field('M')));
                }
                b'C' => {
                    let text = String::from_utf8_lossy(&body);
                    text.trim_end_matches('\0').clone_into(&mut answer.tag);
                }
                b'Z' => return answer,
                _ => {}
            }
        }
    }
}

impl Answer {
    /// The rows on one line, or the error.
    pub(crate) fn shown(&self) -> String {
        if let Some(error) = &self.error {
            return format!("error {error}");
        }
        let rows = self.rows.iter().map(|row| {
            let cells = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL"));
            cells.collect::<Vec<_>>().join(" | ")
        });
        rows.collect::<Vec<_>>().join("; ")
    }
}
