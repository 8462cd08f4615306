//! Tests of the HTTP server: header fields, statuses, sessions, event streams, access.
//!
//! The transcripts in `tests/it` cover the messages, over HTTP too. Each test here starts a server on a free
//! port of the loopback interface.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod activated;
mod client;
mod cors;
mod end;
mod independence;
mod modern;
mod mounts;
mod per_session;
mod race;
mod rejection;
mod replay;
mod security;
mod session;
mod wide;
