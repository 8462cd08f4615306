//! Several servers behind one service.
//!
//! Each server has its path, and shares the table of sessions, the budgets and the threads with the
//! others. The fields of [`Endpoint`] are those of the server that handled the last request. A
//! request for another path exchanges them first.

use std::sync::Arc;

use crate::era::http::Sessions;
use crate::pool::guard;
use crate::server::connection::Connection;
use crate::server::http::bind;
use crate::server::http::mounts::{self, MountChange};
use crate::server::http::session_servers::{MakeServer, SessionServer};
use crate::server::serve::Parts;
use crate::server::serve::state::Core;
use crate::server::{InlineSend, Server};

use super::Endpoint;

/// A server that did not handle the last request.
pub(super) struct OtherServer {
    path: String,
    core: Arc<Core>,
    pub(super) shared: Arc<Connection>,
    per_session: Option<Arc<MakeServer>>,
    inline: Vec<Box<InlineSend>>,
}

pub(super) fn sessions_of(core: &Core) -> Option<&'static Sessions> {
    core.eras.legacy.and_then(|era| era.http().sessions())
}

impl Endpoint {
    /// Makes the changes that the program requested.
    pub(super) fn change_mounts(&mut self) {
        for change in self.options.mounts.table.changes() {
            match change {
                MountChange::Add(path, server, make) => self.mount(path, *server, make),
                MountChange::Remove(path) => self.unmount(&path),
                MountChange::EndStreams(principal) => self.end_streams(&principal),
            }
        }
    }

    #[cold]
    fn mount(&mut self, path: String, server: Server, per_session: Option<Arc<MakeServer>>) {
        let Parts { core, inline, .. } = mounts::assemble_beside(&self.core, server);
        self.checks.mounted.push(path.clone());
        let shared = bind::shared_connection(&core);
        self.others.push(OtherServer { path, core, shared, per_session, inline });
    }

    #[cold]
    fn unmount(&mut self, path: &str) {
        let first = Arc::clone(&self.options);
        self.select(&first.path);
        self.checks.mounted.retain(|mounted| mounted != path);
        let Some(at) = self.others.iter().position(|other| other.path == path) else { return };
        let removed = self.others.swap_remove(at);
        self.sessions.end_all(&removed.shared);
        removed.shared.give_all_up("The server was removed");
        removed.shared.end_listens();
    }

    #[cold]
    fn end_streams(&mut self, principal: &str) {
        // A listen request whose body has not arrived is checked again.
        self.checks.forget_token();
        for session in self.sessions.iter().filter(|s| s.principal.as_deref() == Some(principal)) {
            session.streams.end_general();
        }
        for shared in self.others.iter().map(|other| &other.shared).chain([&self.shared]) {
            shared.end_listens_of(principal);
        }
    }

    /// Turns to the server at a path. Returns `false` if there is none.
    pub(super) fn select(&mut self, path: &str) -> bool {
        path == self.path || self.exchange(path)
    }

    #[cold]
    #[inline(never)]
    fn exchange(&mut self, path: &str) -> bool {
        let Some(other) = self.others.iter_mut().find(|other| other.path == path) else { return false };
        std::mem::swap(&mut self.path, &mut other.path);
        std::mem::swap(&mut self.core, &mut other.core);
        std::mem::swap(&mut self.shared, &mut other.shared);
        std::mem::swap(&mut self.per_session, &mut other.per_session);
        std::mem::swap(&mut self.dispatcher.inline, &mut other.inline);
        self.checks.sessions = sessions_of(&self.core);
        self.dispatcher.as_dyn().set_connection(&self.shared, None);
        true
    }

    /// Returns whether a new session can have a server of its own, if it needs one.
    pub(super) fn has_room_for_own(&self) -> bool {
        let most = self.core.limits.http.sessions;
        self.per_session.is_none() || self.options.session_servers.has_room(most)
    }

    /// The server of a new session. `None` if there is no room for another one.
    pub(super) fn session_core(&self) -> Option<(Arc<Core>, Option<SessionServer>)> {
        match &self.per_session {
            None => Some((Arc::clone(&self.core), None)),
            Some(make) => self.own_core(&**make),
        }
    }

    #[cold]
    fn own_core(&self, make: &MakeServer) -> Option<(Arc<Core>, Option<SessionServer>)> {
        // Inline tools belong to an endpoint. A panic is an error of the program.
        let made = guard(make).ok()?.ok().filter(|server| server.inline.is_empty());
        let mut server = made?;
        let own = self.options.session_servers.add(&mut server, self.core.limits.http.sessions)?;
        Some((mounts::assemble_beside(&self.core, server).core, Some(own)))
    }
}
