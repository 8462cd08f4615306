//! Interface between the player and the transports.
//!
//! A transport is one type that implements [`Wire`] and one entry of [`TRANSPORTS`]. Each run has
//! its own connection and its own server.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tinymcp::{Error, Handle, Server};

use crate::fixture::{self, Order, Stage};

/// Timeout that only a hang reaches. No assertion depends on time.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Result of a receive.
#[derive(Debug)]
pub(crate) enum Received {
    /// One message without its delimiter.
    Message(String),
    /// The server has closed its output.
    Closed,
    /// No message before the deadline.
    TimedOut,
}

/// Connection to a fixture server of its own.
pub(crate) trait Wire {
    /// Sends the bytes unchanged; a message ends with a newline.
    fn send(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// Receives the next message.
    fn receive(&mut self, deadline: Instant) -> Received;

    /// Closes the input; responses can still arrive.
    fn finish(&mut self);

    /// Runs a command of the fixture on another thread and waits for its end.
    ///
    /// # Errors
    /// Returns the error of the fixture.
    fn act(&mut self, command: &str) -> Result<(), String>;

    /// True if messages are received in the order in which the server wrote them.
    fn ordered(&self) -> bool {
        true
    }

    /// Waits until the server has ended, after its output was closed.
    ///
    /// # Errors
    /// The server failed or did not end.
    fn end(self: Box<Self>) -> Result<(), String>;
}

/// Fixture server on another thread of this process.
pub(crate) struct ThreadServer {
    stage: Arc<Stage>,
    server: String,
    handle: Handle,
    served: mpsc::Receiver<Result<(), Error>>,
}

impl ThreadServer {
    /// Builds a server and starts it with `serving`, which returns the closure to run.
    pub(crate) fn start<S>(
        order: &Order,
        serving: impl FnOnce(Server) -> Result<S, String>,
    ) -> Result<ThreadServer, String>
    where
        S: FnOnce() -> Result<(), Error> + Send + 'static,
    {
        let stage = Arc::new(Stage::default());
        let server = fixture::build(order, &stage)?;
        let handle = server.handle();
        let serve = serving(server)?;
        let (done, served) = mpsc::channel();
        // A channel with a timeout instead of a join, so that a server that hangs is a failure.
        thread::spawn(move || done.send(serve()));
        Ok(ThreadServer { stage, server: order.server.clone(), handle, served })
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
        match self.served.recv_timeout(TIMEOUT) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("serving failed: {error}")),
            Err(_) => Err("the server did not end".to_owned()),
        }
    }
}

/// Starts a server and connects to it.
pub(crate) type Connect = fn(&Order) -> Result<Box<dyn Wire>, String>;

/// All transports by the name that headers use.
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
