//! Requests to a server in the same program: what a test of it needs of a client.
//!
//! It sends one request and waits for its answer. It opens no session and answers no question.

use std::time::{Duration, Instant};

use crate::json::{Doc, Json, Value};
use crate::limits::MAX_DURATION;
use crate::transport::MemoryEnd;

impl MemoryEnd {
    /// Sends a request and gives the message that answers it, with its `result` or `error`. What
    /// comes before that, such as notifications, is dropped. `None` when the answer does not come
    /// in time or the link closed.
    ///
    /// The id is a string, `request-1` and so on; choose others for messages of your own.
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
            let answers = root.get("method").is_none();
            if answers && root.get("id").and_then(Value::as_str) == Some(&id) {
                return Some(root.to_json());
            }
        }
    }
}
