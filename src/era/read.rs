//! Reading what both eras say alike: the methods of tools, resources, prompts and completion.

use crate::json::{Kind, NodeId, Value};
use crate::model::{ClientCapabilities, CompletionKind, Fault, Operation};

/// The operation behind a method that both eras have; `None` when it is not one of them.
///
/// # Errors
/// [`Fault::InvalidParams`] names the parameter that is missing or of the wrong type.
pub(super) fn operation(method: &str, params: Option<Value<'_>>) -> Result<Option<Operation>, Fault> {
    let operation = match method {
        "tools/call" => Operation::CallTool {
            name: string(params, "name")?.id(),
            arguments: optional_object(params, "arguments")?,
        },
        "tools/list" => Operation::ListTools { cursor: cursor(params)? },
        "resources/list" => Operation::ListResources { cursor: cursor(params)? },
        "resources/templates/list" => Operation::ListTemplates { cursor: cursor(params)? },
        "resources/read" => Operation::ReadResource { uri: string(params, "uri")?.id() },
        "prompts/list" => Operation::ListPrompts { cursor: cursor(params)? },
        "prompts/get" => Operation::GetPrompt {
            name: string(params, "name")?.id(),
            arguments: string_map(params, "arguments")?,
        },
        "completion/complete" => completion(params)?,
        _ => return Ok(None),
    };
    Ok(Some(operation))
}

fn completion(params: Option<Value<'_>>) -> Result<Operation, Fault> {
    let reference = object(params, "ref")?;
    let (kind, subject) = match reference.get("type").and_then(Value::as_str) {
        Some("ref/prompt") => (CompletionKind::Prompt, string(Some(reference), "name")?),
        Some("ref/resource") => (CompletionKind::Template, string(Some(reference), "uri")?),
        _ => return Err(invalid("ref.type must be ref/prompt or ref/resource")),
    };
    let argument = object(params, "argument")?;
    let context = match params.and_then(|p| p.get("context")) {
        Some(context) if context.kind() != Kind::Object => return Err(invalid("context must be an object")),
        context => string_map(context, "arguments")?,
    };
    Ok(Operation::Complete {
        subject: subject.id(),
        kind,
        argument: string(Some(argument), "name")?.id(),
        value: string(Some(argument), "value")?.id(),
        context,
    })
}

/// A cursor is any string, also an empty one; `null` is no cursor.
fn cursor(params: Option<Value<'_>>) -> Result<Option<NodeId>, Fault> {
    match params.and_then(|p| p.get("cursor")) {
        None => Ok(None),
        Some(value) if value.is_null() => Ok(None),
        Some(value) if value.kind() == Kind::String => Ok(Some(value.id())),
        Some(_) => Err(invalid("cursor must be a string")),
    }
}

/// A required string parameter.
pub(super) fn string<'d>(params: Option<Value<'d>>, name: &str) -> Result<Value<'d>, Fault> {
    match params.and_then(|p| p.get(name)) {
        Some(value) if value.kind() == Kind::String => Ok(value),
        Some(_) => Err(invalid_owned(format!("{name} must be a string"))),
        None => Err(invalid_owned(format!("{name} is missing"))),
    }
}

/// A required object parameter.
pub(super) fn object<'d>(params: Option<Value<'d>>, name: &str) -> Result<Value<'d>, Fault> {
    match params.and_then(|p| p.get(name)) {
        Some(value) if value.kind() == Kind::Object => Ok(value),
        Some(_) => Err(invalid_owned(format!("{name} must be an object"))),
        None => Err(invalid_owned(format!("{name} is missing"))),
    }
}

fn optional_object(params: Option<Value<'_>>, name: &str) -> Result<Option<NodeId>, Fault> {
    match params.and_then(|p| p.get(name)) {
        None => Ok(None),
        Some(value) if value.kind() == Kind::Object => Ok(Some(value.id())),
        Some(_) => Err(invalid_owned(format!("{name} must be an object"))),
    }
}

/// An object whose values are strings, as prompts and completion contexts have them.
fn string_map(params: Option<Value<'_>>, name: &str) -> Result<Option<NodeId>, Fault> {
    let map = optional_object(params, name)?;
    if map.is_some() {
        let members = params.and_then(|p| p.get(name)).map(Value::members);
        for (key, value) in members.into_iter().flatten() {
            if value.kind() != Kind::String {
                return Err(invalid_owned(format!("{name}.{key} must be a string")));
            }
        }
    }
    Ok(map)
}

/// Client capabilities: presence is support, unknown members are ignored.
///
/// `elicitation: {}` means forms only (client/elicitation, 2025-11-25 and 2026-07-28).
pub(super) fn capabilities(declared: Value<'_>) -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::default();
    for (name, value) in declared.members() {
        if value.kind() != Kind::Object {
            continue;
        }
        match name {
            "roots" => capabilities.roots = true,
            "sampling" => {
                capabilities.sampling = true;
                capabilities.sampling_tools = value.get("tools").is_some();
            }
            "elicitation" => {
                capabilities.url = value.get("url").is_some();
                capabilities.form = value.get("form").is_some() || !capabilities.url;
            }
            _ => {}
        }
    }
    capabilities
}

/// The progress token of a request's `_meta`.
///
/// # Errors
/// A token that is neither a string nor an integer (basic/utilities/progress).
pub(super) fn progress_token(meta: Option<Value<'_>>) -> Result<Option<NodeId>, Fault> {
    match meta.and_then(|m| m.get("progressToken")) {
        None => Ok(None),
        Some(token) if crate::rpc::is_id(token) => Ok(Some(token.id())),
        Some(_) => Err(invalid("progressToken must be a string or an integer")),
    }
}

pub(super) fn invalid(message: &'static str) -> Fault {
    Fault::InvalidParams(message.into())
}

#[cold]
fn invalid_owned(message: String) -> Fault {
    Fault::InvalidParams(message.into())
}
