//! Serving Streamable HTTP: both eras on one endpoint.
//!
//! | file | theme |
//! |---|---|
//! | `allowed.rs` | hosts and origins |
//! | `auth.rs` | bearer tokens |
//! | `cors.rs` | what browsers ask for pages of other origins |
//! | `rejection.rs` | statuses and words of what is turned away |
//! | `checks.rs` | what is said of a request before its body is there |
//! | `endpoint.rs` | what becomes of each request |
//! | `response.rs` | the way back of one POST |
//! | `event_streams.rs` | the event streams of a session |
//! | `session.rs` | which sessions are open |
//! | `bind.rs` | threads, and the order in which things end |
//!
//! # Threads
//! One thread, `mcp-http`, holds every connection, reads requests and runs inline tools; workers
//! run the other handlers and write their answers themselves; the calling thread watches deadlines
//! and signals. No thread waits for a client, whatever it is that the client keeps waiting.

mod allowed_hosts;
mod auth;
mod bind;
mod cors;
mod endpoint;
mod event_streams;
mod rejection;
mod request_checks;
mod response;
mod session;

use std::sync::Arc;

use crate::error::Error;

use super::Server;
use super::serve::diagnostics;
use allowed_hosts::AllowedHosts;
use auth::Auth;

pub use auth::{ResourceMetadata, TokenRefusal};
pub use bind::BoundServer;

/// How a server is reached over HTTP; see [`Server::http`].
///
/// What clients should know: a session has one event stream that belongs to no call, so a client
/// that opens a second one with GET gets what follows on that, and the first one ends. A connection
/// whose client closed its sending side counts as one that is gone: calls without a session are
/// cancelled.
#[must_use = "nothing is served until `serve` is called"]
pub struct HttpServer {
    server: Server,
    options: Options,
}

/// What the endpoint asks of its clients.
struct Options {
    path: String,
    allowed_hosts: AllowedHosts,
    auth: Auth,
    leave_signals: bool,
    diagnostics: Arc<diagnostics::Sink>,
}

impl HttpServer {
    pub(super) fn new(server: Server) -> HttpServer {
        let options = Options {
            path: "/mcp".to_owned(),
            allowed_hosts: AllowedHosts::default(),
            auth: Auth::default(),
            leave_signals: false,
            diagnostics: Arc::new(diagnostics::say),
        };
        HttpServer { server, options }
    }

    /// Where the endpoint is; `/mcp` unless this is called.
    pub fn path(mut self, path: impl Into<String>) -> HttpServer {
        self.options.path = path.into();
        self
    }

    /// Serves requests whose `Host` is this host, in addition to `localhost`, `127.0.0.1` and
    /// `[::1]`: `board.example` with any port, or `board.example:8443`. Requests for other hosts
    /// are rejected with 403, so that a foreign page cannot reach the server through a user's
    /// browser under a name of its own (DNS rebinding).
    ///
    /// # Origins
    /// A request with an `Origin` comes from a page in a browser. It is served if its scheme is
    /// `http` or `https` and its host is one of these hosts, and otherwise only if
    /// [`allow_origin`](HttpServer::allow_origin) names it. So `http://localhost:PORT` is served with
    /// every port: pages of other programs on the user's machine can send requests. They cannot
    /// read the answers, because only origins of `allow_origin` get CORS headers, but a tool that
    /// they call runs. Use a token where that matters.
    pub fn allow_host(mut self, host: impl Into<String>) -> HttpServer {
        self.options.allowed_hosts.allow_host(host.into());
        self
    }

    /// Serves requests whatever host they name: for a server behind a proxy that looks at it.
    pub fn allow_any_host(mut self) -> HttpServer {
        self.options.allowed_hosts.allow_any_host();
        self
    }

    /// Serves requests from pages of this origin, exactly: `https://app.example`, or
    /// `http://localhost:6274` for an inspector in a browser. Requests without an origin come from
    /// no page and are served anyway.
    ///
    /// Browsers are told that these pages may send any field, a token among them, and read the
    /// answers (CORS, with neither cookies nor wildcards). Pages of other origins get no such
    /// permission, also where requests of their hosts are served.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> HttpServer {
        self.options.allowed_hosts.allow_origin(origin.into());
        self
    }

    /// Serves only requests with a bearer token that `check` finds an owner for, whom handlers
    /// learn from [`Context::principal`](crate::Context::principal). It must accept only tokens
    /// that are meant for this server.
    ///
    /// Called for every request on the thread that serves, so it must not ask another machine: keep
    /// what was learnt, or use tokens that can be checked by themselves.
    pub fn bearer(
        mut self,
        check: impl Fn(&str) -> Result<String, TokenRefusal> + Send + Sync + 'static,
    ) -> HttpServer {
        self.options.auth.check = Some(Box::new(check));
        self.options.auth.unusable = None;
        self
    }

    /// The same for tokens that are known beforehand, each with its owner. They are compared in
    /// constant time, and only their hashes are kept.
    ///
    /// A token that is empty or has other characters than `A-Z a-z 0-9 - . _ ~ + / =` is an error
    /// when serving starts, because no client could send it (RFC 6750).
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

    /// Tells clients where to get a token: in the challenge of every rejection, and as a document
    /// under `/.well-known/oauth-protected-resource` (RFC 9728).
    pub fn resource_metadata(mut self, metadata: ResourceMetadata) -> HttpServer {
        self.options.auth.metadata = Some(metadata);
        self
    }

    /// Leaves SIGTERM and SIGINT to the program, which stops serving with
    /// [`Handle::stop`](crate::Handle::stop).
    pub fn leave_signals(mut self) -> HttpServer {
        self.options.leave_signals = true;
        self
    }

    /// Passes diagnostics for the operator to `sink` instead of standard error: rejected requests,
    /// and a public address without allowed hosts. Similar lines are limited to one a minute.
    pub fn diagnostics(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> HttpServer {
        self.options.diagnostics = Arc::new(sink);
        self
    }

    /// Opens the address, so that it is known before serving starts: port 0 is any free one.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Busy`]: another process listens there.
    /// [`crate::ErrorKind::Invalid`]: the address is malformed, its host cannot be found, or it is
    /// `systemd` and no sockets were passed on; or a `TINYMCP_…` variable, the path, a token, an
    /// allowed host or an allowed origin is invalid. [`crate::ErrorKind::Io`]: the system refuses
    /// for another reason, which the error carries, be it a lack of rights or of descriptors.
    pub fn bind(self, address: &str) -> Result<BoundServer, Error> {
        bind::bind(self, address)
    }

    /// Serves until SIGTERM or SIGINT comes, or [`Handle::stop`](crate::Handle::stop) is called.
    /// Prints one line on standard error with the URL; [`HttpServer::bind`] does not.
    ///
    /// # Errors
    /// As with [`HttpServer::bind`] and [`BoundServer::serve`].
    pub fn serve(self, address: &str) -> Result<(), Error> {
        let (path, sink) = (self.options.path.clone(), Arc::clone(&self.options.diagnostics));
        let bound = self.bind(address)?;
        match bound.address().strip_prefix("unix:") {
            Some(socket) => (sink)(&format!("serving {path} on the Unix socket {socket}")),
            None => (sink)(&format!("serving http://{}{path}", bound.address())),
        }
        bound.serve()
    }
}
