//! SIGHUP as an event of the thread that reloads.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::run::log;

/// Time between two checks of watched files.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reason to check files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// SIGHUP arrived.
    Hangup,
    /// The interval has passed.
    Interval,
}

/// Receiver of SIGHUP. Several signals may cause one event.
pub(crate) struct Hangups(UnixStream);

impl Hangups {
    /// Registers the receiver. From then on, SIGHUP does not end the process.
    pub(crate) fn register() -> io::Result<Hangups> {
        let (signalled, sender) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGHUP, sender)?;
        Ok(Hangups(signalled))
    }

    /// Waits for SIGHUP, or for an interval if files are watched. Returns `None` if signals can no
    /// longer be read.
    pub(crate) fn wait(&mut self, watches: bool) -> Option<Wake> {
        // OK to ignore: the time is not zero.
        let _ = self.0.set_read_timeout(watches.then_some(INTERVAL));
        loop {
            match self.0.read(&mut [0; 64]) {
                Ok(0) => return None,
                Ok(_) => return Some(Wake::Hangup),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(Wake::Interval),
                Err(error) => {
                    log(&format!("signals cannot be read: {error}"));
                    return None;
                }
            }
        }
    }
}
