//! Timed phases: sequential calls, a window of calls, large texts, tool lists.
//!
//! Each phase keeps exactly the given number of calls in flight, checks id and length of each
//! response, and measures the time.
//!
//! # Invariants
//! - No call is in flight when a phase returns, so phases can follow each other on one server.

use std::time::{Duration, Instant};

use crate::Result;
use crate::peer::Peer;
use crate::proc;
use crate::wire::{Script, digits, id_of};

/// Result of one phase.
#[derive(Clone, Copy, Default, Debug)]
pub struct Phase {
    /// Completed calls.
    pub calls: u64,
    /// Time from the first request to the last response.
    pub seconds: f64,
    /// Processor time of the server in nanoseconds.
    pub cpu_ns: u64,
    /// Context switches of all threads of the server.
    pub switches: u64,
    /// Processor time of the driver in nanoseconds.
    pub driver_ns: u64,
}

impl Phase {
    /// Returns `total` per call of this phase.
    pub fn per_call(&self, total: u64) -> f64 {
        total as f64 / self.calls.max(1) as f64
    }

    /// Returns the calls per second.
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.seconds.max(1e-9)
    }
}

/// Counters of the kernel at the start of a phase.
struct Meter {
    cpu_ns: u64,
    switches: u64,
    driver_ns: u64,
    started: Instant,
}

impl Meter {
    fn start(pid: u32) -> Self {
        Self {
            cpu_ns: proc::cpu_ns(pid),
            switches: proc::switches(pid),
            driver_ns: proc::own_cpu_ns(),
            started: Instant::now(),
        }
    }

    fn stop(self, pid: u32, calls: u64) -> Phase {
        let seconds = self.started.elapsed().as_secs_f64();
        Phase {
            calls,
            seconds,
            driver_ns: proc::own_cpu_ns().saturating_sub(self.driver_ns),
            cpu_ns: proc::cpu_ns(pid).saturating_sub(self.cpu_ns),
            switches: proc::switches(pid).saturating_sub(self.switches),
        }
    }
}

/// Makes sequential calls for `duration` and adds the latency of each in nanoseconds to
/// `latencies`.
///
/// # Errors
/// Returns an error if the server ends or a response has another id.
pub fn sequential(
    peer: &mut Peer<'_>,
    script: &Script,
    duration: Duration,
    latencies: &mut Vec<f64>,
) -> Result<Phase> {
    let meter = Meter::start(peer.pid());
    let mut calls = 0;
    let mut before = meter.started;
    let end = before + duration;
    while before < end {
        one(peer, script)?;
        let after = Instant::now();
        latencies.push((after - before).as_nanos() as f64);
        before = after;
        calls += 1;
    }
    Ok(meter.stop(peer.pid(), calls))
}

/// Makes exactly `calls` sequential calls, for counting tools that need the number.
///
/// # Errors
/// Returns an error if the server ends or a response has another id.
pub fn exactly(peer: &mut Peer<'_>, script: &Script, calls: u64) -> Result<()> {
    for _ in 0..calls {
        one(peer, script)?;
    }
    Ok(())
}

fn one(peer: &mut Peer<'_>, script: &Script) -> Result<()> {
    let id = peer.take_id();
    script.push_call(&mut peer.outgoing, id);
    peer.flush()?;
    if id_of(peer.read_line()?) == Some(id) { Ok(()) } else { Err("an answer with another id".into()) }
}

/// Keeps `width` calls in flight for `duration`: one write sends as many new calls as one read
/// completed.
///
/// # Errors
/// Returns an error if the server ends, a response has an id in no call in flight, or its length is
/// not that of an echo.
pub fn window(peer: &mut Peer<'_>, script: &Script, width: u64, duration: Duration) -> Result<Phase> {
    let meter = Meter::start(peer.pid());
    let end = meter.started + duration;
    let first = peer.take_id();
    let mut next = first;
    let mut answered: Vec<bool> = Vec::new();
    let mut done = 0;
    let mut bare_length = None;
    let mut fresh = width;
    loop {
        for _ in 0..fresh {
            script.push_call(&mut peer.outgoing, next);
            next = peer.take_id();
        }
        answered.resize(answered.len() + fresh as usize, false);
        if fresh > 0 {
            peer.flush()?;
        }
        fresh = 0;
        peer.read_lines(|line| {
            let id = id_of(line).ok_or("an answer without id")?;
            let slot = id
                .checked_sub(first)
                .and_then(|index| answered.get_mut(index as usize))
                .ok_or("an answer to a call never sent")?;
            if std::mem::replace(slot, true) {
                return Err("two answers to one call".into());
            }
            let length = line.len() - digits(id);
            if *bare_length.get_or_insert(length) != length {
                let shown = &line[..line.len().min(300)];
                return Err(format!("not an echo: {}", String::from_utf8_lossy(shown)).into());
            }
            fresh += 1;
            Ok(())
        })?;
        done += fresh;
        if Instant::now() >= end {
            fresh = 0;
            if done == answered.len() as u64 {
                break;
            }
        }
    }
    Ok(meter.stop(peer.pid(), done))
}

/// Makes sequential calls with a large text for `duration`, at least three. Returns MiB of echoed
/// text per second.
///
/// # Errors
/// Returns an error if the server ends or the text is incomplete.
pub fn bulk(peer: &mut Peer<'_>, script: &Script, duration: Duration) -> Result<f64> {
    let started = Instant::now();
    let mut calls = 0u32;
    while calls < 3 || started.elapsed() < duration {
        let id = peer.take_id();
        script.push_call(&mut peer.outgoing, id);
        peer.flush()?;
        let answer = peer.read_line()?;
        if id_of(answer) != Some(id) || answer.len() < script.text().len() {
            return Err("the text did not come back".into());
        }
        calls += 1;
    }
    let mebibytes = f64::from(calls) * script.text().len() as f64 / f64::from(1 << 20);
    Ok(mebibytes / started.elapsed().as_secs_f64())
}

/// Requests the whole tool list for `duration`, at least three times. Adds the latencies in
/// nanoseconds to `latencies`.
///
/// # Errors
/// Returns an error if the server ends or a response is not a list.
pub fn lists(
    peer: &mut Peer<'_>,
    script: &Script,
    duration: Duration,
    latencies: &mut Vec<f64>,
) -> Result<()> {
    let started = Instant::now();
    while latencies.len() < 3 || started.elapsed() < duration {
        let before = Instant::now();
        list(peer, script, |_| ())?;
        latencies.push(before.elapsed().as_nanos() as f64);
    }
    Ok(())
}

/// Requests the whole tool list and follows cursors. Calls `page` with each response. Returns the
/// number of pages.
///
/// # Errors
/// Returns an error if the server ends, a response is not a list, or there are more than a thousand
/// pages.
pub fn list(peer: &mut Peer<'_>, script: &Script, mut page: impl FnMut(&[u8])) -> Result<u32> {
    let mut cursor: Option<Vec<u8>> = None;
    for pages in 1..=1000 {
        let id = peer.take_id();
        script.push_list(&mut peer.outgoing, id, cursor.as_deref());
        peer.flush()?;
        let line = peer.read_line()?;
        if id_of(line) != Some(id) {
            return Err("a list with another id".into());
        }
        page(line);
        cursor = next_cursor(line);
        if cursor.is_none() {
            return Ok(pages);
        }
    }
    Err("a list without end".into())
}

/// Returns the cursor of a page, still escaped. It is before or after the tools, so only both ends
/// are searched.
fn next_cursor(line: &[u8]) -> Option<Vec<u8>> {
    const LABEL: &[u8] = b"\"nextCursor\":\"";
    let ends = [&line[line.len().saturating_sub(400)..], &line[..line.len().min(400)]];
    ends.iter().find_map(|part| {
        let rest = &part[memchr::memmem::find(part, LABEL)? + LABEL.len()..];
        Some(rest[..memchr::memchr(b'"', rest)?].to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_found_at_either_end() {
        let filler = "x".repeat(1000);
        let before = format!("{{\"nextCursor\":\"abc\",\"tools\":[\"{filler}\"]}}");
        let after = format!("{{\"tools\":[\"{filler}\"],\"nextCursor\":\"abc\"}}");
        for line in [before, after] {
            assert_eq!(next_cursor(line.as_bytes()), Some(b"abc".to_vec()));
        }
        assert_eq!(next_cursor(filler.as_bytes()), None);
        assert_eq!(next_cursor(b"{}"), None);
    }
}
