//! Limits and timeouts of the library.
//!
//! The defaults fit a single-board computer and most servers. Each limit can be set in code and by
//! an environment variable ([`Limits::from_env`]; the serving functions read it unless the program
//! sets its own limits). An invalid or out-of-range value is a start-up error. Unknown `TINYMCP_*`
//! variables are reported on stderr.

#[cfg(feature = "http-server")]
mod http;
#[cfg(feature = "schema")]
mod schema;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::json::ParseLimits;

#[cfg(feature = "http-server")]
pub use http::HttpLimits;
#[cfg(feature = "schema")]
pub use schema::SchemaLimits;

/// Limits and timeouts of one server or client.
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
    /// Accepted calls that wait for a worker, 1 to 65536. 256: a full queue pauses the reading of
    /// input, so it only smooths bursts. `TINYMCP_QUEUE`.
    pub queue: usize,
    /// Stack of a worker thread in bytes, at least 64 KiB. 512 KiB: untouched pages cost nothing.
    /// `TINYMCP_WORKER_STACK`.
    pub worker_stack: usize,
    /// Longest time a handler may take before its call is flagged as cancelled and answered with
    /// an error; zero turns the watchdog off. 30 s: the shortest timeout of common hosts.
    /// `TINYMCP_DEADLINE_MS`.
    pub handler_deadline: Duration,
    /// Longest time that running calls may continue after the end of input or SIGTERM. 5 s: half of
    /// the time that service managers wait before they kill. `TINYMCP_GRACE_MS`.
    pub grace: Duration,
    /// Longest time that a call waits for the user, the model or the roots in a legacy session, and
    /// validity of a sealed `requestState`. 10 min: people take a break. `TINYMCP_ASK_MS`.
    pub ask_timeout: Duration,
    /// Parked calls of one client. 64: each holds its message in memory. For all clients of an HTTP
    /// server the bound is this or the number of sessions, whichever is larger. `TINYMCP_PARKED`.
    pub parked: usize,
    /// Bytes of one sealed `requestState`. 64 KiB: it travels with every retry.
    /// `TINYMCP_STATE_BYTES`.
    pub state_bytes: usize,
    /// Entries of one list page, 1 to 65536. 1000: most clients read only the first page.
    /// `TINYMCP_PAGE`.
    pub page: usize,
    /// Subscribed URIs of one session or listen request. 256. `TINYMCP_SUBSCRIPTIONS`.
    pub subscriptions: usize,
    /// Bytes of those URIs. 32 KiB: 128 for each of 256. `TINYMCP_SUBSCRIPTION_BYTES`.
    pub subscription_bytes: usize,
    /// Listen requests open at once on one connection. 32. `TINYMCP_LISTENS`.
    pub listens: usize,
    /// Bytes of the messages of calls in flight, and the same again for parked calls. 16 MiB: four
    /// of the largest. Beyond it nothing is read until a call ends. In a client: bytes of the
    /// server's requests, and the same again of its notifications, that wait for handlers.
    /// `TINYMCP_IN_FLIGHT_BYTES`.
    pub in_flight_bytes: usize,
    /// Bytes of responses that wait for a peer that does not read; beyond it writers block. 1 MiB.
    /// `TINYMCP_BACKLOG_BYTES`.
    pub backlog_bytes: usize,
    /// Lowers the process's address space (RLIMIT_AS) to this many bytes when serving starts, as
    /// far as possible; zero changes nothing. Off by default. An allocation beyond it aborts the
    /// program, a thread beyond it is not started. `TINYMCP_ADDRESS_SPACE`.
    pub address_space: u64,
    /// Time that a client waits for a response, unless the call sets its own. 60 s: as common
    /// hosts. `TINYMCP_CALL_MS`.
    #[cfg(feature = "client")]
    pub call_timeout: Duration,
    /// Longest total wait if progress notifications extend it. 1 h: a flashed device, a large
    /// build. `TINYMCP_CALL_LONGEST_MS`.
    #[cfg(feature = "client")]
    pub call_longest: Duration,
    /// Time that a client waits for the response to the probe. Then it assumes the session
    /// protocol, whose servers may ignore an unknown method. 10 s: some servers need seconds to
    /// start. `TINYMCP_PROBE_MS`.
    #[cfg(feature = "client")]
    pub probe_timeout: Duration,
    /// Calls of one client in flight, 1 to 65536. 1024; the next one is rejected as busy.
    /// `TINYMCP_CALLS`.
    #[cfg(feature = "client")]
    pub calls: usize,
    /// Rounds of input that one call may request before it fails, 1 to 1000. 10. `TINYMCP_ROUNDS`.
    #[cfg(feature = "client")]
    pub rounds: u32,
    /// Entries of one list that a client collects over all pages; more is an error. 10,000.
    /// `TINYMCP_LIST_ENTRIES`.
    #[cfg(feature = "client")]
    pub list_entries: usize,
    /// Bytes of the pages of one list that a client collects; more is an error. 16 MiB: four of the
    /// largest messages. `TINYMCP_LIST_BYTES`.
    #[cfg(feature = "client")]
    pub list_bytes: usize,
    /// Pages of one list that a client requests; more is an error. 1000: bounds a server that never
    /// ends its list. `TINYMCP_LIST_PAGES`.
    #[cfg(feature = "client")]
    pub list_pages: usize,
    /// Threads of one client that run handlers for the server's requests and notifications, 1 to
    /// 64. 2: they start on demand. `TINYMCP_HANDLERS`.
    #[cfg(feature = "client")]
    pub handlers: usize,
    /// Notifications, and requests of the server, that wait for those threads, 1 to 65536. More
    /// notifications are dropped, more requests rejected as busy. 256. `TINYMCP_EVENTS`.
    #[cfg(feature = "client")]
    pub events: usize,
    /// Bytes of responses that a client caches while they are fresh; 0 caches none. The same again
    /// for output schemas of tools, if results are checked. 1 MiB. `TINYMCP_CACHE_BYTES`.
    #[cfg(feature = "client")]
    pub cache_bytes: usize,
    /// Time for a child process to exit after the end of its input, and the same again after
    /// SIGTERM. 2 s each. `TINYMCP_CHILD_EXIT_MS`.
    #[cfg(feature = "client")]
    pub child_exit: Duration,
    /// Bytes of the end of a child's stderr that are stored if it is captured. 16 KiB.
    /// `TINYMCP_STDERR_BYTES`.
    #[cfg(feature = "client")]
    pub stderr_bytes: usize,
    /// Servers of one hub, 1 to 65536. 64. `TINYMCP_SERVERS`.
    pub servers: usize,
    /// Time that a hub waits for the list of each server; for one that connects, from the start of
    /// the connection. A list that is late is reported as missing. A server whose list was late
    /// gets a tenth until it responds. 10 s: as people wait for a host to start. `TINYMCP_LIST_MS`.
    pub list_timeout: Duration,
    /// Restarts in a row of a server that ended by itself; 0 disables them. 5, after pauses of half
    /// a second, doubling. `TINYMCP_RESTARTS`.
    pub restarts: u32,
    /// Threads of one HTTP client for started calls and listen streams, 1 to 64, and idle
    /// connections that it keeps. 64: a blocking call needs no thread. `TINYMCP_HTTP_THREADS`.
    #[cfg(feature = "http-client")]
    pub http_threads: usize,
    /// Time that an HTTP client tries to connect, over all addresses of a name. 10 s: three lost
    /// packets. `TINYMCP_CONNECT_MS`.
    #[cfg(feature = "http-client")]
    pub connect_timeout: Duration,
    /// Connections in a row without a message after which the client gives up an event stream. 100:
    /// about eight minutes. `TINYMCP_RECONNECTS`.
    #[cfg(feature = "http-client")]
    pub reconnects: u32,
    /// Refused connections in a row, at least one, after which the client does not resume the
    /// broken stream of a call. 7: about six seconds, enough for a server to restart.
    /// `TINYMCP_REFUSALS`.
    #[cfg(feature = "http-client")]
    pub refusals: u32,
    /// Limits for schemas and validations.
    #[cfg(feature = "schema")]
    pub schema: SchemaLimits,
    /// Limits of the HTTP server.
    #[cfg(feature = "http-server")]
    pub http: HttpLimits,
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
            subscription_bytes: 32 << 10,
            listens: 32,
            in_flight_bytes: 16 << 20,
            backlog_bytes: 1 << 20,
            address_space: 0,
            #[cfg(feature = "client")]
            call_timeout: Duration::from_secs(60),
            #[cfg(feature = "client")]
            call_longest: Duration::from_secs(3600),
            #[cfg(feature = "client")]
            probe_timeout: Duration::from_secs(10),
            #[cfg(feature = "client")]
            calls: 1024,
            #[cfg(feature = "client")]
            rounds: 10,
            #[cfg(feature = "client")]
            list_entries: 10_000,
            #[cfg(feature = "client")]
            list_bytes: 16 << 20,
            #[cfg(feature = "client")]
            list_pages: 1000,
            #[cfg(feature = "client")]
            handlers: 2,
            #[cfg(feature = "client")]
            events: 256,
            #[cfg(feature = "client")]
            cache_bytes: 1 << 20,
            #[cfg(feature = "client")]
            child_exit: Duration::from_secs(2),
            #[cfg(feature = "client")]
            stderr_bytes: 16 << 10,
            servers: 64,
            list_timeout: Duration::from_secs(10),
            restarts: 5,
            #[cfg(feature = "http-client")]
            http_threads: 64,
            #[cfg(feature = "http-client")]
            connect_timeout: Duration::from_secs(10),
            #[cfg(feature = "http-client")]
            reconnects: 100,
            #[cfg(feature = "http-client")]
            refusals: 7,
            #[cfg(feature = "schema")]
            schema: SchemaLimits::default(),
            #[cfg(feature = "http-server")]
            http: HttpLimits::default(),
        }
    }
}

/// One limit: its variable, its range and its setter.
struct Setting {
    variable: &'static str,
    least: u64,
    most: u64,
    set: fn(&mut Limits, u64),
}

/// A row of the tables.
const fn setting(variable: &'static str, range: RangeInclusive<u64>, set: fn(&mut Limits, u64)) -> Setting {
    Setting { variable, least: *range.start(), most: *range.end(), set }
}

/// Upper bound for user-supplied durations: `Instant + Duration` can overflow beyond it.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Times stay below 24 days so that their milliseconds fit in 31 bits.
const MOST_MS: u64 = 1 << 31;
/// Byte counts stay below 1 GiB so that offsets fit in 32 bits with room to spare.
const MOST_BYTES: u64 = 1 << 30;

/// Numbers are range-checked before `set` runs, so the casts below lose nothing.
const SETTINGS: &[Setting] = &[
    setting("TINYMCP_FRAME_BYTES", 1024..=MOST_BYTES, |l, n| l.frame_bytes = n as usize),
    setting("TINYMCP_JSON_DEPTH", 8..=(1 << 20), |l, n| l.json_depth = n as u32),
    setting("TINYMCP_JSON_NODES", 64..=(1 << 28), |l, n| l.json_nodes = n as u32),
    setting("TINYMCP_WORKERS", 1..=64, |l, n| l.workers = n as usize),
    setting("TINYMCP_QUEUE", 1..=65_536, |l, n| l.queue = n as usize),
    setting("TINYMCP_WORKER_STACK", (64 << 10)..=MOST_BYTES, |l, n| l.worker_stack = n as usize),
    setting("TINYMCP_DEADLINE_MS", 0..=MOST_MS, |l, n| l.handler_deadline = Duration::from_millis(n)),
    setting("TINYMCP_GRACE_MS", 0..=MOST_MS, |l, n| l.grace = Duration::from_millis(n)),
    setting("TINYMCP_ASK_MS", 1..=MOST_MS, |l, n| l.ask_timeout = Duration::from_millis(n)),
    setting("TINYMCP_PARKED", 1..=65_536, |l, n| l.parked = n as usize),
    setting("TINYMCP_STATE_BYTES", 256..=MOST_BYTES, |l, n| l.state_bytes = n as usize),
    setting("TINYMCP_PAGE", 1..=65_536, |l, n| l.page = n as usize),
    setting("TINYMCP_SUBSCRIPTIONS", 1..=65_536, |l, n| l.subscriptions = n as usize),
    setting("TINYMCP_SUBSCRIPTION_BYTES", 256..=MOST_BYTES, |l, n| l.subscription_bytes = n as usize),
    setting("TINYMCP_LISTENS", 1..=65_536, |l, n| l.listens = n as usize),
    setting("TINYMCP_IN_FLIGHT_BYTES", 4096..=MOST_BYTES, |l, n| l.in_flight_bytes = n as usize),
    setting("TINYMCP_BACKLOG_BYTES", 4096..=MOST_BYTES, |l, n| l.backlog_bytes = n as usize),
    setting("TINYMCP_ADDRESS_SPACE", 0..=u64::MAX, |l, n| l.address_space = n),
    #[cfg(feature = "client")]
    setting("TINYMCP_CALL_MS", 1..=MOST_MS, |l, n| l.call_timeout = Duration::from_millis(n)),
    #[cfg(feature = "client")]
    setting("TINYMCP_CALL_LONGEST_MS", 1..=MOST_MS, |l, n| l.call_longest = Duration::from_millis(n)),
    #[cfg(feature = "client")]
    setting("TINYMCP_PROBE_MS", 1..=MOST_MS, |l, n| l.probe_timeout = Duration::from_millis(n)),
    #[cfg(feature = "client")]
    setting("TINYMCP_CALLS", 1..=65_536, |l, n| l.calls = n as usize),
    #[cfg(feature = "client")]
    setting("TINYMCP_ROUNDS", 1..=1000, |l, n| l.rounds = n as u32),
    #[cfg(feature = "client")]
    setting("TINYMCP_LIST_ENTRIES", 1..=MOST_BYTES, |l, n| l.list_entries = n as usize),
    #[cfg(feature = "client")]
    setting("TINYMCP_LIST_BYTES", 1024..=MOST_BYTES, |l, n| l.list_bytes = n as usize),
    #[cfg(feature = "client")]
    setting("TINYMCP_LIST_PAGES", 1..=65_536, |l, n| l.list_pages = n as usize),
    #[cfg(feature = "client")]
    setting("TINYMCP_HANDLERS", 1..=64, |l, n| l.handlers = n as usize),
    #[cfg(feature = "client")]
    setting("TINYMCP_EVENTS", 1..=65_536, |l, n| l.events = n as usize),
    #[cfg(feature = "client")]
    setting("TINYMCP_CACHE_BYTES", 0..=MOST_BYTES, |l, n| l.cache_bytes = n as usize),
    #[cfg(feature = "client")]
    setting("TINYMCP_CHILD_EXIT_MS", 0..=MOST_MS, |l, n| l.child_exit = Duration::from_millis(n)),
    #[cfg(feature = "client")]
    setting("TINYMCP_STDERR_BYTES", 0..=MOST_BYTES, |l, n| l.stderr_bytes = n as usize),
    setting("TINYMCP_SERVERS", 1..=65_536, |l, n| l.servers = n as usize),
    setting("TINYMCP_LIST_MS", 1..=MOST_MS, |l, n| l.list_timeout = Duration::from_millis(n)),
    setting("TINYMCP_RESTARTS", 0..=1000, |l, n| l.restarts = n as u32),
    #[cfg(feature = "http-client")]
    setting("TINYMCP_HTTP_THREADS", 1..=64, |l, n| l.http_threads = n as usize),
    #[cfg(feature = "http-client")]
    setting("TINYMCP_CONNECT_MS", 1..=MOST_MS, |l, n| l.connect_timeout = Duration::from_millis(n)),
    #[cfg(feature = "http-client")]
    setting("TINYMCP_RECONNECTS", 0..=(1 << 30), |l, n| l.reconnects = n as u32),
    #[cfg(feature = "http-client")]
    setting("TINYMCP_REFUSALS", 1..=(1 << 30), |l, n| l.refusals = n as u32),
];

#[cfg(feature = "http-server")]
use http::SETTINGS as HTTP_SETTINGS;
#[cfg(not(feature = "http-server"))]
const HTTP_SETTINGS: &[Setting] = &[];
#[cfg(feature = "schema")]
use schema::SETTINGS as SCHEMA_SETTINGS;
#[cfg(not(feature = "schema"))]
const SCHEMA_SETTINGS: &[Setting] = &[];

impl Limits {
    /// The defaults, changed by the `TINYMCP_…` variables of the environment.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] names the variable that is not a number or out of range.
    pub fn from_env() -> Result<Limits, Error> {
        Limits::from_lookup(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
    }

    /// Environment variables with the prefix of limits that this build does not know.
    pub(crate) fn unknown_variables() -> Vec<String> {
        let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("TINYMCP_") && !Limits::is_variable(name)).collect()
    }

    fn is_variable(name: &str) -> bool {
        SETTINGS.iter().chain(SCHEMA_SETTINGS).chain(HTTP_SETTINGS).any(|s| s.variable == name)
    }

    /// The defaults, changed by the values of `lookup`.
    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Limits, Error> {
        let mut limits = Limits::default();
        for setting in SETTINGS.iter().chain(SCHEMA_SETTINGS).chain(HTTP_SETTINGS) {
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

    /// Clamps limits that were set in code: zero workers would hang.
    pub(crate) fn clamped(mut self) -> Limits {
        self.workers = self.workers.clamp(1, 64);
        self.queue = self.queue.clamp(1, 65_536);
        self.page = self.page.clamp(1, 65_536);
        self.worker_stack = self.worker_stack.max(64 << 10);
        self.frame_bytes = self.frame_bytes.clamp(1024, MOST_BYTES as usize);
        // `Instant + Duration` can overflow for longer times.
        let most = Duration::from_millis(MOST_MS);
        for time in [&mut self.handler_deadline, &mut self.grace, &mut self.ask_timeout] {
            *time = most.min(*time);
        }
        #[cfg(feature = "client")]
        {
            self.calls = self.calls.clamp(1, 65_536);
            self.handlers = self.handlers.clamp(1, 64);
            self.events = self.events.clamp(1, 65_536);
            #[cfg(feature = "http-client")]
            {
                self.http_threads = self.http_threads.clamp(1, 64);
                self.connect_timeout = most.min(self.connect_timeout);
            }
            for time in [
                &mut self.call_timeout,
                &mut self.call_longest,
                &mut self.probe_timeout,
                &mut self.child_exit,
            ] {
                *time = most.min(*time);
            }
        }
        #[cfg(feature = "http-server")]
        self.http.clamp(most);
        self
    }

    /// Parse limits for messages. Names must be unique, so that two readers of a message see the
    /// same content.
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
        for setting in SETTINGS.iter().chain(SCHEMA_SETTINGS).chain(HTTP_SETTINGS) {
            let with =
                |text: String| Limits::from_lookup(|name| (name == setting.variable).then(|| text.clone()));
            // One of the two is not the default.
            let changed = [1, 2].map(|more| with((setting.least + more).to_string()).expect("in range"));
            assert!(changed.iter().any(|limits| *limits != Limits::default()), "{}", setting.variable);
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
    fn numbers_beyond_32_bits_are_whole_or_refused() {
        const FAR: u64 = 1 << 32;
        for setting in SETTINGS.iter().chain(SCHEMA_SETTINGS).chain(HTTP_SETTINGS) {
            let with = |n: u64| Limits::from_lookup(|name| (name == setting.variable).then(|| n.to_string()));
            // The result if the number were truncated.
            let cut = with(setting.least + 1).expect("in range");
            match with(FAR + setting.least + 1) {
                Ok(limits) => assert_ne!(limits, cut, "{}", setting.variable),
                Err(error) => assert_eq!((error.kind(), setting.most < FAR), (ErrorKind::Invalid, true)),
            }
            with(setting.most).expect("in range");
        }
        let space = |n: u64| {
            Limits::from_lookup(|name| (name == "TINYMCP_ADDRESS_SPACE").then(|| n.to_string()))
                .map(|limits| limits.address_space)
        };
        for n in [FAR, FAR + 1, u64::MAX] {
            assert_eq!(space(n).ok(), Some(n));
        }
    }

    #[test]
    fn times_beyond_32_bits_that_set_in_code_are_the_longest_there_are() {
        for far in [Duration::from_millis(1 << 32), Duration::from_secs(1 << 32), Duration::MAX] {
            let mut limits = Limits::default();
            (limits.handler_deadline, limits.grace, limits.ask_timeout) = (far, far, far);
            #[cfg(feature = "http-server")]
            {
                limits.http.session_timeout = far;
            }
            let limits = limits.clamped();
            let most = Duration::from_millis(MOST_MS);
            assert_eq!((limits.handler_deadline, limits.grace, limits.ask_timeout), (most, most, most));
            #[cfg(feature = "http-server")]
            assert!(limits.http.session_timeout >= most);
        }
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(Limits::from_lookup(|_| None).ok(), Some(Limits::default()));
    }
}
