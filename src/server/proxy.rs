//! Client requests and errors of other servers, for handlers that pass calls on to them.

use crate::era::{self, decode};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, Value, Writer};
use crate::model::Fault;
use crate::model::client_request::AskRequest;
use crate::rpc::code;

use super::context::Context;
use super::tool_error::ToolError;

/// The code for a missing resource in all session revisions.
const NO_RESOURCE: i32 = -32002;

impl Context<'_> {
    /// Asks the client what another server asked in its answer: an object by key. The answers, by
    /// the same keys, when all are there; until then the question, to be passed on.
    pub(crate) fn relay(&mut self, questions: &Json) -> Result<Json, ToolError> {
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
pub(crate) fn questions(asked: &Json) -> Result<Vec<(String, AskRequest)>, ToolError> {
    let read = |(key, question): (&str, Value<'_>)| {
        let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
        let request = decode::inquiry(method, question.get("params"))
            .map_err(|why| ToolError::new(format!("The server asks {key:?}: {}", why.message)))?;
        Ok((key.to_owned(), request))
    };
    asked.to_doc().root().members().map(read).collect()
}

impl ToolError {
    /// The error of another server: its own words and number where those mean the same here.
    /// `uri` is what was to be read.
    pub(crate) fn relayed(error: &Error, uri: Option<&str>) -> ToolError {
        let data = error.data().map(Json::to_doc);
        let missing = |code| era::says_missing(code, data.as_ref().map(Doc::root));
        if let Some(needed) = error.code().and_then(missing) {
            return ToolError::fault(Fault::MissingCapability(needed));
        }
        match (error.kind(), error.code(), uri) {
            (ErrorKind::Remote, Some(NO_RESOURCE), Some(uri)) => ToolError::not_found(uri),
            // Without sessions the number says less, and the data which URI was meant.
            (ErrorKind::Remote, Some(code::INVALID_PARAMS), Some(uri)) if names(error.data(), uri) => {
                ToolError::not_found(uri)
            }
            (ErrorKind::Remote, Some(code), _) if !(-32099..=-32000).contains(&code) => {
                let (message, data) = (error.to_string(), error.data().cloned());
                ToolError::fault(Fault::Custom { code, message, data })
            }
            _ => ToolError::new(error.to_string()),
        }
    }
}

fn names(data: Option<&Json>, uri: &str) -> bool {
    data.is_some_and(|data| data.to_doc().root().get("uri").and_then(Value::as_str) == Some(uri))
}
