//! Limits and timeouts of the library.
//!
//! The defaults fit a single-board computer and most servers. Each limit can be set in code and by
//! an environment variable ([`Limits::from_env`]; the serving functions read it unless the program
//! sets its own limits). An invalid or out-of-range value is a start-up error. Unknown `TINYMCP_*`
//! variables are reported on stderr.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::json::ParseLimits;

/// Defines a struct of limits. Each field has a default (milliseconds for a `Duration`). Fields
/// outside `fixed` have an environment variable and a range. `[l => l.http]` is the path of the
/// struct inside [`Limits`].
macro_rules! limits {
    (
        [$l:ident => $place:expr]
        $(#[doc = $about:literal])*
        $vis:vis struct $name:ident {$(
            $(#[doc = $doc:literal])*
            $(#[cfg($cfg:meta)])?
            $field_vis:vis $field:ident: $type:ty = $default:expr, $variable:literal in $range:expr;
        )*}
        fixed {$(
            $(#[doc = $fixed_doc:literal])*
            $(#[cfg($fixed_cfg:meta)])?
            $fixed_vis:vis $fixed:ident: $fixed_type:ty = $value:expr;
        )*}
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        $vis struct $name {
            $(
                $(#[doc = $doc])*
                #[doc = concat!("`", $variable, "`.")]
                $(#[cfg($cfg)])?
                $field_vis $field: $type,
            )*
            $(
                $(#[doc = $fixed_doc])*
                $(#[cfg($fixed_cfg)])?
                $fixed_vis $fixed: $fixed_type,
            )*
        }

        impl Default for $name {
            fn default() -> $name {
                $name {
                    $($(#[cfg($cfg)])? $field: Limit::of($default),)*
                    $($(#[cfg($fixed_cfg)])? $fixed: $value,)*
                }
            }
        }

        impl $name {
            const SETTINGS: &'static [Setting] = &[
                $($(#[cfg($cfg)])? Setting {
                    variable: $variable,
                    range: $range,
                    set: |$l, n| $place.$field = Limit::of(n),
                },)*
            ];
        }
    };
}

/// One limit: its variable, its range and its setter.
struct Setting {
    variable: &'static str,
    range: RangeInclusive<u64>,
    set: fn(&mut Limits, u64),
}

/// Conversion of a number to the type of a limit.
trait Limit {
    /// Converts a number that is in range.
    fn of(n: u64) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Limit for $number {
            fn of(n: u64) -> $number {
                n as $number
            }
        }
    )*};
}

numbers!(usize u32 u64);

impl Limit for Duration {
    fn of(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }
}

/// Upper bound for user-supplied durations: `Instant + Duration` can overflow beyond it.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Times stay below 24 days so that their milliseconds fit in 31 bits.
const MOST_MS: u64 = 1 << 31;
/// Byte counts stay below 1 GiB so that offsets fit in 32 bits with room to spare.
const MOST_BYTES: u64 = 1 << 30;

limits! {
    [l => l]
    /// Limits and timeouts of one server or client.
    pub struct Limits {
        /// Bytes of one incoming message (a line on stdio). 4 MiB: room for a large file as base64,
        /// and small enough for a board with 64 MiB.
        pub frame_bytes: usize = 4 << 20, "TINYMCP_FRAME_BYTES" in 1024..=MOST_BYTES;
        /// Nesting of one message. 128: ten times what real tool schemas reach.
        pub json_depth: u32 = 128, "TINYMCP_JSON_DEPTH" in 8..=(1 << 20);
        /// Values and member names in one message. 250,000: 16 bytes each, so 4 MB at most.
        pub json_nodes: u32 = 250_000, "TINYMCP_JSON_NODES" in 64..=(1 << 28);
        /// Threads that run handlers, 1 to 64. 4: the cores of a common board.
        pub workers: usize = 4, "TINYMCP_WORKERS" in 1..=64;
        /// Accepted calls that wait for a worker, 1 to 65536. 256: a full queue pauses the reading
        /// of input, so it only smooths bursts.
        pub queue: usize = 256, "TINYMCP_QUEUE" in 1..=65_536;
        /// Stack of a worker thread in bytes, at least 64 KiB. 512 KiB: untouched pages cost
        /// nothing.
        pub worker_stack: usize = 512 << 10, "TINYMCP_WORKER_STACK" in (64 << 10)..=MOST_BYTES;
        /// Longest time a handler may take before its call is flagged as cancelled and gets
        /// an error; zero turns the watchdog off. 30 s: the shortest timeout of common hosts.
        pub handler_deadline: Duration = 30_000, "TINYMCP_DEADLINE_MS" in 0..=MOST_MS;
        /// Longest time that running calls may continue after the end of input or SIGTERM. 5 s:
        /// half of the time after which common supervisors send SIGKILL.
        pub grace: Duration = 5000, "TINYMCP_GRACE_MS" in 0..=MOST_MS;
        /// Interval at which a stdio server checks whether its parent process has ended, which ends
        /// the server as SIGTERM does, even if the input stays open; zero turns this off. 5 s: idle
        /// servers should rarely wake up. Linux 5.3 and later report the end at once.
        pub parent_check: Duration = 5000, "TINYMCP_PARENT_CHECK_MS" in 0..=MOST_MS;
        /// Time without a message and without a call in flight after which a stdio server ends, a
        /// quarter later at most; zero turns this off. Off by default: most hosts do not start a
        /// server again. Open subscriptions do not count.
        pub idle_exit: Duration = 0, "TINYMCP_IDLE_EXIT_MS" in 0..=MOST_MS;
        /// Longest time that a call, or a server of a hub outside of calls, waits for the user, the
        /// model or the roots in a session, and validity of a sealed `requestState`. 10 min:
        /// time for a user to respond.
        pub ask_timeout: Duration = 600_000, "TINYMCP_ASK_MS" in 1..=MOST_MS;
        /// Parked calls of one client. 64: each holds its message in memory. For all clients of an
        /// HTTP server the bound is this or the number of sessions, whichever is larger.
        pub parked: usize = 64, "TINYMCP_PARKED" in 1..=65_536;
        /// Bytes of one sealed `requestState`. 64 KiB: each retry contains it.
        pub state_bytes: usize = 64 << 10, "TINYMCP_STATE_BYTES" in 256..=MOST_BYTES;
        /// Entries of one list page, 1 to 65536. 1000: most clients read only the first page.
        pub page: usize = 1000, "TINYMCP_PAGE" in 1..=65_536;
        /// Subscribed URIs of one session or listen request. 256.
        pub subscriptions: usize = 256, "TINYMCP_SUBSCRIPTIONS" in 1..=65_536;
        /// Bytes of those URIs. 32 KiB: 128 for each of 256.
        pub subscription_bytes: usize = 32 << 10, "TINYMCP_SUBSCRIPTION_BYTES" in 256..=MOST_BYTES;
        /// Listen requests open at once on one connection. 32.
        pub listens: usize = 32, "TINYMCP_LISTENS" in 1..=65_536;
        /// Bytes of the messages of all calls in flight; parked calls have a second budget of this
        /// size. 16 MiB: four of the largest messages. At the limit a stdio server stops reading,
        /// and an HTTP server rejects the call. In a client: bytes of queued requests of the
        /// server; queued notifications have a second budget.
        pub in_flight_bytes: usize = 16 << 20, "TINYMCP_IN_FLIGHT_BYTES" in 4096..=MOST_BYTES;
        /// Bytes of responses that wait for a peer that does not read; beyond it writers block. 1
        /// MiB.
        pub backlog_bytes: usize = 1 << 20, "TINYMCP_BACKLOG_BYTES" in 4096..=MOST_BYTES;
        /// Lowers the process's address space (RLIMIT_AS) to this many bytes when serving starts,
        /// as far as possible; zero changes nothing. Off by default. An allocation above the limit
        /// aborts the process, and a thread above it cannot be started.
        pub address_space: u64 = 0, "TINYMCP_ADDRESS_SPACE" in 0..=u64::MAX;
        /// Time that a client waits for a response, unless the call sets its own. 60 s: as common
        /// hosts.
        #[cfg(feature = "client")]
        pub call_timeout: Duration = 60_000, "TINYMCP_CALL_MS" in 1..=MOST_MS;
        /// Longest total wait if progress notifications extend it. 1 h: enough to
        /// flash a device or build a large program.
        #[cfg(feature = "client")]
        pub call_longest: Duration = 3_600_000, "TINYMCP_CALL_LONGEST_MS" in 1..=MOST_MS;
        /// Time that a client waits for the response to the probe. Then it assumes the session
        /// protocol, whose servers may ignore an unknown method. 10 s: some servers need seconds to
        /// start.
        #[cfg(feature = "client")]
        pub probe_timeout: Duration = 10_000, "TINYMCP_PROBE_MS" in 1..=MOST_MS;
        /// Calls of one client in flight, 1 to 65536. 1024; the next one is rejected as busy.
        #[cfg(feature = "client")]
        pub calls: usize = 1024, "TINYMCP_CALLS" in 1..=65_536;
        /// Rounds of input that one call may request before it fails, 1 to 1000. 10.
        #[cfg(feature = "client")]
        pub rounds: u32 = 10, "TINYMCP_ROUNDS" in 1..=1000;
        /// Entries of one list that a client collects over all pages; more is an error. 10,000.
        #[cfg(feature = "client")]
        pub list_entries: usize = 10_000, "TINYMCP_LIST_ENTRIES" in 1..=MOST_BYTES;
        /// Bytes of the pages of one list that a client collects; more is an error. 16 MiB: four of
        /// the largest messages.
        #[cfg(feature = "client")]
        pub list_bytes: usize = 16 << 20, "TINYMCP_LIST_BYTES" in 1024..=MOST_BYTES;
        /// Pages of one list that a client requests; more is an error. 1000: bounds a server that
        /// never ends its list.
        #[cfg(feature = "client")]
        pub list_pages: usize = 1000, "TINYMCP_LIST_PAGES" in 1..=65_536;
        /// Threads of one client that run handlers for the server's requests and notifications, 1
        /// to 64. 2: they start on demand.
        #[cfg(feature = "client")]
        pub handlers: usize = 2, "TINYMCP_HANDLERS" in 1..=64;
        /// Notifications, and requests of the server, that wait for those threads, 1 to 65536. More
        /// notifications are dropped, more requests rejected as busy. 256.
        #[cfg(feature = "client")]
        pub events: usize = 256, "TINYMCP_EVENTS" in 1..=65_536;
        /// Bytes of responses that a client caches while they are fresh; 0 caches none. The same
        /// again for output schemas of tools, if results are checked. 1 MiB.
        #[cfg(feature = "client")]
        pub cache_bytes: usize = 1 << 20, "TINYMCP_CACHE_BYTES" in 0..=MOST_BYTES;
        /// Time for a child process to exit after the end of its input, and the same again after
        /// SIGTERM. 2 s each.
        #[cfg(feature = "client")]
        pub child_exit: Duration = 2000, "TINYMCP_CHILD_EXIT_MS" in 0..=MOST_MS;
        /// Bytes of the end of a child's stderr that are stored if it is captured. 16 KiB.
        #[cfg(feature = "client")]
        pub stderr_bytes: usize = 16 << 10, "TINYMCP_STDERR_BYTES" in 0..=MOST_BYTES;
        /// Servers of one hub, 1 to 65536. 64.
        pub servers: usize = 64, "TINYMCP_SERVERS" in 1..=65_536;
        /// Time that a hub waits for the list of each server, counted from the start of the
        /// connection while the server connects. A late list is reported as missing; later waits
        /// for this server are a tenth until it responds. 10 s: an acceptable start-up time of a
        /// host.
        pub list_timeout: Duration = 10_000, "TINYMCP_LIST_MS" in 1..=MOST_MS;
        /// Consecutive restarts of a server that ended by itself; 0 disables them. 5, after pauses
        /// of half a second, doubling; each 2 s of uptime make up for one.
        pub restarts: u32 = 5, "TINYMCP_RESTARTS" in 0..=1000;
        /// Threads of one HTTP client for started calls and listen streams, 1 to 64, and idle
        /// connections that it keeps. 64: a blocking call needs no thread.
        #[cfg(feature = "http-client")]
        pub http_threads: usize = 64, "TINYMCP_HTTP_THREADS" in 1..=64;
        /// Time that an HTTP client tries to connect, over all addresses of a name. 10 s: covers
        /// three lost SYN packets.
        #[cfg(feature = "http-client")]
        pub connect_timeout: Duration = 10_000, "TINYMCP_CONNECT_MS" in 1..=MOST_MS;
        /// Consecutive connections without a message after which the client abandons an event
        /// stream. 100: about eight minutes.
        #[cfg(feature = "http-client")]
        pub reconnects: u32 = 100, "TINYMCP_RECONNECTS" in 0..=(1 << 30);
        /// Consecutive refused connections, at least one, after which the client does not resume
        /// the broken stream of a call. 7: about six seconds, enough for a server to restart.
        #[cfg(feature = "http-client")]
        pub refusals: u32 = 7, "TINYMCP_REFUSALS" in 1..=(1 << 30);
    }
    fixed {
        /// Limits for schemas and validations.
        #[cfg(feature = "schema")]
        pub schema: SchemaLimits = SchemaLimits::default();
        /// Limits of the HTTP server.
        #[cfg(feature = "http-server")]
        pub http: HttpLimits = HttpLimits::default();
    }
}

#[cfg(feature = "http-server")]
limits! {
    [l => l.http]
    /// Limits and timeouts of the HTTP server, in addition to those of [`Limits`].
    pub struct HttpLimits {
        /// Connections at once, 1 to 65536; fewer if the process may not open so many files. 1024:
        /// an idle one costs a few hundred bytes. Beyond it the longest idle one is closed; if none
        /// is idle, a new one gets status 503.
        pub connections: usize = 1024, "TINYMCP_CONNECTIONS" in 1..=65_536;
        /// Event streams open at once, at most half of the connections. 256: a quarter of the
        /// default, which leaves room for calls.
        pub streams: usize = 256, "TINYMCP_STREAMS" in 1..=65_536;
        /// Bytes of one request's head. 16 KiB: twice what common servers accept, room for large
        /// tokens.
        pub head_bytes: usize = 16 << 10, "TINYMCP_HEAD_BYTES" in 1024..=(1 << 20);
        /// Header fields of one request, 8 to 128. 100.
        pub head_fields: usize = 100, "TINYMCP_HEAD_FIELDS" in 8..=128;
        /// Longest time from the first byte of a head to its last. 10 s.
        pub head_timeout: Duration = 10_000, "TINYMCP_HEAD_MS" in 100..=MOST_MS;
        /// Longest idle time of a connection. 2 min: longer than that of common clients.
        pub idle_timeout: Duration = 120_000, "TINYMCP_IDLE_MS" in 100..=MOST_MS;
        /// Longest time for a body, in addition to the time that `body_rate` grants its bytes. 10
        /// s.
        pub body_timeout: Duration = 10_000, "TINYMCP_BODY_MS" in 100..=MOST_MS;
        /// Lowest bytes per second of a body after `body_timeout`. 16 KiB: slower than any usable
        /// network.
        pub body_rate: usize = 16 << 10, "TINYMCP_BODY_RATE" in 1..=MOST_BYTES;
        /// Bytes of partly received bodies on all connections. 3 MiB: a few large ones. Most bodies
        /// arrive whole and do not count. Beyond it a request gets status 503; a single one may be
        /// larger.
        pub arriving_bytes: usize = 3 << 20, "TINYMCP_ARRIVING_BYTES" in 4096..=MOST_BYTES;
        /// Bytes of responses that wait for slow peers, on all connections. 8 MiB; a single
        /// response may be larger. Event streams with slow readers may use one eighth. Above
        /// one half, connections whose peer has read nothing for one second are closed.
        pub unsent_bytes: usize = 8 << 20, "TINYMCP_UNSENT_BYTES" in 4096..=MOST_BYTES;
        /// Longest time in which a peer reads nothing of a pending response. 10 s.
        pub stall_timeout: Duration = 10_000, "TINYMCP_STALL_MS" in 100..=MOST_MS;
        /// Time without an event after which a comment is sent. It keeps proxies from closing the
        /// stream and detects dead peers. 15 s.
        pub comment_interval: Duration = 15_000, "TINYMCP_COMMENT_MS" in 100..=MOST_MS;
        /// Longest pause between bytes of a rejected request. The server reads and drops the rest
        /// of such a request, at most 64 MiB and for `body_timeout`, so that the peer can read the
        /// response. 2 s.
        pub linger: Duration = 2000, "TINYMCP_LINGER_MS" in 1..=MOST_MS;
        /// Sessions open at once, of clients before 2026-07-28. 1024: one takes about a kilobyte.
        /// Beyond it the longest idle one is closed.
        pub sessions: usize = 1024, "TINYMCP_SESSIONS" in 1..=65_536;
        /// Longest idle time of a session, without a call or an event stream. 30 min: clients open
        /// a new one automatically.
        pub session_timeout: Duration = 1_800_000, "TINYMCP_SESSION_MS" in 100..=MOST_MS;
        /// Events of one session that a client can resume from. 256.
        pub replay: usize = 256, "TINYMCP_REPLAY" in 0..=65_536;
        /// Bytes of such events of all sessions; one session gets a quarter. 1 MiB.
        pub replay_bytes: usize = 1 << 20, "TINYMCP_REPLAY_BYTES" in 0..=MOST_BYTES;
        /// Time after which a client may reconnect to an event stream that ended early. 1 s.
        pub retry: Duration = 1000, "TINYMCP_RETRY_MS" in 0..=MOST_MS;
    }
    fixed {}
}

#[cfg(feature = "schema")]
limits! {
    [l => l.schema]
    /// Limits for schemas and validations.
    ///
    /// The compiler rejects a schema that exceeds one. A validation that exceeds one ends as a
    /// violation of the keyword `limit`. A server uses those of its [`Limits`], with a depth that
    /// fits the stacks of its workers.
    ///
    /// Invariant: memory and time of a check are bounded by these numbers and the sizes of schema
    /// and value.
    pub struct SchemaLimits {
        /// Bytes of one schema's text. 4 MiB: as large as a message.
        pub bytes: usize = 4 << 20, "TINYMCP_SCHEMA_BYTES" in 1024..=MOST_BYTES;
        /// Subschemas of one schema, those of referenced documents included. 100,000: about 50
        /// bytes each when compiled.
        pub nodes: usize = 100_000, "TINYMCP_SCHEMA_NODES" in 64..=(1 << 24);
        /// Cells of tables for all patterns of one schema. 262,144: about 100 ms and 0.5 MB, enough
        /// for a thousand patterns of a usual size.
        pub patterns: usize = 1 << 18, "TINYMCP_SCHEMA_PATTERNS" in 1024..=(1 << 30);
        /// Subschemas within subschemas at once while a value is checked. 256: twice the nesting of
        /// a message; each level takes less than [`SchemaLimits::LEVEL_BYTES`] of stack in a
        /// release build.
        pub depth: u32 = 256, "TINYMCP_SCHEMA_DEPTH" in 8..=(1 << 16);
        /// Steps of one validation in addition to [`SchemaLimits::steps_per_byte`]. A step is an
        /// applied subschema, an element, a member, or about eight bytes of text. 1,000,000:
        /// tens of milliseconds.
        pub steps: u64 = 1_000_000, "TINYMCP_SCHEMA_STEPS" in 1000..=(1 << 40);
        /// Cached verdicts of one validation, for subschemas with several paths to them. 100,000:
        /// 32 bytes each.
        pub verdicts: usize = 100_000, "TINYMCP_SCHEMA_VERDICTS" in 0..=(1 << 24);
    }
    fixed {
        /// Nesting of a schema's text. 128: as deep as a message.
        pub nesting: u32 = 128;
        /// Steps allowed for each byte of the value's text. 8.
        pub steps_per_byte: u64 = 8;
    }
}

#[cfg(feature = "schema")]
impl SchemaLimits {
    /// Stack that one level of [`SchemaLimits::depth`] takes at most in a release build.
    pub const LEVEL_BYTES: usize = 512;

    /// The same limits, with a depth that takes at most half of a stack of this many bytes.
    #[must_use]
    pub fn fitting(mut self, stack_bytes: usize) -> SchemaLimits {
        let levels = stack_bytes / 2 / SchemaLimits::LEVEL_BYTES;
        self.depth = self.depth.min(u32::try_from(levels).unwrap_or(u32::MAX));
        self
    }
}

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
        names.filter(|name| Limits::is_unknown(name)).collect()
    }

    fn is_unknown(name: &str) -> bool {
        let Some(rest) = name.strip_prefix("TINYMCP_") else { return false };
        // The configuration file of the program `tinymcp`, and the values of its `${input:ID}`.
        let is_other = rest == "CONFIG" || rest.starts_with("INPUT_");
        !is_other && !Limits::is_variable(name)
    }

    fn settings() -> impl Iterator<Item = &'static Setting> {
        let all = Limits::SETTINGS.iter();
        #[cfg(feature = "schema")]
        let all = all.chain(SchemaLimits::SETTINGS);
        #[cfg(feature = "http-server")]
        let all = all.chain(HttpLimits::SETTINGS);
        all
    }

    fn is_variable(name: &str) -> bool {
        Limits::settings().any(|s| s.variable == name)
    }

    /// The defaults, changed by the values of `lookup`.
    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Limits, Error> {
        let mut limits = Limits::default();
        for setting in Limits::settings() {
            let Some(text) = lookup(setting.variable) else { continue };
            let (least, most) = setting.range.clone().into_inner();
            let number = text.trim().parse().ok().filter(|n| setting.range.contains(n));
            let Some(n) = number else {
                let message = format!(
                    "invalid {} {text:?}: expected an integer from {least} to {most}",
                    setting.variable
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            };
            (setting.set)(&mut limits, n);
        }
        Ok(limits)
    }

    /// Clamps limits set in code whose extreme values would hang or overflow. Others are used
    /// unchanged.
    pub(crate) fn clamped(mut self) -> Limits {
        self.workers = self.workers.clamp(1, 64);
        self.queue = self.queue.clamp(1, 65_536);
        self.page = self.page.clamp(1, 65_536);
        self.worker_stack = self.worker_stack.max(64 << 10);
        self.frame_bytes = self.frame_bytes.clamp(1024, MOST_BYTES as usize);
        // `Instant + Duration` can overflow for longer times.
        let most = Duration::from_millis(MOST_MS);
        for time in [
            &mut self.handler_deadline,
            &mut self.grace,
            &mut self.parent_check,
            &mut self.idle_exit,
            &mut self.ask_timeout,
        ] {
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
        {
            self.http.connections = self.http.connections.clamp(1, 65_536);
            self.http.head_bytes = self.http.head_bytes.clamp(1024, 1 << 20);
            for time in [
                &mut self.http.head_timeout,
                &mut self.http.idle_timeout,
                &mut self.http.body_timeout,
                &mut self.http.stall_timeout,
                &mut self.http.comment_interval,
                &mut self.http.linger,
            ] {
                *time = most.min(*time);
            }
        }
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
    fn only_misspelt_limits_are_unknown() {
        for (name, unknown) in [
            ("TINYMCP_RESTART", true),
            ("TINYMCP_RESTARTS", false),
            ("TINYMCP_CONFIG", false),
            ("TINYMCP_INPUT_API_KEY", false),
            ("RESTARTS", false),
        ] {
            assert_eq!(Limits::is_unknown(name), unknown, "{name}");
        }
    }

    #[test]
    fn every_variable_is_read_and_range_checked() {
        for setting in Limits::settings() {
            let with =
                |text: String| Limits::from_lookup(|name| (name == setting.variable).then(|| text.clone()));
            // One of the two is not the default.
            let changed =
                [1, 2].map(|more| with((setting.range.start() + more).to_string()).expect("in range"));
            assert!(changed.iter().any(|limits| *limits != Limits::default()), "{}", setting.variable);
            let mut bad = vec!["".to_string(), "x".into(), "-1".into(), "1.5".into()];
            if *setting.range.start() > 0 {
                bad.push((setting.range.start() - 1).to_string());
            }
            if *setting.range.end() < u64::MAX {
                bad.push((setting.range.end() + 1).to_string());
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
        for setting in Limits::settings() {
            let with = |n: u64| Limits::from_lookup(|name| (name == setting.variable).then(|| n.to_string()));
            // The result if the number were truncated.
            let cut = with(*setting.range.start() + 1).expect("in range");
            match with(FAR + *setting.range.start() + 1) {
                Ok(limits) => assert_ne!(limits, cut, "{}", setting.variable),
                Err(error) => {
                    assert_eq!((error.kind(), *setting.range.end() < FAR), (ErrorKind::Invalid, true))
                }
            }
            with(*setting.range.end()).expect("in range");
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
    fn times_beyond_32_bits_that_are_set_in_code_are_clamped() {
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
