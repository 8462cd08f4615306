//! Standard input and output, reserved for the protocol.
//!
//! Duplicates both descriptors, then points descriptor 0 at `/dev/null` and descriptor 1 at
//! standard error. A stray `println!` in a handler, or in its child process, writes to standard
//! error and never between two messages (MCP basic/transports/stdio: a server must not write
//! anything to stdout that is not a message).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;
use crate::limits::Limits;

use super::Link;

/// State of standard input, for threads other than its reader.
pub(crate) struct StdinProbe {
    reads: Arc<AtomicU32>,
    /// Closed by the reader.
    #[cfg(unix)]
    input: std::sync::Weak<std::os::fd::OwnedFd>,
}

impl StdinProbe {
    /// Returns the number of reads that have returned, wrapping.
    pub(crate) fn reads(&self) -> u32 {
        self.reads.load(Ordering::Acquire)
    }

    /// Returns whether a read returns at once, with bytes, the end or an error.
    #[cfg(unix)]
    pub(crate) fn ready(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(input) = self.input.upgrade() else { return true };
        let mut polled = [PollFd::new(&input, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())) != Ok(0)
    }

    /// Returns `false`. Only the watch of the parent process uses this, and there is none here.
    #[cfg(not(unix))]
    pub(crate) fn ready(&self) -> bool {
        false
    }
}

/// Counts the reads of a stream.
struct Counted<R> {
    read: R,
    reads: Arc<AtomicU32>,
}

impl<R: std::io::Read> std::io::Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let result = self.read.read(buf);
        // Only this thread stores, so a plain store suffices.
        let reads = self.reads.load(Ordering::Relaxed);
        self.reads.store(reads.wrapping_add(1), Ordering::Release);
        result
    }
}

/// Takes over standard input and output.
///
/// # Errors
/// [`crate::ErrorKind::Io`] when a descriptor is missing or cannot be duplicated.
#[cfg(unix)]
pub(crate) fn own_stdio(limits: &Limits) -> Result<(Link, StdinProbe), Error> {
    use rustix::io::fcntl_dupfd_cloexec;
    use rustix::stdio::{dup2_stdin, dup2_stdout};

    // Use numbers above 2, so that a closed standard descriptor is not reused.
    let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(std::io::Error::from)?;
    let output = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).map_err(std::io::Error::from)?;
    let null = std::fs::File::open("/dev/null")?;
    dup2_stdin(&null).map_err(std::io::Error::from)?;
    dup2_stdout(rustix::stdio::stderr()).map_err(std::io::Error::from)?;
    let (input, reads) = (Arc::new(input), Arc::<AtomicU32>::default());
    let probe = StdinProbe { reads: Arc::clone(&reads), input: Arc::downgrade(&input) };
    let input = Counted { read: BlockingFd(input), reads };
    Ok((Link::lines(input, BlockingFd(Arc::new(output)), limits), probe))
}

/// Blocking reads and writes of a descriptor, also if it is in non-blocking mode.
///
/// The mode belongs to the open file description, not to the descriptor: another process with the
/// same terminal or socket may change it at any time.
///
/// Uses system calls instead of the C library, whose `read` and `write` are cancellation points and
/// cost four locked instructions for each response.
#[cfg(unix)]
struct BlockingFd(Arc<std::os::fd::OwnedFd>);

#[cfg(unix)]
impl BlockingFd {
    #[cold]
    fn wait(&self, error: rustix::io::Errno, ready: rustix::event::PollFlags) -> std::io::Result<()> {
        // On some systems these two errors have different numbers.
        if error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::WOULDBLOCK {
            return Err(error.into());
        }
        let mut descriptors = [rustix::event::PollFd::new(&self.0, ready)];
        match rustix::event::poll(&mut descriptors, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(unix)]
impl std::io::Read for BlockingFd {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match rustix::io::read(&self.0, &mut *buf) {
                Ok(read) => return Ok(read),
                Err(error) => self.wait(error, rustix::event::PollFlags::IN)?,
            }
        }
    }
}

#[cfg(unix)]
impl std::io::Write for BlockingFd {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, buf) {
                Ok(written) => return Ok(written),
                Err(error) => self.wait(error, rustix::event::PollFlags::OUT)?,
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Takes over standard input and output. Without `dup2`, handlers must not print to stdout.
#[cfg(not(unix))]
pub(crate) fn own_stdio(limits: &Limits) -> Result<(Link, StdinProbe), Error> {
    let probe = StdinProbe { reads: Arc::default() };
    let input = Counted { read: std::io::stdin(), reads: Arc::clone(&probe.reads) };
    Ok((Link::lines(input, std::io::stdout(), limits), probe))
}
