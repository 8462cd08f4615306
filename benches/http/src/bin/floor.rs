//! Bare loop: the maximum that sockets and one thread reach with almost no work.
//!
//! Polls many sockets, finds the end of a request by the position of its length, and writes a
//! prepared response. Does not parse HTTP or JSON. It supports only the requests of the driver.
//!
//! # Invariants
//! - One thread; a connection costs its socket and a buffer of the size of its longest request.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::event::epoll::{self, EventData, EventFlags};
use stdio_bench::ready::answer;
use stdio_bench::wire::push_number;

const LISTENER: u64 = u64::MAX;
const LONGEST: usize = 8 * 1024 * 1024;

#[derive(Default)]
struct Connection {
    stream: Option<TcpStream>,
    bytes: Vec<u8>,
}

fn main() -> io::Result<()> {
    let address = std::env::args().skip_while(|argument| argument != "--http").nth(1);
    let listener = TcpListener::bind(address.ok_or(ErrorKind::InvalidInput)?)?;
    listener.set_nonblocking(true)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;

    let mut connections: Vec<Connection> = Vec::new();
    let mut free = Vec::new();
    let (mut chunk, mut line, mut out) = (vec![0; 64 * 1024], Vec::new(), Vec::new());
    let mut ready = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
    loop {
        let count = epoll::wait(&poll, &mut ready, None)?;
        for event in &ready[..count] {
            if event.data.u64() == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let index = free.pop().unwrap_or(connections.len());
                    if index == connections.len() {
                        connections.push(Connection::default());
                    }
                    epoll::add(&poll, &stream, EventData::new_u64(index as u64), EventFlags::IN)?;
                    connections[index].stream = Some(stream);
                }
                continue;
            }
            let index = event.data.u64() as usize;
            let Connection { stream, bytes } = &mut connections[index];
            let Some(open) = stream else { continue };
            let mut keep = match open.read(&mut chunk) {
                Ok(0) => false,
                Ok(got) => {
                    bytes.extend_from_slice(&chunk[..got]);
                    bytes.len() < LONGEST
                }
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            if let Some((body, close)) = request(bytes) {
                line.clear();
                answer(&bytes[body..], b",\"result\":{\"tools\":[]}}\n", &mut line);
                bytes.clear();
                out.clear();
                head(&mut out, line.len().saturating_sub(1));
                out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or_default());
                keep = open.write_all(&out).is_ok() && !close;
            }
            if !keep {
                *stream = None;
                bytes.clear();
                free.push(index);
            }
        }
    }
}

/// Start of the body of a complete request, and true if the connection ends after it.
fn request(bytes: &[u8]) -> Option<(usize, bool)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let digits = bytes[..end].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let length = bytes[end - digits..end].iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    // `Content-Length: ` has sixteen bytes; the line before ends with `close` or not.
    let before = &bytes[..end - digits - 16 - 2];
    (bytes.len() >= end + 4 + length).then(|| (end + 4, before.ends_with(b"close")))
}

fn head(out: &mut Vec<u8>, length: usize) {
    if length == 0 {
        out.extend_from_slice(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ");
    push_number(out, length as u64);
    out.extend_from_slice(b"\r\n\r\n");
}
