//! Endpoint of a program that has an HTTP server of its own.
//!
//! The endpoint runs the same service as the built-in HTTP server, on a thread of its own: checks,
//! sessions, streams and responses are the same code. The other server handles connections, framing
//! and slow clients.

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::error::Error;
use crate::server::serve;
use crate::server::serve::state::Shared;
use crate::sync::lock;
use crate::transport::http_server::{
    EngineHandle, Mailbox, MailboxHead, Peer, Relay, RelayedRequest, Reply, Response,
};

use super::bind::{self, Watch};
use super::mounts::MountTable;
use super::{HttpServer, auth};

/// The endpoint of a program that has an HTTP server of its own, from [`HttpServer::endpoint`].
///
/// Both protocols, sessions, event streams, checks of hosts, origins and tokens, further paths and
/// pages are the same as with [`HttpServer::serve`]. The program's HTTP server reads the requests
/// and writes the responses, so these limits are its own: connections, time and size of a head,
/// time of a body, a client that does not read a whole response.
///
/// # Threads
/// [`HttpEndpoint::handle`] waits for the response, and the program waits for each event. So a call
/// in progress and an open event stream occupy a thread of the program each. A client's response to
/// a request of the server arrives as an HTTP request, too. So use a thread for each request: with
/// a fixed number of threads, calls could occupy all of them.
/// [`HttpLimits::streams`](crate::HttpLimits::streams) bounds the streams. More calls than
/// [`Limits::queue`](crate::Limits::queue) allows get 503.
///
/// A program cannot see that a client has disconnected until it writes. So a call without events
/// runs to its end, and the end of a stream is detected at the next event, or after
/// [`HttpLimits::comment_interval`](crate::HttpLimits::comment_interval).
///
/// The endpoint ends with [`HttpEndpoint::close`] or [`Handle::stop`](crate::Handle::stop), or when
/// the last clone of it is dropped. Later requests get 503.
///
/// ```
/// use tinymcp::{HttpBody, HttpRequest, Server, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tool(Tool::new("reset"), |_, ()| Ok("the board restarts"))?;
/// let endpoint = server.http().path("/mcp").endpoint()?;
///
/// // For each request that the program's HTTP server received:
/// let request = HttpRequest::new("GET", "/mcp").field("host", "localhost");
/// let response = endpoint.handle(request, &b""[..]);
/// assert_eq!(response.status, 405);
/// match response.body {
///     HttpBody::Whole(body) => assert!(body.starts_with(b"{")),
///     HttpBody::Events(events) => events.for_each(|bytes| drop(bytes)),
/// }
/// endpoint.close();
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct HttpEndpoint {
    running: Arc<Running>,
}

/// Stops the threads when dropped.
struct Running {
    relay: Arc<Relay>,
    shared: Arc<Shared>,
    mounts: Arc<MountTable>,
    /// Path of the protected resource metadata, if it is served.
    metadata: Option<String>,
    watcher: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// Head of a request that the program's HTTP server received; see [`HttpEndpoint::handle`].
///
/// ```
/// use tinymcp::HttpRequest;
///
/// let request = HttpRequest::new("POST", "/mcp")
///     .field("host", "localhost:8080")
///     .field("content-type", "application/json")
///     .field("accept", "application/json, text/event-stream")
///     .peer(([127, 0, 0, 1], 50123).into());
/// ```
#[must_use = "a request is passed to `HttpEndpoint::handle`"]
pub struct HttpRequest {
    relayed: RelayedRequest,
}

impl HttpRequest {
    /// Creates a request with this method, such as `POST`, and this target, such as `/mcp`, with
    /// its query if it has one.
    pub fn new(method: impl Into<String>, target: impl Into<String>) -> HttpRequest {
        let (method, target) = (method.into(), target.into());
        HttpRequest { relayed: RelayedRequest { method, target, fields: Vec::new(), peer: None } }
    }

    /// Adds a header field. All fields of the request must be added, also those that occur twice.
    /// `Host` is required: with HTTP/2 it is the pseudo-header field `:authority`.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> HttpRequest {
        self.relayed.fields.push((name.into(), value.into()));
        self
    }

    /// Sets the address of the client, for [`Context::peer`](crate::Context::peer).
    pub fn peer(mut self, address: SocketAddr) -> HttpRequest {
        self.relayed.peer = Some(Peer::Tcp(address));
        self
    }
}

/// Response to a request; see [`HttpEndpoint::handle`].
///
/// ```
/// # use tinymcp::{HttpRequest, Server};
/// let endpoint = Server::new("board", "1.0.0").http().endpoint()?;
/// let request = HttpRequest::new("GET", "/other").field("host", "localhost");
/// let response = endpoint.handle(request, &b""[..]);
/// assert_eq!(response.status, 404);
/// assert!(response.fields.contains(&("content-type".to_owned(), "application/json".to_owned())));
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[non_exhaustive]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The header fields, with names in lower case, without those of the framing and the date.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: HttpBody,
}

/// Body of an [`HttpResponse`].
pub enum HttpBody {
    /// The whole body, which may be empty. Responses to HEAD are sent without it.
    Whole(Vec<u8>),
    /// An event stream, whose bytes are sent as they arrive.
    Events(HttpEvents),
}

/// Bytes of an event stream (`text/event-stream`), in pieces of one or more events. Each must be
/// written and flushed at once. The iterator waits for events, and ends with the stream. Drop it if
/// the client has disconnected.
///
/// A comment is added after [`HttpLimits::comment_interval`](crate::HttpLimits::comment_interval)
/// without events. If the program reads too slowly, the stream has the same limits as a client of
/// [`HttpServer::serve`] that does not read.
///
/// ```no_run
/// use std::io::{self, Write};
/// use tinymcp::HttpEvents;
///
/// fn send(events: HttpEvents, socket: &mut impl Write) -> io::Result<()> {
///     for bytes in events {
///         write!(socket, "{:x}\r\n", bytes.len())?;
///         socket.write_all(&bytes)?;
///         socket.write_all(b"\r\n")?;
///         socket.flush()?;
///     }
///     socket.write_all(b"0\r\n\r\n")
/// }
/// ```
pub struct HttpEvents {
    relay: Arc<Relay>,
    mailbox: Arc<Mailbox>,
}

impl Iterator for HttpEvents {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        self.mailbox.take_events(self.relay.comment_interval)
    }
}

impl Drop for HttpEvents {
    fn drop(&mut self) {
        self.relay.abandon(&self.mailbox);
    }
}

impl HttpEndpoint {
    pub(super) fn new(http: HttpServer) -> Result<HttpEndpoint, Error> {
        let (server, options) = bind::check_settings(http)?;
        let metadata = options.auth.metadata.as_ref().map(|_| options.path.clone());
        let (service, watch) = bind::prepare(server, options)?;
        let (relay, thread) = Relay::new(&watch.core.limits);
        let (served, core) = (watch.exit_guard(), Arc::clone(&watch.core));
        let mounts = watch.mounts();
        let engine: Arc<dyn EngineHandle> = Arc::<Relay>::clone(&relay);
        serve::spawn("mcp-http", core.limits.worker_stack, move || {
            let _served = served;
            thread.run(&mut service.endpoint(Vec::new(), engine));
        })?;
        let watcher = start_watch(watch, Arc::clone(&relay))?;
        let shared = Arc::clone(&core.shared);
        let running = Running { relay, shared, mounts, metadata, watcher: Mutex::new(Some(watcher)) };
        Ok(HttpEndpoint { running: Arc::new(running) })
    }

    /// Returns whether the endpoint, a further server, a page or a document of this endpoint is at
    /// the target of a request. The program responds to the others itself.
    pub fn serves(&self, target: &str) -> bool {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let is_metadata = |endpoint: &String| {
            path.strip_prefix(auth::WELL_KNOWN).is_some_and(|rest| rest.is_empty() || rest == endpoint)
        };
        self.running.mounts.has(path) || self.running.metadata.as_ref().is_some_and(is_metadata)
    }

    /// Handles a request. Waits for the response, or for the beginning of its event stream.
    ///
    /// `body` is read only if the head is accepted, and at most
    /// [`Limits::frame_bytes`](crate::Limits::frame_bytes) bytes and one more of it.
    pub fn handle(&self, request: HttpRequest, mut body: impl Read) -> HttpResponse {
        self.relay(request, &mut body)
    }

    fn relay(&self, request: HttpRequest, body: &mut dyn Read) -> HttpResponse {
        let relay = &self.running.relay;
        let request = Arc::new(request.relayed);
        if let Reply::Rejected(response) = relay.check(&request) {
            return response.into();
        }
        let mut bytes = Vec::new();
        let status = match body.take(relay.body_bytes as u64 + 1).read_to_end(&mut bytes) {
            Ok(_) if bytes.len() <= relay.body_bytes => None,
            Ok(_) => Some(413),
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => Some(408),
            Err(_) => Some(400),
        };
        if let Some(status) = status {
            return relay.reject(status).into();
        }
        let mailbox = relay.handle(&request, bytes);
        let events = HttpEvents { relay: Arc::clone(relay), mailbox };
        match events.mailbox.take_head() {
            None => relay.reject(503).into(),
            Some(MailboxHead { status, fields, body }) => HttpResponse {
                status,
                fields,
                body: body.map_or_else(|| HttpBody::Events(events), HttpBody::Whole),
            },
        }
    }

    /// Ends the endpoint as [`Handle::stop`](crate::Handle::stop), and waits for the end: running
    /// calls may finish within [`Limits::grace`](crate::Limits::grace).
    pub fn close(&self) {
        self.running.shared.stop();
        let watcher = lock(&self.running.watcher).take();
        if let Some(watcher) = watcher {
            // OK to ignore: a panic was reported.
            let _ = watcher.join();
        }
    }
}

/// Starts the thread that watches deadlines. The thread of the service ends if that fails.
fn start_watch(watch: Watch, relay: Arc<Relay>) -> Result<JoinHandle<()>, Error> {
    let stops = Arc::clone(&relay);
    serve::spawn("mcp-watch", serve::WATCH_STACK, move || watch.run(&*relay))
        .inspect_err(|_| stops.stop(std::time::Instant::now()))
}

impl From<Response> for HttpResponse {
    fn from(response: Response) -> HttpResponse {
        let fields = response.fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        HttpResponse { status: response.status, fields, body: HttpBody::Whole(response.body) }
    }
}

#[cfg(not(feature = "tiny_http"))]
mod without_tiny_http {
    use super::HttpEndpoint;

    /// Implemented by no type: the compiler names the feature instead of a method with a similar
    /// name.
    #[doc(hidden)]
    #[diagnostic::on_unimplemented(
        message = "this method needs the feature `tiny_http` of tinymcp",
        label = "run `cargo add tinymcp --features tiny_http`"
    )]
    pub trait TinyHttpFeature {}

    #[doc(hidden)]
    impl HttpEndpoint {
        pub fn respond<R: TinyHttpFeature>(&self, _request: R) -> std::io::Result<()> {
            Ok(())
        }
    }
}
