//! Extension point of a server whose entries belong to other servers: what a hub is asked and told.

use std::sync::Arc;

use crate::model::ClientCapabilities;

use super::registry::ToolFn;
use super::tool_error::ToolError;

/// Result of a request for updates: each URI, with the reason where no updates will come.
pub(crate) type Watched = Box<dyn FnOnce(Vec<(String, Result<(), ToolError>)>) + Send>;

/// Owner of a server's entries. Nothing here may wait, except [`Delegate::client_came`].
pub(crate) trait Delegate: Send + Sync {
    /// The handler of a tool that is not on the list but may exist.
    fn tool(&self, name: &str) -> Option<Arc<ToolFn>>;

    /// Subscribes to updates of these resources, which clients listen to already; calls `done` on
    /// any thread when it is known which of them will be told.
    fn watch(&self, uris: Vec<String>, done: Watched);

    /// Clients listen to other resources than before.
    fn listeners_changed(&self);

    /// The log level of a session changed.
    fn level_changed(&self);

    /// A session opened, or a request came without one, and with it what the client can be asked.
    /// Called before the message is answered; with `waits` the caller may wait.
    fn client_came(&self, capabilities: ClientCapabilities, waits: bool);
}
