//! An in-memory pair: a link for a server, and the other end for whoever talks to it.
//!
//! For tests and for hosts that run a server in their own process. Both directions are bounded;
//! a side that does not read makes the other wait, as a pipe does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, select};

use super::{Inlet, Input, Link, Outlet};

/// Frames that wait in one direction; as many short messages as a pipe holds.
const DEPTH: usize = 256;

/// A link, and the end that speaks to it.
///
/// ```
/// use std::time::Duration;
/// use tinymcp::{Server, Tool, json, memory};
///
/// let mut server = Server::new("greeter", "1.0.0");
/// server.tool(Tool::new("greet"), |_, (): ()| Ok("hello"))?;
/// let (link, mut client) = memory();
/// let serving = std::thread::spawn(move || server.serve(link));
/// let meta = json!({
///     "io.modelcontextprotocol/protocolVersion": "2026-07-28",
///     "io.modelcontextprotocol/clientCapabilities": {},
/// });
/// let call = json!({"name": "greet", "_meta": meta});
/// let answer = client.request("tools/call", call, Duration::from_secs(5)).expect("an answer").to_doc();
/// let text = answer.root().pointer("/result/content/0/text").and_then(|text| text.as_str());
/// assert_eq!(text, Some("hello"));
/// client.finish();
/// serving.join().expect("no panic")?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
pub fn memory() -> (Link, MemoryEnd) {
    let (to_server, from_client) = bounded(DEPTH);
    let (to_client, from_server) = bounded(DEPTH);
    let (closer, open) = bounded(0);
    let link = Link {
        inlet: Box::new(MemoryInlet { frames: from_client, current: Vec::new() }),
        outlet: Arc::new(MemoryOutlet { frames: to_client, open, closer: Mutex::new(Some(closer)) }),
    };
    (link, MemoryEnd { send: Some(to_server), receive: from_server, requests: 0 })
}

/// The other end of a [`memory`] link.
#[derive(Debug)]
pub struct MemoryEnd {
    send: Option<Sender<Vec<u8>>>,
    receive: Receiver<Vec<u8>>,
    /// Ids given out so far.
    requests: u64,
}

impl MemoryEnd {
    /// A fresh id, for requests that are made for the user.
    pub(crate) fn next_id(&mut self) -> String {
        self.requests += 1;
        format!("request-{}", self.requests)
    }

    /// Sends one message; `false` when the link is closed.
    pub fn send(&self, message: &str) -> bool {
        self.send.as_ref().is_some_and(|s| s.send(message.as_bytes().to_vec()).is_ok())
    }

    /// The next message, without its newline; `None` when nothing came in time or the link closed.
    pub fn receive(&self, timeout: Duration) -> Option<String> {
        match self.receive.recv_timeout(timeout) {
            Ok(frame) => Some(String::from_utf8_lossy(&frame).trim_end().to_owned()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Ends the input of the link; answers can still be received.
    pub fn finish(&mut self) {
        self.send = None;
    }
}

struct MemoryInlet {
    frames: Receiver<Vec<u8>>,
    current: Vec<u8>,
}

impl Inlet for MemoryInlet {
    fn next(&mut self) -> Input<'_> {
        match self.frames.recv() {
            Ok(frame) => {
                self.current = frame;
                Input::Frame(&self.current)
            }
            Err(_) => Input::End,
        }
    }

    fn ready(&self) -> bool {
        !self.frames.is_empty()
    }
}

struct MemoryOutlet {
    frames: Sender<Vec<u8>>,
    /// Disconnected by [`Outlet::close`], which drops the other end of it.
    open: Receiver<()>,
    closer: Mutex<Option<Sender<()>>>,
}

impl Outlet for MemoryOutlet {
    fn send(&self, frames: &[u8]) {
        for frame in frames.split_inclusive(|b| *b == b'\n') {
            if self.closed() {
                return;
            }
            select! {
                send(self.frames, frame.to_vec()) -> sent => if sent.is_err() {
                    return self.close(Instant::now());
                },
                recv(self.open) -> _ => return,
            }
        }
    }

    fn closed(&self) -> bool {
        self.open.try_recv() == Err(TryRecvError::Disconnected)
    }

    fn congested(&self) -> bool {
        self.frames.is_full()
    }

    fn close(&self, _deadline: Instant) {
        // What was sent is with the other end already.
        drop(self.closer.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
