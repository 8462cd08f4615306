//! Requests of a handler to the client: elicitation, sampling and roots.
//!
//! An [`Ask`] is a request with a key. When the handler runs again, it finds the response under
//! that key. `era` transports it: as a request in a session, and as part of an `input_required`
//! result in the stateless protocol. Source: MCP client/elicitation, client/sampling, client/roots
//! (2025-11-25 and 2026-07-28).

#[cfg(feature = "client")]
pub use super::elicitation::FormResponse;
pub use super::elicitation::{Action, Field, FieldKind, Form, FormResult, Naming};
#[cfg(feature = "client")]
pub use super::sampling::SampleResponse;
pub use super::sampling::{Block, SampleResult, Sampling, ToolChoice, ToolUse};

use crate::json::{Doc, Value, Writer};
use crate::rpc::RpcError;

use super::{ClientCapabilities, Revision};

/// Request of a running call to the client.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Key of the request within its call.
    pub key: String,
    /// The request.
    pub request: AskRequest,
    /// Encoder of the request. A program that never sends one does not link it.
    pub write: WriteAsk,
}

/// Writes the request into an open object. The number is its id in revisions that need one.
pub(crate) type WriteAsk = fn(&mut Writer, Revision, &AskRequest, Option<u64>);

/// Request of a handler to the client.
#[derive(Clone, Debug)]
pub(crate) enum AskRequest {
    /// A form for the user.
    Form(Form),
    /// A page for the user to visit.
    Url {
        /// Reason, for the user.
        message: String,
        /// URL to open.
        url: String,
    },
    /// A message from the model.
    Sample(Box<Sampling>),
    /// The folders in which the server may work.
    Roots,
}

impl AskRequest {
    /// Capabilities that the client must have declared.
    pub(crate) fn needs(&self) -> ClientCapabilities {
        let mut needs = ClientCapabilities::default();
        match self {
            AskRequest::Form(_) => needs.form = true,
            AskRequest::Url { .. } => needs.url = true,
            AskRequest::Sample(sampling) => {
                needs.sampling = true;
                needs.sampling_tools = sampling.offers_tools();
            }
            AskRequest::Roots => needs.roots = true,
        }
        needs
    }

    /// Returns `true` if `answer` has the shape of a response to this request.
    ///
    /// # Errors
    /// The error, with a JSON Pointer into the response.
    pub(crate) fn check(&self, answer: Value<'_>) -> Result<(), String> {
        match self {
            AskRequest::Form(form) => form.check(answer),
            AskRequest::Url { .. } => Action::read(answer).map(|_| ()),
            AskRequest::Sample(_) => super::sampling::check(answer),
            AskRequest::Roots => check_roots(answer),
        }
    }
}

impl ClientCapabilities {
    /// All capabilities.
    pub const ALL: ClientCapabilities =
        ClientCapabilities { form: true, url: true, sampling: true, sampling_tools: true, roots: true };

    /// Wire name of the first needed capability that was not declared. The name has a point if only
    /// a part of a declared capability is missing.
    #[cfg(feature = "client")]
    pub(crate) fn missing(self, needed: ClientCapabilities) -> Option<&'static str> {
        let elicits = self.form || self.url;
        let table = [
            (needed.roots && !self.roots, "roots"),
            (needed.sampling && !self.sampling, "sampling"),
            (needed.sampling_tools && !self.sampling_tools, "sampling.tools"),
            ((needed.form || needed.url) && !elicits, "elicitation"),
            (needed.form && !self.form, "elicitation.form"),
            (needed.url && !self.url, "elicitation.url"),
        ];
        table.into_iter().find(|(missing, _)| *missing).map(|(_, name)| name)
    }

    /// Union of two sets of capabilities.
    #[must_use]
    pub fn union(self, other: ClientCapabilities) -> ClientCapabilities {
        ClientCapabilities {
            form: self.form || other.form,
            url: self.url || other.url,
            sampling: self.sampling || other.sampling,
            sampling_tools: self.sampling_tools || other.sampling_tools,
            roots: self.roots || other.roots,
        }
    }

    /// Returns `true` if everything in `needed` was declared.
    pub fn cover(self, needed: ClientCapabilities) -> bool {
        (self.form || !needed.form)
            && (self.url || !needed.url)
            && (self.sampling || !needed.sampling)
            && (self.sampling_tools || !needed.sampling_tools)
            && (self.roots || !needed.roots)
    }
}

/// The client's response to one request: a result or an error.
pub(crate) type Answer = Result<Doc, RpcError>;

/// A page the server wants the user to visit. The library never opens it. Show the whole address
/// and the name of the server, and open it only when the user agrees (client/elicitation, URL
/// mode).
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlRequest {
    /// Reason, for the user.
    pub message: String,
    /// URL to open.
    pub url: String,
}

/// Reason why a client rejects a request. The server receives it, or its call fails.
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence.
    pub message: String,
}

#[cfg(feature = "client")]
impl<T: Into<String>> From<T> for Refusal {
    fn from(message: T) -> Refusal {
        Refusal { message: message.into() }
    }
}

/// A client's response to an [`AskRequest`].
#[cfg(feature = "client")]
#[derive(Clone, Debug)]
pub(crate) enum AskReply {
    /// For a form; checked against it.
    Form(FormResponse),
    /// For a page.
    Url(Action),
    /// For sampling.
    Sample(SampleResponse),
    /// For the roots.
    Roots(Vec<Root>),
}

/// A folder or file that the server may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

impl Root {
    /// A folder or file by its `file://` URI.
    pub fn new(uri: impl Into<String>) -> Root {
        Root { uri: uri.into(), name: None }
    }

    /// A name for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Root {
        self.name = Some(name.into());
        self
    }

    /// The roots in a response that [`AskRequest::check`] accepted.
    pub(crate) fn read_all(answer: Value<'_>) -> Vec<Root> {
        let roots = answer.get("roots").map(Value::items);
        roots
            .into_iter()
            .flatten()
            .filter_map(|root| {
                Some(Root {
                    uri: root.get("uri")?.as_str()?.to_owned(),
                    name: root.get("name").and_then(Value::as_str).map(str::to_owned),
                })
            })
            .collect()
    }
}

fn check_roots(answer: Value<'_>) -> Result<(), String> {
    let roots = answer.get("roots").ok_or("/roots is missing")?;
    if roots.kind() != crate::json::Kind::Array {
        return Err("/roots must be an array".to_owned());
    }
    for (i, root) in roots.items().enumerate() {
        if root.get("uri").and_then(Value::as_str).is_none() {
            return Err(format!("/roots/{i}/uri must be a string"));
        }
    }
    Ok(())
}
