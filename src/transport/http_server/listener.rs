//! Listening sockets: TCP, Unix sockets, and sockets passed by the service manager.
//!
//! # Invariants
//! - The file of a Unix socket is replaced only if no process listens there.
//! - The file of our own Unix socket has mode 0600 and is removed on drop.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, ToSocketAddrs};
#[cfg(unix)]
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use mio::net::{UnixListener, UnixStream};

use super::peer::Peer;
#[cfg(unix)]
use super::peer::PeerCredentials;
use crate::error::{Error, ErrorKind};

/// Address that selects the sockets passed by the service manager.
const SYSTEMD: &str = "systemd";
/// Maximum number of connections that wait to be accepted. The usual 128 are too few on a busy
/// machine, and a peer whose connection was dropped retries after a second.
#[cfg(unix)]
const BACKLOG: i32 = 1024;
/// Prefix of the address of a Unix socket.
const UNIX: &str = "unix:";

/// A listening socket.
pub(crate) struct Listener {
    inner: Inner,
    /// Socket file to remove on drop, unless another file has replaced it.
    #[cfg(unix)]
    file: Option<(PathBuf, FileId)>,
}

enum Inner {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    /// Listens at `address`: `127.0.0.1:8080`, `[::1]:0`, `localhost:8080`, `unix:/run/mcp.sock`,
    /// or `systemd` for every socket that the service manager passed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the address is malformed, [`ErrorKind::Busy`] if another process
    /// listens there, [`ErrorKind::Io`] with the system's error otherwise.
    pub(crate) fn bind(address: &str) -> Result<Vec<Listener>, Error> {
        if address == SYSTEMD {
            return activated();
        }
        if let Some(path) = address.strip_prefix(UNIX) {
            return Ok(vec![bind_unix(path)?]);
        }
        if !is_host_and_port(address) {
            return Err(Error::new(ErrorKind::Invalid, malformed(address)));
        }
        let resolved = address.to_socket_addrs().map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("cannot find the host of {address:?}")).with_source(error)
        })?;
        let mut last = None;
        for candidate in resolved {
            match TcpListener::bind(candidate) {
                Ok(tcp) => {
                    #[cfg(unix)]
                    rustix::net::listen(&tcp, BACKLOG)
                        .map_err(|error| cannot_listen(address, error.into()))?;
                    return Ok(vec![Listener::tcp(tcp)]);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(cannot_listen(address, last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into())))
    }

    fn tcp(tcp: TcpListener) -> Listener {
        Listener {
            inner: Inner::Tcp(tcp),
            #[cfg(unix)]
            file: None,
        }
    }

    /// Returns the address, with the actual port, in the form that `bind` accepts.
    pub(crate) fn address(&self) -> String {
        match &self.inner {
            Inner::Tcp(tcp) => tcp.local_addr().map_or_else(|_| String::new(), |a| a.to_string()),
            #[cfg(unix)]
            Inner::Unix(unix) => {
                let path = unix.local_addr().ok().and_then(|a| a.as_pathname().map(Path::to_path_buf));
                format!("{UNIX}{}", path.unwrap_or_default().display())
            }
        }
    }

    /// Returns whether only processes of this machine can connect.
    pub(crate) fn is_local(&self) -> bool {
        match &self.inner {
            Inner::Tcp(tcp) => tcp.local_addr().is_ok_and(|a| a.ip().is_loopback()),
            #[cfg(unix)]
            Inner::Unix(_) => true,
        }
    }

    pub(super) fn accept(&self) -> io::Result<Socket> {
        match &self.inner {
            Inner::Tcp(tcp) => {
                let (stream, _) = tcp.accept()?;
                // A response is one write. It must not wait for a delayed acknowledgement.
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            #[cfg(unix)]
            Inner::Unix(unix) => Ok(Socket::Unix(unix.accept()?.0)),
        }
    }

    pub(super) fn source(&mut self) -> &mut dyn Source {
        match &mut self.inner {
            Inner::Tcp(tcp) => tcp,
            #[cfg(unix)]
            Inner::Unix(unix) => unix,
        }
    }
}

#[cfg(unix)]
impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((file, _)) = self.file.as_ref().filter(|(file, id)| file_id(file) == *id) {
            // OK to drop: this fails if the file no longer exists.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Device and inode.
#[cfg(unix)]
type FileId = Option<(u64, u64)>;

#[cfg(unix)]
fn file_id(file: &Path) -> FileId {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::symlink_metadata(file).ok()?;
    Some((found.dev(), found.ino()))
}

/// Returns whether an address has a host and a port. The host itself is not checked.
fn is_host_and_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or_else(|| {
        // Without brackets, the last group of an IPv6 address is not a port.
        if host.contains([':', '/']) { "" } else { host }
    });
    !host.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

/// Returns an error message with the accepted forms and, if possible, a suggestion.
fn malformed(address: &str) -> String {
    let rest = ["http://", "https://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    let authority = rest.map(|rest| rest.split('/').next().unwrap_or(rest));
    let port = address.strip_prefix(':').unwrap_or(address);
    let meant = match authority {
        Some(authority) => Some(authority.to_owned()),
        None => Some(format!("127.0.0.1:{port}")),
    };
    let hint =
        meant.filter(|meant| is_host_and_port(meant)).map(|meant| format!("; did you mean {meant:?}?"));
    format!(
        "invalid address {address:?}: expected HOST:PORT such as \"127.0.0.1:8080\", unix:PATH or systemd{}",
        hint.unwrap_or_default()
    )
}

fn cannot_listen(address: &str, error: io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::AddrInUse { ErrorKind::Busy } else { ErrorKind::Io };
    Error::new(kind, format!("cannot listen at {address}")).with_source(error)
}

#[cfg(unix)]
fn bind_unix(path: &str) -> Result<Listener, Error> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let failed = |error| cannot_listen(path, error);
    let file = Path::new(path);
    if path.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "missing path after unix:"));
    }
    // A killed process leaves its file behind. No process listens there.
    if std::fs::symlink_metadata(file).is_ok_and(|m| m.file_type().is_socket()) {
        match std::os::unix::net::UnixStream::connect(file) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(file).map_err(failed)?;
            }
            _ => return Err(failed(io::ErrorKind::AddrInUse.into())),
        }
    }
    let unix = UnixListener::bind(file).map_err(failed)?;
    rustix::net::listen(&unix, BACKLOG).map_err(|error| failed(error.into()))?;
    let listener = Listener { inner: Inner::Unix(unix), file: Some((file.to_path_buf(), file_id(file))) };
    // Connecting requires write permission, which the usual umask also limits to the owner.
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

#[cfg(not(unix))]
fn bind_unix(_path: &str) -> Result<Listener, Error> {
    Err(Error::new(ErrorKind::Invalid, "unix:PATH is not supported on this system"))
}

/// Returns the sockets passed by the service manager (`LISTEN_FDS`, sd_listen_fds(3)), which
/// keeps their files.
#[cfg(unix)]
fn activated() -> Result<Vec<Listener>, Error> {
    let failed = |error| cannot_listen(SYSTEMD, error);
    let mut passed = listenfd::ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..passed.len() {
        let listener = match passed.take_tcp_listener(index) {
            Ok(Some(tcp)) => {
                tcp.set_nonblocking(true).map_err(failed)?;
                Listener::tcp(TcpListener::from_std(tcp))
            }
            _ => {
                let unix = passed.take_unix_listener(index).map_err(failed)?;
                let Some(unix) = unix else { continue };
                unix.set_nonblocking(true).map_err(failed)?;
                Listener { inner: Inner::Unix(UnixListener::from_std(unix)), file: None }
            }
        };
        listeners.push(listener);
    }
    if listeners.is_empty() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no sockets passed by the service manager: LISTEN_FDS is not set for this process",
        ));
    }
    Ok(listeners)
}

#[cfg(not(unix))]
fn activated() -> Result<Vec<Listener>, Error> {
    Err(Error::new(ErrorKind::Invalid, "systemd is not supported on this system"))
}

/// A connected non-blocking socket.
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&mut &*s).read(into),
            #[cfg(unix)]
            Socket::Unix(s) => (&mut &*s).read(into),
        }
    }

    pub(super) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&mut &*s).write_vectored(parts),
            #[cfg(unix)]
            Socket::Unix(s) => (&mut &*s).write_vectored(parts),
        }
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.shutdown(how),
            #[cfg(unix)]
            Socket::Unix(s) => s.shutdown(how),
        }
    }

    /// Closes the socket and discards its send buffer, which the system would otherwise keep for
    /// minutes.
    pub(super) fn abort(self) {
        #[cfg(unix)]
        if let Socket::Tcp(tcp) = &self {
            // If this fails, the system only keeps the memory longer.
            let _ = rustix::net::sockopt::set_socket_linger(tcp, Some(std::time::Duration::ZERO));
        }
    }

    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(s) => s,
            #[cfg(unix)]
            Socket::Unix(s) => s,
        }
    }

    /// Returns the process at the other end, from the system. `None` if the connection is closed.
    pub(super) fn peer(&self) -> Option<Peer> {
        match self {
            Socket::Tcp(s) => s.peer_addr().ok().map(Peer::Tcp),
            #[cfg(unix)]
            Socket::Unix(s) => Some(Peer::Unix(credentials(s))),
        }
    }
}

#[cfg(target_os = "linux")]
fn credentials(socket: &UnixStream) -> Option<PeerCredentials> {
    let found = rustix::net::sockopt::socket_peercred(socket).ok()?;
    Some(PeerCredentials { pid: found.pid.as_raw_pid(), uid: found.uid.as_raw(), gid: found.gid.as_raw() })
}

#[cfg(all(unix, not(target_os = "linux")))]
fn credentials(_: &UnixStream) -> Option<PeerCredentials> {
    None
}
