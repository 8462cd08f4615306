//! Clients: requests to servers of both eras, handling of their responses, and the end of every call.
//!
//! | module | subject |
//! |---|---|
//! | `output` | structured results that do not match the output schema |
//! | `own_server` | everything a server of this library offers, in both eras |
//! | `detect` | every row of the detection matrix |
//! | `wire` | exact frames, against a scripted server |
//! | `questions` | requests of such a server to the client |
//! | `capabilities` | requests that need an undeclared capability, and errors that name it |
//! | `oversized` | responses beyond the limits of a message, and one deadline over both probes |
//! | `broken` | servers that break the rules |
//! | `children` | child processes: start, stray output, end |
//! | `board` | the example `board_server`, in both eras |
//! | `large` | bounds in bytes for everything that servers send |
//! | `leftovers` | no thread, process or descriptor remains after a connection |
//! | `floods` | servers that send without end |
//! | `race` | many threads, cancellation and deadlines on one connection |
//! | `caller_reads` | callers that read their own response |
//! | `mixed` | all of these together, by many threads |
//! | `extension` | extensions of the protocol, in both eras |
//! | `apps` | pages of tools, and hosts that show them |
//! | `skills` | folders of skills, and entries that a client must reject |
//! | `task` | calls for which a server creates tasks |
//! | `programs` | child processes on every system: programs with one role each |
//! | `guarantees` | equal ids of several clients, and listeners that use their client |
//! | `beyond_32_bits` | times, steps and codes beyond 32 bits |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "extensions")]
mod apps;
mod beyond_32_bits;
#[cfg(target_os = "linux")]
mod board;
mod broken;
#[cfg(unix)]
mod caller_reads;
mod capabilities;
#[cfg(unix)]
mod children;
mod detect;
#[cfg(feature = "extensions")]
mod extension;
#[cfg(unix)]
mod floods;
mod guarantees;
#[path = "../fixtures/in_time.rs"]
mod in_time;
mod large;
#[cfg(unix)]
mod leftovers;
mod mixed;
#[cfg(feature = "schema")]
mod output;
mod oversized;
mod own_server;
mod programs;
mod questions;
mod race;
mod scripted;
#[cfg(all(unix, feature = "skills"))]
mod skills;
#[path = "../fixtures/socket_pair.rs"]
mod socket_pair;
#[path = "../fixtures/strict_input.rs"]
mod strict_input;
mod task;
mod wire;
