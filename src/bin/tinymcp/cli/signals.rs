//! SIGINT and SIGTERM while a request is in flight.
//!
//! A signal ends the connection and the child process, which has a process group of its own and
//! does not receive the signal; then it ends this program as the signal would have. A second signal
//! does so at once.
//!
//! Invariant: the connection of the builder given to [`install`] is closed before the process
//! exits.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use tinymcp::{Abort, ClientBuilder};

use crate::Result;

/// The received signal; 0 before.
static RECEIVED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Installs the signal handlers; a signal closes the connection of this builder.
pub(crate) fn install(client: ClientBuilder) -> Result<ClientBuilder> {
    let abort = Abort::new();
    let client = client.abort(&abort);
    watch(abort).map_err(|e| format!("signals cannot be caught: {e}"))?;
    Ok(client)
}

fn watch(abort: Abort) -> io::Result<()> {
    let (mut receiver, sender) = UnixStream::pair()?;
    let (received, second) = (RECEIVED.get_or_init(Arc::default), Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&second))?;
        signal_hook::flag::register(signal, Arc::clone(&second))?;
        signal_hook::flag::register_usize(signal, Arc::clone(received), signal.unsigned_abs() as usize)?;
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if receiver.read_exact(&mut [0]).is_ok() {
            abort.abort();
            let signal = received_signal();
            let signal = i32::try_from(signal).unwrap_or(SIGTERM);
            // The parent process sees the signal as the reason.
            if signal_hook::low_level::emulate_default_handler(signal).is_err() {
                std::process::exit(128 + signal);
            }
        }
    })?;
    Ok(())
}

fn received_signal() -> usize {
    RECEIVED.get().map_or(0, |received| received.load(Ordering::SeqCst))
}

/// Blocks if a signal was received, so that an error caused by the signal is not reported.
pub(crate) fn park_if_signalled() {
    while received_signal() != 0 {
        thread::park();
    }
}
