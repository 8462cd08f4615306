//! Serving loops: start of the reader and watchdog threads, and the order of shutdown.

pub(crate) mod diagnostics;
mod exit_watch;
mod reader;
pub(crate) mod state;
pub(crate) mod watchdog;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::era::ServerIdentity;
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::pool::{self, Pool, PoolSize};
use crate::stderr;
use crate::sync::lock;
use crate::transport::tap::Tap;
use crate::transport::{Link, StdinProbe, own_stdio};

use self::exit_watch::ExitWatch;
use self::reader::read;
use self::state::Core;
use self::watchdog::{TICK, Watchdog};
use crate::server::call::{InlineFn, Job};
use crate::server::callers::visibility;
use crate::server::connection::Connection;
use crate::server::extension::Extensions;
use crate::server::tasks;
use crate::server::{LocalServer, Server};

/// Idle time after which a worker ends.
const WORKER_IDLE: Duration = Duration::from_secs(10);

/// Time to write the last responses after the grace period. Only a client that does not read uses
/// all of it.
pub(crate) const LAST_WRITES: Duration = Duration::from_millis(500);

/// Stack of the watchdog thread, which writes responses and calls no user code.
pub(crate) const WATCH_STACK: usize = 128 << 10;

/// Time after the start of the shutdown from which a second signal ends the process at once.
const SIGNAL_GRACE: Duration = Duration::from_secs(1);

pub(crate) type Hooks = Vec<Box<dyn FnOnce() + Send>>;

/// Parts of a server that is prepared for serving.
pub(crate) struct Parts {
    pub core: Arc<Core>,
    pub inline: Vec<Box<crate::server::InlineSend>>,
    pub hooks: Hooks,
}

/// Sets the limits of a server to those of the environment, unless the program has set them.
pub(crate) fn resolve_limits(server: &mut Server) -> Result<(), Error> {
    if server.limits.is_none() {
        server.limits = Some(Limits::from_env()?);
        diagnostics::report_unknown_variables();
    }
    Ok(())
}

/// Prepares a server for serving. With `spare` the queue has extra room for calls that continue;
/// submitters of new calls keep to the limit themselves.
pub(crate) fn into_parts(mut server: Server, spare: bool) -> Result<Parts, Error> {
    resolve_limits(&mut server)?;
    let limits = server.limits.take().unwrap_or_default().clamped();
    lower_address_space(limits.address_space);
    tasks::prepare(&server, !spare)?;
    let size = PoolSize {
        workers: limits.workers,
        queue: if spare { limits.queue + limits.parked + 1 } else { limits.queue },
        stack: limits.worker_stack,
        idle: WORKER_IDLE,
    };
    Ok(assemble(server, limits, Pool::new(size, Job::run), Arc::new(Watchdog::new()?), Arc::default()))
}

/// Prepares a server for serving with these threads and limits, which others may share.
pub(crate) fn assemble(
    mut server: Server,
    limits: Limits,
    pool: Pool<Job>,
    watchdog: Arc<Watchdog>,
    parked: Arc<AtomicUsize>,
) -> Parts {
    visibility::make_caches_private(&mut server);
    server.shared.set_watchdog(&watchdog);
    let extensions = server.extensions;
    let mut members = extensions.as_ref().map(Extensions::members).unwrap_or_default();
    server.shared.tasks.announce(&mut members);
    let core = Arc::new(Core {
        logging: server.shared.catalog.capabilities().logging,
        shared: server.shared,
        info: ServerIdentity::new(server.identity, members),
        extensions,
        limits,
        eras: server.eras,
        list_cache: server.list_cache,
        read_cache: server.read_cache,
        pool,
        watchdog,
        observer: server.observer,
        provided: server.provided,
        callers: server.callers,
        sealer: server.sealer.map_or_else(OnceLock::new, OnceLock::from),
        spare: Mutex::default(),
        parked,
    });
    core.shared.tasks.start(&core);
    Parts { core, inline: server.inline, hooks: server.on_shutdown }
}

/// Serves standard input and output. The calling thread runs the watchdog, so that it can return
/// after a signal although the reader thread is blocked in a read.
pub(crate) fn stdio(server: Server) -> Result<(), Error> {
    print_terminal_hint();
    let parts = into_parts(server, false)?;
    let (link, stdin) = own_stdio(&parts.core.limits)?;
    let _signals = parts.core.watchdog.catch_signals()?;
    threaded(parts, link, Some(stdin))
}

/// Prints a hint at a terminal, where a server that waits for input looks like a hang.
fn print_terminal_hint() {
    if std::io::stdin().is_terminal() {
        diagnostics::report("waiting for JSON-RPC messages on standard input, one per line; Ctrl-D ends");
    }
}

/// Serves a connection like [`stdio`], without signal handlers.
pub(crate) fn connection(server: Server, link: Link) -> Result<(), Error> {
    threaded(into_parts(server, false)?, link, None)
}

/// Reads on a new thread and runs the watchdog on this one.
fn threaded(parts: Parts, link: Link, stdin: Option<StdinProbe>) -> Result<(), Error> {
    let link = observed(&parts.core, link, stdin.is_some());
    let conn = connect(&parts.core, &link);
    let exits = stdin.and_then(|stdin| ExitWatch::new(&conn, stdin));
    let guard = ReaderGuard { done: Arc::default(), core: Arc::clone(&parts.core) };
    let done = Arc::clone(&guard.done);
    let (reading, inline) = (Arc::clone(&conn), parts.inline);
    spawn("mcp-reader", conn.core.limits.worker_stack, move || {
        guard.set_result(read(&reading, link.source, inline))
    })?;
    let ended =
        parts.core.watchdog.watch(exits, |now| parts.core.shared.check(now), || reason(&conn, &done.flag));
    let why = shut_down(&conn, &done.flag, parts.hooks);
    match (ended, lock(&done.result).take()) {
        (Ended::Input, Some(Err(error))) => Err(error),
        (Ended::Input, None) => Err(Error::new(ErrorKind::Misuse, "the reading thread panicked")),
        _ => check_sent(&conn, why),
    }
}

/// Checks that all messages were sent, unless the client has disconnected, or does not read after a
/// request to stop.
fn check_sent(conn: &Connection, ended: Ended) -> Result<(), Error> {
    match conn.sink.failure() {
        Some(error) if ended == Ended::Stopped && error.kind() == std::io::ErrorKind::TimedOut => Ok(()),
        Some(error) => Err(Error::new(ErrorKind::Io, "the responses cannot be written").with_source(error)),
        None if conn.outbox.lost() => {
            Err(Error::new(ErrorKind::Limit, "the last messages were not sent: no thread could be started"))
        }
        None => Ok(()),
    }
}

/// Reason why serving ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The input ended.
    Input,
    /// A signal, a request of the program, or a disconnected peer.
    Stopped,
}

fn reason(conn: &Connection, served: &AtomicBool) -> Option<Ended> {
    if served.load(Ordering::Acquire) {
        return Some(Ended::Input);
    }
    let stopped = conn.core.watchdog.terminated() || conn.core.shared.stopping() || conn.sink.closed();
    stopped.then_some(Ended::Stopped)
}

/// Serves a connection on this thread, for handlers that are not `Send`.
pub(crate) fn local(local: LocalServer, link: Link) -> Result<(), Error> {
    serve_on_this_thread(into_parts(local.server, false)?, (link, None), local.inline, |_| {})
}

/// Serves standard input and output on the calling thread, for handlers that are not `Send`.
pub(crate) fn local_stdio(local: LocalServer) -> Result<(), Error> {
    print_terminal_hint();
    let parts = into_parts(local.server, false)?;
    let (link, stdin) = own_stdio(&parts.core.limits)?;
    let _signals = parts.core.watchdog.catch_signals()?;
    // This thread may be blocked in a read that cannot be interrupted.
    serve_on_this_thread(parts, (link, Some(stdin)), local.inline, |sent| match sent {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            diagnostics::report(&error.to_string());
            std::process::exit(1)
        }
    })
}

/// Reads on this thread and runs the watchdog on another one. If serving must stop while this
/// thread is blocked in a read, the watchdog shuts the connection down and calls `then`.
fn serve_on_this_thread(
    parts: Parts,
    (link, stdin): (Link, Option<StdinProbe>),
    inline: Vec<Box<InlineFn>>,
    then: fn(Result<(), Error>),
) -> Result<(), Error> {
    let served = Arc::new(AtomicBool::new(false));
    let link = observed(&parts.core, link, stdin.is_some());
    let conn = connect(&parts.core, &link);
    let exits = stdin.and_then(|stdin| ExitWatch::new(&conn, stdin));
    let hooks = Arc::new(Mutex::new(parts.hooks));
    let watcher = {
        let (conn, served, hooks) = (Arc::clone(&conn), Arc::clone(&served), Arc::clone(&hooks));
        spawn("mcp-watch", WATCH_STACK, move || {
            if conn.core.watchdog.watch(exits, |now| conn.core.shared.check(now), || reason(&conn, &served))
                == Ended::Stopped
            {
                let why = shut_down(&conn, &served, take_hooks(&hooks));
                then(check_sent(&conn, why));
            }
        })?
    };
    let result = read(&conn, link.source, all_inline(parts.inline, inline));
    served.store(true, Ordering::Release);
    parts.core.watchdog.wake();
    // The watchdog checks its flag after each wake-up, so this does not block for long.
    let _ = watcher.join();
    let why = shut_down(&conn, &served, take_hooks(&hooks));
    result.and_then(|()| check_sent(&conn, why))
}

fn take_hooks(hooks: &Mutex<Hooks>) -> Hooks {
    std::mem::take(&mut *lock(hooks))
}

/// Guard of the reader thread. Reports the end of reading to the watchdog thread, also after a
/// panic.
pub(crate) struct ReaderGuard {
    done: Arc<Done>,
    core: Arc<Core>,
}

/// Result of reading.
#[derive(Default)]
struct Done {
    flag: AtomicBool,
    result: Mutex<Option<Result<(), Error>>>,
}

impl ReaderGuard {
    /// Stores the result.
    pub(crate) fn set_result(&self, result: Result<(), Error>) {
        *lock(&self.done.result) = Some(result);
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.done.flag.store(true, Ordering::Release);
        self.core.watchdog.wake();
    }
}

/// Inline handlers of a server, and more that need not be `Send`.
pub(crate) fn all_inline(
    first: Vec<Box<crate::server::InlineSend>>,
    rest: Vec<Box<InlineFn>>,
) -> Vec<Box<InlineFn>> {
    first.into_iter().map(|handler| handler as Box<InlineFn>).chain(rest).collect()
}

/// Adds the observer of the program to the link, if there is one.
fn observed(core: &Core, link: Link, is_stdio: bool) -> Link {
    let name = if is_stdio { "stdio" } else { "link" };
    match &core.observer {
        Some(observer) => Tap::new(observer, name, None).link(link),
        None => link,
    }
}

fn connect(core: &Arc<Core>, link: &Link) -> Arc<Connection> {
    let conn = Arc::new(Connection::new(Arc::clone(core), Arc::clone(&link.sink)));
    core.shared.connect(&conn);
    conn
}

/// Shuts down: lets running calls finish within the grace period, then closes the connection.
///
/// No new message is accepted. Waits for the reader thread to end or to block on input, then for
/// the running calls, whose deadlines still apply. Returns the reason why serving ends.
#[cold]
#[inline(never)]
fn shut_down(conn: &Connection, served: &AtomicBool, hooks: Hooks) -> Ended {
    let core = &conn.core;
    // Read first, because this function requests the stop, too.
    let stopped = core.watchdog.terminated() || core.shared.stopping();
    let since = Instant::now();
    let deadline = since + core.limits.grace;
    let last = deadline.max(since + LAST_WRITES);
    let wait = ShutdownWait { conn, since, deadline, signalled: core.watchdog.terminated() };
    core.shared.stop();
    conn.input_ended();
    core.pool.close();
    let last_wait = ShutdownWait { deadline: last, ..wait };
    while conn.is_reading() && !served.load(Ordering::Acquire) && last_wait.may_wait() {
        core.watchdog.pause();
    }
    while !core.pool.wait_idle(wait.next_check()) && wait.may_wait() {}
    while !core.shared.is_idle() && wait.may_wait() {
        core.watchdog.pause();
    }
    // A second signal also shortens the wait for a client that does not read.
    while !conn.sink.drain(last_wait.next_check()) && last_wait.may_wait() {}
    core.shared.tasks.interrupt();
    let second_signal = wait.signalled != core.watchdog.terminated();
    let earliest = Instant::now() + LAST_WRITES;
    conn.close(if second_signal { earliest } else { last.max(earliest) });
    for hook in hooks {
        // OK to ignore: a hook that panics must not prevent the others, and the panic was reported.
        let _ = pool::guard(hook);
    }
    // The program may end next.
    stderr::flush();
    if stopped { Ended::Stopped } else { Ended::Input }
}

/// The shutdown's wait for running calls.
#[derive(Clone, Copy)]
pub(crate) struct ShutdownWait<'c> {
    pub conn: &'c Connection,
    pub since: Instant,
    pub deadline: Instant,
    /// A signal caused the shutdown. A later one ends the wait.
    pub signalled: bool,
}

impl ShutdownWait<'_> {
    /// Checks the calls in flight. Returns whether there is time left.
    #[cold]
    pub(crate) fn may_wait(&self) -> bool {
        let now = Instant::now();
        self.conn.check(now);
        // Only a second signal may end the process at once.
        if self.signalled && now - self.since > SIGNAL_GRACE {
            self.conn.core.watchdog.restore_default_signals();
        }
        now < self.deadline
            && !self.conn.sink.closed()
            && self.signalled == self.conn.core.watchdog.terminated()
    }

    pub(crate) fn next_check(&self) -> Instant {
        self.deadline.min(Instant::now() + TICK)
    }
}

pub(crate) fn spawn(
    name: &str,
    stack: usize,
    run: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, Error> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(run).map_err(|error| {
        // A low limit is the most likely reason.
        let what =
            format!("the thread {name} could not be started; is TINYMCP_ADDRESS_SPACE, or a limit, too low?");
        Error::new(ErrorKind::Limit, what).with_source(error)
    })
}

/// Best effort, as documented at [`Limits::address_space`]: errors are ignored.
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
