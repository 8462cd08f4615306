//! Timed phases: calls on kept connections, and one connection per call.
//!
//! Each phase keeps exactly one call in flight on each connection, checks each response, and
//! measures the time of each call.
//!
//! # Invariants
//! - No call is in flight when a phase returns, and its connections are closed.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use stdio_bench::proc;

use crate::Result;
use crate::link::{Link, check};
use crate::peer::Peer;
use crate::wire::{After, Requests};

/// Timeout of one response.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Result of one phase.
#[derive(Default, Debug)]
pub struct Phase {
    /// Nanoseconds from the first byte of the request, or from the start of the connection, to the
    /// last byte of the response.
    pub latencies: Vec<f64>,
    /// Time from the first request to the last response.
    pub seconds: f64,
    /// Processor time of the server in nanoseconds.
    pub cpu_ns: u64,
    /// Processor time of the driver in nanoseconds.
    pub driver_ns: u64,
    /// Threads of the server at the end, with the connections still open.
    pub threads: u64,
}

impl Phase {
    /// Number of completed calls.
    pub fn calls(&self) -> usize {
        self.latencies.len()
    }

    /// Returns `total` per call of this phase.
    pub fn per_call(&self, total: u64) -> f64 {
        total as f64 / self.calls().max(1) as f64
    }

    /// Returns the calls per second.
    pub fn rate(&self) -> f64 {
        self.calls() as f64 / self.seconds.max(1e-9)
    }
}

/// Makes calls on `width` connections for `duration`, one in flight on each; ids start at `next`.
///
/// # Errors
/// Returns an error if the server closes a kept connection, does not respond in time, or sends
/// another response.
pub fn phase(
    peer: &Peer<'_>,
    requests: &mut Requests,
    (width, after): (usize, After),
    duration: Duration,
    next: &mut u64,
) -> Result<Phase> {
    let mut run = Run { peer, requests, after, next, poll: epoll::create(epoll::CreateFlags::CLOEXEC)? };
    let mut slots = Vec::with_capacity(width);
    // Kept connections are opened before the clock starts, with one call each.
    for index in 0..width {
        slots.push(match after {
            After::Keep => Some(run.warm(index)?),
            After::Close => None,
        });
    }
    let pid = peer.pid();
    let mut phase = Phase::default();
    let (cpu, own) = (proc::cpu_ns(pid), proc::own_cpu_ns());
    let began = Instant::now();
    let end = began + duration;
    if width == 1 {
        run.one_by_one(slots.remove(0), end, &mut phase.latencies)?;
    } else {
        run.side_by_side(&mut slots, end, &mut phase.latencies)?;
    }
    phase.seconds = began.elapsed().as_secs_f64();
    phase.driver_ns = proc::own_cpu_ns().saturating_sub(own);
    phase.cpu_ns = proc::cpu_ns(pid).saturating_sub(cpu);
    phase.threads = proc::threads(pid);
    Ok(phase)
}

/// A connection with a call in flight.
struct Slot {
    link: Link,
    id: u64,
    since: Instant,
}

struct Run<'r, 'w> {
    peer: &'r Peer<'w>,
    requests: &'r mut Requests,
    after: After,
    next: &'r mut u64,
    poll: OwnedFd,
}

impl Run<'_, '_> {
    fn take_id(&mut self) -> u64 {
        *self.next += 1;
        *self.next
    }

    /// Opens a connection, makes the first call, and registers the connection as `index`.
    fn warm(&mut self, index: usize) -> Result<Slot> {
        let mut link = Link::connect(self.peer.address(), TIMEOUT)?;
        let id = self.take_id();
        link.call(self.requests, id, After::Keep)?;
        self.watch(&link, index)?;
        Ok(Slot { link, id, since: Instant::now() })
    }

    fn watch(&self, link: &Link, index: usize) -> Result<()> {
        link.stream.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(index as u64);
        Ok(epoll::add(&self.poll, &link.stream, data, epoll::EventFlags::IN)?)
    }

    /// A single connection needs no readiness: the socket blocks.
    fn one_by_one(&mut self, kept: Option<Slot>, end: Instant, latencies: &mut Vec<f64>) -> Result<()> {
        let mut kept = kept.map(|slot| slot.link);
        if let Some(link) = &kept {
            link.stream.set_nonblocking(false)?;
        }
        let mut before = Instant::now();
        while before < end {
            let id = self.take_id();
            match &mut kept {
                Some(link) => link.call(self.requests, id, self.after)?,
                None => {
                    Link::connect(self.peer.address(), TIMEOUT)?.call(self.requests, id, self.after)?;
                }
            }
            let after = Instant::now();
            latencies.push((after - before).as_nanos() as f64);
            before = after;
        }
        Ok(())
    }

    fn side_by_side(
        &mut self,
        slots: &mut [Option<Slot>],
        end: Instant,
        latencies: &mut Vec<f64>,
    ) -> Result<()> {
        for (index, slot) in slots.iter_mut().enumerate() {
            self.next_call(slot, index, Instant::now())?;
        }
        let mut under_way = slots.len();
        let patience = rustix::event::Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        let mut ready =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        while under_way > 0 {
            let count = epoll::wait(&self.poll, &mut ready, Some(&patience))?;
            if count == 0 {
                return Err("no answer in time".into());
            }
            for event in &ready[..count] {
                let index = event.data.u64() as usize;
                let slot = slots.get_mut(index).ok_or("readiness of nothing")?;
                let Some(open) = slot else { continue };
                if !open.link.read()? {
                    continue;
                }
                open.link.take(|answer| check(answer, open.id, self.requests.text()))?;
                let now = Instant::now();
                latencies.push((now - open.since).as_nanos() as f64);
                if self.after == After::Close {
                    // Closing removes it from the poll.
                    *slot = None;
                }
                if now < end { self.next_call(slot, index, now)? } else { under_way -= 1 }
            }
        }
        Ok(())
    }

    /// Sends the next call of a slot; opens a connection if it has none.
    fn next_call(&mut self, slot: &mut Option<Slot>, index: usize, now: Instant) -> Result<()> {
        let id = self.take_id();
        let open = match slot {
            Some(open) => {
                (open.id, open.since) = (id, now);
                open
            }
            None => {
                let link = Link::connect(self.peer.address(), TIMEOUT)?;
                self.watch(&link, index)?;
                slot.insert(Slot { link, id, since: now })
            }
        };
        self.requests.push_call(&mut open.link.outgoing, id, self.after);
        open.link.send()
    }
}
