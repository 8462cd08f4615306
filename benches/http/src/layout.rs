//! Rows of this bench and bounds of our servers: keys, texts, limits.
//!
//! # Invariants
//! - We are compared with the best variant and setting of the peer in each row.

use stdio_bench::limits::Figure::{PlainTimesPeer, TimesPeer};
use stdio_bench::limits::{Limit, least, most};
use stdio_bench::place::{PLACEMENTS, Placement};
use stdio_bench::report::{Layout, Maker, Metric, metric};

/// All rows and limits of this bench.
pub const LAYOUT: Layout = Layout { timed: TIMED, steady: STEADY, noise: "keep_1_p50", limits: LIMITS };

/// Numbers of connections of the phases.
pub const WIDTHS: [usize; 3] = [1, 8, 64];

const TIMED: &[Metric] = &[
    metric("keep_1_p50", "kept connection p50, µs", 1, true),
    metric("keep_1_p99", "kept connection p99, µs", 1, true),
    metric("keep_8_p50", "8 kept connections p50, µs", 1, true),
    metric("keep_8_p99", "8 kept connections p99, µs", 1, true),
    metric("keep_64_p50", "64 kept connections p50, µs", 1, true),
    metric("keep_64_p99", "64 kept connections p99, µs", 1, true),
    metric("keep_1_rate", "calls/s, 1 kept connection", 0, true),
    metric("keep_8_rate", "calls/s, 8 kept connections", 0, true),
    metric("keep_64_rate", "calls/s, 64 kept connections", 0, true),
    metric("keep_1_cpu", "CPU per call, 1 kept connection, µs", 2, true),
    metric("keep_64_cpu", "CPU per call, 64 kept connections, µs", 2, true),
    metric("new_1_p50", "new connection p50, µs", 1, true),
    metric("new_1_p99", "new connection p99, µs", 1, true),
    metric("new_8_p50", "8 new connections at a time p50, µs", 1, true),
    metric("new_8_p99", "8 new connections at a time p99, µs", 1, true),
    metric("new_64_p50", "64 new connections at a time p50, µs", 1, true),
    metric("new_64_p99", "64 new connections at a time p99, µs", 1, true),
    metric("new_1_rate", "calls/s, new connections, 1 at a time", 0, true),
    metric("new_8_rate", "calls/s, new connections, 8 at a time", 0, true),
    metric("new_64_rate", "calls/s, new connections, 64 at a time", 0, true),
    metric("new_1_cpu", "CPU per call, new connections, 1 at a time, µs", 2, true),
    metric("new_64_cpu", "CPU per call, new connections, 64 at a time, µs", 2, true),
    metric("keep_64_driver", "(driver's CPU per call, 64 kept connections, µs)", 2, false),
];

const STEADY: &[Metric] = &[
    metric("instructions", "instructions per call (user space)", 0, true),
    metric("allocations", "allocations per call", 2, false),
    metric("syscalls", "system calls per call", 2, false),
    metric("threads", "threads with 64 connections", 0, false),
    metric("rss", "resident after the first call, kB", 0, true),
    metric("anon", "anonymous after the first call, kB", 0, true),
    metric("rss_loaded", "resident after load, kB", 0, true),
    metric("anon_loaded", "anonymous after load, kB", 0, true),
    metric("idle_kb", "resident per idle connection, kB", 2, false),
    metric("idle_threads", "threads with 500 idle connections", 0, false),
    metric("session_kb", "resident per session, kB", 2, false),
    metric("stop", "SIGTERM to exit, a connection open, ms", 2, false),
    metric("binary", "stripped binary, kB", 0, false),
];

const BOTH: &[Maker] = &[Maker::OursInline, Maker::OursPool];
const ALL: &[Placement] = &PLACEMENTS;

const LIMITS: &[Limit] = &[
    least(1.0, "calls/s, 1 kept, × rmcp's best", TimesPeer("keep_1_rate"), BOTH, ALL),
    least(1.0, "calls/s, 8 kept, × rmcp's best", TimesPeer("keep_8_rate"), BOTH, ALL),
    least(1.0, "calls/s, 64 kept, × rmcp's best", TimesPeer("keep_64_rate"), BOTH, ALL),
    least(1.0, "calls/s, 1 new, × rmcp's best", TimesPeer("new_1_rate"), BOTH, ALL),
    least(1.0, "calls/s, 8 new, × rmcp's best", TimesPeer("new_8_rate"), BOTH, ALL),
    least(1.0, "calls/s, 64 new, × rmcp's best", TimesPeer("new_64_rate"), BOTH, ALL),
    most(1.0, "p50, 1 kept, × rmcp's best", TimesPeer("keep_1_p50"), BOTH, ALL),
    most(1.0, "p50, 8 kept, × rmcp's best", TimesPeer("keep_8_p50"), BOTH, ALL),
    most(1.0, "p50, 64 kept, × rmcp's best", TimesPeer("keep_64_p50"), BOTH, ALL),
    most(1.0, "p50, 1 new, × rmcp's best", TimesPeer("new_1_p50"), BOTH, ALL),
    most(1.0, "p50, 8 new, × rmcp's best", TimesPeer("new_8_p50"), BOTH, ALL),
    most(1.0, "p50, 64 new, × rmcp's best", TimesPeer("new_64_p50"), BOTH, ALL),
    most(0.5, "resident after load, × rmcp's least", PlainTimesPeer("rss_loaded"), BOTH, ALL),
    most(0.5, "anonymous after load, × rmcp's least", PlainTimesPeer("anon_loaded"), BOTH, ALL),
];
