//! Limits on our servers, and the check of each limit.
//!
//! Computes each figure from the samples of one run, in every placement. Each bench has its own
//! limits, see `layout`.
//!
//! # Invariants
//! - A figure that was not measured neither meets nor misses a limit.
//! - A limit is printed for every placement in which a figure of it was measured.

use std::fmt::Write;

use crate::place::{PLACEMENTS, Placement};
use crate::report::{Maker, Server, find, grouped, head};
use crate::wire::Framing;

/// Computation of a figure.
#[derive(Clone, Copy)]
pub enum Figure {
    /// The value itself.
    Plain(&'static str),
    /// The value itself, of the server that speaks sessions.
    Session(&'static str),
    /// The value itself, of the stateless server.
    Stateless(&'static str),
    /// Difference to the bare loop.
    Above(&'static str),
    /// Multiple of the bare loop, in each placement.
    TimesFloor(&'static str),
    /// Multiple of the bare loop that writes each response by itself, in each placement.
    TimesFloorEach(&'static str),
    /// Multiple of the peer in the form of its README, which is measured with sessions only.
    TimesReadme(&'static str),
    /// Multiple of the tuned peer in the same framing.
    TimesTuned(&'static str),
    /// Multiple of the best variant of the peer in the same framing, in each placement.
    TimesPeer(&'static str),
    /// Multiple of the best variant of the peer, for a figure without placement.
    PlainTimesPeer(&'static str),
}

use Figure::{
    Above, Plain, PlainTimesPeer, Session, Stateless, TimesFloor, TimesFloorEach, TimesPeer, TimesReadme,
    TimesTuned,
};

/// A limit on one or both of our servers.
pub struct Limit {
    text: &'static str,
    figure: Figure,
    at_most: bool,
    bound: f64,
    binds: &'static [Maker],
    /// Placements in which a miss counts; a figure without placement always counts.
    counts: &'static [Placement],
}

/// Our servers, the columns of the table of limits.
const OURS: &[Maker] = &[Maker::OursInline, Maker::OursPool];
/// The variants of the peer.
const PEER: &[Maker] = &[Maker::RmcpReadme, Maker::RmcpTuned];

/// `figure` must be at most `bound` for the servers of `binds`; a miss counts in the placements of
/// `counts`.
pub const fn most(
    bound: f64,
    text: &'static str,
    figure: Figure,
    binds: &'static [Maker],
    counts: &'static [Placement],
) -> Limit {
    Limit { text, figure, at_most: true, bound, binds, counts }
}

/// `figure` must be at least `bound`; otherwise like [`most`].
pub const fn least(
    bound: f64,
    text: &'static str,
    figure: Figure,
    binds: &'static [Maker],
    counts: &'static [Placement],
) -> Limit {
    Limit { text, figure, at_most: false, bound, binds, counts }
}

impl Limit {
    /// Keys of the figures, their names, and true if a miss counts: one, or one for each placement.
    fn keys(&self) -> Vec<(String, String, bool)> {
        match self.figure {
            Plain(key) | Session(key) | Stateless(key) | Above(key) | PlainTimesPeer(key) => {
                vec![(key.to_owned(), self.text.to_owned(), true)]
            }
            TimesFloor(key) | TimesFloorEach(key) | TimesReadme(key) | TimesTuned(key) | TimesPeer(key) => {
                PLACEMENTS
                    .iter()
                    .map(|place| {
                        let name = place.key();
                        let counts = self.counts.contains(place);
                        (format!("{name}/{key}"), format!("{} ({name})", self.text), counts)
                    })
                    .collect()
            }
        }
    }

    /// Figure of `server`, if this limit applies to it.
    fn figure(&self, servers: &[Server], server: &Server, key: &str) -> Option<f64> {
        if !self.binds.contains(&server.maker) {
            return None;
        }
        let floor = || find(servers, Maker::Floor, server.framing);
        match self.figure {
            Plain(_) => server.value(key),
            Session(_) => server.value(key).filter(|_| server.framing == Framing::Legacy),
            Stateless(_) => server.value(key).filter(|_| server.framing == Framing::Modern),
            Above(_) => Some(server.value(key)? - floor()?.value(key)?),
            TimesFloor(_) => server.over(floor()?, key),
            TimesFloorEach(_) => server.over(find(servers, Maker::FloorEach, server.framing)?, key),
            TimesReadme(_) => server.over(find(servers, Maker::RmcpReadme, Framing::Legacy)?, key),
            TimesTuned(_) => server.over(find(servers, Maker::RmcpTuned, server.framing)?, key),
            TimesPeer(_) | PlainTimesPeer(_) => {
                let peers = servers.iter().filter(|peer| PEER.contains(&peer.maker));
                let alike = peers.filter(|peer| peer.framing == server.framing);
                let multiples = alike.filter_map(|peer| server.over(peer, key));
                // The strictest one: the greatest multiple with an upper limit, the smallest with a
                // lower limit.
                if self.at_most { multiples.reduce(f64::max) } else { multiples.reduce(f64::min) }
            }
        }
    }

    fn met(&self, figure: f64) -> bool {
        if self.at_most { figure <= self.bound } else { figure >= self.bound }
    }
}

/// Number of figures of our servers that miss a limit where it counts.
pub fn missed(servers: &[Server], limits: &[Limit]) -> usize {
    let mut missed = 0;
    for limit in limits {
        for (key, _, _) in limit.keys().into_iter().filter(|(.., counts)| *counts) {
            let figures = servers.iter().filter_map(|server| limit.figure(servers, server, &key));
            missed += figures.filter(|figure| !limit.met(*figure)).count();
        }
    }
    missed
}

/// Writes the table of limits; writes nothing if none of our servers ran.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write(out: &mut String, servers: &[Server], limits: &[Limit]) -> std::fmt::Result {
    let ours: Vec<&Server> = servers.iter().filter(|server| OURS.contains(&server.maker)).collect();
    if ours.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n### Limits: missed in bold, missed where it does not count in italics\n")?;
    head(out, "", ours.iter().copied())?;
    for limit in limits {
        let sign = if limit.at_most { '≤' } else { '≥' };
        for (key, text, counts) in limit.keys() {
            let figures: Vec<_> = ours.iter().map(|server| limit.figure(servers, server, &key)).collect();
            if figures.iter().all(Option::is_none) {
                continue;
            }
            write!(out, "| {text} {sign} {} |", limit.bound)?;
            for figure in figures {
                match figure {
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
