//! Extensions in a build without the feature `extensions`: only clients declare one, for tasks.

use crate::model::Revision;

/// The members that extensions add to the capabilities of a server: always empty.
#[derive(Debug, Default)]
pub(crate) struct ServerMembers;

impl ServerMembers {
    pub(super) fn of(&self, _: Revision) -> &str {
        ""
    }
}

/// The member `extensions` of a client's capabilities, as text.
#[cfg(feature = "client")]
pub(crate) struct ClientMembers;

#[cfg(feature = "client")]
impl ClientMembers {
    /// Returns the member for most requests.
    pub(super) fn own(&self) -> &str {
        ""
    }

    /// Returns the member for requests whose caller expects a task.
    pub(super) fn with_tasks(&self) -> &str {
        r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#
    }
}
