//! Streamable HTTP server: the session and the stateless protocol at one endpoint.
//!
//! | file | contents |
//! |---|---|
//! | `request_checks.rs` | checks by the head of a request |
//! | `allowed_hosts.rs` | hosts and origins |
//! | `auth.rs`, `auth/` | bearer tokens, their principals, resource metadata |
//! | `cors.rs` | permissions for pages of other origins |
//! | `rejection.rs` | statuses and messages of rejected requests |
//! | `endpoint.rs` | handling of each request |
//! | `endpoint/call_checks.rs` | header fields and scopes of a call |
//! | `mounts.rs`, `endpoint/mounted_servers.rs` | further servers at other paths |
//! | `response.rs` | response to one POST |
//! | `event_streams.rs` | event streams of a session, replay |
//! | `session.rs` | table of sessions |
//! | `session_servers.rs` | servers of single sessions |
//! | `server_card.rs` | the card of the server and the catalog of its site |
//! | `status_page.rs` | pages beside the endpoint |
//! | `bind.rs` | threads and shutdown |
//! | `relayed.rs` | endpoint of a program with an HTTP server of its own |
//! | `tiny_http.rs` | the same for the crate tiny_http |
//!
//! # Threads
//! The thread `mcp-http` runs the event loop, reads requests and runs inline tools. Workers run the
//! other handlers and write their responses. The calling thread watches deadlines and signals. No
//! thread waits for a client, except a worker that sends an event to a slow reader.

mod allowed_hosts;
mod auth;
mod bind;
mod cors;
mod endpoint;
mod event_streams;
mod headers;
mod mounts;
mod rejection;
mod relayed;
mod request_checks;
mod response;
mod server_card;
mod session;
mod session_servers;
mod status_page;
#[cfg(feature = "tiny_http")]
mod tiny_http;

use std::sync::Arc;

use crate::error::Error;

use super::Server;
use super::serve::diagnostics;
use allowed_hosts::AllowedHosts;
use auth::Auth;
use mounts::PerSession;
use server_card::CardPages;

#[cfg(feature = "token-introspection")]
pub use auth::Introspection;
#[cfg(feature = "token-jwt")]
pub use auth::JwtVerifier;
pub use auth::{Principal, ResourceMetadata, TokenRefusal, TokenVerifier};
pub use bind::BoundServer;
pub(in crate::server) use bind::serve_here;
pub use mounts::Mounts;
pub use rejection::{HttpRejection, RejectedMessage};
pub use relayed::{HttpBody, HttpEndpoint, HttpEvents, HttpRequest, HttpResponse};
pub use server_card::ServerCard;
pub use status_page::StatusPage;

/// HTTP settings of a server; see [`Server::http`].
///
/// A session has one event stream that belongs to no call: if a client opens a second one with GET,
/// the first one ends. A client that closes the sending side of its connection counts as
/// disconnected, and its calls without a session are cancelled.
///
/// ```no_run
/// use tinymcp::{Server, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tool(Tool::new("reset"), |ctx, ()| {
///     Ok(format!("{} resets the board", ctx.principal().unwrap_or("nobody")))
/// })?;
/// let token = std::env::var("BOARD_TOKEN").expect("BOARD_TOKEN must be set");
/// server.http().allow_host("board.local").tokens([(token, "operator")]).serve("0.0.0.0:8080")?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[must_use = "nothing is served until `serve` is called"]
pub struct HttpServer {
    server: Server,
    options: Options,
}

/// Settings of the endpoint.
struct Options {
    path: String,
    allowed_hosts: AllowedHosts,
    auth: Auth,
    pages: Vec<StatusPage>,
    card: Option<Box<CardPages>>,
    passed_headers: Vec<String>,
    mounts: Mounts,
    per_session: Option<PerSession>,
    no_signal_handlers: bool,
    diagnostics: Arc<diagnostics::DiagnosticSink>,
    on_rejection: Option<Box<OnRejection>>,
}

type OnRejection = dyn Fn(&HttpRejection<'_>) + Send + Sync;

impl HttpServer {
    pub(super) fn new(server: Server) -> HttpServer {
        let options = Options {
            path: "/mcp".to_owned(),
            allowed_hosts: AllowedHosts::default(),
            auth: Auth::default(),
            pages: Vec::new(),
            card: None,
            passed_headers: Vec::new(),
            mounts: Mounts { table: Arc::default() },
            per_session: None,
            no_signal_handlers: false,
            diagnostics: Arc::new(diagnostics::report),
            on_rejection: None,
        };
        HttpServer { server, options }
    }

    /// Sets the path of the endpoint, by default `/mcp`. A slash at the end of a request's path
    /// makes no difference.
    pub fn path(mut self, path: impl Into<String>) -> HttpServer {
        self.options.path = path.into();
        self
    }

    /// Allows requests whose `Host` is this host, in addition to `localhost`, `127.0.0.1` and
    /// `[::1]`: `board.example` with any port, or `board.example:8443`. Requests for other hosts
    /// are rejected with 403, so that a foreign page cannot reach the server through a user's
    /// browser under another host name (DNS rebinding).
    ///
    /// # Origins
    /// A request with an `Origin` comes from a page in a browser. It is served if its scheme is
    /// `http` or `https` and its host is one of these hosts, and otherwise only if
    /// [`allow_origin`](HttpServer::allow_origin) names it. So `http://localhost:PORT` is served
    /// with every port: pages of other programs on the user's machine can send requests. They
    /// cannot read the responses, because only origins of `allow_origin` get CORS headers, but a
    /// tool that they call runs. Use a token where that matters.
    pub fn allow_host(mut self, host: impl Into<String>) -> HttpServer {
        self.options.allowed_hosts.allow_host(host.into());
        self
    }

    /// Allows every `Host`, for a server behind a reverse proxy that checks it.
    pub fn allow_any_host(mut self) -> HttpServer {
        self.options.allowed_hosts.allow_any_host();
        self
    }

    /// Allows requests from pages of exactly this origin: `https://app.example`, or
    /// `http://localhost:6274` for an inspector in a browser. Requests without an origin do not
    /// come from a page and are always allowed.
    ///
    /// These pages may send any header field, including a token, and read the responses (CORS,
    /// without cookies and wildcards). Pages of other origins cannot read them.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> HttpServer {
        self.options.allowed_hosts.allow_origin(origin.into());
        self
    }

    /// Requires a bearer token. `check` returns its principal: a name, or a [`Principal`] with the
    /// scopes of the token. Handlers get them from
    /// [`Context::principal`](crate::Context::principal) and
    /// [`Context::scopes`](crate::Context::scopes). The check must accept only tokens that were
    /// issued for this server.
    ///
    /// `check` is called for every request on the thread of the event loop, so it must not wait for
    /// another machine: see [`HttpServer::token_verifier`].
    pub fn bearer<P: Into<Principal>>(
        mut self,
        check: impl Fn(&str) -> Result<P, TokenRefusal> + Send + Sync + 'static,
    ) -> HttpServer {
        let check = move |token: &str| Some(check(token).map(|principal| Arc::new(principal.into())));
        self.options.auth.check = Some(Box::new(check));
        self.options.auth.unusable = None;
        self
    }

    /// Requires a bearer token that `verifier` accepts. As [`HttpServer::bearer`], for a check that
    /// waits for another machine: it runs on threads of its own, its results are used again for
    /// [`TokenVerifier::cache_time`], and a request waits for it before its body is read.
    pub fn token_verifier(mut self, verifier: impl TokenVerifier + 'static) -> HttpServer {
        let mounts = Arc::clone(&self.options.mounts.table);
        self.options.auth.check = Some(auth::verifier_check(Box::new(verifier), mounts));
        self.options.auth.unusable = None;
        self
    }

    /// Requires one of these bearer tokens, each with its principal. They are compared in constant
    /// time, and only their hashes are stored.
    ///
    /// A token that is empty or has other characters than `A-Z a-z 0-9 - . _ ~ + / =` is an error
    /// of [`HttpServer::bind`], because no client could send it (RFC 6750).
    pub fn tokens<T: Into<String>, P: Into<String>>(
        mut self,
        tokens: impl IntoIterator<Item = (T, P)>,
    ) -> HttpServer {
        let tokens: Vec<(String, String)> =
            tokens.into_iter().map(|(token, owner)| (token.into(), owner.into())).collect();
        let unusable = tokens.iter().find(|(token, _)| !auth::is_token(token));
        self.options.auth.unusable = unusable.map(|(_, owner)| owner.clone());
        self.options.auth.check = Some(auth::known_tokens(tokens));
        self
    }

    /// Adds metadata from which clients learn where to get a token: in the challenge of every
    /// rejection, and as a document under `/.well-known/oauth-protected-resource` (RFC 9728).
    pub fn resource_metadata(mut self, metadata: ResourceMetadata) -> HttpServer {
        self.options.auth.metadata = Some(metadata);
        self
    }

    /// Passes this header field of requests to handlers, which read it with [`Context::header`].
    /// Other fields are not stored. Names are case-insensitive.
    ///
    /// A client can send any value. If a reverse proxy sets the field, it must remove the client's.
    ///
    /// [`Context::header`]: crate::Context::header
    pub fn pass_header(mut self, name: impl Into<String>) -> HttpServer {
        self.options.passed_headers.push(name.into());
        self
    }

    /// Adds a page beside the endpoint, for monitoring. May be repeated.
    ///
    /// ```no_run
    /// # use tinymcp::{Server, StatusPage};
    /// let server = Server::new("board", "1.0.0");
    /// let health = StatusPage::new("/healthz", "text/plain", || "ok\n".to_owned()).public();
    /// server.http().page(health).serve("127.0.0.1:8080")?;
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn page(mut self, page: StatusPage) -> HttpServer {
        self.options.pages.push(page);
        self
    }

    /// Publishes a description of this server for clients that have not connected, and a catalog of
    /// the site that names it (SEP-2127, a draft): at the path of the endpoint and `/server-card`,
    /// and at `/.well-known/ai-catalog.json`. Both are served for every host and origin, without a
    /// token. The server must have a description of at most 100 characters.
    ///
    /// ```no_run
    /// use tinymcp::{Server, ServerCard};
    ///
    /// let mut server = Server::new("board", "1.0.0");
    /// server.description("Reads the sensors of the greenhouse");
    /// let card = ServerCard::new("com.example/board", "https://board.example.com/mcp");
    /// server.http().allow_host("board.example.com").server_card(card).serve("127.0.0.1:8080")?;
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn server_card(mut self, card: ServerCard) -> HttpServer {
        self.options.card = Some(Box::new(move |identity, eras, path| card.pages(identity, eras, path)));
        self
    }

    /// Returns the table of further servers at other paths. They can be added and removed while
    /// this server runs.
    ///
    /// ```no_run
    /// # use tinymcp::Server;
    /// let http = Server::new("all", "1.0.0").http();
    /// let mounts = http.mounts();
    /// mounts.add("/servers/board/mcp", Server::new("board", "1.0.0"))?;
    /// http.serve("127.0.0.1:8080")?;
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn mounts(&self) -> Mounts {
        self.options.mounts.clone()
    }

    /// Creates a server for each session, so that each client of the session protocol has its own
    /// state or process. Requests of the stateless protocol have no session, and are handled by the
    /// first server.
    ///
    /// `make` is called when a session opens, on the thread of the event loop, so it must not wait.
    /// With an error the client gets 503. The server must have no inline tools, and its
    /// [`Server::limits`] have no effect. Its [`Server::on_shutdown`] functions run on a thread of
    /// their own when the session has ended. There are at most
    /// [`HttpLimits::sessions`](crate::HttpLimits::sessions) such servers.
    ///
    /// If the server is an exported hub that waits for its client (`HubBuilder::wait_for_client`,
    /// feature `hub`), the response that opens the session is sent when the lists of the hub's
    /// servers are known.
    pub fn per_session(
        mut self,
        make: impl Fn() -> Result<Server, Error> + Send + Sync + 'static,
    ) -> HttpServer {
        self.options.per_session = Some(self.options.mounts.table.per_session(Arc::new(make)));
        self
    }

    /// Leaves SIGTERM and SIGINT to the program, which stops serving with
    /// [`Handle::stop`](crate::Handle::stop).
    pub fn no_signal_handlers(mut self) -> HttpServer {
        self.options.no_signal_handlers = true;
        self
    }

    /// Passes diagnostics for the operator to `sink` instead of standard error: rejected requests,
    /// and a public address without allowed hosts. Similar lines are limited to one a minute.
    pub fn diagnostics(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> HttpServer {
        self.options.diagnostics = Arc::new(sink);
        self
    }

    /// Sets a function that gets each request that is rejected before its message is handled, such
    /// as one without a valid token, for an access log. It runs on the thread of the event loop, so
    /// it must not block. A call whose token lacks a scope of its tool is reported to
    /// `Server::observe` instead (feature `observe`), with the outcome `NoResponse`.
    pub fn on_rejection(mut self, report: impl Fn(&HttpRejection<'_>) + Send + Sync + 'static) -> HttpServer {
        self.options.on_rejection = Some(Box::new(report));
        self
    }

    /// Opens the address, so that it is known before serving starts. Port 0 selects any free port.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Busy`]: another process listens there.
    /// [`crate::ErrorKind::Invalid`]: the address is malformed, its host cannot be found, or it is
    /// `systemd` and no sockets were passed; or a `TINYMCP_…` variable, a path, a token, an allowed
    /// host or an allowed origin is invalid, or two paths are equal. [`crate::ErrorKind::Io`]: any
    /// other error of the system, such as missing permissions or file descriptors.
    pub fn bind(self, address: &str) -> Result<BoundServer, Error> {
        bind::bind(self, address)
    }

    /// Prepares the endpoint for a program that has an HTTP server of its own, which passes the
    /// requests to [`HttpEndpoint::handle`]. Starts two threads. Signals are left to the program.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`]: as with [`HttpServer::bind`], without those of the address.
    /// [`crate::ErrorKind::Limit`]: a thread could not be started.
    pub fn endpoint(self) -> Result<HttpEndpoint, Error> {
        HttpEndpoint::new(self)
    }

    /// Serves until SIGTERM, SIGINT or [`Handle::stop`](crate::Handle::stop). Prints one line with
    /// the URL on standard error, or passes it to [`HttpServer::diagnostics`].
    ///
    /// # Errors
    /// As with [`HttpServer::bind`] and [`BoundServer::serve`].
    pub fn serve(self, address: &str) -> Result<(), Error> {
        bind::bind_and_report(self, address)?.serve()
    }
}

/// Returns the name of a session for programs and logs. Unlike the session id, it is not secret.
pub(super) fn session_name(number: u64) -> String {
    format!("session-{number}")
}
