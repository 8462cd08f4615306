//! Visibility: the entries that a caller sees in lists and may use.
//!
//! A hidden entry counts as absent wherever a request names or lists entries: the response is the
//! same as for an unknown entry, byte for byte.

use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::pool::guard;
use crate::transport::ReplySink;

use crate::server::Server;
use crate::server::call::{CallResult, Output};
use crate::server::registry::Describe;
use crate::server::serve::state::Core;

/// The sender of a request, for [`Server::visible`]. Its methods are those of
/// [`Context`](crate::Context).
///
/// See [`Server::visible`] for an example.
#[derive(Clone, Copy)]
pub struct Caller<'c> {
    pub(super) sink: &'c dyn ReplySink,
}

impl<'c> Caller<'c> {
    /// Returns the authenticated principal. `None` without authentication, as on stdio.
    pub fn principal(&self) -> Option<&'c str> {
        self.sink.principal()
    }
}

/// An entry of a server, for [`Server::visible`].
///
/// See [`Server::visible`] for an example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CatalogEntry<'e> {
    /// A tool.
    Tool(&'e Tool),
    /// A resource. In a served hub, the URI may be one that only another server lists. Its name is
    /// then the URI, and it has no other members.
    Resource(&'e Resource),
    /// A resource template.
    Template(&'e Template),
    /// A prompt.
    Prompt(&'e Prompt),
}

impl<'e> CatalogEntry<'e> {
    /// Returns the name of a tool or prompt, the URI of a resource, the URI template of a template.
    pub fn name(&self) -> &'e str {
        match self {
            CatalogEntry::Tool(tool) => &tool.name,
            CatalogEntry::Resource(resource) => &resource.uri,
            CatalogEntry::Template(template) => template.uri.as_str(),
            CatalogEntry::Prompt(prompt) => &prompt.name,
        }
    }
}

/// Function of the program that decides whether a caller sees an entry.
pub(crate) type Visible = dyn Fn(&Caller<'_>, &CatalogEntry<'_>) -> bool + Send + Sync;

impl Server {
    /// Sets the function that decides which entries a caller sees. An entry that is hidden from a
    /// caller is left out of the caller's lists, and a request that names it gets the response for
    /// an unknown entry: calls, reads, completions, subscriptions, suggestions of similar names.
    ///
    /// The function is called for each entry of a list and for each entry that a request names, on
    /// the thread that reads requests, so it must not block. If it panics, the entry is hidden.
    ///
    /// Cache hints of lists and of contents become private, regardless of [`Server::list_cache`]
    /// and [`Server::read_cache`]. If the result of the function changes while the server runs,
    /// notify the clients with [`Changes`](crate::Changes): a subscription to a resource is only
    /// checked when it begins. Notifications that a list changed are sent to every client. Methods
    /// of extensions, such as the list of skills, are not filtered.
    ///
    /// ```
    /// use tinymcp::{CatalogEntry, Server, Tool};
    ///
    /// let mut server = Server::new("board", "1.0.0");
    /// server.tool(Tool::new("status"), |_, ()| Ok("on"))?;
    /// server.tool(Tool::new("admin_reset"), |_, ()| Ok("the board restarts"))?;
    /// server.visible(|caller, entry| match entry {
    ///     CatalogEntry::Tool(tool) if tool.name.starts_with("admin_") => {
    ///         caller.principal() == Some("admin")
    ///     }
    ///     _ => true,
    /// });
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn visible(
        &mut self,
        visible: impl Fn(&Caller<'_>, &CatalogEntry<'_>) -> bool + Send + Sync + 'static,
    ) -> &mut Server {
        self.callers.visible = Some(Box::new(visible));
        self
    }
}

/// Makes the cache hints private if entries depend on the caller.
pub(in crate::server) fn make_caches_private(server: &mut Server) {
    if server.callers.visible.is_some() {
        server.list_cache.public = false;
        server.read_cache.public = false;
    }
}

/// Makes a result private if entries depend on the caller.
pub(in crate::server) fn make_result_private(core: &Core, result: &mut CallResult) {
    if let (CallResult::Done(Output::Raw(result)), Some(_)) = (result, &core.callers.visible) {
        result.make_private();
    }
}

/// The entries that a caller sees.
#[derive(Clone, Copy)]
pub(crate) struct View<'v> {
    filter: Option<(&'v Visible, &'v dyn ReplySink)>,
}

impl<'v> View<'v> {
    /// Every entry.
    pub(crate) const ALL: View<'static> = View { filter: None };

    /// Returns the entries that the sender of a request sees.
    pub(crate) fn of(core: &'v Core, sink: &'v dyn ReplySink) -> View<'v> {
        View { filter: core.callers.visible.as_deref().map(|visible| (visible, sink)) }
    }

    /// Returns whether entries may be hidden.
    pub(crate) fn is_partial(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns whether the caller sees an entry.
    #[inline]
    pub(crate) fn shows(&self, entry: &impl Describe) -> bool {
        self.shows_entry(|| entry.as_entry())
    }

    /// Returns whether the caller sees a resource that only another server lists.
    pub(crate) fn shows_uri(&self, uri: &str) -> bool {
        if self.is_partial() {
            let resource = Resource::new(uri, uri);
            return self.shows_entry(|| CatalogEntry::Resource(&resource));
        }
        true
    }

    fn shows_entry<'e>(&self, entry: impl FnOnce() -> CatalogEntry<'e>) -> bool {
        let Some((visible, sink)) = self.filter else { return true };
        // OK to hide: a panic must not end the thread that reads requests.
        guard(|| visible(&Caller { sink }, &entry())).unwrap_or(false)
    }
}
