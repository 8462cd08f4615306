//! Transcripts over the in-memory link: server and player in one process.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use tinymcp::{Error, Handle, Link, MemoryEnd, Server, memory};

use crate::fixture::{self, Order, Stage};
use crate::wire::{Came, PATIENCE, Wire};

struct Memory {
    end: MemoryEnd,
    stage: Arc<Stage>,
    server: String,
    handle: Handle,
    served: mpsc::Receiver<Result<(), Error>>,
}

pub(crate) fn connect(order: &Order) -> Result<Box<dyn Wire>, String> {
    serving(order, Server::serve)
}

/// The same with a server that stays on its thread.
pub(crate) fn connect_local(order: &Order) -> Result<Box<dyn Wire>, String> {
    serving(order, |server, link| server.into_local().serve(link))
}

fn serving(order: &Order, serve: fn(Server, Link) -> Result<(), Error>) -> Result<Box<dyn Wire>, String> {
    let stage = Arc::new(Stage::default());
    let server = fixture::build(order, &stage)?;
    let handle = server.handle();
    let (link, end) = memory();
    let (done, served) = mpsc::channel();
    // Not joined but waited for with a limit, so that a server that hangs is a failure.
    thread::spawn(move || done.send(serve(server, link)));
    Ok(Box::new(Memory { end, stage, server: order.server.clone(), handle, served }))
}

impl Wire for Memory {
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "memory links take text only")?;
        if self.end.send(text.trim_end_matches('\n')) { Ok(()) } else { Err("the link is closed".to_owned()) }
    }

    fn receive(&mut self, deadline: Instant) -> Came {
        match self.end.receive(deadline.saturating_duration_since(Instant::now())) {
            Some(message) => Came::Message(message),
            None if Instant::now() < deadline => Came::Closed,
            None => Came::Nothing,
        }
    }

    fn finish(&mut self) {
        self.end.finish();
    }

    fn act(&mut self, command: &str) -> Result<(), String> {
        let (stage, handle, server) = (Arc::clone(&self.stage), self.handle.clone(), self.server.clone());
        let command = command.to_owned();
        let actor = thread::spawn(move || fixture::act(&stage, &handle, &server, &command));
        actor.join().map_err(|_| "the fixture panicked".to_owned())?
    }

    fn end(self: Box<Self>) -> Result<(), String> {
        match self.served.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("serving failed: {error}")),
            Err(_) => Err("serving did not end".to_owned()),
        }
    }
}
