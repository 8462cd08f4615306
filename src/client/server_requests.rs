//! Requests of the server in a session.
//!
//! Responds to pings, passes other requests to the handlers, and rejects requests whose capability
//! was not declared or whose queue is full. In the stateless protocol a server requests input in a
//! result, which `call.rs` handles.
//!
//! # Invariants
//! - No function here blocks: they run on the reader thread.
//! - A cancelled request gets no response (basic/utilities/cancellation).
//! - The end of the connection cancels the open requests.

use std::sync::{Arc, Mutex};

use crate::era::client::{self as codec, write_response};
use crate::json::{Json, Value, Writer};
use crate::model::client_request::{InputRequest, InputResponse};
use crate::rpc::{Id, Request, RpcError, code};
use crate::sync::lock;
use crate::transport::client::{Failure, Kind};

use super::connection::Core;
use super::handlers::{Declined, Forwarded};

/// A request of the server that is being handled and not cancelled.
pub(super) struct OpenRequest {
    id: Id,
    cancellation: Arc<Cancellation>,
}

/// Cancellation of one request of the server.
#[derive(Default)]
pub(crate) struct Cancellation(Mutex<CancellationState>);

#[derive(Default)]
enum CancellationState {
    #[default]
    Open,
    Watched(Box<dyn FnOnce() + Send>),
    Cancelled,
}

impl Cancellation {
    /// Runs `hook` when the request is cancelled, at once if it already is. The hook must not
    /// block.
    #[allow(dead_code, reason = "called by the hub")]
    pub(crate) fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.0);
        match *state {
            CancellationState::Cancelled => {
                drop(state);
                hook();
            }
            _ => *state = CancellationState::Watched(Box::new(hook)),
        }
    }

    fn cancel(&self) {
        let before = std::mem::replace(&mut *lock(&self.0), CancellationState::Cancelled);
        if let CancellationState::Watched(hook) = before {
            hook();
        }
    }
}

impl Core {
    /// Handles a cancellation by the server: of its own request in a session, otherwise of a listen
    /// request of this client. A listen request usually also receives a result
    /// (basic/patterns/subscriptions, cancellation).
    pub(super) fn cancelled_by_server(self: &Arc<Self>, id: Value<'_>) {
        if self.era().sessions() {
            if let Some(open) = Id::read(id).and_then(|id| self.close_request(&id)) {
                open.cancellation.cancel();
            }
        } else if let Some(id) = id.as_u64().filter(|id| self.subscriptions.listens(*id)) {
            self.fail(id, Failure::Interrupted("the server cancelled the listen request".to_owned()));
        }
    }

    /// Handles a request of the server. Servers send requests only in sessions.
    pub(super) fn server_request(self: &Arc<Self>, request: &Request<'_>) {
        if !self.era().sessions() {
            // The client must not respond (2026-07-28 basic/transports; requirement RPC-20).
            self.count_stray_output(request.method.as_bytes());
            return;
        }
        let raw = request.id.raw();
        if request.method == "ping" {
            return self.respond(raw, Ok(&Json::constant("{}")));
        }
        let asked = match codec::read_request(request.method, request.params) {
            Ok(asked) => asked,
            Err(why) => return self.respond(raw, Err(&why)),
        };
        let bytes = request.params.map_or(0, |params| params.raw().len());
        let Some(held) = self.handlers.reserve(bytes) else { return self.respond(raw, Err(&busy())) };
        let (Some(id), raw) = (Id::read(request.id), raw.to_owned()) else { return };
        let Some(asked) = self.relay(&id, &raw, asked) else { return };
        if let Err(why) = self.handlers.check_declared(&asked) {
            return self.respond(&raw, Err(&rejection(request.method, why)));
        }
        let method = request.method.to_owned();
        self.open_request(&id);
        // `roots/list` needs no user, so the clock is not stopped.
        let pause = (!matches!(asked, InputRequest::Roots)).then(|| ClockPause::begin(self));
        let core = Arc::clone(self);
        let (name, text) = (id.clone(), raw.clone());
        let queued = self.handlers.run(Box::new(move || {
            if lock(&core.session.server_requests).iter().any(|open| open.id == name) {
                let answer = core.handlers.answer(&asked);
                core.respond_to(&method, &name, &text, answer);
            }
            drop((pause, held));
        }));
        if !queued {
            self.close_request(&id);
            self.respond(&raw, Err(&busy()));
        }
    }

    /// Passes a request to the relay. Returns it if the client's own handlers must respond.
    fn relay(self: &Arc<Self>, id: &Id, raw: &str, request: InputRequest) -> Option<InputRequest> {
        let Some(relay) = self.handlers.relay() else { return Some(request) };
        let cancellation = self.open_request(id);
        let pause = ClockPause::begin(self);
        let (name, raw) = (id.clone(), raw.to_owned());
        let respond = Box::new(move |answer: Result<&Json, &RpcError>| {
            let ClockPause(core) = &pause;
            if core.close_request(&name).is_some() {
                core.respond(&raw, answer);
            }
        });
        let back = relay.forward(Forwarded::new(request, respond, cancellation)).err()?;
        self.close_request(id);
        Some(back.into_request())
    }

    /// Adds a request that is being handled.
    fn open_request(&self, id: &Id) -> Arc<Cancellation> {
        let cancellation = Arc::<Cancellation>::default();
        let open = OpenRequest { id: id.clone(), cancellation: Arc::clone(&cancellation) };
        lock(&self.session.server_requests).push(open);
        cancellation
    }

    /// Removes a request that is being handled; `None` if it was cancelled.
    fn close_request(&self, id: &Id) -> Option<OpenRequest> {
        let mut open = lock(&self.session.server_requests);
        let at = open.iter().position(|open| open.id == *id)?;
        Some(open.swap_remove(at))
    }

    /// Cancels all requests, because the connection has ended.
    pub(super) fn cancel_requests(&self) {
        for open in std::mem::take(&mut *lock(&self.session.server_requests)) {
            open.cancellation.cancel();
        }
    }

    fn respond_to(&self, method: &str, id: &Id, raw: &str, answer: Result<InputResponse, Declined>) {
        if self.close_request(id).is_none() {
            return;
        }
        match answer {
            Ok(reply) => self.respond(raw, Ok(&codec::encode_input_response(self.server().revision, &reply))),
            Err(why) => self.respond(raw, Err(&rejection(method, why))),
        }
    }

    fn respond(&self, id: &str, answer: Result<&Json, &RpcError>) {
        let mut w = Writer::new();
        write_response(&mut w, id, answer);
        self.send_now(w.as_bytes(), Kind::Response);
    }
}

/// Stops the clock of the deadlines until it is dropped.
struct ClockPause(Arc<Core>);

impl ClockPause {
    fn begin(core: &Arc<Core>) -> ClockPause {
        core.waiters.clock.stop();
        ClockPause(Arc::clone(core))
    }
}

impl Drop for ClockPause {
    fn drop(&mut self) {
        self.0.waiters.clock.resume();
    }
}

fn busy() -> RpcError {
    RpcError::new(code::INTERNAL, "The client is busy: too many requests of the server are queued")
}

/// Returns the error response to a rejected request of the server. Its code is -1 if the user
/// refuses (client/sampling, error handling).
fn rejection(method: &str, why: Declined) -> RpcError {
    match why {
        Declined::Undeclared(part) if part.contains('.') => {
            RpcError::new(code::INVALID_PARAMS, format!("The client does not declare the capability {part}"))
        }
        Declined::Undeclared(_) => {
            RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
        }
        Declined::Refused(refusal) => RpcError::new(-1, refusal.message),
        Declined::Invalid(_) => {
            RpcError::new(code::INTERNAL, "The handler of the client returned an invalid result")
        }
    }
}
