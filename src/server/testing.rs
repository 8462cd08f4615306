//! Requests to a server in the same program, for tests.
//!
//! Sends one request and waits for its response. Opens no session and responds to no request of the
//! server.

use std::time::{Duration, Instant};

use crate::json::{Doc, Json, Value};
use crate::limits::MAX_DURATION;
use crate::transport::MemoryEnd;

impl MemoryEnd {
    /// Sends a request and returns the response message, with its `result` or `error`. Messages
    /// before it, such as notifications, are dropped. `None` if no response arrives in time or the
    /// link is closed.
    ///
    /// The id is a string, `request-1` and so on; use other ids for your own messages.
    pub fn request(&mut self, method: &str, params: impl Into<Json>, timeout: Duration) -> Option<Json> {
        let deadline = Instant::now() + timeout.min(MAX_DURATION);
        let (id, params) = (self.next_id(), params.into());
        let request = crate::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if !self.send(request.as_str()) {
            return None;
        }
        loop {
            let message = self.receive(deadline.saturating_duration_since(Instant::now()))?;
            let Ok(doc) = Doc::parse(&message) else { continue };
            let root = doc.root();
            // A request of the server has an id too, and a method.
            let is_response = root.get("method").is_none();
            if is_response && root.get("id").and_then(Value::as_str) == Some(&id) {
                return Some(root.to_json());
            }
        }
    }
}
