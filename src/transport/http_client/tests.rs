//! Tests of the transport with scripted servers on loopback. Each test has its own server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod listening;
mod mutated;
mod posting;
mod stage;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::{Endpoint, HttpTransport, MessageHandler};
use crate::Limits;
use crate::json::Doc;
use crate::transport::client::{Completed, Failure, Kind, Outgoing, SendMode, Session, Transport};

/// Upper bound of a wait, also on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Message handler that records all messages and failures.
#[derive(Default)]
struct Recorder {
    records: Mutex<Records>,
    changed: Condvar,
}

#[derive(Default)]
struct Records {
    frames: Vec<String>,
    failures: Vec<(u64, String)>,
    oversized: usize,
    end: Option<String>,
    deadline: Option<Instant>,
    gone: Vec<u64>,
}

impl Recorder {
    fn note(&self, note: impl FnOnce(&mut Records)) {
        note(&mut self.records.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits until `look` finds something in the records.
    fn wait<T>(&self, mut look: impl FnMut(&Records) -> Option<T>) -> T {
        let end = Instant::now() + TIMEOUT;
        let mut records = self.records.lock().unwrap();
        loop {
            if let Some(found) = look(&records) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no such record: {:?} {:?}", records.frames, records.failures);
            records = self.changed.wait_timeout(records, left).unwrap().0;
        }
    }
}

impl MessageHandler for Recorder {
    fn frame(&self, frame: &[u8]) -> Option<Completed> {
        let text = String::from_utf8_lossy(frame).into_owned();
        let answers = Doc::parse(frame).ok().and_then(|doc| {
            let root = doc.root();
            root.get("result").or(root.get("error"))?;
            root.get("id")?.as_u64()
        });
        self.note(|records| records.frames.push(text));
        answers.map(|id| Completed { id, waking: None })
    }

    fn waiting(&self) -> bool {
        false
    }

    fn oversized(&self, _: &[u8], _: &[u8]) {
        self.note(|records| records.oversized += 1);
    }

    fn fail(&self, id: u64, failure: Failure) {
        self.note(|records| records.failures.push((id, format!("{failure:?}"))));
    }

    fn end(&self, failure: Failure) {
        self.note(|records| records.end = Some(format!("{failure:?}")));
    }

    fn deadline(&self, id: u64) -> Option<Instant> {
        let records = self.records.lock().unwrap();
        (!records.gone.contains(&id)).then(|| records.deadline.unwrap_or_else(|| Instant::now() + TIMEOUT))
    }
}

/// A transport and its message handler.
struct Line {
    transport: Arc<HttpTransport>,
    recorder: Arc<Recorder>,
}

impl Line {
    fn to(endpoint: Endpoint, limits: &Limits) -> Line {
        let transport = Arc::new(HttpTransport::new(Arc::new(endpoint.checked().unwrap()), limits));
        let recorder = Arc::new(Recorder::default());
        transport.start(Arc::clone(&recorder) as Arc<dyn MessageHandler>).unwrap();
        Line { transport, recorder }
    }

    fn new(url: &str) -> Line {
        Line::to(Endpoint::new(url), &Limits::default())
    }

    fn send(&self, frame: &str, kind: Kind, session: Session, mode: SendMode<'_>) -> Result<(), Failure> {
        let headers = [("MCP-Protocol-Version".to_owned(), "x".to_owned())];
        let deadline = Instant::now() + TIMEOUT;
        self.transport
            .send(&Outgoing { frame: frame.as_bytes(), kind, session, headers: &headers, deadline }, mode)
    }

    /// Sends a request and runs its exchange on this thread.
    fn call(&self, id: u64, session: Session) -> Result<(), Failure> {
        let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n");
        self.send(&frame, Kind::Request(id), session, SendMode::Blocking(&mut || true))
    }

    fn begin(&self, id: u64) -> Result<(), Failure> {
        let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n");
        self.send(&frame, Kind::Request(id), Session::None, SendMode::Queued)
    }

    fn deadline(&self, time: Duration) {
        self.recorder.note(|records| records.deadline = Some(Instant::now() + time));
    }

    fn frames(&self) -> Vec<String> {
        self.recorder.records.lock().unwrap().frames.clone()
    }

    /// Closes the transport and checks that no thread is left.
    fn close(self) {
        self.transport.close(Instant::now() + TIMEOUT);
        self.transport.wait_without_threads();
        assert!(crate::sync::lock(&self.transport.shared.in_flight).exchanges.is_empty());
        assert!(self.recorder.records.lock().unwrap().end.is_some());
        assert!(matches!(self.call(999, Session::None), Err(Failure::Closed(_))));
    }
}

/// Limits with this number of attempts to resume a stream.
fn reconnecting(attempts: u32) -> Limits {
    let mut limits = Limits::default();
    limits.http_client.reconnects = attempts;
    limits
}
