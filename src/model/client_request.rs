//! Requests of a handler to the client: elicitation, sampling and roots.
//!
//! A [`KeyedRequest`] is a request with a key. When the handler runs again, it finds the
//! response under that key. `era` encodes the request: as a request in a session, as a part of an
//! `input_required` result in the stateless protocol.
//!
//! Source: MCP client/elicitation, client/sampling, client/roots (2025-11-25 and 2026-07-28).

#[cfg(feature = "client")]
pub use super::elicitation::ElicitResponse;
pub use super::elicitation::{ElicitAction, ElicitResult, Field, FieldKind, Form, TitleEncoding};
#[cfg(feature = "client")]
pub use super::sampling::SampleResponse;
pub use super::sampling::{SampleResult, Sampling, SamplingBlock, ToolChoice, ToolUse};

use crate::json::{Doc, Value, Writer};
use crate::rpc::RpcError;

use super::{ClientCapabilities, Revision};

/// Request of a running call to the client.
#[derive(Clone, Debug)]
pub(crate) struct KeyedRequest {
    /// Key of the request within its call.
    pub key: String,
    /// The request.
    pub request: InputRequest,
    /// Encoder of the request. It is a pointer, so that a program that sends no request does not
    /// link it.
    pub write: WriteRequest,
    /// Id of the task that the request belongs to, in a session.
    #[cfg(feature = "tasks")]
    pub task: Option<String>,
}

impl KeyedRequest {
    /// Creates a request of a call.
    pub(crate) fn new(key: String, request: InputRequest, write: WriteRequest) -> KeyedRequest {
        KeyedRequest {
            key,
            request,
            write,
            #[cfg(feature = "tasks")]
            task: None,
        }
    }
}

/// Function that writes the request into an open object. The number is the id of the request, in
/// revisions with an id.
pub(crate) type WriteRequest = fn(&mut Writer, Revision, &InputRequest, Option<u64>);

/// Request of a handler to the client.
#[derive(Clone, Debug)]
pub(crate) enum InputRequest {
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

impl InputRequest {
    /// Returns the capabilities that the client must have declared.
    pub(crate) fn needs(&self) -> ClientCapabilities {
        let mut needs = ClientCapabilities::default();
        match self {
            InputRequest::Form(_) => needs.form = true,
            InputRequest::Url { .. } => needs.url = true,
            InputRequest::Sample(sampling) => {
                needs.sampling = true;
                needs.sampling_tools = sampling.offers_tools();
            }
            InputRequest::Roots => needs.roots = true,
        }
        needs
    }

    /// Checks that `answer` has the shape of a response to this request.
    ///
    /// # Errors
    /// A description of the error, with a JSON Pointer into the response.
    pub(crate) fn check(&self, answer: Value<'_>) -> Result<(), String> {
        match self {
            InputRequest::Form(form) => form.check(answer),
            InputRequest::Url { .. } => ElicitAction::read(answer).map(|_| ()),
            InputRequest::Sample(_) => super::sampling::check(answer),
            InputRequest::Roots => check_roots(answer),
        }
    }
}

impl ClientCapabilities {
    /// All capabilities.
    pub const ALL: ClientCapabilities =
        ClientCapabilities { form: true, url: true, sampling: true, sampling_tools: true, roots: true };

    /// Returns the wire name of the first required capability that was not declared. The name has a
    /// dot if only a part of a declared capability is missing.
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

    /// Returns the union of two sets of capabilities.
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
    pub fn contains(self, needed: ClientCapabilities) -> bool {
        (self.form || !needed.form)
            && (self.url || !needed.url)
            && (self.sampling || !needed.sampling)
            && (self.sampling_tools || !needed.sampling_tools)
            && (self.roots || !needed.roots)
    }
}

/// The client's response to one request: a result or an error.
pub(crate) type ClientResponse = Result<Doc, RpcError>;

/// A page that the server requests the user to visit. The library never opens it. Show the whole
/// URL and the name of the server, and open the URL only if the user agrees (client/elicitation,
/// URL mode).
///
/// ```no_run
/// use std::io::{self, BufRead};
/// use std::process::Command;
/// use tinymcp::{Client, ElicitAction};
///
/// let client = Client::builder("inspector", "1.0.0")
///     .on_elicit_url(|request| {
///         println!("board_server: {}\nOpen {}? [y/N]", request.message, request.url);
///         let answer = io::stdin().lock().lines().next().and_then(Result::ok);
///         let agrees = answer.as_deref() == Some("y");
///         Ok(if agrees { ElicitAction::Accept } else { ElicitAction::Decline })
///     })
///     .spawn(Command::new("board_server"))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlElicitation {
    /// Reason, for the user.
    pub message: String,
    /// URL to open.
    pub url: String,
}

/// Reason why a client rejects a request. In a session the server receives it; in the stateless
/// protocol the call fails with it.
///
/// Text converts to it:
///
/// ```
/// use tinymcp::{Client, SampleResponse};
///
/// let builder = Client::builder("host", "1.0.0").on_sample(|request| {
///     if request.max_tokens > 1000 {
///         return Err("at most 1000 tokens are allowed".into());
///     }
///     Ok(SampleResponse::new("small-model").text("42"))
/// });
/// ```
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

/// A client's response to an [`InputRequest`].
#[cfg(feature = "client")]
#[derive(Clone, Debug)]
pub(crate) enum InputResponse {
    /// For a form. It was validated against the form.
    Form(ElicitResponse),
    /// For a page.
    Url(ElicitAction),
    /// For sampling.
    Sample(SampleResponse),
    /// For the roots.
    Roots(Vec<Root>),
}

/// A folder or file that the server may use.
///
/// ```
/// use tinymcp::{Server, Tool};
///
/// let mut server = Server::new("search", "1.0.0");
/// server.tool(Tool::new("folders"), |ctx, ()| {
///     let roots = ctx.roots("roots")?;
///     let folders: Vec<&str> = roots.iter().filter_map(|root| root.uri.strip_prefix("file://")).collect();
///     Ok(folders.join("\n"))
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

impl Root {
    /// Creates a root from the `file://` URI of a folder or file.
    pub fn new(uri: impl Into<String>) -> Root {
        Root { uri: uri.into(), name: None }
    }

    /// Sets the name for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Root {
        self.name = Some(name.into());
        self
    }

    /// Returns the roots in a response that [`InputRequest::check`] accepted.
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
