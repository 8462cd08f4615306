//! Tests of the HTTP server: header fields, statuses, sessions, event streams, access.
//!
//! The transcripts in `tests/it` cover the messages, over HTTP too. Each test here starts a server on a free
//! port of the loopback interface.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod beyond_32_bits;
#[cfg(feature = "rate-limits")]
mod call_limits;
mod client;
mod context;
mod cors;
#[cfg(all(
    feature = "access-log",
    feature = "prometheus",
    feature = "otlp",
    feature = "log",
    feature = "tracing"
))]
mod exporters;
#[path = "../fixtures/in_time.rs"]
mod in_time;
mod independence;
#[cfg(feature = "token-jwt")]
mod issued_tokens;
mod modern;
mod mounts;
#[cfg(feature = "observe")]
mod observe;
mod per_session;
mod race;
mod rejection;
mod relayed;
mod replay;
mod scopes;
mod security;
mod server_card;
mod session;
mod shutdown;
mod socket_activation;
mod verifier;
#[cfg(feature = "visibility")]
mod visibility;
