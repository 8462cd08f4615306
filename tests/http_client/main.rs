//! Clients over HTTP against scripted servers: detection of the era, sessions, servers that break the
//! protocol. Every call ends with a result or a typed error, and nothing is left.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "oauth")]
#[path = "../fixtures/auth_server.rs"]
mod auth_server;
mod detection;
#[cfg(feature = "http-server")]
mod discovery;
#[cfg(feature = "oauth-jwt")]
mod dpop;
mod early_responses;
#[cfg(feature = "oauth")]
mod grants;
mod leftovers;
mod legacy_sse;
mod modern;
#[cfg(all(feature = "http-server", unix))]
mod overflow;
#[cfg(feature = "http-server")]
mod own_server;
mod sessions;
#[cfg(feature = "oauth")]
mod sign_in;
// Shared with the tests of the transport, which use all of it.
#[allow(dead_code)]
#[path = "../../src/transport/http_client/tests/stage.rs"]
mod stage;
#[cfg(all(feature = "oauth", unix))]
mod token_file;

#[cfg(all(feature = "tls", feature = "http-server"))]
mod tls;
#[cfg(feature = "http-server")]
mod unix_socket;

use std::time::Duration;

use tinymcp::{Client, ClientBuilder, Limits};

/// Request parser of the scripted servers.
mod json {
    pub(crate) use tinymcp::json::Doc;
}

/// Upper bound for every wait, also on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A builder of a client with a short deadline.
fn client() -> ClientBuilder {
    Client::builder("tester", "1.0.0").limits(limits())
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.client.call_timeout = TIMEOUT;
    limits
}

/// The member of a request, as text.
fn member(body: &str, pointer: &str) -> String {
    let doc = tinymcp::json::Doc::parse(body).unwrap();
    doc.root().pointer(pointer).map(|v| v.as_str().unwrap_or(v.raw()).to_owned()).unwrap_or_default()
}
