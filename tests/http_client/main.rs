//! Clients over HTTP against scripted servers: finding the era, sessions that come and go, servers
//! that do not behave. Every call ends with an answer or a typed error, and nothing is left behind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod detection;
mod early;
mod leftovers;
mod modern;
mod oldest;
#[cfg(feature = "http-server")]
mod ours;
mod sessions;
// Shared with the tests of the carrier, which use all of it.
#[allow(dead_code)]
#[path = "../../src/transport/http_client/tests/stage.rs"]
mod stage;

use std::time::Duration;

use tinymcp::{Client, ClientBuilder, Limits};

/// What the scripted servers parse requests with.
mod json {
    pub(crate) use tinymcp::json::Doc;
}

/// Longer than anything takes on a loaded machine.
const LONG: Duration = Duration::from_secs(20);

/// A client to be, with a deadline that a test can wait for.
fn client() -> ClientBuilder {
    Client::builder("tester", "1.0.0").limits(limits())
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.call_timeout = LONG;
    limits
}

/// The member of a request, as text.
fn member(body: &str, pointer: &str) -> String {
    let doc = tinymcp::json::Doc::parse(body).unwrap();
    doc.root().pointer(pointer).map(|v| v.as_str().unwrap_or(v.raw()).to_owned()).unwrap_or_default()
}
