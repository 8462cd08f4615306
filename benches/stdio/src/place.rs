//! Processors of the driver and of the server.
//!
//! Moves this thread and all threads of a server. With one processor only, placements that need two
//! are left out.
//!
//! Without a placement, the scheduler puts both ends of a pipe on one processor or on two. A call
//! takes some microseconds in the first case. It takes tens of microseconds in the second, because
//! an idle processor must wake up. A mix of both hides every difference between servers.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Result;
use crate::proc;

/// Processors of both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Driver and server share one processor: a call costs work and context switches, but no
    /// wake-up.
    One,
    /// The driver runs on one processor, the server on another.
    Two,
    /// Both may run on any processor.
    Free,
}

/// All placements, in the order of the report.
pub const PLACEMENTS: [Placement; 3] = [Placement::One, Placement::Two, Placement::Free];

impl Placement {
    /// Short name: the first part of the key of a metric.
    pub fn key(self) -> &'static str {
        match self {
            Placement::One => "one",
            Placement::Two => "two",
            Placement::Free => "free",
        }
    }

    /// Heading in the report.
    pub fn heading(self) -> &'static str {
        match self {
            Placement::One => "driver and server on one CPU",
            Placement::Two => "driver on one CPU, server on another",
            Placement::Free => "placed by the scheduler",
        }
    }
}

/// Processors that this process may use.
pub struct Places {
    all: CpuSet,
    first: CpuSet,
    last: Option<CpuSet>,
}

impl Places {
    /// Reads the available processors.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report them.
    pub fn find() -> Result<Self> {
        let all = sched_getaffinity(None)?;
        let only = |index: usize| {
            let mut set = CpuSet::new();
            set.set(index);
            set
        };
        let mut usable = (0..CpuSet::MAX_CPU).filter(|index| all.is_set(*index));
        let first = usable.next().ok_or("no processor")?;
        Ok(Self { all, first: only(first), last: usable.next_back().map(only) })
    }

    /// Placements that this machine supports.
    pub fn usable(&self) -> impl Iterator<Item = Placement> {
        let two = self.last.is_some();
        let all = PLACEMENTS.into_iter();
        all.filter(move |placement| two || *placement == Placement::One)
    }

    /// Moves the calling thread and all threads of `pid`. Threads inherit the placement of the
    /// thread that starts them.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects it.
    pub fn put(&self, pid: u32, placement: Placement) -> Result<()> {
        let (driver, server) = match (placement, &self.last) {
            (Placement::Free, _) => (&self.all, &self.all),
            (Placement::Two, Some(last)) => (&self.first, last),
            _ => (&self.first, &self.first),
        };
        for task in proc::task_ids(pid) {
            // The thread may have ended.
            let _ = sched_setaffinity(i32::try_from(task).ok().and_then(Pid::from_raw), server);
        }
        sched_setaffinity(None, driver)?;
        Ok(())
    }

    /// Allows all processors to the calling thread and to the threads it starts later.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects it.
    pub fn release(&self) -> Result<()> {
        Ok(sched_setaffinity(None, &self.all)?)
    }
}
