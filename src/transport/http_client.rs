//! Streamable HTTP client: each message is a POST, the response is JSON or a stream of events.
//!
//! Sends and receives over pooled connections, stores the session id, reads the stream of a
//! session, resumes streams that break, and stops all exchanges when it is closed. It does not read
//! the content of a message; the client above chooses the era and opens sessions.
//!
//! Source: MCP 2025-11-25 basic/transports; 2026-07-28 basic/transports/streamable-http. Servers of
//! 2024-11-05, which respond on another stream, are detected when a session is opened.
//!
//! # Threads
//! The thread that waits for a call performs its exchange. Other exchanges run on three pools:
//!
//! | threads | work |
//! |---|---|
//! | 1 | reads the session's stream |
//! | 1 | sends messages without a response |
//! | up to [`HttpClientLimits::threads`](crate::HttpClientLimits::threads) | perform started calls and read listen streams |
//!
//! Threads start when there is work and end after some idle seconds. The last thread of each pool
//! ends when the connection is closed. Each lookup of a host name has its own thread.
//!
//! # Locks
//! `in_flight` (exchanges in flight) and `session` are never held together. The lock of an exchange
//! may be taken under `in_flight`, never the other way round.
//!
//! # Invariants
//! - A token or header of the program is sent to the endpoint's own origin only; redirects
//!   elsewhere are not followed.
//! - No error message contains a header of the client, a session id or the query of the URL.

mod connector;
mod deadline;
#[cfg(any(feature = "oauth", feature = "token-introspection", feature = "otlp"))]
mod document;
#[cfg(any(feature = "token-introspection", feature = "otlp"))]
mod document_client;
mod endpoint;
mod legacy_sse;
mod post;
mod proxy;
mod public_addr;
#[cfg(feature = "oauth")]
pub(crate) mod sign_in;
#[cfg(not(feature = "oauth"))]
#[path = "http_client/sign_in/without.rs"]
mod sign_in;
mod socket;
mod sse_listener;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "http_client/tls/without.rs"]
mod tls;

#[cfg(any(feature = "token-introspection", feature = "otlp"))]
pub(crate) use self::document_client::DocumentClient;
pub use endpoint::Endpoint;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector as _};

use self::connector::{Dialer, NameResolver, Reach, TcpConnector};
use self::deadline::{Exchange, StopReason};
use self::endpoint::Target;
use self::post::PostRequest;
use self::sign_in::{Credentials, DistanceRule, ServerDistance};
use self::sse_listener::Listener;
use crate::error::Error;
use crate::limits::Limits;
use crate::pool::{Pool, PoolError, PoolSize};
use crate::sync::lock;
use crate::transport::client::{
    Connector, Failure, Kind, MessageHandler, NegotiatedEra, Outgoing, Properties, SendMode, Transport,
};

/// Maximum number of queued messages without a response.
const ONE_WAY_QUEUE: usize = 256;
/// Limit of a response head in bytes. Common servers and proxies have the same limit.
const HEAD_BYTES: usize = 16 << 10;
/// Age after which an idle connection is not used again. Common servers close idle connections
/// after 5 s. A request that is sent at that moment fails, and the server may have acted on it.
const IDLE: Duration = Duration::from_secs(4);
/// Time for the DELETE of the session when the client is closed.
const END_SESSION: Duration = Duration::from_secs(2);

/// Connector of one endpoint.
pub(crate) struct HttpConnector {
    target: Arc<Target>,
    limits: Limits,
}

impl HttpConnector {
    /// Checks the endpoint. Does not connect.
    ///
    /// # Errors
    /// The URL or a header is invalid, or the URL requires the feature `tls`.
    pub(crate) fn new(endpoint: Endpoint, limits: &Limits) -> Result<HttpConnector, Error> {
        Ok(HttpConnector { target: Arc::new(endpoint.checked()?), limits: limits.clone() })
    }
}

impl Connector for HttpConnector {
    fn dial(&mut self) -> Result<Arc<dyn Transport>, Error> {
        Ok(Arc::new(HttpTransport::new(Arc::clone(&self.target), &self.limits)))
    }

    /// Returns `false`: a new transport would reach the same running server.
    fn can_reconnect(&self) -> bool {
        false
    }
}

/// Connection of one client to one endpoint.
struct HttpTransport {
    shared: Arc<Shared>,
    calls: Pool<Job>,
    one_way: Pool<Job>,
}

/// Exchange of a pool thread.
type Job = Box<dyn FnOnce() + Send>;

/// Stack size of a pool thread. TLS, JSON and HTTP heads need much less; untouched pages take no
/// memory.
const STACK: usize = 256 << 10;
/// Idle time after which a thread ends, except the last thread of its pool.
const IDLE_THREAD: Duration = Duration::from_secs(5);

fn threads(workers: usize, queue: usize) -> Pool<Job> {
    Pool::new(PoolSize { workers, queue, stack: STACK, idle: IDLE_THREAD }, |job: Job| job())
}

/// Rejects new jobs, and drops queued ones.
fn close_pool(pool: &Pool<Job>) {
    pool.close();
    // The jobs are dropped here and not inside the pool, because their drop may take other locks.
    drop(pool.withdraw(&mut |_| true));
}

/// State shared by all threads of the transport.
struct Shared {
    agent: Agent,
    credentials: Credentials,
    target: Arc<Target>,
    /// Limit of one message in bytes.
    frame_bytes: usize,
    /// Timeout of a message without a response.
    one_way_timeout: Duration,
    /// Maximum number of consecutive attempts to resume a stream that bring no message.
    reconnects: u32,
    /// Maximum number of consecutive attempts whose connection is refused.
    refusals: u32,
    session: Mutex<Option<Arc<str>>>,
    /// URL for POST requests that a server of 2024-11-05 has sent.
    post_to: OnceLock<Uri>,
    listener: Listener,
    in_flight: Mutex<InFlight>,
}

#[derive(Default)]
struct InFlight {
    exchanges: Vec<Arc<Exchange>>,
    sink: Option<Arc<dyn MessageHandler>>,
    closed: bool,
}

impl Shared {
    fn session(&self) -> Option<Arc<str>> {
        lock(&self.session).clone()
    }

    fn store_session(&self, id: Option<Arc<str>>) {
        *lock(&self.session) = id;
    }

    fn sink(&self) -> Option<Arc<dyn MessageHandler>> {
        lock(&self.in_flight).sink.clone()
    }

    /// Ends the exchange of a request, if it has one.
    fn stop(&self, id: u64, why: StopReason) {
        let in_flight = lock(&self.in_flight);
        let found = in_flight.exchanges.iter().find(|e| e.id == Some(id)).cloned();
        drop(in_flight);
        if let Some(exchange) = found {
            exchange.stop(why);
        }
    }

    /// Reports to the exchange of a request that the response arrived on another stream.
    fn answered(&self, id: u64) {
        let found = lock(&self.in_flight).exchanges.iter().find(|e| e.id == Some(id)).cloned();
        if let Some(exchange) = found {
            exchange.answered();
        }
    }

    /// Runs a function as an exchange that [`Transport::abandon`] and [`Transport::close`] can
    /// stop.
    fn run_exchange<T>(
        &self,
        exchange: &Arc<Exchange>,
        run: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut in_flight = lock(&self.in_flight);
        if in_flight.closed {
            return Err(closed());
        }
        in_flight.exchanges.push(Arc::clone(exchange));
        drop(in_flight);
        let _guard = InFlightGuard { shared: self, exchange };
        let _entered = exchange.enter();
        run()
    }
}

/// Guard that removes an exchange from `in_flight` when dropped.
struct InFlightGuard<'s> {
    shared: &'s Shared,
    exchange: &'s Arc<Exchange>,
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        let mut in_flight = lock(&self.shared.in_flight);
        if let Some(at) = in_flight.exchanges.iter().position(|e| Arc::ptr_eq(e, self.exchange)) {
            in_flight.exchanges.swap_remove(at);
        }
    }
}

/// Guard of a request whose exchange is queued or running. If it is dropped before
/// [`UnansweredRequest::finish`], the request fails, because its exchange never runs.
struct UnansweredRequest {
    id: Option<u64>,
    /// Set if the request could not be queued: then `send` returns the failure.
    refused: Arc<AtomicBool>,
    sink: Arc<dyn MessageHandler>,
}

impl UnansweredRequest {
    fn finish(mut self, done: Result<(), Failure>) {
        if let (Some(id), Err(failure)) = (self.id.take(), done) {
            self.sink.fail(id, failure);
        }
    }
}

impl Drop for UnansweredRequest {
    fn drop(&mut self) {
        if let Some(id) = self.id.take().filter(|_| !self.refused.load(Ordering::Relaxed)) {
            self.sink.fail(id, closed());
        }
    }
}

fn closed() -> Failure {
    Failure::Closed("the connection is closed".into())
}

/// Creates an agent that connects only to the addresses that `reach` and `distance` allow.
fn agent(target: &Target, limits: &Limits, reach: Reach, distance: DistanceRule) -> Agent {
    let config = Config::builder()
        .proxy(target.proxy.clone())
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(HEAD_BYTES)
        // Larger than the limit of a head, so that a longer head is detected.
        .input_buffer_size(HEAD_BYTES + (4 << 10))
        .output_buffer_size(HEAD_BYTES)
        .max_idle_connections(limits.http_client.threads)
        .max_idle_connections_per_host(limits.http_client.threads)
        .max_idle_age(IDLE)
        .user_agent(concat!("tinymcp/", env!("CARGO_PKG_VERSION")));
    let config = tls::configure(config, &target.tls);
    let chain = ConnectProxyConnector::default().chain(TcpConnector {
        reach: reach.clone(),
        distance: distance.clone(),
        timeout: limits.http_client.connect_timeout,
        has_proxy: target.proxy.is_some(),
    });
    let chain = tls::over(chain);
    let resolver = NameResolver { needs_address: !matches!(reach, Reach::Socket(_)) };
    Agent::with_parts(config.build(), Dialer { chain, reach, distance }, resolver)
}

impl HttpTransport {
    fn new(target: Arc<Target>, limits: &Limits) -> HttpTransport {
        let distance = ServerDistance::unknown();
        let shared = Arc::new(Shared {
            agent: agent(&target, limits, target.reach.clone(), distance.learned()),
            credentials: target.credentials.of_endpoint(&target, limits, &distance),
            target,
            frame_bytes: limits.frame_bytes,
            one_way_timeout: limits.client.call_timeout,
            reconnects: limits.http_client.reconnects,
            refusals: limits.http_client.refusals,
            session: Mutex::default(),
            post_to: OnceLock::new(),
            listener: Listener::new(),
            in_flight: Mutex::default(),
        });
        HttpTransport {
            shared,
            calls: threads(limits.http_client.threads, limits.http_client.threads),
            one_way: threads(1, ONE_WAY_QUEUE),
        }
    }
}

#[cfg(test)]
impl HttpTransport {
    /// Waits until every thread of a closed connection has ended.
    fn wait_without_threads(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let threads = || self.calls.threads() + self.one_way.threads() + self.shared.listener.threads();
        while threads() > 0 {
            assert!(Instant::now() < deadline, "{} threads are left", threads());
            std::thread::yield_now();
        }
    }
}

impl Transport for HttpTransport {
    fn properties(&self) -> Properties {
        Properties { headers: true, closing_cancels: true, timeout_is_legacy: false, exchange_in_send: true }
    }

    fn start(&self, sink: Arc<dyn MessageHandler>) -> Result<(), Error> {
        lock(&self.shared.in_flight).sink = Some(sink);
        Ok(())
    }

    fn send(&self, message: &Outgoing<'_>, mode: SendMode<'_>) -> Result<(), Failure> {
        let Some(sink) = self.shared.sink() else { return Err(closed()) };
        let post = PostRequest::new(message, &sink);
        match mode {
            SendMode::Blocking(wait) => post.post(&self.shared, message.frame, message.headers, &sink, wait),
            SendMode::Queued => {
                let (frame, headers) = (message.frame.to_vec(), message.headers.to_vec());
                let shared = Arc::clone(&self.shared);
                let refused = Arc::<AtomicBool>::default();
                let unanswered = UnansweredRequest {
                    id: post.exchange.id,
                    refused: Arc::clone(&refused),
                    sink: Arc::clone(&sink),
                };
                let job: Job = Box::new(move || {
                    if post.exchange.id.is_none() {
                        // The deadline applied to queueing. Sending has a timeout of its own.
                        post.exchange.end_at(Instant::now() + shared.one_way_timeout);
                    }
                    let done = post.post(&shared, &frame, &headers, &sink, &mut || true);
                    unanswered.finish(done);
                });
                let pool = match message.kind {
                    Kind::Request(_) | Kind::Stream(_) => &self.calls,
                    Kind::Notification | Kind::Response => &self.one_way,
                };
                pool.try_submit(job).map_err(|job| {
                    // Set before the job is dropped, so that the guard does not report the failure.
                    refused.store(true, Ordering::Relaxed);
                    match job.reason {
                        PoolError::Full => Failure::Busy(
                            "too many started calls wait for a thread, see `HttpClientLimits::threads`"
                                .into(),
                        ),
                        PoolError::Closed => closed(),
                        PoolError::NoThread => Failure::Busy("no thread can be started".into()),
                    }
                })
            }
        }
    }

    fn abandon(&self, id: u64) {
        self.shared.stop(id, StopReason::Abandoned);
    }

    fn on_negotiated(&self, era: &NegotiatedEra) {
        // The stream of a server of 2024-11-05 is already open.
        if era.session && self.shared.post_to.get().is_none() {
            self.shared.listener.open(&self.shared, era.headers.clone());
        }
    }

    fn close(&self, deadline: Instant) {
        self.shared.listener.stop();
        self.one_way.wait_idle(deadline.min(Instant::now() + END_SESSION));
        close_pool(&self.one_way);
        close_pool(&self.calls);
        let (exchanges, sink) = {
            let mut in_flight = lock(&self.shared.in_flight);
            in_flight.closed = true;
            (std::mem::take(&mut in_flight.exchanges), in_flight.sink.take())
        };
        for exchange in exchanges {
            exchange.stop(StopReason::Closed);
        }
        self.shared.listener.end_session(&self.shared, deadline.min(Instant::now() + END_SESSION));
        self.shared.agent.clone().shutdown();
        for pool in [&self.one_way, &self.calls] {
            pool.wait_idle(deadline);
        }
        self.shared.listener.wait_idle(deadline);
        if let Some(sink) = sink {
            sink.end(closed());
        }
    }
}
