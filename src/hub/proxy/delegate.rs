//! Events of the exporting server: tools that are not listed yet, updates of resources, log levels,
//! and the capabilities of the first client.

use std::sync::{Arc, Mutex, Weak};

use crate::json::Value;
use crate::model::ClientCapabilities;
use crate::pool::guard;
use crate::server::{Arguments, Context, Delegate, Greeted, PromptFn, ReadFn, ToolError, ToolFn, Watched};
use crate::sync::lock;

use super::super::member::ServerState;
use super::super::names::UpstreamNames;
use super::super::spawn;
use super::{Export, listing};

/// An export as its server's delegate. Weak, because the export keeps the server's handle.
pub(super) struct Delegated(pub Weak<Export>);

impl Delegate for Delegated {
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

    fn reader(&self) -> Option<Arc<ReadFn>> {
        let export = self.0.upgrade()?;
        let key = export.only_unlisted()?;
        Some(listing::reader(&export, &key))
    }

    fn watch(&self, uris: Vec<String>, done: Watched) {
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

    fn client_arrived(&self, capabilities: ClientCapabilities, waits: bool) {
        if let Some(export) = self.0.upgrade() {
            export.all.hub.shared.handlers.client_arrived(capabilities);
            if waits {
                export.wait_for_servers();
            }
        }
    }

    fn greets(&self) -> bool {
        self.0.upgrade().is_some_and(|export| export.all.hub.shared.handlers.has_instructions())
    }

    fn greet(&self, done: Greeted) {
        match self.0.upgrade() {
            Some(export) => export.greet(done),
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
    /// Server and tool of a name that was not on the list when a call arrived. The server is
    /// connecting, being listed, or down with an error, or the name has come on the list meanwhile.
    /// The first of several such servers.
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
        let is_listed = |key: &str| listings.is_listed(key);
        let is_shown = |key: &str| state.shown.owner_of_tool(name) == Some(key);
        let unlisted = owners
            .into_iter()
            .find(|(member, tool)| (is_shown(&member.key) || !is_listed(&member.key)) && !tool.is_empty());
        unlisted.map(|(member, tool)| (member.key.clone(), tool))
    }

    /// The same for a prompt.
    fn unlisted_prompt(&self, name: &str) -> Option<(String, String)> {
        let owners = match &self.only {
            None => self.all.hub.owners(name, UpstreamNames::prompt_at_server).ok()?,
            Some(key) => vec![(self.all.hub.member(key).ok()?, name.to_owned())],
        };
        let listings = lock(&self.all.listings);
        let state = lock(&self.state);
        let is_shown = |key: &str| state.shown.owner_of_prompt(name) == Some(key);
        let mut unlisted = owners.into_iter().filter(|(member, prompt)| {
            (is_shown(&member.key) || !listings.is_listed(&member.key)) && !prompt.is_empty()
        });
        unlisted.next().map(|(member, prompt)| (member.key.clone(), prompt))
    }

    /// The server that is connecting or being listed, or will be started again, if there is only
    /// one: a URI that is not on the lists may be that server's.
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

    /// Waits for the lists where the servers waited for the first client.
    fn wait_for_servers(&self) {
        if let Some(until) = self.all.hub.shared.handlers.clients_wait_until() {
            self.all.hub.wait_settled(until);
        }
    }

    /// Reports the instructions for a client, on a thread of its own if it must wait.
    fn greet(self: &Arc<Self>, done: Greeted) {
        let done = Arc::new(Mutex::new(Some(done)));
        let (export, last) = (Arc::clone(self), Arc::clone(&done));
        let greet = move || {
            export.wait_for_servers();
            export.greet_now(&last);
        };
        let waits = self.all.hub.shared.handlers.clients_wait_until().is_some();
        if !waits || spawn("mcp-hub-greet", greet).is_err() {
            self.greet_now(&done);
        }
    }

    fn greet_now(&self, done: &Mutex<Option<Greeted>>) {
        let handlers = &self.all.hub.shared.handlers;
        // A panic of the host's function must not keep the client without a response.
        let mut servers = self.all.hub.servers();
        servers.retain(|status| self.offers(&status.server));
        let instructions = guard(|| handlers.instructions(&servers)).unwrap_or_default();
        if let Some(done) = lock(done).take() {
            done(instructions);
        }
    }
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
        let upstream = Upstream::with(|client| {
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
