//! Sockets and readiness for the models of the HTTP server, in place of `mio` and of the listener module.
//!
//! A connection holds at most [`CAPACITY`] unread bytes of the server, so that most responses block. Readiness is
//! edge-triggered like epoll: an event says that something changed, and a registration reports the current state once.
#![allow(missing_docs)]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::ops::BitOr;
use std::time::Duration;

use crate::error::Error;
use crate::model_sync::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Unread bytes that a connection holds for the client.
const CAPACITY: usize = 100;

const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
const READ_CLOSED: u8 = 4;
const WRITE_CLOSED: u8 = 8;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Events that `Poll::poll` has not returned yet.
#[derive(Default)]
struct Queue {
    ready: Mutex<Vec<event::Event>>,
    changed: Condvar,
}

impl Queue {
    fn post(&self, token: mio::Token, readiness: u8) {
        let mut ready = lock(&self.ready);
        match ready.iter_mut().find(|event| event.token == token) {
            Some(event) => event.readiness |= readiness,
            None => ready.push(event::Event { token, readiness }),
        }
        drop(ready);
        self.changed.notify_all();
    }
}

/// Registration of a source.
struct Registration {
    queue: Arc<Queue>,
    token: mio::Token,
    interest: u8,
}

fn post(registration: &Option<Registration>, readiness: u8) {
    if let Some(Registration { queue, token, interest }) = registration {
        let reported = readiness & (interest | READ_CLOSED | WRITE_CLOSED);
        if reported != 0 {
            queue.post(*token, reported);
        }
    }
}

pub(crate) mod event {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Event {
        pub(super) token: mio::Token,
        pub(super) readiness: u8,
    }

    impl Event {
        pub(crate) fn token(&self) -> mio::Token {
            self.token
        }

        pub(crate) fn is_readable(&self) -> bool {
            self.readiness & (READABLE | READ_CLOSED) != 0
        }

        pub(crate) fn is_read_closed(&self) -> bool {
            self.readiness & READ_CLOSED != 0
        }

        pub(crate) fn is_write_closed(&self) -> bool {
            self.readiness & WRITE_CLOSED != 0
        }

        pub(crate) fn is_error(&self) -> bool {
            false
        }
    }

    #[allow(private_interfaces)]
    pub(crate) trait Source {
        fn attach(&mut self, registration: Option<Registration>);
    }
}

pub(crate) mod mio {
    use super::*;

    pub(crate) use super::event;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Token(pub usize);

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Interest(u8);

    impl Interest {
        pub(crate) const READABLE: Interest = Interest(READABLE);
        pub(crate) const WRITABLE: Interest = Interest(WRITABLE);
    }

    impl BitOr for Interest {
        type Output = Interest;

        fn bitor(self, other: Interest) -> Interest {
            Interest(self.0 | other.0)
        }
    }

    pub(crate) struct Events(Vec<event::Event>);

    impl Events {
        pub(crate) fn with_capacity(capacity: usize) -> Events {
            Events(Vec::with_capacity(capacity))
        }
    }

    impl<'e> IntoIterator for &'e Events {
        type Item = &'e event::Event;
        type IntoIter = std::slice::Iter<'e, event::Event>;

        fn into_iter(self) -> Self::IntoIter {
            self.0.iter()
        }
    }

    pub(crate) struct Registry(Arc<Queue>);

    impl Registry {
        pub(crate) fn register<S: event::Source + ?Sized>(
            &self,
            source: &mut S,
            token: Token,
            interest: Interest,
        ) -> io::Result<()> {
            source.attach(Some(Registration { queue: Arc::clone(&self.0), token, interest: interest.0 }));
            Ok(())
        }

        pub(crate) fn reregister<S: event::Source + ?Sized>(
            &self,
            source: &mut S,
            token: Token,
            interest: Interest,
        ) -> io::Result<()> {
            self.register(source, token, interest)
        }
    }

    pub(crate) struct Poll(Registry);

    impl Poll {
        pub(crate) fn new() -> io::Result<Poll> {
            Ok(Poll(Registry(Arc::default())))
        }

        pub(crate) fn registry(&self) -> &Registry {
            &self.0
        }

        pub(crate) fn poll(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
            let queue = &self.0.0;
            let mut ready = lock(&queue.ready);
            while ready.is_empty() {
                let timeout = timeout.unwrap_or(Duration::MAX);
                let (back, ended) =
                    queue.changed.wait_timeout(ready, timeout).unwrap_or_else(PoisonError::into_inner);
                ready = back;
                if ended.timed_out() {
                    break;
                }
            }
            events.0 = std::mem::take(&mut *ready);
            Ok(())
        }
    }

    pub(crate) struct Waker(Arc<Queue>, Token);

    impl Waker {
        pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Waker> {
            Ok(Waker(Arc::clone(&registry.0), token))
        }

        pub(crate) fn wake(&self) -> io::Result<()> {
            self.0.post(self.1, READABLE);
            Ok(())
        }
    }
}

/// Connections that the server has not accepted, and its registration.
#[derive(Default)]
struct Backlog {
    waiting: VecDeque<Socket>,
    registration: Option<Registration>,
}

thread_local! {
    // A schedule has one listener, and all its threads are coroutines of one thread.
    static LISTENER: RefCell<Option<Arc<Mutex<Backlog>>>> = const { RefCell::new(None) };
}

/// The listener of the current schedule.
pub(crate) struct Listener(Arc<Mutex<Backlog>>);

impl Listener {
    pub(crate) fn bind(_: &str) -> Result<Vec<Listener>, Error> {
        let backlog = Arc::<Mutex<Backlog>>::default();
        LISTENER.with(|listener| *listener.borrow_mut() = Some(Arc::clone(&backlog)));
        Ok(vec![Listener(backlog)])
    }

    pub(crate) fn address(&self) -> String {
        "127.0.0.1:80".to_owned()
    }

    pub(crate) fn is_local(&self) -> bool {
        true
    }

    pub(crate) fn accept(&self) -> io::Result<Socket> {
        lock(&self.0).waiting.pop_front().ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    pub(crate) fn source(&mut self) -> &mut dyn event::Source {
        self
    }

    pub(crate) fn peer(&self) -> Option<crate::transport::http_server::Peer> {
        None
    }
}

#[allow(private_interfaces)]
impl event::Source for Listener {
    fn attach(&mut self, registration: Option<Registration>) {
        let mut backlog = lock(&self.0);
        backlog.registration = registration;
        if !backlog.waiting.is_empty() {
            post(&backlog.registration, READABLE);
        }
    }
}

/// Both directions of a connection.
#[derive(Default)]
struct Stream {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// The client sends no more.
    client_done: bool,
    /// The client has closed the connection.
    client_gone: bool,
    /// The server sends no more.
    server_done: bool,
    /// A write did not take all bytes, so the next read of the client is an event.
    blocked: bool,
    registration: Option<Registration>,
}

#[derive(Default)]
struct Shared {
    stream: Mutex<Stream>,
    /// The client waits here for bytes.
    sent: Condvar,
}

/// The server's end of a connection.
pub(crate) struct Socket(Arc<Shared>);

impl Socket {
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut stream = lock(&self.0.stream);
        let n = into.len().min(stream.to_server.len());
        if n == 0 && !stream.client_done {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        into.iter_mut().zip(stream.to_server.drain(..n)).for_each(|(to, byte)| *to = byte);
        Ok(n)
    }

    pub(crate) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut stream = lock(&self.0.stream);
        if stream.client_gone || stream.server_done {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let before = stream.to_client.len();
        let bytes = parts.iter().flat_map(|part| part.iter().copied());
        stream.to_client.extend(bytes.take(CAPACITY - before));
        let written = stream.to_client.len() - before;
        stream.blocked = written < parts.iter().map(|part| part.len()).sum();
        drop(stream);
        self.0.sent.notify_all();
        if written == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(written) }
    }

    pub(crate) fn shutdown(&self, _: Shutdown) -> io::Result<()> {
        lock(&self.0.stream).server_done = true;
        self.0.sent.notify_all();
        Ok(())
    }

    pub(crate) fn abort(self) {
        lock(&self.0.stream).to_client.clear();
    }

    pub(crate) fn source(&mut self) -> &mut dyn event::Source {
        self
    }

    pub(crate) fn peer(&self) -> Option<crate::transport::http_server::Peer> {
        None
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut stream = lock(&self.0.stream);
        stream.registration = None;
        stream.server_done = true;
        drop(stream);
        self.0.sent.notify_all();
    }
}

#[allow(private_interfaces)]
impl event::Source for Socket {
    fn attach(&mut self, registration: Option<Registration>) {
        let mut stream = lock(&self.0.stream);
        stream.registration = registration;
        let mut readiness = 0;
        if stream.to_client.len() < CAPACITY {
            readiness |= WRITABLE;
        }
        if !stream.to_server.is_empty() {
            readiness |= READABLE;
        }
        if stream.client_done {
            readiness |= READ_CLOSED;
        }
        post(&stream.registration, readiness);
    }
}

/// The client's end of a connection; closed when dropped.
pub(crate) struct Peer(Arc<Shared>);

impl Peer {
    /// Connects to the listener of this schedule.
    pub(crate) fn connect() -> Peer {
        let shared = Arc::<Shared>::default();
        let backlog = LISTENER.with(|listener| listener.borrow().clone()).expect("a listener");
        let mut backlog = lock(&backlog);
        backlog.waiting.push_back(Socket(Arc::clone(&shared)));
        post(&backlog.registration, READABLE);
        Peer(shared)
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut stream = lock(&self.0.stream);
        stream.to_server.extend(bytes);
        post(&stream.registration, READABLE);
    }

    /// Waits for bytes and returns at most `limit` of them; nothing at the end of the stream.
    pub(crate) fn receive(&self, limit: usize) -> Vec<u8> {
        let mut stream = lock(&self.0.stream);
        while stream.to_client.is_empty() && !stream.server_done {
            stream = self.0.sent.wait(stream).unwrap_or_else(PoisonError::into_inner);
        }
        let n = limit.min(stream.to_client.len());
        let bytes = stream.to_client.drain(..n).collect();
        if n > 0 && std::mem::take(&mut stream.blocked) {
            post(&stream.registration, WRITABLE);
        }
        bytes
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut stream = lock(&self.0.stream);
        (stream.client_done, stream.client_gone) = (true, true);
        let closed = if stream.to_client.is_empty() { READ_CLOSED } else { READ_CLOSED | WRITE_CLOSED };
        post(&stream.registration, closed);
    }
}
