//! Command line, clock and report of both clients of this bench.

use std::env;
use std::fs;
use std::time::{Duration, Instant};

/// Options of a client program: `CLIENT CALLS_IN_FLIGHT MILLISECONDS COMMAND…`.
pub struct Job {
    /// Number of calls in flight.
    pub in_flight: usize,
    /// Time during which calls are started.
    pub time: Duration,
    /// The server.
    pub command: Vec<String>,
}

impl Job {
    /// Reads the command line.
    pub fn from_args() -> Job {
        let mut args = env::args().skip(1);
        let mut number = || {
            args.next().and_then(|a| a.parse::<u64>().ok()).expect("CALLS_IN_FLIGHT MILLISECONDS COMMAND…")
        };
        let in_flight = number() as usize;
        let time = Duration::from_millis(number());
        Job { in_flight, time, command: args.collect() }
    }

    /// Returns the text of the call with this number.
    pub fn text(n: u64) -> String {
        format!("hello {n}")
    }
}

/// Latencies of the calls of one caller. Only the last are stored, so that they do not count as
/// memory of the client.
#[derive(Default)]
pub struct Times {
    count: u64,
    last: Vec<u64>,
}

impl Times {
    const KEPT: usize = 256;

    /// Number of calls so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a call that started at `begun`.
    pub fn add(&mut self, begun: Instant) {
        let took = begun.elapsed().as_nanos() as u64;
        if self.last.len() < Times::KEPT {
            self.last.push(took);
        } else {
            self.last[self.count as usize % Times::KEPT] = took;
        }
        self.count += 1;
    }
}

/// Prints calls per second, median latency and processor time per call in microseconds, peak
/// resident memory in KiB, and the anonymous and the file-backed part of the resident memory at the
/// end.
pub fn report(began: Instant, cpu_before: u64, times: &[Times]) {
    let took = began.elapsed();
    let calls = times.iter().map(Times::count).sum::<u64>() as f64;
    let mut single: Vec<u64> = times.iter().flat_map(|t| &t.last).copied().collect();
    single.sort_unstable();
    let cpu = (cpu_ticks() - cpu_before) as f64 * 10_000.0;
    println!(
        "{:.0} {:.1} {:.2} {} {} {}",
        calls / took.as_secs_f64(),
        single[single.len() / 2] as f64 / 1000.0,
        cpu / calls,
        kib("VmHWM:"),
        kib("RssAnon:"),
        kib("RssFile:")
    );
}

/// Processor time of this process without children, in hundredths of a second.
pub fn cpu_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum()
}

/// Reads a line of the memory figures of this process, in KiB.
pub fn kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}
