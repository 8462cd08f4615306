//! The tables: medians and multiples of the bare loop; and the same as JSON.
//!
//! Does: format what was measured. Does not: measure, or judge; `limits` does.
//! Invariant: a figure that was not taken is a dash, never a zero.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::count::Counts;
use crate::limits::{self, Limit};
use crate::place::{PLACEMENTS, Placement};
use crate::stats::{median, quantile, ratio};
use crate::wire::Framing;

/// Whose server it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    /// The bare loop: what the others are divided by.
    Floor,
    /// The bare loop as figures of peers are usually given: one write for each answer.
    FloorEach,
    /// This library, inline tools on the reader thread.
    OursInline,
    /// This library, tools of the worker pool.
    OursPool,
    /// A bare loop on a small HTTP crate.
    TinyHttp,
    /// The peer as its README shows it.
    RmcpReadme,
    /// The peer at its best.
    RmcpTuned,
}

/// A server under test and what was measured of it.
pub struct Server {
    /// Column head.
    pub name: String,
    /// Whose it is.
    pub maker: Maker,
    /// What the client speaks to it.
    pub framing: Framing,
    /// How it is started with its two tools.
    pub command: Vec<String>,
    /// How it is started with 500 tools; empty where no list is measured.
    pub list_command: Vec<String>,
    /// One sample per round, by metric key; `placement/key` for what depends on the placement.
    pub samples: BTreeMap<String, Vec<f64>>,
    /// Figures that need no clock.
    pub counts: Counts,
}

impl Server {
    /// Adds a sample.
    pub fn push(&mut self, key: &str, value: f64) {
        self.samples.entry(key.to_owned()).or_default().push(value);
    }

    /// Adds a sample taken at `place`.
    pub fn push_at(&mut self, place: Placement, key: &str, value: f64) {
        self.push(&format!("{}/{key}", place.key()), value);
    }

    fn samples(&self, key: &str) -> &[f64] {
        self.samples.get(key).map_or(&[], Vec::as_slice)
    }

    /// Median of a metric over the rounds.
    pub fn value(&self, key: &str) -> Option<f64> {
        match key {
            "instructions" => self.counts.instructions,
            "in_turns" => self.counts.in_turns,
            "allocations" => self.counts.allocations,
            "syscalls" => self.counts.syscalls,
            _ => median(self.samples(key)),
        }
    }

    /// A metric as a multiple of `base`'s; a list is divided by the bare loop's with the same text.
    pub fn over(&self, base: &Server, key: &str) -> Option<f64> {
        let same_text = match key.strip_suffix("list_p50") {
            Some(place) => self.samples(&format!("{place}list_floor")),
            None => &[],
        };
        let under = match same_text {
            [] => base.samples(key),
            _ => same_text,
        };
        if under.is_empty() {
            return Some(self.value(key)? / base.value(key)?).filter(|ratio| ratio.is_finite());
        }
        ratio(self.samples(key), under)
    }
}

/// The server of `maker` spoken to in `framing`.
pub fn find(servers: &[Server], maker: Maker, framing: Framing) -> Option<&Server> {
    let mut all = servers.iter();
    all.find(|server| server.maker == maker && server.framing == framing)
}

/// A row of the table.
pub struct Metric {
    key: &'static str,
    label: &'static str,
    decimals: usize,
    /// Whether a multiple of the bare loop's figure says anything.
    ratio: bool,
}

/// The rows of one bench and the bounds of its figures.
pub struct Layout {
    /// What depends on the placement.
    pub timed: &'static [Metric],
    /// What does not.
    pub steady: &'static [Metric],
    /// The timed figure of the bare loop whose spread is shown as noise.
    pub noise: &'static str,
    /// Bounds on our servers.
    pub limits: &'static [Limit],
}

/// A row; with `ratio`, the multiple of the bare loop's figure stands beside it.
pub const fn metric(key: &'static str, label: &'static str, decimals: usize, ratio: bool) -> Metric {
    Metric { key, label, decimals, ratio }
}

/// The whole report as Markdown.
pub fn markdown(servers: &[Server], rounds: usize, layout: &Layout) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_tables(&mut out, servers, rounds, layout);
    let _ = write_syscalls(&mut out, servers);
    let _ = limits::write(&mut out, servers, layout.limits);
    out
}

fn write_tables(out: &mut String, servers: &[Server], rounds: usize, layout: &Layout) -> std::fmt::Result {
    writeln!(
        out,
        "Medians of {rounds} interleaved rounds; in brackets the multiple of the bare loop in the same framing."
    )?;
    for place in PLACEMENTS {
        let prefix = format!("{}/", place.key());
        let p50 = format!("{prefix}{}", layout.noise);
        let Some(floor) = servers.first().filter(|floor| !floor.samples(&p50).is_empty()) else {
            continue;
        };
        writeln!(out, "\n### Timed: {}\n", place.heading())?;
        write_table(out, servers, layout.timed, &prefix)?;
        let p50 = floor.samples(&p50);
        if let (Some(low), Some(high)) = (quantile(p50, 0.0), quantile(p50, 1.0)) {
            writeln!(out, "\nNoise: the bare loop's p50 lay between {low:.1} and {high:.1} µs.")?;
        }
    }
    writeln!(out, "\n### Counted and weighed\n")?;
    write_table(out, servers, layout.steady, "")
}

fn write_table(out: &mut String, servers: &[Server], metrics: &[Metric], prefix: &str) -> std::fmt::Result {
    head(out, "", servers.iter())?;
    for metric in metrics {
        let key = format!("{prefix}{}", metric.key);
        write!(out, "| {} |", metric.label)?;
        for server in servers {
            match server.value(&key) {
                None => write!(out, " – |")?,
                Some(value) => {
                    write!(out, " {}", grouped(value, metric.decimals))?;
                    let times = find(servers, Maker::Floor, server.framing)
                        .filter(|_| metric.ratio && server.maker != Maker::Floor)
                        .and_then(|floor| server.over(floor, &key));
                    match times {
                        Some(times) => write!(out, " ({times:.2}×) |")?,
                        None => write!(out, " |")?,
                    }
                }
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_syscalls(out: &mut String, servers: &[Server]) -> std::fmt::Result {
    if servers.iter().all(|server| server.counts.by_name.is_empty()) {
        return Ok(());
    }
    writeln!(out, "\nSystem calls of one sequential call:\n")?;
    for server in servers {
        let names: Vec<String> =
            server.counts.by_name.iter().map(|(name, calls)| format!("{name} {calls:.2}")).collect();
        if !names.is_empty() {
            writeln!(out, "- {}: {}", server.name, names.join(", "))?;
        }
    }
    Ok(())
}

/// A table's head and rule: `first`, then the servers' names.
pub fn head<'s>(
    out: &mut String,
    first: &str,
    servers: impl Iterator<Item = &'s Server>,
) -> std::fmt::Result {
    let mut rule = String::from("|---|");
    write!(out, "| {first} |")?;
    for server in servers {
        write!(out, " {} |", server.name)?;
        rule.push_str("---|");
    }
    writeln!(out, "\n{rule}")
}

/// `value` with `decimals`, thousands apart; whole numbers from 1000 on.
pub fn grouped(value: f64, decimals: usize) -> String {
    if value.abs() < 1000.0 {
        return format!("{value:.decimals$}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Everything, samples included, as one JSON object.
pub fn json(servers: &[Server], rounds: usize) -> String {
    let mut out = String::new();
    let _ = write_json(&mut out, servers, rounds);
    out
}

fn write_json(out: &mut String, servers: &[Server], rounds: usize) -> std::fmt::Result {
    write!(out, "{{\"rounds\":{rounds},\"servers\":[")?;
    for (index, server) in servers.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Names are ours: letters, digits, spaces, brackets.
        write!(out, "{comma}\n{{\"name\":\"{}\",\"medians\":{{", server.name)?;
        let counted = ["instructions", "allocations", "syscalls"].into_iter();
        let keys = counted.chain(server.samples.keys().map(String::as_str));
        let figures = keys.filter_map(|key| Some(format!("\"{key}\":{}", server.value(key)?)));
        out.push_str(&figures.collect::<Vec<_>>().join(","));
        out.push_str("},\"samples\":{");
        let samples = server.samples.iter().map(|(key, samples)| {
            let numbers: Vec<String> = samples.iter().map(f64::to_string).collect();
            format!("\"{key}\":[{}]", numbers.join(","))
        });
        out.push_str(&samples.collect::<Vec<_>>().join(","));
        out.push_str("},\"syscalls\":{");
        let calls = &server.counts.by_name;
        let calls = calls.iter().map(|(name, n)| format!("\"{name}\":{n}"));
        out.push_str(&calls.collect::<Vec<_>>().join(","));
        out.push_str("}}");
    }
    writeln!(out, "\n]}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(999.44, 1), "999.4");
        assert_eq!(grouped(1000.0, 1), "1,000");
        assert_eq!(grouped(1_234_567.0, 0), "1,234,567");
        assert_eq!(grouped(-1234.0, 0), "-1,234");
    }
}
