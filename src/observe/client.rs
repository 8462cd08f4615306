//! Observation of the requests of a client.

use crate::json::Value;
use crate::transport::client::Failure;

use super::{Observation, RequestOutcome};

impl Observation {
    /// Outcome of a request. `reply` has the size of the response, its result or error, and whether
    /// it is a result. `None` if the session was lost, because the request may be sent again.
    pub(crate) fn outcome_of(
        &self,
        reply: Result<(usize, Value<'_>, bool), &Failure>,
    ) -> Option<RequestOutcome> {
        let (bytes, value, ok) = match reply {
            Ok(reply) => reply,
            Err(Failure::SessionLost) => return None,
            Err(Failure::Timeout) => return Some(RequestOutcome::TimedOut),
            Err(Failure::Cancelled) => return Some(RequestOutcome::Cancelled),
            Err(_) => return Some(RequestOutcome::NoResponse),
        };
        self.received(bytes);
        Some(match ok {
            true if value.get("isError").and_then(Value::as_bool) == Some(true) => RequestOutcome::ToolError,
            true => RequestOutcome::Ok,
            false => {
                let code = value.get("code").and_then(Value::as_i64);
                let code = code.and_then(|code| i32::try_from(code).ok());
                RequestOutcome::Error(code.unwrap_or(INTERNAL_ERROR))
            }
        })
    }
}

/// The error code for an error response without a code (JSON-RPC 2.0 §5.1).
const INTERNAL_ERROR: i32 = -32603;
