//! Rows of this bench and bounds of our servers: keys, texts, limits.
//!
//! The limits on instructions are the figures of November 2026 and one per cent, as the budgets of
//! `cross/size`: another compiler may need a new figure. Those of the pool depend on when its threads
//! wake up, so they have no limit.
//!
//! # Invariants
//! - A limit applies in every placement, except if the bare loop shows that no server can meet it.
//!
//! There are two exceptions. The limits with 64 calls in flight were set against a bare loop that
//! reads the pipe and writes each response by itself. It uses 1.1 µs of CPU per call and makes
//! 686,000 calls per second. The limits apply against this loop (`--each`). A loop that writes the
//! responses of a whole batch at once uses 0.1 µs per call, which leaves no time for any parser.
//! Its calls per second and its CPU are printed without a limit. With one call in flight both loops
//! are the same. On two CPUs the bare loop itself is not ten times as fast as the tuned peer, so
//! that limit applies on one CPU only.

use crate::limits::Figure::{
    Above, Plain, Session, Stateless, TimesFloor, TimesFloorEach, TimesReadme, TimesTuned,
};
use crate::limits::{Limit, least, most};
use crate::place::{PLACEMENTS, Placement};
use crate::report::{Layout, Maker, Metric, metric};

/// All rows and limits of the stdio bench.
pub const LAYOUT: Layout = Layout { timed: TIMED, steady: STEADY, noise: "seq_p50", limits: LIMITS };

/// Figures that depend on the placement.
const TIMED: &[Metric] = &[
    metric("seq_p50", "sequential p50, µs", 1, true),
    metric("seq_p99", "sequential p99, µs", 1, true),
    metric("rate_1", "calls/s, 1 in flight", 0, true),
    metric("rate_16", "calls/s, 16 in flight", 0, true),
    metric("rate_64", "calls/s, 64 in flight", 0, true),
    metric("cpu_1", "CPU per call, 1 in flight, µs", 2, true),
    metric("cpu_16", "CPU per call, 16 in flight, µs", 2, true),
    metric("cpu_64", "CPU per call, 64 in flight, µs", 2, true),
    metric("switches_1", "context switches per call, 1 in flight", 2, false),
    metric("switches_64", "context switches per call, 64 in flight", 2, false),
    metric("list_p50", "list of 500 tools p50, µs", 1, true),
    metric("list_floor", "(the bare loop writing the same list, µs)", 1, false),
    metric("bulk", "1 MiB echo, MiB/s", 0, true),
    metric("driver_64", "(driver's CPU per call, 64 in flight, µs)", 2, false),
];

/// Figures that do not depend on the placement.
const STEADY: &[Metric] = &[
    metric("in_turns", "instructions per call, two tools and shapes alternating", 0, true),
    metric("instructions", "instructions per call, one tool and shape", 0, false),
    metric("allocations", "allocations per call", 2, false),
    metric("syscalls", "system calls per call", 2, false),
    metric("threads", "threads after load", 0, false),
    metric("rss", "resident after the first call, kB", 0, true),
    metric("anon", "anonymous after the first call, kB", 0, true),
    metric("anon_loaded", "anonymous after load, kB", 0, true),
    metric("peak", "peak resident with 1 MiB echoes, kB", 0, true),
    metric("start", "start to first answer, ms", 2, true),
    metric("list_kb", "list of 500 tools, kB", 1, false),
    metric("list_pages", "pages of that list", 0, false),
    metric("binary", "stripped binary, kB", 0, false),
];

const INLINE: &[Maker] = &[Maker::OursInline];
const POOL: &[Maker] = &[Maker::OursPool];
const BOTH: &[Maker] = &[Maker::OursInline, Maker::OursPool];

const ONE: &[Placement] = &[Placement::One];
const NONE: &[Placement] = &[];
const ALL: &[Placement] = &PLACEMENTS;

const LIMITS: &[Limit] = &[
    most(6230.0, "instructions per call, alternating, sessions", Session("in_turns"), INLINE, ALL),
    most(8410.0, "instructions per call, alternating, stateless", Stateless("in_turns"), INLINE, ALL),
    most(5790.0, "instructions per call, one tool, sessions", Session("instructions"), INLINE, ALL),
    most(7945.0, "instructions per call, one tool, stateless", Stateless("instructions"), INLINE, ALL),
    most(3.0, "allocations per call", Plain("allocations"), INLINE, ALL),
    most(2.0, "system calls per call", Plain("syscalls"), INLINE, ALL),
    most(300.0, "resident, kB above floor", Above("rss"), BOTH, ALL),
    most(300.0, "anonymous, kB above floor", Above("anon"), BOTH, ALL),
    most(1.2, "sequential p50, × floor", TimesFloor("seq_p50"), INLINE, ALL),
    most(2.0, "sequential p50, × floor", TimesFloor("seq_p50"), POOL, ALL),
    least(0.7, "calls/s with 64, × floor, a write each", TimesFloorEach("rate_64"), BOTH, ALL),
    least(0.7, "calls/s with 64, × floor", TimesFloor("rate_64"), BOTH, NONE),
    least(10.0, "calls/s with 64, × rmcp README", TimesReadme("rate_64"), BOTH, ALL),
    least(10.0, "calls/s with 64, × rmcp tuned", TimesTuned("rate_64"), BOTH, ONE),
    most(1.5, "CPU per call with 64, × floor, a write each", TimesFloorEach("cpu_64"), BOTH, ALL),
    most(1.5, "CPU per call with 64, × floor", TimesFloor("cpu_64"), BOTH, NONE),
    most(1.5, "list of 500 tools, × writing its text", TimesFloor("list_p50"), BOTH, ALL),
    least(1.0, "1 MiB echo, × floor", TimesFloor("bulk"), BOTH, ALL),
];
