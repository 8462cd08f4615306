//! Models of the client's reader hand-off, over a source that any thread can read, as the output of a child process is.
//!
//! The script adds this module to `transport::client`. The peer of the client is a thread of the model. Each model runs
//! twice: in one run the time that the source is left to callers ends at any moment, in the other one it never ends.
//! There a reader thread that is not woken when it must read is a deadlock.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::stream::ProcessGuard;
use super::{Connector, StreamTransport, Transport};
use crate::json::{Doc, Json};
use crate::model_sync::sync::{Arc, Condvar, Mutex, PoisonError};
use crate::model_sync::{now, thread};
use crate::schedules::TIMEOUT;
use crate::sync::{lock, wait};
use crate::transport::framing::{FrameSource, Input};
use crate::{Call, Client, ClientBuilder, Protocol, Error, ErrorKind, Limits, MemoryEnd, ToolOutput, memory};

/// A wait of a caller that ends at any moment.
const SHORT_TIMEOUT: Duration = Duration::from_millis(1);

/// Frames that callers have read, in all schedules.
pub(crate) static READ_BY_CALLERS: AtomicUsize = AtomicUsize::new(0);

/// Output of the peer.
#[derive(Default)]
struct Output {
    state: Mutex<Lines>,
    /// The thread that reads waits here.
    moved: Condvar,
}

#[derive(Default)]
struct Lines {
    lines: VecDeque<Vec<u8>>,
    ended: bool,
    interrupted: bool,
    /// Callers that must end before the peer exits.
    callers: usize,
}

impl Output {
    fn change(&self, change: impl FnOnce(&mut Lines)) {
        change(&mut lock(&self.state));
        self.moved.notify_all();
    }

    /// Ends the output, as the exit of the peer does.
    fn end(&self) {
        let mut state = lock(&self.state);
        while state.callers > 0 {
            state = wait(&self.moved, state);
        }
        drop(state);
        self.change(|state| state.ended = true);
    }
}

struct Source {
    output: Arc<Output>,
    current: Vec<u8>,
}

impl Source {
    /// Waits for a line; with a time until that, or until the source is interrupted.
    fn read(&mut self, by: Option<Instant>) -> Option<Input<'_>> {
        let mut state = lock(&self.output.state);
        loop {
            if let Some(line) = state.lines.pop_front() {
                drop(state);
                self.current = line;
                return Some(Input::Frame(&self.current));
            }
            if state.ended {
                return Some(Input::End);
            }
            let interrupted = std::mem::take(&mut state.interrupted);
            let Some(by) = by else {
                state = wait(&self.output.moved, state);
                continue;
            };
            let left = by.saturating_duration_since(now());
            if interrupted || left.is_zero() {
                return None;
            }
            state = self.output.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl FrameSource for Source {
    fn next(&mut self) -> Input<'_> {
        self.read(None).unwrap_or(Input::End)
    }

    fn next_by(&mut self, by: Instant) -> Option<Input<'_>> {
        let input = self.read(Some(by));
        let frames = matches!(input, Some(Input::Frame(_)));
        READ_BY_CALLERS.fetch_add(usize::from(frames), Ordering::Relaxed);
        input
    }

    fn interruptible(&self) -> bool {
        true
    }

    fn ready(&self) -> bool {
        !lock(&self.output.state).lines.is_empty()
    }
}

struct Guard(Arc<Output>);

impl ProcessGuard for Guard {
    fn end_reason(&self) -> String {
        "the peer has ended".to_owned()
    }

    fn stderr_tail(&self) -> Option<String> {
        None
    }

    fn interrupt_caller(&self) {
        self.0.change(|state| state.interrupted = true);
    }

    fn end(&self) -> bool {
        self.0.end();
        true
    }
}

struct Dial(Option<Arc<dyn Transport>>);

impl Connector for Dial {
    fn dial(&mut self) -> Result<Arc<dyn Transport>, Error> {
        self.0.take().ok_or_else(|| Error::new(ErrorKind::Closed, "dialled before"))
    }

    fn can_reconnect(&self) -> bool {
        false
    }
}

/// The other side of the connection. Its output ends when it is dropped.
struct Peer {
    input: MemoryEnd,
    output: Arc<Output>,
}

/// A message of the client.
struct ReceivedRequest {
    /// Name of the called tool, or the method.
    name: String,
    id: u64,
    arguments: String,
}

impl Peer {
    fn receive(&self) -> Option<ReceivedRequest> {
        let text = self.input.receive(TIMEOUT)?;
        let doc = Doc::parse(&text).unwrap();
        let at = |path: &str| doc.root().pointer(path);
        let name = at("/params/name").or_else(|| at("/method")).and_then(|name| name.as_str());
        let id = at("/id").and_then(|id| id.as_u64());
        let arguments = at("/params/arguments").map(|arguments| arguments.raw().replace('"', "'"));
        let (name, arguments) = (name.unwrap_or_default().to_owned(), arguments.unwrap_or_default());
        Some(ReceivedRequest { name, id: id.unwrap_or_default(), arguments })
    }

    fn send(&self, line: &str) {
        self.output.change(|state| state.lines.push_back(line.as_bytes().to_vec()));
    }

    fn respond(&self, id: u64, result: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// Responds to a call with its arguments.
    fn echo(&self, call: &ReceivedRequest) {
        let text = &call.arguments;
        self.respond(call.id, &format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#));
    }

    fn notify(&self, method: &str, params: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.output.end();
    }
}

const OPENED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#;

/// A client of a peer, which handles messages with `act` until that returns `false`; `echo` is answered before that.
/// Has made one call, after which the source may be lent.
fn connect(
    builder: ClientBuilder,
    act: impl FnMut(&Peer, ReceivedRequest) -> bool + Send + 'static,
) -> (Arc<Client>, thread::JoinHandle<()>) {
    connect_to(Arc::default(), builder, act)
}

fn connect_to(
    output: Arc<Output>,
    builder: ClientBuilder,
    mut act: impl FnMut(&Peer, ReceivedRequest) -> bool + Send + 'static,
) -> (Arc<Client>, thread::JoinHandle<()>) {
    let (link, input) = memory();
    let peer = Peer { input, output: Arc::clone(&output) };
    let serving = thread::spawn(move || {
        while let Some(request) = peer.receive() {
            match request.name.as_str() {
                "initialize" => peer.respond(request.id, OPENED),
                "notifications/initialized" => {}
                "echo" => peer.echo(&request),
                _ => {
                    if !act(&peer, request) {
                        return;
                    }
                }
            }
        }
    });
    let writer = Arc::clone(&link.sink).frame_writer().expect("a writer");
    let source = Box::new(Source { output: Arc::clone(&output), current: Vec::new() });
    let transport = StreamTransport::new(source, writer, Arc::new(Guard(output)));
    let mut dial = Dial(Some(Arc::new(transport)));
    let client = builder.protocol(Protocol::Session).dial(Limits::default(), &mut dial).expect("a session");
    called(&client, "echo", 0);
    (Arc::new(client), serving)
}

fn builder() -> ClientBuilder {
    Client::builder("c", "1")
}

fn arguments(n: usize) -> Json {
    Json::parse(format!("{{\"n\":{n}}}")).unwrap()
}

/// Makes a call whose response has its arguments.
fn called(client: &Client, tool: &str, n: usize) {
    let output = client.call_tool(tool, arguments(n)).expect("an answer");
    assert_eq!(output.texts(), format!("{{'n':{n}}}"));
}

fn begin(client: &Client, tool: &str) -> Call<ToolOutput> {
    client.request_tool(tool, arguments(0)).start().expect("a call")
}

fn kind(outcome: Result<ToolOutput, Error>) -> ErrorKind {
    outcome.expect_err("no answer").kind()
}

fn over(client: &Client, serving: thread::JoinHandle<()>) {
    assert_eq!(client.in_flight(), 0);
    client.close();
    serving.join().unwrap();
}

/// A count that a handler of the client or the peer raises.
#[derive(Default)]
struct Count(Mutex<usize>, Condvar);

impl Count {
    fn raise(&self) {
        *lock(&self.0) += 1;
        self.1.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let mut state = lock(&self.0);
        while *state < count {
            state = wait(&self.1, state);
        }
    }
}

/// Two calls are answered when both are there, the later one first; a third thread makes calls beside them. Each gets
/// its own answer, whichever thread reads it.
pub(crate) fn for_others() {
    let mut first = None;
    let (client, serving) = connect(builder(), move |peer, request| {
        match first.take() {
            None => first = Some(request),
            Some(first) => {
                peer.echo(&request);
                peer.echo(&first);
            }
        }
        true
    });
    let callers: Vec<_> = ["both", "both", "echo"]
        .into_iter()
        .enumerate()
        .map(|(n, tool)| {
            let client = Arc::clone(&client);
            thread::spawn(move || (0..2).for_each(|round| called(&client, tool, 10 * n + round)))
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    over(&client, serving);
}

/// A caller that reads although nothing comes gets the error that its call was cancelled.
pub(crate) fn cancel_alone() {
    let (client, serving) = connect(builder(), |_, _| true);
    let waiting = begin(&client, "never");
    let canceller = waiting.canceller();
    let waiter = thread::spawn(move || kind(waiting.wait()));
    canceller.cancel();
    assert_eq!(waiter.join().unwrap(), ErrorKind::Cancelled);
    called(&client, "echo", 1);
    over(&client, serving);
}

/// A call is cancelled while another one is answered, whichever thread reads.
pub(crate) fn cancel() {
    let (client, serving) = connect(builder(), |_, _| true);
    let waiting = begin(&client, "never");
    let canceller = waiting.canceller();
    let waiter = thread::spawn(move || kind(waiting.wait()));
    let other = Arc::clone(&client);
    let caller = thread::spawn(move || called(&other, "echo", 1));
    canceller.cancel();
    assert_eq!(waiter.join().unwrap(), ErrorKind::Cancelled);
    caller.join().unwrap();
    over(&client, serving);
}

/// A caller stops to read at its deadline, once that of the call and once one of its own. Another call is answered only
/// after that.
pub(crate) fn deadline() {
    let (mut cancelled, mut later) = (0, None);
    let (client, serving) = connect(builder(), move |peer, request| {
        match request.name.as_str() {
            "later" => later = Some(request),
            "notifications/cancelled" => cancelled += 1,
            _ => {}
        }
        if cancelled == 2 {
            later.take().iter().for_each(|later| peer.echo(later));
        }
        true
    });
    let other = Arc::clone(&client);
    let caller = thread::spawn(move || called(&other, "later", 1));
    let late = client.request_tool("never", arguments(0)).timeout(SHORT_TIMEOUT).wait();
    assert_eq!(kind(late), ErrorKind::Timeout);
    let mut call = begin(&client, "never");
    assert!(call.wait_until(now() + SHORT_TIMEOUT).is_none());
    call.cancel();
    caller.join().unwrap();
    over(&client, serving);
}

/// A call whose listener panics ends, beside other calls and alone, and the other calls are answered.
pub(crate) fn listener() {
    let (client, serving) = connect(builder(), |peer, request| {
        if request.name == "steps" {
            peer.notify("progress", &format!(r#"{{"progressToken":{},"progress":1}}"#, request.id));
        }
        true
    });
    let other = Arc::clone(&client);
    let caller = thread::spawn(move || (1..3).for_each(|n| called(&other, "echo", n)));
    let panics = || {
        let request = client.request_tool("steps", arguments(0)).on_progress(|_| resume_unwind(Box::new(())));
        let panicked = catch_unwind(AssertUnwindSafe(|| request.wait()));
        assert!(panicked.is_err(), "the listener panicked");
    };
    panics();
    caller.join().unwrap();
    panics();
    over(&client, serving);
}

/// Closing ends the calls of all threads before the peer has exited, and then the reader thread, whoever reads.
pub(crate) fn close() {
    let output = Arc::<Output>::default();
    output.change(|state| state.callers = 2);
    let begun = Arc::<Count>::default();
    let count = Arc::clone(&begun);
    let (client, serving) = connect_to(Arc::clone(&output), builder(), move |_, _| {
        count.raise();
        true
    });
    let callers: Vec<_> = ["never", "echo"]
        .into_iter()
        .map(|tool| {
            let (client, output) = (Arc::clone(&client), Arc::clone(&output));
            thread::spawn(move || {
                while client.call_tool(tool, arguments(0)).is_ok() {}
                output.change(|state| state.callers -= 1);
            })
        })
        .collect();
    begun.wait_for(1);
    client.close();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert!(client.ended().is_some());
    serving.join().unwrap();
}

/// The peer ends, perhaps while a caller reads whose call is cancelled: the end is reported once.
pub(crate) fn gone() {
    let ended = Arc::<Count>::default();
    let count = Arc::clone(&ended);
    let (client, serving) = connect(builder().on_end(move |_| count.raise()), |_, request| request.name != "end");
    let waiting = begin(&client, "never");
    let canceller = waiting.canceller();
    let waiter = thread::spawn(move || kind(waiting.wait()));
    let ending = begin(&client, "end");
    canceller.cancel();
    assert!(matches!(waiter.join().unwrap(), ErrorKind::Cancelled | ErrorKind::Closed));
    assert_eq!(kind(ending.wait()), ErrorKind::Closed);
    ended.wait_for(1);
    over(&client, serving);
    assert_eq!(*lock(&ended.0), 1);
}

/// A notification after the last response is read although no thread waits.
pub(crate) fn notifications() {
    let changes = Arc::<Count>::default();
    let count = Arc::clone(&changes);
    let builder = builder().on_change(move |_| count.raise());
    let (client, serving) = connect(builder, |peer, request| {
        peer.echo(&request);
        peer.notify("tools/list_changed", "{}");
        true
    });
    for round in 1..3 {
        called(&client, "news", round);
        changes.wait_for(round);
    }
    over(&client, serving);
}
