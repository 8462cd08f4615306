//! Notifications to the client of one connection: changes, log entries and subscriptions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

#[cfg(feature = "tasks")]
use crate::era::task::TaskView;
use crate::era::{Reply, ReplyTarget, ServerEra, ServerNotification};
use crate::json::{Json, Writer};
use crate::model::{Change, Fault, Filter, Level, Revision};
use crate::rpc::Id;
use crate::server::tool_error::ToolError;
use crate::sync::lock;
use crate::transport::ReplySink;

use super::{Connection, Listen};

impl Connection {
    /// Sends the notification of a change to the session and the subscriptions that requested it.
    /// Never waits for the client: while the client does not read, each change is stored once and
    /// sent later.
    pub(crate) fn notify(&self, change: &Change) {
        if self.congested() {
            let mut missed = lock(&self.missed);
            // Bounded by the number of possible subscriptions; changes beyond it are dropped.
            let max = self.core.limits.subscriptions + self.core.limits.listens * 4;
            if !missed.contains(change) && missed.len() < max {
                missed.push(change.clone());
            }
            drop(missed);
            return self.core.watchdog.arm();
        }
        self.notify_now(change);
    }

    /// Returns whether the client does not read fast enough.
    pub(crate) fn congested(&self) -> bool {
        self.sink.congested() || self.outbox.busy()
    }

    #[cold]
    #[inline(never)]
    fn notify_now(&self, change: &Change) {
        {
            let mut w = Writer::new();
            let session = lock(&self.session);
            if let Some(session) = session.as_ref().filter(|s| s.ready) {
                let wanted = match change {
                    Change::ResourceUpdated(uri) => session.subscriptions.iter().any(|s| s == uri),
                    Change::Tools | Change::Prompts | Change::Resources => true,
                };
                if let Some(era) = self.core.eras.legacy.filter(|_| wanted) {
                    era.notify(
                        &mut w,
                        session.peer.revision,
                        ServerNotification::Change { change, listen: None },
                    );
                    w.newline();
                    self.outbox.send(&self.sink, w.into_bytes());
                }
            }
        }
        for listen in lock(&self.listens).iter().filter(|l| l.open && l.filter.wants(change)) {
            let mut w = Writer::new();
            let notification = ServerNotification::Change { change, listen: Some(&listen.raw) };
            listen.era.notify(&mut w, listen.revision, notification);
            w.newline();
            self.outbox.send(&listen.sink, w.into_bytes());
        }
    }

    /// Sends a log entry to the session, if one is open and requested it. The entry is dropped
    /// while the client does not read.
    pub(crate) fn log(&self, level: Level, logger: Option<&str>, data: &Json) {
        if self.congested() {
            return;
        }
        let session = lock(&self.session);
        let Some(session) = session.as_ref().filter(|s| s.ready) else { return };
        let wanted = session.peer.log_level.is_some_and(|floor| level >= floor);
        if let Some(era) = self.core.eras.legacy.filter(|_| wanted) {
            let mut w = Writer::new();
            era.notify(&mut w, session.peer.revision, ServerNotification::Log { level, logger, data });
            w.newline();
            self.outbox.send(&self.sink, w.into_bytes());
        }
    }

    /// Sends a notification to the session, if one is open. The notification is dropped while the
    /// client does not read.
    #[cfg(feature = "extensions")]
    pub(crate) fn send_to_session(&self, notification: &[u8]) {
        if !self.congested() && self.session().as_ref().is_some_and(|session| session.ready) {
            self.outbox.send(&self.sink, notification.to_vec());
        }
    }

    /// Opens a subscription: sends the acknowledgment first, then notifications. Without `now`,
    /// [`Connection::acknowledge`] sends the acknowledgment later.
    #[allow(clippy::too_many_arguments)] // OK because they are what a subscription consists of.
    pub(crate) fn listen(
        &self,
        id: Id,
        raw: &str,
        filter: Filter,
        era: &'static dyn ServerEra,
        revision: Revision,
        sink: &Arc<dyn ReplySink>,
        now: bool,
    ) -> Result<(), Fault> {
        let mut listens = lock(&self.listens);
        // For a shared connection the number of event streams is bounded instead.
        if !self.shared && listens.len() >= self.core.limits.listens {
            return Err(Fault::Internal("Too many listen requests are open"));
        }
        let sink = Arc::clone(sink);
        let listen = Listen {
            open: now,
            id,
            raw: raw.to_owned(),
            filter,
            era,
            revision,
            sink,
            #[cfg(feature = "tasks")]
            late: Vec::new(),
        };
        if now {
            // Sent under the lock, because no notification may precede the acknowledgment.
            self.send_acknowledgment(&listen);
        }
        if listen.sink.closed() {
            return Ok(());
        }
        self.listening.store(true, Ordering::Relaxed);
        listens.push(listen);
        Ok(())
    }

    /// Sends the state of a task to its subscribers. While the client does not read, only the last
    /// state is sent, later.
    #[cfg(feature = "tasks")]
    pub(crate) fn task_changed(&self, task: &TaskView) {
        let congested = self.congested();
        let follows = |l: &&mut Listen| l.open && l.filter.tasks.contains(&task.id);
        for listen in lock(&self.listens).iter_mut().filter(follows) {
            if congested {
                if !listen.late.contains(&task.id) {
                    listen.late.push(task.id.clone());
                }
                self.core.watchdog.arm();
                continue;
            }
            let mut w = Writer::new();
            task.notification(&mut w, Some(&listen.raw));
            self.outbox.send(&listen.sink, w.into_bytes());
        }
    }

    /// Sends the states that waited until the client reads. Returns whether there are others.
    #[cfg(feature = "tasks")]
    pub(super) fn send_late_states(&self) -> bool {
        let Some(tasks) = self.core.shared.tasks.get() else { return false };
        if !self.congested() {
            let late: std::collections::BTreeSet<String> =
                lock(&self.listens).iter_mut().flat_map(|listen| std::mem::take(&mut listen.late)).collect();
            for id in &late {
                tasks.repeat(id, self);
            }
        }
        lock(&self.listens).iter().any(|listen| !listen.late.is_empty())
    }

    fn send_acknowledgment(&self, listen: &Listen) {
        let mut w = Writer::new();
        let notification = ServerNotification::Acknowledged { filter: &listen.filter, listen: &listen.raw };
        listen.era.notify(&mut w, listen.revision, notification);
        w.newline();
        self.outbox.send(&listen.sink, w.into_bytes());
    }

    /// Acknowledges a subscription for those resources whose updates are available.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn acknowledge(
        &self,
        id: &Id,
        sink: &Arc<dyn ReplySink>,
        watched: &[(String, Result<(), ToolError>)],
    ) {
        let mut listens = lock(&self.listens);
        // Clients without sessions may use equal ids.
        let mine = |listen: &&mut Listen| listen.id == *id && Arc::ptr_eq(&listen.sink, sink);
        let Some(listen) = listens.iter_mut().find(mine) else { return };
        let made = |uri: &String| watched.iter().any(|(other, result)| other == uri && result.is_ok());
        listen.filter.uris.retain(made);
        listen.open = true;
        self.send_acknowledgment(listen);
    }

    /// Ends a session's subscription to a resource.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        if let Some(session) = self.session().as_mut() {
            session.subscriptions.retain(|subscribed| subscribed != uri);
        }
    }

    /// Ends every subscription.
    pub(crate) fn end_listens(&self) {
        let listens = std::mem::take(&mut *lock(&self.listens));
        self.end_all(listens);
    }

    /// Ends the subscriptions of this principal.
    #[cfg(feature = "http-server")]
    pub(crate) fn end_listens_of(&self, principal: &str) {
        let mut listens = lock(&self.listens);
        let all = std::mem::take(&mut *listens);
        let (ended, kept) = all.into_iter().partition(|listen| listen.sink.principal() == Some(principal));
        *listens = kept;
        drop(listens);
        self.end_all(ended);
    }

    fn end_all(&self, listens: Vec<Listen>) {
        for listen in listens {
            let mut w = Writer::new();
            // The sources disagree on how a server ends a subscription, so both are sent
            // (requirements, AMB-01).
            listen.era.notify(
                &mut w,
                listen.revision,
                ServerNotification::ListenCancelled { listen: &listen.raw },
            );
            w.newline();
            self.outbox.send(&listen.sink, w.into_bytes());
            let mut w = Writer::new();
            let to = ReplyTarget { id: &listen.raw, revision: listen.revision, server: &self.core.info };
            let encoded = listen.era.reply(&mut w, &to, Reply::ListenEnded);
            w.newline();
            self.outbox.respond(&listen.sink, w.into_bytes(), encoded);
        }
    }
}
