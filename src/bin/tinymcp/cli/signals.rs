//! SIGINT and SIGTERM.
//!
//! The first signal cancels the call in flight: the server is notified, and the call fails. If no
//! call is in flight, the signal ends the connection, then the child process, then this program.
//! The child has its own process group and does not receive the signal. A second signal kills the
//! child process and ends the program at once.
//!
//! Invariant: the child process of the builder given to [`install`] ends before this process.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGINT, SIGTERM};
use tinymcp::{Abort, Call, ClientBuilder, stderr};

use super::ask::sampler;
use super::failure::TIMED_OUT;
use crate::Result;
use crate::mutex::lock;

/// Ends the work in progress: cancels the call, or stops a measurement.
type EndWork = Box<dyn FnOnce() + Send>;

/// Reaction to the next signal, if the signal does not end the program.
static IN_FLIGHT: Mutex<Option<EndWork>> = Mutex::new(None);
/// Ends the connections.
static CONNECTIONS: OnceLock<Abort> = OnceLock::new();
/// A signal was received. The next one ends the program.
static RECEIVED: AtomicBool = AtomicBool::new(false);
/// Terminal mode to restore when the program ends.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);
/// Number of received signals.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Value of `COUNT` at the start of the latest call.
static AT_START: AtomicUsize = AtomicUsize::new(0);
/// The program ends: errors are not reported.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Installs the signal handlers. A signal closes the connection of this builder and the connections
/// of earlier ones.
pub(crate) fn install(client: ClientBuilder) -> Result<ClientBuilder> {
    let mut is_first = false;
    let abort = CONNECTIONS.get_or_init(|| {
        is_first = true;
        Abort::new()
    });
    if is_first {
        watch(abort.clone()).map_err(|e| format!("signals cannot be caught: {e}"))?;
    }
    Ok(client.abort(abort))
}

fn watch(abort: Abort) -> io::Result<()> {
    let (mut receiver, sender) = UnixStream::pair()?;
    let latest = Arc::new(AtomicUsize::default());
    for signal in [SIGINT, SIGTERM] {
        let number = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(&latest), number)?;
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while receiver.read_exact(&mut [0]).is_ok() {
            let end_work = lock(&IN_FLIGHT).take();
            // A prompt that sees the new `COUNT` must also see `ENDING`.
            ENDING.fetch_or(end_work.is_none(), Ordering::SeqCst);
            COUNT.fetch_add(1, Ordering::SeqCst);
            if RECEIVED.swap(true, Ordering::SeqCst) {
                abort.kill();
                sampler::end();
                restore_terminal();
                // Returns only if the signal cannot end the process.
                let signal = i32::try_from(latest.load(Ordering::SeqCst)).unwrap_or(SIGTERM);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            match end_work {
                Some(end_work) => end_work(),
                None => end(abort.clone()),
            }
        }
    })?;
    Ok(())
}

/// Ends the connection and then the program, on a separate thread: the next signal must be handled.
fn end(abort: Abort) {
    let ends = move || {
        abort.abort();
        sampler::end();
        restore_terminal();
        stderr::flush();
        std::process::exit(i32::from(TIMED_OUT));
    };
    if thread::Builder::new().name("end".to_owned()).spawn(ends).is_err() {
        std::process::exit(i32::from(TIMED_OUT));
    }
}

fn restore_terminal() {
    if let Some(mode) = &*lock(&TERMINAL) {
        // OK to drop: the terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, mode);
    }
}

/// Waits for a call. A signal cancels it.
pub(crate) fn wait<T, R>(call: Call<T>, wait: impl FnOnce(Call<T>) -> R) -> R {
    AT_START.store(COUNT.load(Ordering::SeqCst), Ordering::SeqCst);
    let canceller = call.canceller();
    *lock(&IN_FLIGHT) = Some(Box::new(move || canceller.cancel()));
    let result = wait(call);
    *lock(&IN_FLIGHT) = None;
    result
}

/// Lets the next signal call a function, instead of ending the program.
pub(crate) fn end_by(work: impl FnOnce() + Send + 'static) {
    *lock(&IN_FLIGHT) = Some(Box::new(work));
}

/// Returns whether a signal was received since the latest call began.
pub(crate) fn has_interrupted_call() -> bool {
    COUNT.load(Ordering::SeqCst) != AT_START.load(Ordering::SeqCst)
}

/// Returns whether a signal was received since the last [`reset`].
pub(crate) fn is_received() -> bool {
    RECEIVED.load(Ordering::SeqCst)
}

/// Lets the next signal cancel a call again.
pub(crate) fn reset() {
    RECEIVED.store(false, Ordering::SeqCst);
}

/// Saves the mode of the terminal, which is restored when a signal ends the program.
pub(crate) fn restore_at_end() {
    *lock(&TERMINAL) = tcgetattr(io::stdin()).ok();
}

/// Blocks if the program is ending, so that an error caused by the end is not reported.
pub(crate) fn park_if_ending() {
    while ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}
