//! Serving loops: who reads, who watches, and in which order things end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::era::Card;
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::pool::{Pool, PoolSize};
use crate::transport::{Input, Link, own_stdio};

use super::alarm::{Alarm, Ended};
use super::connection::Connection;
use super::core::Core;
use super::dispatch::Reader;
use super::job::{InlineFn, Job};
use super::{LocalServer, Server};

/// A worker that found nothing to do for so long ends; an idle server keeps few threads.
const WORKER_IDLE: Duration = Duration::from_secs(10);

/// Stack of the thread that watches: it writes answers, and calls nothing of the program.
const WATCH_STACK: usize = 128 << 10;

type Hooks = Vec<Box<dyn FnOnce() + Send>>;

/// A server, taken apart for serving.
struct Parts {
    core: Arc<Core>,
    inline: Vec<Box<super::InlineSend>>,
    hooks: Hooks,
}

fn take_apart(server: Server) -> Result<Parts, Error> {
    let limits = match server.limits {
        Some(limits) => limits.clamped(),
        None => Limits::from_env()?,
    };
    lower_address_space(limits.address_space);
    let seal_key = OnceLock::new();
    if let Some(key) = server.seal_key {
        // OK because: a fresh cell is empty, so setting it cannot fail.
        let _ = seal_key.set(key);
    }
    let size = PoolSize {
        workers: limits.workers,
        queue: limits.queue,
        stack: limits.worker_stack,
        idle: WORKER_IDLE,
    };
    let alarm = Arc::new(Alarm::new()?);
    server.catalog.add_alarm(&alarm);
    let core = Arc::new(Core {
        logging: server.catalog.promised().logging,
        catalog: server.catalog,
        card: Card::new(server.identity),
        limits,
        eras: server.eras,
        list_cache: server.list_cache,
        read_cache: server.read_cache,
        pool: Pool::new(size, Job::run),
        alarm,
        seal_key,
        spare: Mutex::default(),
    });
    Ok(Parts { core, inline: server.inline, hooks: server.on_shutdown })
}

/// Serves a connection on this thread; another one watches.
pub(super) fn local(local: LocalServer, link: Link) -> Result<(), Error> {
    let parts = take_apart(local.server)?;
    let mut inline = all_inline(parts.inline, local.inline);
    let served = Arc::new(AtomicBool::new(false));
    let conn = connect(&parts.core, &link);
    let watcher = {
        let (core, served) = (Arc::clone(&parts.core), Arc::clone(&served));
        spawn("mcp-watch", WATCH_STACK, move || {
            core.alarm.watch(&core.catalog, &served);
        })?
    };
    let result = read(&conn, link, &mut inline);
    end(&conn, parts.hooks);
    served.store(true, Ordering::Release);
    parts.core.alarm.ring();
    // The watcher looks at its flag whenever it is rung, so this does not wait for long.
    let _ = watcher.join();
    result
}

/// Serves standard input and output; the calling thread watches, so that it can come back from a
/// signal although the reading thread is stuck in a read.
pub(super) fn stdio(server: Server) -> Result<(), Error> {
    let parts = take_apart(server)?;
    let link = own_stdio(&parts.core.limits)?;
    let _signals = parts.core.alarm.catch_signals()?;
    let conn = connect(&parts.core, &link);
    let served = Served { flag: Arc::default(), core: Arc::clone(&parts.core) };
    let flag = Arc::clone(&served.flag);
    let outcome = Arc::new(Mutex::new(Ok(())));
    {
        let (conn, outcome, handlers) = (Arc::clone(&conn), Arc::clone(&outcome), parts.inline);
        spawn("mcp-reader", conn.core.limits.worker_stack, move || {
            let _served = served;
            let result = read(&conn, link, &mut all_inline(handlers, Vec::new()));
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = result;
        })?;
    }
    let ended = parts.core.alarm.watch(&parts.core.catalog, &flag);
    end(&conn, parts.hooks);
    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    if ended == Ended::Served { std::mem::replace(&mut *outcome, Ok(())) } else { Ok(()) }
}

/// Serves standard input and output on the calling thread, for handlers that cannot leave it.
pub(super) fn local_stdio(local: LocalServer) -> Result<(), Error> {
    let parts = take_apart(local.server)?;
    let link = own_stdio(&parts.core.limits)?;
    let _signals = parts.core.alarm.catch_signals()?;
    let conn = connect(&parts.core, &link);
    let served = Arc::new(AtomicBool::new(false));
    let hooks = Arc::new(Mutex::new(parts.hooks));
    let watcher = {
        let (conn, served, hooks) = (Arc::clone(&conn), Arc::clone(&served), Arc::clone(&hooks));
        spawn("mcp-watch", WATCH_STACK, move || {
            if conn.core.alarm.watch(&conn.core.catalog, &served) != Ended::Served {
                end(&conn, take_hooks(&hooks));
                // The thread that serves is stuck in a read that nothing can interrupt.
                std::process::exit(0);
            }
        })?
    };
    let result = read(&conn, link, &mut all_inline(parts.inline, local.inline));
    served.store(true, Ordering::Release);
    parts.core.alarm.ring();
    // The watcher looks at its flag whenever it is rung, so this does not wait for long.
    let _ = watcher.join();
    end(&conn, take_hooks(&hooks));
    result
}

fn take_hooks(hooks: &Mutex<Hooks>) -> Hooks {
    std::mem::take(&mut *hooks.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Says that reading ended, also when it ended in a panic: the watching thread waits for this.
struct Served {
    flag: Arc<AtomicBool>,
    core: Arc<Core>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.flag.store(true, Ordering::Release);
        self.core.alarm.ring();
    }
}

fn all_inline(first: Vec<Box<super::InlineSend>>, rest: Vec<Box<InlineFn>>) -> Vec<Box<InlineFn>> {
    let mut all: Vec<Box<InlineFn>> = Vec::with_capacity(first.len() + rest.len());
    for handler in first {
        all.push(handler);
    }
    all.extend(rest);
    all
}

fn connect(core: &Arc<Core>, link: &Link) -> Arc<Connection> {
    let conn = Arc::new(Connection::new(Arc::clone(core), Arc::clone(&link.outlet)));
    core.catalog.connect(&conn);
    conn
}

/// Reads until the input ends, the peer is gone or the program asks to stop.
fn read(conn: &Arc<Connection>, mut link: Link, inline: &mut [Box<InlineFn>]) -> Result<(), Error> {
    let mut reader = Reader::new(Arc::clone(conn), inline);
    let result = loop {
        match link.inlet.next() {
            Input::Frame(bytes) => reader.frame(bytes),
            Input::TooLong => reader.too_long(),
            Input::End => break Ok(()),
            Input::Failed(error) => break Err(Error::from(error)),
        }
        if !link.inlet.ready() {
            reader.flush();
        }
        if conn.outlet.closed() || conn.core.catalog.stopping() {
            break Ok(());
        }
    };
    reader.flush();
    result
}

/// Lets running calls finish within the grace period, then ends everything.
fn end(conn: &Connection, hooks: Hooks) {
    conn.input_ended();
    conn.core.pool.close();
    if !conn.outlet.closed() {
        let deadline = Instant::now() + conn.core.limits.grace;
        conn.core.pool.wait_idle(deadline);
    }
    conn.close();
    for hook in hooks {
        hook();
    }
}

fn spawn(
    name: &str,
    stack: usize,
    run: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, Error> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(run).map_err(|error| {
        Error::new(ErrorKind::Limit, format!("the thread {name} could not be started")).with_source(error)
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
