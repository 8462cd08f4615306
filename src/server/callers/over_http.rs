//! Facts about the HTTP request of a caller, for handlers and for
//! [`Server::visible`](crate::Server::visible).

use crate::server::context::Context;
use crate::server::http::session_name;
use crate::transport::http_server::Peer;

#[cfg(feature = "visibility")]
use super::Caller;

/// Over HTTP.
impl Context<'_> {
    /// Returns the scopes of the principal's token. Empty without authentication, as on stdio. See
    /// [`Tool::requires_scope`](crate::Tool::requires_scope) to reject a call before it starts.
    pub fn scopes(&self) -> &[String] {
        self.sink.scopes()
    }

    /// Returns a header field of the HTTP request that carries the call, if the server passes it to
    /// handlers: see [`HttpServer::pass_header`](crate::HttpServer::pass_header). `None` on other
    /// transports, and if the request has no such field, several, or one that is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.sink.header(name)
    }

    /// Returns the process at the other end of the HTTP connection: its address, or its credentials
    /// on a Unix socket. Behind a reverse proxy this is the proxy. `None` on other transports, and
    /// when the client has disconnected.
    pub fn peer(&self) -> Option<Peer> {
        self.sink.peer()
    }

    /// Returns the name of the HTTP session, such as `session-7`: unique as long as the process
    /// runs, the same as in [`Frame`](crate::Frame), and not secret. `None` without a session and
    /// on other transports.
    pub fn session(&self) -> Option<String> {
        self.sink.session().map(session_name)
    }
}

/// Over HTTP.
#[cfg(feature = "visibility")]
impl<'c> Caller<'c> {
    /// Returns the scopes of the principal's token.
    pub fn scopes(&self) -> &'c [String] {
        self.sink.scopes()
    }

    /// Returns a header field of the HTTP request: see
    /// [`HttpServer::pass_header`](crate::HttpServer::pass_header).
    pub fn header(&self, name: &str) -> Option<&'c str> {
        self.sink.header(name)
    }

    /// Returns the process at the other end of the HTTP connection.
    pub fn peer(&self) -> Option<Peer> {
        self.sink.peer()
    }

    /// Returns the name of the HTTP session.
    pub fn session(&self) -> Option<String> {
        self.sink.session().map(session_name)
    }
}
