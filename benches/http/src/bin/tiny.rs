//! Bare loop on tiny_http: the cost of that crate without a protocol.
//!
//! Reads requests with four threads and writes prepared responses. Does not parse JSON.

use std::io::Cursor;
use std::sync::Arc;

use stdio_bench::ready::answer;
use tiny_http::{Header, Request, Response, Server, StatusCode};

const THREADS: usize = 4;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let address = std::env::args().skip_while(|argument| argument != "--http").nth(1);
    let server = Arc::new(Server::http(address.ok_or("--http ADDRESS")?)?);
    let json = Header::from_bytes("Content-Type", "application/json").map_err(|()| "no header")?;
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (server, json) = (Arc::clone(&server), json.clone());
            std::thread::spawn(move || {
                while let Ok(request) = server.recv() {
                    // A disconnected peer needs no response.
                    let _ = respond(request, &json);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread failed")?;
    }
    Ok(())
}

fn respond(mut request: Request, json: &Header) -> std::io::Result<()> {
    let (mut body, mut line) = (Vec::new(), Vec::new());
    request.as_reader().read_to_end(&mut body)?;
    answer(&body, b",\"result\":{\"tools\":[]}}\n", &mut line);
    line.pop();
    let (length, status) = (line.len(), if line.is_empty() { 202 } else { 200 });
    let headers = vec![json.clone()];
    request.respond(Response::new(StatusCode(status), headers, Cursor::new(line), Some(length), None))
}
