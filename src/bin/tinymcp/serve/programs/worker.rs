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
//! A process gets one call at a time. It starts when a call needs it and then stays. Tools with the
//! same program, environment, folder and sandbox share their processes. Standard error goes to the
//! standard error of the server, each line with the name of the tool that started the process.
//!
//! # Failures
//! | failure | effect on the process |
//! |---|---|
//! | timeout, cancellation | SIGTERM to the group, SIGKILL after [`TERM`] |
//! | invalid line, longer line than [`LINE`] | SIGKILL to the group |
//! | end of the process or of its output | SIGKILL to the rest of the group |
//!
//! The call gets an error, and the next call starts a new process. A failed start, an invalid line
//! and an end during a call make the next start wait: [`FIRST_PAUSE`], doubled each time up to
//! [`LONGEST_PAUSE`]. A call waits at most [`PATIENCE`] for it, otherwise it fails at once. A
//! result or an `error` line resets the pause. A process that ends while it is idle is replaced.
//!
//! # Shutdown
//! The input of the processes is closed and they get SIGTERM; SIGKILL follows after [`TERM`]. The
//! last tool of a program may be dropped by any thread, such as the one that reads messages. So a
//! thread of its own waits for the end of processes that no tool uses any longer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tinymcp::json::{Doc, Kind, ParseLimits, Value};
use tinymcp::{ToolError, ToolOutput};

use super::group::{Group, Pipes, Processes, lock, timespec};
use super::output::{Rests, Rules, describe, seconds};
use super::process::{CHECK, Caller, Launch, TERM, start_error};
use super::program_log::WorkerLog;
use crate::serve::definition::{Output, ToolDefinition};
use crate::serve::run::{log, spawn};
use crate::serve::tool::{WaitingPlaces, busy};

/// Longest line of a program.
const LINE: usize = 4 << 20;
/// Pause before a start after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before a start.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause that a call waits for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an invalid line that an error shows.
const SHOWN: usize = 200;
/// Checks for the exit of a process whose standard error has ended, and the time between them.
const REAP_ATTEMPTS: u32 = 20;
const REAP_PAUSE: Duration = Duration::from_millis(1);
/// Stack of the thread that waits for processes to end.
const STACK: usize = 128 << 10;
/// Bytes of one read. They are on the stack of each thread that handles calls, and stay resident.
const CHUNK: usize = 4 << 10;

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

/// Body of the thread: waits for processes until there are no more.
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
    /// Processes that are idle, in a call, or being started.
    live: usize,
    /// Failures since the last response, and the last of them.
    failures: u32,
    last: String,
    /// Start of the next process at the earliest.
    start_at: Option<Instant>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut idle = std::mem::take(&mut lock(&self.state).idle);
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

/// A process that is reserved for one call. Dropping it ends the process.
struct Lease<'p> {
    pool: &'p Pool,
    worker: Option<Worker>,
    /// The process is not idle again.
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
                Err(ToolError::new(format!("the program did not respond within {time} and was killed")))
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

    /// Takes an idle process, starts one, or waits for one.
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
                if worker.is_ready() {
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
                    drop(state);
                    return self.start(&definition.tool.name);
                }
                if pause > PATIENCE {
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
                return Err(busy(state.live, definition.timeout));
            }
            // Other tools may have all processes. The calls of this one have waited before.
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
    fn start(&self, tool: &str) -> Result<Lease<'_>, ToolError> {
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
        lease.worker =
            Some(Worker { group, stdin, stdout, buffer: Vec::new(), searched: 0, id: 0, doc: None });
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
        if !self.processes.stopped() {
            state.idle.extend(lease.worker.take());
            lease.counted = false;
        }
    }

    fn failed(&self, reason: &str) {
        let mut state = lock(&self.state);
        let pause = FIRST_PAUSE.saturating_mul(1 << state.failures.min(10)).min(LONGEST_PAUSE);
        state.failures = state.failures.saturating_add(1);
        state.start_at = Some(Instant::now() + pause);
        reason.clone_into(&mut state.last);
    }
}

/// The line of a call.
fn request(id: u32, tool: &str, arguments: &str) -> Vec<u8> {
    let mut line = Vec::with_capacity(tool.len() + arguments.len() + 48);
    // Names of tools have no character that JSON escapes.
    line.extend_from_slice(format!("{{\"id\":{id},\"tool\":\"").as_bytes());
    line.extend_from_slice(tool.as_bytes());
    line.extend_from_slice(b"\",\"arguments\":");
    // A line end in JSON text is white space between values.
    line.extend(arguments.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    line.extend_from_slice(b"}\n");
    line
}

/// Reason why a process did not respond.
enum Failure {
    Cancelled,
    TimedOut,
    /// An invalid line, with a message, or the end of the process.
    Broken(Option<String>),
}

enum Reply {
    Result(Doc),
    Error(String),
}

impl Reply {
    fn output(self, rules: &Rules<'_>, structured: bool) -> ToolOutput {
        match &self {
            Reply::Error(text) => rules.failed(text),
            Reply::Result(doc) => match doc.root().get("result") {
                Some(value) => match value.as_str() {
                    Some(text) if !structured => rules.given_text(text),
                    _ => rules.given_json(value),
                },
                None => ToolOutput::new(),
            },
        }
    }
}

/// One process.
struct Worker {
    group: Group,
    stdin: Option<File>,
    stdout: File,
    /// Output that is not processed.
    buffer: Vec<u8>,
    /// Bytes of the buffer without a line end.
    searched: usize,
    /// Number of the last call.
    id: u32,
    /// Document of the last line, for its buffers.
    doc: Option<Doc>,
}

impl Worker {
    /// Returns whether the process runs and has written nothing since its last response.
    fn is_ready(&mut self) -> bool {
        let silent = match self.stdout.read(&mut [0]) {
            Ok(0) => return false,
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock && self.buffer.is_empty(),
        };
        if !silent {
            log("a worker wrote something after its response; it is replaced");
        }
        silent && !self.group.exited()
    }

    /// Ends the process with a warning.
    fn terminate(&mut self) {
        self.stdin = None;
        self.group.signal(Signal::TERM);
        self.group.wait(TERM);
        self.group.end();
    }

    /// Sends a request and waits for its result.
    fn exchange(
        &mut self,
        caller: &mut dyn Caller,
        (tool, arguments): (&str, &str),
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        self.id = self.id.wrapping_add(1);
        let request = request(self.id, tool, arguments);
        let mut rest = request.as_slice();
        loop {
            if !rest.is_empty() {
                rest = self.write(rest)?;
            }
            while let Some(length) = self.line()? {
                if let Some(reply) = self.reply(length, caller)? {
                    return Ok(reply);
                }
            }
            let now = Instant::now();
            if caller.cancelled() {
                return Err(Failure::Cancelled);
            }
            if now >= deadline {
                return Err(Failure::TimedOut);
            }
            self.wait(!rest.is_empty(), CHECK.min(deadline - now))?;
        }
    }

    /// Writes what fits into the pipe and returns the rest.
    fn write<'r>(&mut self, rest: &'r [u8]) -> Result<&'r [u8], Failure> {
        let written = self.stdin.as_mut().map(|stdin| stdin.write(rest));
        match written {
            Some(Ok(count)) => Ok(rest.get(count..).unwrap_or_default()),
            Some(Err(error))
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                Ok(rest)
            }
            _ => Err(Failure::Broken(None)),
        }
    }

    /// Waits for output, the end of the process, or room in its input; then reads.
    fn wait(&mut self, writing: bool, pause: Duration) -> Result<(), Failure> {
        let mut fds = Vec::with_capacity(3);
        fds.push(PollFd::new(&self.stdout, PollFlags::IN));
        fds.extend(self.group.exit().map(|exit| PollFd::new(exit, PollFlags::IN)));
        fds.extend(self.stdin.as_ref().filter(|_| writing).map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
        match poll(&mut fds, Some(&timespec(pause))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::Broken(Some(io::Error::from(error).to_string()))),
        }
        let mut chunk = [0; CHUNK];
        match self.stdout.read(&mut chunk) {
            Ok(0) => Err(Failure::Broken(None)),
            Ok(count) => {
                self.buffer.extend_from_slice(chunk.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            // Nothing is in the pipe. A child of an ended process may hold it open.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.group.exited() => Ok(()),
            Err(_) => Err(Failure::Broken(None)),
        }
    }

    /// Returns the length of the first line with its end.
    fn line(&mut self) -> Result<Option<usize>, Failure> {
        let new = self.buffer.get(self.searched..).unwrap_or_default();
        match memchr::memchr(b'\n', new) {
            Some(at) => Ok(Some(self.searched + at + 1)),
            None if self.buffer.len() > LINE => {
                Err(Failure::Broken(Some(format!("the program wrote a line of more than {LINE} bytes"))))
            }
            None => {
                self.searched = self.buffer.len();
                Ok(None)
            }
        }
    }

    /// Processes the first line. Returns the reply, if it is one.
    fn reply(&mut self, length: usize, caller: &mut dyn Caller) -> Result<Option<Reply>, Failure> {
        let line: Vec<u8> = self.buffer.drain(..length).collect();
        self.searched = 0;
        let mut doc = self.doc.take().unwrap_or_default();
        let limits = ParseLimits { bytes: LINE, ..ParseLimits::default() };
        if let Err(error) = doc.parse_again(&line, &limits) {
            return Err(invalid(&line, &error.kind().to_string()));
        }
        let root = doc.root();
        if root.kind() != Kind::Object {
            return Err(invalid(&line, "not an object"));
        }
        let Some(id) = root.get("id") else {
            return Err(invalid(&line, "no `id`; repeat that of the call"));
        };
        if id.as_f64() != Some(self.id.into()) {
            log("a worker wrote a line with the `id` of another call; it is dropped");
            self.doc = Some(doc);
            return Ok(None);
        }
        if root.get("result").is_some() {
            return Ok(Some(Reply::Result(doc)));
        }
        if let Some(error) = root.get("error") {
            let error = error.as_str().unwrap_or_else(|| error.raw()).to_owned();
            self.doc = Some(doc);
            return Ok(Some(Reply::Error(error)));
        }
        let Some(done) = root.get("progress").and_then(Value::as_f64) else {
            return Err(invalid(&line, "expected `result`, `error` or a number `progress`"));
        };
        let total = root.get("total").and_then(Value::as_f64);
        caller.progress(done, total, root.get("message").and_then(Value::as_str));
        self.doc = Some(doc);
        Ok(None)
    }
}

/// Error of an invalid line.
fn invalid(line: &[u8], reason: &str) -> Failure {
    let shown = String::from_utf8_lossy(line.get(..SHOWN).unwrap_or(line));
    Failure::Broken(Some(format!("the program wrote an invalid line: {reason}: {}", shown.trim_end())))
}

#[cfg(test)]
mod tests;
