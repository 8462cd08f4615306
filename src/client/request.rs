//! Requests and started calls: typed handles of a [`CallRun`].

mod task;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::decode::supports_tasks;
use crate::era::outgoing::{OutgoingRequest, RequestKind};
use crate::error::{Error, ErrorKind};
use crate::json::{Json, Kind, Value, Writer};
use crate::model::task::Task;
use crate::model::{ClientCapabilities, Level};
use crate::transport::client::Failure;

use super::call::{CallControl, CallRun, read};
use super::connect::request;
use super::connection::{Core, misbehaved};
use super::pending_call::{CallTimeout, Progress, RawReply};

pub use task::FollowedTask;

/// Result of a request.
///
/// [`Call::wait`] returns only results, because the handlers of the client respond to input
/// requests. [`Call::wait_outcome`] returns all outcomes; see [`InputRequired`] and [`Task`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The result.
    Complete(T),
    /// The server requires input first.
    InputRequired(InputRequired),
    /// The server created a task, which continues without this call: only after
    /// [`Request::as_task`].
    Task(Task),
}

/// Input that the server requires. It belongs to one request.
///
/// A program without handlers can respond itself, later and in another process:
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, Outcome, json};
///
/// let client = Client::spawn(Command::new("board_server"))?;
/// let outcome = client.request_tool("erase", ()).start()?.wait_outcome()?;
/// if let Outcome::InputRequired(input) = outcome {
///     println!("{}", input.requests);
///     let responses = json!({"confirm": {"action": "accept", "content": {"sure": true}}});
///     let output = client.request_tool("erase", ()).resume(&responses, &input)?.wait()?;
///     println!("{}", output.texts());
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct InputRequired {
    /// The input requests, an object by key: each has a `method` and `params`.
    // Before `with_object`, `null` means no responses.
    pub requests: Json,
    /// Opaque state of the server, as JSON text.
    pub(super) state: Option<String>,
}

/// Options of a call.
pub(super) struct CallOptions {
    pub timeout: CallTimeout,
    pub on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
    pub log_level: Option<Level>,
    pub cache: CacheUse,
    /// Input of a resumed call.
    pub resume: Option<Input>,
    /// Client capabilities of this call, if they differ from those of the client.
    pub capabilities: Option<ClientCapabilities>,
}

/// Use of the cache by a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheUse {
    /// Return a cached result, store a new one.
    ReadAndStore,
    /// Request a new result and store it.
    Store,
    /// Request a new result; the caller may cache it.
    #[allow(dead_code, reason = "used by the hub")]
    Bypass,
}

/// Input for the next round.
#[derive(Default)]
pub(super) struct Input {
    /// Responses to the input requests: members of an object, as JSON text.
    pub responses: Option<String>,
    /// State that the server sent, as JSON text.
    pub state: Option<String>,
}

impl InputRequired {
    /// Returns the input requests and the state as one object, so that another process can resume
    /// the request: see [`InputRequired::from_json`].
    pub fn to_json(&self) -> Json {
        let mut w = Writer::new();
        w.begin_object().key("requests").json(&self.requests);
        if let Some(state) = &self.state {
            w.key("state").raw(state);
        }
        w.end_object();
        w.into_json()
    }

    /// Reads an object that [`InputRequired::to_json`] returned. `None` for any other value.
    pub fn from_json(input: &Json) -> Option<InputRequired> {
        let doc = input.to_doc();
        let requests = doc.root().get("requests").filter(|requests| requests.kind() == Kind::Object)?;
        let state = doc.root().get("state");
        if state.is_some_and(|state| state.kind() != Kind::String) {
            return None;
        }
        Some(InputRequired { requests: requests.to_json(), state: state.map(|state| state.raw().to_owned()) })
    }

    /// Represents a round without input requests as an empty object.
    pub(super) fn with_object(self) -> InputRequired {
        let requests = if self.is_empty() { Json::constant("{}") } else { self.requests };
        InputRequired { requests, state: self.state }
    }

    /// Returns whether the server requires no input but only another request with its state.
    pub(super) fn is_empty(&self) -> bool {
        self.requests == Json::default()
    }
}

/// Decodes a result. `None` if it does not have the form that the method requires.
pub(super) type Decode<T> = fn(Value<'_>) -> Option<T>;

/// A request that is not sent yet.
///
/// ```no_run
/// use std::process::Command;
/// use std::time::Duration;
/// use tinymcp::{Client, json};
///
/// let client = Client::spawn(Command::new("board_server"))?;
/// let request = client
///     .request_tool("flash", json!({"image": "v2.bin"}))
///     .timeout(Duration::from_secs(10))
///     .reset_timeout_on_progress(Duration::from_secs(300));
/// println!("{}", request.wait()?.texts());
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[must_use = "a request does nothing until it is waited for or started"]
pub struct Request<T> {
    pub(super) core: Arc<Core>,
    pub(super) request: Result<OutgoingRequest, Error>,
    pub(super) decode: Decode<T>,
    pub(super) options: CallOptions,
}

impl<T> Request<T> {
    pub(super) fn new(core: &Arc<Core>, want: &RequestKind<'_>, decode: Decode<T>) -> Request<T> {
        let limits = &core.limits;
        let timeout = CallTimeout {
            timeout: limits.client.call_timeout,
            max_total: limits.client.call_total_timeout,
            extend: false,
        };
        Request {
            core: Arc::clone(core),
            request: request(want),
            decode,
            options: CallOptions {
                timeout,
                on_progress: None,
                log_level: None,
                cache: CacheUse::ReadAndStore,
                resume: None,
                capabilities: None,
            },
        }
    }

    /// Sets the timeout; the default is [`crate::ClientLimits::call_timeout`]. Time in which the
    /// server waits for the user does not count.
    pub fn timeout(mut self, timeout: Duration) -> Request<T> {
        let own = &mut self.options.timeout;
        own.timeout = timeout.min(MAX_TIMEOUT);
        own.max_total = own.max_total.max(own.timeout);
        self
    }

    /// Restarts the timeout with each progress notification, up to `max_total` in total.
    pub fn reset_timeout_on_progress(mut self, max_total: Duration) -> Request<T> {
        self.options.timeout.extend = true;
        self.options.timeout.max_total = max_total.min(MAX_TIMEOUT);
        self
    }

    /// Requests progress. `listener` runs on the thread that waits for the call, and never after
    /// the wait has ended.
    pub fn on_progress(mut self, listener: impl FnMut(Progress) + Send + 'static) -> Request<T> {
        self.options.on_progress = Some(Box::new(listener));
        self
    }

    /// Requests log entries of this level and above for this request. Has no effect in a session,
    /// which has one level: see [`Client::set_log_level`](super::Client::set_log_level).
    pub fn log_level(mut self, level: Level) -> Request<T> {
        self.options.log_level = Some(level);
        self
    }

    /// Sends the request even if the cache has a fresh result. The new result replaces it.
    pub fn bypass_cache(mut self) -> Request<T> {
        self.options.cache = CacheUse::Store;
        self
    }

    /// Continues an earlier request that ended in [`Outcome::InputRequired`]. Sends the same
    /// request with its state and with the responses to the input requests, an object by key.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the responses are not an object.
    pub fn resume(mut self, responses: &Json, input: &InputRequired) -> Result<Request<T>, Error> {
        let text = responses.as_str().trim();
        let members = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or_else(|| {
            let what = "the responses to input requests must be an object with the keys of the requests";
            Error::new(ErrorKind::Invalid, what)
        })?;
        self.options.resume = Some(Input { responses: Some(members.to_owned()), state: input.state.clone() });
        Ok(self)
    }

    /// Sends the request and waits for its result.
    ///
    /// # Errors
    /// See [`ErrorKind`]: an error response of the server, no response in time, the end of the
    /// connection.
    pub fn wait(self) -> Result<T, Error> {
        self.send(true)?.wait()
    }

    /// Sends the request and returns the call in flight.
    ///
    /// # Errors
    /// The request could not be sent: too many calls are in flight, or the connection has ended.
    pub fn start(self) -> Result<Call<T>, Error> {
        self.send(false)
    }

    fn send(self, here: bool) -> Result<Call<T>, Error> {
        let request = self.request?;
        self.core.declared(&request.method)?;
        let mut run = CallRun::new(self.core, request, self.options);
        run.begin(here)?;
        Ok(Call { run, decode: self.decode, kind: PhantomData })
    }
}

impl<T> Request<T> {
    /// Allows the server to create a task for a tool call. [`Request::wait`] then waits until the
    /// task is over, [`crate::ClientLimits::call_total_timeout`] at most. [`Call::wait_outcome`]
    /// returns [`Outcome::Task`] instead; store its id to find the task again after a restart
    /// ([`Client::follow_task`](super::Client::follow_task)).
    ///
    /// A server without tasks responds as usual. In a session the server creates one for every tool
    /// that does not forbid it (`execution.taskSupport` in [`crate::Tool::source`]); in the
    /// stateless protocol the server decides.
    pub fn as_task(mut self) -> Request<T> {
        if let Ok(request) = &mut self.request {
            let core = &self.core;
            request.task = !core.era().sessions() || supports_tasks(&core.server().capabilities_json);
        }
        self
    }
}

/// Upper bound for timeouts of the caller: `Instant + Duration` can overflow beyond it.
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);

/// A call in flight. Dropping it cancels it.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, json};
///
/// let client = Client::spawn(Command::new("board_server"))?;
/// // Both calls run at the same time.
/// let one = client.request_tool("measure", json!({"zone": 1})).start()?;
/// let two = client.request_tool("measure", json!({"zone": 2})).start()?;
/// println!("{} {}", one.wait()?.texts(), two.wait()?.texts());
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[must_use = "a call that is dropped is cancelled"]
pub struct Call<T> {
    pub(super) run: CallRun,
    decode: Decode<T>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    /// Waits for the result. The handlers respond to input requests.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn wait(mut self) -> Result<T, Error> {
        let result = self.result(None).unwrap_or_else(|| Err(Failure::Timeout.to_error()));
        let Some(task) = self.run.task.take() else { return result };
        let result = FollowedTask::new(&self.run.core, task).wait_json()?;
        (self.decode)(result.to_doc().root())
            .ok_or_else(|| misbehaved("the result of the task is not that of a tool"))
    }

    /// Waits for the result until `until` at most. Returns `None` if the call is still in flight.
    /// The handlers respond to input requests.
    ///
    /// # Errors
    /// As [`Request::wait`]; [`ErrorKind::Misuse`] if the server created a task for the call.
    pub fn wait_until(&mut self, until: Instant) -> Option<Result<T, Error>> {
        self.result(Some(until))
    }

    /// Waits for the outcome of one round: the result, or input that the server requires. The
    /// caller provides the input with [`Request::resume`]. In a session the server sends its own
    /// requests instead, to which the handlers respond.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn wait_outcome(mut self) -> Result<Outcome<T>, Error> {
        let outcome = self.run.step(None, None).unwrap_or_else(|| Err(Failure::Timeout.to_error()));
        self.decoded(outcome)
    }

    fn result(&mut self, until: Option<Instant>) -> Option<Result<T, Error>> {
        Some(self.run.finish(until)?.and_then(|reply| read(&self.run.core, reply, self.decode)))
    }

    pub(super) fn decoded(&self, outcome: Result<Outcome<RawReply>, Error>) -> Result<Outcome<T>, Error> {
        Ok(match outcome? {
            Outcome::Complete(reply) => Outcome::Complete(read(&self.run.core, reply, self.decode)?),
            Outcome::InputRequired(input) => Outcome::InputRequired(input.with_object()),
            Outcome::Task(task) => Outcome::Task(task),
        })
    }

    /// Returns a handle that cancels this call from any thread.
    pub fn canceller(&self) -> Canceller {
        Canceller { core: Arc::clone(&self.run.core), control: Arc::clone(&self.run.control) }
    }

    /// Cancels the call and notifies the server. A late response is dropped.
    pub fn cancel(mut self) {
        self.run.cancel();
    }
}

/// Cancels one [`Call`].
///
/// ```no_run
/// use std::process::Command;
/// use std::thread;
/// use std::time::Duration;
/// use tinymcp::{Client, ErrorKind};
///
/// let client = Client::spawn(Command::new("board_server"))?;
/// let call = client.request_tool("scan", ()).start()?;
/// let canceller = call.canceller();
/// thread::spawn(move || {
///     thread::sleep(Duration::from_secs(2));
///     canceller.cancel();
/// });
/// match call.wait() {
///     Err(error) if error.kind() == ErrorKind::Cancelled => println!("stopped"),
///     result => println!("{}", result?.texts()),
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct Canceller {
    core: Arc<Core>,
    control: Arc<CallControl>,
}

impl Canceller {
    /// Cancels the call, if it is not over, and notifies the server. The waiting thread gets
    /// [`ErrorKind::Cancelled`].
    pub fn cancel(&self) {
        self.control.cancel(&self.core);
    }
}
