//! Limits on the calls of each caller and of each tool: rate and concurrency.
//!
//! A rate is checked by the generic cell rate algorithm, which stores one point in time for each
//! caller instead of a list of calls. The clock is monotonic.
//!
//! # Invariants
//! - The table has at most [`CALLERS`] entries, one for each pair of limit and caller, and one more
//!   for each limit that counts all callers without an entry. If the table is full, entries without
//!   a recent or running call are removed.
//! - A call that one limit rejects is not counted by any limit.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::model::Fault;
use crate::sync::lock;
use crate::transport::ReplySink;
#[cfg(feature = "http-server")]
use crate::transport::http_server::Peer;

use crate::server::Server;
use crate::server::call::Target;
use crate::server::dispatch::{Dispatcher, InlineTools};

/// Error code of a rejected call. Codes of applications are outside -32768 to -32000 (MCP
/// 2026-07-28 basic/index, error codes).
const TOO_MANY_CALLS: i32 = 429;
/// Entries in the table of one server: about 500 kB.
const CALLERS: usize = 4096;
/// Shortest interval between two searches for callers to remove.
const PURGE: Duration = Duration::from_millis(100);
/// Seconds after which a client may repeat a call that was rejected because of a running one.
const RETRY_CONCURRENT: u32 = 1;

/// Limit on calls, for [`Server::limit_calls`] and [`Server::limit_tool`]. A new limit allows every
/// call until a setter bounds it.
///
/// ```
/// use std::time::Duration;
/// use tinymcp::{CallLimit, Server, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tool(Tool::new("photo"), |_, ()| Ok("a photo"))?;
/// // Each caller: 60 calls per minute, in bursts of at most 10, and 2 at the same time.
/// server.limit_calls(CallLimit::new().rate(60, Duration::from_secs(60)).burst(10).concurrent(2));
/// // There is one camera.
/// server.limit_tool("photo", CallLimit::new().concurrent(1).for_all_callers());
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a limit has no effect until it is given to a server"]
pub struct CallLimit {
    /// Nanoseconds per call; 0 without a rate.
    interval: u64,
    /// Calls that may follow each other immediately after a pause.
    burst: u32,
    concurrent: u32,
    for_all: bool,
}

impl Default for CallLimit {
    fn default() -> CallLimit {
        CallLimit { interval: 0, burst: 1, concurrent: u32::MAX, for_all: false }
    }
}

impl CallLimit {
    /// Creates a limit without bounds.
    pub fn new() -> CallLimit {
        CallLimit::default()
    }

    /// Allows this number of calls per period, at least one. After a pause of one period, all of
    /// them may follow each other immediately; [`CallLimit::burst`] sets another number.
    pub fn rate(mut self, calls: u32, period: Duration) -> CallLimit {
        let calls = calls.max(1);
        self.interval = (nanoseconds(period) / u64::from(calls)).max(1);
        self.burst = calls;
        self
    }

    /// Sets the number of calls that may follow each other immediately after a pause, at least one.
    /// Call it after [`CallLimit::rate`].
    pub fn burst(mut self, calls: u32) -> CallLimit {
        self.burst = calls.max(1);
        self
    }

    /// Allows this number of calls at the same time, at least one. Calls that wait for the client
    /// and unfinished tasks count. A cancelled handler counts until it returns.
    pub fn concurrent(mut self, calls: u32) -> CallLimit {
        self.concurrent = calls.max(1);
        self
    }

    /// Counts the calls of all callers together, instead of those of each caller.
    pub fn for_all_callers(mut self) -> CallLimit {
        self.for_all = true;
        self
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Server {
    /// Limits the calls of each caller: of tools, prompts, resources, completions and methods of
    /// extensions. Lists, pings, subscriptions and requests about tasks are not limited. Several
    /// limits apply together.
    ///
    /// The caller is the authenticated principal. Without one, it is the IP address of the client
    /// (the first 64 bits of an IPv6 address), its user on a Unix socket, or the only client on
    /// stdio. Behind a reverse proxy without authentication all clients are one caller. There is
    /// room for 4096 pairs of limit and caller; further callers are limited together.
    ///
    /// A rejected call gets a JSON-RPC error with the code 429 and the seconds to wait in
    /// `data.retryAfter`. Over HTTP the response has the status 429 and the field `Retry-After`,
    /// except in a batch.
    pub fn limit_calls(&mut self, limit: CallLimit) -> &mut Server {
        self.add_rule(Rule { tool: None, limit })
    }

    /// Limits the calls of one tool by each caller, as [`Server::limit_calls`] does for all calls.
    pub fn limit_tool(&mut self, tool: impl Into<String>, limit: CallLimit) -> &mut Server {
        self.add_rule(Rule { tool: Some(tool.into()), limit })
    }

    fn add_rule(&mut self, rule: Rule) -> &mut Server {
        let limiter = self.callers.limiter.get_or_insert_with(|| Limiter::new(CALLERS));
        // OK to skip: nothing else holds the limiter before serving starts.
        if let Some(limiter) = Arc::get_mut(limiter) {
            limiter.rules.push(rule);
        }
        self
    }
}

/// A limit of a server.
pub(crate) struct Rule {
    /// The tool; `None` for every call.
    tool: Option<String>,
    limit: CallLimit,
}

/// A caller with its own count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(dead_code)] // Only HTTP connections have an address or a user.
enum CallerKey {
    /// All callers, and the only client of a stream.
    All,
    Principal(String),
    Address(IpAddr),
    User(u32),
    /// Callers for which the table has no room.
    Others,
}

impl CallerKey {
    fn of(sink: &dyn ReplySink) -> CallerKey {
        if let Some(principal) = sink.principal() {
            return CallerKey::Principal(principal.to_owned());
        }
        #[cfg(feature = "http-server")]
        match sink.peer() {
            Some(Peer::Tcp(address)) => return CallerKey::Address(network(address.ip())),
            Some(Peer::Unix(Some(process))) => return CallerKey::User(process.uid),
            _ => {}
        }
        CallerKey::All
    }
}

/// Returns the address, or the first 64 bits of an IPv6 address: a host may choose the other bits.
#[allow(dead_code)] // Only HTTP connections have an address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6((six.to_bits() & !u128::from(u64::MAX)).into()),
        four => four,
    }
}

/// Index of a rule, and a caller.
type Key = (usize, CallerKey);

/// Calls of one caller under one rule.
#[derive(Default)]
struct Slot {
    /// Time from which the caller has its whole burst again, in nanoseconds of the limiter's clock.
    free_at: u64,
    running: u32,
}

/// The limits of a server, with their callers.
pub(crate) struct Limiter {
    rules: Vec<Rule>,
    began: Instant,
    max: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    slots: HashMap<Key, Slot>,
    /// Earliest time of the next search for callers to remove.
    next_purge: u64,
}

impl Table {
    /// Returns the key under which a caller is counted.
    fn place(&mut self, key: Key, now: u64, max: usize) -> Key {
        if self.slots.len() < max || self.slots.contains_key(&key) {
            return key;
        }
        if now >= self.next_purge {
            self.next_purge = now + nanoseconds(PURGE);
            self.slots.retain(|_, slot| slot.running > 0 || slot.free_at > now);
        }
        if self.slots.len() < max { key } else { (key.0, CallerKey::Others) }
    }
}

/// A running call in the table, counted until this is dropped.
pub(crate) struct CallPermit {
    limiter: Arc<Limiter>,
    keys: Vec<Key>,
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut table = lock(&self.limiter.table);
        for key in &self.keys {
            if let Some(slot) = table.slots.get_mut(key) {
                slot.running -= 1;
            }
        }
    }
}

impl Limiter {
    /// Creates a limiter without rules, with room for this number of callers.
    fn new(max: usize) -> Arc<Limiter> {
        Arc::new(Limiter { rules: Vec::new(), began: Instant::now(), max, table: Mutex::default() })
    }

    /// Admits a call, or returns the seconds after which it may be repeated.
    fn admit(self: &Arc<Self>, target: &Target, sink: &dyn ReplySink) -> Result<Option<CallPermit>, u32> {
        let tool = match target {
            Target::Tool(entry) => Some(&*entry.entry.tool.name),
            _ => None,
        };
        self.admit_at(nanoseconds(self.began.elapsed()), tool, &CallerKey::of(sink))
    }

    fn admit_at(
        self: &Arc<Self>,
        now: u64,
        tool: Option<&str>,
        caller: &CallerKey,
    ) -> Result<Option<CallPermit>, u32> {
        let mut table = lock(&self.table);
        let mut keys: Vec<Key> = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.tool.is_some() && rule.tool.as_deref() != tool {
                continue;
            }
            let caller = if rule.limit.for_all { CallerKey::All } else { caller.clone() };
            let key = table.place((index, caller), now, self.max);
            if let Some(slot) = table.slots.get(&key) {
                check(&rule.limit, slot, now)?;
            }
            keys.push(key);
        }
        for key in &keys {
            let Some(rule) = self.rules.get(key.0) else { continue };
            let slot = table.slots.entry(key.clone()).or_default();
            slot.free_at = slot.free_at.max(now).saturating_add(rule.limit.interval);
            slot.running += 1;
        }
        drop(table);
        Ok((!keys.is_empty()).then(|| CallPermit { limiter: Arc::clone(self), keys }))
    }
}

/// Checks one more call of a caller.
///
/// # Errors
/// The seconds after which the call may be repeated.
fn check(limit: &CallLimit, slot: &Slot, now: u64) -> Result<(), u32> {
    if slot.running >= limit.concurrent {
        return Err(RETRY_CONCURRENT);
    }
    let tolerance = limit.interval.saturating_mul(u64::from(limit.burst - 1));
    match slot.free_at.saturating_sub(now).saturating_sub(tolerance) {
        _ if limit.interval == 0 => Ok(()),
        0 => Ok(()),
        wait => Err(u32::try_from(wait.div_ceil(1_000_000_000)).unwrap_or(u32::MAX)),
    }
}

/// Time after which a rejected call may be repeated.
#[allow(dead_code)] // Responses of the HTTP server have a field for it.
pub(crate) struct RetryAfter(u32);

impl RetryAfter {
    #[allow(dead_code)] // As above.
    pub(crate) fn seconds(&self) -> u32 {
        self.0
    }
}

impl Dispatcher<dyn InlineTools> {
    /// Checks a call against the limits of its caller. Requests about tasks are not limited: a
    /// client must be able to follow and cancel the tasks that it started.
    #[inline]
    pub(in crate::server) fn permit(
        &mut self,
        target: &Target,
        method: &str,
        sink: &dyn ReplySink,
    ) -> Result<Option<CallPermit>, Fault> {
        let Some(limiter) = self.core.callers.limiter.as_ref().filter(|_| !method.starts_with("tasks/"))
        else {
            return Ok(None);
        };
        limiter.admit(target, sink).map_err(|seconds| {
            self.retry_after = Some(RetryAfter(seconds));
            refusal(seconds)
        })
    }
}

/// Returns the error of a rejected call.
#[cold]
fn refusal(seconds: u32) -> Fault {
    Fault::Custom {
        code: TOO_MANY_CALLS,
        message: format!("Too many calls: try again after {seconds} s"),
        data: Some(crate::json!({"retryAfter": seconds})),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn limiter(rules: &[(Option<&str>, CallLimit)], max: usize) -> Arc<Limiter> {
        let rule =
            |(tool, limit): &(Option<&str>, CallLimit)| Rule { tool: tool.map(str::to_owned), limit: *limit };
        let mut limiter = Limiter::new(max);
        Arc::get_mut(&mut limiter).unwrap().rules = rules.iter().map(rule).collect();
        limiter
    }

    fn user(name: u32) -> CallerKey {
        CallerKey::User(name)
    }

    fn rate(calls: u32, seconds: u64) -> CallLimit {
        CallLimit::new().rate(calls, Duration::from_secs(seconds))
    }

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let all = limiter(&[(None, rate(60, 60).burst(3))], 8);
        let admit = |now, who| all.admit_at(now, None, &user(who)).map(drop);
        for _ in 0..3 {
            admit(0, 1).unwrap();
        }
        assert_eq!(admit(0, 1), Err(1));
        assert_eq!(admit(SECOND - 1, 1), Err(1));
        admit(SECOND, 1).unwrap();
        assert_eq!(admit(SECOND, 1), Err(1));
        // Another caller has its own burst.
        admit(SECOND, 2).unwrap();
        // After a pause one burst is allowed again, not more.
        for _ in 0..3 {
            admit(100 * SECOND, 1).unwrap();
        }
        assert_eq!(admit(100 * SECOND, 1), Err(1));
    }

    #[test]
    fn the_time_to_wait_is_rounded_up() {
        let all = limiter(&[(None, rate(1, 10))], 8);
        let admit = |now| all.admit_at(now, None, &user(1)).map(drop);
        admit(0).unwrap();
        for (now, wait) in [(0, 10), (1, 10), (SECOND, 9), (9 * SECOND + 1, 1), (10 * SECOND - 1, 1)] {
            assert_eq!(admit(now), Err(wait), "{now}");
        }
        admit(10 * SECOND).unwrap();
    }

    #[test]
    fn a_running_call_counts_until_its_permit_is_dropped() {
        let all = limiter(&[(Some("photo"), CallLimit::new().concurrent(1).for_all_callers())], 8);
        let first = all.admit_at(0, Some("photo"), &user(1)).unwrap();
        assert_eq!(all.admit_at(SECOND, Some("photo"), &user(2)).map(drop), Err(RETRY_CONCURRENT));
        all.admit_at(0, Some("other"), &user(2)).unwrap();
        drop(first);
        all.admit_at(SECOND, Some("photo"), &user(2)).unwrap();
    }

    #[test]
    fn a_call_that_one_limit_rejects_counts_in_none() {
        let all = limiter(&[(None, rate(2, 100)), (Some("photo"), CallLimit::new().concurrent(1))], 8);
        let running = all.admit_at(0, Some("photo"), &user(1)).unwrap();
        assert!(all.admit_at(0, Some("photo"), &user(1)).is_err());
        all.admit_at(0, None, &user(1)).unwrap();
        assert!(all.admit_at(0, None, &user(1)).is_err());
        drop(running);
    }

    #[test]
    fn the_table_is_bounded_and_forgets_idle_callers() {
        let all = limiter(&[(None, rate(1, 10))], 4);
        for who in 0..4 {
            all.admit_at(0, None, &user(who)).unwrap();
        }
        // There is no room: all further callers share one limit.
        all.admit_at(1, None, &user(4)).unwrap();
        for who in 5..100 {
            assert!(all.admit_at(2, None, &user(who)).is_err(), "{who}");
        }
        assert!(lock(&all.table).slots.len() <= 5);
        // The others are idle by now.
        for who in 100..104 {
            all.admit_at(20 * SECOND, None, &user(who)).unwrap();
        }
        assert!(lock(&all.table).slots.len() <= 5);
    }

    #[test]
    fn an_ipv6_network_is_one_caller() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.2"), of("10.0.0.1"));
    }
}
