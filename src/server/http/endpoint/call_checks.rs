//! Checks of a request against its header fields and the scopes of its principal.

use std::sync::Arc;

use crate::era::{Params, ServerEra};
use crate::model::Fault;
use crate::rpc::Request;
use crate::server::call::Target;
use crate::server::callers::observation;
use crate::server::dispatch::classify::Classified;
use crate::server::dispatch::{Effect, PlannedCall};
use crate::server::http::auth::{INSUFFICIENT_SCOPE, Principal};
use crate::server::http::rejection::{Reason, Rejection};
use crate::server::http::request_checks::RequestInfo;
use crate::transport::ReplySink;

use super::Endpoint;

impl Endpoint {
    /// Checks the header fields of a request without a session against its body.
    pub(super) fn check_fields(
        &self,
        info: &RequestInfo<'_>,
        request: &Request<'_>,
        params: &Params<'_>,
    ) -> Result<(), Rejection> {
        let Some(era) = self.core.eras.modern.map(ServerEra::http) else { return Ok(()) };
        if !info.head.accepts().events && era.streams(request.method) {
            let fault = Fault::InvalidRequest(Reason::AcceptEvents.message().into());
            return Err(Rejection::fault(Reason::AcceptEvents.status(), Some(request.id), &fault));
        }
        era.check(info.head, request, params).map_err(|fault| Rejection::fault(400, Some(request.id), &fault))
    }

    /// Checks a stateless call: the scopes of its principal, and the header fields that repeat
    /// arguments of its tool.
    pub(super) fn check_call(
        &self,
        info: &RequestInfo<'_>,
        message: &Classified<'_>,
        effect: &Effect,
    ) -> Result<(), Rejection> {
        self.check_scopes(info, message, effect)?;
        let Some(era) = self.core.eras.modern.map(ServerEra::http) else { return Ok(()) };
        let Effect::Call(PlannedCall { target: Target::Tool(tool), .. }) = effect else {
            return Ok(());
        };
        era.check_arguments(info.head, &tool.entry.mirrors, message.params.arguments())
            .map_err(|fault| Rejection::fault(400, message.id(), &fault))
    }

    /// Checks that the token of a call has the scopes of its tool (requirement AUTHS-05).
    pub(super) fn check_scopes(
        &self,
        info: &RequestInfo<'_>,
        message: &Classified<'_>,
        effect: &Effect,
    ) -> Result<(), Rejection> {
        let Effect::Call(call) = effect else { return Ok(()) };
        match missing(call, info.principal.as_deref()) {
            None => Ok(()),
            Some(scopes) => {
                let challenge = self.options.auth.challenge(Some(INSUFFICIENT_SCOPE), &scopes);
                let rejection = Rejection::fault(Reason::Scope.status(), message.id(), &fault());
                Err(rejection.with("www-authenticate", challenge))
            }
        }
    }
}

/// Reports a rejected call to the observers of the program, with the error of its response.
pub(super) fn observe_rejection(effect: &Effect, rejection: &Rejection, sink: &Arc<dyn ReplySink>) {
    if let Effect::Call(call) = effect {
        let observed = call.observed.sink_or(sink);
        observation::response_sent(&**observed, rejection.encoded, rejection.response.body.len());
    }
}

/// Returns all scopes that the tool of a call requires, if its principal lacks one of them.
pub(super) fn missing(call: &PlannedCall, principal: Option<&Principal>) -> Option<String> {
    let Target::Tool(tool) = &call.target else { return None };
    let required = &tool.entry.tool.scopes;
    let granted = principal.map_or(&[][..], |principal| &principal.scopes);
    let lacks = required.iter().any(|scope| !granted.contains(scope));
    lacks.then(|| required.join(" "))
}

/// Returns the error for a call whose token lacks a scope.
pub(super) fn fault() -> Fault {
    Fault::InvalidRequest(Reason::Scope.message().into())
}
