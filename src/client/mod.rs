//! Clients: connect to a server, call its tools, handle its requests.
//!
//! [`Client::builder`] sets identity and handlers; [`ClientBuilder::spawn`] and
//! [`ClientBuilder::over`] connect. The client detects the protocol; the calls are the same in
//! both. A [`Client`] is a handle: clones share the connection, from any thread.
//!
//! # A call
//!
//! [`Client::call_tool`] and the other methods wait for the result. For each, a `request_` method
//! prepares a [`Request`] with a timeout and a progress listener, to wait for or to start. A
//! started [`Call`] can be waited for later, by any thread, or cancelled. Every call ends by its
//! deadline, with a result or an error ([`crate::ErrorKind`]).
//!
//! # Threads
//!
//! | thread | how many | when |
//! |---|---|---|
//! | `mcp-client`, reads and dispatches | 1 per child or link | from connecting to the end of the connection; over a child it sleeps while callers read (`transport/client/handoff.rs`) |
//! | `mcp-client-write` | 1 per link over streams that may block | from the first message |
//! | `mcp-client-open` | 1 | while a session that the server lost is opened again |
//! | `tinymcp-events`, `tinymcp-notes`, `tinymcp-http` | 2, and 1 per started call, per URL | see `transport/http_client.rs` |
//! | handlers | [`crate::Limits::handlers`] at most, per client | while there are requests or events of the server |
//!
//! A call needs no thread: it is written, and waited for, by the thread that makes it, which over a
//! child also reads messages while no other thread waits. Progress listeners run on that thread.
//! Requests and notifications of the server run on the handler threads, never on the reader thread.
//!
//! # Locks
//!
//! The table of requests in flight and each pending call have a lock of their own, held for a few
//! instructions and never together; inside a pending call's lock only the clock's is taken. No lock
//! is held while something is written or while user code runs.

mod abort;
mod builder;
mod cache;
mod call;
mod connect;
mod connection;
mod handlers;
#[cfg(feature = "http-client")]
mod header_params;
mod incoming;
mod methods;
#[cfg(feature = "schema")]
mod output_schema;
mod pending_call;
#[cfg(feature = "hub")]
mod proxy;
mod request;
#[cfg(feature = "http-client")]
mod retry;
mod server_requests;
mod subscriptions;

use std::fmt;
use std::sync::Arc;

use crate::era::client as codec;
use crate::json::Json;
use crate::model::ServerCapabilities;

pub use abort::Abort;
pub use builder::ClientBuilder;
pub use connect::Protocol;
pub use connection::ClientStats;
pub use handlers::LogEntry;
pub use methods::{CompletionTarget, Page};
pub use pending_call::Progress;
pub use request::{Call, Canceller, InputRequired, Outcome, Request};
#[cfg(feature = "hub")]
pub(crate) use {
    handlers::{Question, Relay},
    pending_call::OnReady,
};

/// A connection to one server.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, json};
///
/// let client = Client::spawn(Command::new("board_server"))?;
/// for tool in client.tools()? {
///     println!("{}: {}", tool.name, tool.description.unwrap_or_default());
/// }
/// let output = client.call_tool("led_set", json!({"on": true}))?;
/// println!("{}", output.texts());
/// # Ok::<(), tinymcp::Error>(())
/// ```
///
/// Results are cached for the time that the server gives, up to [`crate::Limits::cache_bytes`],
/// until it reports a change. [`Request::fresh`] bypasses the cache.
///
/// # Threads
///
/// The calling thread writes the request and waits for the response. While no other thread waits,
/// it also reads the output of a child process. Beside that a child process has one thread, a link
/// over streams that may block two, a URL two at most and one for each call that was started or
/// resource stream that is open, `TINYMCP_HTTP_THREADS` at most; they end some seconds after.
/// Handlers have [`crate::Limits::handlers`] threads at most, while there is work for them.
///
/// # Closing
///
/// The connection ends when [`Client::close`] is called or the last clone is dropped. Both wait
/// until its threads and processes have ended. A child process gets
/// [`crate::Limits::child_exit`] twice before it is killed.
#[derive(Clone)]
pub struct Client {
    handle: Arc<ClientHandle>,
}

/// Closes the connection when the last clone is dropped, although the reader thread still holds the
/// core.
struct ClientHandle {
    core: Arc<connection::Core>,
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        self.core.close();
    }
}

/// Description of a server. Its content is unverified: do not base decisions on it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its name, for programs.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its name, for people.
    pub title: Option<String>,
    /// Purpose.
    pub description: Option<String>,
    /// URL of its website.
    pub website: Option<String>,
    /// Instructions for a model.
    pub instructions: Option<String>,
    /// Capabilities that it declares.
    pub offer: ServerCapabilities,
    /// Its capabilities as JSON, an object.
    pub capabilities: Json,
    /// Negotiated revision, a date.
    pub revision: &'static str,
    /// Session protocol or stateless protocol; follows from the revision.
    pub protocol: Protocol,
}

impl Client {
    /// Creates a builder with the name and version of the client.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    fn of(core: Arc<connection::Core>) -> Client {
        Client { handle: Arc::new(ClientHandle { core }) }
    }

    fn core(&self) -> &Arc<connection::Core> {
        &self.handle.core
    }

    /// Returns the server's description of itself.
    pub fn server(&self) -> ServerInfo {
        let greeting = self.core().greeting();
        let identity = greeting.identity.clone();
        ServerInfo {
            name: identity.name,
            version: identity.version,
            title: identity.title,
            description: identity.description,
            website: identity.website,
            instructions: identity.instructions,
            offer: greeting.offer,
            capabilities: greeting.capabilities.clone(),
            revision: codec::revision_name(greeting.revision),
            protocol: self.protocol(),
        }
    }

    /// Returns the detected protocol. Pass it to [`ClientBuilder::protocol`] to connect to the same
    /// server again without detection.
    pub fn protocol(&self) -> Protocol {
        if self.core().era().sessions() { Protocol::Session } else { Protocol::Stateless }
    }

    /// Returns the number of calls in flight.
    pub fn in_flight(&self) -> usize {
        self.core().in_flight()
    }

    /// Returns counters of messages that belong to no call.
    pub fn stats(&self) -> ClientStats {
        self.core().stats()
    }

    /// Returns the end of a child's stderr, if it is captured.
    pub fn stderr(&self) -> Option<String> {
        self.core().transport.aside()
    }

    /// Returns the reason why the connection has ended. [`ClientBuilder::on_end`] reports the end.
    pub fn ended(&self) -> Option<crate::Error> {
        self.core().ended()
    }

    /// Closes the connection: waiting calls fail as [`crate::ErrorKind::Closed`], and a child
    /// process gets time to exit, then it is killed. Blocks until that is done. A second call has
    /// no effect.
    pub fn close(&self) {
        self.core().close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server();
        f.debug_struct("Client")
            .field("server", &server.name)
            .field("revision", &server.revision)
            .field("in_flight", &self.in_flight())
            .finish()
    }
}
