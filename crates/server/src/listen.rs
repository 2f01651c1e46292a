//! Opens the listeners, and says clearly which one could not be opened.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

/// A listener that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("listen for {name} on {addr}: {source}; {}", advice(.source, .name))]
pub struct ListenError {
    /// Which: `grpc`, `http` or `peer`.
    pub name: &'static str,
    /// Where.
    pub addr: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the system's errors are many and grow")]
fn advice(error: &io::Error, name: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("stop the process that holds the port, or set listen.{name} to a free one")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("set listen.{name} to an address of this machine")
        }
        io::ErrorKind::PermissionDenied => {
            format!("set listen.{name} to a port above 1023, or allow this user the low ports")
        }
        _ => format!("set listen.{name} to an address that can be listened on"),
    }
}

/// Opens one.
pub(crate) async fn bind(
    name: &'static str,
    addr: SocketAddr,
) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError { name, addr, source };
    let listener = TcpListener::bind(addr).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
