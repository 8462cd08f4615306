//! POST of one message and its response, as JSON or as a stream of events.
//!
//! Makes the whole exchange on the calling thread, and resumes a stream that breaks.
//!
//! Source: MCP 2025-11-25 basic/transports; 2026-07-28 basic/transports/streamable-http; the
//! statuses are listed there and in basic/index.
//!
//! # Invariants
//! - A message is posted again only if the server reported that it did not process it: to another
//!   path of the same origin, or in a session that replaced the unknown one.
//! - No body, event or head is kept beyond its limit.

use std::io::{self, Read};
use std::sync::Arc;

use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use ureq::{Body, Error};

use super::deadline::{Exchange, Patience, StopReason, TICK};
use super::sse_listener::{self, Fruitless, Got};
use super::{Shared, closed, legacy_sse};
use crate::era::legacy as session;
use crate::transport::client::{Failure, Kind, MessageHandler, Outgoing, Session};
use crate::transport::sse::{MEDIA_TYPE, Parser, Step};

const JSON: &str = "application/json";
/// Both must be accepted (2025-11-25 basic/transports; 2026-07-28 streamable-http).
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// Bytes per read.
const PIECE: usize = 8 << 10;
/// Redirects within the origin that one message follows.
const REDIRECTS: usize = 3;
/// Bytes of an error body that are read and quoted.
const QUOTED: usize = 4096;

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
            Kind::Notification | Kind::Answer => Exchange::until(None, message.deadline),
        };
        PostRequest { exchange: Arc::new(exchange), kind: message.kind, session: message.session }
    }

    /// Makes the exchange.
    pub(super) fn post(
        &self,
        shared: &Arc<Shared>,
        frame: &[u8],
        headers: &[(String, String)],
        sink: &Arc<dyn MessageHandler>,
        turn: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        let route = Route { post: self, shared, headers, sink: &**sink };
        let done = shared.exchanging(&self.exchange, || route.deliver(frame, turn));
        match (done, self.exchange.stop_reason()) {
            // The waiting thread has its outcome already.
            (Err(_), Some(StopReason::Abandoned | StopReason::Answered)) => Ok(()),
            (Err(_), Some(StopReason::Timeout)) => Err(Failure::Timeout),
            (Err(_), Some(StopReason::Closed)) => Err(closed()),
            (done, _) => done,
        }
    }
}

/// One delivery with everything it needs.
struct Route<'a> {
    post: &'a PostRequest,
    shared: &'a Arc<Shared>,
    headers: &'a [(String, String)],
    sink: &'a dyn MessageHandler,
}

impl Route<'_> {
    fn deliver(&self, frame: &[u8], turn: &mut dyn FnMut() -> bool) -> Result<(), Failure> {
        let mut session = self.session();
        let mut response = self.send(frame, session.as_deref())?;
        if response.status() == 404 && session.is_some() {
            // Another thread may have opened a new session while this message was on its way.
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
            // It may be a server of 2024-11-05 (2026-07-28 streamable-http, backward compatibility).
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
            return self.elsewhere(response.into_body(), turn);
        }
        if self.post.session == Session::Opens {
            self.latch(response.headers())?;
        }
        if !matches!(self.post.kind, Kind::Request(_) | Kind::Stream(_)) {
            // Accepted. Some servers send a body that has no meaning.
            self.post.exchange.be(Patience::Brief);
            drain(response.into_body().as_reader());
            return Ok(());
        }
        match media(response.headers()) {
            Media::Json => self.json(response.into_body()),
            Media::Events => self.events(response.into_body(), session.as_deref(), turn),
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
    fn latch(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let id = match headers.get(session::SESSION) {
            None => None,
            Some(id) if session::is_session_id(id.as_bytes()) => id.to_str().ok().map(Arc::from),
            Some(_) => {
                return Err(Failure::Misbehaved(
                    "invalid session id in a response: allowed are visible ASCII characters".into(),
                ));
            }
        };
        self.shared.latch(id);
        Ok(())
    }

    /// Posts the frame. Follows redirects within the origin.
    fn send(&self, frame: &[u8], session: Option<&str>) -> Result<Response<Body>, Failure> {
        let elsewhere = self.shared.post_to.get();
        if elsewhere.is_some() {
            self.post.exchange.wait_briefly();
        }
        let mut to = elsewhere.unwrap_or(&self.shared.target.uri).clone();
        for _ in 0..REDIRECTS {
            let mut head = self.shared.head(&to, Method::POST, self.headers, session)?;
            head.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
            head.headers_mut().insert(header::ACCEPT, BOTH);
            let body = frame.strip_suffix(b"\n").unwrap_or(frame);
            let response =
                self.shared.agent.run(head.map(|()| body)).map_err(|e| failure(&self.post.exchange, e))?;
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

    /// Waits until the response arrives on the server's only stream.
    fn elsewhere(&self, body: Body, turn: &mut dyn FnMut() -> bool) -> Result<(), Failure> {
        let exchange = &self.post.exchange;
        exchange.be(Patience::Brief);
        drain(body.into_reader());
        exchange.be(Patience::Long);
        while exchange.id.is_some() {
            exchange.pause(TICK, turn).map_err(|_| closed())?;
        }
        Ok(())
    }

    /// One JSON message as the whole body.
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
        // The announced length alone must not allocate memory.
        let mut text = Vec::with_capacity((announced as usize).min(16 * PIECE));
        let read = body.as_reader().take(most as u64 + 1).read_to_end(&mut text);
        read.map_err(|e| broken(&self.post.exchange, &e))?;
        Ok((text.len() <= most).then_some(text))
    }

    /// Handles a response without a success status. Its body may hold a JSON-RPC response.
    fn refused(&self, response: Response<Body>) -> Result<(), Failure> {
        let status = response.status().as_u16();
        let challenge = response.headers().get(header::WWW_AUTHENTICATE).map(|c| plain(c.as_bytes()));
        if response.status().is_redirection() {
            let message = "the server redirects to another origin, which is not followed".into();
            return Err(Failure::Refused { status, message });
        }
        let mut words = String::new();
        if media(response.headers()) == Media::Json {
            if let Some(text) = self.read(response.into_body())? {
                let answered = self.sink.frame(&text).map(|a| a.id);
                if answered.is_some() && answered == self.post.exchange.id {
                    return Ok(());
                }
                words = plain(&text);
            }
        } else {
            let mut text = Vec::new();
            // OK to drop: the status is the error.
            let _ = response.into_body().as_reader().take(QUOTED as u64).read_to_end(&mut text);
            words = plain(&text);
        }
        let why = challenge.unwrap_or(words);
        let message =
            format!("the server returned status {status}{}{why}", if why.is_empty() { "" } else { ": " });
        Err(Failure::Refused { status, message })
    }

    /// Reads a stream of events up to the response. Resumes the stream with further connections if
    /// the protocol allows that.
    fn events(
        &self,
        body: Body,
        session: Option<&str>,
        turn: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        if let Kind::Stream(_) = self.post.kind {
            self.post.exchange.lift_deadline();
        }
        let exchange = &self.post.exchange;
        let mut parser = Parser::new(self.shared.frame_bytes);
        let mut fruitless = Fruitless::default();
        let mut body = body;
        loop {
            let read = Reading { exchange, sink: self.sink, turn: &mut *turn }.run(body, &mut parser);
            let over = match read {
                End::Answered | End::NobodyWaits => return Ok(()),
                End::Over(over) => over,
            };
            if over.oversized {
                return Err(Failure::too_long(self.shared.frame_bytes));
            }
            // Resuming is for sessions, and for streams that gave an id to resume from (2025-11-25
            // basic/transports; 2026-07-28 has none of it).
            if self.post.session == Session::None || parser.last_id().is_empty() {
                return Err(interrupted("the stream ended before the response"));
            }
            fruitless.connection(over.events);
            let (mut clean, mut refusals) = (over.clean, 0);
            body = loop {
                if fruitless.too_many(self.shared.reconnects) {
                    return Err(interrupted(
                        "the stream ended before the response, also after `Limits::reconnects` attempts to resume it",
                    ));
                }
                // The exchange has the reason.
                exchange.pause(fruitless.delay(parser.retry(), clean), turn).map_err(|_| closed())?;
                match sse_listener::ask(self.shared, exchange, self.headers, session, parser.last_id()) {
                    Got::Stream(body) => break body,
                    Got::Later => {
                        refusals = 0;
                        fruitless.connection(false);
                    }
                    // A server that restarts is back soon.
                    Got::Nobody => {
                        refusals += 1;
                        fruitless.connection(false);
                        if refusals >= self.shared.refusals {
                            return Err(interrupted(
                                "the stream ended before the response, and the server refuses connections",
                            ));
                        }
                    }
                    Got::Never => {
                        return Err(interrupted(
                            "the stream ended before the response and cannot be resumed",
                        ));
                    }
                }
                clean = false;
            };
            parser.restart();
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

/// The media type, without its parameters.
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

/// Reads what has arrived, so that the connection can be reused.
fn drain(mut body: impl Read) {
    let mut piece = [0; PIECE];
    for _ in 0..4 {
        if !matches!(body.read(&mut piece), Ok(1..)) {
            return;
        }
    }
}

/// End of the events of one connection.
pub(super) enum End {
    /// The response arrived.
    Answered,
    /// No thread waits for it.
    NobodyWaits,
    /// It ended without the response.
    Over(Over),
}

/// A stream that ended without the response.
#[derive(Default)]
pub(super) struct Over {
    /// It brought messages.
    pub events: bool,
    /// It brought more than can be kept.
    pub oversized: bool,
    /// The server ended it, as opposed to the network.
    pub clean: bool,
}

/// Reads one connection's events.
pub(super) struct Reading<'a> {
    pub exchange: &'a Exchange,
    pub sink: &'a dyn MessageHandler,
    pub turn: &'a mut dyn FnMut() -> bool,
}

impl Reading<'_> {
    pub(super) fn run(self, mut body: Body, parser: &mut Parser) -> End {
        let mut body = body.as_reader();
        let mut bytes = [0; PIECE];
        let mut over = Over::default();
        self.exchange.be(Patience::Tick);
        let end = 'stream: loop {
            let mut piece = match body.read(&mut bytes) {
                Ok(0) => {
                    over.clean = true;
                    break End::Over(over);
                }
                Ok(n) => bytes.get(..n).unwrap_or_default(),
                // No data within a tick.
                Err(error)
                    if error.kind() == io::ErrorKind::TimedOut && self.exchange.stop_reason().is_none() =>
                {
                    if (self.turn)() {
                        continue;
                    }
                    break End::NobodyWaits;
                }
                Err(_) => break End::Over(over),
            };
            loop {
                match parser.next(&mut piece) {
                    Step::More => break,
                    Step::TooLong { head } => {
                        over.oversized = true;
                        self.sink.oversized(head, &[]);
                        if self.exchange.id.is_some() {
                            break 'stream End::Over(over);
                        }
                    }
                    // The protocol has no other kinds.
                    Step::Event { kind: b"" | b"message", data } => {
                        over.events = true;
                        let answered = self.sink.frame(data).map(|a| a.id);
                        if answered.is_some() && answered == self.exchange.id {
                            break 'stream End::Answered;
                        }
                    }
                    Step::Event { .. } => {}
                }
                if !(self.turn)() {
                    break 'stream End::NobodyWaits;
                }
            }
        };
        if matches!(end, End::Answered) {
            self.exchange.be(Patience::None);
            drain(body);
        }
        self.exchange.be(Patience::Long);
        end
    }
}

fn interrupted(why: &str) -> Failure {
    Failure::Interrupted(why.into())
}

/// Maps a failed read of a body.
fn broken(exchange: &Exchange, error: &io::Error) -> Failure {
    match exchange.stop_reason() {
        Some(_) => closed(),
        None => Failure::Interrupted(format!("the connection broke during the response: {error}")),
    }
}

/// Maps a failed request.
pub(super) fn failure(exchange: &Exchange, error: Error) -> Failure {
    let lost = |why: String| if exchange.has_sent() { Failure::Interrupted(why) } else { Failure::Io(why) };
    match error {
        _ if exchange.stop_reason().is_some() => closed(),
        Error::Protocol(_) | Error::Http(_) => Failure::Misbehaved("the response is not valid HTTP".into()),
        Error::LargeResponseHeader(..) => Failure::Misbehaved("the head of the response is too long".into()),
        Error::HostNotFound => Failure::Io("the host name of the server has no address".into()),
        Error::Io(error) if exchange.has_sent() => {
            lost(format!("the connection broke before the response: {error}"))
        }
        Error::Io(error) => lost(format!("cannot connect to the server: {error}")),
        Error::Timeout(_) => Failure::Io("cannot connect to the server in time".into()),
        error => lost(format!("the request failed: {error}")),
    }
}

/// Quotes a peer's text on one line, shortened.
fn plain(words: &[u8]) -> String {
    let words = words.get(..QUOTED).unwrap_or(words);
    let text = String::from_utf8_lossy(words);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}
