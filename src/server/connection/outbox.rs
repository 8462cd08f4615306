//! Outgoing messages of threads that must not block: the watchdog and senders of notifications.
//!
//! A sender thread, started with the first message and ended when idle, sends queued messages in
//! order. A sink that never blocks gets its messages at once. Callers bound the queue: the watchdog
//! posts at most one response for each call in flight, changes are not posted while
//! [`Outbox::busy`], and results of deferred calls wait for [`Outbox::wait_for_room`].
//!
//! If the system has no room for the thread, messages stay queued. The next message and each check
//! of the watchdog try to start it again.
//!
//! # Invariants
//! - `thread` is true while a sender thread is being started or will check the queue again.
//! - If `thread` is false and messages are queued, the watchdog is armed.
//! - The lock is never held across a send. No caller sends to a sink that may block.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::era::Encoded;
use crate::server::serve::watchdog::{TICK, Watchdog};
use crate::sync::{Condition, lock};
use crate::transport::ReplySink;

/// Idle time after which the sender thread ends.
const IDLE: Duration = Duration::from_secs(10);
/// Stack of the sender thread, which only copies bytes.
const STACK: usize = 64 << 10;
/// Number of queued bytes from which the client counts as not reading.
const BUSY_BYTES: usize = 64 << 10;

/// Queue of outgoing messages.
pub(crate) struct Outbox {
    shared: Arc<Shared>,
    watchdog: Arc<Watchdog>,
    /// Starts a thread that runs [`Shared::deliver`].
    spawn: fn(Arc<Shared>) -> io::Result<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condition,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Message>,
    /// Bytes of `messages` and of the one being sent.
    bytes: usize,
    thread: bool,
    sending: bool,
    closed: bool,
    lost: bool,
}

struct Message {
    to: Arc<dyn ReplySink>,
    frames: Vec<u8>,
    /// Set for an expected response; see [`ReplySink::respond`].
    response: Option<Encoded>,
}

impl Outbox {
    /// Creates an empty outbox. `watchdog` calls [`Outbox::start`] in its checks.
    pub(crate) fn new(watchdog: &Arc<Watchdog>) -> Outbox {
        Outbox { shared: Arc::default(), watchdog: Arc::clone(watchdog), spawn }
    }

    /// Queues whole frames.
    pub(crate) fn send(&self, to: &Arc<dyn ReplySink>, frames: Vec<u8>) {
        self.put(Message { to: Arc::clone(to), frames, response: None });
    }

    /// Queues an expected response.
    pub(crate) fn respond(&self, to: &Arc<dyn ReplySink>, frame: Vec<u8>, encoded: Encoded) {
        self.put(Message { to: Arc::clone(to), frames: frame, response: Some(encoded) });
    }

    /// Returns whether so many bytes are queued that notifications must wait.
    pub(crate) fn busy(&self) -> bool {
        self.shared.state().bytes >= BUSY_BYTES
    }

    /// Returns whether more than `max` bytes are queued.
    pub(crate) fn is_full(&self, max: usize) -> bool {
        self.shared.state().bytes > max
    }

    /// Blocks while more than `max` bytes are queued, until the outbox is closed or `is_over`,
    /// which is checked every [`TICK`].
    #[cold]
    #[inline(never)]
    #[allow(dead_code)] // Used by deferred calls.
    pub(crate) fn wait_for_room(&self, max: usize, is_over: &dyn Fn() -> bool) {
        let mut state = self.shared.state();
        while state.bytes > max && !state.closed && !is_over() {
            state = self.shared.changed.wait_for(state, TICK);
        }
    }

    /// Blocks until all queued messages are sent, at most until `deadline`; later ones are dropped.
    #[cold]
    #[inline(never)]
    pub(crate) fn close(&self, deadline: Instant) {
        let mut state = self.shared.state();
        while state.sending || !state.messages.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if state.thread {
                state = self.shared.changed.wait_for(state, left);
                continue;
            }
            drop(state);
            if self.start() {
                thread::sleep(left.min(TICK));
            }
            state = self.shared.state();
        }
        state.closed = true;
        state.lost = !state.thread && !state.messages.is_empty();
        state.messages.clear();
        self.shared.changed.release(state);
    }

    /// Starts the sender thread if messages wait for one. Returns whether they still do.
    pub(crate) fn start(&self) -> bool {
        let mut state = self.shared.state();
        if state.messages.is_empty() || std::mem::replace(&mut state.thread, true) {
            return false;
        }
        drop(state);
        if (self.spawn)(Arc::clone(&self.shared)).is_ok() {
            return false;
        }
        let mut state = self.shared.state();
        state.thread = false;
        self.shared.changed.release(state);
        self.watchdog.arm();
        true
    }

    /// Returns whether [`Outbox::close`] dropped messages because no thread could start.
    pub(crate) fn lost(&self) -> bool {
        self.shared.state().lost
    }

    #[cold]
    #[inline(never)]
    fn put(&self, message: Message) {
        if message.to.try_send(&message.frames, message.response) {
            return;
        }
        let mut state = self.shared.state();
        if state.closed {
            return;
        }
        state.bytes += message.frames.len();
        state.messages.push_back(message);
        if state.thread {
            return self.shared.changed.release(state);
        }
        drop(state);
        self.start();
    }
}

/// Starts a sender thread.
fn spawn(shared: Arc<Shared>) -> io::Result<()> {
    let thread = thread::Builder::new().name("mcp-post".to_owned()).stack_size(STACK);
    thread.spawn(move || shared.deliver()).map(drop)
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        self.shared.changed.release(state);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Sends queued messages until the queue was empty for [`IDLE`].
    #[cold]
    fn deliver(&self) {
        let mut last = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(message) = state.messages.pop_front() {
                state.sending = true;
                drop(state);
                match message.response {
                    Some(encoded) => message.to.respond(&message.frames, encoded),
                    None => message.to.send(&message.frames),
                }
                last = Instant::now();
                state = self.state();
                state.sending = false;
                state.bytes -= message.frames.len();
                // Wakes `close`, which waits for the last message.
                self.changed.release(state);
                state = self.state();
                continue;
            }
            let left = IDLE.saturating_sub(last.elapsed());
            if state.closed || left.is_zero() {
                state.thread = false;
                return;
            }
            state = self.changed.wait_for(state, left);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

    use super::*;
    use crate::transport::FrameSink;

    const LONG: Duration = Duration::from_secs(20);

    /// Sink whose senders block until the test receives the frames.
    struct Rendezvous(SyncSender<Vec<u8>>);

    impl FrameSink for Rendezvous {
        fn send(&self, frames: &[u8]) {
            // OK to ignore: the test is over.
            let _ = self.0.send(frames.to_vec());
        }

        fn closed(&self) -> bool {
            false
        }

        fn congested(&self) -> bool {
            false
        }

        fn close(&self, _: Instant) {}
    }

    impl ReplySink for Rendezvous {}

    fn sink() -> (Arc<dyn ReplySink>, Receiver<Vec<u8>>) {
        let (sent, received) = sync_channel(0);
        (Arc::new(Rendezvous(sent)), received)
    }

    fn outbox(spawn: fn(Arc<Shared>) -> io::Result<()>) -> Outbox {
        Outbox { shared: Arc::default(), watchdog: Arc::new(Watchdog::new().unwrap()), spawn }
    }

    fn no_thread(_: Arc<Shared>) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Runs `run` on another thread and returns its result. Fails after [`LONG`].
    fn in_time<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
        let (done, result): (Sender<R>, _) = channel();
        thread::spawn(move || done.send(run()));
        result.recv_timeout(LONG).unwrap()
    }

    #[test]
    fn without_a_thread_a_message_waits_for_the_next_attempt() {
        static ROOM: AtomicBool = AtomicBool::new(false);
        let outbox = outbox(|shared| match ROOM.load(Ordering::SeqCst) {
            true => spawn(shared),
            false => no_thread(shared),
        });
        let (sink, received) = sink();
        let outbox = in_time(move || {
            outbox.send(&sink, b"1\n".to_vec());
            outbox.respond(&sink, b"2\n".to_vec(), Encoded::RESULT);
            outbox
        });
        assert!(outbox.start(), "messages wait for a thread");
        ROOM.store(true, Ordering::SeqCst);
        assert!(!outbox.start(), "the thread is started");
        assert_eq!(received.recv_timeout(LONG).unwrap(), b"1\n");
        assert_eq!(received.recv_timeout(LONG).unwrap(), b"2\n");
        outbox.close(Instant::now() + LONG);
        assert!(!outbox.lost());
    }

    #[test]
    fn queued_messages_count_as_unread_without_a_thread() {
        let outbox = outbox(no_thread);
        let (sink, _received) = sink();
        let outbox = in_time(move || {
            outbox.send(&sink, vec![b'x'; BUSY_BYTES]);
            outbox
        });
        assert!(outbox.busy());
    }

    #[test]
    fn closing_starts_the_thread_again_and_reports_lost_messages() {
        static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
        let late = outbox(|shared| match ATTEMPTS.fetch_add(1, Ordering::SeqCst) {
            0..3 => no_thread(shared),
            _ => spawn(shared),
        });
        let (to, received) = sink();
        let closing = thread::spawn(move || {
            late.send(&to, b"1\n".to_vec());
            late.close(Instant::now() + LONG);
            late.lost()
        });
        assert_eq!(received.recv_timeout(LONG).unwrap(), b"1\n");
        assert!(!closing.join().unwrap());

        let never = outbox(no_thread);
        let (to, _received) = sink();
        let lost = in_time(move || {
            never.send(&to, b"1\n".to_vec());
            never.close(Instant::now());
            never.lost()
        });
        assert!(lost);
    }
}
