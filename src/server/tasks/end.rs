//! Ends of tasks: results, cancellation, deadlines, shutdown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::task::error_text;
use crate::limits::MAX_DURATION;
use crate::model::Fault;
use crate::server::tool_error::ToolError;

use super::record;
use super::run::TaskJob;
use super::table::Tasks;
use super::task::{OVERHEAD, Outcome, State, Task, now, report};

impl Tasks {
    /// Ends a task that cannot run, with an error.
    pub(super) fn fail(&self, id: &str, why: &'static str) {
        let Some(form) = self.form(id) else { return };
        self.finish(id, Outcome::Failed(error_text(form, &Fault::Internal(why))));
    }

    /// Cancels a task. Returns `false` if it is over.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let call = {
            let mut table = self.table();
            table.find(id).and_then(Task::active).map(|active| Arc::clone(&active.call))
        };
        let mine = call.is_some_and(|call| call.cancel());
        if mine {
            self.finish_claimed(id, Outcome::Cancelled);
        }
        mine
    }

    /// Ends a task with this outcome, unless another party has ended it.
    pub(super) fn finish(&self, id: &str, outcome: Outcome) {
        let claimed = {
            let mut table = self.table();
            table.find(id).and_then(Task::active).is_some_and(|active| active.call.settle())
        };
        if claimed {
            self.finish_claimed(id, outcome);
        }
    }

    /// Ends a task whose end the caller has claimed: stores the outcome, then publishes it.
    fn finish_claimed(&self, id: &str, mut outcome: Outcome) {
        let limits = self.limits();
        let (now, ttl) = {
            let mut table = self.table();
            let bytes = table.bytes;
            let Some(task) = table.find(id) else { return };
            if bytes - task.weight + OVERHEAD + outcome.weight() > limits.tasks.bytes {
                let why = Fault::Internal("The result does not fit into the memory for tasks");
                outcome = Outcome::Failed(error_text(task.form, &why));
            }
            let now = now();
            // Clients count the lifetime from the creation, so it is extended: the result is kept
            // for a full lifetime from now on.
            (now, task.ttl.saturating_add(now.saturating_sub(task.created)))
        };
        // If the store fails, clients get the outcome as long as the process runs.
        if let Err(error) = self.store.finish(id, &record::finished(&outcome, now, ttl)) {
            report(id, "its outcome is not stored", &error);
        }
        let waiters = {
            let mut table = self.table();
            let Some(task) = table.find(id) else { return };
            let expires = Some(Instant::now() + Duration::from_millis(task.ttl).min(MAX_DURATION));
            task.expires = expires;
            task.ttl = ttl;
            task.message = outcome.message();
            task.state = State::Over(outcome);
            let waiters = std::mem::take(&mut task.waiters);
            table.set_expiry(expires);
            table.update_weight(id);
            self.changed(&mut table, id, now);
            waiters
        };
        for waiter in waiters {
            self.send_result(id, waiter);
        }
    }

    /// Fails overdue tasks. Returns whether a deadline may remain.
    pub(crate) fn check(&self, now: Instant) -> bool {
        let late: Vec<(Arc<str>, &'static str)> = {
            let mut table = self.table();
            if table.due.is_none_or(|due| due > now) {
                return table.due.is_some();
            }
            let (mut late, mut due) = (Vec::new(), None::<Instant>);
            for task in table.tasks.values() {
                let State::Active(active) = &task.state else { continue };
                match active.deadline {
                    Some(deadline) if deadline <= now => {
                        let why = if active.requests.is_empty() { TOO_LONG } else { NO_RESPONSE };
                        late.push((Arc::clone(&task.id), why));
                    }
                    Some(deadline) => due = Some(due.map_or(deadline, |due| due.min(deadline))),
                    None => {}
                }
            }
            table.due = due;
            late
        };
        for (id, why) in late {
            let active = |task: &mut Task| {
                let form = task.form;
                task.active().map(|active| (form, Arc::clone(&active.call)))
            };
            let call = self.table().find(&id).and_then(active);
            if let Some((form, call)) = call {
                if call.cancel() {
                    self.finish_claimed(&id, Outcome::Failed(error_text(form, &Fault::Internal(why))));
                }
            }
        }
        self.table().due.is_some()
    }

    /// Accepts no further tasks. Tasks in a durable store may finish within the grace period;
    /// others are cancelled. Requests that wait for a result get an error.
    pub(crate) fn close(&self) {
        let Some(running) = self.running.get() else { return };
        running.pool.close();
        drop(running.pool.withdraw(&mut |_: &TaskJob| true));
        let (mut active, mut waiters) = (Vec::new(), Vec::new());
        for task in self.table().tasks.values_mut().filter(|task| task.expires.is_none()) {
            active.push(Arc::clone(&task.id));
            waiters.append(&mut task.waiters);
        }
        for waiter in waiters {
            waiter.finish(Err(ToolError::fault(Fault::Internal("The server is shutting down"))));
        }
        if !self.store.is_durable() {
            active.iter().for_each(|id| _ = self.cancel(id));
        }
    }

    /// Returns whether no task runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.get().is_none_or(|running| running.pool.wait_idle(Instant::now()))
    }

    /// Flags the tasks that still run as cancelled. They remain in the store without an outcome.
    pub(crate) fn interrupt(&self) {
        let calls: Vec<_> = {
            let mut table = self.table();
            table.tasks.values_mut().filter_map(Task::active).map(|active| Arc::clone(&active.call)).collect()
        };
        for call in calls {
            call.cancel();
        }
    }
}

/// The error of a task whose handler has not returned in time.
const TOO_LONG: &str = "The task did not finish before its deadline";
/// The error of a task whose client has not responded in time.
const NO_RESPONSE: &str = "The client did not respond in time";
