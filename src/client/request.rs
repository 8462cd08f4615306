//! Requests and started calls: typed handles of a [`CallRun`].

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::decode::makes_tasks;
use crate::era::outgoing::{OutgoingRequest, RequestKind};
use crate::error::{Error, ErrorKind};
use crate::json::{Json, Value, Writer};
use crate::model::Level;
use crate::model::content::ToolOutput;
use crate::model::task::Task;

use super::call::{CallControl, CallRun, Options, RoundOutcome, read};
use super::connection::Core;
use super::pending_call::{CallTimeout, Progress};

/// Reads an answer; nothing when it is not what the method answers.
pub(super) type Decode<T> = fn(Value<'_>) -> Option<T>;

/// A call that is ready to be made.
#[must_use = "a request does nothing until it is waited for or started"]
pub struct Request<T> {
    pub(super) core: Arc<Core>,
    pub(super) order: Result<OutgoingRequest, Error>,
    pub(super) decode: Decode<T>,
    pub(super) options: Options,
}

impl<T> Request<T> {
    pub(super) fn new(core: &Arc<Core>, want: &RequestKind<'_>, decode: Decode<T>) -> Request<T> {
        let limits = &core.limits;
        let patience =
            CallTimeout { timeout: limits.call_timeout, longest: limits.call_longest, extend: false };
        Request {
            core: Arc::clone(core),
            order: OutgoingRequest::new(want).map_err(|why| Error::new(ErrorKind::Invalid, why)),
            decode,
            options: Options {
                patience,
                hear: None,
                log: None,
                fresh: false,
                resume: None,
                passed_on: false,
                watch: None,
                able: None,
            },
        }
    }

    /// Sets the timeout; the default is [`crate::Limits::call_timeout`]. Time in which the server
    /// waits for the user does not count.
    pub fn timeout(mut self, timeout: Duration) -> Request<T> {
        // "For ever" in code: a point of time so far away cannot be told.
        self.options.patience.timeout = timeout.min(LONGEST);
        self.options.patience.longest = self.options.patience.longest.max(self.options.patience.timeout);
        self
    }

    /// Lets each step of progress start the timeout anew, up to `longest` altogether.
    pub fn extended_by_progress(mut self, longest: Duration) -> Request<T> {
        self.options.patience.extend = true;
        self.options.patience.longest = longest.min(LONGEST);
        self
    }

    /// Hears of progress, on the thread that waits for the call, never after the wait ended.
    pub fn on_progress(mut self, hear: impl FnMut(Progress) + Send + 'static) -> Request<T> {
        self.options.hear = Some(Box::new(hear));
        self
    }

    /// Wants log entries from this level on for this request, where the era says that with each
    /// request.
    pub fn log_level(mut self, level: Level) -> Request<T> {
        self.options.log = Some(level);
        self
    }

    /// Asks the server even if an answer was kept that it said is still fresh; the new answer takes
    /// its place.
    pub fn fresh(mut self) -> Request<T> {
        self.options.fresh = true;
        self
    }

    /// Goes on with an earlier request that ended in [`Outcome::InputRequired`]: the same request
    /// with the answers to its questions, an object by key, and with its state.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the answers are no object.
    pub fn resume(mut self, answers: &Json, asked: &InputRequired) -> Result<Request<T>, Error> {
        let text = answers.as_str().trim();
        let members = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        let members =
            members.ok_or_else(|| Error::new(ErrorKind::Invalid, "the answers must be an object by key"))?;
        self.options.resume = Some((members.to_owned(), asked.state.clone()));
        Ok(self)
    }

    /// Makes the call and waits for its answer.
    ///
    /// # Errors
    /// What [`ErrorKind`] names: the server's own error, no answer in time, the end of the
    /// connection.
    pub fn wait(self) -> Result<T, Error> {
        let (mut exchange, decode) = self.into_exchange()?;
        exchange.begin(true)?;
        done(&mut exchange, decode, None)
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Timeout, "no answer in time")))
    }

    /// Makes the call and comes back as soon as it is under way.
    ///
    /// # Errors
    /// The call could not be sent: too many are in flight, or the connection ended.
    pub fn start(self) -> Result<Call<T>, Error> {
        let (mut exchange, decode) = self.into_exchange()?;
        exchange.begin(false)?;
        Ok(Call { exchange, decode, kind: PhantomData })
    }

    fn into_exchange(self) -> Result<(CallRun, Decode<T>), Error> {
        let order = self.order?;
        self.core.declared(&order.method)?;
        Ok((CallRun::new(self.core, order, self.options), self.decode))
    }
}

impl Request<ToolOutput> {
    /// Lets the server make a task of the call: then [`Call::wait_outcome`] gives
    /// [`Outcome::Task`], and [`Client::task`](super::Client::task) tells later how far it is. A server that makes no tasks
    /// answers as ever. In a session the server makes one of every tool that does not forbid it
    /// (`execution.taskSupport` in [`crate::Tool::source`]); without sessions it decides alone.
    /// [`Request::wait`] fails as [`ErrorKind::Misuse`] when a task comes of the call.
    pub fn as_task(mut self) -> Request<ToolOutput> {
        if let Ok(order) = &mut self.order {
            let core = &self.core;
            order.task = !core.era().sessions() || makes_tasks(&core.greeting().capabilities);
        }
        self
    }
}

/// The longest time that anything is waited for: what fits a clock.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

fn done<T>(exchange: &mut CallRun, decode: Decode<T>, until: Option<Instant>) -> Option<Result<T, Error>> {
    let core = Arc::clone(&exchange.core);
    Some(exchange.finish(until)?.and_then(|reply| read(&core, reply, decode)))
}

/// A call under way. Dropping it cancels it.
#[must_use = "a call that is dropped is cancelled"]
pub struct Call<T> {
    pub(super) exchange: CallRun,
    decode: Decode<T>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    /// Waits for the answer; what the server asks meanwhile is asked of the handlers.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn wait(mut self) -> Result<T, Error> {
        done(&mut self.exchange, self.decode, None)
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Timeout, "no answer in time")))
    }

    /// Waits until `until` at most. Returns `None` if the call is still in flight then. The
    /// handlers answer input requests.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn wait_until(&mut self, until: Instant) -> Option<Result<T, Error>> {
        done(&mut self.exchange, self.decode, Some(until))
    }

    /// Waits for the next thing the server says: the answer, or that it needs something first,
    /// which is then for the caller to find out and to [`Request::resume`] with. Handlers are not
    /// asked, except in a session: there the server asks by requests of its own, which are theirs
    /// as ever.
    ///
    /// # Errors
    /// As [`Request::wait`].
    pub fn wait_outcome(mut self) -> Result<Outcome<T>, Error> {
        match self.exchange.step(None) {
            Some(step) => self.outcome(step),
            None => Err(Error::new(ErrorKind::Timeout, "no answer in time")),
        }
    }

    pub(super) fn outcome(&self, step: Result<RoundOutcome, Error>) -> Result<Outcome<T>, Error> {
        match step? {
            RoundOutcome::Complete(reply) => {
                read(&self.exchange.core, reply, self.decode).map(Outcome::Complete)
            }
            RoundOutcome::Asked(questions, state) => Ok(Outcome::InputRequired(InputRequired {
                questions: questions.unwrap_or_else(empty),
                state,
            })),
            RoundOutcome::Task(task) => Ok(Outcome::Task(task)),
        }
    }

    /// Something to cancel this call with, from any thread, whoever waits for it.
    pub fn canceller(&self) -> Canceller {
        Canceller { core: Arc::clone(&self.exchange.core), flag: self.exchange.flag() }
    }

    /// Ends the call. The server is told; an answer that comes all the same is dropped.
    pub fn cancel(mut self) {
        self.exchange.cancel();
    }
}

/// Cancels one [`Call`].
#[derive(Clone)]
pub struct Canceller {
    core: Arc<Core>,
    flag: Arc<CallControl>,
}

impl Canceller {
    /// Ends the call, if it is not over: who waits for it gets [`ErrorKind::Cancelled`], and the
    /// server is told.
    pub fn cancel(&self) {
        self.flag.cancel(&self.core);
    }
}

/// Response to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The answer.
    Complete(T),
    /// It needs something first.
    InputRequired(InputRequired),
    /// It goes on by itself, and tells more when it is asked: only after [`Request::as_task`].
    Task(Task),
}

/// Input that the server requires. It belongs to one request.
#[derive(Clone, Debug)]
pub struct InputRequired {
    /// The questions, an object by key: each has a `method` and `params`.
    pub questions: Json,
    /// Opaque state of the server, as JSON text.
    pub(super) state: Option<String>,
}

fn empty() -> Json {
    let mut w = Writer::new();
    w.begin_object().end_object();
    w.into_json()
}
