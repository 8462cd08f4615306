//! The items of `std::sync`, `std::thread` and `crossbeam-channel` that the library uses, on threads of Shuttle.
//!
//! Time does not pass in a schedule. A wait of less than a second ends at any moment, with or without its reason. A wait
//! of a second or more never ends by itself, so that a lost wake-up is a deadlock, which Shuttle reports.
#![allow(missing_docs, dead_code, unreachable_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Waits that are shorter may end at any moment.
const SHORT: Duration = Duration::from_secs(1);

/// Start of the schedule, and the nanoseconds that have passed since.
static BEGUN: Mutex<Option<Instant>> = Mutex::new(None);
static PASSED: AtomicU64 = AtomicU64::new(0);
/// Whether the time in which only callers read a source may end.
static PAUSE_ENDS: AtomicBool = AtomicBool::new(true);

/// Begins a schedule.
pub fn begin(pause_ends: bool) {
    *BEGUN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    PASSED.store(0, Ordering::Relaxed);
    PAUSE_ENDS.store(pause_ends, Ordering::Relaxed);
}

/// The time for the deadlines of calls: it passes when a short wait ends by itself.
pub fn now() -> Instant {
    let begun = *BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    begun.unwrap_or_else(Instant::now) + Duration::from_nanos(PASSED.load(Ordering::Relaxed))
}

/// The time that a source is left to callers.
pub fn pause(time: Duration) -> Duration {
    if PAUSE_ENDS.load(Ordering::Relaxed) { time } else { Duration::MAX }
}

/// Gives other threads up to six turns, or up to two hundred, while `done` is not true.
fn some_turns(mut done: impl FnMut() -> bool) {
    use shuttle::rand::Rng;
    let mut dice = shuttle::rand::thread_rng();
    let most = if dice.gen_range(0..2) == 0 { 7 } else { 200 };
    for _ in 0..dice.gen_range(0..most) {
        if done() {
            return;
        }
        shuttle::thread::yield_now();
    }
}

/// Shuttle's own `park` wakes up for no reason at nearly every turn, which would hide a lost wake-up.
pub mod thread {
    use std::io;
    use std::time::Duration;

    use super::sync::{Arc, Condvar, Mutex, PoisonError};

    pub use shuttle::thread::{Scope, ScopedJoinHandle, ThreadId, scope, sleep, yield_now};
    pub use std::thread::{available_parallelism, panicking};

    #[derive(Default)]
    struct Parker {
        token: Mutex<bool>,
        unparked: Condvar,
    }

    shuttle::thread_local! {
        static PARKER: std::cell::RefCell<Arc<Parker>> = std::cell::RefCell::default();
    }

    fn parker() -> Arc<Parker> {
        PARKER.with(|parker| Arc::clone(&parker.borrow()))
    }

    #[derive(Clone)]
    pub struct Thread {
        thread: shuttle::thread::Thread,
        parker: Arc<Parker>,
    }

    impl Thread {
        pub fn id(&self) -> ThreadId {
            self.thread.id()
        }

        pub fn name(&self) -> Option<&str> {
            self.thread.name()
        }

        pub fn unpark(&self) {
            *self.parker.token.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.parker.unparked.notify_all();
        }
    }

    pub fn current() -> Thread {
        Thread { thread: shuttle::thread::current(), parker: parker() }
    }

    pub fn park() {
        park_timeout(Duration::MAX);
    }

    pub fn park_timeout(time: Duration) {
        let parker = parker();
        let mut token = parker.token.lock().unwrap_or_else(PoisonError::into_inner);
        while !std::mem::take(&mut *token) {
            let waited = parker.unparked.wait_timeout(token, time).unwrap_or_else(PoisonError::into_inner);
            token = waited.0;
            if waited.1.timed_out() {
                *token = false;
                return;
            }
        }
    }

    pub struct JoinHandle<T> {
        handle: shuttle::thread::JoinHandle<T>,
        thread: Thread,
    }

    impl<T> JoinHandle<T> {
        pub fn join(self) -> std::thread::Result<T> {
            self.handle.join()
        }

        pub fn thread(&self) -> &Thread {
            &self.thread
        }
    }

    #[derive(Default)]
    pub struct Builder(shuttle::thread::Builder);

    impl Builder {
        pub fn new() -> Builder {
            Builder::default()
        }

        pub fn name(self, name: String) -> Builder {
            Builder(self.0.name(name))
        }

        /// The stacks of the models are all of one size.
        pub fn stack_size(self, _: usize) -> Builder {
            self
        }

        pub fn spawn<F, T>(self, run: F) -> io::Result<JoinHandle<T>>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            let parker = Arc::<Parker>::default();
            let own = Arc::clone(&parker);
            let handle = self.0.spawn(move || {
                PARKER.with(|parker| *parker.borrow_mut() = own);
                run()
            })?;
            let thread = Thread { thread: handle.thread().clone(), parker };
            Ok(JoinHandle { handle, thread })
        }

        /// The thread has no parker of its own: none of them parks.
        pub fn spawn_scoped<'scope, F, T>(
            self,
            scope: &'scope Scope<'scope, '_>,
            run: F,
        ) -> io::Result<ScopedJoinHandle<'scope, T>>
        where
            F: FnOnce() -> T + Send + 'scope,
            T: Send + 'scope,
        {
            Ok(scope.spawn(run))
        }
    }

    pub fn spawn<F, T>(run: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Builder::new().spawn(run).expect("a thread")
    }
}

pub mod sync {
    use std::collections::VecDeque;
    use std::fmt;
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    pub use shuttle::sync::{Barrier, RwLock, mpsc};
    pub use std::sync::{
        Arc, LazyLock, LockResult, Once, OnceLock, PoisonError, TryLockError, TryLockResult, Weak,
    };

    pub mod atomic {
        pub use shuttle::sync::atomic::*;
    }

    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    pub struct MutexGuard<'m, T> {
        mutex: &'m Mutex<T>,
        inner: shuttle::sync::MutexGuard<'m, T>,
    }

    impl<T> Mutex<T> {
        pub const fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            let guard = |inner| MutexGuard { mutex: self, inner };
            self.0.lock().map(guard).map_err(|e| PoisonError::new(guard(e.into_inner())))
        }

        pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            let guard = |inner| MutexGuard { mutex: self, inner };
            self.0.try_lock().map(guard).map_err(|e| match e {
                TryLockError::WouldBlock => TryLockError::WouldBlock,
                TryLockError::Poisoned(e) => TryLockError::Poisoned(PoisonError::new(guard(e.into_inner()))),
            })
        }

        pub fn into_inner(self) -> LockResult<T> {
            self.0.into_inner()
        }

        pub fn get_mut(&mut self) -> LockResult<&mut T> {
            self.0.get_mut()
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Mutex<T> {
            Mutex::new(T::default())
        }
    }

    impl<T> fmt::Debug for Mutex<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Mutex")
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.inner
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.inner
        }
    }

    impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.inner.fmt(f)
        }
    }

    /// A condition variable whose short waits end at any moment, and that wakes any waiter.
    #[derive(Default)]
    pub struct Condvar {
        line: Mutex<Line>,
        moved: shuttle::sync::Condvar,
    }

    #[derive(Default)]
    struct Line {
        next: u64,
        waiting: VecDeque<u64>,
        woken: Vec<u64>,
    }

    impl Line {
        /// Returns whether this waiter was woken, and removes it if so.
        fn leave(&mut self, me: u64) -> bool {
            let at = self.woken.iter().position(|n| *n == me);
            at.map(|at| self.woken.swap_remove(at)).is_some()
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        pub fn timed_out(&self) -> bool {
            self.0
        }
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    impl Condvar {
        pub fn new() -> Condvar {
            Condvar::default()
        }

        fn enter(&self) -> u64 {
            let mut line = lock(&self.line);
            let me = line.next;
            line.next += 1;
            line.waiting.push_back(me);
            me
        }

        pub fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
            let mutex = guard.mutex;
            let me = self.enter();
            drop(guard);
            let mut line = lock(&self.line);
            while !line.leave(me) {
                let inner = self.moved.wait(line.inner).unwrap_or_else(PoisonError::into_inner);
                line = MutexGuard { mutex: &self.line, inner };
            }
            drop(line);
            mutex.lock()
        }

        pub fn wait_timeout<'m, T>(
            &self,
            guard: MutexGuard<'m, T>,
            time: Duration,
        ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
            if time >= super::SHORT {
                let guard = self.wait(guard).unwrap_or_else(PoisonError::into_inner);
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let mutex = guard.mutex;
            let me = self.enter();
            drop(guard);
            let mut woken = false;
            super::some_turns(|| {
                woken = woken || lock(&self.line).leave(me);
                woken
            });
            let mut line = lock(&self.line);
            woken = woken || line.leave(me);
            line.waiting.retain(|n| *n != me);
            drop(line);
            if !woken {
                let passed = u64::try_from(time.as_nanos()).unwrap_or_default();
                super::PASSED.fetch_add(passed, super::Ordering::Relaxed);
            }
            Ok((lock(mutex), WaitTimeoutResult(!woken)))
        }

        pub fn notify_one(&self) {
            use shuttle::rand::Rng;
            let mut line = lock(&self.line);
            if !line.waiting.is_empty() {
                let at = shuttle::rand::thread_rng().gen_range(0..line.waiting.len());
                let chosen = line.waiting.remove(at);
                line.woken.extend(chosen);
                drop(line);
                self.moved.notify_all();
            }
        }

        pub fn notify_all(&self) {
            let mut line = lock(&self.line);
            let all = std::mem::take(&mut line.waiting);
            line.woken.extend(all);
            drop(line);
            self.moved.notify_all();
        }
    }

    impl fmt::Debug for Condvar {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Condvar")
        }
    }
}

/// Bounded channels. `select!` looks at its channels by turns instead of sleeping.
pub mod channel {
    use std::collections::VecDeque;
    use std::time::{Duration, Instant};

    use super::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

    struct State<T> {
        queue: VecDeque<T>,
        senders: usize,
        receivers: usize,
    }

    struct Shared<T> {
        room: usize,
        state: Mutex<State<T>>,
        moved: Condvar,
    }

    pub struct Sender<T>(Arc<Shared<T>>);
    pub struct Receiver<T>(Arc<Shared<T>>);

    #[derive(Debug)]
    pub struct SendError<T>(pub T);

    #[derive(Debug)]
    pub enum TrySendError<T> {
        Full(T),
        Disconnected(T),
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TryRecvError {
        Empty,
        Disconnected,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RecvTimeoutError {
        Timeout,
        Disconnected,
    }

    pub fn bounded<T>(room: usize) -> (Sender<T>, Receiver<T>) {
        let state = Mutex::new(State { queue: VecDeque::new(), senders: 1, receivers: 1 });
        let shared = Arc::new(Shared { room, state, moved: Condvar::new() });
        (Sender(Arc::clone(&shared)), Receiver(shared))
    }

    /// Never ready: no deadline passes while a schedule runs.
    pub fn at(_: Instant) -> Receiver<Instant> {
        let (sender, receiver) = bounded(1);
        std::mem::forget(sender);
        receiver
    }

    impl<T> Shared<T> {
        fn lock(&self) -> MutexGuard<'_, State<T>> {
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> Sender<T> {
        pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
            let mut state = self.0.lock();
            if state.receivers == 0 {
                return Err(TrySendError::Disconnected(value));
            }
            if state.queue.len() >= self.0.room {
                return Err(TrySendError::Full(value));
            }
            state.queue.push_back(value);
            drop(state);
            self.0.moved.notify_all();
            Ok(())
        }

        pub fn send(&self, mut value: T) -> Result<(), SendError<T>> {
            loop {
                match self.try_send(value) {
                    Ok(()) => return Ok(()),
                    Err(TrySendError::Disconnected(value)) => return Err(SendError(value)),
                    Err(TrySendError::Full(back)) => value = back,
                }
                let state = self.0.lock();
                if state.receivers > 0 && state.queue.len() >= self.0.room {
                    drop(self.0.moved.wait(state));
                }
            }
        }

        pub fn is_full(&self) -> bool {
            self.0.lock().queue.len() >= self.0.room
        }
    }

    impl<T> Receiver<T> {
        pub fn try_recv(&self) -> Result<T, TryRecvError> {
            let mut state = self.0.lock();
            let value = state.queue.pop_front();
            let gone = state.senders == 0;
            drop(state);
            if value.is_some() {
                self.0.moved.notify_all();
            }
            value.ok_or(if gone { TryRecvError::Disconnected } else { TryRecvError::Empty })
        }

        pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
            loop {
                match self.try_recv() {
                    Ok(value) => return Ok(value),
                    Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                    Err(TryRecvError::Empty) if time < super::SHORT => return Err(RecvTimeoutError::Timeout),
                    Err(TryRecvError::Empty) => {}
                }
                let state = self.0.lock();
                if state.queue.is_empty() && state.senders > 0 {
                    drop(self.0.moved.wait(state));
                }
            }
        }

        pub fn is_empty(&self) -> bool {
            self.0.lock().queue.is_empty()
        }
    }

    macro_rules! ends {
        ($type:ident, $count:ident) => {
            impl<T> Clone for $type<T> {
                fn clone(&self) -> Self {
                    self.0.lock().$count += 1;
                    $type(Arc::clone(&self.0))
                }
            }

            impl<T> Drop for $type<T> {
                fn drop(&mut self) {
                    self.0.lock().$count -= 1;
                    self.0.moved.notify_all();
                }
            }

            impl<T> std::fmt::Debug for $type<T> {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str(stringify!($type))
                }
            }
        };
    }

    ends!(Sender, senders);
    ends!(Receiver, receivers);

    pub fn sent<T>(_: &Sender<T>) -> Result<(), SendError<T>> {
        Ok(())
    }

    pub fn unsent<T>(value: T) -> Result<(), SendError<T>> {
        Err(SendError(value))
    }

    /// A receive that found the channel disconnected.
    #[derive(Debug)]
    pub struct RecvError;

    macro_rules! select {
        (recv($one:expr) -> $a:pat => $first:expr, recv($two:expr) -> $b:pat => $second:expr $(,)?) => {
            loop {
                match $one.try_recv() {
                    Err($crate::model_sync::channel::TryRecvError::Empty) => {}
                    got => {
                        let $a = got.map_err(|_| $crate::model_sync::channel::RecvError);
                        break $first;
                    }
                }
                match $two.try_recv() {
                    Err($crate::model_sync::channel::TryRecvError::Empty) => {}
                    got => {
                        let $b = got.map_err(|_| $crate::model_sync::channel::RecvError);
                        break $second;
                    }
                }
                $crate::model_sync::thread::yield_now();
            }
        };
        (send($to:expr, $value:expr) -> $sent:pat => $first:expr, $(recv($from:expr) -> $b:pat => $other:expr),+ $(,)?) => {{
            let mut value = $value;
            loop {
                match $to.try_send(value) {
                    Ok(()) => {
                        let $sent = $crate::model_sync::channel::sent(&$to);
                        break $first;
                    }
                    Err($crate::model_sync::channel::TrySendError::Disconnected(value)) => {
                        let $sent = $crate::model_sync::channel::unsent(value);
                        break $first;
                    }
                    Err($crate::model_sync::channel::TrySendError::Full(back)) => value = back,
                }
                $(match $from.try_recv() {
                    Err($crate::model_sync::channel::TryRecvError::Empty) => {}
                    got => {
                        let $b = got;
                        break $other;
                    }
                })+
                $crate::model_sync::thread::yield_now();
            }
        }};
    }
    pub(crate) use select;
}
