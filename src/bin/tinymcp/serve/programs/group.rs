//! Process groups: start, signals, exit, reaping, and processes that left their group.
//!
//! Each program is the leader of its own process group. [`Group::end`] kills the group, then reaps
//! the leader: until then the system does not reuse its process id.
//!
//! # Processes that leave the group
//! A process that calls `setsid` or `setpgid`, as `timeout` and daemons do, is not reached by the
//! signals to its group. On Linux this process is the reaper of its orphans, and each program has
//! its own value of the variable [`MARK`], which its children inherit. After the end of a group,
//! the orphans with its mark are killed and reaped. Orphans without a readable mark are killed when
//! no program runs, except in two cases, in which they may have another origin: this process is
//! process 1, or it had children at the first start of a program. Children from before that start
//! are never killed. This needs `/proc/PID/task/PID/children`, which some kernels lack.
//!
//! # Death of this process
//! After SIGKILL this process cannot kill the programs. They read the end of their input, and
//! SIGPIPE ends those that write to their output.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, kill_process, kill_process_group, waitid,
};

use crate::mutex::lock;

/// Variable that marks a program and its children.
pub(crate) const MARK: &str = "TINYMCP_CALL";

/// Time for a killed process to exit; only the kernel can delay it.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest poll interval where the system does not notify of an exit.
const POLL_EXIT: Duration = Duration::from_millis(10);

/// Makes exits of children visible: a host may have started this process with SIGCHLD ignored, and
/// the system then reaps children itself.
///
/// # Errors
/// The system rejects the handler.
pub(crate) fn watch_exits() -> io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::default()).map(drop)
}

/// All running groups of a server.
#[derive(Default)]
pub(crate) struct Processes {
    table: Mutex<Table>,
    left: Condvar,
}

#[derive(Default)]
struct Table {
    live: Vec<Pid>,
    /// Killed processes that the kernel has not ended yet.
    stuck: Vec<Child>,
    stopped: bool,
}

impl Processes {
    /// Kills all groups, rejects new ones, and waits until the groups are reaped.
    pub(crate) fn stop(&self) {
        let mut table = lock(&self.table);
        table.stopped = true;
        for pid in &table.live {
            signal(*pid, Signal::KILL);
        }
        let deadline = Instant::now() + KILL_TIMEOUT;
        while !table.live.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            table = self.left.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether [`Processes::stop`] was called.
    pub(crate) fn stopped(&self) -> bool {
        lock(&self.table).stopped
    }

    /// Returns the number of running groups.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        lock(&self.table).live.len()
    }

    /// Registers a group. Returns `false` after [`Processes::stop`].
    fn enter(&self, pid: Pid) -> bool {
        let mut table = lock(&self.table);
        table.stuck.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        table.live.push(pid);
        !table.stopped
    }

    /// Removes a group, then reaps its leader: [`Processes::stop`] signals existing ids only.
    fn leave(&self, pid: Pid, mut child: Child) -> Option<ExitStatus> {
        let mut table = lock(&self.table);
        table.live.retain(|live| *live != pid);
        let status = child.try_wait();
        if matches!(status, Ok(None)) {
            table.stuck.push(child);
        }
        drop(table);
        self.left.notify_all();
        status.ok().flatten()
    }
}

/// A running program and its process group. Dropping it ends the group.
pub(crate) struct Group {
    /// `None` after the end.
    child: Option<Child>,
    pid: Pid,
    mark: String,
    /// Readable when the program has exited: Linux 5.3 and later.
    exit: Option<OwnedFd>,
    processes: Arc<Processes>,
    status: Option<ExitStatus>,
}

/// This side of the pipes of a program, in non-blocking mode.
pub(crate) struct Pipes {
    pub(crate) stdin: Option<File>,
    pub(crate) stdout: Option<File>,
    pub(crate) stderr: Option<File>,
}

impl Group {
    /// Starts a program as the leader of a new group.
    ///
    /// # Errors
    /// The program cannot be started, or the server shuts down.
    pub(crate) fn start(command: &mut Command, processes: &Arc<Processes>) -> io::Result<(Group, Pipes)> {
        let mark = strays::mark();
        command.env(MARK, &mark).process_group(0);
        let mut child = command.spawn().inspect_err(|_| strays::forget(&mark))?;
        let pipes = Pipes {
            stdin: child.stdin.take().map(|pipe| OwnedFd::from(pipe).into()),
            stdout: child.stdout.take().map(|pipe| OwnedFd::from(pipe).into()),
            stderr: child.stderr.take().map(|pipe| OwnedFd::from(pipe).into()),
        };
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            return Err(io::Error::other("invalid process id"));
        };
        strays::started(&mark, pid);
        #[cfg(target_os = "linux")]
        let exit = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok();
        #[cfg(not(target_os = "linux"))]
        let exit = None;
        let admitted = processes.enter(pid);
        let processes = Arc::clone(processes);
        let group = Group { child: Some(child), pid, mark, exit, processes, status: None };
        if !admitted {
            return Err(io::Error::other("the server shuts down"));
        }
        for pipe in [&pipes.stdin, &pipes.stdout, &pipes.stderr].into_iter().flatten() {
            // Non-blocking mode affects only this end of the pipe, which no other process has.
            ioctl_fionbio(pipe, true)?;
        }
        Ok((group, pipes))
    }

    /// Returns the descriptor that is readable when the program has exited, if the system supports
    /// this.
    pub(crate) fn exit(&self) -> Option<&OwnedFd> {
        self.exit.as_ref()
    }

    /// Returns whether the program has exited, without reaping it.
    pub(crate) fn exited(&self) -> bool {
        if self.child.is_none() {
            return true;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that another part of the program reaped it.
        !matches!(waitid(WaitId::Pid(self.pid), options), Ok(None) | Err(Errno::INTR))
    }

    /// Waits until the program has exited.
    pub(crate) fn wait(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut pause = Duration::from_micros(200);
        while !self.exited() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            match &self.exit {
                Some(exit) => {
                    // OK to drop: the next iteration checks the result.
                    let _ = poll(&mut [PollFd::new(exit, PollFlags::IN)], Some(&timespec(left)));
                }
                None => {
                    std::thread::sleep(pause.min(left));
                    pause = (pause * 2).min(POLL_EXIT);
                }
            }
        }
        true
    }

    /// Sends a signal to the group and the program. A stopped program continues to end by SIGTERM.
    pub(crate) fn signal(&self, which: Signal) {
        // The process id of a reaped child may be reused.
        if self.child.is_some() {
            signal(self.pid, which);
            if which == Signal::TERM {
                signal(self.pid, Signal::CONT);
            }
        }
    }

    /// Kills what is left of the group and reaps the program. Returns its exit status.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::KILL);
        self.wait(KILL_TIMEOUT);
        if let Some(child) = self.child.take() {
            // Before the group leaves the table: `Processes::stop` waits for that.
            strays::ended(&self.mark, self.pid);
            self.status = self.processes.leave(self.pid, child);
            strays::left(self.pid);
        }
        self.status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

fn signal(pid: Pid, signal: Signal) {
    // OK to drop: the process may have exited.
    let _ = kill_process_group(pid, signal);
    // The program may have joined another group, and others may be left in its own.
    if getpgid(Some(pid)) != Ok(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Timeout of `poll`.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Processes that left the group of their program, and the marks of running programs.
#[cfg(target_os = "linux")]
mod strays {
    use std::fs;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use rustix::process::{getpid, set_child_subreaper};

    use super::waitid;
    use super::{Duration, Errno, Instant, MARK, Mutex, Pid, Signal, WaitId, WaitIdOptions, kill_process};
    use crate::mutex::lock;

    /// Locked for short times only: each start and end of a program needs it.
    static KNOWN: Mutex<Known> =
        Mutex::new(Known { running: Vec::new(), ending: Vec::new(), earlier: Vec::new(), stuck: Vec::new() });
    static NEXT: AtomicU64 = AtomicU64::new(0);
    /// This process is the reaper of orphans.
    static REAPER: AtomicBool = AtomicBool::new(false);
    /// Time for killed orphans and their own orphans to exit. On a busy machine they may wait for a
    /// processor first.
    const KILL_TIMEOUT: Duration = Duration::from_secs(5);
    /// Longest interval between two checks of killed orphans.
    const PAUSE: Duration = Duration::from_millis(10);

    struct Known {
        /// Running programs, each with its mark. The leader's id is `None` until it is started.
        running: Vec<(String, Option<Pid>)>,
        /// Leaders that have exited and are not reaped yet.
        ending: Vec<Pid>,
        /// Children that existed before the first mark: the program that was this process before
        /// `exec` started them.
        earlier: Vec<Pid>,
        /// Orphans that did not exit in [`KILL_TIMEOUT`]. Nothing waits for them again.
        stuck: Vec<Pid>,
    }

    impl Known {
        fn remove(&mut self, mark: &str) {
            self.running.retain(|(known, _)| known != mark);
        }
    }

    /// Returns a new mark and registers it.
    pub(super) fn mark() -> String {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if let Some(earlier) = (number == 0).then(orphans).flatten() {
            lock(&KNOWN).earlier = earlier;
            REAPER.store(set_child_subreaper(Some(getpid())).is_ok(), Ordering::Release);
        }
        let mark = format!("{}.{number}", getpid().as_raw_nonzero());
        lock(&KNOWN).running.push((mark.clone(), None));
        mark
    }

    /// Removes the mark of a program that did not start.
    pub(super) fn forget(mark: &str) {
        lock(&KNOWN).remove(mark);
    }

    pub(super) fn started(mark: &str, pid: Pid) {
        if let Some(entry) = lock(&KNOWN).running.iter_mut().find(|(known, _)| known == mark) {
            entry.1 = Some(pid);
        }
    }

    /// Kills and reaps the orphans of a program whose leader has exited, and their own orphans.
    pub(super) fn ended(mark: &str, leader: Pid) {
        let mut known = lock(&KNOWN);
        known.remove(mark);
        known.ending.push(leader);
        drop(known);
        if !REAPER.load(Ordering::Acquire) {
            return;
        }
        // Bounded, because a program may start processes faster than they are killed, and only the
        // kernel can end a process that waits for a device.
        let deadline = Instant::now() + KILL_TIMEOUT;
        let mut pause = Duration::from_micros(100);
        loop {
            let strays = kill_strays();
            if strays.left.is_empty() && !strays.reaped {
                return;
            }
            if Instant::now() >= deadline {
                return lock(&KNOWN).stuck.extend(strays.left);
            }
            if strays.reaped {
                continue;
            }
            // Without the lock: other programs start and end meanwhile.
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        }
    }

    /// Removes a leader that has been reaped.
    pub(super) fn left(leader: Pid) {
        lock(&KNOWN).ending.retain(|ending| *ending != leader);
    }

    struct Strays {
        /// Killed processes that have not exited.
        left: Vec<Pid>,
        /// Some processes had exited. They may have left children.
        reaped: bool,
    }

    /// Kills the orphans of ended programs, and reaps those that have exited. The lock is held
    /// throughout, so no other thread reaps a process of the list, whose id could then be that of a
    /// new program.
    fn kill_strays() -> Strays {
        let mut known = lock(&KNOWN);
        // An orphan without a mark belongs to an ended program.
        let only_own = known.earlier.is_empty() && !getpid().is_init();
        let mut strays = Strays { left: Vec::new(), reaped: false };
        for pid in orphans().unwrap_or_default() {
            let is_leader = known.running.iter().any(|(_, leader)| *leader == Some(pid));
            if is_leader || known.ending.contains(&pid) || known.earlier.contains(&pid) {
                continue;
            }
            if reaped(pid) {
                known.stuck.retain(|stuck| *stuck != pid);
                strays.reaped = true;
            } else if !known.stuck.contains(&pid)
                && (is_exiting(pid) || is_stray(pid, &known.running, only_own))
            {
                // OK to drop: the process may have exited.
                let _ = kill_process(pid, Signal::KILL);
                strays.left.push(pid);
            }
        }
        strays
    }

    /// Returns the children of the main thread, which gets the orphans and starts no program. Known
    /// programs are among them if the thread that started them has ended.
    fn orphans() -> Option<Vec<Pid>> {
        let path = format!("/proc/self/task/{}/children", getpid().as_raw_nonzero());
        let list = fs::read_to_string(path).ok()?;
        Some(list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect())
    }

    fn reaped(pid: Pid) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None) | Err(Errno::INTR))
    }

    /// Returns whether the process has released its memory and environment. It is reaped soon.
    fn is_exiting(pid: Pid) -> bool {
        fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).is_ok_and(|line| line.is_empty())
    }

    /// Returns whether the process belongs to an ended program. A process without a mark of this
    /// server may belong to any running one, and to others unless `only_own`. A process can make
    /// its environment unreadable.
    fn is_stray(pid: Pid, running: &[(String, Option<Pid>)], only_own: bool) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        let own = format!("{MARK}={}.", getpid().as_raw_nonzero());
        let mark = environment
            .split(|byte| *byte == 0)
            .find(|variable| variable.starts_with(own.as_bytes()))
            .and_then(|variable| variable.get(MARK.len() + 1..));
        match mark {
            Some(mark) => running.iter().all(|(known, _)| known.as_bytes() != mark),
            None => only_own && running.is_empty(),
        }
    }
}

/// Other systems give orphans to process 1.
#[cfg(not(target_os = "linux"))]
mod strays {
    use super::Pid;

    pub(super) fn mark() -> String {
        "1".to_owned()
    }

    pub(super) fn forget(_: &str) {}

    pub(super) fn started(_: &str, _: Pid) {}

    pub(super) fn ended(_: &str, _: Pid) {}

    pub(super) fn left(_: Pid) {}
}
