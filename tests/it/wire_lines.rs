//! Byte-stream transport of the player: a socket pair with the framing of stdio (2026-07-28
//! basic/transports, custom transports).

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tinymcp::Link;

use crate::fixture::{self, Order};
use crate::wire::{Received, ThreadServer, Wire};

struct Lines {
    input: UnixStream,
    output: BufReader<UnixStream>,
    server: ThreadServer,
}

pub(crate) fn connect(order: &Order) -> Result<Box<dyn Wire>, String> {
    let limits = fixture::limits(&order.limits)?;
    let open = || -> std::io::Result<_> {
        let (ours, theirs) = UnixStream::pair()?;
        let link = Link::lines(theirs.try_clone()?, theirs, &limits);
        Ok((ours.try_clone()?, BufReader::new(ours), link))
    };
    let (input, output, link) = open().map_err(|error| error.to_string())?;
    let server = ThreadServer::start(order, |server| Ok(move || server.serve(link)))?;
    Ok(Box::new(Lines { input, output, server }))
}

impl Wire for Lines {
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.input.write_all(bytes).map_err(|error| format!("writing failed: {error}"))
    }

    fn receive(&mut self, deadline: Instant) -> Received {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        if let Err(error) = self.output.get_ref().set_read_timeout(Some(left)) {
            return Received::Message(format!("cannot set the timeout: {error}"));
        }
        let mut bytes = Vec::new();
        match self.output.read_until(b'\n', &mut bytes) {
            Ok(0) => Received::Closed,
            Ok(_) => match String::from_utf8(bytes) {
                Ok(line) if line.ends_with('\n') => Received::Message(line.trim_end_matches('\n').to_owned()),
                Ok(line) => Received::Message(format!("no newline after {line}")),
                Err(error) => Received::Message(format!("not UTF-8: {error}")),
            },
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Received::TimedOut
            }
            Err(error) => Received::Message(format!("reading failed: {error}")),
        }
    }

    fn finish(&mut self) {
        // Fails only if it was called before.
        let _ = self.input.shutdown(Shutdown::Write);
    }

    fn act(&mut self, command: &str) -> Result<(), String> {
        self.server.act(command)
    }

    fn end(self: Box<Self>) -> Result<(), String> {
        self.server.end()
    }
}
