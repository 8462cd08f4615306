//! What a server needs whose handlers pass calls on to other servers: questions and errors of those,
//! and changes of many entries at once.
//!
//! Knows nothing of who the other servers are; a hub that is served does.

use std::collections::BTreeSet;

use crate::era::{self, decode};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, Value, Writer};
use crate::model::ask::AskRequest;
use crate::model::content::ToolOutput;
use crate::model::{Change, Fault, Level};
use crate::rpc::code;

use super::context::Context;
use super::failure::Failure;
use super::handle::Handle;
use super::registry::{Registry, ToolHandler};

/// What the sessions of all older revisions answer where there is no such resource.
const NO_RESOURCE: i32 = -32002;

impl Context<'_> {
    /// Asks the client what another server asked in its answer: an object by key. The answers, by
    /// the same keys, when all are there; until then the question, to be passed on.
    pub(crate) fn relay(&mut self, questions: &Json) -> Result<Json, Failure> {
        let mut answers = Writer::new();
        answers.begin_object();
        let mut open = None;
        for (key, request) in self::questions(questions)? {
            match self.ask(&key, request) {
                Ok(answer) => _ = answers.key(&key).raw(answer.root().raw()),
                Err(failure) if failure.is_question() => open = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        answers.end_object();
        open.map_or_else(|| Ok(answers.into_json()), Err)
    }

    /// Whether the client asked for progress of this call.
    pub(crate) fn wants_progress(&self) -> bool {
        self.query.progress.is_some()
    }
}

/// Reads what another server asked in its answer.
///
/// # Errors
/// One of it is no question.
pub(crate) fn questions(asked: &Json) -> Result<Vec<(String, AskRequest)>, Failure> {
    let read = |(key, question): (&str, Value<'_>)| {
        let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
        let request = decode::inquiry(method, question.get("params"))
            .map_err(|why| Failure::new(format!("The server asks {key:?}: {}", why.message)))?;
        Ok((key.to_owned(), request))
    };
    asked.to_doc().root().members().map(read).collect()
}

impl Failure {
    /// The error of another server: its own words and number where those mean the same here.
    /// `uri` is what was to be read.
    pub(crate) fn relayed(error: &Error, uri: Option<&str>) -> Failure {
        let data = error.data().map(Json::to_doc);
        let missing = |code| era::says_missing(code, data.as_ref().map(Doc::root));
        if let Some(needed) = error.code().and_then(missing) {
            return Failure::fault(Fault::MissingCapability(needed));
        }
        match (error.kind(), error.code(), uri) {
            (ErrorKind::Remote, Some(NO_RESOURCE), Some(uri)) => Failure::not_found(uri),
            // Without sessions the number says less, and the data which URI was meant.
            (ErrorKind::Remote, Some(code::INVALID_PARAMS), Some(uri)) if names(error.data(), uri) => {
                Failure::not_found(uri)
            }
            (ErrorKind::Remote, Some(code), _) if !(-32099..=-32000).contains(&code) => {
                let (message, data) = (error.to_string(), error.data().cloned());
                Failure::fault(Fault::Custom { code, message, data })
            }
            _ => Failure::new(error.to_string()),
        }
    }
}

fn names(data: Option<&Json>, uri: &str) -> bool {
    data.is_some_and(|data| data.to_doc().root().get("uri").and_then(Value::as_str) == Some(uri))
}

impl Handle {
    /// Changes many entries at once, and tells the clients once if `edit` says that it did.
    ///
    /// # Errors
    /// As with [`Handle::remove_tool`].
    pub(crate) fn edit(
        &self,
        change: &Change,
        edit: impl FnOnce(&mut Registry) -> bool,
    ) -> Result<(), Error> {
        let catalog = self.catalog()?;
        catalog.announced(change)?;
        if catalog.change(edit) { catalog.tell(change) } else { Ok(()) }
    }
}

impl Handle {
    /// Logs an entry to the session, if there is but one connection; not masked, since it is
    /// somebody else's.
    pub(crate) fn log_to_only(&self, level: Level, logger: &str, data: &Json) {
        if let Ok(catalog) = self.catalog() {
            if let [connection] = &*catalog.connections() {
                connection.log(level, Some(logger), data);
            }
        }
    }
}

impl Handle {
    /// Has `told` called whenever somebody begins or ends to listen to updates of resources, and does
    /// not wait for it. Only the first who asks is told.
    pub(crate) fn on_listeners(&self, told: impl Fn() + Send + Sync + 'static) {
        if let Ok(catalog) = self.catalog() {
            catalog.listeners.get_or_init(|| Box::new(told));
        }
    }

    /// The resources whose updates somebody listens to.
    pub(crate) fn listened(&self) -> BTreeSet<String> {
        let mut uris = BTreeSet::new();
        for connection in self.catalog().iter().flat_map(|catalog| catalog.connections()) {
            connection.wanted(&mut uris);
        }
        uris
    }
}

impl ToolHandler {
    /// On a worker.
    pub(crate) fn pooled(
        run: impl Fn(&mut Context<'_>, Value<'_>) -> Result<ToolOutput, Failure> + Send + Sync + 'static,
    ) -> ToolHandler {
        ToolHandler::Pooled(std::sync::Arc::new(run))
    }
}
