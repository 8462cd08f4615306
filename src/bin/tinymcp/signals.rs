//! SIGINT and SIGTERM while a request is in flight.
//!
//! A signal ends the connection and the child process, which has a process group of its own and
//! does not receive the signal; then it ends this program as the signal would have. A second signal
//! does so at once.
//!
//! Invariant: the connection given to [`end`] ends before this program does.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use tinymcp::{Abort, ClientBuilder};

use super::Fault;

/// The received signal; 0 before.
static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Makes a signal end the connection of this builder.
pub(crate) fn end(client: ClientBuilder) -> Result<ClientBuilder, Fault> {
    let abort = Abort::new();
    let client = client.abort(&abort);
    watch(abort).map_err(|e| format!("signals cannot be caught: {e}"))?;
    Ok(client)
}

fn watch(abort: Abort) -> io::Result<()> {
    let (mut told, tell) = UnixStream::pair()?;
    let (came, again) = (CAME.get_or_init(Arc::default), Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
        signal_hook::flag::register_usize(signal, Arc::clone(came), signal.unsigned_abs() as usize)?;
        signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
    }
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if told.read_exact(&mut [0]).is_ok() {
            abort.abort();
            let signal = CAME.get().map_or(0, |came| came.load(Ordering::SeqCst));
            let signal = i32::try_from(signal).unwrap_or(SIGTERM);
            // The parent process sees the signal as the reason.
            if signal_hook::low_level::emulate_default_handler(signal).is_err() {
                std::process::exit(128 + signal);
            }
        }
    })?;
    Ok(())
}

/// Does not return after a signal: a later error is a consequence of the signal and is not
/// reported.
pub(crate) fn wait_if_one_came() {
    let came = || CAME.get().is_some_and(|came| came.load(Ordering::SeqCst) != 0);
    while came() {
        thread::park();
    }
}
