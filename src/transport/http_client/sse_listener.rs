//! The GET stream of a session, and reconnection of streams that ended.
//!
//! Requests the stream, forwards its messages, reconnects when it ends, and ends the session when
//! the client is closed.
//!
//! Source: MCP 2025-11-25 basic/transports (listening, resumability, session management).
//!
//! # Invariants
//! - Pauses grow with every connection without a message, and only a message resets them. After too
//!   many the listener stops.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ureq::Body;
use ureq::http::{HeaderValue, Method, header};

use super::deadline::{Exchange, StopReason};
use super::legacy_sse;
use super::post::{End, Media, Over, Reading, media};
use super::{Job, Shared, close_pool, threads};
use crate::era::legacy::LAST_EVENT;
use crate::pool::Pool;
use crate::sync::lock;
use crate::transport::sse::{MEDIA_TYPE, Parser};

/// First pause after a stream with at least one message that the server ended.
const SOON: Duration = Duration::from_millis(50);
/// First pause otherwise; it doubles.
const FIRST: Duration = Duration::from_millis(100);
/// Longest pause that this client chooses.
const LONGEST: Duration = Duration::from_secs(5);
/// Longest pause that the server may set.
const RETRY: Duration = Duration::from_secs(24 * 3600);

/// Time that opening a session waits for its stream, so that no notification is lost. Some servers
/// send the head of the stream only with the first message.
const OPENING: Duration = Duration::from_millis(250);

/// Consecutive connections without a message.
#[derive(Debug, Default)]
pub(super) struct Fruitless(u32);

impl Fruitless {
    /// Counts a connection, or an attempt at one.
    pub(super) fn connection(&mut self, events: bool) {
        self.0 = if events { 0 } else { self.0.saturating_add(1) };
    }

    pub(super) fn too_many(&self, most: u32) -> bool {
        self.0 > most
    }

    /// Returns the pause before the next attempt. `retry` is the server's reconnection time in
    /// milliseconds; it is used unchanged until two attempts have failed.
    pub(super) fn delay(&self, retry: Option<u64>, clean: bool) -> Duration {
        let doubled = FIRST * (1 << self.0.saturating_sub(1).min(6));
        let own = if self.0 == 0 && clean { SOON } else { doubled.min(LONGEST) };
        match retry.map(|ms| Duration::from_millis(ms).min(RETRY)) {
            Some(wish) if self.0 < 2 => wish,
            Some(wish) => wish.max(own),
            None => own,
        }
    }
}

/// Result of a GET for a stream.
pub(super) enum Got {
    Stream(Body),
    /// Not now; try again.
    Later,
    /// The connection was refused.
    Nobody,
    /// The server has no such stream.
    Never,
}

/// Requests a stream: that of the session, or the events after an event.
pub(super) fn ask(
    shared: &Shared,
    exchange: &Exchange,
    headers: &[(String, String)],
    session: Option<&str>,
    last_event: &[u8],
) -> Got {
    let Ok(mut head) = shared.head(&shared.target.uri, Method::GET, headers, session) else {
        return Got::Never;
    };
    head.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(MEDIA_TYPE));
    if !last_event.is_empty() {
        let Ok(mut id) = HeaderValue::from_bytes(last_event) else { return Got::Never };
        id.set_sensitive(true);
        head.headers_mut().insert(LAST_EVENT, id);
    }
    match shared.agent.run(head) {
        Ok(response) => match response.status().as_u16() {
            200 if media(response.headers()) == Media::Events => Got::Stream(response.into_body()),
            // The server has not noticed the end of the last stream, or it is overloaded.
            408 | 409 | 425 | 429 | 500..=599 => Got::Later,
            // 405: no such stream; 404 and 410: no such session. A redirect or a lack of rights
            // does not change either.
            _ => Got::Never,
        },
        Err(_) if exchange.stop_reason().is_some() => Got::Never,
        Err(ureq::Error::Io(error)) if error.kind() == ErrorKind::ConnectionRefused => Got::Nobody,
        Err(_) => Got::Later,
    }
}

/// Keeps the session's stream open.
pub(super) struct Listener {
    /// Reads one stream at a time; that of the next session waits for the end of the last one.
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

    /// Opens the stream of a session, and ends that of an earlier one.
    pub(super) fn open(&self, shared: &Arc<Shared>, headers: Vec<(String, String)>) {
        let shared = Arc::clone(shared);
        lock(&self.current).headers.clone_from(&headers);
        let exchange = self.begin(move |exchange| listen(&shared, exchange, &headers));
        exchange.wait_met(OPENING);
    }

    /// Continues to read a stream that is open.
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
            reads.meet();
        });
        // OK to fail: without the thread only notifications and requests of the server are missing.
        if self.pool.try_submit(job).is_err() {
            exchange.meet();
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

    /// Ends the session at the server (2025-11-25 basic/transports, session management). The server
    /// may reject that.
    pub(super) fn end_session(&self, shared: &Shared, deadline: Instant) {
        let Some(session) = shared.session() else { return };
        let headers = lock(&self.current).headers.clone();
        let exchange = Arc::new(Exchange::until(None, deadline));
        let _entered = exchange.enter();
        if let Ok(head) = shared.head(&shared.target.uri, Method::DELETE, &headers, Some(&session)) {
            let _ = shared.agent.run(head);
        }
        shared.latch(None);
    }

    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Waits until it reads no more, or until `deadline`.
    pub(super) fn wait_idle(&self, deadline: Instant) {
        self.pool.wait_idle(deadline);
    }
}

/// Reads the session's stream until it is stopped or the server has none.
fn listen(shared: &Shared, exchange: &Arc<Exchange>, headers: &[(String, String)]) {
    let (Some(sink), session) = (shared.sink(), shared.session()) else { return };
    let mut parser = Parser::new(shared.frame_bytes);
    let mut fruitless = Fruitless::default();
    // OK to drop: the next message gets the same failure.
    let _ = shared.exchanging(exchange, || {
        while !fruitless.too_many(shared.reconnects) {
            let got = ask(shared, exchange, headers, session.as_deref(), parser.last_id());
            exchange.meet();
            let over = match got {
                Got::Stream(body) => {
                    let reading = Reading { exchange, sink: &*sink, turn: &mut || true };
                    match reading.run(body, &mut parser) {
                        End::Over(over) => over,
                        End::Answered | End::NobodyWaits => Over::default(),
                    }
                }
                Got::Later | Got::Nobody => Over::default(),
                Got::Never => break,
            };
            parser.restart();
            fruitless.connection(over.events);
            if exchange.pause(fruitless.delay(parser.retry(), over.clean), &mut || true).is_err() {
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
    fn waiting_grows_until_messages_come() {
        let ms = Duration::from_millis;
        let mut fruitless = Fruitless::default();
        fruitless.connection(true);
        assert_eq!(fruitless.delay(None, true), ms(50));
        assert_eq!(fruitless.delay(None, false), ms(100));
        let mut waits = Vec::new();
        for _ in 0..8 {
            fruitless.connection(false);
            waits.push(fruitless.delay(None, true).as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(fruitless.too_many(7) && !fruitless.too_many(8));
        fruitless.connection(true);
        assert_eq!(fruitless.delay(None, true), ms(50));
        for _ in 0..1000 {
            fruitless.connection(false);
        }
        assert_eq!(fruitless.delay(None, false), LONGEST);
    }

    #[test]
    fn the_server_may_ask_for_a_time_but_not_for_a_storm() {
        let ms = Duration::from_millis;
        let mut fruitless = Fruitless::default();
        for events in [true, false] {
            fruitless.connection(events);
            assert_eq!(fruitless.delay(Some(500), true), ms(500));
            assert_eq!(fruitless.delay(Some(0), true), ms(0));
        }
        for _ in 0..5 {
            fruitless.connection(false);
        }
        assert_eq!(fruitless.delay(Some(0), true), ms(3200));
        assert_eq!(fruitless.delay(Some(10_000), true), ms(10_000));
        assert_eq!(fruitless.delay(Some(u64::MAX), true), RETRY);
    }
}
