//! Every cap and timeout of the library on one page.
//!
//! The defaults are sized for a small board and are meant to be right for most servers. Each can
//! be set in code, and each from the environment of a deployed binary
//! ([`Limits::from_env`]; the serving functions read it unless the program set its own limits).
//! A value that cannot be read, or that lies outside its range, is an error when serving starts:
//! a limit that silently fell back to its default would be no limit.

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::json::ParseLimits;

/// Caps and timeouts of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one incoming message (a line on stdio). 4 MiB: room for a large file as base64,
    /// and small enough for a board with 64 MiB. `TINYMCP_FRAME_BYTES`.
    pub frame_bytes: usize,
    /// Nesting of one message. 128: ten times what real tool schemas reach. `TINYMCP_JSON_DEPTH`.
    pub json_depth: u32,
    /// Values and member names in one message. 250,000: 16 bytes each, so 4 MB at most.
    /// `TINYMCP_JSON_NODES`.
    pub json_nodes: u32,
    /// Threads that run handlers, 1 to 64. 4: the cores of a common board. `TINYMCP_WORKERS`.
    pub workers: usize,
    /// Accepted calls that wait for a worker, 1 to 65536. 256: a full queue stops the reading of
    /// input, so this only smooths bursts. `TINYMCP_QUEUE`.
    pub queue: usize,
    /// Stack of a worker thread in bytes, at least 64 KiB. 512 KiB: untouched pages cost nothing.
    /// `TINYMCP_WORKER_STACK`.
    pub worker_stack: usize,
    /// Longest time a handler may take before its call is flagged as cancelled and answered with
    /// an error; zero turns the watchdog off. 30 s: the shortest timeout of common hosts.
    /// `TINYMCP_DEADLINE_MS`.
    pub handler_deadline: Duration,
    /// How long running calls may go on after the end of input or SIGTERM. 5 s: half of what
    /// service managers wait before they kill. `TINYMCP_GRACE_MS`.
    pub grace: Duration,
    /// How long a call may wait for the user, the model or the roots in a legacy session, and how
    /// long a sealed `requestState` stays valid. 10 min: people go for coffee.
    /// `TINYMCP_ASK_MS`.
    pub ask_timeout: Duration,
    /// Calls that wait for the client's answers at once. 64: each keeps its message in memory.
    /// `TINYMCP_PARKED`.
    pub parked: usize,
    /// Bytes of one sealed `requestState`. 64 KiB: it travels with every retry.
    /// `TINYMCP_STATE_BYTES`.
    pub state_bytes: usize,
    /// Entries of one list page, 1 to 65536. 1000: most clients read only the first page.
    /// `TINYMCP_PAGE`.
    pub page: usize,
    /// Subscribed URIs of one session or listen request. 256. `TINYMCP_SUBSCRIPTIONS`.
    pub subscriptions: usize,
    /// Listen requests open at once on one connection. 32. `TINYMCP_LISTENS`.
    pub listens: usize,
    /// Bytes of memory that the messages of calls in flight take, and once more those of calls that
    /// wait for the client. 16 MiB: four of the largest. Beyond it the next call is taken in when
    /// others are done; until then nothing is read. `TINYMCP_IN_FLIGHT_BYTES`.
    pub in_flight_bytes: usize,
    /// Bytes of answers that wait while the peer does not read; then writers wait too. 1 MiB.
    /// `TINYMCP_BACKLOG_BYTES`.
    pub backlog_bytes: usize,
    /// Lowers the process's address space (RLIMIT_AS) to this many bytes when serving starts;
    /// zero leaves it alone. Off by default; best effort. `TINYMCP_ADDRESS_SPACE`.
    pub address_space: u64,
    /// What only the HTTP server has.
    #[cfg(feature = "http-server")]
    pub http: HttpLimits,
}

/// Caps and timeouts of the HTTP server, beside those of [`Limits`].
#[cfg(feature = "http-server")]
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
    /// Bytes of answers that wait for peers that do not read, on all connections. 3 MiB: few
    /// answers do not fit into what the system buffers. One alone may be larger; event streams have
    /// half of it, and from half of it on those that keep it waiting for longest are cut.
    /// `TINYMCP_UNSENT_BYTES`.
    pub unsent_bytes: usize,
    /// Longest time a peer may take to read anything of what waits for it. 10 s.
    /// `TINYMCP_STALL_MS`.
    pub stall_timeout: Duration,
    /// How long an event stream may be silent before a comment is sent, so that proxies do not
    /// close it and dead peers are noticed. 15 s. `TINYMCP_COMMENT_MS`.
    pub comment_interval: Duration,
    /// How long the rest of a refused request is read and dropped, so that the peer gets to read
    /// why. 2 s. `TINYMCP_LINGER_MS`.
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

#[cfg(feature = "http-server")]
impl HttpLimits {
    /// What [`Limits::clamped`] is to the others.
    fn clamp(&mut self, most: Duration) {
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

#[cfg(feature = "http-server")]
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
            unsent_bytes: 3 << 20,
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

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_bytes: 4 << 20,
            json_depth: 128,
            json_nodes: 250_000,
            workers: 4,
            queue: 256,
            worker_stack: 512 << 10,
            handler_deadline: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            ask_timeout: Duration::from_secs(600),
            parked: 64,
            state_bytes: 64 << 10,
            page: 1000,
            subscriptions: 256,
            listens: 32,
            in_flight_bytes: 16 << 20,
            backlog_bytes: 1 << 20,
            address_space: 0,
            #[cfg(feature = "http-server")]
            http: HttpLimits::default(),
        }
    }
}

/// One settable limit: its variable, its range, and where the number goes.
struct Setting {
    variable: &'static str,
    least: u64,
    most: u64,
    set: fn(&mut Limits, u64),
}

/// Times stay below 24 days so that their milliseconds fit in 31 bits.
const MOST_MS: u64 = 1 << 31;
/// Byte counts stay below 1 GiB so that offsets fit in 32 bits with room to spare.
const MOST_BYTES: u64 = 1 << 30;

/// Numbers are range-checked before `set` runs, so the casts below lose nothing.
const SETTINGS: &[Setting] = &[
    Setting {
        variable: "TINYMCP_FRAME_BYTES",
        least: 1024,
        most: MOST_BYTES,
        set: |l, n| l.frame_bytes = n as usize,
    },
    Setting { variable: "TINYMCP_JSON_DEPTH", least: 8, most: 1 << 20, set: |l, n| l.json_depth = n as u32 },
    Setting { variable: "TINYMCP_JSON_NODES", least: 64, most: 1 << 28, set: |l, n| l.json_nodes = n as u32 },
    Setting { variable: "TINYMCP_WORKERS", least: 1, most: 64, set: |l, n| l.workers = n as usize },
    Setting { variable: "TINYMCP_QUEUE", least: 1, most: 65_536, set: |l, n| l.queue = n as usize },
    Setting {
        variable: "TINYMCP_WORKER_STACK",
        least: 64 << 10,
        most: MOST_BYTES,
        set: |l, n| l.worker_stack = n as usize,
    },
    Setting {
        variable: "TINYMCP_DEADLINE_MS",
        least: 0,
        most: MOST_MS,
        set: |l, n| l.handler_deadline = Duration::from_millis(n),
    },
    Setting {
        variable: "TINYMCP_GRACE_MS",
        least: 0,
        most: MOST_MS,
        set: |l, n| l.grace = Duration::from_millis(n),
    },
    Setting {
        variable: "TINYMCP_ASK_MS",
        least: 1,
        most: MOST_MS,
        set: |l, n| l.ask_timeout = Duration::from_millis(n),
    },
    Setting { variable: "TINYMCP_PARKED", least: 1, most: 65_536, set: |l, n| l.parked = n as usize },
    Setting {
        variable: "TINYMCP_STATE_BYTES",
        least: 256,
        most: MOST_BYTES,
        set: |l, n| l.state_bytes = n as usize,
    },
    Setting { variable: "TINYMCP_PAGE", least: 1, most: 65_536, set: |l, n| l.page = n as usize },
    Setting {
        variable: "TINYMCP_SUBSCRIPTIONS",
        least: 1,
        most: 65_536,
        set: |l, n| l.subscriptions = n as usize,
    },
    Setting { variable: "TINYMCP_LISTENS", least: 1, most: 65_536, set: |l, n| l.listens = n as usize },
    Setting {
        variable: "TINYMCP_IN_FLIGHT_BYTES",
        least: 4096,
        most: MOST_BYTES,
        set: |l, n| l.in_flight_bytes = n as usize,
    },
    Setting {
        variable: "TINYMCP_BACKLOG_BYTES",
        least: 4096,
        most: MOST_BYTES,
        set: |l, n| l.backlog_bytes = n as usize,
    },
    Setting { variable: "TINYMCP_ADDRESS_SPACE", least: 0, most: u64::MAX, set: |l, n| l.address_space = n },
];

/// Those of the HTTP server.
#[cfg(feature = "http-server")]
const HTTP_SETTINGS: &[Setting] = &[
    Setting {
        variable: "TINYMCP_CONNECTIONS",
        least: 1,
        most: 65_536,
        set: |l, n| l.http.connections = n as usize,
    },
    Setting { variable: "TINYMCP_STREAMS", least: 1, most: 65_536, set: |l, n| l.http.streams = n as usize },
    Setting {
        variable: "TINYMCP_HEAD_BYTES",
        least: 1024,
        most: 1 << 20,
        set: |l, n| l.http.head_bytes = n as usize,
    },
    Setting {
        variable: "TINYMCP_HEAD_FIELDS",
        least: 8,
        most: 128,
        set: |l, n| l.http.head_fields = n as usize,
    },
    Setting {
        variable: "TINYMCP_HEAD_MS",
        least: 100,
        most: MOST_MS,
        set: |l, n| l.http.head_timeout = Duration::from_millis(n),
    },
    Setting {
        variable: "TINYMCP_IDLE_MS",
        least: 100,
        most: MOST_MS,
        set: |l, n| l.http.idle_timeout = Duration::from_millis(n),
    },
    Setting {
        variable: "TINYMCP_BODY_MS",
        least: 100,
        most: MOST_MS,
        set: |l, n| l.http.body_timeout = Duration::from_millis(n),
    },
    Setting {
        variable: "TINYMCP_BODY_RATE",
        least: 1,
        most: MOST_BYTES,
        set: |l, n| l.http.body_rate = n as usize,
    },
    Setting {
        variable: "TINYMCP_ARRIVING_BYTES",
        least: 4096,
        most: MOST_BYTES,
        set: |l, n| l.http.arriving_bytes = n as usize,
    },
    Setting {
        variable: "TINYMCP_UNSENT_BYTES",
        least: 4096,
        most: MOST_BYTES,
        set: |l, n| l.http.unsent_bytes = n as usize,
    },
    Setting {
        variable: "TINYMCP_STALL_MS",
        least: 100,
        most: MOST_MS,
        set: |l, n| l.http.stall_timeout = Duration::from_millis(n),
    },
    Setting {
        variable: "TINYMCP_COMMENT_MS",
        least: 100,
        most: MOST_MS,
        set: |l, n| l.http.comment_interval = Duration::from_millis(n),
    },
    Setting {
        variable: "TINYMCP_LINGER_MS",
        least: 1,
        most: MOST_MS,
        set: |l, n| l.http.linger = Duration::from_millis(n),
    },
    Setting {
        variable: "TINYMCP_SESSIONS",
        least: 1,
        most: 65_536,
        set: |l, n| l.http.sessions = n as usize,
    },
    Setting {
        variable: "TINYMCP_SESSION_MS",
        least: 100,
        most: MOST_MS,
        set: |l, n| l.http.session_timeout = Duration::from_millis(n),
    },
    Setting { variable: "TINYMCP_REPLAY", least: 0, most: 65_536, set: |l, n| l.http.replay = n as usize },
    Setting {
        variable: "TINYMCP_REPLAY_BYTES",
        least: 0,
        most: MOST_BYTES,
        set: |l, n| l.http.replay_bytes = n as usize,
    },
    Setting {
        variable: "TINYMCP_RETRY_MS",
        least: 0,
        most: MOST_MS,
        set: |l, n| l.http.retry = Duration::from_millis(n),
    },
];
#[cfg(not(feature = "http-server"))]
const HTTP_SETTINGS: &[Setting] = &[];

impl Limits {
    /// The defaults, changed by the `TINYMCP_…` variables of the environment.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] names the variable that is not a number or out of range.
    pub fn from_env() -> Result<Limits, Error> {
        Limits::from_lookup(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
    }

    /// The defaults, changed by what `lookup` finds.
    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Limits, Error> {
        let mut limits = Limits::default();
        for setting in SETTINGS.iter().chain(HTTP_SETTINGS) {
            let Some(text) = lookup(setting.variable) else { continue };
            match text.trim().parse::<u64>() {
                Ok(n) if (setting.least..=setting.most).contains(&n) => (setting.set)(&mut limits, n),
                _ => {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        format!(
                            "{} is {text:?}: expected a whole number from {} to {}",
                            setting.variable, setting.least, setting.most
                        ),
                    ));
                }
            }
        }
        Ok(limits)
    }

    /// The limits that set in code are held to as well: a worker count of zero would hang.
    pub(crate) fn clamped(mut self) -> Limits {
        self.workers = self.workers.clamp(1, 64);
        self.queue = self.queue.clamp(1, 65_536);
        self.page = self.page.clamp(1, 65_536);
        self.worker_stack = self.worker_stack.max(64 << 10);
        self.frame_bytes = self.frame_bytes.clamp(1024, MOST_BYTES as usize);
        // "For ever" in code: a point of time so far away cannot be told.
        let most = Duration::from_millis(MOST_MS);
        for time in [&mut self.handler_deadline, &mut self.grace, &mut self.ask_timeout] {
            *time = most.min(*time);
        }
        #[cfg(feature = "http-server")]
        self.http.clamp(most);
        self
    }

    /// What a message is parsed with: names must be unique, so that no two readers of a message
    /// can see two different messages.
    pub(crate) fn parse(&self) -> ParseLimits {
        ParseLimits {
            bytes: self.frame_bytes,
            depth: self.json_depth,
            nodes: self.json_nodes,
            unique_names: true,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;

    #[test]
    fn every_variable_is_read_and_range_checked() {
        for setting in SETTINGS.iter().chain(HTTP_SETTINGS) {
            let with =
                |text: String| Limits::from_lookup(|name| (name == setting.variable).then(|| text.clone()));
            let changed = with((setting.least + 1).to_string());
            assert_ne!(changed.as_ref().ok(), Some(&Limits::default()), "{}", setting.variable);
            let mut bad = vec!["".to_string(), "x".into(), "-1".into(), "1.5".into()];
            if setting.least > 0 {
                bad.push((setting.least - 1).to_string());
            }
            if setting.most < u64::MAX {
                bad.push((setting.most + 1).to_string());
            }
            for text in bad {
                let error = with(text.clone()).expect_err(&text);
                assert_eq!(error.kind(), ErrorKind::Invalid);
                assert!(error.to_string().contains(setting.variable), "{error}");
            }
        }
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(Limits::from_lookup(|_| None).ok(), Some(Limits::default()));
    }
}
