//! TCP connections and Unix sockets of the HTTP client, bounded by the deadline of their exchange.
//!
//! Resolves names, checks addresses, connects, reads and writes under the deadline of the thread's
//! current [`Exchange`](super::deadline), and stops at once when that exchange is stopped. TLS is a
//! layer above.
//!
//! # Invariants
//! - Each wait lasts at most a [`TICK`]; then the exchange is checked again.
//! - With public addresses only, no packet is sent to another address, and no proxy is used.
//! - Through a proxy, this machine and addresses that are out of reach are not requested.
//! - Pending bytes are written before each read, so the head and a small body are one write.
//! - A server may respond before it has read the whole request and close. The client then stops
//!   writing and reads the response (RFC 9112, section 9.5).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

use super::deadline::{BRIEF, Exchange, StopReason, TICK, WaitMode, current};
use super::proxy::bare_host;
use super::sign_in::DistanceRule;
use super::socket::{connect, connect_unix, timed_out};
use super::{closed, public_addr};
use crate::transport::client::Failure;

/// Number of bytes that are collected before a write: a head and the body of a usual call.
const WRITE_BUFFER: usize = 16 << 10;
/// Maximum number of concurrent name lookups in the process. The system's function cannot be
/// interrupted, so a lookup may continue after its exchange has ended.
const LOOKUPS: usize = 8;

/// Addresses that may be connected to.
#[derive(Clone)]
pub(super) enum Reach {
    Everywhere,
    Public,
    /// Only this Unix socket. The host of the URL is not resolved.
    Socket(Arc<Path>),
}

impl Reach {
    fn allows(&self, address: IpAddr) -> bool {
        match self {
            Reach::Everywhere => true,
            Reach::Public => public_addr::is_public(address),
            Reach::Socket(_) => false,
        }
    }

    /// Returns whether a proxy may be used. A proxy resolves names itself, so its addresses cannot
    /// be checked.
    fn allows_proxy(&self) -> bool {
        matches!(self, Reach::Everywhere)
    }
}

/// Opens a connection by a chain of connectors: to a proxy, to an address, with TLS.
pub(super) struct Dialer<C> {
    pub chain: C,
    pub reach: Reach,
    pub distance: DistanceRule,
}

impl<C: Connector> Connector for Dialer<C> {
    type Out = C::Out;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<C::Out>, Error> {
        let is_proxied = details.config.proxy().is_some_and(|proxy| !proxy.is_no_proxy(details.uri));
        let allows =
            || self.reach.allows_proxy() && self.distance.allows_through_proxy(bare_host(details.uri));
        if is_proxied && !allows() {
            return Err(not_public());
        }
        // ureq calls this function again for the connection of a tunnel to its proxy.
        let _connecting = current_exchange()?.connect();
        self.chain.connect(details, None)
    }
}

impl<C> fmt::Debug for Dialer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

fn not_public() -> Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the address is not public").into()
}

/// Opens TCP connections, unless an earlier connector of the chain has opened one.
pub(super) struct TcpConnector {
    pub reach: Reach,
    pub distance: DistanceRule,
    /// Timeout of connecting, for all addresses of the name together.
    pub timeout: Duration,
    /// The agent has a proxy.
    pub has_proxy: bool,
}

impl fmt::Debug for TcpConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TcpConnector")
    }
}

impl<In: Transport> Connector<In> for TcpConnector {
    type Out = Either<In, TcpTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(tunnel) = chained {
            return Ok(Some(Either::A(tunnel)));
        }
        let exchange = current_exchange()?;
        if let Reach::Socket(path) = &self.reach {
            let socket = Arc::new(connect_unix(path, self.timeout, &exchange)?);
            exchange.set_socket(&socket).map_err(stopped)?;
            self.distance.connected(std::net::Ipv4Addr::LOCALHOST.into());
            return Ok(Some(Either::B(TcpTransport::new(socket, details.config))));
        }
        // ureq removes the proxy from the configuration of the connection to it.
        let is_to_proxy = self.has_proxy && details.config.proxy().is_none();
        let end = Instant::now() + self.timeout;
        let mut last = Error::HostNotFound;
        let count = details.addrs.len();
        for (i, address) in details.addrs.iter().enumerate() {
            let allows = || self.reach.allows(address.ip()) && self.distance.allows(address.ip());
            if !is_to_proxy && !allows() {
                last = not_public();
                continue;
            }
            // Each address gets half of the remaining time, the last one all of it.
            let left = end.saturating_duration_since(Instant::now());
            let share = if i + 1 < count { left / 2 } else { left };
            match connect(*address, share, &exchange) {
                Ok(socket) => {
                    let socket = Arc::new(socket);
                    exchange.set_socket(&socket).map_err(stopped)?;
                    if !is_to_proxy {
                        self.distance.connected(address.ip());
                    }
                    return Ok(Some(Either::B(TcpTransport::new(socket, details.config))));
                }
                Err(error) if exchange.stop_reason().is_some() => return Err(error.into()),
                Err(error) => last = error.into(),
            }
        }
        match last {
            Error::Io(error) if is_to_proxy => {
                Err(io::Error::new(error.kind(), format!("proxy: {error}")).into())
            }
            Error::HostNotFound if is_to_proxy => {
                Err(Error::ConnectProxyFailed("its name has no address".into()))
            }
            last => Err(last),
        }
    }
}

/// Returns the failure for an error of ureq.
pub(super) fn failure(exchange: &Exchange, error: Error) -> Failure {
    let lost = |why: String| if exchange.has_sent() { Failure::Interrupted(why) } else { Failure::Io(why) };
    match error {
        _ if exchange.stop_reason().is_some() => closed(),
        Error::Protocol(_) | Error::Http(_) => Failure::Misbehaved("the response is not valid HTTP".into()),
        Error::LargeResponseHeader(..) => Failure::Misbehaved("the head of the response is too long".into()),
        Error::HostNotFound => Failure::Io("the host name of the server has no address".into()),
        Error::ConnectProxyFailed(why) => Failure::Io(format!("cannot connect through the proxy: {why}")),
        Error::Io(error) if exchange.has_sent() => {
            lost(format!("the connection broke before the response: {error}"))
        }
        Error::Io(error) => lost(format!("cannot connect to the server: {error}")),
        Error::Timeout(_) => Failure::Io("cannot connect to the server in time".into()),
        error => lost(format!("the request failed: {error}")),
    }
}

fn current_exchange() -> Result<Arc<Exchange>, Error> {
    // Each request of this client runs inside an exchange, so there is always one.
    current().ok_or(Error::ConnectionFailed)
}

/// Returns the error that ends the request inside ureq. The exchange has the reason.
fn stopped(_: StopReason) -> Error {
    Error::Timeout(Timeout::Global)
}

/// Resolves a host name.
#[derive(Debug)]
pub(super) struct NameResolver {
    /// `false` if connections need no address; then no name is looked up.
    pub(super) needs_address: bool,
}

static LOOKUPS_IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);

/// Guard that counts a lookup until its thread ends.
struct LookupPermit;

impl LookupPermit {
    fn begin() -> Option<LookupPermit> {
        let begun = LOOKUPS_IN_FLIGHT.fetch_add(1, Ordering::Relaxed);
        // Created first, so that its drop undoes the count if there are too many.
        let looking = LookupPermit;
        (begun < LOOKUPS).then_some(looking)
    }
}

impl Drop for LookupPermit {
    fn drop(&mut self) {
        LOOKUPS_IN_FLIGHT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Resolver for NameResolver {
    fn resolve(&self, uri: &Uri, config: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        let bare = bare_host(uri);
        let mut found = self.empty();
        if !self.needs_address {
            found.push(SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), port));
            return Ok(found);
        }
        if let Ok(ip) = bare.parse::<IpAddr>() {
            found.push(SocketAddr::new(ip, port));
            return Ok(found);
        }
        // The lookup of `localhost` uses no network, so it needs no thread.
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

/// Looks a name up on a separate thread, because the system's function has no timeout.
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
        // A short slice, because stopping the exchange does not end this wait.
        let slice = exchange.slice().map_err(stopped)?.min(TICK / 10);
        match receiver.recv_timeout(slice) {
            Ok(found) => return Ok(found?),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Error::HostNotFound),
        }
    }
}

/// One pooled connection. It may be used by later exchanges than the one that opened it.
pub(super) struct TcpTransport {
    socket: Arc<TcpStream>,
    buffers: LazyBuffers,
    /// Bytes to write.
    pending: Vec<u8>,
    /// Bytes were read since the last call of [`Transport::is_open`].
    fresh: bool,
    /// Set when writing has ended, with the error if a write failed.
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
        exchange.set_socket(&self.socket).map_err(stopped)?;
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
                Err(error) if is_timeout(&error) => {
                    if response_has_arrived(&self.socket) {
                        self.write_end = Some(None);
                        break;
                    }
                }
                Err(error) if is_disconnect(&error) => {
                    self.write_end = Some(Some(error));
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.pending.clear();
        self.pending.shrink_to(WRITE_BUFFER);
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

/// Returns whether an error means that the peer has closed the connection. The peer may have
/// responded before.
fn is_disconnect(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// Returns whether the head of a final response (not 1xx) has arrived. Does not wait and consumes
/// no bytes. Never matches TLS records.
fn response_has_arrived(socket: &TcpStream) -> bool {
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

/// Returns whether an error means that the time slice has passed or that a signal arrived.
fn is_timeout(error: &io::Error) -> bool {
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
        if self.pending.len() < WRITE_BUFFER { Ok(()) } else { self.flush() }
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        self.flush()?;
        let exchange = current_exchange()?;
        exchange.set_socket(&self.socket).map_err(stopped)?;
        loop {
            let mode = exchange.wait_mode();
            let read = if mode == WaitMode::NoWait {
                self.poll()
            } else {
                let slice = exchange.slice().map_err(stopped)?;
                let slice = if mode == WaitMode::Brief { slice.min(BRIEF) } else { slice };
                if self.read_timeout != Some(slice) {
                    self.socket.set_read_timeout(Some(slice))?;
                    self.read_timeout = Some(slice);
                }
                (&*self.socket).read(self.buffers.input_append_buf())
            };
            match read {
                // The peer closed the connection without a response. The error of the write is more
                // specific.
                Ok(0) if matches!(self.write_end, Some(Some(_))) => {
                    return Err(self.broken().into());
                }
                Ok(n) => {
                    self.buffers.input_appended(n);
                    self.fresh = true;
                    return Ok(n > 0);
                }
                Err(error) if is_timeout(&error) => {
                    exchange.slice().map_err(stopped)?;
                    if mode != WaitMode::Deadline {
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
                exchange.release_socket(&self.socket);
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
