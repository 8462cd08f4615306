//! Serving loops: who reads, who watches, and in which order things end.

pub(crate) mod diagnostics;
mod reader;
pub(crate) mod state;
pub(crate) mod watchdog;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::era::ServerIdentity;
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::pool::{self, Pool, PoolSize};
use crate::sync::lock;
use crate::transport::{Link, own_stdio};

use self::reader::read;
use self::state::Core;
use self::watchdog::{TICK, Watchdog};
use crate::server::call::{InlineFn, Job};
use crate::server::connection::Connection;
use crate::server::{LocalServer, Server};

/// A worker that found nothing to do for so long ends; an idle server keeps few threads.
const WORKER_IDLE: Duration = Duration::from_secs(10);

/// What the last answers get to leave when the grace period is over: only a client that does not
/// read takes so long.
pub(crate) const LAST_WRITES: Duration = Duration::from_millis(500);

/// Stack of the thread that watches: it writes answers, and calls nothing of the program.
const WATCH_STACK: usize = 128 << 10;

/// After so long of waiting for calls, another signal means that nobody wants to wait any more.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) type Hooks = Vec<Box<dyn FnOnce() + Send>>;

/// A server, taken apart for serving.
pub(crate) struct Parts {
    pub core: Arc<Core>,
    pub inline: Vec<Box<crate::server::InlineSend>>,
    pub hooks: Hooks,
}

/// `spare` calls more fit into the queue than the limits say; whoever submits keeps to those.
pub(crate) fn take_apart(server: Server, spare: bool) -> Result<Parts, Error> {
    let limits = match server.limits {
        Some(limits) => limits.clamped(),
        None => {
            let limits = Limits::from_env()?;
            diagnostics::say_once_what_is_unknown();
            limits
        }
    };
    lower_address_space(limits.address_space);
    let size = PoolSize {
        workers: limits.workers,
        queue: if spare { limits.queue + limits.parked + 1 } else { limits.queue },
        stack: limits.worker_stack,
        idle: WORKER_IDLE,
    };
    let watchdog = Arc::new(Watchdog::new()?);
    server.shared.set_watchdog(&watchdog);
    let core = Arc::new(Core {
        logging: server.shared.catalog.capabilities().logging,
        shared: server.shared,
        card: ServerIdentity::new(server.identity),
        limits,
        eras: server.eras,
        list_cache: server.list_cache,
        read_cache: server.read_cache,
        pool: Pool::new(size, Job::run),
        watchdog,
        sealer: server.sealer.map_or_else(OnceLock::new, OnceLock::from),
        spare: Mutex::default(),
        parked: AtomicUsize::new(0),
    });
    Ok(Parts { core, inline: server.inline, hooks: server.on_shutdown })
}

/// Serves standard input and output; the calling thread watches, so that it can come back from a
/// signal although the reading thread is stuck in a read.
pub(crate) fn stdio(server: Server) -> Result<(), Error> {
    let parts = take_apart(server, false)?;
    let link = own_stdio(&parts.core.limits)?;
    let _signals = parts.core.watchdog.catch_signals()?;
    threaded(parts, link)
}

/// Serves any connection in the same way; signals are left to the program.
pub(crate) fn connection(server: Server, link: Link) -> Result<(), Error> {
    threaded(take_apart(server, false)?, link)
}

/// Reads on a thread of its own, watches on this one.
fn threaded(parts: Parts, link: Link) -> Result<(), Error> {
    let conn = connect(&parts.core, &link);
    let served = Served { done: Arc::default(), core: Arc::clone(&parts.core) };
    let done = Arc::clone(&served.done);
    let (reading, inline) = (Arc::clone(&conn), parts.inline);
    spawn("mcp-reader", conn.core.limits.worker_stack, move || {
        served.with(read(&reading, link.source, inline))
    })?;
    let ended = parts.core.watchdog.watch(|now| parts.core.shared.check(now), || over(&conn, &done.flag));
    let why = end(&conn, &done.flag, parts.hooks);
    match (ended, lock(&done.result).take()) {
        (Ended::Served, Some(Err(error))) => Err(error),
        (Ended::Served, None) => Err(Error::new(ErrorKind::Misuse, "the reading thread panicked")),
        _ => all_sent(&conn, why),
    }
}

/// That nothing was lost for another reason than a client that is gone, or that does not read while
/// somebody else wants the end.
fn all_sent(conn: &Connection, ended: Ended) -> Result<(), Error> {
    match conn.sink.failure() {
        Some(error) if ended == Ended::Told && error.kind() == std::io::ErrorKind::TimedOut => Ok(()),
        Some(error) => Err(Error::new(ErrorKind::Io, "the answers cannot be written").with_source(error)),
        None => Ok(()),
    }
}

/// Why serving ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The input ended.
    Served,
    /// A signal, the program, or a peer that is gone.
    Told,
}

fn over(conn: &Connection, served: &AtomicBool) -> Option<Ended> {
    if served.load(Ordering::Acquire) {
        return Some(Ended::Served);
    }
    let told = conn.core.watchdog.terminated() || conn.core.shared.stopping() || conn.sink.closed();
    told.then_some(Ended::Told)
}

/// Serves a connection on this thread, for handlers that cannot leave it.
pub(crate) fn local(local: LocalServer, link: Link) -> Result<(), Error> {
    let parts = take_apart(local.server, false)?;
    here(parts, link, local.inline, |_| {})
}

/// Serves standard input and output on the calling thread, for handlers that cannot leave it.
pub(crate) fn local_stdio(local: LocalServer) -> Result<(), Error> {
    let parts = take_apart(local.server, false)?;
    let link = own_stdio(&parts.core.limits)?;
    let _signals = parts.core.watchdog.catch_signals()?;
    // Told to end, this thread may be stuck in a read that nothing can interrupt.
    here(parts, link, local.inline, |sent| match sent {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            diagnostics::say(&error.to_string());
            std::process::exit(1)
        }
    })
}

/// Reads on this thread; another one watches, and says the last words and does `then` when the
/// program asks to stop while this one is stuck in a read.
fn here(
    parts: Parts,
    link: Link,
    inline: Vec<Box<InlineFn>>,
    then: fn(Result<(), Error>),
) -> Result<(), Error> {
    let served = Arc::new(AtomicBool::new(false));
    let conn = connect(&parts.core, &link);
    let hooks = Arc::new(Mutex::new(parts.hooks));
    let watcher = {
        let (conn, served, hooks) = (Arc::clone(&conn), Arc::clone(&served), Arc::clone(&hooks));
        spawn("mcp-watch", WATCH_STACK, move || {
            if conn.core.watchdog.watch(|now| conn.core.shared.check(now), || over(&conn, &served))
                == Ended::Told
            {
                let why = end(&conn, &served, take_hooks(&hooks));
                then(all_sent(&conn, why));
            }
        })?
    };
    let result = read(&conn, link.source, all_inline(parts.inline, inline));
    served.store(true, Ordering::Release);
    parts.core.watchdog.wake();
    // The watcher looks at its flag whenever it is rung, so this does not wait for long.
    let _ = watcher.join();
    let why = end(&conn, &served, take_hooks(&hooks));
    result.and_then(|()| all_sent(&conn, why))
}

fn take_hooks(hooks: &Mutex<Hooks>) -> Hooks {
    std::mem::take(&mut *lock(hooks))
}

/// Says that reading ended, also when it ended in a panic: the watching thread waits for this.
pub(crate) struct Served {
    done: Arc<Done>,
    core: Arc<Core>,
}

/// How reading ended.
#[derive(Default)]
struct Done {
    flag: AtomicBool,
    result: Mutex<Option<Result<(), Error>>>,
}

impl Served {
    /// Reading ended in this way.
    pub(crate) fn with(&self, result: Result<(), Error>) {
        *lock(&self.done.result) = Some(result);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.done.flag.store(true, Ordering::Release);
        self.core.watchdog.wake();
    }
}

fn all_inline(first: Vec<Box<crate::server::InlineSend>>, rest: Vec<Box<InlineFn>>) -> Vec<Box<InlineFn>> {
    first.into_iter().map(|handler| handler as Box<InlineFn>).chain(rest).collect()
}

fn connect(core: &Arc<Core>, link: &Link) -> Arc<Connection> {
    let conn = Arc::new(Connection::new(Arc::clone(core), Arc::clone(&link.sink)));
    core.shared.connect(&conn);
    conn
}

/// Lets running calls finish within the grace period, then ends everything.
///
/// Nothing new is taken in. First the thread that reads comes to an end or turns out to wait for
/// input; then the calls that run do. Their deadlines hold meanwhile. Tells whether somebody wanted
/// the end.
#[cold]
#[inline(never)]
fn end(conn: &Connection, served: &AtomicBool, hooks: Hooks) -> Ended {
    let core = &conn.core;
    // Told to end, the thread that reads may have come to its end first, as if the input had.
    let told = core.watchdog.terminated() || core.shared.stopping();
    let since = Instant::now();
    let deadline = since + core.limits.grace;
    let last = deadline.max(since + LAST_WRITES);
    let at_work = AtWork { conn, since, deadline, heard: core.watchdog.terminated() };
    core.shared.stop();
    conn.input_ended();
    core.pool.close();
    let to_the_last = AtWork { deadline: last, ..at_work };
    while conn.is_reading() && !served.load(Ordering::Acquire) && to_the_last.goes_on() {
        core.watchdog.pause();
    }
    while !core.pool.wait_idle(at_work.next_look()) && at_work.goes_on() {}
    while !core.shared.at_rest() && at_work.goes_on() {
        core.watchdog.pause();
    }
    // A signal hurries a client that does not read, too.
    while !conn.sink.drain(to_the_last.next_look()) && to_the_last.goes_on() {}
    let hurried = at_work.heard != core.watchdog.terminated();
    let least = Instant::now() + LAST_WRITES;
    conn.close(if hurried { least } else { last.max(least) });
    for hook in hooks {
        // One that panics must not keep the others from switching their pumps off.
        let _ = pool::guard(hook);
    }
    if told { Ended::Told } else { Ended::Served }
}

/// How long the end waits for calls that run.
#[derive(Clone, Copy)]
pub(crate) struct AtWork<'c> {
    pub conn: &'c Connection,
    pub since: Instant,
    pub deadline: Instant,
    /// The signal that caused the end; one that comes later ends the waiting.
    pub heard: bool,
}

impl AtWork<'_> {
    /// Looks after what is in flight, and whether there is time left.
    #[cold]
    pub(crate) fn goes_on(&self) -> bool {
        let now = Instant::now();
        self.conn.check(now);
        // Only after a first signal: one that comes after the end of input is the first.
        if self.heard && now - self.since > PATIENCE {
            self.conn.core.watchdog.let_signals_kill();
        }
        now < self.deadline && !self.conn.sink.closed() && self.heard == self.conn.core.watchdog.terminated()
    }

    pub(crate) fn next_look(&self) -> Instant {
        self.deadline.min(Instant::now() + TICK)
    }
}

pub(crate) fn spawn(
    name: &str,
    stack: usize,
    run: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, Error> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(run).map_err(|error| {
        // The likeliest reason by far.
        let what =
            format!("the thread {name} could not be started; is TINYMCP_ADDRESS_SPACE, or a limit, too low?");
        Error::new(ErrorKind::Limit, what).with_source(error)
    })
}

/// Best effort, as documented at [`Limits::address_space`]: a system that refuses keeps its own.
#[cfg(unix)]
fn lower_address_space(bytes: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if bytes > 0 {
        let maximum = getrlimit(Resource::As).maximum;
        let _ = setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum });
    }
}

#[cfg(not(unix))]
fn lower_address_space(_bytes: u64) {}
