//! The limits of the HTTP server: the same page, continued.

use std::time::Duration;

use super::{MOST_BYTES, MOST_MS, Setting, setting};

#[cfg(doc)]
use super::Limits;

/// Caps and timeouts of the HTTP server, beside those of [`Limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Connections at once, 1 to 65536; fewer if the process may not open so many files. 1024: an
    /// idle one costs a few hundred bytes. Beyond it the one that has been idle for longest has to
    /// go; if none is idle, a new one is told 503. `TINYMCP_CONNECTIONS`.
    pub connections: usize,
    /// Event streams open at once, at most half of the connections there can be. 256: a quarter of
    /// the usual, so that calls still get through. `TINYMCP_STREAMS`.
    pub streams: usize,
    /// Bytes of one request's head. 16 KiB: twice what common servers accept, room for large
    /// tokens. `TINYMCP_HEAD_BYTES`.
    pub head_bytes: usize,
    /// Header fields of one request, 8 to 128. 100. `TINYMCP_HEAD_FIELDS`.
    pub head_fields: usize,
    /// Longest time from the first byte of a head to its last. 10 s. `TINYMCP_HEAD_MS`.
    pub head_timeout: Duration,
    /// How long a connection may be idle. 2 min: longer than the pools of common clients keep
    /// theirs. `TINYMCP_IDLE_MS`.
    pub idle_timeout: Duration,
    /// How long a body may take, beside the time that `body_rate` grants its bytes. 10 s.
    /// `TINYMCP_BODY_MS`.
    pub body_timeout: Duration,
    /// Bytes per second that a body must keep up once `body_timeout` is over. 16 KiB: slower than
    /// any usable network. `TINYMCP_BODY_RATE`.
    pub body_rate: usize,
    /// Bytes of bodies that are still arriving, on all connections. 3 MiB: a few large ones, or
    /// many of the usual, which mostly arrive whole and do not count. Beyond it a request is told
    /// 503; one alone may be larger. `TINYMCP_ARRIVING_BYTES`.
    pub arriving_bytes: usize,
    /// Bytes of answers that wait for slow peers, on all connections. 8 MiB, which only large
    /// answers to many of them reach; one alone may be larger. An eighth for event streams whose
    /// readers are behind. From half of it on, those that read nothing for a second are cut.
    /// `TINYMCP_UNSENT_BYTES`.
    pub unsent_bytes: usize,
    /// Longest time a peer may take to read anything of what waits for it. 10 s.
    /// `TINYMCP_STALL_MS`.
    pub stall_timeout: Duration,
    /// How long an event stream may be silent before a comment is sent, so that proxies do not
    /// close it and dead peers are noticed. 15 s. `TINYMCP_COMMENT_MS`.
    pub comment_interval: Duration,
    /// Longest pause of a peer whose request was refused, while the rest of the request is read and
    /// dropped so that the peer can read the answer; 64 MiB and `body_timeout` at most in all. 2 s.
    /// `TINYMCP_LINGER_MS`.
    pub linger: Duration,
    /// Sessions open at once, of clients before 2026-07-28. 1024: one costs about a kilobyte.
    /// Beyond it the one that has been idle for longest has to go. `TINYMCP_SESSIONS`.
    pub sessions: usize,
    /// How long a session may be idle: no call, no event stream. 30 min: clients open another one
    /// without asking anybody. `TINYMCP_SESSION_MS`.
    pub session_timeout: Duration,
    /// Events of one session that are kept for a client that comes back for them. 256.
    /// `TINYMCP_REPLAY`.
    pub replay: usize,
    /// Bytes of such events of all sessions; one session gets a quarter. 1 MiB.
    /// `TINYMCP_REPLAY_BYTES`.
    pub replay_bytes: usize,
    /// After how long a client may come back whose event stream ended early. 1 s.
    /// `TINYMCP_RETRY_MS`.
    pub retry: Duration,
}

impl HttpLimits {
    /// What [`Limits::clamped`] is to the others.
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

/// Those of the HTTP server.
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
