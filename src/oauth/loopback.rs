//! Listener that receives the redirect of a browser on this machine.
//!
//! Source: RFC 8252, section 7.3.
//!
//! # Invariants
//! - The listener is bound to 127.0.0.1 only.
//! - A request without the expected `state` gets a response and changes nothing, so that another
//!   program or page cannot end the sign-in.
//! - No connection blocks another: browsers open connections that they do not use.

use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use super::url;
use crate::error::{Error, ErrorKind};
use crate::transport::http_client::sign_in::pause;

/// Maximum number of connections. A further one replaces the oldest.
const CONNECTIONS: usize = 16;
/// Size limit of a request in bytes.
const REQUEST: usize = 16 << 10;
/// Interval between two checks of the sockets.
const POLL: Duration = Duration::from_millis(20);

/// Listener for the redirect.
pub(super) struct LoopbackListener {
    listener: TcpListener,
    uri: String,
    connections: Vec<(TcpStream, Vec<u8>)>,
}

impl LoopbackListener {
    pub(super) fn bind(port: u16) -> Result<LoopbackListener, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
            let what = format!("cannot listen on 127.0.0.1:{port} for the sign-in; choose another port");
            Error::new(ErrorKind::Io, what).with_source(error)
        })?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let uri = format!("http://127.0.0.1:{port}/callback");
        Ok(LoopbackListener { listener, uri, connections: Vec::new() })
    }

    pub(super) fn redirect_uri(&self) -> &str {
        &self.uri
    }

    /// Waits for the redirect with this `state`, and returns its address.
    ///
    /// # Errors
    /// The request of this thread timed out or was cancelled.
    pub(super) fn wait(&mut self, state: &str) -> Result<String, Error> {
        loop {
            self.accept();
            let mut at = 0;
            while let Some((stream, bytes)) = self.connections.get_mut(at) {
                match read(stream, bytes) {
                    Some(true) => at += 1,
                    Some(false) => drop(self.connections.remove(at)),
                    None => {
                        let (stream, bytes) = self.connections.remove(at);
                        if let Some(address) = self.respond(stream, &bytes, state) {
                            return Ok(address);
                        }
                    }
                }
            }
            pause(POLL)?;
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                if self.connections.len() == CONNECTIONS {
                    self.connections.remove(0);
                }
                self.connections.push((stream, Vec::new()));
            }
        }
    }

    /// Responds to a request. Returns its address if it is the redirect.
    fn respond(&self, mut stream: TcpStream, request: &[u8], state: &str) -> Option<String> {
        let line = request.split(|byte| *byte == b'\r').next()?;
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let is_redirect = || {
            let query = url::query(target.strip_prefix("/callback?")?)?;
            query.iter().any(|(name, value)| name == "state" && value == state).then_some(())
        };
        let found = method == "GET" && is_redirect().is_some();
        let (status, text) = match found {
            true => ("200 OK", "The response has arrived. You can close this window."),
            false => ("404 Not Found", "This is not the expected response to a sign-in."),
        };
        let page = format!("<!doctype html><meta charset=utf-8><title>Sign-in</title><p>{text}");
        let head = "content-type: text/html; charset=utf-8\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n\
                    content-security-policy: default-src 'none'\r\nconnection: close";
        let response = format!("HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len());
        // OK to drop: the response is for the user only, and fits into the buffer of the socket.
        let _ = stream.write_all(response.as_bytes());
        let base = self.uri.strip_suffix("/callback")?;
        found.then(|| format!("{base}{target}"))
    }
}

/// Reads the bytes that have arrived. Returns `None` if the head of the request is complete,
/// otherwise whether the connection is still open.
fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<bool> {
    let mut piece = [0; 2048];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Some(false),
            Ok(n) => {
                bytes.extend_from_slice(piece.get(..n).unwrap_or_default());
                if bytes.windows(4).any(|end| end == b"\r\n\r\n") {
                    return None;
                }
                if bytes.len() > REQUEST {
                    return Some(false);
                }
            }
            Err(error) => return Some(error.kind() == IoErrorKind::WouldBlock),
        }
    }
}
