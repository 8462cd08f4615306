//! POST of one message and its response, as JSON or as a stream of events.
//!
//! Performs the whole exchange on the calling thread, and resumes a stream that breaks.
//!
//! Source: MCP 2025-11-25 basic/transports; 2026-07-28 basic/transports/streamable-http; the
//! statuses are listed there and in basic/index.
//!
//! # Invariants
//! - A message is posted again only if the server reported that it did not process it: after a
//!   redirect within the origin, after a challenge, or when a new session has replaced the lost
//!   one.
//! - No body, event or head is stored beyond its limit.

use std::io::{self, Read};
use std::sync::Arc;

use ureq::Body;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};

use super::deadline::{Exchange, StopReason, TICK, WaitMode};
use super::sign_in::{Attempts, challenge_in};
use super::sse_listener::{self, Backoff, GetResult};
use super::{Shared, closed, connector, legacy_sse};
use crate::era::legacy as session;
use crate::terminal::is_control;
use crate::transport::client::{Failure, Kind, MessageHandler, Outgoing, Session};
use crate::transport::sse::{MEDIA_TYPE, Parser, Step};

const JSON: &str = "application/json";
/// Required value of `Accept` (2025-11-25 basic/transports; 2026-07-28 streamable-http).
const ACCEPT_VALUE: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// Buffer size of a read in bytes.
const READ_BYTES: usize = 8 << 10;
/// Maximum number of requests for one message, with redirects within the origin.
const REDIRECTS: usize = 3;
/// Maximum number of bytes of an error body that are read and quoted.
const MAX_QUOTED: usize = 4096;

/// A message that is being sent.
pub(super) struct PostRequest {
    pub exchange: Arc<Exchange>,
    kind: Kind,
    session: Session,
}

impl PostRequest {
    pub(super) fn new(message: &Outgoing<'_>, sink: &Arc<dyn MessageHandler>) -> PostRequest {
        let exchange = match message.kind {
            Kind::Request(id) => Exchange::of_request(id, Arc::clone(sink)),
            Kind::Stream(id) => Exchange::until(Some(id), message.deadline),
            Kind::Notification | Kind::Response => Exchange::until(None, message.deadline),
        };
        PostRequest { exchange: Arc::new(exchange), kind: message.kind, session: message.session }
    }

    /// Performs the exchange.
    pub(super) fn post(
        &self,
        shared: &Arc<Shared>,
        frame: &[u8],
        headers: &[(String, String)],
        sink: &Arc<dyn MessageHandler>,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        let route = Route { post: self, shared, headers, sink: &**sink };
        let done = shared.run_exchange(&self.exchange, || route.deliver(frame, waiting));
        match (done, self.exchange.stop_reason()) {
            // The request already has its outcome.
            (Err(_), Some(StopReason::Abandoned | StopReason::Answered)) => Ok(()),
            (Err(_), Some(StopReason::Timeout)) => Err(Failure::Timeout),
            (Err(_), Some(StopReason::Closed)) => Err(closed()),
            (done, _) => done,
        }
    }
}

/// Context of the delivery of one message.
struct Route<'a> {
    post: &'a PostRequest,
    shared: &'a Arc<Shared>,
    headers: &'a [(String, String)],
    sink: &'a dyn MessageHandler,
}

impl Route<'_> {
    fn deliver(&self, frame: &[u8], waiting: &mut dyn FnMut() -> bool) -> Result<(), Failure> {
        let mut session = self.session();
        let mut response = self.send(frame, session.as_deref())?;
        if response.status() == 404 && session.is_some() {
            // Another thread may have opened a new session while this message was in flight.
            let now = self.session();
            if now.is_none() || now == session {
                return Err(Failure::SessionLost);
            }
            session = now;
            response = self.send(frame, session.as_deref())?;
            if response.status() == 404 {
                return Err(Failure::SessionLost);
            }
        }
        if !response.status().is_success() {
            let status = response.status().as_u16();
            let refused = self.refused(response);
            // The server may be one of 2024-11-05 (2026-07-28 streamable-http, backward
            // compatibility).
            let oldest = self.post.session == Session::Opens && matches!(status, 400 | 404 | 405);
            if refused.is_ok() || !oldest || !legacy_sse::open(self.shared, &self.post.exchange) {
                return refused;
            }
            response = self.send(frame, None)?;
            if !response.status().is_success() {
                return self.refused(response);
            }
        }
        if self.shared.post_to.get().is_some() {
            return self.await_other_stream(response.into_body(), waiting);
        }
        if self.post.session == Session::Opens {
            self.store_session(response.headers())?;
        }
        if !matches!(self.post.kind, Kind::Request(_) | Kind::Stream(_)) {
            // The message was accepted. Some servers send a body without meaning.
            self.post.exchange.set_wait_mode(WaitMode::Brief);
            drain(response.into_body().as_reader());
            return Ok(());
        }
        match media(response.headers()) {
            Media::Json => self.json(response.into_body()),
            Media::Events => self.events(response.into_body(), session.as_deref(), waiting),
            Media::Other => {
                let status = response.status().as_u16();
                Err(Failure::Misbehaved(format!(
                    "the response has status {status} and neither JSON nor an event stream"
                )))
            }
        }
    }

    /// Returns the session id to send.
    fn session(&self) -> Option<Arc<str>> {
        match self.post.session {
            Session::Within => self.shared.session(),
            Session::Opens | Session::None => None,
        }
    }

    /// Stores the id of the session that this response opens.
    fn store_session(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let id = match headers.get(session::SESSION) {
            None => None,
            Some(id) if session::is_session_id(id.as_bytes()) => id.to_str().ok().map(Arc::from),
            Some(_) => {
                return Err(Failure::Misbehaved(
                    "invalid session id in a response: allowed are visible ASCII characters".into(),
                ));
            }
        };
        self.shared.store_session(id);
        Ok(())
    }

    /// Posts the frame. Posts it again with other credentials if the server requires them.
    fn send(&self, frame: &[u8], session: Option<&str>) -> Result<Response<Body>, Failure> {
        let mut attempts = Attempts::new(self.post.exchange.id.is_some());
        loop {
            let response = self.send_once(frame, session, &mut attempts)?;
            let renewed = self.shared.credentials.renew(&response, &mut attempts);
            if !renewed.map_err(Failure::Unauthorized)? {
                return Ok(response);
            }
            drain(response.into_body().into_reader());
        }
    }

    /// Posts the frame. Follows redirects within the origin.
    fn send_once(
        &self,
        frame: &[u8],
        session: Option<&str>,
        attempts: &mut Attempts,
    ) -> Result<Response<Body>, Failure> {
        let elsewhere = self.shared.post_to.get();
        if elsewhere.is_some() {
            self.post.exchange.wait_briefly();
        }
        let mut to = elsewhere.unwrap_or(&self.shared.target.uri).clone();
        for _ in 0..REDIRECTS {
            let mut head = self.shared.head(&to, Method::POST, self.headers, session)?;
            head.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
            head.headers_mut().insert(header::ACCEPT, ACCEPT_VALUE);
            let body = frame.strip_suffix(b"\n").unwrap_or(frame);
            attempts.set_used(head.headers());
            let response = self
                .shared
                .agent
                .run(head.map(|()| body))
                .map_err(|e| connector::failure(&self.post.exchange, e))?;
            // Other redirects would turn the POST into a GET.
            if !matches!(response.status().as_u16(), 307 | 308) {
                return Ok(response);
            }
            let location = response.headers().get(header::LOCATION).and_then(|l| l.to_str().ok());
            match location.and_then(|location| self.shared.target.redirected(location)) {
                Some(uri) => to = uri,
                None => return Ok(response),
            }
        }
        Err(Failure::Misbehaved("the server redirects a request too often".into()))
    }

    /// Waits until the response arrives on the stream of a server of 2024-11-05.
    fn await_other_stream(&self, body: Body, waiting: &mut dyn FnMut() -> bool) -> Result<(), Failure> {
        let exchange = &self.post.exchange;
        exchange.set_wait_mode(WaitMode::Brief);
        drain(body.into_reader());
        exchange.set_wait_mode(WaitMode::Deadline);
        while exchange.id.is_some() {
            exchange.pause(TICK, waiting).map_err(|_| closed())?;
        }
        Ok(())
    }

    /// Handles a body that is one JSON message.
    fn json(&self, body: Body) -> Result<(), Failure> {
        match self.read(body)? {
            Some(text) if self.sink.frame(&text).map(|a| a.id) == self.post.exchange.id => Ok(()),
            Some(_) => {
                Err(Failure::Misbehaved("the body of the response is not the response to the request".into()))
            }
            None => {
                self.sink.oversized(&[], &[]);
                Err(Failure::too_long(self.shared.frame_bytes))
            }
        }
    }

    /// Reads the whole body. `None` if it is too long.
    fn read(&self, mut body: Body) -> Result<Option<Vec<u8>>, Failure> {
        let most = self.shared.frame_bytes;
        let announced = body.content_length().unwrap_or(0);
        if announced > most as u64 {
            return Ok(None);
        }
        // `Content-Length` alone must not allocate much memory.
        let mut text = Vec::with_capacity((announced as usize).min(16 * READ_BYTES));
        let read = body.as_reader().take(most as u64 + 1).read_to_end(&mut text);
        read.map_err(|e| broken(&self.post.exchange, &e))?;
        Ok((text.len() <= most).then_some(text))
    }

    /// Handles a response without a success status. A JSON-RPC response in its body completes the
    /// request, unless the head has a challenge: only the challenge states how to obtain access
    /// (basic/authorization, scope challenge handling).
    fn refused(&self, response: Response<Body>) -> Result<(), Failure> {
        let status = response.status().as_u16();
        let challenge = response.headers().get(header::WWW_AUTHENTICATE).map(|c| plain(c.as_bytes()));
        let parsed = challenge_in(response.headers());
        if response.status().is_redirection() {
            let message = "the server redirects to another origin, which is not followed".into();
            return Err(Failure::Refused { status, message, challenge: None });
        }
        let is_challenge = challenge.is_some() && matches!(status, 401 | 403);
        let mut quoted = String::new();
        if media(response.headers()) == Media::Json {
            if let Some(text) = self.read(response.into_body())? {
                if !is_challenge {
                    let answered = self.sink.frame(&text).map(|a| a.id);
                    if answered.is_some() && answered == self.post.exchange.id {
                        return Ok(());
                    }
                }
                quoted = plain(&text);
            }
        } else {
            let mut text = Vec::new();
            // OK to drop: the status is the error.
            let _ = response.into_body().as_reader().take(MAX_QUOTED as u64).read_to_end(&mut text);
            quoted = plain(&text);
        }
        let why = challenge.unwrap_or(quoted);
        let mut message =
            format!("the server returned status {status}{}{why}", if why.is_empty() { "" } else { ": " });
        self.shared.credentials.mask(&mut message);
        Err(Failure::Refused { status, message, challenge: parsed })
    }

    /// Reads a stream of events up to the response. Resumes the stream with further connections if
    /// the protocol allows that.
    fn events(
        &self,
        body: Body,
        session: Option<&str>,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        if let Kind::Stream(_) = self.post.kind {
            self.post.exchange.remove_deadline();
        }
        let exchange = &self.post.exchange;
        let mut parser = Parser::new(self.shared.frame_bytes);
        let mut backoff = Backoff::default();
        let mut body = body;
        loop {
            let read =
                EventReader { exchange, sink: self.sink, waiting: &mut *waiting }.run(body, &mut parser);
            let over = match read {
                ReadEnd::Completed | ReadEnd::NotWaiting => return Ok(()),
                ReadEnd::Ended(over) => over,
            };
            if over.oversized {
                return Err(Failure::too_long(self.shared.frame_bytes));
            }
            // A stream can be resumed only in a session and only after an event with an id
            // (2025-11-25 basic/transports; not in 2026-07-28).
            if self.post.session == Session::None || parser.last_id().is_empty() {
                return Err(interrupted("the stream ended before the response"));
            }
            backoff.record(over.events);
            body = self.resume(session, &parser, &mut backoff, over.clean, waiting)?;
            parser.restart();
        }
    }

    /// Connects again until the server continues a stream that ended. `clean` is `false` if the
    /// connection broke.
    fn resume(
        &self,
        session: Option<&str>,
        parser: &Parser,
        backoff: &mut Backoff,
        mut clean: bool,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Body, Failure> {
        let exchange = &self.post.exchange;
        let mut refusals = 0;
        loop {
            if backoff.exhausted(self.shared.reconnects) {
                return Err(interrupted(
                    "the stream ended before the response, also after `HttpClientLimits::reconnects` attempts to resume it",
                ));
            }
            // OK to drop: `post` takes the reason from the exchange.
            exchange.pause(backoff.delay(parser.retry(), clean), waiting).map_err(|_| closed())?;
            match sse_listener::get(self.shared, exchange, self.headers, session, parser.last_id()) {
                GetResult::Stream(body) => return Ok(body),
                GetResult::Retry => refusals = 0,
                // A server that restarts refuses connections for a short time only.
                GetResult::Refused => {
                    refusals += 1;
                    if refusals >= self.shared.refusals {
                        return Err(interrupted(
                            "the stream ended before the response, and the server refuses connections",
                        ));
                    }
                }
                GetResult::Unavailable => {
                    return Err(interrupted("the stream ended before the response and cannot be resumed"));
                }
            }
            backoff.record(false);
            clean = false;
        }
    }
}

impl Shared {
    /// Builds the head of a request with the headers of the message, the session and the program.
    pub(super) fn head(
        &self,
        uri: &Uri,
        method: Method,
        headers: &[(String, String)],
        session: Option<&str>,
    ) -> Result<Request<()>, Failure> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = self.target.headers().map_err(|e| Failure::Io(e.to_string()))?;
        let ours = headers.iter().map(|(name, value)| (name.as_str(), value.as_str(), false));
        for (name, value, secret) in ours.chain(session.map(|id| (session::SESSION, id, true))) {
            let unsendable = || {
                Failure::Io(format!("invalid header `{name}`: its name or value cannot be sent over HTTP"))
            };
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| unsendable())?;
            value.set_sensitive(secret);
            request.headers_mut().insert(name, value);
        }
        self.credentials.authorize(&mut request).map_err(Failure::Unauthorized)?;
        Ok(request)
    }
}

/// Media type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Events,
    Other,
}

/// Returns the media type of a body.
pub(super) fn media(headers: &HeaderMap) -> Media {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case(JSON) {
        Media::Json
    } else if kind.eq_ignore_ascii_case(MEDIA_TYPE) {
        Media::Events
    } else {
        Media::Other
    }
}

/// Reads a short rest of a body, so that the connection can be reused.
fn drain(mut body: impl Read) {
    let mut piece = [0; READ_BYTES];
    for _ in 0..4 {
        if !matches!(body.read(&mut piece), Ok(1..)) {
            return;
        }
    }
}

/// Reason why reading the events of one connection ended.
pub(super) enum ReadEnd {
    /// The response arrived.
    Completed,
    /// The caller no longer waits for the response.
    NotWaiting,
    /// The stream ended before the response.
    Ended(StreamEnd),
}

/// End of a stream before the response.
#[derive(Default)]
pub(super) struct StreamEnd {
    /// At least one message arrived.
    pub events: bool,
    /// An event exceeded the limit.
    pub oversized: bool,
    /// The server ended the stream; `false` if the connection broke.
    pub clean: bool,
}

/// Reader of the events of one connection.
pub(super) struct EventReader<'a> {
    pub exchange: &'a Exchange,
    pub sink: &'a dyn MessageHandler,
    pub waiting: &'a mut dyn FnMut() -> bool,
}

impl EventReader<'_> {
    pub(super) fn run(self, mut body: Body, parser: &mut Parser) -> ReadEnd {
        let mut body = body.as_reader();
        let mut bytes = [0; READ_BYTES];
        let mut over = StreamEnd::default();
        self.exchange.set_wait_mode(WaitMode::Tick);
        let end = 'stream: loop {
            let mut piece = match body.read(&mut bytes) {
                Ok(0) => {
                    over.clean = true;
                    break ReadEnd::Ended(over);
                }
                Ok(n) => bytes.get(..n).unwrap_or_default(),
                // No data within a tick.
                Err(error)
                    if error.kind() == io::ErrorKind::TimedOut && self.exchange.stop_reason().is_none() =>
                {
                    if (self.waiting)() {
                        continue;
                    }
                    break ReadEnd::NotWaiting;
                }
                Err(_) => break ReadEnd::Ended(over),
            };
            loop {
                match parser.next(&mut piece) {
                    Step::More => break,
                    Step::TooLong { head } => {
                        over.oversized = true;
                        self.sink.oversized(head, &[]);
                        if self.exchange.id.is_some() {
                            break 'stream ReadEnd::Ended(over);
                        }
                    }
                    // The protocol defines no other event types.
                    Step::Event { kind: b"" | b"message", data } => {
                        over.events = true;
                        let answered = self.sink.frame(data).map(|a| a.id);
                        if answered.is_some() && answered == self.exchange.id {
                            break 'stream ReadEnd::Completed;
                        }
                    }
                    Step::Event { .. } => {}
                }
                if !(self.waiting)() {
                    break 'stream ReadEnd::NotWaiting;
                }
            }
        };
        if matches!(end, ReadEnd::Completed) {
            self.exchange.set_wait_mode(WaitMode::NoWait);
            drain(body);
        }
        self.exchange.set_wait_mode(WaitMode::Deadline);
        end
    }
}

fn interrupted(why: &str) -> Failure {
    Failure::Interrupted(why.into())
}

/// Returns the failure for an error while a body was read.
fn broken(exchange: &Exchange, error: &io::Error) -> Failure {
    match exchange.stop_reason() {
        Some(_) => closed(),
        None => Failure::Interrupted(format!("the connection broke during the response: {error}")),
    }
}

/// Returns the beginning of a peer's text as one line without control characters.
fn plain(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..MAX_QUOTED).unwrap_or(text));
    text.chars().map(|c| if is_control(c) { ' ' } else { c }).collect::<String>().trim().to_owned()
}
