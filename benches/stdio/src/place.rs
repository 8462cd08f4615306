//! Which processors the driver and the server run on.
//!
//! Does: move this thread and all threads of a server. Does not: fail where there is one processor only; the placements
//! that need two are then left out.
//! Why: left alone, the scheduler puts both ends of a pipe on one processor or on two as it likes, and a call costs some
//! microseconds in the one case and tens of them in the other, where an idle processor has to be woken. Mixed, the two
//! cases drown every difference between servers.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Result;
use crate::proc;

/// Where both ends run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Driver and server share one processor: a call is work and context switches, nothing is woken.
    One,
    /// The driver has one processor, the server another.
    Two,
    /// Any processor for both.
    Free,
}

/// All placements, in the order of the report.
pub const PLACEMENTS: [Placement; 3] = [Placement::One, Placement::Two, Placement::Free];

impl Placement {
    /// Short name, the first part of a metric's key.
    pub fn key(self) -> &'static str {
        match self {
            Placement::One => "one",
            Placement::Two => "two",
            Placement::Free => "free",
        }
    }

    /// Heading of the report.
    pub fn heading(self) -> &'static str {
        match self {
            Placement::One => "driver and server on one CPU",
            Placement::Two => "driver on one CPU, server on another",
            Placement::Free => "placed by the scheduler",
        }
    }
}

/// The processors this process may use.
pub struct Places {
    all: CpuSet,
    first: CpuSet,
    last: Option<CpuSet>,
}

impl Places {
    /// Looks what there is.
    ///
    /// # Errors
    /// When the kernel does not say.
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

    /// The placements this machine has.
    pub fn usable(&self) -> impl Iterator<Item = Placement> {
        let two = self.last.is_some();
        let all = PLACEMENTS.into_iter();
        all.filter(move |placement| two || *placement == Placement::One)
    }

    /// Moves the calling thread and all threads of `pid`; threads started later follow the one that starts them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn put(&self, pid: u32, placement: Placement) -> Result<()> {
        let (driver, server) = match (placement, &self.last) {
            (Placement::Free, _) => (&self.all, &self.all),
            (Placement::Two, Some(last)) => (&self.first, last),
            _ => (&self.first, &self.first),
        };
        for task in proc::task_ids(pid) {
            // A thread that ended in between is no loss.
            let _ = sched_setaffinity(i32::try_from(task).ok().and_then(Pid::from_raw), server);
        }
        sched_setaffinity(None, driver)?;
        Ok(())
    }

    /// Gives the calling thread, and what it starts from now on, all processors.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn release(&self) -> Result<()> {
        Ok(sched_setaffinity(None, &self.all)?)
    }
}
