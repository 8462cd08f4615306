//! Benchmark of stdio servers, which take turns in one interleaved run.
//!
//! The driver spawns servers, sends requests, measures and prints. It checks only the id, the
//! length and the first text of a response; other tests check conformance. Linux only: the figures
//! are read from `/proc`.
//!
//! Reading order: `wire` (requests), `ready` (responses of the bare loop), `peer` (one child
//! process), `place` (processors), `load` (timed phases), `proc` (figures of the kernel), `count`
//! (instructions, allocations, system calls), `stats`, `report`, `limits`, `layout` (rows and
//! limits of this bench). `benches/http` has its own peer, load and layout, and uses the others.

pub mod count;
pub mod layout;
pub mod limits;
pub mod load;
pub mod peer;
pub mod place;
pub mod proc;
pub mod ready;
pub mod report;
pub mod stats;
pub mod wire;

/// Any failure of the bench; it is printed and ends the run.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
