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
const MAX_MS: u64 = 1 << 31;
/// Byte counts stay below 1 GiB so that offsets fit in 32 bits with room to spare.
const MAX_BYTES: u64 = 1 << 30;

limits! {
    [l => l]
    /// Limits and timeouts of one server or client.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tinymcp::{Limits, Server};
    ///
    /// let mut limits = Limits::from_env()?;
    /// limits.workers = 2;
    /// limits.handler_deadline = Duration::from_secs(300);
    /// let mut server = Server::new("backup", "1.0.0");
    /// server.limits(limits);
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub struct Limits {
        /// Bytes of one incoming message (a line on stdio). Default 4 MiB: room for a large file as
        /// base64, and small enough for a board with 64 MiB.
        pub frame_bytes: usize = 4 << 20, "TINYMCP_FRAME_BYTES" in 1024..=MAX_BYTES;
        /// Nesting of one message. Default 128: ten times what real tool schemas reach.
        pub json_depth: u32 = 128, "TINYMCP_JSON_DEPTH" in 8..=(1 << 20);
        /// Values and member names in one message. Default 250,000: 16 bytes each, so 4 MB at most.
        pub json_nodes: u32 = 250_000, "TINYMCP_JSON_NODES" in 64..=(1 << 28);
        /// Threads that run handlers, 1 to 64. Default 4: the cores of a common board.
        pub workers: usize = 4, "TINYMCP_WORKERS" in 1..=64;
        /// Accepted calls that wait for a worker, 1 to 65536. Default 256: a full queue pauses the
        /// reading of input, so it only smooths bursts.
        pub queue: usize = 256, "TINYMCP_QUEUE" in 1..=65_536;
        /// Stack of a worker thread in bytes, at least 64 KiB. Default 512 KiB: untouched pages
        /// cost nothing.
        pub worker_stack: usize = 512 << 10, "TINYMCP_WORKER_STACK" in (64 << 10)..=MAX_BYTES;
        /// Longest time a handler may take before its call is flagged as cancelled and gets an
        /// error; zero turns the watchdog off. Default 30 s: the shortest timeout of common hosts.
        pub handler_deadline: Duration = 30_000, "TINYMCP_DEADLINE_MS" in 0..=MAX_MS;
        /// Longest time that running calls may continue after the end of input or SIGTERM, and at a
        /// server that a hub removes. Default 5 s: half of the time after which supervisors send
        /// SIGKILL.
        pub grace: Duration = 5000, "TINYMCP_GRACE_MS" in 0..=MAX_MS;
        /// Interval at which a stdio server checks whether its parent process has ended, which ends
        /// the server as SIGTERM does, even if the input stays open; zero turns this off. Default 5
        /// s: idle servers should rarely wake up. Linux 5.3 and later report the end at once.
        pub parent_check: Duration = 5000, "TINYMCP_PARENT_CHECK_MS" in 0..=MAX_MS;
        /// Time without a message and without a call in flight after which a stdio server ends, a
        /// quarter later at most; zero turns this off. Off by default: most hosts do not start a
        /// server again. Open subscriptions do not count.
        pub idle_exit: Duration = 0, "TINYMCP_IDLE_EXIT_MS" in 0..=MAX_MS;
        /// Longest time that a call in a session, or a server of a hub outside of calls, waits for
        /// the user, the model or the roots. Also the validity of a sealed `requestState`. Default
        /// 10 min: time for a user to respond.
        pub client_input_timeout: Duration = 600_000, "TINYMCP_CLIENT_INPUT_MS" in 1..=MAX_MS;
        /// Parked calls of one client. Default 64: each holds its message in memory. For all
        /// clients of an HTTP server the bound is this or the number of sessions, whichever is
        /// larger.
        pub parked: usize = 64, "TINYMCP_PARKED" in 1..=65_536;
        /// Bytes of one sealed `requestState`. Default 64 KiB: each retry contains it.
        pub state_bytes: usize = 64 << 10, "TINYMCP_STATE_BYTES" in 256..=MAX_BYTES;
        /// Entries of one list page, 1 to 65536. Default 1000: most clients read only the first
        /// page.
        pub page: usize = 1000, "TINYMCP_PAGE" in 1..=65_536;
        /// Subscribed URIs of one session or listen request. Default 256.
        pub subscriptions: usize = 256, "TINYMCP_SUBSCRIPTIONS" in 1..=65_536;
        /// Bytes of the subscribed URIs of one session or listen request. Default 32 KiB: 128 for
        /// each of 256.
        pub subscription_bytes: usize = 32 << 10, "TINYMCP_SUBSCRIPTION_BYTES" in 256..=MAX_BYTES;
        /// Listen requests open at once on one connection. Default 32.
        pub listens: usize = 32, "TINYMCP_LISTENS" in 1..=65_536;
        /// Bytes of the messages of all calls in flight; parked calls have a second budget of this
        /// size. Default 16 MiB: four of the largest messages. At the limit a stdio server stops
        /// reading, and an HTTP server rejects the call. In a client: bytes of queued requests of
        /// the server; queued notifications have a second budget.
        pub in_flight_bytes: usize = 16 << 20, "TINYMCP_IN_FLIGHT_BYTES" in 4096..=MAX_BYTES;
        /// Bytes of responses that wait for a peer that does not read; beyond it writers block.
        /// Default 1 MiB.
        pub backlog_bytes: usize = 1 << 20, "TINYMCP_BACKLOG_BYTES" in 4096..=MAX_BYTES;
        /// Lowers the process's address space (RLIMIT_AS) to this many bytes when serving starts,
        /// as far as possible; zero changes nothing. Off by default. An allocation above the limit
        /// aborts the process, and a thread above it cannot be started.
        pub address_space: u64 = 0, "TINYMCP_ADDRESS_SPACE" in 0..=u64::MAX;
    }
    fixed {
        /// Limits for schemas and validations.
        #[cfg(feature = "schema")]
        pub schema: SchemaLimits = SchemaLimits::default();
        /// Limits of the HTTP server.
        #[cfg(feature = "http-server")]
        pub http: HttpLimits = HttpLimits::default();
        /// Limits of the tasks of a server.
        #[cfg(feature = "tasks")]
        pub tasks: TaskLimits = TaskLimits::default();
        /// Limits of clients.
        #[cfg(feature = "client")]
        pub client: ClientLimits = ClientLimits::default();
        /// Limits of clients of URLs.
        #[cfg(feature = "http-client")]
        pub http_client: HttpClientLimits = HttpClientLimits::default();
        /// Limits of hubs.
        pub hub: HubLimits = HubLimits::default();
    }
}

#[cfg(feature = "tasks")]
limits! {
    [l => l.tasks]
    /// Limits and timeouts of the tasks of a server, the field `tasks` of [`Limits`].
    pub struct TaskLimits {
        /// Tasks that a server keeps until their lifetime ends. Default 1024; each takes at least
        /// half a kilobyte.
        pub entries: usize = 1024, "TINYMCP_TASKS" in 1..=65_536;
        /// Bytes of requests, responses of clients and results of all tasks. Default 16 MiB: as for
        /// calls in flight.
        pub bytes: usize = 16 << 20, "TINYMCP_TASK_BYTES" in 4096..=MAX_BYTES;
        /// Threads that run tasks, besides the workers, 1 to 64. Default 2: they start on demand.
        pub workers: usize = 2, "TINYMCP_TASK_WORKERS" in 1..=64;
        /// Longest time that the handler of a task may run; zero: no limit. Default 1 h.
        pub deadline: Duration = 3_600_000, "TINYMCP_TASK_DEADLINE_MS" in 0..=MAX_MS;
        /// Time for which the result of a task is kept; a session may request less. Default 1 h.
        pub ttl: Duration = 3_600_000, "TINYMCP_TASK_TTL_MS" in 1000..=MAX_MS;
        /// Interval at which clients should request the state of a task. Default 1 s.
        pub poll: Duration = 1000, "TINYMCP_TASK_POLL_MS" in 10..=MAX_MS;
    }
    fixed {}
}

#[cfg(feature = "client")]
limits! {
    [l => l.client]
    /// Limits and timeouts of clients, the field `client` of [`Limits`].
    pub struct ClientLimits {
        /// Time that a client waits for a response, unless the call sets its own. Default 60 s: as
        /// in common hosts.
        pub call_timeout: Duration = 60_000, "TINYMCP_CALL_MS" in 1..=MAX_MS;
        /// Longest total wait if progress notifications extend it. Default 1 h: enough to flash a
        /// device or build a large program.
        pub call_total_timeout: Duration = 3_600_000, "TINYMCP_CALL_TOTAL_MS" in 1..=MAX_MS;
        /// Time that a client waits for the response to the probe. Then it assumes the session
        /// protocol, whose servers may ignore an unknown method. Default 10 s: some servers need
        /// seconds to start.
        pub probe_timeout: Duration = 10_000, "TINYMCP_PROBE_MS" in 1..=MAX_MS;
        /// Calls of one client in flight, 1 to 65536. Default 1024; the next one is rejected as
        /// busy.
        pub calls: usize = 1024, "TINYMCP_CALLS" in 1..=65_536;
        /// Rounds of input that one call may request before it fails, 1 to 1000. Default 10.
        pub rounds: u32 = 10, "TINYMCP_ROUNDS" in 1..=1000;
        /// Entries of one list that a client collects over all pages; more is an error. Default
        /// 10,000.
        pub list_entries: usize = 10_000, "TINYMCP_LIST_ENTRIES" in 1..=MAX_BYTES;
        /// Bytes of the pages of one list that a client collects; more is an error. Default 16 MiB:
        /// four of the largest messages.
        pub list_bytes: usize = 16 << 20, "TINYMCP_LIST_BYTES" in 1024..=MAX_BYTES;
        /// Pages of one list that a client requests; more is an error. Default 1000: bounds a
        /// server that never ends its list.
        pub list_pages: usize = 1000, "TINYMCP_LIST_PAGES" in 1..=65_536;
        /// Threads of one client that run handlers for the server's requests and notifications, 1
        /// to 64. Default 2: they start on demand.
        pub handlers: usize = 2, "TINYMCP_HANDLERS" in 1..=64;
        /// Notifications, and requests of the server, that wait for those threads, 1 to 65536. More
        /// notifications are dropped, more requests rejected as busy. Default 256.
        pub events: usize = 256, "TINYMCP_EVENTS" in 1..=65_536;
        /// Bytes of responses that a client caches while they are fresh; 0 caches none. The output
        /// schemas of tools have a second budget of this size, if results are checked. Default 1
        /// MiB.
        pub cache_bytes: usize = 1 << 20, "TINYMCP_CACHE_BYTES" in 0..=MAX_BYTES;
        /// Time for a child process to exit after the end of its input, and the same again after
        /// SIGTERM. Default 2 s each.
        pub child_exit: Duration = 2000, "TINYMCP_CHILD_EXIT_MS" in 0..=MAX_MS;
        /// Bytes of the end of a child's stderr that are stored if it is captured. Default 16 KiB.
        pub stderr_bytes: usize = 16 << 10, "TINYMCP_STDERR_BYTES" in 0..=MAX_BYTES;
    }
    fixed {}
}

#[cfg(feature = "http-client")]
limits! {
    [l => l.http_client]
    /// Limits and timeouts of clients of URLs, the field `http_client` of [`Limits`].
    pub struct HttpClientLimits {
        /// Threads of one HTTP client for started calls and listen streams, 1 to 64, and idle
        /// connections that it keeps. Default 64: a blocking call needs no thread.
        pub threads: usize = 64, "TINYMCP_HTTP_THREADS" in 1..=64;
        /// Time that an HTTP client tries to connect, over all addresses of a name. Default 10 s:
        /// covers three lost SYN packets.
        pub connect_timeout: Duration = 10_000, "TINYMCP_CONNECT_MS" in 1..=MAX_MS;
        /// Consecutive connections without a message after which the client abandons an event
        /// stream. Default 100: about eight minutes.
        pub reconnects: u32 = 100, "TINYMCP_RECONNECTS" in 0..=(1 << 30);
        /// Consecutive refused connections, at least one, after which the client does not resume
        /// the broken stream of a call. Default 7: about six seconds, enough for a server to
        /// restart.
        pub refusals: u32 = 7, "TINYMCP_REFUSALS" in 1..=(1 << 30);
    }
    fixed {}
}

limits! {
    [l => l.hub]
    /// Limits and timeouts of hubs, the field `hub` of [`Limits`].
    pub struct HubLimits {
        /// Servers of one hub, 1 to 65536. Default 64.
        pub servers: usize = 64, "TINYMCP_SERVERS" in 1..=65_536;
        /// Time that a hub waits for the list of each server, counted from the start of the
        /// connection while the server connects. A late list is reported as missing. Later waits
        /// for this server last a tenth of this time until it responds. Default 10 s: an acceptable
        /// start-up time of a host.
        pub list_timeout: Duration = 10_000, "TINYMCP_LIST_MS" in 1..=MAX_MS;
        /// Consecutive restarts of a server that ended by itself; 0 disables them. Default 5. The
        /// pauses before them start at half a second and double. Each 2 s of uptime reduce the
        /// count by one.
        pub restarts: u32 = 5, "TINYMCP_RESTARTS" in 0..=1000;
    }
    fixed {}
}

#[cfg(feature = "http-server")]
limits! {
    [l => l.http]
    /// Limits and timeouts of the HTTP server, the field `http` of [`Limits`].
    pub struct HttpLimits {
        /// Connections at once, 1 to 65536; fewer if the process may not open so many files.
        /// Default 1024: an idle connection takes a few hundred bytes. For a further connection,
        /// the longest idle one is closed; if none is idle, the new one gets status 503.
        pub connections: usize = 1024, "TINYMCP_CONNECTIONS" in 1..=65_536;
        /// Event streams open at once, at most half of the connections. Default 256: a quarter of
        /// the default, which leaves room for calls.
        pub streams: usize = 256, "TINYMCP_STREAMS" in 1..=65_536;
        /// Bytes of one request's head. Default 16 KiB: twice what common servers accept, room for
        /// large tokens.
        pub head_bytes: usize = 16 << 10, "TINYMCP_HEAD_BYTES" in 1024..=(1 << 20);
        /// Header fields of one request, 8 to 128. Default 100.
        pub head_fields: usize = 100, "TINYMCP_HEAD_FIELDS" in 8..=128;
        /// Longest time from the first byte of a head to its last. Default 10 s.
        pub head_timeout: Duration = 10_000, "TINYMCP_HEAD_MS" in 100..=MAX_MS;
        /// Longest idle time of a connection. Default 2 min: longer than that of common clients.
        pub idle_timeout: Duration = 120_000, "TINYMCP_IDLE_MS" in 100..=MAX_MS;
        /// Longest time for a body, in addition to the time that `body_rate` grants its bytes.
        /// Default 10 s.
        pub body_timeout: Duration = 10_000, "TINYMCP_BODY_MS" in 100..=MAX_MS;
        /// Lowest bytes per second of a body after `body_timeout`. Default 16 KiB: slower than any
        /// usable network.
        pub body_rate: usize = 16 << 10, "TINYMCP_BODY_RATE" in 1..=MAX_BYTES;
        /// Bytes of partly received bodies on all connections. Default 3 MiB: a few large ones.
        /// Most bodies arrive whole and do not count. A request that exceeds it gets status 503; a
        /// single body may be larger.
        pub arriving_bytes: usize = 3 << 20, "TINYMCP_ARRIVING_BYTES" in 4096..=MAX_BYTES;
        /// Bytes of responses that wait for slow peers, on all connections. Default 8 MiB; a single
        /// response may be larger. Event streams with slow readers may use one eighth. Above one
        /// half, connections whose peer has read nothing for one second are closed.
        pub unsent_bytes: usize = 8 << 20, "TINYMCP_UNSENT_BYTES" in 4096..=MAX_BYTES;
        /// Longest time in which a peer reads nothing of a pending response. Default 10 s.
        pub stall_timeout: Duration = 10_000, "TINYMCP_STALL_MS" in 100..=MAX_MS;
        /// Time without an event after which a comment is sent. It keeps proxies from closing the
        /// stream and detects dead peers. Default 15 s.
        pub comment_interval: Duration = 15_000, "TINYMCP_COMMENT_MS" in 100..=MAX_MS;
        /// Longest pause between bytes of a rejected request. The server reads and drops the rest
        /// of such a request, at most 64 MiB and for `body_timeout`, so that the peer can read the
        /// response. Default 2 s.
        pub linger: Duration = 2000, "TINYMCP_LINGER_MS" in 1..=MAX_MS;
        /// Sessions open at once, of clients before 2026-07-28. Default 1024: a session takes about
        /// a kilobyte. For a further session, the longest idle one is closed.
        pub sessions: usize = 1024, "TINYMCP_SESSIONS" in 1..=65_536;
        /// Longest idle time of a session, without a call or an event stream. Default 30 min:
        /// clients open a new one automatically.
        pub session_timeout: Duration = 1_800_000, "TINYMCP_SESSION_MS" in 100..=MAX_MS;
        /// Events of one session that a client can resume from. Default 256.
        pub replay: usize = 256, "TINYMCP_REPLAY" in 0..=65_536;
        /// Bytes of the stored events of all sessions; one session gets a quarter. Default 1 MiB.
        pub replay_bytes: usize = 1 << 20, "TINYMCP_REPLAY_BYTES" in 0..=MAX_BYTES;
        /// Time after which a client may reconnect to an event stream that ended early. Default 1
        /// s.
        pub retry: Duration = 1000, "TINYMCP_RETRY_MS" in 0..=MAX_MS;
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
    /// These numbers and the sizes of schema and value bound memory and time of a check.
    ///
    /// ```
    /// use tinymcp::schema::{Schema, SchemaLimits};
    ///
    /// let mut limits = SchemaLimits::default();
    /// limits.nodes = 64;
    /// let many = format!(r#"{{"anyOf": [{}true]}}"#, "true,".repeat(1000));
    /// assert!(Schema::options().limits(limits).parse(&many).is_err());
    /// ```
    pub struct SchemaLimits {
        /// Bytes of one schema's text. Default 4 MiB: as large as a message.
        pub bytes: usize = 4 << 20, "TINYMCP_SCHEMA_BYTES" in 1024..=MAX_BYTES;
        /// Subschemas of one schema, those of referenced documents included. Default 100,000: about
        /// 50 bytes each when compiled.
        pub nodes: usize = 100_000, "TINYMCP_SCHEMA_NODES" in 64..=(1 << 24);
        /// Cells of tables for all patterns of one schema. Default 262,144: about 100 ms and 0.5
        /// MB, enough for a thousand patterns of a usual size.
        pub patterns: usize = 1 << 18, "TINYMCP_SCHEMA_PATTERNS" in 1024..=(1 << 30);
        /// Nesting of subschemas while a value is checked. Default 256: twice the nesting of a
        /// message; each level takes less than [`SchemaLimits::LEVEL_BYTES`] of stack in a release
        /// build.
        pub depth: u32 = 256, "TINYMCP_SCHEMA_DEPTH" in 8..=(1 << 16);
        /// Steps of one validation in addition to [`SchemaLimits::steps_per_byte`]. A step is an
        /// applied subschema, an element, a member, or about eight bytes of text. Default
        /// 1,000,000: tens of milliseconds.
        pub steps: u64 = 1_000_000, "TINYMCP_SCHEMA_STEPS" in 1000..=(1 << 40);
        /// Cached verdicts of one validation, for subschemas with several paths to them. Default
        /// 100,000: 32 bytes each.
        pub verdicts: usize = 100_000, "TINYMCP_SCHEMA_VERDICTS" in 0..=(1 << 24);
    }
    fixed {
        /// Nesting of a schema's text. Default 128: as deep as a message.
        pub nesting: u32 = 128;
        /// Steps allowed for each byte of the value's text. Default 8.
        pub steps_per_byte: u64 = 8;
    }
}

#[cfg(feature = "schema")]
impl SchemaLimits {
    /// Maximum stack of one level of [`SchemaLimits::depth`] in a release build.
    pub const LEVEL_BYTES: usize = 512;

    /// Returns the limits with a depth that takes at most half of a stack of this many bytes.
    #[must_use]
    pub fn fitting(mut self, stack_bytes: usize) -> SchemaLimits {
        let levels = stack_bytes / 2 / SchemaLimits::LEVEL_BYTES;
        self.depth = self.depth.min(u32::try_from(levels).unwrap_or(u32::MAX));
        self
    }
}

impl Limits {
    /// Returns the defaults, changed by the `TINYMCP_…` variables of the environment.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] names the variable that is not a number or out of range.
    pub fn from_env() -> Result<Limits, Error> {
        Limits::from_lookup(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
    }

    /// Returns the environment variables with the prefix `TINYMCP_` that this build does not know.
    pub(crate) fn unknown_variables() -> Vec<String> {
        let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
        names.filter(|name| Limits::is_unknown(name)).collect()
    }

    fn is_unknown(name: &str) -> bool {
        let Some(rest) = name.strip_prefix("TINYMCP_") else { return false };
        // The program `tinymcp`: its configuration file, the values of its `${input:ID}`, and
        // tokens.
        let is_other = rest == "CONFIG" || rest.starts_with("INPUT_") || rest.starts_with("TOKEN_");
        !is_other && !Limits::is_variable(name)
    }

    fn settings() -> impl Iterator<Item = &'static Setting> {
        let all = Limits::SETTINGS.iter().chain(HubLimits::SETTINGS);
        #[cfg(feature = "schema")]
        let all = all.chain(SchemaLimits::SETTINGS);
        #[cfg(feature = "http-server")]
        let all = all.chain(HttpLimits::SETTINGS);
        #[cfg(feature = "tasks")]
        let all = all.chain(TaskLimits::SETTINGS);
        #[cfg(feature = "client")]
        let all = all.chain(ClientLimits::SETTINGS);
        #[cfg(feature = "http-client")]
        let all = all.chain(HttpClientLimits::SETTINGS);
        all
    }

    fn is_variable(name: &str) -> bool {
        Limits::settings().any(|s| s.variable == name)
    }

    /// Returns the defaults, changed by the values of `lookup`.
    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Limits, Error> {
        let mut limits = Limits::default();
        for setting in Limits::settings() {
            let Some(text) = lookup(setting.variable) else { continue };
            let (min, max) = setting.range.clone().into_inner();
            let number = text.trim().parse().ok().filter(|n| setting.range.contains(n));
            let Some(n) = number else {
                let message =
                    format!("invalid {} {text:?}: expected an integer from {min} to {max}", setting.variable);
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
        self.frame_bytes = self.frame_bytes.clamp(1024, MAX_BYTES as usize);
        // `Instant + Duration` can overflow for longer times.
        let max = Duration::from_millis(MAX_MS);
        for time in [
            &mut self.handler_deadline,
            &mut self.grace,
            &mut self.parent_check,
            &mut self.idle_exit,
            &mut self.client_input_timeout,
            #[cfg(feature = "tasks")]
            &mut self.tasks.deadline,
        ] {
            *time = max.min(*time);
        }
        #[cfg(feature = "client")]
        {
            self.client.calls = self.client.calls.clamp(1, 65_536);
            self.client.handlers = self.client.handlers.clamp(1, 64);
            self.client.events = self.client.events.clamp(1, 65_536);
            for time in [
                &mut self.client.call_timeout,
                &mut self.client.call_total_timeout,
                &mut self.client.probe_timeout,
                &mut self.client.child_exit,
            ] {
                *time = max.min(*time);
            }
        }
        #[cfg(feature = "http-client")]
        {
            self.http_client.threads = self.http_client.threads.clamp(1, 64);
            self.http_client.connect_timeout = max.min(self.http_client.connect_timeout);
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
                *time = max.min(*time);
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
mod tests;
