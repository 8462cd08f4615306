//! Requests that the crate `tiny_http` received.

use std::io::{self, Cursor, Write};

use tiny_http::{HTTPVersion, Header, Request, Response, StatusCode};

use super::relayed::{HttpBody, HttpEndpoint, HttpEvents, HttpRequest, HttpResponse};

impl HttpEndpoint {
    /// Responds to a request that the crate `tiny_http` received. Returns when the response, or the
    /// whole event stream, was written. Call it on a thread for each request.
    ///
    /// # Errors
    /// The response could not be written: the client has disconnected.
    ///
    /// ```no_run
    /// use std::thread;
    /// use tiny_http::Response;
    ///
    /// let endpoint = tinymcp::Server::new("board", "1.0.0").http().endpoint()?;
    /// let http = tiny_http::Server::http("127.0.0.1:8080").expect("the port is free");
    /// for request in http.incoming_requests() {
    ///     let endpoint = endpoint.clone();
    ///     thread::spawn(move || match endpoint.serves(request.url()) {
    ///         true => endpoint.respond(request),
    ///         false => request.respond(Response::from_string("the board's own page")),
    ///     });
    /// }
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn respond(&self, mut request: Request) -> io::Result<()> {
        let mut head = HttpRequest::new(request.method().as_str(), request.url());
        for field in request.headers() {
            head = head.field(field.field.as_str().as_str(), field.value.as_str());
        }
        if let Some(address) = request.remote_addr() {
            head = head.peer(*address);
        }
        let response = self.handle(head, request.as_reader());
        let HttpResponse { status, fields, body } = response;
        match body {
            HttpBody::Whole(body) => {
                // OK to omit invalid header fields: the endpoint writes only valid ones.
                let fields =
                    fields.iter().filter_map(|(name, value)| Header::from_bytes(&**name, &**value).ok());
                let length = Some(body.len());
                let response =
                    Response::new(StatusCode(status), fields.collect(), Cursor::new(body), length, None);
                request.respond(response.with_chunked_threshold(usize::MAX))
            }
            HttpBody::Events(events) => {
                let is_chunked = *request.http_version() >= HTTPVersion(1, 1);
                write_events(request.into_writer(), &fields, events, is_chunked)
            }
        }
    }
}

/// Writes an event stream. The crate's own response writer would buffer events up to 8 KiB.
fn write_events(
    mut out: Box<dyn Write + Send>,
    fields: &[(String, String)],
    events: HttpEvents,
    is_chunked: bool,
) -> io::Result<()> {
    out.write_all(b"HTTP/1.1 200 OK\r\n")?;
    for (name, value) in fields {
        write!(out, "{name}: {value}\r\n")?;
    }
    out.write_all(if is_chunked {
        b"transfer-encoding: chunked\r\n\r\n"
    } else {
        b"connection: close\r\n\r\n"
    })?;
    out.flush()?;
    for bytes in events {
        if is_chunked {
            write!(out, "{:x}\r\n", bytes.len())?;
        }
        out.write_all(&bytes)?;
        if is_chunked {
            out.write_all(b"\r\n")?;
        }
        out.flush()?;
    }
    out.write_all(if is_chunked { b"0\r\n\r\n" } else { b"" })?;
    out.flush()
}
