//! Deadline and cancellation of one HTTP exchange.
//!
//! An [`Exchange`] has the deadline and the socket in use, so that another thread can shut the
//! socket down. Connections are pooled and have no reference to an exchange: [`Exchange::enter`]
//! makes an exchange the current one of the thread, and the sockets look it up with [`current`].
//!
//! # Invariants
//! - Once stopped, an exchange stays stopped, and no socket can be set for it any more.
//! - A connection that was returned to the pool is not shut down by its earlier exchange.
//! - The lock is never held across reading or writing. The lock of an outer exchange may be taken
//!   while the lock of its inner one is held, never the other way round.

use std::cell::RefCell;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::sign_in::Nesting;
use crate::sync::{lock, wait_for};
use crate::transport::client::MessageHandler;

/// Maximum duration of one wait before the exchange is checked again. It is long in tests, so that
/// they detect a missing wake-up.
pub(super) const TICK: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

/// Time to wait for the rest of a response whose content is not needed, so that the connection can
/// be reused.
pub(super) const BRIEF: Duration = Duration::from_millis(100);

/// Reason why an exchange ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The deadline has passed.
    Timeout,
    /// The call was cancelled or abandoned.
    Abandoned,
    /// The connection is being closed.
    Closed,
    /// The response arrived on another stream.
    Answered,
}

/// Wait mode of the thread that performs the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum WaitMode {
    /// Until the deadline.
    Deadline = 0,
    /// At most a [`TICK`]; then the read times out.
    Tick = 1,
    /// At most [`BRIEF`], for the body of a response whose head has arrived.
    Brief = 3,
    /// Not at all: only bytes that have arrived are read.
    NoWait = 2,
}

/// One exchange in flight.
pub(super) struct Exchange {
    /// Id of its request, if it has one.
    pub id: Option<u64>,
    pub state: Mutex<State>,
    /// Wakes [`Exchange::pause`] and [`Exchange::wait_responded`].
    stopped: Condvar,
    mode: AtomicU8,
    sent: AtomicBool,
    /// Waits are at most [`BRIEF`] long.
    brief: AtomicBool,
    /// A connection is being opened: written bytes belong to a tunnel or a TLS handshake, not to
    /// the request.
    connecting: AtomicBool,
}

pub(super) struct State {
    pub stop: Option<StopReason>,
    socket: Option<Arc<TcpStream>>,
    pub until: Until,
    /// The head of a response has arrived, or will not arrive.
    responded: bool,
    /// The response arrived on another stream.
    answered: bool,
    pub nesting: Nesting,
}

/// Deadline of an exchange.
pub(super) enum Until {
    /// A fixed time.
    At(Instant),
    /// The deadline of this request, which the handler returns.
    Request(Arc<dyn MessageHandler>, u64),
    /// No deadline.
    Stopped,
}

impl Exchange {
    /// Creates an exchange with a fixed deadline.
    pub(super) fn until(id: Option<u64>, deadline: Instant) -> Exchange {
        Exchange::new(id, Until::At(deadline))
    }

    /// Creates the exchange of a request, whose deadline the handler returns.
    pub(super) fn of_request(id: u64, sink: Arc<dyn MessageHandler>) -> Exchange {
        Exchange::new(Some(id), Until::Request(sink, id))
    }

    /// Creates an exchange without a deadline.
    pub(super) fn endless(id: Option<u64>) -> Exchange {
        Exchange::new(id, Until::Stopped)
    }

    fn new(id: Option<u64>, until: Until) -> Exchange {
        Exchange {
            id,
            state: Mutex::new(State {
                stop: None,
                socket: None,
                until,
                responded: false,
                answered: false,
                nesting: Nesting::none(),
            }),
            stopped: Condvar::new(),
            mode: AtomicU8::new(WaitMode::Deadline as u8),
            sent: AtomicBool::new(false),
            brief: AtomicBool::new(false),
            connecting: AtomicBool::new(false),
        }
    }

    /// Removes the deadline.
    pub(super) fn remove_deadline(&self) {
        lock(&self.state).until = Until::Stopped;
    }

    /// Sets the deadline.
    pub(super) fn end_at(&self, deadline: Instant) {
        lock(&self.state).until = Until::At(deadline);
    }

    /// Reports that the response arrived on another stream. The response to the POST usually
    /// follows; a short wait for it lets the connection be reused.
    pub(super) fn answered(&self) {
        let mut state = lock(&self.state);
        state.answered = true;
        state.until = Until::At(Instant::now() + BRIEF);
        drop(state);
        self.stopped.notify_all();
    }

    /// Limits each wait to [`BRIEF`], because the response will arrive on another stream.
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
        let inner = state.nesting.take_inner();
        drop(state);
        self.stopped.notify_all();
        if let Some(inner) = inner {
            inner.stop(why);
        }
    }

    /// Returns the reason of an early end.
    pub(super) fn stop_reason(&self) -> Option<StopReason> {
        lock(&self.state).stop
    }

    /// Returns the duration of the next wait, at most a [`TICK`].
    ///
    /// # Errors
    /// The exchange has ended.
    pub(super) fn slice(&self) -> Result<Duration, StopReason> {
        let mut state = lock(&self.state);
        let left = match (state.stop, &state.until) {
            (Some(stop), _) => Err(stop),
            (None, Until::Stopped) => Ok(TICK),
            (None, Until::At(deadline)) => time_left(*deadline),
            (None, Until::Request(sink, id)) => match sink.deadline(*id) {
                Some(deadline) => time_left(deadline),
                None => Err(StopReason::Abandoned),
            },
        };
        let left = match left.and_then(|left| state.nesting.slice(left)) {
            Err(StopReason::Timeout) if state.answered => Err(StopReason::Answered),
            Ok(left) if self.brief.load(Ordering::Relaxed) => Ok(left.min(BRIEF)),
            left => left,
        };
        if let Err(stop) = left {
            state.stop = Some(stop);
        }
        left
    }

    /// Waits for this time. Calls `waiting` every [`TICK`].
    ///
    /// # Errors
    /// The exchange has ended, or `waiting` returned `false`.
    pub(super) fn pause(&self, time: Duration, waiting: &mut dyn FnMut() -> bool) -> Result<(), StopReason> {
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
            // Unlocked before `stop`, which takes this lock, and `waiting`, which takes others.
            drop(state);
            if slice >= TICK.min(BRIEF) && !waiting() {
                self.stop(StopReason::Abandoned);
            }
        }
    }

    /// Reports that the head of a response has arrived or will not arrive.
    pub(super) fn set_responded(&self) {
        lock(&self.state).responded = true;
        self.stopped.notify_all();
    }

    /// Waits for [`Exchange::set_responded`], for this time at most.
    pub(super) fn wait_responded(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = lock(&self.state);
        while !state.responded && state.stop.is_none() {
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
    /// The exchange was stopped.
    pub(super) fn set_socket(&self, socket: &Arc<TcpStream>) -> Result<(), StopReason> {
        let mut state = lock(&self.state);
        if let Some(stop) = state.stop {
            return Err(stop);
        }
        if !state.socket.as_ref().is_some_and(|known| Arc::ptr_eq(known, socket)) {
            state.socket = Some(Arc::clone(socket));
        }
        Ok(())
    }

    /// Removes the socket, because it is returned to the pool.
    pub(super) fn release_socket(&self, socket: &Arc<TcpStream>) {
        let mut state = lock(&self.state);
        if state.socket.as_ref().is_some_and(|known| Arc::ptr_eq(known, socket)) {
            state.socket = None;
        }
    }

    pub(super) fn wait_mode(&self) -> WaitMode {
        match self.mode.load(Ordering::Relaxed) {
            0 => WaitMode::Deadline,
            1 => WaitMode::Tick,
            3 => WaitMode::Brief,
            _ => WaitMode::NoWait,
        }
    }

    /// Sets the wait mode. The thread that performs the exchange calls this; its sockets read it.
    pub(super) fn set_wait_mode(&self, mode: WaitMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Reports that bytes of the request were sent: the server may have acted on it.
    pub(super) fn sent(&self) {
        if !self.connecting.load(Ordering::Relaxed) {
            self.sent.store(true, Ordering::Relaxed);
        }
    }

    /// Marks that a connection is being opened, until the guard is dropped.
    pub(super) fn connect(self: &Arc<Exchange>) -> Connecting {
        let outer = self.connecting.swap(true, Ordering::Relaxed);
        Connecting { exchange: Arc::clone(self), outer }
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

/// Guard of [`Exchange::connect`]. Its drop restores the earlier mark.
pub(super) struct Connecting {
    exchange: Arc<Exchange>,
    outer: bool,
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.exchange.connecting.store(self.outer, Ordering::Relaxed);
    }
}

fn time_left(deadline: Instant) -> Result<Duration, StopReason> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(StopReason::Timeout) } else { Ok(left.min(TICK)) }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Exchange>>> = const { RefCell::new(None) };
}

/// Returns the current exchange of this thread.
pub(super) fn current() -> Option<Arc<Exchange>> {
    CURRENT.with_borrow(Option::clone)
}

/// Guard of [`Exchange::enter`]. Its drop restores the thread's earlier exchange and removes the
/// socket, which another exchange may use next.
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
        // Simulates a response that arrives after `pause` has read the deadline.
        exchange.remove_deadline();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(exchange.pause(Duration::from_secs(120), &mut || false)));
        let ended = receiver.recv_timeout(Duration::from_secs(60)).map(|ended| ended.err());
        assert_eq!(ended, Ok(Some(StopReason::Answered)));
    }
}
