//! When does the server give up a client that does not answer?
//!
//! A peer whose machine or network has failed sends nothing, not even an end of stream. A
//! connection that waits for such a peer would wait without end, and keep its cursors and its
//! connection slot. Probes detect this. Clients configure them by PostgreSQL's settings
//! (`tcp_keepalives_idle`, `tcp_keepalives_interval`, `tcp_keepalives_count`, `tcp_user_timeout`).
//!
//! Not here: clients that are reachable but idle (`idle_session_timeout`), or that do not read:
//! their system answers the probes, and only `tcp_user_timeout` ends such a connection. We differ:
//! in PostgreSQL the default 0 means the system's two hours; here it means two minutes in all.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// The keepalive settings of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keepalive {
    idle_s: u32,
    interval_s: u32,
    count: u32,
    /// 0 leaves it to the system's limit on retransmissions.
    user_timeout_ms: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle_s: 60,
            interval_s: 10,
            count: 6,
            user_timeout_ms: 0,
        }
    }
}

impl Keepalive {
    /// The field of the setting with this name; `None` if it is not one of these four.
    pub(crate) fn setting(&mut self, name: &str) -> Option<&mut u32> {
        Some(match name {
            "tcp_keepalives_idle" => &mut self.idle_s,
            "tcp_keepalives_interval" => &mut self.interval_s,
            "tcp_keepalives_count" => &mut self.count,
            "tcp_user_timeout" => &mut self.user_timeout_ms,
            _ => return None,
        })
    }

    /// Applies the settings to a socket.
    ///
    /// # Errors
    /// The system refuses the numbers, or the socket has gone.
    pub(crate) fn apply(self, socket: &TcpStream) -> io::Result<()> {
        let socket = SockRef::from(socket);
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(self.idle_s.into()))
            .with_interval(Duration::from_secs(self.interval_s.into()))
            .with_retries(self.count);
        socket.set_tcp_keepalive(&keepalive)?;
        let timeout = Duration::from_millis(self.user_timeout_ms.into());
        socket.set_tcp_user_timeout((!timeout.is_zero()).then_some(timeout))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn every_setting_reaches_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let mut keepalive = Keepalive::default();
        for (seconds, timeout) in [(60, 0), (7, 1500), (8, 0)] {
            *keepalive.setting("tcp_keepalives_idle").unwrap() = seconds;
            *keepalive.setting("tcp_user_timeout").unwrap() = timeout;
            keepalive.apply(&socket).unwrap();
            let applied = SockRef::from(&socket);
            assert!(applied.keepalive().unwrap());
            let second = Duration::from_secs(1);
            assert_eq!(applied.tcp_keepalive_time().unwrap(), second * seconds);
            assert_eq!(applied.tcp_keepalive_interval().unwrap(), 10 * second);
            assert_eq!(applied.tcp_keepalive_retries().unwrap(), 6);
            let timeout = (timeout > 0).then(|| Duration::from_millis(timeout.into()));
            assert_eq!(applied.tcp_user_timeout().unwrap(), timeout);
        }
    }
}
