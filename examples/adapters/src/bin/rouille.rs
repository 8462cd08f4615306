//! A page and MCP on one port, in a program that runs rouille.
//!
//! rouille sends a body in pieces of 8 KiB, so a comment of that size follows each event here. With `tiny_http`,
//! the server below rouille, `HttpEndpoint::respond` needs no such comment.

use std::io::{self, Read};

use rouille::{Request, Response, ResponseBody};
use tinymcp::{HttpBody, HttpEndpoint, HttpEvents, HttpRequest, Server, Tool};

/// Bytes that rouille collects before it sends them.
const PIECE: usize = 8 << 10;

/// An event stream whose events are sent at once.
struct Padded {
    events: HttpEvents,
    piece: Vec<u8>,
}

impl Read for Padded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let Some(mut piece) = self.events.next() else { return Ok(0) };
            piece.push(b':');
            piece.resize(piece.len() + PIECE, b' ');
            piece.extend_from_slice(b"\n\n");
            self.piece = piece;
        }
        let count = into.len().min(self.piece.len());
        into[..count].copy_from_slice(&self.piece[..count]);
        self.piece.drain(..count);
        Ok(count)
    }
}

fn answer(endpoint: &HttpEndpoint, request: &Request) -> Response {
    let mut relayed = HttpRequest::new(request.method(), request.raw_url()).peer(*request.remote_addr());
    for (name, value) in request.headers() {
        relayed = relayed.field(name, value);
    }
    let response = endpoint.handle(relayed, request.data().expect("the body is read once"));
    let data = match response.body {
        HttpBody::Events(events) => ResponseBody::from_reader(Padded { events, piece: Vec::new() }),
        HttpBody::Whole(bytes) => ResponseBody::from_data(bytes),
    };
    let headers = response.fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    Response { status_code: response.status, headers, data, upgrade: None }
}

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("in-rouille", "1.0.0");
    server.tool(Tool::new("hello"), |_, ()| Ok("hello"))?;
    let endpoint = server.http().endpoint()?;
    rouille::start_server("127.0.0.1:8080", move |request| match endpoint.serves(&request.url()) {
        true => answer(&endpoint, request),
        false => Response::text("a page"),
    })
}
