//! Streamable HTTP client: each message is a POST, the response is JSON or a stream of events.
//!
//! Sends and receives over pooled connections, keeps the session id, reads the stream of a session,
//! resumes streams that break, and ends everything when it is closed. It does not read the content
//! of a message; the client above chooses the era and opens sessions.
//!
//! Source: MCP 2025-11-25 basic/transports; 2026-07-28 basic/transports/streamable-http. Servers of
//! 2024-11-05, which respond on another stream, are detected when a session is opened.
//!
//! # Threads
//! A call is exchanged on the thread that waits for it. Other exchanges run on three pools: one
//! thread reads the session's stream, one sends messages that need no response, and up to
//! [`Limits::http_threads`] make started calls and keep listen streams open. Threads start when there
//! is work and end some seconds after, except the last of each pool, which ends when the connection
//! is closed. A name is looked up on a thread of its own.
//!
//! # Locks
//! `live` (exchanges in flight) and `session` are never held together. The lock of an exchange may
//! be taken under `live`, never the other way round.
//!
//! # Invariants
//! - A token or header of the program is sent to the endpoint's own origin only; redirects
//!   elsewhere are not followed.
//! - No error message contains a header of the client, a session id or the query of the URL.

mod connector;
mod deadline;
mod endpoint;
mod legacy_sse;
mod post;
mod public_addr;
mod sse_listener;
#[cfg(test)]
mod tests;

pub use endpoint::Endpoint;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::config::Config;
use ureq::http::Uri;

use self::connector::{NameResolver, TcpConnector};
use self::deadline::{Exchange, StopReason};
use self::endpoint::Target;
use self::post::PostRequest;
use self::sse_listener::Listener;
use crate::error::Error;
use crate::limits::Limits;
use crate::pool::{Pool, PoolError, PoolSize};
use crate::sync::lock;
use crate::transport::client::{
    Connector, Failure, Kind, MessageHandler, Outgoing, Settled, Traits, Transport, Wait,
};
use crate::transport::tap::{self, Tap};

/// Queued messages that need no response.
const NOTES: usize = 256;
/// Bytes of a response head; common servers and proxies have the same limit.
const HEAD_BYTES: usize = 16 << 10;
/// Age after which an idle connection is not used again. Common servers close idle connections
/// after 5 s; a request sent at that moment is lost, perhaps after the server acted on it.
const IDLE: Duration = Duration::from_secs(4);
/// Time for the DELETE of the session when the client is closed.
const END_SESSION: Duration = Duration::from_secs(2);

/// Makes connections to one endpoint.
pub(crate) struct HttpConnector {
    target: Arc<Target>,
    limits: Limits,
}

impl HttpConnector {
    /// Checks the endpoint; connects to nothing yet.
    ///
    /// # Errors
    /// The URL or a header is invalid, or the URL needs TLS and the feature `tls` is missing.
    pub(crate) fn new(endpoint: Endpoint, limits: &Limits) -> Result<HttpConnector, Error> {
        Ok(HttpConnector { target: Arc::new(endpoint.checked()?), limits: limits.clone() })
    }
}

impl Connector for HttpConnector {
    fn dial(&mut self) -> Result<Arc<dyn Transport>, Error> {
        Ok(Arc::new(HttpTransport::new(Arc::clone(&self.target), &self.limits)))
    }

    /// Connections belong to exchanges: another transport would reach the same server.
    fn again(&self) -> bool {
        false
    }
}

/// Connection of one client to one endpoint.
struct HttpTransport {
    shared: Arc<Shared>,
    calls: Pool<Job>,
    notes: Pool<Job>,
    tap: Option<Tap>,
}

/// Work of a thread that no caller waits on.
type Job = Box<dyn FnOnce() + Send>;

/// Stack of such a thread. TLS, JSON and HTTP heads fit with room to spare; untouched pages cost
/// nothing.
const STACK: usize = 256 << 10;
/// A thread ends after it had no work for this long, except the last of its pool.
const IDLE_THREAD: Duration = Duration::from_secs(5);

fn threads(workers: usize, queue: usize) -> Pool<Job> {
    Pool::new(PoolSize { workers, queue, stack: STACK, idle: IDLE_THREAD }, |job: Job| job())
}

/// Rejects new jobs, and drops queued ones.
fn close_pool(pool: &Pool<Job>) {
    pool.close();
    // Dropped here and not inside the pool: dropping a job may take other locks.
    drop(pool.withdraw(&mut |_| true));
}

/// State shared by all threads of the transport.
struct Shared {
    agent: Agent,
    target: Arc<Target>,
    /// Bytes of one message.
    frame_bytes: usize,
    /// Timeout of a message without a response.
    note_timeout: Duration,
    /// Attempts to resume a stream without a message.
    reconnects: u32,
    /// Of these, attempts in a row with a refused connection.
    refusals: u32,
    session: Mutex<Option<Arc<str>>>,
    /// URL of posts, given by a server of 2024-11-05.
    post_to: OnceLock<Uri>,
    listener: Listener,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    exchanges: Vec<Arc<Exchange>>,
    sink: Option<Arc<dyn MessageHandler>>,
    closed: bool,
}

impl Shared {
    fn session(&self) -> Option<Arc<str>> {
        lock(&self.session).clone()
    }

    fn latch(&self, id: Option<Arc<str>>) {
        *lock(&self.session) = id;
    }

    fn sink(&self) -> Option<Arc<dyn MessageHandler>> {
        lock(&self.live).sink.clone()
    }

    /// Ends the exchange of a request, if it has one.
    fn stop(&self, id: u64, why: StopReason) {
        let live = lock(&self.live);
        let found = live.exchanges.iter().find(|e| e.id == Some(id)).cloned();
        drop(live);
        if let Some(exchange) = found {
            exchange.stop(why);
        }
    }

    /// The response to a request arrived on another stream.
    fn answered(&self, id: u64) {
        let found = lock(&self.live).exchanges.iter().find(|e| e.id == Some(id)).cloned();
        if let Some(exchange) = found {
            exchange.answered();
        }
    }

    /// Runs something as an exchange that [`Transport::abandon`] and [`Transport::close`] can stop.
    fn exchanging<T>(
        &self,
        exchange: &Arc<Exchange>,
        run: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut live = lock(&self.live);
        if live.closed {
            return Err(closed());
        }
        live.exchanges.push(Arc::clone(exchange));
        drop(live);
        let _listed = Listed { shared: self, exchange };
        let _entered = exchange.enter();
        run()
    }
}

/// Removes an exchange from the list when dropped.
struct Listed<'s> {
    shared: &'s Shared,
    exchange: &'s Arc<Exchange>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut live = lock(&self.shared.live);
        if let Some(at) = live.exchanges.iter().position(|e| Arc::ptr_eq(e, self.exchange)) {
            live.exchanges.swap_remove(at);
        }
    }
}

/// A request whose exchange is queued or running. Dropping it fails the request, because its
/// exchange will not end then.
struct UnansweredRequest {
    id: Option<u64>,
    /// Set for a request that was not queued: its sender gets the reason.
    refused: Arc<AtomicBool>,
    sink: Arc<dyn MessageHandler>,
}

impl UnansweredRequest {
    fn settle(mut self, done: Result<(), Failure>) {
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

impl HttpTransport {
    fn new(target: Arc<Target>, limits: &Limits) -> HttpTransport {
        let config = Config::builder()
            // A proxy would connect to addresses that `public_addr` does not check.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(HEAD_BYTES)
            // Larger than the longest head, so that a longer one is detected.
            .input_buffer_size(HEAD_BYTES + (4 << 10))
            .output_buffer_size(HEAD_BYTES)
            .max_idle_connections(limits.http_threads)
            .max_idle_connections_per_host(limits.http_threads)
            .max_idle_age(IDLE)
            .user_agent(concat!("tinymcp/", env!("CARGO_PKG_VERSION")));
        #[cfg(feature = "tls")]
        let config = match &target.roots {
            Some(roots) => {
                use ureq::tls::TlsConfig;
                config.tls_config(TlsConfig::builder().root_certs(roots.clone()).build())
            }
            None => config,
        };
        let config = config.build();
        let opener = TcpConnector { reach: target.reach, timeout: limits.connect_timeout };
        #[cfg(feature = "tls")]
        let opener = {
            use ureq::unversioned::transport::{Connector as _, RustlsConnector};
            opener.chain(RustlsConnector::default()).chain(connector::AfterHandshake)
        };
        let shared = Arc::new(Shared {
            agent: Agent::with_parts(config, opener, NameResolver),
            target,
            frame_bytes: limits.frame_bytes,
            note_timeout: limits.call_timeout,
            reconnects: limits.reconnects,
            refusals: limits.refusals,
            session: Mutex::default(),
            post_to: OnceLock::new(),
            listener: Listener::new(),
            live: Mutex::default(),
        });
        HttpTransport {
            shared,
            calls: threads(limits.http_threads, limits.http_threads),
            notes: threads(1, NOTES),
            tap: tap::current(),
        }
    }
}

#[cfg(test)]
impl HttpTransport {
    /// Waits until every thread of a closed connection has ended.
    fn wait_without_threads(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let threads = || self.calls.threads() + self.notes.threads() + self.shared.listener.threads();
        while threads() > 0 {
            assert!(Instant::now() < deadline, "{} threads are left", threads());
            std::thread::yield_now();
        }
    }
}

impl Transport for HttpTransport {
    fn traits(&self) -> Traits {
        Traits { headers: true, closing_cancels: true, silence_is_legacy: false, drives_here: true }
    }

    fn start(&self, sink: Arc<dyn MessageHandler>) -> Result<(), Error> {
        let sink = match &self.tap {
            Some(tap) => tap.handler(sink),
            None => sink,
        };
        lock(&self.shared.live).sink = Some(sink);
        Ok(())
    }

    fn send(&self, message: &Outgoing<'_>, drive: Wait<'_>) -> Result<(), Failure> {
        let Some(sink) = self.shared.sink() else { return Err(closed()) };
        if let Some(tap) = &self.tap {
            tap.sent(message.frame);
        }
        let post = PostRequest::new(message, &sink);
        match drive {
            Wait::Blocking(turn) => post.post(&self.shared, message.frame, message.headers, &sink, turn),
            Wait::Queued => {
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
                        // The message was queued before its deadline; sending has another one.
                        post.exchange.end_at(Instant::now() + shared.note_timeout);
                    }
                    let done = post.post(&shared, &frame, &headers, &sink, &mut || true);
                    unanswered.settle(done);
                });
                let pool = match message.kind {
                    Kind::Request(_) | Kind::Stream(_) => &self.calls,
                    Kind::Notification | Kind::Answer => &self.notes,
                };
                pool.try_submit(job).map_err(|job| {
                    // Before the job is dropped.
                    refused.store(true, Ordering::Relaxed);
                    match job.why {
                        PoolError::Full => Failure::Busy(
                            "too many started calls wait for a thread, see `Limits::http_threads`".into(),
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

    fn settled(&self, settled: &Settled) {
        // A server of 2024-11-05 has its stream open already.
        if settled.session && self.shared.post_to.get().is_none() {
            self.shared.listener.open(&self.shared, settled.headers.clone());
        }
    }

    fn close(&self, deadline: Instant) {
        self.shared.listener.stop();
        self.notes.wait_idle(deadline.min(Instant::now() + END_SESSION));
        close_pool(&self.notes);
        close_pool(&self.calls);
        let (exchanges, sink) = {
            let mut live = lock(&self.shared.live);
            live.closed = true;
            (std::mem::take(&mut live.exchanges), live.sink.take())
        };
        for exchange in exchanges {
            exchange.stop(StopReason::Closed);
        }
        self.shared.listener.end_session(&self.shared, deadline.min(Instant::now() + END_SESSION));
        self.shared.agent.clone().shutdown();
        for pool in [&self.notes, &self.calls] {
            pool.wait_idle(deadline);
        }
        self.shared.listener.wait_idle(deadline);
        if let Some(sink) = sink {
            sink.end(closed());
        }
    }
}
