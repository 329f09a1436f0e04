//! When does the server give up a client that does not answer?
//!
//! A peer whose machine or network has failed sends nothing, not even an end of stream. A
//! connection that waits for such a peer would wait without end, and keep its cursors and its
//! connection slot. Probes detect this. Clients configure them by PostgreSQL's settings
//! (`tcp_keepalives_idle`, `tcp_keepalives_interval`, `tcp_keepalives_count`, `tcp_user_timeout`;
//! `coscan::session_settings::Keepalive`).
//!
//! Not here: clients that are reachable but idle (`idle_session_timeout`), or that do not read:
//! their system answers the probes, and only `tcp_user_timeout` ends such a connection. We differ:
//! in PostgreSQL the default 0 means the system's two hours; here it means two minutes in all.

use std::io;
use std::time::Duration;

use coscan::session_settings::Keepalive;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Applies the settings to a socket.
///
/// # Errors
/// The system refuses the numbers, or the socket has gone.
pub(crate) fn keep_alive(socket: &TcpStream, settings: Keepalive) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(settings.idle_s.into()))
        .with_interval(Duration::from_secs(settings.interval_s.into()))
        .with_retries(settings.count);
    socket.set_tcp_keepalive(&keepalive)?;
    let timeout = Duration::from_millis(settings.user_timeout_ms.into());
    socket.set_tcp_user_timeout((!timeout.is_zero()).then_some(timeout))
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
        for (seconds, timeout) in [(60, 0), (7, 1500), (8, 0)] {
            let keepalive = Keepalive {
                idle_s: seconds,
                user_timeout_ms: timeout,
                ..Keepalive::default()
            };
            keep_alive(&socket, keepalive).unwrap();
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
