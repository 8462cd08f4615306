//! The transport against scripted servers on loopback, each test with a server of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod listening;
mod mutated;
mod posting;
mod stage;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::{Endpoint, HttpTransport};
use crate::Limits;
use crate::json::Doc;
use crate::transport::client::{Answered, Failure, Kind, MessageHandler, Outgoing, Session, Transport, Wait};

/// Longer than anything takes on a loaded machine.
const LONG: Duration = Duration::from_secs(20);

/// A client core that writes down what it hears.
#[derive(Default)]
struct Ear {
    heard: Mutex<Heard>,
    news: Condvar,
}

#[derive(Default)]
struct Heard {
    frames: Vec<String>,
    failures: Vec<(u64, String)>,
    oversized: usize,
    end: Option<String>,
    deadline: Option<Instant>,
    gone: Vec<u64>,
}

impl Ear {
    fn note(&self, note: impl FnOnce(&mut Heard)) {
        note(&mut self.heard.lock().unwrap());
        self.news.notify_all();
    }

    /// Waits until something was heard.
    fn wait<T>(&self, mut look: impl FnMut(&Heard) -> Option<T>) -> T {
        let end = Instant::now() + LONG;
        let mut heard = self.heard.lock().unwrap();
        loop {
            if let Some(found) = look(&heard) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nothing heard: {:?} {:?}", heard.frames, heard.failures);
            heard = self.news.wait_timeout(heard, left).unwrap().0;
        }
    }
}

impl MessageHandler for Ear {
    fn frame(&self, frame: &[u8]) -> Option<Answered> {
        let text = String::from_utf8_lossy(frame).into_owned();
        let answers = Doc::parse(frame).ok().and_then(|doc| {
            let root = doc.root();
            root.get("result").or(root.get("error"))?;
            root.get("id")?.as_u64()
        });
        self.note(|heard| heard.frames.push(text));
        answers.map(|id| Answered { id, waking: None })
    }

    fn waiting(&self) -> bool {
        false
    }

    fn oversized(&self, _: &[u8], _: &[u8]) {
        self.note(|heard| heard.oversized += 1);
    }

    fn fail(&self, id: u64, failure: Failure) {
        self.note(|heard| heard.failures.push((id, format!("{failure:?}"))));
    }

    fn end(&self, failure: Failure) {
        self.note(|heard| heard.end = Some(format!("{failure:?}")));
    }

    fn deadline(&self, id: u64) -> Option<Instant> {
        let heard = self.heard.lock().unwrap();
        (!heard.gone.contains(&id)).then(|| heard.deadline.unwrap_or_else(|| Instant::now() + LONG))
    }
}

/// A transport, and the ear it talks to.
struct Line {
    transport: Arc<HttpTransport>,
    ear: Arc<Ear>,
}

impl Line {
    fn to(endpoint: Endpoint, limits: &Limits) -> Line {
        let transport = Arc::new(HttpTransport::new(Arc::new(endpoint.checked().unwrap()), limits));
        let ear = Arc::new(Ear::default());
        transport.start(Arc::clone(&ear) as Arc<dyn MessageHandler>).unwrap();
        Line { transport, ear }
    }

    fn new(url: &str) -> Line {
        Line::to(Endpoint::new(url), &Limits::default())
    }

    fn send(&self, frame: &str, kind: Kind, session: Session, drive: Wait<'_>) -> Result<(), Failure> {
        let headers = [("MCP-Protocol-Version".to_owned(), "x".to_owned())];
        let deadline = Instant::now() + LONG;
        self.transport
            .send(&Outgoing { frame: frame.as_bytes(), kind, session, headers: &headers, deadline }, drive)
    }

    /// A request whose exchange this thread makes.
    fn call(&self, id: u64, session: Session) -> Result<(), Failure> {
        let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n");
        self.send(&frame, Kind::Request(id), session, Wait::Blocking(&mut || true))
    }

    fn begin(&self, id: u64) -> Result<(), Failure> {
        let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n");
        self.send(&frame, Kind::Request(id), Session::None, Wait::Queued)
    }

    fn deadline(&self, time: Duration) {
        self.ear.note(|heard| heard.deadline = Some(Instant::now() + time));
    }

    fn frames(&self) -> Vec<String> {
        self.ear.heard.lock().unwrap().frames.clone()
    }

    /// Closes, and checks that nothing is left.
    fn close(self) {
        self.transport.close(Instant::now() + LONG);
        self.transport.wait_without_threads();
        assert!(crate::sync::lock(&self.transport.shared.live).exchanges.is_empty());
        assert!(self.ear.heard.lock().unwrap().end.is_some());
        assert!(matches!(self.call(999, Session::None), Err(Failure::Closed(_))));
    }
}
