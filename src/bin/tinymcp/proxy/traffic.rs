//! Logs of the traffic: `--log`, each frame as a line, and `--access-log`, each request as a line.
//!
//! ```text
//! connections ─ Frame ─► queue ─► thread `proxy-log` ─ mask ─► frame log
//!                                                    └ access ─► access log
//! ```
//!
//! Connections only copy a frame into the queue. The thread reads, masks and writes.
//!
//! # Invariants
//! - No connection waits for a log. The queue has at most [`QUEUE`] bytes; frames that find no room
//!   are counted, and both logs contain the count.
//! - A line has at most about [`output::LINE`] bytes, and no credential that `mask.rs` recognizes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tinymcp::json::Writer;
use tinymcp::{Direction, Frame, HttpRejection};

mod access;
mod output;

use crate::mask::{self, Mask};
use access::{AccessLog, key_id};
pub(super) use output::Target;
use output::{Output, frame_line, time};

use super::options::Options;
use crate::Result;
use crate::http::with_options;
use crate::mutex::lock;
use crate::serve::{log, spawn};

/// Maximum number of bytes in the queue.
const QUEUE: usize = 4 << 20;
/// Number of bytes that an event takes in the queue beside its frame.
const EVENT: usize = 256;
/// Maximum number of bytes of a frame that is copied whole.
const MAX_FRAME: usize = 1 << 20;
/// Number of bytes that are copied of a longer frame.
const HEAD: usize = 256;
/// Longest wait for the thread at the end of the program.
const FLUSH: Duration = Duration::from_secs(1);
/// Stack of the thread.
const STACK: usize = 512 << 10;

/// Side of the proxy that a frame passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Between clients and the proxy.
    Client,
    /// Between the proxy and servers.
    Server,
}

/// A copied frame.
struct CopiedFrame {
    side: Side,
    connection: String,
    /// Key of the server, if the endpoint has only this one.
    server: Option<String>,
    principal: Option<String>,
    direction: Direction,
    bytes: Vec<u8>,
    /// Length of the frame if `bytes` is only its beginning.
    cut: Option<usize>,
}

/// A request that was rejected before its message was handled.
struct Rejected {
    method: String,
    path: String,
    status: u16,
    reason: Option<String>,
    /// Connection and id of its message, if the message was read.
    message: Option<(String, String)>,
}

enum EventKind {
    Frame(CopiedFrame),
    Rejected(Rejected),
}

struct Event {
    at: SystemTime,
    /// For durations: the system's time may be set.
    since: Instant,
    kind: EventKind,
}

impl Event {
    fn bytes(&self) -> usize {
        EVENT
            + match &self.kind {
                EventKind::Frame(frame) => {
                    let principal = frame.principal.as_ref().map_or(0, String::len);
                    frame.bytes.len() + frame.connection.len() + principal
                }
                EventKind::Rejected(rejected) => {
                    let reason = rejected.reason.as_ref().map_or(0, String::len);
                    rejected.method.len() + rejected.path.len() + reason
                }
            }
    }
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    dropped: u64,
    reopen: bool,
    /// The thread is writing the lines that it took from the queue.
    writing: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.dropped == 0 && !self.reopen
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The thread of the logs waits here for events; `flush` waits here for that thread.
    changed: Condvar,
    /// Values that servers get as variables or headers.
    secrets: Mutex<BTreeSet<String>>,
}

/// Finds the server of a request by its method and the name of its tool, prompt or resource.
pub(super) type FindServer = Box<dyn Fn(&str, &str) -> Option<String> + Send>;

/// Sender of the logs, and their thread.
#[derive(Clone)]
pub(super) struct Traffic {
    shared: Arc<Shared>,
    has_frames: bool,
}

/// Outputs of the thread.
pub(super) struct Logs {
    shared: Arc<Shared>,
    frames: Option<Output>,
    access: Option<Output>,
}

/// Opens the logs of the options; `None` without one.
///
/// # Errors
/// A file cannot be opened.
pub(super) fn open(options: &Options) -> Result<Option<(Traffic, Logs)>> {
    if options.logs.frames.is_none() && options.logs.access.is_none() {
        return Ok(None);
    }
    let shared = Arc::<Shared>::default();
    let open = |target: &Option<Target>| target.clone().map(Output::open).transpose();
    let (frames, access) = (open(&options.logs.frames)?, open(&options.logs.access)?);
    let traffic = Traffic { shared: Arc::clone(&shared), has_frames: frames.is_some() };
    Ok(Some((traffic, Logs { shared, frames, access })))
}

impl Traffic {
    /// Returns an observer of the connections to servers, if their frames are logged.
    pub(super) fn of_servers(&self) -> Option<impl Fn(&Frame<'_>) + Send + Sync + 'static> {
        self.has_frames.then(|| self.observer(Side::Server, None))
    }

    /// Returns an observer of the connections to clients: of all servers, or of the one with this
    /// key.
    pub(super) fn of_clients(&self, server: Option<&str>) -> impl Fn(&Frame<'_>) + Send + Sync + 'static {
        self.observer(Side::Client, server.map(str::to_owned))
    }

    fn observer(&self, side: Side, server: Option<String>) -> impl Fn(&Frame<'_>) + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move |frame| shared.push(|| EventKind::Frame(CopiedFrame::of(side, server.clone(), frame)))
    }

    /// Returns a function for the requests that the HTTP server rejects.
    pub(super) fn of_rejections(&self) -> impl Fn(&HttpRejection<'_>) + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move |rejection| {
            shared.push(|| {
                EventKind::Rejected(Rejected {
                    method: rejection.method.to_owned(),
                    path: rejection.path.to_owned(),
                    status: rejection.status,
                    reason: rejection.reason.map(with_options),
                    message: rejection.message.map(|m| (m.connection.to_owned(), key_id(m.id))),
                })
            });
        }
    }

    /// Masks these values from now on.
    pub(super) fn hide<'v>(&self, values: impl IntoIterator<Item = &'v str>) {
        lock(&self.shared.secrets).extend(values.into_iter().flat_map(mask::parts));
    }

    /// Opens the files again, because they were renamed.
    pub(super) fn reopen(&self) {
        lock(&self.shared.queue).reopen = true;
        self.shared.changed.notify_all();
    }

    /// Waits until the thread has written everything, [`FLUSH`] at most.
    pub(super) fn flush(&self) {
        let until = Instant::now() + FLUSH;
        let mut queue = lock(&self.shared.queue);
        while queue.writing || !queue.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            queue = self.shared.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl CopiedFrame {
    fn of(side: Side, server: Option<String>, frame: &Frame<'_>) -> CopiedFrame {
        let is_cut = !frame.is_whole || frame.bytes.len() > MAX_FRAME;
        let kept = if is_cut { frame.bytes.get(..HEAD).unwrap_or(frame.bytes) } else { frame.bytes };
        CopiedFrame {
            side,
            connection: frame.connection.to_owned(),
            server,
            principal: frame.principal.map(str::to_owned),
            direction: frame.direction,
            bytes: kept.to_vec(),
            cut: is_cut.then_some(frame.bytes.len()),
        }
    }
}

impl Shared {
    /// Queues an event, or counts it. Never waits for the thread.
    fn push(&self, kind: impl FnOnce() -> EventKind) {
        let event = Event { at: SystemTime::now(), since: Instant::now(), kind: kind() };
        let bytes = event.bytes();
        let mut queue = lock(&self.queue);
        if queue.bytes + bytes > QUEUE {
            queue.dropped += 1;
            return;
        }
        queue.bytes += bytes;
        queue.events.push_back(event);
        drop(queue);
        self.changed.notify_all();
    }

    /// Waits for work, and takes all of it.
    fn take(&self) -> Queue {
        let mut queue = lock(&self.queue);
        queue.writing = false;
        self.changed.notify_all();
        while queue.is_empty() {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::replace(&mut *queue, Queue { writing: true, ..Queue::default() })
    }
}

impl Logs {
    /// Starts the thread, which runs until the program ends.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(self, find_server: FindServer) -> Result<()> {
        let started = spawn("proxy-log", STACK, Box::new(move || self.run(find_server)));
        started.map_err(|error| format!("the thread of the logs cannot be started: {error}"))
    }

    fn run(mut self, find_server: FindServer) {
        let mut requests = AccessLog::new(find_server);
        loop {
            let Queue { events, dropped, reopen, .. } = self.shared.take();
            if reopen {
                for output in self.frames.iter_mut().chain(&mut self.access) {
                    output.reopen();
                }
            }
            let mask = Mask::new(lock(&self.shared.secrets).iter().cloned().collect());
            for event in &events {
                self.write(event, &mask, &mut requests);
            }
            if dropped > 0 {
                let mut line = Writer::new();
                line.begin_object().key("time").string(&time(SystemTime::now()));
                line.key("dropped").u64(dropped).end_object().newline();
                for output in self.frames.iter_mut().chain(&mut self.access) {
                    output.write(line.as_bytes());
                }
                log(&format!("the logs are too slow: {dropped} frames were dropped"));
            }
            for output in self.frames.iter_mut().chain(&mut self.access) {
                output.flush();
            }
        }
    }

    fn write(&mut self, event: &Event, mask: &Mask, requests: &mut AccessLog) {
        if let (Some(output), EventKind::Frame(frame)) = (&mut self.frames, &event.kind) {
            output.write(frame_line(event.at, frame, mask).as_bytes());
        }
        if let Some(output) = &mut self.access {
            requests.add(event, mask, &mut |line| output.write(line.as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_full_queue_counts_and_never_waits() {
        let shared = Shared::default();
        let rejected = || Rejected {
            method: "GET".into(),
            path: "x".repeat(MAX_FRAME),
            status: 401,
            reason: None,
            message: None,
        };
        for _ in 0..5 {
            shared.push(|| EventKind::Rejected(rejected()));
        }
        let taken = shared.take();
        assert_eq!((taken.events.len(), taken.dropped), (3, 2));
        shared.push(|| EventKind::Rejected(rejected()));
        let taken = shared.take();
        assert_eq!((taken.events.len(), taken.dropped), (1, 0));
    }

    #[test]
    fn a_flush_waits_for_the_thread_and_not_for_ever() {
        let traffic = Traffic { shared: Arc::default(), has_frames: true };
        traffic.flush();
        traffic.reopen();
        let taken = traffic.shared.take();
        assert!(taken.reopen && lock(&traffic.shared.queue).writing);
        let waiting = traffic.clone();
        let waits = std::thread::spawn(move || waiting.flush());
        // The thread takes the next events after it has written these.
        let shared = Arc::clone(&traffic.shared);
        drop(std::thread::spawn(move || drop(shared.take())));
        waits.join().unwrap();
    }
}
