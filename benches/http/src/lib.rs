//! Benchmark of HTTP servers, which take turns in one interleaved run.
//!
//! The driver spawns servers, sends HTTP/1.1 requests, measures and prints. It checks only status,
//! id and text of a response; other tests check conformance. Linux only.
//!
//! Reading order: `wire` (requests), `answer` (end of a response), `peer` (one server process),
//! `link` (one connection), `load` (timed phases), `layout` (rows and limits). The other modules
//! are those of `benches/stdio`.

pub mod answer;
pub mod layout;
pub mod link;
pub mod load;
pub mod peer;
pub mod wire;

pub use stdio_bench::Result;
