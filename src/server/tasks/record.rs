//! Documents of stored tasks, and the start of a server with stored tasks.
//!
//! A task that was not over when the process ended runs again if its tool is idempotent
//! ([`ToolHints`](crate::ToolHints)), at most [`MAX_RUNS`] times in all. Otherwise it fails,
//! because its handler may have run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::task::TaskForm;
use crate::json::{Doc, Json, Value, Writer};
use crate::limits::MAX_DURATION;
use crate::model::ClientCapabilities;
use crate::server::call::request_state::Responses;
use crate::server::serve::state::Core;

use super::store::StoredTask;
use super::table::Tasks;
use super::task::{Active, Outcome, State, Task, report};

/// Largest number of starts of one task. After that, a restart makes the task fail, because its
/// handler may be the reason that the process ends.
const MAX_RUNS: u64 = 3;

/// A capability of a client.
type Flag = fn(&mut ClientCapabilities) -> &mut bool;

/// Names of the capabilities in stored tasks.
const CAPABILITIES: [(&str, Flag); 5] = [
    ("form", |all| &mut all.form),
    ("url", |all| &mut all.url),
    ("sampling", |all| &mut all.sampling),
    ("samplingTools", |all| &mut all.sampling_tools),
    ("roots", |all| &mut all.roots),
];

/// Returns the document of an accepted task.
pub(super) fn accepted(task: &Task, active: &Active) -> Json {
    let mut w = Writer::new();
    w.begin_object();
    w.key("request").raw(&active.request);
    w.key("form").string(task.form.as_str());
    w.key("created").u64(task.created);
    w.key("ttl").u64(task.ttl);
    w.key("run").u64(task.run);
    if let Some(owner) = &task.owner {
        w.key("owner").string(owner);
    }
    if !task.scopes.is_empty() {
        w.key("scopes").string(&task.scopes.join(" "));
    }
    let mut capabilities = task.capabilities;
    let declared = CAPABILITIES.iter().filter(|(_, flag)| *flag(&mut capabilities)).map(|(name, _)| *name);
    w.key("capabilities").string(&declared.collect::<Vec<_>>().join(" "));
    w.key("client").json(&task.client);
    w.key("answers").begin_object();
    for (key, response) in &active.responses {
        // Before a task is created, all responses are results.
        if let Ok(doc) = response {
            w.key(key).value(doc.root());
        }
    }
    w.end_object().end_object();
    w.into_json()
}

/// Returns the document of an outcome.
pub(super) fn finished(outcome: &Outcome, updated: u64, ttl: u64) -> Json {
    let mut w = Writer::new();
    w.begin_object();
    w.key("updated").u64(updated);
    w.key("ttl").u64(ttl);
    match outcome {
        Outcome::Completed { result, failed } => {
            w.key("result").json(result);
            w.key("failed").bool(*failed);
        }
        Outcome::Failed(error) => _ = w.key("error").json(error),
        Outcome::Cancelled => {}
    }
    w.end_object();
    w.into_json()
}

/// Reads a stored task, without the parts that only a running server has. `None` if the document is
/// not one of this library.
pub(super) fn read(stored: &StoredTask) -> Option<(Task, Active)> {
    let doc = stored.task.to_doc();
    let member = |name: &str| doc.root().get(name);
    let text = |name: &str| member(name).and_then(Value::as_str);
    let words = |name: &str| text(name).unwrap_or_default().split(' ').filter(|word| !word.is_empty());
    let mut capabilities = ClientCapabilities::default();
    for name in words("capabilities") {
        if let Some((_, flag)) = CAPABILITIES.iter().find(|(known, _)| *known == name) {
            *flag(&mut capabilities) = true;
        }
    }
    let mut responses = Responses::new();
    for (key, value) in member("answers").into_iter().flat_map(Value::members) {
        responses.push((key.to_owned(), Ok(Doc::parse(value.raw()).ok()?)));
    }
    let task = Task {
        id: stored.id.as_str().into(),
        owner: text("owner").map(Into::into),
        scopes: words("scopes").map(str::to_owned).collect(),
        form: TaskForm::parse(text("form")?)?,
        capabilities,
        client: member("client").map(Value::to_json).unwrap_or_default(),
        created: member("created")?.as_u64()?,
        updated: member("created")?.as_u64()?,
        ttl: member("ttl")?.as_u64()?,
        run: member("run").and_then(Value::as_u64).unwrap_or_default(),
        ..Task::default()
    };
    Some((task, Active { request: member("request")?.raw().into(), responses, ..Active::default() }))
}

/// Reads an outcome from its stored document, with its time and the lifetime of the task.
fn read_outcome(outcome: &Json) -> Option<(Outcome, u64, u64)> {
    let doc = outcome.to_doc();
    let member = |name: &str| doc.root().get(name);
    let outcome = match (member("result"), member("error")) {
        (Some(result), _) => Outcome::Completed {
            result: result.to_json(),
            failed: member("failed").and_then(Value::as_bool).unwrap_or_default(),
        },
        (None, Some(error)) => Outcome::Failed(error.to_json()),
        (None, None) => Outcome::Cancelled,
    };
    Some((outcome, member("updated")?.as_u64()?, member("ttl")?.as_u64()?))
}

impl Tasks {
    /// Adds the stored tasks, and starts or ends those that are not over.
    pub(super) fn restore(self: &Arc<Self>, core: &Arc<Core>, stored: &[StoredTask]) {
        for stored in stored {
            let Some((mut task, mut active)) = read(stored) else {
                report(&stored.id, "it is removed", &"its record is not valid for this version");
                self.store().remove(&stored.id);
                continue;
            };
            if let Some((outcome, updated, ttl)) = stored.outcome.as_ref().and_then(read_outcome) {
                (task.updated, task.ttl) = (updated, ttl);
                // The clock of a board may be wrong after a start, so the lifetime starts again.
                task.expires = Some(Instant::now() + Duration::from_millis(ttl).min(MAX_DURATION));
                task.message = outcome.message();
                task.state = State::Over(outcome);
                self.insert(task);
                continue;
            }
            let name = tool_name(&active.request);
            let tool = core.shared.catalog.registry().tools.find(&name).cloned();
            let again = tool.filter(|tool| tool.entry.tool.hints.idempotent == Some(true));
            match again {
                Some(entry) if task.run.saturating_add(1) < MAX_RUNS => {
                    task.run += 1;
                    active.entry = Some(entry);
                    let document = accepted(&task, &active);
                    task.state = State::Active(active);
                    let id = Arc::clone(&task.id);
                    self.insert(task);
                    // Stored first, so that a handler that ends the process is not started forever.
                    match self.store().accept(&id, &document) {
                        Ok(()) => self.submit(core, &id),
                        Err(error) => {
                            report(&id, "it does not run again, because its start is not stored", &error);
                            self.fail(&id, NOT_STORED);
                        }
                    }
                }
                _ => {
                    task.state = State::Active(active);
                    let id = Arc::clone(&task.id);
                    self.insert(task);
                    self.fail(&id, RESTARTED);
                }
            }
        }
    }
}

/// Returns the key of a request to the client in the run with this number. A key is never used
/// again, not even after a restart that lost the response (requirement T26-08).
pub(super) fn wire_key(run: u64, key: &str) -> String {
    match run {
        0 => key.to_owned(),
        run => format!("{key}.{run}"),
    }
}

/// Returns the handler's key for a key of [`wire_key`].
pub(super) fn handler_key(run: u64, key: &str) -> String {
    let key = match run {
        0 => key,
        run => key.strip_suffix(&format!(".{run}")).unwrap_or(key),
    };
    key.to_owned()
}

/// The error of a task that was not over when its process ended.
const RESTARTED: &str = "The server was restarted before the task was over";
/// The error of a task that cannot be stored.
pub(super) const NOT_STORED: &str = "The task cannot be stored";

/// Returns the name of the tool in a request.
fn tool_name(request: &str) -> String {
    let doc = Doc::parse(request).unwrap_or_default();
    let name = doc.root().get("params").and_then(|params| params.get("name")).and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}
