//! The bounds our servers have to keep, and whether they do.
//!
//! Does: compute each bounded figure from the samples of one run, in every placement. Does not: measure.
//! Invariants: a figure that was not taken neither meets nor misses a limit; a limit is printed for every placement and
//! counts in all of them, save where the bare loop shows that no server could keep it.
//!
//! Those are two. With 64 in flight a bare loop that answers a whole batch in one write spends 0.1 µs on a call, which
//! leaves no room for a parser: its calls per second and its CPU are printed but bind nobody; what binds is the bare loop
//! that reads a line and writes its answer. And on two CPUs the bare loop itself is not ten times as fast as the tuned
//! peer, so that multiple binds on one.

use std::fmt::Write;

use crate::place::{PLACEMENTS, Placement};
use crate::report::{Maker, Server, find, grouped, head};
use crate::wire::Framing;

/// How a bounded figure is had.
#[derive(Clone, Copy)]
enum Figure {
    /// As it is.
    Plain(&'static str),
    /// Above the bare loop's.
    Above(&'static str),
    /// A multiple of the bare loop's, in each placement.
    TimesFloor(&'static str),
    /// A multiple of the bare loop's that writes each answer by itself, in each placement.
    TimesFloorEach(&'static str),
    /// A multiple of the peer's as its README shows it, which is measured in the legacy framing only.
    TimesReadme(&'static str),
    /// A multiple of the tuned peer's in the same framing.
    TimesTuned(&'static str),
}

use Figure::{Above, Plain, TimesFloor, TimesFloorEach, TimesReadme, TimesTuned};

/// A bound on one or both of our servers.
struct Limit {
    text: &'static str,
    figure: Figure,
    at_most: bool,
    bound: f64,
    binds: &'static [Maker],
    /// Where a miss counts; a figure without placement always counts.
    counts: &'static [Placement],
}

const INLINE: &[Maker] = &[Maker::OursInline];
const POOL: &[Maker] = &[Maker::OursPool, Maker::OursHandOver];
const BOTH: &[Maker] = &[Maker::OursInline, Maker::OursPool];

const ONE: &[Placement] = &[Placement::One];
const NONE: &[Placement] = &[];
const ALL: &[Placement] = &PLACEMENTS;

const fn most(
    bound: f64,
    text: &'static str,
    figure: Figure,
    binds: &'static [Maker],
    counts: &'static [Placement],
) -> Limit {
    Limit { text, figure, at_most: true, bound, binds, counts }
}

const fn least(
    bound: f64,
    text: &'static str,
    figure: Figure,
    binds: &'static [Maker],
    counts: &'static [Placement],
) -> Limit {
    Limit { text, figure, at_most: false, bound, binds, counts }
}

const LIMITS: &[Limit] = &[
    most(8000.0, "instructions per call", Plain("instructions"), INLINE, ALL),
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

impl Limit {
    /// The keys it looks at, what to call them, and whether a miss counts: one, or one for each placement.
    fn keys(&self) -> Vec<(String, String, bool)> {
        match self.figure {
            Plain(key) | Above(key) => vec![(key.to_owned(), self.text.to_owned(), true)],
            TimesFloor(key) | TimesFloorEach(key) | TimesReadme(key) | TimesTuned(key) => PLACEMENTS
                .iter()
                .map(|place| {
                    let name = place.key();
                    let counts = self.counts.contains(place);
                    (format!("{name}/{key}"), format!("{} ({name})", self.text), counts)
                })
                .collect(),
        }
    }

    /// The figure of `server`, where this limit binds it.
    fn figure(&self, servers: &[Server], server: &Server, key: &str) -> Option<f64> {
        if !self.binds.contains(&server.maker) {
            return None;
        }
        let floor = find(servers, Maker::Floor, server.framing)?;
        match self.figure {
            Plain(_) => server.value(key),
            Above(_) => Some(server.value(key)? - floor.value(key)?),
            TimesFloor(_) => server.over(floor, key),
            TimesFloorEach(_) => server.over(find(servers, Maker::FloorEach, server.framing)?, key),
            TimesReadme(_) => server.over(find(servers, Maker::RmcpReadme, Framing::Legacy)?, key),
            TimesTuned(_) => server.over(find(servers, Maker::RmcpTuned, server.framing)?, key),
        }
    }

    fn met(&self, figure: f64) -> bool {
        if self.at_most { figure <= self.bound } else { figure >= self.bound }
    }
}

/// How many figures of our servers miss a limit where it counts.
pub fn missed(servers: &[Server]) -> usize {
    let mut missed = 0;
    for limit in LIMITS {
        for (key, _, _) in limit.keys().into_iter().filter(|(.., counts)| *counts) {
            let figures = servers.iter().filter_map(|server| limit.figure(servers, server, &key));
            missed += figures.filter(|figure| !limit.met(*figure)).count();
        }
    }
    missed
}

/// The table of limits; nothing when none of our servers ran.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut String, servers: &[Server]) -> std::fmt::Result {
    let ours: Vec<&Server> = servers.iter().filter(|server| BOTH.contains(&server.maker)).collect();
    if ours.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n### Limits: missed in bold, missed where it does not count in italics\n")?;
    head(out, "", ours.iter().copied())?;
    for limit in LIMITS {
        let sign = if limit.at_most { '≤' } else { '≥' };
        for (key, text, counts) in limit.keys() {
            write!(out, "| {text} {sign} {} |", limit.bound)?;
            for server in &ours {
                match limit.figure(servers, server, &key) {
                    None => write!(out, " – |")?,
                    Some(figure) if limit.met(figure) => write!(out, " {} |", grouped(figure, 2))?,
                    Some(figure) if counts => write!(out, " **{}** |", grouped(figure, 2))?,
                    Some(figure) => write!(out, " *{}* |", grouped(figure, 2))?,
                }
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
