//! Report: tables with medians and multiples of the bare loop, and the same figures as JSON.
//!
//! # Invariants
//! - A figure that was not measured is a dash, never a zero.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::count::Counts;
use crate::limits::{self, Limit};
use crate::place::{PLACEMENTS, Placement};
use crate::stats::{median, quantile, ratio};
use crate::wire::Framing;

/// Origin of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    /// The bare loop, the base of all multiples.
    Floor,
    /// The bare loop with one write for each response, as figures of peers are usually measured.
    FloorEach,
    /// This library with inline tools on the reader thread.
    OursInline,
    /// This library with tools on the worker pool.
    OursPool,
    /// A bare loop on a small HTTP crate.
    TinyHttp,
    /// The peer in the form of its README.
    RmcpReadme,
    /// The tuned peer.
    RmcpTuned,
}

/// A server under test with its samples.
pub struct Server {
    /// Heading of the column.
    pub name: String,
    /// Origin of the server.
    pub maker: Maker,
    /// Framing that the client uses.
    pub framing: Framing,
    /// Command with two tools.
    pub command: Vec<String>,
    /// Command with 500 tools; empty if no list is measured.
    pub list_command: Vec<String>,
    /// One sample per round by metric key; `placement/key` for figures that depend on the
    /// placement.
    pub samples: BTreeMap<String, Vec<f64>>,
    /// Figures without a clock.
    pub counts: Counts,
}

impl Server {
    /// Adds a sample.
    pub fn push(&mut self, key: &str, value: f64) {
        self.samples.entry(key.to_owned()).or_default().push(value);
    }

    /// Adds a sample with its placement.
    pub fn push_at(&mut self, place: Placement, key: &str, value: f64) {
        self.push(&format!("{}/{key}", place.key()), value);
    }

    fn samples(&self, key: &str) -> &[f64] {
        self.samples.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the median of a metric over the rounds.
    pub fn value(&self, key: &str) -> Option<f64> {
        match key {
            "instructions" => self.counts.instructions,
            "in_turns" => self.counts.in_turns,
            "allocations" => self.counts.allocations,
            "syscalls" => self.counts.syscalls,
            _ => median(self.samples(key)),
        }
    }

    /// Returns a metric as a multiple of `base`; a list is divided by the bare loop's list with the
    /// same text.
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

/// Finds the server of `maker` with `framing`.
pub fn find(servers: &[Server], maker: Maker, framing: Framing) -> Option<&Server> {
    let mut all = servers.iter();
    all.find(|server| server.maker == maker && server.framing == framing)
}

/// A row of the table.
pub struct Metric {
    key: &'static str,
    label: &'static str,
    decimals: usize,
    /// True if a multiple of the bare loop is meaningful.
    ratio: bool,
}

/// Rows of one bench and limits of its figures.
pub struct Layout {
    /// Figures that depend on the placement.
    pub timed: &'static [Metric],
    /// Figures that do not.
    pub steady: &'static [Metric],
    /// Timed figure of the bare loop whose spread is printed as noise.
    pub noise: &'static str,
    /// Limits on our servers.
    pub limits: &'static [Limit],
}

/// Creates a row; `ratio` adds the multiple of the bare loop.
pub const fn metric(key: &'static str, label: &'static str, decimals: usize, ratio: bool) -> Metric {
    Metric { key, label, decimals, ratio }
}

/// Returns the whole report as Markdown.
pub fn markdown(servers: &[Server], rounds: usize, layout: &Layout) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_tables(&mut out, servers, rounds, layout);
    let _ = write_syscalls(&mut out, servers);
    let _ = limits::write(&mut out, servers, layout.limits);
    out
}

/// Returns the rows of `keys` among the steady ones, and the limits, as Markdown.
pub fn counted(servers: &[Server], keys: &[&str], layout: &Layout) -> String {
    let mut out = String::new();
    let rows = || layout.steady.iter().filter(|metric| keys.contains(&metric.key));
    // Writing to a String cannot fail.
    let _ = write_table(&mut out, servers, rows(), "");
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

fn write_table<'m>(
    out: &mut String,
    servers: &[Server],
    metrics: impl IntoIterator<Item = &'m Metric>,
    prefix: &str,
) -> std::fmt::Result {
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

/// Writes heading and rule of a table: `first`, then the names of the servers.
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

/// Formats `value` with `decimals` and separated thousands; as an integer from 1000 on.
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

/// Returns all figures and samples as one JSON object.
pub fn json(servers: &[Server], rounds: usize) -> String {
    let mut out = String::new();
    let _ = write_json(&mut out, servers, rounds);
    out
}

fn write_json(out: &mut String, servers: &[Server], rounds: usize) -> std::fmt::Result {
    write!(out, "{{\"rounds\":{rounds},\"servers\":[")?;
    for (index, server) in servers.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // The names contain only letters, digits, spaces and brackets.
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
