//! Runs the handler of a task on a thread for tasks.

use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::era::ServerEra;
use crate::era::task::{TaskForm, error_text, result_text};
use crate::error::Error;
use crate::json::{Doc, Json, Value};
use crate::model::{Change, ClientCapabilities, Fault, Peer, Query};
use crate::server::call::in_flight::Call;
use crate::server::call::request_state::Responses;
use crate::server::call::{CallResult, Output, Target, run_handler_in};
use crate::server::callers::CallerRules;
use crate::server::callers::call_limits::CallPermit;
use crate::server::connection::Connection;
use crate::server::context::{CallHost, Context};
use crate::server::dispatch::classify::{MessageKind, classify_single};
use crate::server::provided::Provided;
use crate::server::registry::{Row, ToolEntry};
use crate::server::serve::state::Core;
use crate::transport::{FrameSink, ReplySink};

use super::ServerTasks;
use super::record::wire_key;
use super::table::Tasks;
use super::task::{Active, Outcome, Task, report};

/// A task that is ready to run.
pub(crate) struct TaskJob {
    pub core: Arc<Core>,
    pub id: Arc<str>,
}

/// Everything that a run of the handler needs.
struct Run {
    request: Arc<str>,
    entry: Option<Arc<Row<ToolEntry>>>,
    responses: Responses,
    call: Arc<Call>,
    form: TaskForm,
    capabilities: ClientCapabilities,
    client: Json,
    number: u64,
    #[allow(dead_code)] // Dropping it ends the count.
    permit: Option<Arc<CallPermit>>,
    sink: TaskSink,
}

impl Run {
    fn new(task: &Task, active: &mut Active) -> Run {
        Run {
            request: Arc::clone(&active.request),
            entry: active.entry.clone(),
            responses: std::mem::take(&mut active.responses),
            call: Arc::clone(&active.call),
            form: task.form,
            capabilities: task.capabilities,
            client: task.client.clone(),
            number: task.run,
            permit: active.permit.clone(),
            sink: TaskSink {
                owner: task.owner.clone(),
                session: match task.form {
                    TaskForm::Session => Weak::clone(&task.session),
                    TaskForm::Stateless => Weak::new(),
                },
                id: Arc::clone(&task.id),
                #[cfg(feature = "http-server")]
                scopes: task.scopes.clone(),
            },
        }
    }

    /// Parses the message of the call again: a task stores only its text.
    fn query(&self, era: &dyn ServerEra, doc: &Doc) -> Result<Query, Fault> {
        let classified = classify_single(doc.root());
        let MessageKind::Request(request) = classified.kind else {
            return Err(Fault::Internal("The stored task is not a request"));
        };
        let (revision, capabilities) = (self.form.revision(), self.capabilities);
        let session = self.sink.session.upgrade();
        // Without a session, the request itself has the log level.
        let log_level = session.and_then(|session| session.session().as_ref()?.peer.log_level);
        era.request(&request, &classified.params, Some(Peer { revision, capabilities, log_level }))
    }
}

impl TaskJob {
    /// Runs the handler until it ends or needs input from the client.
    pub(super) fn run(self) {
        let TaskJob { core, id } = self;
        let Some(tasks) = core.shared.tasks.get() else { return };
        let Some(mut run) = tasks.begin(&id, Run::new) else { return };
        let form = run.form;
        let fail = |fault: &Fault| tasks.finish(&id, Outcome::Failed(error_text(form, fault)));
        match run_handler(&core, tasks, &id, &mut run) {
            CallResult::Done(Output::Tool(output)) => {
                let (result, failed) = (result_text(form, &output), output.is_error);
                tasks.finish(&id, Outcome::Completed { result, failed });
            }
            CallResult::Fault(fault) => fail(&fault),
            CallResult::InputRequired(mut requests) => {
                for input in &mut requests {
                    input.key = wire_key(run.number, &input.key);
                }
                if let Some(waiter) = tasks.park(&id, requests, std::mem::take(&mut run.responses)) {
                    tasks.wait(&id, waiter);
                }
            }
            CallResult::Done(_) | CallResult::Deferred(_) => {
                fail(&Fault::Internal("The handler of a task must return its result"));
            }
        }
    }
}

fn run_handler(core: &Arc<Core>, tasks: &Arc<Tasks>, id: &Arc<str>, run: &mut Run) -> CallResult {
    let era = match run.form {
        TaskForm::Session => core.eras.legacy,
        TaskForm::Stateless => core.eras.modern,
    };
    let (Some(era), Some(entry)) = (era, run.entry.clone()) else {
        return CallResult::Fault(Fault::Internal("The server does not offer the tool of the task"));
    };
    let doc = Doc::parse(run.request.as_bytes()).unwrap_or_default();
    let query = match run.query(era, &doc) {
        Ok(query) => query,
        Err(fault) => return CallResult::Fault(fault),
    };
    let host = TaskHost { core, tasks, id, client: &run.client };
    let mut ctx = Context {
        doc: &doc,
        query: &query,
        era,
        sink: &run.sink,
        call: Some(&run.call),
        deadline: None,
        logging: core.logging,
        host: &host,
        responses: &mut run.responses,
        requests: Vec::new(),
        keys: Vec::new(),
        last_progress: f64::NEG_INFINITY,
        task: ContextTask::within(&core.shared.tasks, &host),
    };
    run_handler_in(&mut ctx, &Target::Tool(entry), None)
}

/// The tasks of the server of a call, and the task that its handler runs in.
#[derive(Clone, Copy)]
pub(crate) struct ContextTask<'c> {
    pub(super) tasks: Option<&'c Arc<Tasks>>,
    pub(super) host: Option<&'c TaskHost<'c>>,
    /// [`Context::start_task`] turns the call into a task.
    pub(super) starts: bool,
}

impl<'c> ContextTask<'c> {
    /// For a call that is not a task.
    pub(in crate::server) fn of(tasks: &'c ServerTasks) -> ContextTask<'c> {
        ContextTask { tasks: tasks.get(), host: None, starts: false }
    }

    /// For the handler of a task.
    fn within(tasks: &'c ServerTasks, host: &'c TaskHost<'c>) -> ContextTask<'c> {
        ContextTask { host: Some(host), ..ContextTask::of(tasks) }
    }

    /// Shows progress in the state of the task. Returns `false` outside a task.
    pub(in crate::server) fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) -> bool {
        self.host.inspect(|task| task.progress(done, total, message)).is_some()
    }
}

/// Environment of the handler of a task.
pub(crate) struct TaskHost<'t> {
    core: &'t Arc<Core>,
    tasks: &'t Arc<Tasks>,
    id: &'t Arc<str>,
    client: &'t Json,
}

impl TaskHost<'_> {
    pub(super) fn id(&self) -> &str {
        self.id
    }

    /// Shows progress in the state of the task. No notifications are sent: they belong to the
    /// request of the call, which has ended (requirement PRG-05).
    pub(super) fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let mut text = match total {
            Some(total) => format!("{done}/{total}"),
            None => done.to_string(),
        };
        if let Some(message) = message {
            text = format!("{text} {message}");
        }
        self.tasks.progress(self.id, text);
    }
}

impl CallHost for TaskHost<'_> {
    fn stopping(&self) -> bool {
        self.core.shared.stopping()
    }

    fn notify(&self, change: &Change) -> Result<(), Error> {
        self.core.shared.notify(change)
    }

    fn client_info(&self) -> Option<Json> {
        Some(self.client.clone())
    }

    fn client_extension(&self, id: &str, meta: Option<Value<'_>>) -> Option<Json> {
        self.core.extensions.as_ref()?.of_client(id, meta, &|| None)
    }

    fn provided(&self) -> &Provided {
        &self.core.provided
    }

    fn callers(&self) -> &CallerRules {
        &self.core.callers
    }

    /// Never fails: a task stores the responses itself.
    fn ensure_sealer(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn busy(&self) -> bool {
        false
    }
}

/// Sink of a task, whose call already has its response. Log entries and notifications of extensions
/// are sent to the session of the call. Without an open session, and in the stateless protocol,
/// they are written to standard error.
struct TaskSink {
    owner: Option<Arc<str>>,
    session: Weak<Connection>,
    id: Arc<str>,
    #[cfg(feature = "http-server")]
    scopes: Vec<String>,
}

impl ReplySink for TaskSink {
    fn principal(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    #[cfg(feature = "http-server")]
    fn scopes(&self) -> &[String] {
        &self.scopes
    }
}

impl FrameSink for TaskSink {
    fn send(&self, frames: &[u8]) {
        match self.session.upgrade() {
            Some(session) => session.send_to_session(frames),
            None => report(&self.id, "no session for message", &String::from_utf8_lossy(frames).trim_end()),
        }
    }

    fn closed(&self) -> bool {
        false
    }

    fn congested(&self) -> bool {
        false
    }

    fn close(&self, _deadline: Instant) {}
}
