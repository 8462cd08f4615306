//! Decoding of requests shared by both eras: parameters, `_meta`, and the methods of tools,
//! resources, prompts and completion.
//!
//! One pass over the parameters stores every known member, for any method.

use crate::json::{Kind, NodeId, Value};
use crate::model::{ClientCapabilities, CompletionKind, Fault, Level, Operation};

/// The parameters of a request. Each known parameter has a field.
#[derive(Clone, Copy, Default)]
pub(crate) struct Params<'d> {
    /// The parameters themselves.
    pub(super) object: Option<Value<'d>>,
    pub(super) meta: Meta<'d>,
    pub(super) name: Option<Value<'d>>,
    pub(super) uri: Option<Value<'d>>,
    pub(super) arguments: Option<Value<'d>>,
    pub(super) cursor: Option<Value<'d>>,
    pub(super) reference: Option<Value<'d>>,
    pub(super) argument: Option<Value<'d>>,
    pub(super) context: Option<Value<'d>>,
    pub(super) input_responses: Option<Value<'d>>,
    pub(super) request_state: Option<Value<'d>>,
}

/// The members of `_meta` that the protocol gives a meaning (basic/index, `_meta`).
#[derive(Clone, Copy, Default)]
pub(super) struct Meta<'d> {
    /// The whole object.
    pub whole: Option<Value<'d>>,
    pub version: Option<Value<'d>>,
    pub capabilities: Option<Value<'d>>,
    pub client: Option<Value<'d>>,
    pub log_level: Option<Value<'d>>,
    pub progress_token: Option<Value<'d>>,
}

impl<'d> Params<'d> {
    /// Returns the revision that a request names, or else that of its session.
    #[cfg(feature = "observe")]
    pub(crate) fn protocol(&self, session: Option<crate::model::Peer>) -> Option<&'static str> {
        let named = self.meta.version.and_then(|version| super::version::parse(version.as_str()?));
        named.or(session.map(|peer| peer.revision)).map(super::version::name)
    }

    #[inline]
    pub(crate) fn read(object: Option<Value<'d>>) -> Params<'d> {
        let mut params = Params { object, ..Params::default() };
        let Some(object) = object else { return params };
        for (name, value) in object.named() {
            // Matching by length first leaves few comparisons of names.
            let place = match name.len() {
                3 if name == b"uri" => &mut params.uri,
                3 if name == b"ref" => &mut params.reference,
                4 if name == b"name" => &mut params.name,
                5 if name == b"_meta" => {
                    params.meta.read(value);
                    continue;
                }
                6 if name == b"cursor" => &mut params.cursor,
                7 if name == b"context" => &mut params.context,
                8 if name == b"argument" => &mut params.argument,
                9 if name == b"arguments" => &mut params.arguments,
                12 if name == b"requestState" => &mut params.request_state,
                14 if name == b"inputResponses" => &mut params.input_responses,
                _ => continue,
            };
            *place = Some(value);
        }
        params
    }

    /// Returns the arguments of a call.
    #[cfg(feature = "http-server")]
    pub(crate) fn arguments(&self) -> Option<Value<'d>> {
        self.arguments
    }

    /// Returns a member that few methods have.
    pub(super) fn get(&self, name: &str) -> Option<Value<'d>> {
        self.object?.get(name)
    }

    /// Returns `true` if `_meta` names a protocol version, which makes a message modern.
    pub(super) fn names_version(&self) -> bool {
        self.meta.version.is_some()
    }

    /// Returns the progress token.
    ///
    /// # Errors
    /// A token that is neither a string nor an integer (basic/utilities/progress).
    pub(super) fn progress_token(&self) -> Result<Option<NodeId>, Fault> {
        match self.meta.progress_token {
            None => Ok(None),
            Some(token) if crate::rpc::is_id(token) => Ok(Some(token.id())),
            Some(token) if token.is_null() => Ok(None),
            Some(_) => Err(invalid("progressToken must be a string or an integer")),
        }
    }
}

impl<'d> Meta<'d> {
    fn read(&mut self, meta: Value<'d>) {
        self.whole = Some(meta);
        for (name, value) in meta.named() {
            let place = match name.len() {
                13 if name == b"progressToken" => &mut self.progress_token,
                32 if name == b"io.modelcontextprotocol/logLevel" => &mut self.log_level,
                34 if name == b"io.modelcontextprotocol/clientInfo" => &mut self.client,
                39 if name == b"io.modelcontextprotocol/protocolVersion" => &mut self.version,
                42 if name == b"io.modelcontextprotocol/clientCapabilities" => &mut self.capabilities,
                _ => continue,
            };
            *place = Some(value);
        }
    }
}

/// Decodes the operation of a method that both eras have. Other methods are those of extensions, or
/// unknown.
///
/// # Errors
/// [`Fault::InvalidParams`] names the parameter that is missing or of the wrong type.
pub(super) fn operation(method: &str, params: &Params<'_>) -> Result<Operation, Fault> {
    let operation = match method {
        "tools/call" => Operation::CallTool {
            name: string(params.name, "name")?.id(),
            arguments: optional_object(params.arguments, "arguments")?,
        },
        "tools/list" => Operation::ListTools { cursor: cursor(params)? },
        "resources/list" => Operation::ListResources { cursor: cursor(params)? },
        "resources/templates/list" => Operation::ListTemplates { cursor: cursor(params)? },
        "resources/read" => Operation::ReadResource { uri: string(params.uri, "uri")?.id() },
        "prompts/list" => Operation::ListPrompts { cursor: cursor(params)? },
        "prompts/get" => Operation::GetPrompt {
            name: string(params.name, "name")?.id(),
            arguments: string_map(params.arguments, "arguments")?,
        },
        "completion/complete" => completion(params)?,
        _ => Operation::Extension,
    };
    Ok(operation)
}

fn completion(params: &Params<'_>) -> Result<Operation, Fault> {
    let reference = object(params.reference, "ref")?;
    let (kind, subject) = match reference.get("type").and_then(Value::as_str) {
        Some("ref/prompt") => (CompletionKind::Prompt, string(reference.get("name"), "ref.name")?),
        Some("ref/resource") => (CompletionKind::Template, string(reference.get("uri"), "ref.uri")?),
        _ => return Err(invalid("ref.type must be ref/prompt or ref/resource")),
    };
    let argument = object(params.argument, "argument")?;
    optional_object(params.context, "context")?;
    let settled = params.context.and_then(|context| context.get("arguments"));
    let context = string_map(settled, "context.arguments")?;
    Ok(Operation::Complete {
        subject: subject.id(),
        kind,
        argument: string(argument.get("name"), "argument.name")?.id(),
        value: string(argument.get("value"), "argument.value")?.id(),
        context,
    })
}

/// Reads a cursor: any string, also an empty one. `null` counts as absent.
fn cursor(params: &Params<'_>) -> Result<Option<NodeId>, Fault> {
    match params.cursor {
        None => Ok(None),
        Some(value) if value.is_null() => Ok(None),
        Some(value) if value.kind() == Kind::String => Ok(Some(value.id())),
        Some(_) => Err(invalid("cursor must be a string")),
    }
}

/// Returns a required string parameter.
pub(super) fn string<'d>(value: Option<Value<'d>>, name: &str) -> Result<Value<'d>, Fault> {
    match value {
        Some(value) if value.kind() == Kind::String => Ok(value),
        Some(_) => Err(wrong(name, "must be a string")),
        None => Err(wrong(name, "is missing")),
    }
}

/// Returns a required object parameter.
pub(super) fn object<'d>(value: Option<Value<'d>>, name: &str) -> Result<Value<'d>, Fault> {
    match value {
        Some(value) if value.kind() == Kind::Object => Ok(value),
        Some(_) => Err(wrong(name, "must be an object")),
        None => Err(wrong(name, "is missing")),
    }
}

/// Returns an optional object. Some clients write null for an absent one.
fn optional_object(value: Option<Value<'_>>, name: &str) -> Result<Option<NodeId>, Fault> {
    match value {
        None => Ok(None),
        Some(value) if value.kind() == Kind::Object => Ok(Some(value.id())),
        Some(value) if value.is_null() => Ok(None),
        Some(_) => Err(wrong(name, "must be an object")),
    }
}

/// Returns an optional object and checks that its values are strings, as in prompts and completion
/// contexts.
fn string_map(value: Option<Value<'_>>, name: &str) -> Result<Option<NodeId>, Fault> {
    let map = optional_object(value, name)?;
    for (key, value) in value.into_iter().flat_map(Value::members) {
        if value.kind() != Kind::String {
            return Err(wrong(&format!("{name}.{key}"), "must be a string"));
        }
    }
    Ok(map)
}

/// Reads client capabilities: presence means support, unknown members are ignored.
///
/// `elicitation: {}` means forms only (client/elicitation, 2025-11-25 and 2026-07-28).
pub(super) fn capabilities(declared: Value<'_>) -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::default();
    for (name, value) in declared.members() {
        if value.kind() != Kind::Object {
            continue;
        }
        // A null member is not declared.
        let has = |name| value.get(name).is_some_and(|v: Value<'_>| !v.is_null());
        match name {
            "roots" => capabilities.roots = true,
            "sampling" => {
                capabilities.sampling = true;
                capabilities.sampling_tools = has("tools");
            }
            "elicitation" => {
                capabilities.url = has("url");
                capabilities.form = has("form") || !capabilities.url;
            }
            _ => {}
        }
    }
    capabilities
}

/// Reads a log level.
///
/// # Errors
/// The level is unknown (server/utilities/logging, error handling).
pub(super) fn level(value: Option<Value<'_>>, name: &str) -> Result<Level, Fault> {
    const KNOWN: &str = "must be one of debug, info, notice, warning, error, critical, alert, emergency";
    let level = string(value, name)?.as_str().and_then(Level::parse);
    level.ok_or_else(|| wrong(name, KNOWN))
}

pub(super) fn invalid(message: &'static str) -> Fault {
    Fault::InvalidParams(message.into())
}

#[cold]
fn wrong(name: &str, what: &str) -> Fault {
    Fault::InvalidParams(format!("{name} {what}").into())
}
