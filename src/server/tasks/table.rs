//! Table of a server's tasks.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::era::task::{TaskForm, TaskView, error_of};
use crate::error::Error;
use crate::json::{Doc, Writer};
use crate::limits::Limits;
use crate::model::client_request::KeyedRequest;
use crate::model::{Fault, Query};
use crate::pool::{Pool, PoolSize};
use crate::server::call::deferred::Deferred;
use crate::server::call::request_state::Responses;
use crate::server::connection::Connection;
use crate::server::serve::state::{Core, Shared};
use crate::server::tool_error::ToolError;
use crate::sync::lock;

use super::record;
use super::run::TaskJob;
use super::store::{StoredTask, TaskStore};
use super::task::{Active, OVERHEAD, Outcome, State, Task, now, report};

/// Idle time after which a thread for tasks ends.
const IDLE: Duration = Duration::from_secs(10);
/// Minimum number of milliseconds between notifications of progress. The state always has the
/// latest progress.
const PROGRESS_PAUSE: u64 = 100;

/// The tasks of a server.
pub(crate) struct Tasks {
    pub(super) store: Box<dyn TaskStore>,
    shared: Weak<Shared>,
    /// Set when serving starts.
    limits: OnceLock<Limits>,
    pub(super) running: OnceLock<Running>,
    /// Stored tasks, until serving starts.
    stored: Mutex<Vec<StoredTask>>,
    table: Mutex<Table>,
    /// Set if clients of sessions may list their tasks.
    lists: AtomicBool,
}

/// State that exists since serving started.
pub(super) struct Running {
    core: Weak<Core>,
    pub(super) pool: Pool<TaskJob>,
}

#[derive(Default)]
pub(super) struct Table {
    /// The tasks in the order of their creation.
    pub(super) tasks: BTreeMap<u64, Task>,
    places: HashMap<Arc<str>, u64>,
    next: u64,
    /// Sum of the weights of the tasks, in bytes.
    pub(super) bytes: usize,
    /// No task is overdue before this time.
    pub(super) due: Option<Instant>,
    /// No lifetime ends before this time.
    expiry: Option<Instant>,
}

impl Table {
    pub(super) fn find(&mut self, id: &str) -> Option<&mut Task> {
        let place = self.places.get(id)?;
        self.tasks.get_mut(place)
    }

    /// Updates the weight of a task after a change.
    pub(super) fn update_weight(&mut self, id: &str) {
        let Some(task) = self.find(id) else { return };
        let (before, now) = (task.weight, task.measure());
        task.weight = now;
        self.bytes = self.bytes - before + now;
    }

    /// Sets the deadline of a task that is not over. A zero `time` means no deadline.
    fn set_deadline(&mut self, id: &str, time: Duration) {
        let deadline = (!time.is_zero()).then(|| Instant::now() + time);
        if let Some(active) = self.find(id).and_then(Task::active) {
            active.deadline = deadline;
        }
        if let Some(deadline) = deadline {
            self.due = Some(self.due.map_or(deadline, |due| due.min(deadline)));
        }
    }

    /// Records the end of a lifetime.
    pub(super) fn set_expiry(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            self.expiry = Some(self.expiry.map_or(at, |expiry| expiry.min(at)));
        }
    }

    /// Removes tasks whose lifetime has ended. Returns their ids.
    fn take_expired(&mut self, now: Instant) -> Vec<Arc<str>> {
        if self.expiry.is_none_or(|expiry| expiry > now) {
            return Vec::new();
        }
        let is_expired = |task: &Task| task.expires.is_some_and(|expires| expires <= now);
        let expired: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| is_expired(task)).map(|(place, _)| *place).collect();
        let taken = expired.into_iter().filter_map(|place| self.tasks.remove(&place));
        let ids: Vec<_> = taken.map(|task| (task.weight, task.id)).collect();
        for (weight, id) in &ids {
            self.places.remove(id);
            self.bytes -= weight;
        }
        self.expiry = self.tasks.values().filter_map(|task| task.expires).min();
        ids.into_iter().map(|(_, id)| id).collect()
    }
}

impl Tasks {
    /// # Errors
    /// The stored tasks cannot be read.
    pub(super) fn new(store: Box<dyn TaskStore>, shared: &Arc<Shared>) -> Result<Arc<Tasks>, Error> {
        let stored = store.load()?;
        Ok(Arc::new(Tasks {
            store,
            shared: Arc::downgrade(shared),
            limits: OnceLock::new(),
            running: OnceLock::new(),
            stored: Mutex::new(stored),
            table: Mutex::default(),
            lists: AtomicBool::new(false),
        }))
    }

    /// Prepares the threads, and continues or ends the stored tasks.
    pub(crate) fn start(self: &Arc<Self>, core: &Arc<Core>) {
        let limits = self.limits.get_or_init(|| core.limits.clone());
        let size = PoolSize {
            workers: limits.tasks.workers,
            // Every task fits into one half. The other half is for cancelled tasks, see `submit`.
            queue: limits.tasks.entries.saturating_mul(2),
            stack: limits.worker_stack,
            idle: IDLE,
        };
        let pool = Pool::new(size, TaskJob::run);
        self.running.get_or_init(|| Running { core: Arc::downgrade(core), pool });
        let stored = std::mem::take(&mut *lock(&self.stored));
        self.restore(core, &stored);
    }

    /// Lets clients of sessions list their tasks.
    pub(crate) fn allow_lists(&self) {
        self.lists.store(true, Ordering::Relaxed);
    }

    pub(crate) fn lists(&self) -> bool {
        self.lists.load(Ordering::Relaxed)
    }

    pub(super) fn store(&self) -> &dyn TaskStore {
        &*self.store
    }

    pub(super) fn core(&self) -> Option<Arc<Core>> {
        self.running.get()?.core.upgrade()
    }

    pub(super) fn limits(&self) -> &Limits {
        self.limits.get_or_init(Limits::default)
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Removes expired tasks, also from the store.
    fn remove_expired(&self) {
        let expired = self.table().take_expired(Instant::now());
        for id in &expired {
            self.store.remove(id);
        }
    }

    /// Returns whether there is room for one more task.
    pub(super) fn has_room(&self, request: usize) -> bool {
        self.remove_expired();
        let limits = self.limits();
        let table = self.table();
        table.tasks.len() < limits.tasks.entries && table.bytes + request + OVERHEAD <= limits.tasks.bytes
    }

    /// Adds a task.
    pub(super) fn insert(&self, mut task: Task) {
        let mut table = self.table();
        task.weight = task.measure();
        table.bytes += task.weight;
        table.set_expiry(task.expires);
        let place = table.next;
        table.next += 1;
        table.places.insert(Arc::clone(&task.id), place);
        table.tasks.insert(place, task);
    }

    /// Stores and adds a task, and queues it for a thread.
    ///
    /// # Errors
    /// There is no room, or the task cannot be stored.
    pub(super) fn create(self: &Arc<Self>, mut task: Task, active: Active) -> Result<TaskView, Fault> {
        const FULL: Fault = Fault::Internal("The server has too many tasks; try again later");
        let core = self.core().ok_or(Fault::Internal("The server is shutting down"))?;
        if !self.has_room(active.request.len()) {
            return Err(FULL);
        }
        task.id = new_id()?.into();
        let document = record::accepted(&task, &active);
        task.state = State::Active(active);
        let id = Arc::clone(&task.id);
        let view = task.view(self.limits());
        // Added before it is stored, so that it counts toward the limits.
        self.insert(task);
        if let Err(error) = self.store.accept(&id, &document) {
            report(&id, "it is rejected, because it is not stored", &error);
            let mut table = self.table();
            if let Some(place) = table.places.remove(&id) {
                let task = table.tasks.remove(&place);
                table.bytes -= task.map_or(0, |task| task.weight);
            }
            return Err(Fault::Internal(record::NOT_STORED));
        }
        self.submit(&core, &id);
        Ok(view)
    }

    /// Queues a task for a thread.
    pub(super) fn submit(&self, core: &Arc<Core>, id: &Arc<str>) {
        let Some(running) = self.running.get() else { return };
        let job = TaskJob { core: Arc::clone(core), id: Arc::clone(id) };
        let Err(refused) = running.pool.try_submit(job) else { return };
        // Cancelled tasks may fill the queue.
        drop(running.pool.withdraw(&mut |job: &TaskJob| self.form_of_active(&job.id).is_none()));
        if running.pool.try_submit(refused.job).is_err() {
            self.fail(id, "The server is shutting down");
        }
    }

    /// Returns the form of a task.
    pub(super) fn form(&self, id: &str) -> Option<TaskForm> {
        self.table().find(id).map(|task| task.form)
    }

    fn form_of_active(&self, id: &str) -> Option<TaskForm> {
        self.table().find(id).filter(|task| matches!(task.state, State::Active(_))).map(|task| task.form)
    }

    /// Calls `run` with a task of this owner.
    pub(super) fn with<R>(
        &self,
        id: &str,
        (owner, form): (Option<&str>, TaskForm),
        run: impl FnOnce(&mut Task, &Limits) -> R,
    ) -> Option<R> {
        self.remove_expired();
        let limits = self.limits();
        let mut table = self.table();
        let task = table.find(id).filter(|task| task.owner.as_deref() == owner && task.form == form)?;
        Some(run(task, limits))
    }

    /// Returns the state of a task of this owner.
    pub(super) fn view(&self, id: &str, of: (Option<&str>, TaskForm)) -> Option<TaskView> {
        self.with(id, of, |task, limits| task.view(limits))
    }

    /// Returns whether the client of this request may follow a task.
    pub(crate) fn is_visible(&self, id: &str, owner: Option<&str>, query: &Query) -> bool {
        TaskForm::of(query.peer.revision)
            .is_some_and(|form| self.with(id, (owner, form), |_, _| ()).is_some())
    }

    /// Returns tasks of this owner after a place, and the place of the last one if there are more.
    pub(super) fn page(
        &self,
        (owner, form): (Option<&str>, TaskForm),
        after: Option<u64>,
    ) -> (Vec<TaskView>, Option<u64>) {
        self.remove_expired();
        let limits = self.limits();
        let table = self.table();
        let start = after.map_or(0, |after| after.saturating_add(1));
        let mut mine = table
            .tasks
            .range(start..)
            .filter(|(_, task)| task.owner.as_deref() == owner && task.form == form)
            .map(|(place, task)| (*place, task.view(limits)));
        let page: Vec<_> = mine.by_ref().take(limits.page).collect();
        let last = page.last().map(|(place, _)| *place).filter(|_| mine.next().is_some());
        (page.into_iter().map(|(_, view)| view).collect(), last)
    }

    /// Takes a task for a run of its handler: calls `take` with it and sets its deadline. `None` if
    /// it is over or parked.
    pub(super) fn begin<R>(&self, id: &str, take: impl FnOnce(&Task, &mut Active) -> R) -> Option<R> {
        let mut table = self.table();
        let task = table.find(id)?;
        let State::Active(mut active) = std::mem::replace(&mut task.state, State::Over(Outcome::Cancelled))
        else {
            return None;
        };
        let ready = active.requests.is_empty() && !active.call.is_settled();
        let taken = ready.then(|| take(task, &mut active));
        task.state = State::Active(active);
        if ready {
            let time = self.limits().tasks.deadline;
            table.set_deadline(id, time);
        }
        drop(table);
        self.arm();
        taken
    }

    /// Records progress of a running task.
    pub(super) fn progress(&self, id: &str, message: String) {
        let mut table = self.table();
        let Some(task) = table.find(id).filter(|task| matches!(task.state, State::Active(_))) else { return };
        let due = now().saturating_sub(task.updated) >= PROGRESS_PAUSE;
        task.message = Some(message);
        table.update_weight(id);
        if due {
            self.changed(&mut table, id, now());
        }
    }

    /// Parks a task until the client has responded. Returns a request that waits for the task's
    /// result, through which the task's requests can be sent to the client of the session.
    pub(super) fn park(
        &self,
        id: &str,
        requests: Vec<KeyedRequest>,
        responses: Responses,
    ) -> Option<Deferred> {
        let time = self.limits().client_input_timeout;
        let mut table = self.table();
        let task = table.find(id)?;
        let waiter = task.waiters.pop();
        let active = task.active()?;
        (active.requests, active.responses) = (requests, responses);
        table.update_weight(id);
        table.set_deadline(id, time);
        self.changed(&mut table, id, now());
        drop(table);
        self.arm();
        waiter
    }

    /// Passes responses of the client to a parked task. Other responses are ignored. Returns
    /// whether the task has all of them and can run.
    ///
    /// # Errors
    /// The responses do not fit into the memory for tasks.
    pub(super) fn respond(&self, id: &str, responses: Responses) -> Result<bool, Fault> {
        let max = self.limits().tasks.bytes;
        let mut table = self.table();
        let size: usize = responses.iter().map(|(_, doc)| doc.as_ref().map_or(0, Doc::memory)).sum();
        if table.bytes + size > max {
            return Err(Fault::Internal("The responses do not fit into the memory for tasks"));
        }
        let Some(task) = table.find(id) else { return Ok(false) };
        let run = task.run;
        let Some(active) = task.active() else { return Ok(false) };
        let before = active.requests.len();
        for (key, response) in responses {
            if let Some(at) = active.requests.iter().position(|input| input.key == key) {
                active.requests.remove(at);
                active.responses.push((record::handler_key(run, &key), response));
            }
        }
        let (left, ready) = (active.requests.len(), before > 0 && active.requests.is_empty());
        if ready {
            active.deadline = None;
        }
        if left < before {
            table.update_weight(id);
            self.changed(&mut table, id, now());
        }
        Ok(ready)
    }

    /// Notifies the clients that follow a task of its new state.
    pub(super) fn changed(&self, table: &mut Table, id: &str, now: u64) {
        let limits = self.limits();
        let Some(task) = table.find(id) else { return };
        task.updated = now;
        let Some(shared) = self.shared.upgrade() else { return };
        let view = task.view(limits);
        match task.form {
            TaskForm::Session => {
                if let Some(session) = task.session.upgrade() {
                    let mut w = Writer::new();
                    view.notification(&mut w, None);
                    session.send_to_session(w.as_bytes());
                }
            }
            TaskForm::Stateless => {
                for connection in shared.connections() {
                    connection.task_changed(&view);
                }
            }
        }
    }

    /// Sends the state of a task to the subscribers on one connection.
    pub(crate) fn repeat(&self, id: &str, connection: &Connection) {
        let limits = self.limits();
        let mut table = self.table();
        if let Some(task) = table.find(id) {
            connection.task_changed(&task.view(limits));
        }
    }

    /// Lets a request wait for the result of a task, or responds at once if the task is over.
    pub(super) fn wait(&self, id: &str, waiter: Deferred) {
        const MAX_WAITERS: usize = 16;
        let mut table = self.table();
        let Some(task) = table.find(id) else { return };
        let State::Active(active) = &task.state else {
            drop(table);
            return self.send_result(id, waiter);
        };
        if !active.requests.is_empty() {
            let requests = active.requests.clone();
            drop(table);
            return super::methods::forward_requests(id, &requests, waiter);
        }
        task.waiters.retain(|waiter| !waiter.is_settled());
        if task.waiters.len() < MAX_WAITERS {
            task.waiters.push(waiter);
            return;
        }
        drop(table);
        waiter.finish(Err(ToolError::fault(Fault::Internal("Too many requests wait for the task"))));
    }

    /// Responds to a request that waited for the result.
    pub(super) fn send_result(&self, id: &str, waiter: Deferred) {
        let outcome = {
            let mut table = self.table();
            match table.find(id).map(|task| &task.state) {
                Some(State::Over(Outcome::Completed { result, .. })) => Ok(result.clone()),
                Some(State::Over(Outcome::Failed(error))) => Err(error_of(error)),
                _ => Err(Fault::InvalidParams("The task was cancelled".into())),
            }
        };
        super::methods::send_result(id, outcome, waiter);
    }

    fn arm(&self) {
        if let Some(core) = self.core() {
            core.watchdog.arm();
        }
    }
}

/// Returns an unguessable id.
fn new_id() -> Result<String, Fault> {
    use base64ct::{Base64UrlUnpadded, Encoding};
    loop {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| Fault::Internal("The system provided no random numbers"))?;
        let id = Base64UrlUnpadded::encode_string(&bytes);
        // On a command line, an argument that begins with `-` is an option.
        if !id.starts_with('-') {
            return Ok(id);
        }
    }
}
