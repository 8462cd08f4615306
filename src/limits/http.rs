//! Limits of the HTTP server.

use std::time::Duration;

use super::{MOST_BYTES, MOST_MS, Setting, setting};

#[cfg(doc)]
use super::Limits;

/// Caps and timeouts of the HTTP server, beside those of [`Limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Connections at once, 1 to 65536; fewer if the process may not open so many files. 1024: an
    /// idle one costs a few hundred bytes. Beyond it the longest idle one is closed; if none is
    /// idle, a new one gets status 503. `TINYMCP_CONNECTIONS`.
    pub connections: usize,
    /// Event streams open at once, at most half of the connections. 256: a quarter of the default,
    /// which leaves room for calls. `TINYMCP_STREAMS`.
    pub streams: usize,
    /// Bytes of one request's head. 16 KiB: twice what common servers accept, room for large
    /// tokens. `TINYMCP_HEAD_BYTES`.
    pub head_bytes: usize,
    /// Header fields of one request, 8 to 128. 100. `TINYMCP_HEAD_FIELDS`.
    pub head_fields: usize,
    /// Longest time from the first byte of a head to its last. 10 s. `TINYMCP_HEAD_MS`.
    pub head_timeout: Duration,
    /// Longest idle time of a connection. 2 min: longer than that of common clients.
    /// `TINYMCP_IDLE_MS`.
    pub idle_timeout: Duration,
    /// Longest time for a body, in addition to the time that `body_rate` grants its bytes. 10 s.
    /// `TINYMCP_BODY_MS`.
    pub body_timeout: Duration,
    /// Lowest bytes per second of a body after `body_timeout`. 16 KiB: slower than any usable
    /// network. `TINYMCP_BODY_RATE`.
    pub body_rate: usize,
    /// Bytes of partly received bodies on all connections. 3 MiB: a few large ones. Most bodies
    /// arrive whole and do not count. Beyond it a request gets status 503; a single one may be
    /// larger. `TINYMCP_ARRIVING_BYTES`.
    pub arriving_bytes: usize,
    /// Bytes of responses that wait for slow peers, on all connections. 8 MiB; a single response
    /// may be larger. An eighth is for event streams with slow readers. From half of it on,
    /// connections without a read for a second are closed. `TINYMCP_UNSENT_BYTES`.
    pub unsent_bytes: usize,
    /// Longest time in which a peer reads nothing of a pending response. 10 s. `TINYMCP_STALL_MS`.
    pub stall_timeout: Duration,
    /// Time without an event after which a comment is sent. It keeps proxies from closing the
    /// stream and detects dead peers. 15 s. `TINYMCP_COMMENT_MS`.
    pub comment_interval: Duration,
    /// Longest pause of a peer whose request was rejected. The rest of the request is read and
    /// dropped, at most 64 MiB and for `body_timeout`, so that the peer reads the response. 2 s.
    /// `TINYMCP_LINGER_MS`.
    pub linger: Duration,
    /// Sessions open at once, of clients before 2026-07-28. 1024: one takes about a kilobyte.
    /// Beyond it the longest idle one is closed. `TINYMCP_SESSIONS`.
    pub sessions: usize,
    /// Longest idle time of a session, without a call or an event stream. 30 min: clients open a
    /// new one automatically. `TINYMCP_SESSION_MS`.
    pub session_timeout: Duration,
    /// Events of one session that a client can resume from. 256. `TINYMCP_REPLAY`.
    pub replay: usize,
    /// Bytes of such events of all sessions; one session gets a quarter. 1 MiB.
    /// `TINYMCP_REPLAY_BYTES`.
    pub replay_bytes: usize,
    /// Time after which a client may reconnect to an event stream that ended early. 1 s.
    /// `TINYMCP_RETRY_MS`.
    pub retry: Duration,
}

impl HttpLimits {
    /// Clamps these limits, as `Limits::clamped` does the others.
    pub(super) fn clamp(&mut self, most: Duration) {
        self.connections = self.connections.clamp(1, 65_536);
        self.head_bytes = self.head_bytes.clamp(1024, 1 << 20);
        for time in [
            &mut self.head_timeout,
            &mut self.idle_timeout,
            &mut self.body_timeout,
            &mut self.stall_timeout,
            &mut self.comment_interval,
            &mut self.linger,
        ] {
            *time = most.min(*time);
        }
    }
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            connections: 1024,
            streams: 256,
            head_bytes: 16 << 10,
            head_fields: 100,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(10),
            body_rate: 16 << 10,
            arriving_bytes: 3 << 20,
            unsent_bytes: 8 << 20,
            stall_timeout: Duration::from_secs(10),
            comment_interval: Duration::from_secs(15),
            linger: Duration::from_secs(2),
            sessions: 1024,
            session_timeout: Duration::from_secs(30 * 60),
            replay: 256,
            replay_bytes: 1 << 20,
            retry: Duration::from_secs(1),
        }
    }
}

/// Settings of the HTTP server.
pub(super) const SETTINGS: &[Setting] = &[
    setting("TINYMCP_CONNECTIONS", 1..=65_536, |l, n| l.http.connections = n as usize),
    setting("TINYMCP_STREAMS", 1..=65_536, |l, n| l.http.streams = n as usize),
    setting("TINYMCP_HEAD_BYTES", 1024..=(1 << 20), |l, n| l.http.head_bytes = n as usize),
    setting("TINYMCP_HEAD_FIELDS", 8..=128, |l, n| l.http.head_fields = n as usize),
    setting("TINYMCP_HEAD_MS", 100..=MOST_MS, |l, n| l.http.head_timeout = Duration::from_millis(n)),
    setting("TINYMCP_IDLE_MS", 100..=MOST_MS, |l, n| l.http.idle_timeout = Duration::from_millis(n)),
    setting("TINYMCP_BODY_MS", 100..=MOST_MS, |l, n| l.http.body_timeout = Duration::from_millis(n)),
    setting("TINYMCP_BODY_RATE", 1..=MOST_BYTES, |l, n| l.http.body_rate = n as usize),
    setting("TINYMCP_ARRIVING_BYTES", 4096..=MOST_BYTES, |l, n| l.http.arriving_bytes = n as usize),
    setting("TINYMCP_UNSENT_BYTES", 4096..=MOST_BYTES, |l, n| l.http.unsent_bytes = n as usize),
    setting("TINYMCP_STALL_MS", 100..=MOST_MS, |l, n| l.http.stall_timeout = Duration::from_millis(n)),
    setting("TINYMCP_COMMENT_MS", 100..=MOST_MS, |l, n| l.http.comment_interval = Duration::from_millis(n)),
    setting("TINYMCP_LINGER_MS", 1..=MOST_MS, |l, n| l.http.linger = Duration::from_millis(n)),
    setting("TINYMCP_SESSIONS", 1..=65_536, |l, n| l.http.sessions = n as usize),
    setting("TINYMCP_SESSION_MS", 100..=MOST_MS, |l, n| l.http.session_timeout = Duration::from_millis(n)),
    setting("TINYMCP_REPLAY", 0..=65_536, |l, n| l.http.replay = n as usize),
    setting("TINYMCP_REPLAY_BYTES", 0..=MOST_BYTES, |l, n| l.http.replay_bytes = n as usize),
    setting("TINYMCP_RETRY_MS", 0..=MOST_MS, |l, n| l.http.retry = Duration::from_millis(n)),
];
