//! Several servers behind one service.
//!
//! Each server has its path, and shares the table of sessions, the budgets and the threads with the
//! others. The fields of [`Endpoint`] are those of the server that handled the last request. A
//! request for another path exchanges them first.

use std::sync::Arc;

use crate::era::http::SessionRules;
use crate::server::Server;
use crate::server::call::InlineFn;
use crate::server::connection::Connection;
use crate::server::http::bind;
use crate::server::http::mounts::{self, PerSession};
use crate::server::http::request_checks::is_at;
use crate::server::http::session_servers::SessionServer;
use crate::server::serve::state::Core;
use crate::server::serve::{self, Parts};

use super::Endpoint;

/// A server that did not handle the last request.
pub(super) struct MountedServer {
    path: String,
    core: Arc<Core>,
    pub(super) shared: Arc<Connection>,
    per_session: Option<PerSession>,
    inline: Vec<Box<InlineFn>>,
}

pub(super) fn sessions_of(core: &Core) -> Option<&'static SessionRules> {
    core.eras.legacy.and_then(|era| era.http().sessions())
}

impl Endpoint {
    /// Makes the changes that the program requested.
    pub(super) fn change_mounts(&mut self) {
        for change in self.options.mounts.table.changes() {
            change(self);
        }
    }

    #[cold]
    pub(in crate::server::http) fn mount(
        &mut self,
        path: String,
        server: Server,
        per_session: Option<PerSession>,
    ) {
        let Parts { core, inline, .. } = mounts::assemble_beside(&self.core, server);
        self.checks.mounted.push(path.clone());
        let shared = bind::shared_connection(&core);
        let inline = serve::all_inline(inline, Vec::new());
        self.others.push(MountedServer { path, core, shared, per_session, inline });
    }

    #[cold]
    pub(in crate::server::http) fn unmount(&mut self, path: &str) {
        let first = Arc::clone(&self.options);
        self.select(&first.path);
        self.checks.mounted.retain(|mounted| mounted != path);
        let Some(at) = self.others.iter().position(|other| other.path == path) else { return };
        let removed = self.others.swap_remove(at);
        self.sessions.end_where(|session| Arc::ptr_eq(&session.endpoint, &removed.shared));
        removed.shared.fail_all_calls("The server was removed");
        removed.shared.end_listens();
    }

    #[cold]
    pub(in crate::server::http) fn end_streams(&mut self, principal: &str) {
        // A listen request whose body has not arrived yet has its token checked again.
        self.checks.forget_token();
        for session in self.sessions.iter().filter(|s| s.principal.as_deref() == Some(principal)) {
            session.streams.end_general();
        }
        for shared in self.others.iter().map(|other| &other.shared).chain([&self.shared]) {
            shared.end_listens_of(principal);
        }
    }

    #[cold]
    pub(in crate::server::http) fn end_sessions(&mut self, principal: &str) {
        self.end_streams(principal);
        self.sessions.end_where(|session| session.principal.as_deref() == Some(principal));
    }

    /// Selects the server at a path. Returns `false` if the path has no server.
    pub(super) fn select(&mut self, path: &str) -> bool {
        path == self.path || self.swap_server(path)
    }

    #[cold]
    #[inline(never)]
    fn swap_server(&mut self, path: &str) -> bool {
        let exact = self.others.iter().position(|other| other.path == path);
        if exact.is_none() && is_at(&self.path, path) {
            return true;
        }
        let at = exact.or_else(|| self.others.iter().position(|other| is_at(&other.path, path)));
        let Some(other) = at.and_then(|at| self.others.get_mut(at)) else { return false };
        std::mem::swap(&mut self.path, &mut other.path);
        std::mem::swap(&mut self.core, &mut other.core);
        std::mem::swap(&mut self.shared, &mut other.shared);
        std::mem::swap(&mut self.per_session, &mut other.per_session);
        std::mem::swap(&mut self.dispatcher.inline, &mut other.inline);
        self.checks.sessions = sessions_of(&self.core);
        self.dispatcher.as_dyn().set_connection(&self.shared, None);
        true
    }

    /// Returns whether a new session can have its own server, if it needs one.
    pub(super) fn has_room_for_own(&self) -> bool {
        let max = self.core.limits.http.sessions;
        self.per_session.as_ref().is_none_or(|own| own.servers.has_room(max))
    }

    /// Returns the server of a new session. `None` if there is no room for another server.
    pub(super) fn session_core(&self) -> Option<(Arc<Core>, Option<SessionServer>)> {
        match &self.per_session {
            None => Some((Arc::clone(&self.core), None)),
            Some(own) => {
                let (core, server) = Arc::clone(&own.servers).open(&*own.make, &self.core)?;
                Some((core, Some(server)))
            }
        }
    }
}
