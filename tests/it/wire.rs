//! The seam between transcripts and transports: what a player needs of a connection.
//!
//! A transport is one type that implements [`Wire`] and one line in [`TRANSPORTS`]. Each run has a
//! connection, and a server, of its own.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tinymcp::{Error, Handle, Server};

use crate::fixture::{self, Order, Stage};

/// No step takes longer than this unless something is broken; nothing is ever asserted on time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What came, if anything.
#[derive(Debug)]
pub(crate) enum Came {
    /// One message, without its delimiter.
    Message(String),
    /// The server closed its side.
    Closed,
    /// Neither, within the time.
    Nothing,
}

/// One connection to a fixture server of its own.
pub(crate) trait Wire {
    /// Sends bytes as they are; a message ends with a newline.
    fn send(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// The next message.
    fn receive(&mut self, deadline: Instant) -> Came;

    /// The client sends no more; answers can still come.
    fn finish(&mut self);

    /// Has the fixture do something on a thread of its own, and waits until it is done.
    ///
    /// # Errors
    /// What the fixture says.
    fn act(&mut self, command: &str) -> Result<(), String>;

    /// Whether messages come in the order in which they were sent, whatever they answer.
    fn ordered(&self) -> bool {
        true
    }

    /// Waits for the end of the server after its output was closed.
    ///
    /// # Errors
    /// It ended badly, or not at all.
    fn end(self: Box<Self>) -> Result<(), String>;
}

/// A fixture server on another thread of this process.
pub(crate) struct Beside {
    stage: Arc<Stage>,
    server: String,
    handle: Handle,
    served: mpsc::Receiver<Result<(), Error>>,
}

impl Beside {
    /// Builds a server and serves it as `serving` says, which is given the server and gives what runs.
    pub(crate) fn start<S>(
        order: &Order,
        serving: impl FnOnce(Server) -> Result<S, String>,
    ) -> Result<Beside, String>
    where
        S: FnOnce() -> Result<(), Error> + Send + 'static,
    {
        let stage = Arc::new(Stage::default());
        let server = fixture::build(order, &stage)?;
        let handle = server.handle();
        let serve = serving(server)?;
        let (done, served) = mpsc::channel();
        // Not joined but waited for with a limit, so that a server that hangs is a failure.
        thread::spawn(move || done.send(serve()));
        Ok(Beside { stage, server: order.server.clone(), handle, served })
    }

    /// See [`Wire::act`].
    pub(crate) fn act(&self, command: &str) -> Result<(), String> {
        let (stage, handle, server) = (Arc::clone(&self.stage), self.handle.clone(), self.server.clone());
        let command = command.to_owned();
        let actor = thread::spawn(move || fixture::act(&stage, &handle, &server, &command));
        actor.join().map_err(|_| "the fixture panicked".to_owned())?
    }

    /// Stops the server.
    #[cfg(feature = "http-server")]
    pub(crate) fn stop(&self) {
        self.handle.stop();
    }

    /// See [`Wire::end`].
    pub(crate) fn end(&self) -> Result<(), String> {
        match self.served.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("serving failed: {error}")),
            Err(_) => Err("serving did not end".to_owned()),
        }
    }
}

/// Starts a server and connects to it.
pub(crate) type Connect = fn(&Order) -> Result<Box<dyn Wire>, String>;

/// Every transport that transcripts are played over, by the name headers use.
pub(crate) const TRANSPORTS: &[(&str, Connect)] = &[
    ("memory", crate::wire_memory::connect),
    ("local", crate::wire_memory::connect_local),
    ("stdio", crate::wire_stdio::connect),
    #[cfg(unix)]
    ("lines", crate::wire_lines::connect),
    #[cfg(feature = "http-server")]
    ("http", crate::wire_http::connect),
    #[cfg(feature = "http-server")]
    ("events", crate::wire_http::connect_events),
];
