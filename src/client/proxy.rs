//! Requests that a served hub forwards: their results are passed on byte for byte, each request has
//! its own client capabilities, and no thread waits for it.

use std::sync::Arc;
use std::time::Instant;

use crate::era::client::OutgoingNotification;
use crate::era::proxied::relayed;
use crate::error::Error;
use crate::json::Json;
use crate::model::proxied_result::{ProxiedKind, ProxiedResult};
use crate::model::{ClientCapabilities, Level};

use super::Client;
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

impl Client {
    /// Closes the connection as [`Client::close`] does. `why` is the error of the calls in flight.
    pub(crate) fn close_with(&self, why: &str) {
        self.core().close_with(why);
    }

    /// Notifies the server that the roots have changed, in the era that has roots of a client.
    pub(crate) fn roots_changed(&self) {
        self.core().notify(OutgoingNotification::RootsListChanged);
    }
}

impl<T> Request<T> {
    /// Sets the client capabilities of this call. Has no effect in a session, which has its own.
    pub(crate) fn capabilities(mut self, able: ClientCapabilities) -> Request<T> {
        self.options.capabilities = Some(able);
        self
    }

    /// Makes the request return its result as received. This client does not cache the result; the
    /// caller may.
    pub(crate) fn relayed(self, kind: ProxiedKind) -> Request<ProxiedResult> {
        let decode = relayed(kind, self.core.server().revision);
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
    /// Registers a callback, so that no thread needs to wait. It runs on any thread when
    /// [`Call::outcome_until`] may have an outcome or progress, possibly before `on_ready` returns.
    /// It must not block.
    pub(crate) fn on_ready(&mut self, callback: OnReady) {
        self.run.on_ready(callback);
    }

    /// Waits for the outcome as [`Call::wait_outcome`] does, until `until` at most. `listener`
    /// receives progress if the request has a listener of its own; otherwise the client does not
    /// request progress.
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
    /// Returns the state as JSON text.
    pub(crate) fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Creates a value from the input requests and the state.
    pub(crate) fn from_parts(requests: Json, state: Option<String>) -> InputRequired {
        InputRequired { requests, state }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::json::Doc;
    use crate::{Protocol, json, memory};

    #[test]
    fn the_server_is_notified_before_a_cancelled_call_ends() {
        const TIMEOUT: Duration = Duration::from_secs(20);
        let (link, end) = memory();
        let connecting = std::thread::spawn(move || {
            Client::builder("test", "1.0.0").protocol(Protocol::Session).over(link).unwrap()
        });
        let opening = Doc::parse(end.receive(TIMEOUT).unwrap()).unwrap();
        let id = opening.root().get("id").unwrap().raw();
        end.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"x","version":"1"}}}}}}"#
        ));
        let client = connecting.join().unwrap();
        let mut call = client.request_tool("waits", json!({})).start().unwrap();
        assert!(end.receive(TIMEOUT).unwrap().contains("notifications/initialized"));
        assert!(end.receive(TIMEOUT).unwrap().contains("tools/call"));
        // The callback acts as a thread that waits for the call and then closes the client.
        let (sender, notices) = mpsc::channel();
        let end = std::sync::Mutex::new(end);
        call.on_ready(Arc::new(move || {
            let _ = sender.send(end.lock().unwrap().receive(TIMEOUT));
        }));
        call.canceller().cancel();
        assert!(notices.recv().unwrap().unwrap().contains("notifications/cancelled"));
    }
}
