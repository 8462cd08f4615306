//! Serving loops: who reads, who watches, and in which order things end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};
use crate::era::Card;
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
    let served = Arc::new(AtomicBool::new(false));
    let conn = connect(&parts.core, &link);
    let outcome = Arc::new(Mutex::new(Ok(())));
    let mut inline = all_inline(parts.inline, Vec::new());
    {
        let (conn, served, outcome) = (Arc::clone(&conn), Arc::clone(&served), Arc::clone(&outcome));
        // `inline` holds what is Send, but its type has forgotten so: see `SendInline`.
        let stack = conn.core.limits.worker_stack;
        let mut reading = move || {
            let result = read(&conn, link, &mut inline);
            if let Ok(mut outcome) = outcome.lock() {
                *outcome = result;
            }
            served.store(true, Ordering::Release);
            conn.core.alarm.ring();
        };
        spawn("mcp-reader", stack, move || reading())?;
    }
    let ended = parts.core.alarm.watch(&parts.core.catalog, &served);
    end(&conn, parts.hooks);
    match (ended, outcome.lock()) {
        (Ended::Served, Ok(mut outcome)) => std::mem::replace(&mut *outcome, Ok(())),
        _ => Ok(()),
    }
}
