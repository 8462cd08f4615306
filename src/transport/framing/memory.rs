//! In-memory pair of a link and its peer.
//!
//! For tests and for hosts that run a server in their own process. Both directions are bounded: a
//! side that does not read blocks the other, as a pipe does.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, select};
#[cfg(feature = "client")]
use crossbeam_channel::{TrySendError, at};

use super::lines::LARGE;
use super::{FrameSink, FrameSource, Input, Link, ReplySink};
use crate::sync::lock;
#[cfg(feature = "client")]
use crate::transport::client::Failure;

/// Queued frames in one direction: about the number of short messages in a full pipe.
const DEPTH: usize = 256;

/// Creates a link and its other end.
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
/// let response = client.request("tools/call", call, Duration::from_secs(5)).expect("a response");
/// let response = response.to_doc();
/// let text = response.root().pointer("/result/content/0/text").and_then(|text| text.as_str());
/// assert_eq!(text, Some("hello"));
/// client.finish();
/// serving.join().expect("no panic")?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
pub fn memory() -> (Link, MemoryEnd) {
    let (to_server, from_client) = bounded(DEPTH);
    let (to_client, from_server) = bounded(DEPTH);
    (link(from_client, to_client), MemoryEnd { send: Some(to_server), receive: from_server, requests: 0 })
}

/// Creates two connected links: one for a server, one for a client in the same process. The two are
/// alike, so it does not matter which one is for the server.
///
/// ```
/// # #[cfg(feature = "client")]
/// # fn main() -> Result<(), tinymcp::Error> {
/// use tinymcp::{Client, Server, Tool, memory_links};
///
/// let mut server = Server::new("greeter", "1.0.0");
/// server.tool(Tool::new("greet"), |_, ()| Ok("hello"))?;
/// let (theirs, ours) = memory_links();
/// let serving = std::thread::spawn(move || server.serve(theirs));
/// let client = Client::over(ours)?;
/// assert_eq!(client.call_tool("greet", ())?.texts(), "hello");
/// // The server ends with its client.
/// drop(client);
/// serving.join().expect("no panic")
/// # }
/// # #[cfg(not(feature = "client"))]
/// # fn main() {}
/// ```
pub fn memory_links() -> (Link, Link) {
    let (to_one, from_other) = bounded(DEPTH);
    let (to_other, from_one) = bounded(DEPTH);
    (link(from_other, to_other), link(from_one, to_one))
}

fn link(receive: Receiver<Vec<u8>>, send: Sender<Vec<u8>>) -> Link {
    let (closer, open) = bounded(0);
    Link {
        source: Box::new(MemorySource { frames: receive, open: open.clone(), current: Vec::new() }),
        sink: Arc::new(MemorySink { frames: Mutex::new(Some(send)), open, closer: Mutex::new(Some(closer)) }),
    }
}

/// The other end of a [`memory`] link. See [`memory`].
#[derive(Debug)]
pub struct MemoryEnd {
    send: Option<Sender<Vec<u8>>>,
    receive: Receiver<Vec<u8>>,
    /// Number of generated ids.
    requests: u64,
}

impl MemoryEnd {
    /// Returns a new id, for requests of [`MemoryEnd::request`].
    pub(crate) fn next_id(&mut self) -> String {
        self.requests += 1;
        format!("request-{}", self.requests)
    }

    /// Sends one message. Returns `false` if the link is closed.
    pub fn send(&self, message: &str) -> bool {
        self.send.as_ref().is_some_and(|s| s.send(message.as_bytes().to_vec()).is_ok())
    }

    /// Returns the next message without its newline; `None` after the timeout or if the link is
    /// closed.
    pub fn receive(&self, timeout: Duration) -> Option<String> {
        match self.receive.recv_timeout(timeout) {
            Ok(frame) => Some(String::from_utf8_lossy(&frame).trim_end().to_owned()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Ends the input of the link. Responses can still be received.
    pub fn finish(&mut self) {
        self.send = None;
    }
}

struct MemorySource {
    frames: Receiver<Vec<u8>>,
    /// Disconnected when this side closes, which ends reading as well.
    open: Receiver<()>,
    current: Vec<u8>,
}

impl FrameSource for MemorySource {
    fn next(&mut self) -> Input<'_> {
        let frame = match self.frames.try_recv() {
            Ok(frame) => Some(frame),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => select! {
                recv(self.frames) -> frame => frame.ok(),
                recv(self.open) -> _ => None,
            },
        };
        match frame {
            Some(frame) => {
                self.current = frame;
                if self.current.len() > LARGE {
                    Input::Large(&mut self.current)
                } else {
                    Input::Frame(&self.current)
                }
            }
            None => Input::End,
        }
    }

    fn ready(&self) -> bool {
        !self.frames.is_empty()
    }
}

struct MemorySink {
    /// `None` after this side is closed; the other side then reads the end.
    frames: Mutex<Option<Sender<Vec<u8>>>>,
    /// Disconnected by [`FrameSink::close`], which drops `closer`.
    open: Receiver<()>,
    closer: Mutex<Option<Sender<()>>>,
}

impl MemorySink {
    fn sender(&self) -> Option<Sender<Vec<u8>>> {
        lock(&self.frames).clone()
    }
}

impl ReplySink for MemorySink {}

impl FrameSink for MemorySink {
    fn send(&self, frames: &[u8]) {
        let Some(sender) = self.sender() else { return };
        for frame in frames.split_inclusive(|b| *b == b'\n') {
            if self.closed() {
                return;
            }
            select! {
                send(sender, frame.to_vec()) -> sent => if sent.is_err() {
                    return FrameSink::close(self, Instant::now());
                },
                recv(self.open) -> _ => return,
            }
        }
    }

    #[cfg(feature = "client")]
    fn frame_writer(self: Arc<Self>) -> Option<Arc<dyn crate::transport::client::stream::FrameWriter>> {
        Some(self)
    }

    fn closed(&self) -> bool {
        self.open.try_recv() == Err(TryRecvError::Disconnected)
    }

    fn congested(&self) -> bool {
        self.sender().is_some_and(|s| s.is_full())
    }

    fn close(&self, _deadline: Instant) {
        // The other end already has the frames.
        drop(lock(&self.closer).take());
        drop(lock(&self.frames).take());
    }
}

#[cfg(feature = "client")]
impl crate::transport::client::stream::FrameWriter for MemorySink {
    fn send(&self, frame: &[u8], deadline: Instant) -> Result<(), Failure> {
        let gone = || Failure::Closed("the peer has closed the connection".to_owned());
        let sender = self.sender().filter(|_| !self.closed()).ok_or_else(gone)?;
        // If there is room the frame is sent even after the deadline.
        let frame = match sender.try_send(frame.to_vec()) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(_)) => return Err(gone()),
            Err(TrySendError::Full(frame)) => frame,
        };
        select! {
            send(sender, frame) -> sent => sent.map_err(|_| gone()),
            recv(self.open) -> _ => Err(gone()),
            recv(at(deadline)) -> _ => Err(Failure::Timeout),
        }
    }

    fn close(&self, deadline: Instant) {
        FrameSink::close(self, deadline);
    }
}
