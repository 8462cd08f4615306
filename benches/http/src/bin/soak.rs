//! Soak test: many calls, including event streams, with checks for lost and duplicate responses and
//! for leaks.
//!
//! `soak [--calls N] [--connections N] [--listeners N] SERVER [ARGUMENT…]`; the server is our
//! `board_server`.
//!
//! Keeps one call in flight on each connection, half of them in sessions of the legacy era, half
//! stateless. One call in fifty gets an event stream, and one in fifty makes an update for the
//! listeners. Checks that each call has exactly one response, with its id and text, that memory
//! stays flat in the second half, and that no descriptor remains at the end.
//!
//! # Invariants
//! - No bytes may follow a response on its connection, so a second response is detected
//!   immediately.

use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use http_bench::Result;
use http_bench::answer::Answer;
use http_bench::link::Link;
use http_bench::peer::{Peer, raise_descriptors};
use http_bench::wire::Requests;
use memchr::memmem;
use rustix::event::epoll::{self, EventData, EventFlags};
use stdio_bench::peer::Watch;
use stdio_bench::proc;
use stdio_bench::wire::Framing;

const LIFE: Duration = Duration::from_secs(7200);
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of pins of the board.
const PINS: u64 = 28;
/// Growth of resident memory that counts as flat: rounding of the allocator.
const FLAT_KB: u64 = 512;
/// The arenas of the allocator settle within 300,000 calls, so only this limit applies to shorter
/// runs.
const MAX_KB: u64 = 8 * 1024;
const LONG: u64 = 600_000;

struct Options {
    calls: u64,
    connections: usize,
    listeners: usize,
    command: Vec<String>,
}

fn options() -> Result<Options> {
    let mut options = Options { calls: 1_000_000, connections: 64, listeners: 16, command: Vec::new() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--calls" => options.calls = value()?.parse()?,
            "--connections" => options.connections = value()?.parse()?,
            "--listeners" => options.listeners = value()?.parse()?,
            _ => {
                options.command = std::iter::once(arg).chain(args).collect();
                break;
            }
        }
    }
    Ok(options)
}

/// Kind of a call, selected by its id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Stream,
}

fn kind(id: u64) -> Kind {
    match id % 50 {
        0 => Kind::Stream,
        1 => Kind::Write,
        _ => Kind::Read,
    }
}

/// A connection and its call in flight.
struct Caller {
    link: Link,
    requests: Requests,
    id: u64,
}

/// A connection with an endless response, and its received updates.
struct Listener {
    link: Link,
    line: Vec<u8>,
    updates: u64,
}

#[derive(Default)]
struct Seen {
    reads: u64,
    writes: u64,
    streams: u64,
    /// Responses in `streams` that were not event streams.
    plain: u64,
}

fn main() -> Result<()> {
    let options = options()?;
    raise_descriptors()?;
    let watch = Watch::start()?;
    let peer = Peer::spawn(&options.command, LIFE, &watch)?;
    let pid = peer.pid();
    // One call first: it opens the resources that the server needs once.
    let mut first = caller(&peer, Framing::Modern)?;
    first.requests.push_tool(&mut first.link.outgoing, 2, "gpio_read", "{\"pin\":0}", "");
    first.link.exchange(|answer| check(answer, 2).map(|_| ()))?;
    let open = descriptors(pid);
    drop(first);
    let before = settled(pid, open - 1);

    let began = Instant::now();
    let (seen, updates, resident) = run(&options, &peer)?;
    let took = began.elapsed().as_secs_f64();
    let after = settled(pid, before);

    let answers = seen.reads + seen.writes + seen.streams;
    println!("{answers} calls answered once each in {took:.0} s, {:.0} a second", answers as f64 / took);
    println!("{} of them by event streams, {} of those as plain JSON after all", seen.streams, seen.plain);
    println!(
        "{} updates came to {} listeners, the least to one: {}",
        updates.iter().sum::<u64>(),
        updates.len(),
        updates.iter().min().copied().unwrap_or(0)
    );
    println!("resident after each tenth, kB: {resident:?}; threads: {}", proc::threads(pid));
    println!("descriptors: {before} before, {after} after");
    let (_, status) = peer.finish()?;

    let mut faults = Vec::new();
    if answers != options.calls {
        faults.push(format!("{answers} answers to {} calls", options.calls));
    }
    if seen.plain > 0 {
        faults.push("a call that reports progress was not answered by events".to_owned());
    }
    if updates.contains(&0) {
        faults.push("a listener received nothing".to_owned());
    }
    let early = resident.get(resident.len() / 2).copied().unwrap_or(0);
    let late = resident.last().copied().unwrap_or(0);
    if late > MAX_KB {
        faults.push(format!("{late} kB are resident"));
    }
    if options.calls >= LONG && late > early + FLAT_KB {
        faults.push(format!("memory grew by {} kB in the second half", late - early));
    }
    if after != before {
        faults.push(format!("{before} descriptors became {after}"));
    }
    if !status.success() {
        faults.push(format!("the server ended with {status}"));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ").into()) }
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Number of open descriptors, as soon as there are at most `wanted`, or after a while.
fn settled(pid: u32, wanted: usize) -> usize {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let count = descriptors(pid);
        if count <= wanted || Instant::now() > deadline {
            return count;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn caller(peer: &Peer<'_>, framing: Framing) -> Result<Caller> {
    let mut link = Link::connect(peer.address(), TIMEOUT)?;
    let mut requests = Requests::new(framing, "", peer.port());
    link.open(&mut requests)?;
    Ok(Caller { link, requests, id: 0 })
}

/// Makes all calls; returns the responses, the updates of each listener, and resident memory after
/// each tenth.
fn run(options: &Options, peer: &Peer<'_>) -> Result<(Seen, Vec<u64>, Vec<u64>)> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut callers = Vec::new();
    for index in 0..options.connections {
        let framing = if index % 2 == 0 { Framing::Legacy } else { Framing::Modern };
        let caller = caller(peer, framing)?;
        register(&poll, &caller.link, index)?;
        callers.push(caller);
    }
    let mut listeners = Vec::new();
    for index in 0..options.listeners {
        let mut one = caller(peer, Framing::Modern)?;
        let uri = format!("gpio://pin/{}", index as u64 % PINS);
        one.requests.push_listen(&mut one.link.outgoing, 1, &uri);
        one.link.send()?;
        register(&poll, &one.link, options.connections + index)?;
        listeners.push(Listener { link: one.link, line: Vec::new(), updates: 0 });
    }

    let (mut asked, mut answered, mut seen, mut resident) = (0, 0, Seen::default(), Vec::new());
    for caller in &mut callers {
        ask(caller, &mut asked, options.calls)?;
    }
    let patience = rustix::event::Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    let mut ready = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
    while answered < options.calls {
        let count = epoll::wait(&poll, &mut ready, Some(&patience))?;
        if count == 0 {
            return Err(format!("nothing in {TIMEOUT:?} after {answered} of {asked} calls").into());
        }
        for event in &ready[..count] {
            let index = event.data.u64() as usize;
            if let Some(listener) =
                index.checked_sub(options.connections).and_then(|at| listeners.get_mut(at))
            {
                receive(listener)?;
                continue;
            }
            let Some(caller) = callers.get_mut(index) else { continue };
            if !caller.link.read()? {
                continue;
            }
            let id = caller.id;
            let events = caller.link.take(|answer| check(answer, id))?;
            match kind(id) {
                Kind::Read => seen.reads += 1,
                Kind::Write => seen.writes += 1,
                Kind::Stream => {
                    (seen.streams, seen.plain) = (seen.streams + 1, seen.plain + u64::from(!events))
                }
            }
            answered += 1;
            if answered % (options.calls / 10).max(1) == 0 {
                resident.push(proc::memory(peer.pid()).0);
            }
            ask(caller, &mut asked, options.calls)?;
        }
    }
    Ok((seen, listeners.iter().map(|listener| listener.updates).collect(), resident))
}

fn register(poll: &OwnedFd, link: &Link, index: usize) -> Result<()> {
    link.stream.set_nonblocking(true)?;
    Ok(epoll::add(poll, &link.stream, EventData::new_u64(index as u64), EventFlags::IN)?)
}

/// Sends the next call, if there is one. Ids are unique over all connections.
fn ask(caller: &mut Caller, asked: &mut u64, calls: u64) -> Result<()> {
    if *asked == calls {
        return Ok(());
    }
    *asked += 1;
    // The small ids belong to the first requests of the connections.
    let id = *asked + 1000;
    caller.id = id;
    let pin = id / 50 % PINS;
    let out = &mut caller.link.outgoing;
    match kind(id) {
        Kind::Read => caller.requests.push_tool(out, id, "gpio_read", &format!("{{\"pin\":{pin}}}"), ""),
        Kind::Write => {
            let arguments = format!("{{\"pin\":{pin},\"value\":{}}}", id / 100 % 2);
            caller.requests.push_tool(out, id, "gpio_write", &arguments, "");
        }
        Kind::Stream => {
            let arguments = format!("{{\"pin\":{pin},\"times\":3,\"intervalMs\":1}}");
            let token = format!("\"progressToken\":{id}");
            caller.requests.push_tool(out, id, "blink", &arguments, &token);
        }
    }
    caller.link.send()
}

/// Checks that this is the complete response of call `id`; returns true if it is an event stream.
fn check(answer: &Answer<'_>, id: u64) -> Result<bool> {
    let body = answer.body;
    let events = answer.header("content-type").is_some_and(|kind| kind.starts_with(b"text/event-stream"));
    let own = format!("\"id\":{id},");
    let wanted: &[u8] = match kind(id) {
        Kind::Read => b"\"structuredContent\"",
        Kind::Write => b" is now ",
        Kind::Stream => b"blinked 3 times",
    };
    let once = memmem::find_iter(body, b"\"result\":").count() == 1;
    let steps = memmem::find_iter(body, b"notifications/progress").count();
    let good = answer.status == 200
        && once
        && memmem::find(body, own.as_bytes()).is_some()
        && memmem::find(body, wanted).is_some()
        && (!events || steps == 3);
    if good {
        return Ok(events);
    }
    let shown = String::from_utf8_lossy(&body[..body.len().min(600)]);
    Err(format!("not the answer to call {id}: {} {shown}", answer.status).into())
}

/// Reads the available bytes of a listener's stream and counts the updates.
fn receive(listener: &mut Listener) -> Result<()> {
    let mut chunk = [0; 16 * 1024];
    match listener.link.stream.read(&mut chunk) {
        Ok(0) => return Err("a listener's stream was closed".into()),
        Ok(got) => listener.line.extend_from_slice(&chunk[..got]),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) => return Err(error.into()),
    }
    if let Some(end) = memchr::memrchr(b'\n', &listener.line) {
        let whole = &listener.line[..end];
        listener.updates += memmem::find_iter(whole, b"notifications/resources/updated").count() as u64;
        listener.line.drain(..=end);
    }
    Ok(())
}
