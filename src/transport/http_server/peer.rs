//! Process at the other end of a connection.

use std::net::SocketAddr;

/// The process at the other end of an HTTP connection, from
/// [`Context::peer`](crate::Context::peer).
///
/// ```
/// use tinymcp::{Peer, Server, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tool(Tool::new("whoami"), |ctx, ()| {
///     Ok(match ctx.peer() {
///         Some(Peer::Tcp(address)) => format!("a client at {}", address.ip()),
///         Some(Peer::Unix(Some(process))) => format!("user {} of this machine", process.uid),
///         _ => "unknown".to_owned(),
///     })
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// Address of the client, or of the reverse proxy in front of the server.
    Tcp(SocketAddr),
    /// A process of this machine that connected to a Unix socket. Its credentials are those at the
    /// time of the connection. `None` on systems other than Linux.
    Unix(Option<PeerCredentials>),
}

/// Credentials of a process, from the kernel: a field of [`Peer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Process id at the time of the connection. Another process may have the id now.
    pub pid: i32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}
