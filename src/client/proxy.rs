//! Requests that a served hub forwards: results byte for byte, each with its own client
//! capabilities, and without a thread that waits.

use std::sync::Arc;
use std::time::Instant;

use crate::era::proxied::relayed;
use crate::error::Error;
use crate::json::Json;
use crate::model::proxied_result::{Passage, Relayed};
use crate::model::{ClientCapabilities, Level};

use super::builder::ClientBuilder;
use super::handlers::Relay;
use super::pending_call::{OnReady, Progress};
use super::request::{CacheUse, Call, CallOptions, InputRequired, Outcome, Request};

impl ClientBuilder {
    /// Passes requests of the server to `relay` first, and to the handlers if `relay` returns them.
    /// `relay` also gets log entries, from `info` on unless a handler requests lower levels, and
    /// decides which capabilities are declared.
    pub(crate) fn relays(mut self, relay: Arc<dyn Relay>) -> ClientBuilder {
        self.log_level = Some(self.log_level.unwrap_or(Level::Info).min(Level::Info));
        self.handlers.relay = Some(relay);
        // The caller validates the results.
        #[cfg(feature = "schema")]
        {
            self.checks = false;
        }
        self
    }
}

impl<T> Request<T> {
    /// Declares these capabilities for this call, where the era declares them with each request.
    pub(crate) fn able(mut self, able: ClientCapabilities) -> Request<T> {
        self.options.capabilities = Some(able);
        self
    }

    /// Returns the result as received. It is not cached here; the caller may cache it.
    pub(crate) fn relayed(self, passage: Passage) -> Request<Relayed> {
        let decode = relayed(passage, self.core.greeting().revision);
        let options = CallOptions { cache: CacheUse::Bypass, ..self.options };
        Request { core: self.core, request: self.request, decode, options }
    }

    /// Adds members to the request's `_meta`, as text without braces.
    pub(crate) fn meta(mut self, members: &str) -> Request<T> {
        if let Ok(request) = &mut self.request {
            request.meta.push_str(members);
        }
        self
    }
}

impl<T> Call<T> {
    /// Replaces the waiting thread: `callback` is called when [`Call::outcome_until`] may have
    /// something new, on any thread, perhaps before this returns. It must not block.
    pub(crate) fn on_ready(&mut self, callback: OnReady) {
        self.run.on_ready(callback);
    }

    /// As [`Call::wait_outcome`], until `until` at most, with a listener for progress that may
    /// borrow. The request must have its own listener, or no progress is requested.
    pub(crate) fn outcome_until(
        &mut self,
        until: Instant,
        listener: &mut dyn FnMut(Progress),
    ) -> Option<Result<Outcome<T>, Error>> {
        let outcome = self.run.step(Some(until), Some(listener))?;
        Some(self.decoded(outcome))
    }
}

impl InputRequired {
    /// The state, as JSON text.
    pub(crate) fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Restores one from its parts.
    pub(crate) fn again(questions: Json, state: Option<String>) -> InputRequired {
        InputRequired { questions, state }
    }
}
