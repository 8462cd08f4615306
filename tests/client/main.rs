//! Clients: what they say to servers of either era, what they make of what comes back, and that
//! every call ends.
//!
//! | module | what it shows |
//! |---|---|
//! | `output` | structured results that are not what their tools promise |
//! | `own` | everything a server of this library offers, in both eras |
//! | `detect` | every row of the detection matrix |
//! | `wire` | frames word by word, against a server played by hand |
//! | `questions` | what such a server asks back |
//! | `capabilities` | requests for what a server did not declare, and refusals that name what |
//! | `oversized` | answers beyond the limits of a message, and one deadline over both probes |
//! | `broken` | servers that break the rules |
//! | `children` | processes: their start, their noise, their end |
//! | `board` | the example `board_server`, in both eras |
//! | `large` | that what servers send is bounded in bytes |
//! | `left` | that nothing is left of a connection |
//! | `storm` | servers that never stop saying something |
//! | `race` | many threads, cancellation and deadlines on one connection |
//! | `turns` | that a caller may read for itself, whatever else happens |
//! | `mixed` | all of that at once, by many threads |
//! | `task` | calls that a server makes tasks of |
//! | `promises` | equal ids of several clients, and listeners that use their client |
//! | `wide` | times, steps and codes beyond 32 bits |
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(target_os = "linux")]
mod board;
mod broken;
mod capabilities;
mod children;
mod detect;
mod large;
mod left;
mod mixed;
#[cfg(feature = "schema")]
mod output;
mod oversized;
mod own;
mod played;
mod promises;
mod questions;
mod race;
mod storm;
#[path = "../fixtures/strict_input.rs"]
mod strict_input;
mod task;
mod turns;
mod wide;
mod wire;
