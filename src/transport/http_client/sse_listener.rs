//! The GET stream of a session, and reconnection of streams that ended.
//!
//! Requests the stream, forwards its messages, reconnects when it ends, and ends the session when
//! the client is closed.
//!
//! Source: MCP 2025-11-25 basic/transports (listening, resumability, session management).
//!
//! # Invariants
//! - Pauses grow with every connection without a message, and only a message resets them. After
//!   [`HttpClientLimits::reconnects`](crate::HttpClientLimits::reconnects) such connections in a
//!   row the listener stops.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ureq::Body;
use ureq::http::{HeaderValue, Method, header};

use super::deadline::{Exchange, StopReason};
use super::legacy_sse;
use super::post::{EventReader, Media, ReadEnd, StreamEnd, media};
use super::sign_in::Attempts;
use super::{Job, Shared, close_pool, threads};
use crate::era::legacy::LAST_EVENT;
use crate::pool::Pool;
use crate::sync::lock;
use crate::transport::sse::{MEDIA_TYPE, Parser};

/// First pause after the server ended a stream that had at least one message.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// First pause in all other cases. It doubles with each connection without a message.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause that this client chooses.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Maximum pause that the server may set.
const MAX_RETRY: Duration = Duration::from_secs(24 * 3600);

/// Time that opening a session waits for its stream, so that no notification is lost. Some servers
/// send the head of the stream only with the first message.
const OPENING: Duration = Duration::from_millis(250);

/// Back-off of reconnection: the number of consecutive connections without a message.
#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    /// Counts a connection, or an attempt at one.
    pub(super) fn record(&mut self, events: bool) {
        self.0 = if events { 0 } else { self.0.saturating_add(1) };
    }

    pub(super) fn exhausted(&self, most: u32) -> bool {
        self.0 > most
    }

    /// Returns the pause before the next attempt. `retry` is the server's reconnection time in
    /// milliseconds; it is used unchanged until two attempts have failed.
    pub(super) fn delay(&self, retry: Option<u64>, clean: bool) -> Duration {
        let doubled = FIRST_PAUSE * (1 << self.0.saturating_sub(1).min(6));
        let own = if self.0 == 0 && clean { SHORT_PAUSE } else { doubled.min(MAX_PAUSE) };
        match retry.map(|ms| Duration::from_millis(ms).min(MAX_RETRY)) {
            Some(wish) if self.0 < 2 => wish,
            Some(wish) => wish.max(own),
            None => own,
        }
    }
}

/// Result of a GET for a stream.
pub(super) enum GetResult {
    Stream(Body),
    /// No stream now. The client may try again.
    Retry,
    /// The connection was refused.
    Refused,
    /// The server has no such stream.
    Unavailable,
}

/// Requests a stream with GET: the stream of the session or, with `last_event`, the events after
/// it.
pub(super) fn get(
    shared: &Shared,
    exchange: &Exchange,
    headers: &[(String, String)],
    session: Option<&str>,
    last_event: &[u8],
) -> GetResult {
    let Ok(mut head) = shared.head(&shared.target.uri, Method::GET, headers, session) else {
        return GetResult::Unavailable;
    };
    head.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(MEDIA_TYPE));
    if !last_event.is_empty() {
        let Ok(mut id) = HeaderValue::from_bytes(last_event) else { return GetResult::Unavailable };
        id.set_sensitive(true);
        head.headers_mut().insert(LAST_EVENT, id);
    }
    let mut attempts = Attempts::new(false);
    attempts.set_used(head.headers());
    match shared.agent.run(head) {
        Ok(response)
            if response.status() == 401
                && shared.credentials.renew(&response, &mut attempts).unwrap_or(false) =>
        {
            GetResult::Retry
        }
        Ok(response) => match response.status().as_u16() {
            200 if media(response.headers()) == Media::Events => GetResult::Stream(response.into_body()),
            // The server has not detected the end of the last stream, or it is overloaded.
            408 | 409 | 425 | 429 | 500..=599 => GetResult::Retry,
            // 405 means no such stream, 404 and 410 mean no such session. Trying again does not
            // help, nor after a redirect or a rejected authorisation.
            _ => GetResult::Unavailable,
        },
        Err(_) if exchange.stop_reason().is_some() => GetResult::Unavailable,
        Err(ureq::Error::Io(error)) if error.kind() == ErrorKind::ConnectionRefused => GetResult::Refused,
        Err(_) => GetResult::Retry,
    }
}

/// Reader of the session's stream, which it opens again when it ends.
pub(super) struct Listener {
    /// Reads one stream at a time. The stream of a new session starts after the end of the old one.
    pool: Pool<Job>,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    exchange: Option<Arc<Exchange>>,
    /// Headers of every message of the session.
    headers: Vec<(String, String)>,
}

impl Listener {
    pub(super) fn new() -> Listener {
        Listener { pool: threads(1, 4), current: Mutex::default() }
    }

    /// Opens the stream of a session, and stops the stream of an earlier session.
    pub(super) fn open(&self, shared: &Arc<Shared>, headers: Vec<(String, String)>) {
        let shared = Arc::clone(shared);
        lock(&self.current).headers.clone_from(&headers);
        let exchange = self.begin(move |exchange| listen(&shared, exchange, &headers));
        exchange.wait_responded(OPENING);
    }

    /// Takes over a stream that is open, and reads it on the pool.
    pub(super) fn adopt(&self, shared: &Arc<Shared>, body: Body, parser: Parser) {
        let shared = Arc::clone(shared);
        self.begin(move |exchange| legacy_sse::listen(&shared, exchange, body, parser));
    }

    fn begin(&self, read: impl FnOnce(&Arc<Exchange>) + Send + 'static) -> Arc<Exchange> {
        let exchange = Arc::new(Exchange::endless(None));
        let earlier = lock(&self.current).exchange.replace(Arc::clone(&exchange));
        if let Some(earlier) = earlier {
            earlier.stop(StopReason::Closed);
        }
        let reads = Arc::clone(&exchange);
        let job: Job = Box::new(move || {
            read(&reads);
            reads.set_responded();
        });
        // OK to fail: calls work without the stream, only messages of the server are missed.
        if self.pool.try_submit(job).is_err() {
            exchange.set_responded();
        }
        exchange
    }

    /// Ends the stream, and rejects later ones.
    pub(super) fn stop(&self) {
        close_pool(&self.pool);
        if let Some(exchange) = &lock(&self.current).exchange {
            exchange.stop(StopReason::Closed);
        }
    }

    /// Ends the session with a DELETE, which the server may reject (2025-11-25 basic/transports,
    /// session management).
    pub(super) fn end_session(&self, shared: &Shared, deadline: Instant) {
        let Some(session) = shared.session() else { return };
        let headers = lock(&self.current).headers.clone();
        let exchange = Arc::new(Exchange::until(None, deadline));
        let _entered = exchange.enter();
        if let Ok(head) = shared.head(&shared.target.uri, Method::DELETE, &headers, Some(&session)) {
            let _ = shared.agent.run(head);
        }
        shared.store_session(None);
    }

    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Waits until no thread reads a stream, or until `deadline`.
    pub(super) fn wait_idle(&self, deadline: Instant) {
        self.pool.wait_idle(deadline);
    }
}

/// Reads the session's stream, and opens it again when it ends, until the exchange is stopped or
/// the server has no such stream.
fn listen(shared: &Shared, exchange: &Arc<Exchange>, headers: &[(String, String)]) {
    let (Some(sink), session) = (shared.sink(), shared.session()) else { return };
    let mut parser = Parser::new(shared.frame_bytes);
    let mut backoff = Backoff::default();
    // OK to drop: the next message fails for the same reason.
    let _ = shared.run_exchange(exchange, || {
        while !backoff.exhausted(shared.reconnects) {
            let got = get(shared, exchange, headers, session.as_deref(), parser.last_id());
            exchange.set_responded();
            let over = match got {
                GetResult::Stream(body) => {
                    let reading = EventReader { exchange, sink: &*sink, waiting: &mut || true };
                    match reading.run(body, &mut parser) {
                        ReadEnd::Ended(over) => over,
                        ReadEnd::Completed | ReadEnd::NotWaiting => StreamEnd::default(),
                    }
                }
                GetResult::Retry | GetResult::Refused => StreamEnd::default(),
                GetResult::Unavailable => break,
            };
            parser.restart();
            backoff.record(over.events);
            if exchange.pause(backoff.delay(parser.retry(), over.clean), &mut || true).is_err() {
                break;
            }
        }
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_a_message_arrives() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::default();
        backoff.record(true);
        assert_eq!(backoff.delay(None, true), ms(50));
        assert_eq!(backoff.delay(None, false), ms(100));
        let mut waits = Vec::new();
        for _ in 0..8 {
            backoff.record(false);
            waits.push(backoff.delay(None, true).as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(backoff.exhausted(7) && !backoff.exhausted(8));
        backoff.record(true);
        assert_eq!(backoff.delay(None, true), ms(50));
        for _ in 0..1000 {
            backoff.record(false);
        }
        assert_eq!(backoff.delay(None, false), MAX_PAUSE);
    }

    #[test]
    fn the_retry_time_of_the_server_has_a_lower_bound() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::default();
        for events in [true, false] {
            backoff.record(events);
            assert_eq!(backoff.delay(Some(500), true), ms(500));
            assert_eq!(backoff.delay(Some(0), true), ms(0));
        }
        for _ in 0..5 {
            backoff.record(false);
        }
        assert_eq!(backoff.delay(Some(0), true), ms(3200));
        assert_eq!(backoff.delay(Some(10_000), true), ms(10_000));
        assert_eq!(backoff.delay(Some(u64::MAX), true), MAX_RETRY);
    }
}
