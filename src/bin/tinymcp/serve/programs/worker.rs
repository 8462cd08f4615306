//! Co-processes: programs that serve many calls, one line each.
//!
//! | line | direction |
//! |---|---|
//! | `{"id": N, "tool": "NAME", "arguments": {…}}` | to the program |
//! | `{"id": N, "progress": N, "total": N, "message": "…"}` | from it, any number of times |
//! | `{"id": N, "result": VALUE}` | from it: a string is text, others are structured content |
//! | `{"id": N, "error": "TEXT"}` | from it: the call failed; the process stays |
//!
//! A line with another `id` than that of the call belongs to an earlier call and is dropped;
//! without `id` it is invalid. So no second or late response counts for the next call. A process
//! that wrote anything between two calls is replaced.
//!
//! A process gets one call at a time. It starts when a call needs it and then stays, until SIGHUP
//! or a change of a definition with its program. Tools with the same program, environment, folder
//! and sandbox share their processes. Their standard error is written to that of the server, each
//! line with the name of the tool that started the process.
//!
//! # Failures
//! | failure | effect on the process |
//! |---|---|
//! | timeout, cancellation | SIGTERM to the group, SIGKILL after [`TERM`] |
//! | invalid line, longer line than [`LINE`](exchange::LINE) | SIGKILL to the group |
//! | end of the process or of its output | SIGKILL to the rest of the group |
//!
//! The call gets an error, and the next call starts a new process. After a failed start, an invalid
//! line or an end during a call, the next start waits: first for [`FIRST_PAUSE`], doubled each time
//! up to [`MAX_PAUSE`]. A call that would wait for more than [`MAX_WAITED_PAUSE`] fails at once. A
//! result or an `error` line resets the pause. A process that ends while it is idle is replaced.
//!
//! # Shutdown
//! The input of the processes is closed and they get SIGTERM; SIGKILL follows after [`TERM`]. The
//! last tool of a program may be dropped by any thread, such as the one that reads messages. So a
//! separate thread waits for the end of processes that no tool uses any longer.

use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tinymcp::{ToolError, ToolOutput};

use super::group::{Group, Pipes, Processes};
use super::output::{Rests, Rules, describe, seconds};
use super::process::{CHECK, Caller, Launch, TERM, start_error};
use super::program_log::WorkerLog;
use crate::mutex::lock;
use crate::serve::definition::{Output, ToolDefinition};
use crate::serve::run::spawn;
use crate::serve::tool::{WaitingPlaces, busy};

/// Pause before a start after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before a start.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause that a call waits for.
const MAX_WAITED_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of checks for the exit of a process whose standard error has ended, and the pause
/// between two checks.
const REAP_ATTEMPTS: u32 = 20;
const REAP_PAUSE: Duration = Duration::from_millis(1);
/// Stack of the thread that waits for processes to end.
const STACK: usize = 128 << 10;

mod exchange;

use exchange::{Failure, Worker};

/// All co-processes of a server.
#[derive(Default)]
pub(crate) struct Workers {
    pools: Mutex<Vec<Weak<Pool>>>,
    log: Arc<WorkerLog>,
    ending: Arc<Mutex<Ending>>,
}

/// Processes that were requested to end and have not ended yet.
#[derive(Default)]
struct Ending {
    workers: Vec<Worker>,
    /// A thread waits for processes and will check `workers` again.
    thread: bool,
}

impl Workers {
    /// Returns the processes of a program. Equal programs share them.
    pub(crate) fn pool(&self, launch: &Arc<Launch>, processes: &Arc<Processes>) -> Arc<Pool> {
        let mut pools = lock(&self.pools);
        pools.retain(|pool| pool.strong_count() > 0);
        if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(|pool| *pool.launch == **launch) {
            return pool;
        }
        let pool = Arc::new_cyclic(|this| Pool {
            this: Weak::clone(this),
            launch: Arc::clone(launch),
            processes: Arc::clone(processes),
            log: Arc::clone(&self.log),
            ending: Arc::clone(&self.ending),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        pools.push(Arc::downgrade(&pool));
        pool
    }

    /// Replaces all processes, for example because their programs changed.
    pub(crate) fn renew(&self) {
        let pools: Vec<Arc<Pool>> = lock(&self.pools).iter().filter_map(Weak::upgrade).collect();
        pools.iter().for_each(|pool| pool.renew());
    }

    /// Ends all idle processes.
    pub(crate) fn stop(&self) {
        let mut idle = Vec::new();
        for pool in lock(&self.pools).iter().filter_map(Weak::upgrade) {
            idle.append(&mut lock(&pool.state).idle);
        }
        request_end(&mut idle);
        wait_and_kill(idle);
    }
}

/// Requests processes to end.
fn request_end(workers: &mut [Worker]) {
    for worker in workers {
        worker.stdin = None;
        worker.group.signal(Signal::TERM);
    }
}

/// Gives processes time to end, then kills them.
fn wait_and_kill(workers: Vec<Worker>) {
    let deadline = Instant::now() + TERM;
    for worker in &workers {
        worker.group.wait(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Body of the thread: waits until all processes have ended.
fn wait_for_all(ending: &Mutex<Ending>) {
    loop {
        let workers = {
            let mut ending = lock(ending);
            ending.thread = !ending.workers.is_empty();
            std::mem::take(&mut ending.workers)
        };
        if workers.is_empty() {
            return;
        }
        wait_and_kill(workers);
    }
}

/// Processes of one program.
pub(crate) struct Pool {
    this: Weak<Pool>,
    launch: Arc<Launch>,
    processes: Arc<Processes>,
    log: Arc<WorkerLog>,
    ending: Arc<Mutex<Ending>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Worker>,
    /// Number of calls of `renew`. Processes that were started before the last call are not used
    /// again.
    age: u32,
    /// Processes that are idle, in a call, or being started.
    live: usize,
    /// Number of failures since the last response, and the last failure.
    failures: u32,
    last: String,
    /// Earliest time at which the next process starts.
    start_at: Option<Instant>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut lock(&self.state).idle);
        self.end(idle);
    }
}

impl Pool {
    /// Ends idle processes, and those in a call after it.
    pub(crate) fn renew(&self) {
        let mut state = lock(&self.state);
        state.age += 1;
        let idle = std::mem::take(&mut state.idle);
        state.live -= idle.len();
        drop(state);
        self.end(idle);
    }

    /// Ends processes without waiting for them.
    fn end(&self, mut idle: Vec<Worker>) {
        if idle.is_empty() {
            return;
        }
        request_end(&mut idle);
        let mut ending = lock(&self.ending);
        ending.workers.append(&mut idle);
        if std::mem::replace(&mut ending.thread, true) {
            return;
        }
        drop(ending);
        let ending = Arc::clone(&self.ending);
        if spawn("serve-end", STACK, Box::new(move || wait_for_all(&ending))).is_err() {
            // Without a thread the processes are killed now.
            let mut ending = lock(&self.ending);
            ending.thread = false;
            let workers = std::mem::take(&mut ending.workers);
            drop(ending);
            drop(workers);
        }
    }
}

/// Process that is reserved for one call. Dropping the lease ends a process that was not returned.
struct Lease<'p> {
    pool: &'p Pool,
    worker: Option<Worker>,
    /// The process counts as live here, because it was not returned to the idle ones.
    counted: bool,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // The process ends before another one may start in its place.
        self.worker = None;
        if self.counted {
            lock(&self.pool.state).live -= 1;
        }
        self.pool.changed.notify_one();
    }
}

impl Pool {
    /// Calls a tool.
    ///
    /// # Errors
    /// The process failed, the call was cancelled, or it took too long.
    pub(crate) fn call(
        &self,
        caller: &mut dyn Caller,
        definition: &ToolDefinition,
        arguments: &str,
        (rests, places): (&Rests, &WaitingPlaces),
    ) -> Result<ToolOutput, ToolError> {
        let tool = &definition.tool.name;
        let rules = Rules {
            tool,
            output: &Output::Text,
            limit: definition.output_limit,
            rests: definition.link_rest.then_some(rests),
        };
        let timeout = definition.timeout;
        let deadline = Instant::now() + timeout;
        let mut lease = self.lease(caller, definition, deadline, places)?;
        let Some(worker) = &mut lease.worker else { return Err(ToolError::new("no process")) };
        match worker.exchange(caller, (tool, arguments), deadline) {
            Ok(reply) => {
                let output = reply.output(&rules, definition.tool.output_schema.is_some());
                self.put_back(lease);
                Ok(output)
            }
            Err(Failure::Cancelled) => {
                worker.terminate();
                Err(ToolError::new("the call was cancelled"))
            }
            Err(Failure::TimedOut) => {
                worker.terminate();
                let time = seconds(timeout);
                Err(ToolError::new(format!(
                    "the program did not respond within {time} and was killed; does it flush each line?"
                )))
            }
            Err(Failure::Broken(reason)) => {
                let reason = match reason {
                    Some(reason) => reason,
                    None => {
                        let status = worker.group.end();
                        let note = self
                            .launch
                            .sandbox_note(status)
                            .map_or_else(String::new, |note| format!(" {note}"));
                        format!("{} before it responded{note}", describe(status))
                    }
                };
                self.failed(&reason);
                Err(ToolError::new(reason))
            }
        }
    }

    /// Reserves an idle process, starts a process, or waits until one is idle.
    fn lease(
        &self,
        caller: &dyn Caller,
        definition: &ToolDefinition,
        deadline: Instant,
        places: &WaitingPlaces,
    ) -> Result<Lease<'_>, ToolError> {
        let mut place = None;
        let mut state = lock(&self.state);
        loop {
            if let Some(mut worker) = state.idle.pop() {
                if worker.is_ready(&definition.tool.name) {
                    return Ok(Lease { pool: self, worker: Some(worker), counted: true });
                }
                drop(state);
                drop(Lease { pool: self, worker: Some(worker), counted: true });
                state = lock(&self.state);
                continue;
            }
            let now = Instant::now();
            let mut wait = CHECK;
            if state.live < definition.concurrency {
                let pause = state.start_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
                if pause.is_zero() {
                    state.live += 1;
                    let age = state.age;
                    drop(state);
                    return self.start(&definition.tool.name, age);
                }
                if pause > MAX_WAITED_PAUSE {
                    let (failures, last, time) = (state.failures, &state.last, pause.as_secs() + 1);
                    return Err(ToolError::new(format!(
                        "the program failed {failures} times and is started again in {time} s at the earliest; \
                         the last failure: {last}"
                    )));
                }
                wait = pause.min(CHECK);
            }
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return Err(busy(definition));
            }
            // Other tools may use all processes. The calls of this tool have already waited for its
            // `concurrency`.
            if place.is_none() {
                place = Some(places.take()?);
            }
            state =
                self.changed.wait_timeout(state, wait.min(left)).unwrap_or_else(PoisonError::into_inner).0;
            if caller.cancelled() {
                return Err(ToolError::new("the call was cancelled"));
            }
        }
    }

    /// Starts a process in a place that is already counted.
    fn start(&self, tool: &str, age: u32) -> Result<Lease<'_>, ToolError> {
        let mut lease = Lease { pool: self, worker: None, counted: true };
        let mut argv = vec![self.launch.program.clone()];
        argv.extend(self.launch.literals.iter().cloned());
        let mut command = self.launch.command(&argv)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (group, pipes) = Group::start(&mut command, &self.processes).map_err(|error| {
            let message = start_error(&command, &error);
            self.failed(&message);
            ToolError::new(message)
        })?;
        let Pipes { stdin, stdout, stderr } = pipes;
        if let Some(stderr) = stderr {
            let pool = Weak::clone(&self.this);
            let ended = move || pool.upgrade().into_iter().for_each(|pool| pool.reap());
            self.log.add(tool, stderr, Box::new(ended))?;
        }
        let stdout = stdout.ok_or_else(|| ToolError::new("the program has no output"))?;
        lease.worker = Some(Worker::new(group, stdin, stdout, age));
        Ok(lease)
    }

    /// Reaps a process that ended while it was idle. Its standard error ends a moment before it.
    fn reap(&self) {
        for _ in 0..REAP_ATTEMPTS {
            let mut state = lock(&self.state);
            let ended = state.idle.iter().position(|worker| worker.group.exited());
            let ended = ended.map(|at| state.idle.swap_remove(at));
            drop(state);
            if ended.is_some() {
                drop(Lease { pool: self, worker: ended, counted: true });
                return;
            }
            std::thread::sleep(REAP_PAUSE);
        }
    }

    fn put_back(&self, mut lease: Lease<'_>) {
        let mut state = lock(&self.state);
        (state.failures, state.start_at) = (0, None);
        // After shutdown began, the process ends with the lease.
        if self.processes.stopped() {
            return;
        }
        let worker = lease.worker.take();
        if worker.as_ref().is_some_and(|worker| worker.age != state.age) {
            drop(state);
            return self.end(worker.into_iter().collect());
        }
        state.idle.extend(worker);
        lease.counted = false;
    }

    fn failed(&self, reason: &str) {
        let mut state = lock(&self.state);
        let pause = FIRST_PAUSE.saturating_mul(1 << state.failures.min(10)).min(MAX_PAUSE);
        state.failures = state.failures.saturating_add(1);
        state.start_at = Some(Instant::now() + pause);
        reason.clone_into(&mut state.last);
    }
}

#[cfg(test)]
mod tests;
