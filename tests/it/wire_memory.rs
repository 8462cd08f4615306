//! Transcripts over the in-memory link: server and player in one process.

use std::time::Instant;

use tinymcp::{Error, Link, MemoryEnd, Server, memory};

use crate::fixture::Order;
use crate::wire::{Beside, Came, Wire};

struct Memory {
    end: MemoryEnd,
    server: Beside,
}

pub(crate) fn connect(order: &Order) -> Result<Box<dyn Wire>, String> {
    serving(order, Server::serve)
}

/// The same with a server that stays on its thread.
pub(crate) fn connect_local(order: &Order) -> Result<Box<dyn Wire>, String> {
    serving(order, |server, link| server.into_local().serve(link))
}

fn serving(order: &Order, serve: fn(Server, Link) -> Result<(), Error>) -> Result<Box<dyn Wire>, String> {
    let (link, end) = memory();
    let server = Beside::start(order, |server| Ok(move || serve(server, link)))?;
    Ok(Box::new(Memory { end, server }))
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
        self.server.act(command)
    }

    fn end(self: Box<Self>) -> Result<(), String> {
        self.server.end()
    }
}
