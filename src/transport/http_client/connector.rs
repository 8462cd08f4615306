//! TCP connections of the HTTP client, bounded by the deadline of their exchange.
//!
//! Resolves names, checks addresses, connects, reads and writes under the deadline of the thread's
//! current [`Exchange`](super::deadline), and stops at once when that exchange is stopped. TLS is a
//! layer above.
//!
//! # Invariants
//! - Each wait lasts at most a [`TICK`]; then the exchange is checked again.
//! - With public addresses only, no packet goes to another address. Proxies of the environment are
//!   not used.
//! - Written bytes leave before any read: the head and a small body are one packet.
//! - A server may respond before it has read the whole request and close. The client then stops
//!   writing and reads the response (RFC 9112, section 9.5).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

use super::deadline::{BRIEF, Exchange, Patience, StopReason, TICK, current};
use super::public_addr;

/// Bytes that are collected before a write: a head and the body of a usual call.
const TOGETHER: usize = 16 << 10;
/// Concurrent lookups of names in the process: the system's function cannot be interrupted, so a
/// lookup may outlive its exchange.
const LOOKUPS: usize = 8;

/// Addresses that may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Everywhere,
    Public,
}

/// Opens connections for the agent.
#[derive(Debug)]
pub(super) struct TcpConnector {
    pub reach: Reach,
    /// Longest time for one connection, over all addresses of the name.
    pub timeout: Duration,
}

impl Connector for TcpConnector {
    type Out = TcpTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<TcpTransport>, Error> {
        let exchange = current_exchange()?;
        let end = Instant::now() + self.timeout;
        let mut last = Error::HostNotFound;
        let count = details.addrs.len();
        for (i, address) in details.addrs.iter().enumerate() {
            if self.reach == Reach::Public && !public_addr::is_public(address.ip()) {
                last = io::Error::new(io::ErrorKind::PermissionDenied, "the address is not public").into();
                continue;
            }
            // The addresses of one name share the time, the first ones with the larger part.
            let left = end.saturating_duration_since(Instant::now());
            let share = if i + 1 < count { left / 2 } else { left };
            match connect(*address, share, &exchange) {
                Ok(socket) => {
                    let socket = Arc::new(socket);
                    exchange.uses(&socket).map_err(stopped)?;
                    #[cfg(feature = "tls")]
                    exchange.shake(details.needs_tls());
                    return Ok(Some(TcpTransport::new(socket, details.config)));
                }
                Err(error) if exchange.stop_reason().is_some() => return Err(error.into()),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }
}

/// Connector that runs after the TLS handshake.
#[cfg(feature = "tls")]
#[derive(Debug)]
pub(super) struct AfterHandshake;

#[cfg(feature = "tls")]
impl<In: Transport> Connector<In> for AfterHandshake {
    type Out = In;

    fn connect(&self, _: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<In>, Error> {
        current_exchange()?.shake(false);
        Ok(chained)
    }
}

fn current_exchange() -> Result<Arc<Exchange>, Error> {
    // Every request of this client is made by a thread inside an exchange.
    current().ok_or(Error::ConnectionFailed)
}

/// Ends the request inside ureq. The exchange has the reason.
fn stopped(_: StopReason) -> Error {
    Error::Timeout(Timeout::Global)
}

fn timed_out() -> io::Error {
    io::Error::from(io::ErrorKind::TimedOut)
}

/// A TCP socket that does not block and that child processes do not inherit.
#[cfg(all(unix, not(target_vendor = "apple")))]
fn tcp_socket(family: rustix::net::AddressFamily) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::net::{SocketFlags, SocketType, ipproto, socket_with};

    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

/// As above, in three system calls: Apple's `socket` takes no flags.
#[cfg(target_vendor = "apple")]
fn tcp_socket(family: rustix::net::AddressFamily) -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::net::{SocketType, ipproto, socket};

    let socket = socket(family, SocketType::STREAM, Some(ipproto::TCP))?;
    rustix::io::ioctl_fioclex(&socket)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Connects; another thread can end that by stopping the exchange.
#[cfg(unix)]
fn connect(address: SocketAddr, timeout: Duration, exchange: &Exchange) -> io::Result<TcpStream> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{AddressFamily, sockopt};

    let end = Instant::now() + timeout;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = TcpStream::from(tcp_socket(family)?);
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(rustix::io::Errno::INPROGRESS) => loop {
            let slice = exchange.slice().map_err(|_| timed_out())?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(timed_out());
            }
            // Short slices: a socket that is still connecting cannot be shut on every system.
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
    // Head and body are one write; collecting more would only delay it.
    socket.set_nodelay(true)?;
    // A peer that vanished is noticed after some minutes.
    sockopt::set_socket_keepalive(&socket, true)?;
    Ok(socket)
}

/// Connects.
#[cfg(not(unix))]
fn connect(address: SocketAddr, timeout: Duration, exchange: &Exchange) -> io::Result<TcpStream> {
    exchange.slice().map_err(|_| timed_out())?;
    let socket = TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1)))?;
    // Head and body are one write; collecting more would only delay it.
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Resolves a host name.
#[derive(Debug)]
pub(super) struct NameResolver;

static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// Counts a lookup for as long as its thread lives.
struct LookupPermit;

impl LookupPermit {
    fn begin() -> Option<LookupPermit> {
        let begun = LOOKING.fetch_add(1, Ordering::Relaxed);
        // Created first, so that its drop undoes the count if there are too many.
        let looking = LookupPermit;
        (begun < LOOKUPS).then_some(looking)
    }
}

impl Drop for LookupPermit {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Resolver for NameResolver {
    fn resolve(&self, uri: &Uri, config: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().unwrap_or_default();
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let mut found = self.empty();
        if let Ok(ip) = bare.parse::<IpAddr>() {
            found.push(SocketAddr::new(ip, port));
            return Ok(found);
        }
        // This name needs no network.
        let addresses = if bare.eq_ignore_ascii_case("localhost") {
            (bare, port).to_socket_addrs()?
        } else {
            look_up(bare.to_owned(), port)?
        };
        for address in config.ip_family().keep_wanted(addresses).take(16) {
            found.push(address);
        }
        if found.is_empty() { Err(Error::HostNotFound) } else { Ok(found) }
    }
}

/// Looks a name up on a thread of its own, because the system's function has no timeout.
fn look_up(host: String, port: u16) -> Result<std::vec::IntoIter<SocketAddr>, Error> {
    let exchange = current_exchange()?;
    let Some(looking) = LookupPermit::begin() else {
        return Err(Error::Io(io::Error::other("too many lookups of host names are in flight")));
    };
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("tinymcp-lookup".into()).stack_size(256 << 10).spawn(move || {
        let found = (&*host, port).to_socket_addrs();
        // OK to drop: the exchange may be over.
        let _ = sender.send(found);
        drop(looking);
    })?;
    loop {
        // Short: a stop cannot end this wait.
        let slice = exchange.slice().map_err(stopped)?.min(TICK / 10);
        match receiver.recv_timeout(slice) {
            Ok(found) => return Ok(found?),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Error::HostNotFound),
        }
    }
}

/// One connection. Pooled, so it outlives the exchange that opened it.
pub(super) struct TcpTransport {
    socket: Arc<TcpStream>,
    buffers: LazyBuffers,
    /// Bytes to send.
    pending: Vec<u8>,
    /// A response was just read.
    fresh: bool,
    /// Set when nothing more is written; with the error if writing failed.
    write_end: Option<Option<io::Error>>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl TcpTransport {
    fn new(socket: Arc<TcpStream>, config: &Config) -> TcpTransport {
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        TcpTransport {
            socket,
            buffers,
            pending: Vec::new(),
            fresh: false,
            write_end: None,
            read_timeout: None,
            write_timeout: None,
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.write_end.is_some() {
            self.pending.clear();
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        let exchange = current_exchange()?;
        exchange.uses(&self.socket).map_err(stopped)?;
        let mut rest = self.pending.as_slice();
        while !rest.is_empty() {
            let slice = exchange.slice().map_err(stopped)?;
            if self.write_timeout != Some(slice) {
                self.socket.set_write_timeout(Some(slice))?;
                self.write_timeout = Some(slice);
            }
            match (&*self.socket).write(rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(n) => {
                    exchange.sent();
                    rest = rest.get(n..).unwrap_or_default();
                }
                // The server may have responded and stopped reading.
                Err(error) if is_wait(&error) => {
                    if answers_already(&self.socket) {
                        self.write_end = Some(None);
                        break;
                    }
                }
                Err(error) if is_break(&error) => {
                    self.write_end = Some(Some(error));
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.pending.clear();
        self.pending.shrink_to(TOGETHER);
        Ok(())
    }

    /// Returns the error of a failed write.
    fn broken(&mut self) -> io::Error {
        let why = self.write_end.replace(None).flatten();
        why.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Reads once without waiting.
    #[cfg(unix)]
    fn poll(&mut self) -> io::Result<usize> {
        let room = self.buffers.input_append_buf();
        Ok(rustix::net::recv(&self.socket, room, rustix::net::RecvFlags::DONTWAIT)?.0)
    }

    /// Reads once without waiting.
    #[cfg(not(unix))]
    fn poll(&mut self) -> io::Result<usize> {
        self.socket.set_nonblocking(true)?;
        let read = (&*self.socket).read(self.buffers.input_append_buf());
        self.socket.set_nonblocking(false)?;
        read
    }
}

/// Returns whether the peer has closed the connection. It may have responded before.
fn is_break(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// Returns whether the head of a final response (not 1xx) has arrived. Does not wait and does not
/// consume. It never matches TLS records.
fn answers_already(socket: &TcpStream) -> bool {
    let mut start = [0; 12];
    peek(socket, &mut start).is_ok_and(|n| n == start.len())
        && start.starts_with(b"HTTP/1.")
        && matches!(start[9], b'2'..=b'5')
}

/// Reads without waiting and without consuming.
#[cfg(unix)]
fn peek(socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    use rustix::net::{RecvFlags, recv};
    Ok(recv(socket, into, RecvFlags::PEEK | RecvFlags::DONTWAIT)?.0)
}

/// Reads without waiting and without consuming.
#[cfg(not(unix))]
fn peek(socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    socket.set_nonblocking(true)?;
    let seen = socket.peek(into);
    socket.set_nonblocking(false)?;
    seen
}

/// Returns whether the time slice is over or a signal arrived.
fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

impl Transport for TcpTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let output = self.buffers.output();
        self.pending.extend_from_slice(output.get(..amount).unwrap_or_default());
        if self.pending.len() < TOGETHER { Ok(()) } else { self.flush() }
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        self.flush()?;
        let exchange = current_exchange()?;
        exchange.uses(&self.socket).map_err(stopped)?;
        loop {
            let patience = exchange.patience();
            let read = if patience == Patience::None {
                self.poll()
            } else {
                let slice = exchange.slice().map_err(stopped)?;
                let slice = if patience == Patience::Brief { slice.min(BRIEF) } else { slice };
                if self.read_timeout != Some(slice) {
                    self.socket.set_read_timeout(Some(slice))?;
                    self.read_timeout = Some(slice);
                }
                (&*self.socket).read(self.buffers.input_append_buf())
            };
            match read {
                // The peer closed without a response: the error of the write is more specific.
                Ok(0) if matches!(self.write_end, Some(Some(_))) => {
                    return Err(self.broken().into());
                }
                Ok(n) => {
                    self.buffers.input_appended(n);
                    self.fresh = true;
                    return Ok(n > 0);
                }
                Err(error) if is_wait(&error) => {
                    exchange.slice().map_err(stopped)?;
                    if patience != Patience::Long {
                        return Err(Error::Io(timed_out()));
                    }
                }
                Err(_) if matches!(self.write_end, Some(Some(_))) => return Err(self.broken().into()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_open(&mut self) -> bool {
        if self.write_end.is_some() {
            return false;
        }
        // Called when the connection is returned to the pool, and again when it is taken out.
        if std::mem::take(&mut self.fresh) {
            if let Some(exchange) = current() {
                exchange.releases(&self.socket);
            }
            return true;
        }
        // Unexpected bytes make the connection unusable as well.
        matches!(self.poll(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl fmt::Debug for TcpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TcpTransport")
    }
}
