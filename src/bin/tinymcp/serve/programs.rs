//! Programs that calls start: processes, their pipes, their output and their end.
//!
//! | file | contents |
//! |---|---|
//! | `process.rs` | one process per call: pipes, timeout, cancellation |
//! | `worker.rs` | co-process: one line per call and result |
//! | `group.rs` | process groups: start, signals, reaping, orphans |
//! | `sandbox.rs` | Landlock and network namespace, applied in a re-executed helper |
//! | `output.rs` | output of a program to a tool result |
//! | `memory.rs` | memory for the outputs of all calls |
//! | `program_log.rs` | standard error of programs on that of the server |

pub(crate) mod group;
mod memory;
pub(crate) mod output;
pub(crate) mod process;
pub(crate) mod program_log;
pub(crate) mod sandbox;
pub(crate) mod worker;
