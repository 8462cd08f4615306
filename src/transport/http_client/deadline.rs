//! Deadline and cancellation of one HTTP exchange.
//!
//! Knows the deadline and holds the socket in use, so that another thread can shut it down.
//! Connections are pooled and do not know their exchange: [`Exchange::enter`] makes it the current
//! one of the thread, and the sockets look it up with [`current`].
//!
//! # Invariants
//! - Once stopped, an exchange stays stopped, and every socket it uses later is shut down at once.
//! - A connection that went back to the pool is not shut down by the exchange before.
//! - The lock is never held across reading or writing.

use std::cell::RefCell;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::sync::{lock, wait_for};
use crate::transport::client::MessageHandler;

/// Longest single wait before the exchange is checked again. Long in tests, so that a missing
/// wake-up shows.
pub(super) const TICK: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

/// Time to wait for the rest of a response whose content is not needed: without it the connection
/// cannot be reused.
pub(super) const BRIEF: Duration = Duration::from_millis(100);

/// Reason why an exchange ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The deadline is over.
    Timeout,
    /// The call was cancelled or abandoned.
    Abandoned,
    /// The connection is being closed.
    Closed,
    /// The response arrived on another stream.
    Answered,
}

/// Wait mode of the driving thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Patience {
    /// Until the deadline.
    Long = 0,
    /// At most a [`TICK`]; then the read times out.
    Tick = 1,
    /// At most [`BRIEF`], for the body of a response whose head has arrived.
    Brief = 3,
    /// Not at all: only bytes that have arrived are read.
    None = 2,
}

/// One exchange in flight.
pub(super) struct Exchange {
    /// The request it belongs to.
    pub id: Option<u64>,
    state: Mutex<State>,
    /// Stopped, or met.
    stopped: Condvar,
    patience: AtomicU8,
    sent: AtomicBool,
    /// Waits are at most [`BRIEF`] long.
    brief: AtomicBool,
    /// Bytes written now belong to the TLS handshake, not to the request.
    #[cfg(feature = "tls")]
    shaking: AtomicBool,
}

struct State {
    stop: Option<StopReason>,
    socket: Option<Arc<TcpStream>>,
    until: Until,
    /// The head of a response has arrived, or will not arrive.
    met: bool,
    /// The response arrived on another stream.
    answered: bool,
}

/// Deadline of an exchange.
enum Until {
    /// At this time.
    At(Instant),
    /// The deadline of the request, which the handler knows.
    Asked(Arc<dyn MessageHandler>, u64),
    /// Until it is stopped.
    Stopped,
}

impl Exchange {
    /// An exchange that ends at `deadline`.
    pub(super) fn until(id: Option<u64>, deadline: Instant) -> Exchange {
        Exchange::new(id, Until::At(deadline))
    }

    /// The exchange of a request, whose deadline the handler knows.
    pub(super) fn of_request(id: u64, sink: Arc<dyn MessageHandler>) -> Exchange {
        Exchange::new(Some(id), Until::Asked(sink, id))
    }

    /// An exchange that ends when it is stopped.
    pub(super) fn endless(id: Option<u64>) -> Exchange {
        Exchange::new(id, Until::Stopped)
    }

    fn new(id: Option<u64>, until: Until) -> Exchange {
        Exchange {
            id,
            state: Mutex::new(State { stop: None, socket: None, until, met: false, answered: false }),
            stopped: Condvar::new(),
            patience: AtomicU8::new(Patience::Long as u8),
            sent: AtomicBool::new(false),
            brief: AtomicBool::new(false),
            #[cfg(feature = "tls")]
            shaking: AtomicBool::new(false),
        }
    }

    /// Removes the deadline.
    pub(super) fn lift_deadline(&self) {
        lock(&self.state).until = Until::Stopped;
    }

    /// Sets the deadline.
    pub(super) fn end_at(&self, deadline: Instant) {
        lock(&self.state).until = Until::At(deadline);
    }

    /// The response arrived on another stream. The acceptance of the POST usually follows; a short
    /// wait for it lets the connection be reused.
    pub(super) fn answered(&self) {
        let mut state = lock(&self.state);
        state.answered = true;
        state.until = Until::At(Instant::now() + BRIEF);
        drop(state);
        self.stopped.notify_all();
    }

    /// The response will arrive on another stream.
    pub(super) fn wait_briefly(&self) {
        self.brief.store(true, Ordering::Relaxed);
    }

    /// Ends the exchange, unless it has ended. Shuts its socket down.
    pub(super) fn stop(&self, why: StopReason) {
        let mut state = lock(&self.state);
        state.stop.get_or_insert(why);
        if let Some(socket) = state.socket.take() {
            // OK to drop: the peer may have closed the socket.
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(state);
        self.stopped.notify_all();
    }

    /// Returns the reason of an early end.
    pub(super) fn stop_reason(&self) -> Option<StopReason> {
        lock(&self.state).stop
    }

    /// Returns the time of the next wait, at most a [`TICK`].
    ///
    /// # Errors
    /// The exchange is over.
    pub(super) fn slice(&self) -> Result<Duration, StopReason> {
        let mut state = lock(&self.state);
        let left = match (state.stop, &state.until) {
            (Some(stop), _) => Err(stop),
            (None, Until::Stopped) => Ok(TICK),
            (None, Until::At(deadline)) => left(*deadline),
            (None, Until::Asked(sink, id)) => match sink.deadline(*id) {
                Some(deadline) => left(deadline),
                None => Err(StopReason::Abandoned),
            },
        };
        let left = match left {
            Err(StopReason::Timeout) if state.answered => Err(StopReason::Answered),
            Ok(left) if self.brief.load(Ordering::Relaxed) => Ok(left.min(BRIEF)),
            left => left,
        };
        if let Err(stop) = left {
            state.stop = Some(stop);
        }
        left
    }

    /// Waits for a while.
    ///
    /// # Errors
    /// The exchange is over, or `turn` returns `false`. It is called every [`TICK`].
    pub(super) fn pause(&self, time: Duration, turn: &mut dyn FnMut() -> bool) -> Result<(), StopReason> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let slice = self.slice()?.min(left);
            let mut state = lock(&self.state);
            if state.answered {
                state.stop.get_or_insert(StopReason::Answered);
            }
            if state.stop.is_none() {
                state = wait_for(&self.stopped, state, slice);
            }
            // `stop` takes this lock, and `turn` others.
            drop(state);
            if slice >= TICK.min(BRIEF) && !turn() {
                self.stop(StopReason::Abandoned);
            }
        }
    }

    /// Reports that the head of a response has arrived or will not arrive.
    pub(super) fn meet(&self) {
        lock(&self.state).met = true;
        self.stopped.notify_all();
    }

    /// Waits for [`Exchange::meet`], for this time at most.
    pub(super) fn wait_met(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = lock(&self.state);
        while !state.met && state.stop.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = wait_for(&self.stopped, state, left);
        }
    }

    /// Sets the socket in use.
    ///
    /// # Errors
    /// The exchange is over.
    pub(super) fn uses(&self, socket: &Arc<TcpStream>) -> Result<(), StopReason> {
        let mut state = lock(&self.state);
        if let Some(stop) = state.stop {
            return Err(stop);
        }
        if !state.socket.as_ref().is_some_and(|known| Arc::ptr_eq(known, socket)) {
            state.socket = Some(Arc::clone(socket));
        }
        Ok(())
    }

    /// Releases the socket, which is returned to the pool.
    pub(super) fn releases(&self, socket: &Arc<TcpStream>) {
        let mut state = lock(&self.state);
        if state.socket.as_ref().is_some_and(|known| Arc::ptr_eq(known, socket)) {
            state.socket = None;
        }
    }

    pub(super) fn patience(&self) -> Patience {
        match self.patience.load(Ordering::Relaxed) {
            0 => Patience::Long,
            1 => Patience::Tick,
            3 => Patience::Brief,
            _ => Patience::None,
        }
    }

    /// Sets the wait mode. Called by the driving thread; its sockets read the mode.
    pub(super) fn be(&self, patience: Patience) {
        self.patience.store(patience as u8, Ordering::Relaxed);
    }

    /// Reports that bytes of the request were sent: the server may have acted on it.
    pub(super) fn sent(&self) {
        #[cfg(feature = "tls")]
        if self.shaking.load(Ordering::Relaxed) {
            return;
        }
        self.sent.store(true, Ordering::Relaxed);
    }

    /// A TLS handshake begins or ends. Its bytes are not those of the request.
    #[cfg(feature = "tls")]
    pub(super) fn shake(&self, begins: bool) {
        self.shaking.store(begins, Ordering::Relaxed);
    }

    /// Returns whether bytes of the request were sent.
    pub(super) fn has_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    /// Makes this the current exchange of the thread until the guard is dropped.
    pub(super) fn enter(self: &Arc<Exchange>) -> Entered {
        Entered(CURRENT.replace(Some(Arc::clone(self))))
    }
}

fn left(deadline: Instant) -> Result<Duration, StopReason> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(StopReason::Timeout) } else { Ok(left.min(TICK)) }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Exchange>>> = const { RefCell::new(None) };
}

/// Returns the exchange that this thread drives.
pub(super) fn current() -> Option<Arc<Exchange>> {
    CURRENT.with_borrow(Option::clone)
}

/// Restores the thread's earlier exchange and releases the socket, which another exchange may use.
pub(super) struct Entered(Option<Arc<Exchange>>);

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(left) = CURRENT.replace(self.0.take()) {
            lock(&left.state).socket = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_when_the_response_arrives_as_it_begins() {
        let exchange = Arc::new(Exchange::endless(Some(1)));
        exchange.answered();
        // As if the response had arrived after the deadline was read.
        exchange.lift_deadline();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(exchange.pause(Duration::from_secs(20), &mut || false)));
        let ended = told.recv_timeout(Duration::from_secs(10)).map(|ended| ended.err());
        assert_eq!(ended, Ok(Some(StopReason::Answered)));
    }
}
