//! Connects sockets of the HTTP client to an address or to a Unix socket. Stops when the exchange
//! ends.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
#[cfg(unix)]
use std::time::Instant;

use super::deadline::Exchange;
#[cfg(unix)]
use super::deadline::TICK;

pub(super) fn timed_out() -> io::Error {
    io::Error::from(io::ErrorKind::TimedOut)
}

/// Creates a non-blocking stream socket that child processes do not inherit.
#[cfg(all(unix, not(target_vendor = "apple")))]
fn stream_socket(family: rustix::net::AddressFamily) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::net::{SocketFlags, SocketType, socket_with};

    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, None)
}

/// Creates a non-blocking stream socket that child processes do not inherit. Apple's `socket` takes
/// no flags, so this makes three system calls.
#[cfg(target_vendor = "apple")]
fn stream_socket(family: rustix::net::AddressFamily) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::net::{SocketType, socket};

    let socket = socket(family, SocketType::STREAM, None)?;
    rustix::io::ioctl_fioclex(&socket)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Connects to an address. Another thread can interrupt this by stopping the exchange.
#[cfg(unix)]
pub(super) fn connect(address: SocketAddr, timeout: Duration, exchange: &Exchange) -> io::Result<TcpStream> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{AddressFamily, sockopt};

    let end = Instant::now() + timeout;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = TcpStream::from(stream_socket(family)?);
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(rustix::io::Errno::INPROGRESS) => loop {
            let slice = exchange.slice().map_err(|_| timed_out())?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(timed_out());
            }
            // Wait in short slices: some systems cannot shut down a socket that is connecting.
            let slice = slice.min(left).min(TICK / 10);
            let slice = Timespec { tv_sec: 0, tv_nsec: slice.subsec_nanos().into() };
            let mut ready = [PollFd::new(&socket, PollFlags::OUT)];
            match poll(&mut ready, Some(&slice)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => {
                    if let Some(error) = socket.take_error()? {
                        return Err(error);
                    }
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        },
        Err(error) => return Err(error.into()),
    }
    socket.set_nonblocking(false)?;
    // Head and body are one write, so Nagle's algorithm would only delay it.
    socket.set_nodelay(true)?;
    // Detects a peer that is no longer reachable, after some minutes.
    sockopt::set_socket_keepalive(&socket, true)?;
    Ok(socket)
}

/// Connects to a Unix socket. Returns it as a [`TcpStream`]: reading, writing, timeouts and
/// shutdown are the same system calls for every stream socket.
#[cfg(unix)]
pub(super) fn connect_unix(path: &Path, timeout: Duration, exchange: &Exchange) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix};

    let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    let end = Instant::now() + timeout;
    loop {
        let slice = exchange.slice().map_err(|_| timed_out())?;
        let socket = TcpStream::from(stream_socket(AddressFamily::UNIX)?);
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {
                socket.set_nonblocking(false)?;
                return Ok(socket);
            }
            // The accept queue of the server is full. No readiness event exists for that, so sleep.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(timed_out());
                }
                std::thread::sleep(slice.min(left).min(Duration::from_millis(10)));
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
}

/// Never called: an endpoint with a Unix socket is rejected when it is checked.
#[cfg(not(unix))]
pub(super) fn connect_unix(_: &Path, _: Duration, _: &Exchange) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Connects to an address.
#[cfg(not(unix))]
pub(super) fn connect(address: SocketAddr, timeout: Duration, exchange: &Exchange) -> io::Result<TcpStream> {
    exchange.slice().map_err(|_| timed_out())?;
    let socket = TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1)))?;
    // Head and body are one write, so Nagle's algorithm would only delay it.
    socket.set_nodelay(true)?;
    Ok(socket)
}
