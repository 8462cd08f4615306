//! Events of the exporting server: tools that are not listed yet, updates of resources, log levels,
//! and the capabilities of the first client.

use std::sync::{Arc, Mutex, Weak};

use crate::json::Value;
use crate::model::ClientCapabilities;
use crate::pool::guard;
use crate::server::{
    Arguments, Context, Delegate, OnInstructions, OnWatched, PromptFn, ReadFn, ToolError, ToolFn,
};
use crate::sync::lock;

use super::super::member::{Member, ServerState};
use super::super::names::UpstreamNames;
use super::super::spawn;
use super::{Export, Listings, listing};

/// Delegate of the exporting server. The reference is weak, because the export owns the handle of
/// the server.
pub(super) struct ExportDelegate(pub Weak<Export>);

impl Delegate for ExportDelegate {
    fn tool(&self, name: &str) -> Option<Arc<ToolFn>> {
        let export = self.0.upgrade().filter(|export| !export.all.hub.shared.handlers.has_lazy_tools())?;
        let (key, tool) = export.unlisted(name)?;
        let run = move |ctx: &mut Context<'_>, arguments: Value<'_>| {
            export.call_tool(ctx, (&key, &tool), arguments)
        };
        Some(Arc::new(run))
    }

    fn prompt(&self, name: &str) -> Option<Arc<PromptFn>> {
        let export = self.0.upgrade()?;
        let (key, prompt) = export.unlisted_prompt(name)?;
        let fill = move |ctx: &mut Context<'_>, arguments: &Arguments<'_>| {
            export.prompt(ctx, (&key, &prompt), arguments)
        };
        Some(Arc::new(fill))
    }

    fn reader(&self, uri: &str) -> Option<Arc<ReadFn>> {
        let export = self.0.upgrade()?;
        let key = export.owner_not_listed(uri).or_else(|| export.only_unlisted())?;
        Some(listing::reader(&export, &key))
    }

    fn watch(&self, uris: Vec<String>, done: OnWatched) {
        match self.0.upgrade() {
            Some(export) => export.all.watch(&export, uris, done),
            None => {
                done(uris.into_iter().map(|uri| (uri, Err(ToolError::new("the hub is closed")))).collect())
            }
        }
    }

    fn listeners_changed(&self) {
        if let Some(export) = self.0.upgrade() {
            export.all.subscribe();
        }
    }

    fn level_changed(&self) {
        if let Some(export) = self.0.upgrade() {
            export.all.follow_levels();
        }
    }

    fn roots_changed(&self) {
        if let Some(export) = self.0.upgrade() {
            export.all.roots_changed();
        }
    }

    fn client_arrived(&self, capabilities: ClientCapabilities, waits: bool) {
        if let Some(export) = self.0.upgrade() {
            export.all.hub.shared.handlers.client_arrived(capabilities);
            if waits {
                export.wait_for_servers();
            }
        }
    }

    fn has_instructions(&self) -> bool {
        self.0.upgrade().is_some_and(|export| export.all.hub.shared.handlers.has_instructions())
    }

    fn instructions(&self, done: OnInstructions) {
        match self.0.upgrade() {
            Some(export) => export.report_instructions(done),
            None => done(None),
        }
    }

    fn wait(&self) {
        if let Some(export) = self.0.upgrade() {
            export.wait_for_servers();
        }
    }
}

impl Export {
    /// Returns server and tool for a name that was not on the list when a call arrived: of the
    /// server that owns the name, which may be down; otherwise of the first server with this prefix
    /// that is connecting, being listed or down.
    pub(super) fn unlisted(&self, name: &str) -> Option<(String, String)> {
        let owners = match &self.only {
            None => self.all.hub.owners(name, UpstreamNames::tool_at_server).ok()?,
            Some(key) => {
                let member = self.all.hub.member(key).ok()?;
                let tool = member.upstream.names.own_tool_at_server(name)?.to_owned();
                vec![(member, tool)]
            }
        };
        let listings = lock(&self.all.listings);
        let state = lock(&self.state);
        let owner = state.shown.owner_of_tool(name);
        owners.into_iter().find_map(|owned| may_own(owned, owner, &listings))
    }

    /// Like [`Export::unlisted`], for a prompt.
    fn unlisted_prompt(&self, name: &str) -> Option<(String, String)> {
        let owners = match &self.only {
            None => self.all.hub.owners(name, UpstreamNames::prompt_at_server).ok()?,
            Some(key) => vec![(self.all.hub.member(key).ok()?, name.to_owned())],
        };
        let listings = lock(&self.all.listings);
        let state = lock(&self.state);
        let owner = state.shown.owner_of_prompt(name);
        owners.into_iter().find_map(|owned| may_own(owned, owner, &listings))
    }

    /// Returns the server that owns a URI, if it is down or being listed.
    fn owner_not_listed(&self, uri: &str) -> Option<String> {
        let listings = lock(&self.all.listings);
        let state = lock(&self.state);
        state.shown.owner(uri).filter(|key| !listings.is_listed(key)).map(str::to_owned)
    }

    /// Returns the server that is connecting or being listed, or will be started again, if there is
    /// only one. A URI that is not on the lists may belong to it.
    fn only_unlisted(&self) -> Option<String> {
        let is_lost = |state| matches!(state, ServerState::Down { again: false, .. } | ServerState::Removed);
        let mut members = self.all.hub.members();
        members.retain(|member| self.only.as_ref().is_none_or(|key| *key == member.key));
        members.retain(|member| !is_lost(member.status().state));
        let listings = lock(&self.all.listings);
        members.retain(|member| !listings.is_listed(&member.key));
        match &*members {
            [member] => Some(member.key.clone()),
            _ => None,
        }
    }

    /// Waits for the lists, if the servers have waited for the first client.
    fn wait_for_servers(&self) {
        if let Some(until) = self.all.hub.shared.handlers.clients_wait_until() {
            self.all.hub.wait_settled(until);
        }
    }

    /// Reports the instructions for a client. Uses a separate thread if it must wait.
    fn report_instructions(self: &Arc<Self>, done: OnInstructions) {
        let done = Arc::new(Mutex::new(Some(done)));
        let (export, last) = (Arc::clone(self), Arc::clone(&done));
        let report = move || {
            export.wait_for_servers();
            export.report_instructions_now(&last);
        };
        let waits = self.all.hub.shared.handlers.clients_wait_until().is_some();
        if !waits || spawn("mcp-hub-wait", report).is_err() {
            self.report_instructions_now(&done);
        }
    }

    fn report_instructions_now(&self, done: &Mutex<Option<OnInstructions>>) {
        let handlers = &self.all.hub.shared.handlers;
        // The client must receive a response even if the host's function panics.
        let mut servers = self.all.hub.servers();
        servers.retain(|status| self.offers(&status.server));
        let instructions = guard(|| handlers.instructions(&servers)).unwrap_or_default();
        if let Some(done) = lock(done).take() {
            done(instructions);
        }
    }
}

/// Returns a server and a name at it if that server owns the name or, without an owner, is not
/// listed.
fn may_own(
    (member, there): (Arc<Member>, String),
    owner: Option<&str>,
    listings: &Listings,
) -> Option<(String, String)> {
    let may = owner.map_or_else(|| !listings.is_listed(&member.key), |owner| *owner == *member.key);
    (may && !there.is_empty()).then(|| (member.key.clone(), there))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::time::{Duration, Instant};

    use crate::{Hub, Server, Tool, Upstream, memory_links};

    #[test]
    fn a_tool_that_was_listed_since_the_call_arrived_is_found() {
        is_found(Hub::builder("hub", "1").build().unwrap());
        is_found(Hub::builder("hub", "1").lazy_tools().build().unwrap());
    }

    fn is_found(hub: Hub) {
        let mut served = Server::new("hub", "1");
        hub.export(&mut served).unwrap();
        let upstream = Upstream::from_fn(|client| {
            let (ours, theirs) = memory_links();
            let mut server = Server::new("one", "1");
            server.tool(Tool::new("echo"), |_, (): ()| Ok("x"))?;
            std::thread::spawn(move || server.serve(theirs));
            client.over(ours)
        });
        hub.add("one", upstream).unwrap();
        hub.wait_settled(Instant::now() + Duration::from_secs(20));
        let exports = hub.shared.handlers.exports().unwrap();
        let [export] = &*exports.exports() else { panic!("one export") };
        assert_eq!(export.unlisted("one__echo"), Some(("one".to_owned(), "echo".to_owned())));
        assert_eq!(export.unlisted("one__other"), None);
        hub.close();
    }
}
