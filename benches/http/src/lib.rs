//! Compares HTTP servers by driving them all in one interleaved run.
//!
//! Does: spawn servers, speak just enough HTTP/1.1 and of the protocol, measure, print. Does not: judge answers beyond
//! their status, id and text; conformance is tested elsewhere. Linux only.
//!
//! Read in this order: `wire` (what is sent), `answer` (where an answer ends), `peer` (one server process), `link` (one
//! connection), `load` (the timed phases), `layout` (rows and bounds). The rest is that of `benches/stdio`.

pub mod answer;
pub mod layout;
pub mod link;
pub mod load;
pub mod peer;
pub mod wire;

pub use stdio_bench::Result;
