//! What only HTTP has: fields, statuses, sessions, streams that end and go on, who may come in.
//!
//! Messages themselves are the business of the transcripts, which `tests/it` plays over HTTP too. Each test
//! here has a server of its own on a free port of the loopback interface.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod activated;
mod client;
mod cors;
mod end;
mod independence;
mod modern;
mod race;
mod refusal;
mod replay;
mod security;
mod session;
mod wide;
