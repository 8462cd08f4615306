//! In-memory transport of the player: server and player in one process.

use std::time::Instant;

use tinymcp::{Error, Link, MemoryEnd, Server, memory};

use crate::fixture::Order;
use crate::wire::{Received, ThreadServer, Wire};

struct Memory {
    end: MemoryEnd,
    server: ThreadServer,
}

pub(crate) fn connect(order: &Order) -> Result<Box<dyn Wire>, String> {
    serving(order, Server::serve)
}

/// Connects to a server whose handlers all run on its own thread.
pub(crate) fn connect_local(order: &Order) -> Result<Box<dyn Wire>, String> {
    serving(order, |server, link| server.into_local().serve(link))
}

fn serving(order: &Order, serve: fn(Server, Link) -> Result<(), Error>) -> Result<Box<dyn Wire>, String> {
    let (link, end) = memory();
    let server = ThreadServer::start(order, |server| Ok(move || serve(server, link)))?;
    Ok(Box::new(Memory { end, server }))
}

impl Wire for Memory {
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "a memory link accepts only UTF-8")?;
        if self.end.send(text.trim_end_matches('\n')) { Ok(()) } else { Err("the link is closed".to_owned()) }
    }

    fn receive(&mut self, deadline: Instant) -> Received {
        match self.end.receive(deadline.saturating_duration_since(Instant::now())) {
            Some(message) => Received::Message(message),
            None if Instant::now() < deadline => Received::Closed,
            None => Received::TimedOut,
        }
    }

    fn finish(&mut self) {
        self.end.finish();
    }

    fn act(&mut self, command: &str) -> Result<(), String> {
        self.server.act(command)
    }

    fn end(self: Box<Self>) -> Result<(), String> {
        self.server.end()
    }
}
