//! Compares stdio servers by driving them all in one interleaved run.
//!
//! Does: spawn servers, speak just enough of the protocol, measure, print. Does not: judge answers beyond their id,
//! their length and the first text; conformance is tested elsewhere. Linux only: the figures come from `/proc`.
//!
//! Read in this order: `wire` (what is sent), `ready` (what a bare loop answers), `peer` (one child process), `place`
//! (which processors), `load` (the timed phases), `proc` (what the kernel says about the child), `count` (instructions,
//! allocations, system calls), `stats`, `report`, `limits`, `layout` (the rows and bounds of this bench).
//! `benches/http` has its own peer, load and layout, and uses the rest.

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

/// Any failure of the bench; it is printed and the run ends.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
