//! Clients: connect to a server, call its tools, handle its requests.
//!
//! [`Client::builder`] sets identity and handlers; [`ClientBuilder::spawn`] and
//! [`ClientBuilder::over`] connect. The client detects the protocol; the methods are the same for
//! both protocols. A [`Client`] is a handle: its clones share the connection and may be used by any
//! thread.
//!
//! # Calls
//!
//! [`Client::call_tool`] and the other methods wait for the result. For each of them, a `request_`
//! method prepares a [`Request`], which can have its own timeout and a progress listener.
//! [`Request::wait`] waits for the result; [`Request::start`] returns a [`Call`], which any thread
//! can wait for or cancel later. Every call ends by its deadline, with a result or an error
//! ([`crate::ErrorKind`]).
//!
//! # Threads
//!
//! | thread | how many | when |
//! |---|---|---|
//! | `mcp-client`, reads and dispatches | 1 per child or link | from connecting to the end of the connection; over a child it is blocked while callers read (`transport/client/handoff.rs`) |
//! | `mcp-client-write` | 1 per link over streams that may block | from the first message |
//! | `mcp-client-open` | 1 | while a session that the server lost is opened again |
//! | `mcp-worker-N`, HTTP exchanges | 2, and 1 per started call, per URL | see `transport/http_client.rs` |
//! | `mcp-worker-N`, handlers | [`crate::ClientLimits::handlers`] at most, per client | while there are requests or events of the server |
//!
//! A call has no thread of its own: the calling thread writes the request and waits for the
//! response. Over a child, it also reads messages while no other thread waits. Progress listeners
//! run on the calling thread. Handlers of the server's requests and notifications run on the
//! handler threads, never on the reader thread.
//!
//! # Locks
//!
//! - The table of requests in flight has a lock, and each pending call has one. Both are held for a
//!   few instructions, and never together.
//! - While the lock of a pending call is held, only the clock's lock is taken.
//! - No lock is held during a write or while user code runs.

mod abort;
mod builder;
mod cache;
mod call;
mod connect;
mod connection;
#[cfg(feature = "extensions")]
mod extension;
#[cfg(not(feature = "extensions"))]
#[path = "extension/without.rs"]
mod extension;
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
pub use handlers::LogEntry;
pub use methods::{CompletionTarget, Page};
pub use pending_call::Progress;
pub use request::{Call, Canceller, FollowedTask, InputRequired, Outcome, Request};
#[cfg(feature = "hub")]
pub(crate) use {
    handlers::{Forwarded, Relay},
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
/// Results are cached for the time that the server gives, up to
/// [`crate::ClientLimits::cache_bytes`], until it reports a change. [`Request::bypass_cache`]
/// bypasses the cache.
///
/// # Threads
///
/// The calling thread writes the request and waits for the response. While no other thread waits,
/// it also reads the output of a child process.
///
/// | connection | further threads |
/// |---|---|
/// | child process | one |
/// | link over streams that may block | two |
/// | URL | at most two, and one for each started call and open resource stream, at most `TINYMCP_HTTP_THREADS`; they end after some idle seconds |
/// | handlers | at most [`crate::ClientLimits::handlers`], while they have work |
///
/// # Closing
///
/// The connection ends when [`Client::close`] is called or the last clone is dropped. Both wait
/// until its threads and processes have ended. A child process gets
/// [`crate::ClientLimits::child_exit`] twice before it is killed.
#[derive(Clone)]
pub struct Client {
    handle: Arc<ClientHandle>,
}

/// Handle that all clones share. Its drop closes the connection, although the reader thread still
/// owns the core.
struct ClientHandle {
    core: Arc<connection::Core>,
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        self.core.close();
    }
}

/// Description of a server. Its content is unverified: do not base decisions on it.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::Client;
///
/// let client = Client::spawn(Command::new("board_server"))?;
/// let server = client.server();
/// println!("{} {}, MCP {}", server.name, server.version, server.revision);
/// if server.capabilities.prompts {
///     println!("{} prompts", client.prompts()?.len());
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
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
    pub capabilities: ServerCapabilities,
    /// Its capabilities as JSON, an object.
    pub capabilities_json: Json,
    /// Negotiated revision, a date.
    pub revision: &'static str,
    /// Session protocol or stateless protocol; follows from the revision.
    pub protocol: Protocol,
}

/// Counters of messages that belong to no call.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::Client;
///
/// let client = Client::spawn(Command::new("board_server"))?;
/// client.tools()?;
/// if client.stats().stray_output > 0 {
///     eprintln!("the server prints to its standard output");
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStats {
    /// Lines that are not valid messages: stray output, lines beyond the limit.
    pub stray_output: u64,
    /// Responses and notifications that match no request: late, duplicate, or with an unknown id.
    pub late: u64,
    /// Notifications dropped because the handlers are too slow.
    pub dropped: u64,
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

    /// Returns the limits of this client.
    #[cfg(feature = "skills")]
    pub(crate) fn limits(&self) -> &crate::Limits {
        &self.core().limits
    }

    /// Returns the whole description of the server as received, for
    /// [`ClientBuilder::discovery`](crate::ClientBuilder::discovery). `None` in the session
    /// protocol, and if the server gave no description.
    pub fn discovery(&self) -> Option<Json> {
        self.core().server().description.clone()
    }

    /// Returns the server's description of itself.
    pub fn server(&self) -> ServerInfo {
        let server = self.core().server();
        let identity = server.identity.clone();
        ServerInfo {
            name: identity.name,
            version: identity.version,
            title: identity.title,
            description: identity.description,
            website: identity.website,
            instructions: identity.instructions,
            capabilities: server.capabilities,
            capabilities_json: server.capabilities_json.clone(),
            revision: codec::revision_name(server.revision),
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
        self.core().transport.stderr_tail()
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
