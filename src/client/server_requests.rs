//! Requests of the server in a session.
//!
//! Answers pings at once, hands other requests to the handlers, and refuses those that were not
//! declared or find no room. In the stateless protocol the server asks through results; `call.rs`
//! handles them.
//!
//! # Invariants
//! - Nothing here waits: it runs on the thread that reads.
//! - A cancelled request gets no response (basic/utilities/cancellation).

use std::sync::Arc;

use crate::era::client::{self as codec, write_answer};
use crate::json::{Json, Value, Writer};
use crate::model::client_request::{AskReply, AskRequest};
use crate::rpc::{Id, Request, RpcError, code};
use crate::transport::client::{Failure, Kind};

use super::connection::{Core, lock};
use super::handlers::Declined;
use super::handlers::LogEntry;

impl Core {
    /// The server calls off a question of its own, or ends a listen request of ours; of the latter
    /// a result usually tells as well (basic/patterns/subscriptions, cancellation).
    pub(super) fn called_off(self: &Arc<Self>, id: Value<'_>) {
        if self.era().sessions() {
            if let Some(id) = Id::read(id) {
                lock(&self.asked).retain(|asked| *asked != id);
            }
        } else if let Some(id) = id.as_u64().filter(|id| self.listening.listens(*id)) {
            self.fail(id, Failure::Interrupted("the server stopped telling".to_owned()));
        }
    }

    /// A request of the server: only sessions have them.
    pub(super) fn question(self: &Arc<Self>, request: &Request<'_>) {
        if !self.era().sessions() {
            // Answering is forbidden (2026-07-28 basic/transports; requirement RPC-20).
            self.count_noise(request.method.as_bytes());
            return;
        }
        let raw = request.id.raw();
        if request.method == "ping" {
            return self.say(raw, Ok(&Json::constant("{}")));
        }
        let asked = match codec::inquiry(request.method, request.params) {
            Ok(asked) => asked,
            Err(why) => return self.say(raw, Err(&why)),
        };
        let bytes = request.params.map_or(0, |params| params.raw().len());
        let Some(held) = self.desk.hold(bytes) else { return self.say(raw, Err(&busy())) };
        let (Some(id), raw) = (Id::read(request.id), raw.to_owned()) else { return };
        let asked = match self.relayed(&id, &raw, asked) {
            Some(asked) => asked,
            None => return,
        };
        if let Err(why) = self.desk.may_ask(&asked) {
            return self.say(&raw, Err(&refusal(request.method, why)));
        }
        let method = request.method.to_owned();
        lock(&self.asked).push(id.clone());
        // The roots are known: nobody thinks, however often they are asked for.
        let thinking = (!matches!(asked, AskRequest::Roots)).then(|| ClockPause::begins(self));
        let core = Arc::clone(self);
        let (name, text) = (id.clone(), raw.clone());
        let queued = self.desk.run(Box::new(move || {
            // A request that was cancelled meanwhile is not handled.
            if lock(&core.asked).contains(&name) {
                let answer = core.desk.answer(&asked);
                core.answered(&method, &name, &text, answer);
            }
            drop((thinking, held));
        }));
        if !queued {
            self.forget(&id);
            self.say(&raw, Err(&busy()));
        }
    }

    fn forget(&self, id: &Id) -> bool {
        let mut asked = lock(&self.asked);
        let at = asked.iter().position(|a| a == id);
        at.map(|at| asked.swap_remove(at)).is_some()
    }

    fn answered(&self, method: &str, id: &Id, raw: &str, answer: Result<AskReply, Declined>) {
        // A question that was called off while somebody thought about it gets no answer.
        if !self.forget(id) {
            return;
        }
        match answer {
            Ok(reply) => self.say(raw, Ok(&codec::reply_text(self.greeting().revision, &reply))),
            Err(why) => self.say(raw, Err(&refusal(method, why))),
        }
    }

    fn say(&self, id: &str, answer: Result<&Json, &RpcError>) {
        let mut w = Writer::new();
        write_answer(&mut w, id, answer);
        self.tell(w.as_bytes(), Kind::Answer);
    }
}

/// Somebody thinks about a question of the server: its clock stands still as long as this is there.
struct ClockPause(Arc<Core>);

impl ClockPause {
    fn begins(core: &Arc<Core>) -> ClockPause {
        core.clock.stop();
        ClockPause(Arc::clone(core))
    }
}

impl Drop for ClockPause {
    fn drop(&mut self) {
        self.0.clock.go();
    }
}

/// A question of a server that somebody else answers: a client of the program that is this client.
/// Dropped without an answer it is refused.
#[allow(dead_code)] // Read by the hub.
pub(crate) struct Question {
    open: Option<ClockPause>,
    id: Id,
    raw: String,
    /// The request.
    pub(crate) request: AskRequest,
}

/// Passes on what a server asks and says. Called on the thread that reads, and must not wait.
pub(crate) trait Relay: Send + Sync {
    /// Takes a question over, or gives it back for the handlers.
    ///
    /// # Errors
    /// The question, if it is nobody's.
    #[expect(clippy::result_large_err, reason = "what is given back is what came")]
    fn question(&self, question: Question) -> Result<(), Question>;

    /// Takes note of a log entry.
    fn log(&self, entry: &LogEntry);

    /// What is declared to the server.
    fn capabilities(&self) -> crate::model::ClientCapabilities;
}

impl Core {
    /// Offers a question to who passes questions on; gives it back if it stays here.
    fn relayed(self: &Arc<Self>, id: &Id, raw: &str, request: AskRequest) -> Option<AskRequest> {
        let Some(relay) = self.desk.relay() else { return Some(request) };
        lock(&self.asked).push(id.clone());
        let open = Some(ClockPause::begins(self));
        let mut back =
            relay.question(Question { open, id: id.clone(), raw: raw.to_owned(), request }).err()?;
        back.open = None;
        self.forget(id);
        Some(std::mem::replace(&mut back.request, AskRequest::Roots))
    }
}

impl Question {
    /// Gives the answer, unless the question was called off.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn answer(mut self, answer: Result<&Json, &RpcError>) {
        self.settle(answer);
    }

    fn settle(&mut self, answer: Result<&Json, &RpcError>) {
        let Some(ClockPause(core)) = &self.open else { return };
        if core.forget(&self.id) {
            core.say(&self.raw, answer);
        }
        self.open = None;
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.settle(Err(&RpcError::new(code::INTERNAL, "The question was not answered")));
    }
}

fn busy() -> RpcError {
    RpcError::new(code::INTERNAL, "The client is busy")
}

/// Error response to a request of the server without a result (client/sampling, error
/// handling: -1 for a person's refusal).
fn refusal(method: &str, why: Declined) -> RpcError {
    match why {
        Declined::Undeclared(part) if part.contains('.') => {
            RpcError::new(code::INVALID_PARAMS, format!("The client does not declare the capability {part}"))
        }
        Declined::Undeclared(_) => {
            RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
        }
        Declined::Refused(refusal) => RpcError::new(-1, refusal.message),
        Declined::Unfit(_) => RpcError::new(code::INTERNAL, "The client's handler gave an invalid result"),
    }
}
