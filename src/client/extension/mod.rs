//! Extensions of a client: declared ids with settings, and handlers of notifications.
//!
//! Without the feature `extensions`, `without.rs` takes the place of this module.

use crate::era::apps;
use crate::era::extension::{self, ClientMembers};
use crate::error::{Error, ErrorKind};
use crate::json::{Json, Value};
use crate::model::catalog::Tool;

/// Declared extensions and registered handlers.
#[derive(Default)]
pub(super) struct Extensions {
    /// Settings by id.
    pub declared: Vec<(String, Json)>,
    /// Handlers of notifications, by method.
    pub handlers: Vec<(String, OnNotification)>,
}

type OnNotification = Box<dyn Fn(&Json) + Send + Sync>;

impl Extensions {
    /// Checks the declarations.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: an id is not `vendor/name`, or settings are not an object.
    pub(super) fn check(&self) -> Result<(), Error> {
        for (id, settings) in &self.declared {
            extension::check(id, settings).map_err(|why| Error::new(ErrorKind::Invalid, why))?;
        }
        Ok(())
    }

    /// Returns the members of the client's capabilities that declare the extensions.
    pub(super) fn members(&self) -> ClientMembers {
        ClientMembers::new(&self.declared)
    }

    /// Copies a notification for delivery if it has a handler.
    pub(super) fn receive(&self, method: &str, params: Option<Value<'_>>) -> Option<Received> {
        self.handlers.iter().any(|(name, _)| name == method).then(|| Received {
            method: method.to_owned(),
            params: params.map_or_else(|| Json::constant("{}"), Value::to_json),
        })
    }

    /// Calls the handlers of a notification.
    pub(super) fn deliver(&self, received: &Received) {
        let handlers = self.handlers.iter().filter(|(name, _)| *name == received.method);
        handlers.for_each(|(_, handler)| handler(&received.params));
    }
}

/// A notification that waits for its handlers.
pub(super) struct Received {
    method: String,
    params: Json,
}

impl Received {
    /// Returns the size of the notification in bytes.
    pub(super) fn size(&self) -> usize {
        self.method.len() + self.params.as_str().len()
    }
}

/// The page and the visibility of a tool (SEP-1865), for hosts.
impl Tool {
    /// Returns the URI of the page to show with a result of this tool: a resource of the same
    /// server. Show the page in a sandbox of another origin; the specification lists the duties of
    /// a host.
    pub fn app_page(&self) -> Option<String> {
        let meta = self.meta.as_ref()?.to_doc();
        apps::page_of(meta.root()).map(str::to_owned)
    }

    /// Returns whether the tool may be offered to the model. A host must not offer any other tool
    /// to it.
    pub fn is_for_model(&self) -> bool {
        self.is_for("model")
    }

    /// Returns whether pages may call the tool. A host must reject their calls of any other tool.
    pub fn is_for_app(&self) -> bool {
        self.is_for("app")
    }

    fn is_for(&self, side: &str) -> bool {
        self.meta.as_ref().is_none_or(|meta| apps::is_for(meta.to_doc().root(), side))
    }
}
