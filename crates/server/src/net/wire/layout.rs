//! Is a message laid out as its type requires?
//!
//! A message's length says where it ends, but the client chooses the lengths and counts inside it.
//! pgwire 0.41 reads them without checking that the bytes are there, and panics. So before pgwire
//! decodes a message, this file walks over it in the same steps, driven by a table. PostgreSQL
//! reads messages as strictly; the errors here have its texts.
//!
//! W2: this does not panic, whatever bytes a message has, and pgwire does not panic on a message
//! that passes.
//! Not here: the length of the message itself, and unknown types (`mod.rs`, pgwire); startup
//! messages, which contain neither lengths nor counts. COPY messages have no layout to check. This
//! file can go when pgwire checks what it reads.

use std::fmt;

use pgwire::messages::extendedquery::{
    MESSAGE_TYPE_BYTE_BIND, MESSAGE_TYPE_BYTE_CLOSE, MESSAGE_TYPE_BYTE_DESCRIBE,
    MESSAGE_TYPE_BYTE_EXECUTE, MESSAGE_TYPE_BYTE_FLUSH, MESSAGE_TYPE_BYTE_PARSE,
    MESSAGE_TYPE_BYTE_SYNC,
};
use pgwire::messages::simplequery::MESSAGE_TYPE_BYTE_QUERY;
use pgwire::messages::startup::MESSAGE_TYPE_BYTE_PASSWORD_MESSAGE_FAMILY;

/// One step through a message's body.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A text and its zero byte.
    Text,
    Byte,
    Int32,
    /// A 16-bit count, and that many numbers of this many bytes each.
    Numbers(usize),
    /// A 16-bit count, and that many values.
    Values,
    /// A 32-bit length, and that many bytes; -1 means NULL.
    Value,
}

/// The layout of a message's body; `None` if any body is valid.
fn layout(kind: u8) -> Option<&'static [Part]> {
    use Part::{Byte, Int32, Numbers, Text, Values};
    Some(match kind {
        MESSAGE_TYPE_BYTE_QUERY => &[Text],
        MESSAGE_TYPE_BYTE_PARSE => &[Text, Text, Numbers(4)],
        MESSAGE_TYPE_BYTE_BIND => &[Text, Text, Numbers(2), Values, Numbers(2)],
        MESSAGE_TYPE_BYTE_DESCRIBE | MESSAGE_TYPE_BYTE_CLOSE => &[Byte, Text],
        MESSAGE_TYPE_BYTE_EXECUTE => &[Text, Int32],
        MESSAGE_TYPE_BYTE_FLUSH | MESSAGE_TYPE_BYTE_SYNC => &[],
        _ => return None,
    })
}

/// A message whose body does not fit its type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    kind: u8,
    /// PostgreSQL's text for the error.
    why: &'static str,
}

impl Malformed {
    /// Whether the server skips all following messages up to a Sync.
    pub(crate) fn is_extended(&self) -> bool {
        !self.is_sync()
            && !matches!(
                self.kind,
                MESSAGE_TYPE_BYTE_QUERY | MESSAGE_TYPE_BYTE_PASSWORD_MESSAGE_FAMILY
            )
    }

    pub(crate) fn is_sync(&self) -> bool {
        self.kind == MESSAGE_TYPE_BYTE_SYNC
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

/// Checks the body of a message of this type.
pub(crate) fn check(kind: u8, body: &[u8]) -> Result<(), Malformed> {
    let Some(parts) = layout(kind) else {
        return Ok(());
    };
    walk(parts, body).map_err(|why| Malformed { kind, why })
}

/// Checks the body of the first message of a SASL exchange, whose type is that of a password.
pub(crate) fn check_sasl_initial(body: &[u8]) -> Result<(), Malformed> {
    let kind = MESSAGE_TYPE_BYTE_PASSWORD_MESSAGE_FAMILY;
    walk(&[Part::Text, Part::Value], body).map_err(|why| Malformed { kind, why })
}

fn walk(parts: &[Part], body: &[u8]) -> Result<(), &'static str> {
    let mut rest = body;
    for part in parts {
        match *part {
            Part::Text => {
                let end = rest.iter().position(|byte| *byte == 0).ok_or(UNENDED)?;
                skip(&mut rest, end + 1)?;
            }
            Part::Byte => rest = rest.get(1..).ok_or(NONE)?,
            Part::Int32 => skip(&mut rest, 4)?,
            Part::Numbers(bytes) => {
                let count = u16::from_be_bytes(take(&mut rest)?);
                skip(&mut rest, bytes * usize::from(count))?;
            }
            Part::Values => {
                for _ in 0..u16::from_be_bytes(take(&mut rest)?) {
                    value(&mut rest)?;
                }
            }
            Part::Value => value(&mut rest)?,
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(BEYOND) }
}

fn value(rest: &mut &[u8]) -> Result<(), &'static str> {
    match i32::from_be_bytes(take(rest)?) {
        -1 => Ok(()),
        length => skip(rest, usize::try_from(length).map_err(|_| SHORT)?),
    }
}

fn skip(rest: &mut &[u8], bytes: usize) -> Result<(), &'static str> {
    *rest = rest.get(bytes..).ok_or(SHORT)?;
    Ok(())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (taken, beyond) = rest.split_first_chunk().ok_or(SHORT)?;
    *rest = beyond;
    Ok(*taken)
}

const UNENDED: &str = "invalid string in message";
const NONE: &str = "no data left in message";
const SHORT: &str = "insufficient data left in message";
const BEYOND: &str = "invalid message format";

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers are small"
)]
pub(super) mod tests {
    use bytes::{Bytes, BytesMut};
    use pgwire::messages::copy::{CopyData, CopyDone, CopyFail};
    use pgwire::messages::extendedquery::{Bind, Close, Describe, Execute, Flush, Parse, Sync};
    use pgwire::messages::simplequery::Query;
    use pgwire::messages::startup::{PasswordMessageFamily, SASLInitialResponse, SASLResponse};
    use pgwire::messages::terminate::Terminate;
    use pgwire::messages::{DecodeContext, PgWireFrontendMessage, ProtocolVersion};

    use super::*;

    /// Random numbers, fixed by a seed.
    pub(crate) struct Random(u64);

    impl Random {
        pub(crate) fn new(seed: u64) -> Self {
            Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D)
        }

        pub(crate) fn below(&mut self, bound: usize) -> usize {
            let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = next.wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }

        fn text(&mut self) -> String {
            (0..self.below(12))
                .map(|_| char::from(b'a' + self.below(26) as u8))
                .collect()
        }

        fn name(&mut self) -> Option<String> {
            Some(self.text()).filter(|text| !text.is_empty())
        }

        fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
            (0..self.below(5)).map(|_| item(self)).collect()
        }

        fn bytes(&mut self) -> Bytes {
            self.list(|random| random.below(256) as u8).into()
        }
    }

    pub(crate) const KINDS: usize = 14;

    /// A valid message of the type with this number.
    pub(crate) fn valid(number: usize, random: &mut Random) -> BytesMut {
        use PgWireFrontendMessage as Message;
        let target = |random: &mut Random| [b'S', b'P'][random.below(2)];
        let code = |random: &mut Random| random.below(2) as i16;
        let message = match number {
            0 => Message::Query(Query::new(random.text())),
            1 => {
                let types = random.list(|random| random.below(1 << 30) as u32);
                Message::Parse(Parse::new(random.name(), random.text(), types))
            }
            2 => Message::Bind(Bind::new(
                random.name(),
                random.name(),
                random.list(code),
                random.list(|random| (random.below(4) > 0).then(|| random.bytes())),
                random.list(code),
            )),
            3 => Message::Describe(Describe::new(target(random), random.name())),
            4 => Message::Close(Close::new(target(random), random.name())),
            5 => Message::Execute(Execute::new(random.name(), random.below(9) as i32)),
            6 => Message::Flush(Flush::new()),
            7 => Message::Sync(Sync::new()),
            8 => Message::Terminate(Terminate::new()),
            9 => Message::CopyData(CopyData::new(random.bytes())),
            10 => Message::CopyDone(CopyDone::new()),
            11 => Message::CopyFail(CopyFail::new(random.text())),
            12 => {
                let data = Some(random.bytes());
                let first = SASLInitialResponse::new(random.text(), data);
                Message::PasswordMessageFamily(PasswordMessageFamily::SASLInitialResponse(first))
            }
            _ => {
                let next = SASLResponse::new(random.bytes());
                Message::PasswordMessageFamily(PasswordMessageFamily::SASLResponse(next))
            }
        };
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes).unwrap();
        bytes
    }

    /// Changes bytes, lengths and counts behind the message's own length.
    pub(crate) fn mutate(message: &mut Vec<u8>, random: &mut Random) {
        for _ in 0..=random.below(3) {
            let body = message.len() - 5;
            let at = 5 + random.below(body + 1);
            match random.below(6) {
                0 if body > 0 => message[5 + random.below(body)] = random.below(256) as u8,
                1 => message.truncate(at),
                2 => message.insert(at, [0, 0xFF, 0x7F, 0x80][random.below(4)]),
                3 if body >= 2 => {
                    let count = [0, 1, 2, 0x7FFF, 0x8000, 0xFFFF][random.below(6)] as u16;
                    let at = 5 + random.below(body - 1);
                    message[at..at + 2].copy_from_slice(&count.to_be_bytes());
                }
                4 if body >= 4 => {
                    let length = [i32::MIN, -2, -1, 0, 1, 1 << 20, i32::MAX][random.below(7)];
                    let at = 5 + random.below(body - 3);
                    message[at..at + 4].copy_from_slice(&length.to_be_bytes());
                }
                _ => drop(message.splice(at..at, (0..random.below(9)).map(|n| n as u8))),
            }
        }
        let length = u32::try_from(message.len() - 1).unwrap();
        message[1..5].copy_from_slice(&length.to_be_bytes());
    }

    fn context() -> DecodeContext {
        let mut context = DecodeContext::new(ProtocolVersion::default());
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        context
    }

    #[test]
    fn valid_messages_pass_and_passing_messages_decode() {
        let (mut passed, mut refused) = (0, 0);
        for seed in 0..3_000 {
            let mut random = Random::new(seed);
            for number in 0..KINDS {
                let mut message = valid(number, &mut random).to_vec();
                assert_eq!(
                    check(message[0], &message[5..]),
                    Ok(()),
                    "{number}, seed {seed}"
                );
                for _ in 0..4 {
                    mutate(&mut message, &mut random);
                    if check(message[0], &message[5..]).is_err() {
                        refused += 1;
                        continue;
                    }
                    let mut bytes = BytesMut::from(&message[..]);
                    let decoded = PgWireFrontendMessage::decode(&mut bytes, &context()).unwrap();
                    if let Some(PgWireFrontendMessage::PasswordMessageFamily(first)) = decoded
                        && check_sasl_initial(&message[5..]).is_ok()
                    {
                        first.into_sasl_initial_response().unwrap();
                    }
                    passed += 1;
                }
            }
        }
        assert!(
            passed > 10_000 && refused > 10_000,
            "{passed} passed, {refused} refused"
        );
    }

    #[test]
    fn each_fault_has_postgresqls_text() {
        for (kind, body, why) in [
            (b'Q', &b"select 1"[..], UNENDED),
            (b'Q', b"select 1\0\0", BEYOND),
            (b'P', b"\0select 1\0\0\x01", SHORT),
            (b'P', b"\0select 1\0", SHORT),
            (b'B', b"\0\0\0\0\0\x01\0\0\0\x09x\0\0", SHORT),
            (b'B', b"\0\0\0\0\0\x01\xFF\xFF\xFF\xFE\0\0", SHORT),
            (b'B', b"\0\0\x7F\xFF", SHORT),
            (b'D', b"", NONE),
            (b'E', b"\0\0\0", SHORT),
            (b'S', b"x", BEYOND),
        ] {
            assert_eq!(check(kind, body), Err(Malformed { kind, why }), "{body:?}");
        }
        for (body, passes) in [
            (&b"SCRAM-SHA-256\0\0\0\0\x01n"[..], true),
            (b"SCRAM-SHA-256\0\xFF\xFF\xFF\xFF", true),
            (b"SCRAM-SHA-256\0\0\0\0\x02n", false),
            (b"SCRAM-SHA-256", false),
            (b"SCRAM-SHA-256\0\x80\0\0\0", false),
        ] {
            assert_eq!(check_sasl_initial(body).is_ok(), passes, "{body:?}");
        }
    }
}
