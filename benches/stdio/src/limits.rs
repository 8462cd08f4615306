//! The bounds our servers have to keep, and whether they do.
//!
//! Does: compute each bounded figure from the samples of one run. Does not: measure.
//! Invariant: a figure that was not taken neither meets nor misses a limit.

use std::fmt::Write;

use crate::place::PLACEMENTS;
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
    /// A multiple of the peer's as its README shows it, which is measured in the legacy framing only.
    TimesReadme(&'static str),
    /// A multiple of the tuned peer's in the same framing.
    TimesTuned(&'static str),
}

use Figure::{Above, Plain, TimesFloor, TimesReadme, TimesTuned};

/// A bound on one or both of our servers.
struct Limit {
    text: &'static str,
    figure: Figure,
    at_most: bool,
    bound: f64,
    binds: &'static [Maker],
}

const INLINE: &[Maker] = &[Maker::OursInline];
const POOL: &[Maker] = &[Maker::OursPool];
const BOTH: &[Maker] = &[Maker::OursInline, Maker::OursPool];

const fn most(bound: f64, text: &'static str, figure: Figure, binds: &'static [Maker]) -> Limit {
    Limit {
        text,
        figure,
        at_most: true,
        bound,
        binds,
    }
}

const fn least(bound: f64, text: &'static str, figure: Figure, binds: &'static [Maker]) -> Limit {
    Limit {
        text,
        figure,
        at_most: false,
        bound,
        binds,
    }
}

const LIMITS: &[Limit] = &[
    most(
        8000.0,
        "instructions per call",
        Plain("instructions"),
        INLINE,
    ),
    most(3.0, "allocations per call", Plain("allocations"), INLINE),
    most(2.0, "system calls per call", Plain("syscalls"), INLINE),
    most(300.0, "resident, kB above floor", Above("rss"), BOTH),
    most(300.0, "anonymous, kB above floor", Above("anon"), BOTH),
    most(
        1.2,
        "sequential p50, × floor",
        TimesFloor("seq_p50"),
        INLINE,
    ),
    most(2.0, "sequential p50, × floor", TimesFloor("seq_p50"), POOL),
    least(0.7, "calls/s with 64, × floor", TimesFloor("rate_64"), BOTH),
    least(
        10.0,
        "calls/s with 64, × rmcp README",
        TimesReadme("rate_64"),
        BOTH,
    ),
    least(
        10.0,
        "calls/s with 64, × rmcp tuned",
        TimesTuned("rate_64"),
        BOTH,
    ),
    most(
        1.5,
        "CPU per call with 64, × floor",
        TimesFloor("cpu_64"),
        BOTH,
    ),
    most(
        1.5,
        "list of 500 tools, × writing its text",
        TimesFloor("list_p50"),
        BOTH,
    ),
    least(1.0, "1 MiB echo, × floor", TimesFloor("bulk"), BOTH),
];

impl Limit {
    /// The keys it looks at: one, or one for each placement.
    fn keys(&self) -> Vec<(String, String)> {
        match self.figure {
            Plain(key) | Above(key) => vec![(key.to_owned(), self.text.to_owned())],
            TimesFloor(key) | TimesReadme(key) | TimesTuned(key) => PLACEMENTS
                .iter()
                .map(|place| {
                    (
                        format!("{}/{key}", place.key()),
                        format!("{} ({})", self.text, place.key()),
                    )
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
            TimesReadme(_) => server.over(find(servers, Maker::RmcpReadme, Framing::Legacy)?, key),
            TimesTuned(_) => server.over(find(servers, Maker::RmcpTuned, server.framing)?, key),
        }
    }

    fn met(&self, figure: f64) -> bool {
        if self.at_most {
            figure <= self.bound
        } else {
            figure >= self.bound
        }
    }
}

/// How many figures of our servers miss a limit.
pub fn missed(servers: &[Server]) -> usize {
    let mut missed = 0;
    for limit in LIMITS {
        for (key, _) in limit.keys() {
            let figures = servers
                .iter()
                .filter_map(|server| limit.figure(servers, server, &key));
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
    let ours: Vec<&Server> = servers
        .iter()
        .filter(|server| BOTH.contains(&server.maker))
        .collect();
    if ours.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n### Limits, those missed in bold\n")?;
    head(out, "", ours.iter().copied())?;
    for limit in LIMITS {
        let sign = if limit.at_most { '≤' } else { '≥' };
        for (key, text) in limit.keys() {
            write!(out, "| {text} {sign} {} |", limit.bound)?;
            for server in &ours {
                match limit.figure(servers, server, &key) {
                    None => write!(out, " – |")?,
                    Some(figure) if limit.met(figure) => write!(out, " {} |", grouped(figure, 2))?,
                    Some(figure) => write!(out, " **{}** |", grouped(figure, 2))?,
                }
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
