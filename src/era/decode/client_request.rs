//! Decoding of requests to the client: elicitation, sampling, roots.
//!
//! Source: MCP client/elicitation, client/sampling, client/roots (2025-06-18 to 2026-07-28).

use crate::json::{Json, Kind, Value};
use crate::model::client_request::{
    Field, FieldKind, Form, InputRequest, SampleResponse, Sampling, SamplingBlock, TitleEncoding, ToolChoice,
    ToolUse,
};
use crate::rpc::{RpcError, code};

use super::catalog::{text, tool};
use super::content::{content, role};

/// Reads a request to the client.
///
/// # Errors
/// The error response to send.
pub(crate) fn read_request(method: &str, params: Option<Value<'_>>) -> Result<InputRequest, RpcError> {
    let wrong = |what| RpcError::new(code::INVALID_PARAMS, what);
    match method {
        "roots/list" => Ok(InputRequest::Roots),
        "elicitation/create" => {
            let params = params.ok_or_else(|| wrong("params are missing"))?;
            let message = text(params, "message").ok_or_else(|| wrong("message must be a string"))?;
            // Without a mode it is a form (client/elicitation, 2025-11-25).
            match params.get("mode").map(Value::as_str) {
                None | Some(Some("form")) => {
                    let form = params.get("requestedSchema").and_then(|schema| form(message, schema));
                    form.map(InputRequest::Form).ok_or_else(|| wrong("requestedSchema is not a valid form"))
                }
                Some(Some("url")) => {
                    let url = text(params, "url").ok_or_else(|| wrong("url must be a string"))?;
                    Ok(InputRequest::Url { message, url })
                }
                Some(_) => Err(wrong("mode must be form or url")),
            }
        }
        "sampling/createMessage" => {
            let sampling = params.and_then(sampling).ok_or_else(|| wrong("invalid sampling request"))?;
            match sampling.unpaired() {
                Some(what) => Err(wrong(what)),
                None => Ok(InputRequest::Sample(Box::new(sampling))),
            }
        }
        _ => {
            let method: String = method.chars().take(100).collect();
            Err(RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}")))
        }
    }
}

fn form(message: String, schema: Value<'_>) -> Option<Form> {
    if schema.kind() != Kind::Object {
        return None;
    }
    let mut form = Form::new(message);
    let required = |name: &str| {
        schema.get("required").into_iter().flat_map(Value::items).any(|r| r.as_str() == Some(name))
    };
    for (name, property) in schema.get("properties").into_iter().flat_map(Value::members) {
        let mut field = Field::new(name, kind(property)?);
        field.title = text(property, "title");
        field.description = text(property, "description");
        field.required = required(name);
        let bounds = match field.kind {
            FieldKind::Text { .. } => ["minLength", "maxLength"],
            FieldKind::MultiSelect { .. } => ["minItems", "maxItems"],
            _ => ["minimum", "maximum"],
        };
        let [least, most] = bounds.map(|bound| property.get(bound).and_then(Value::as_f64));
        (field.min, field.max) = (least, most);
        field.default = property.get("default").map(Value::to_json);
        form.fields.push(field);
    }
    Some(form)
}

fn kind(property: Value<'_>) -> Option<FieldKind> {
    const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];
    Some(match property.get("type")?.as_str()? {
        "string" => match choices(property) {
            Some((options, titles)) => FieldKind::SingleSelect { options, titles },
            None => {
                let format = property.get("format").and_then(Value::as_str);
                FieldKind::Text { format: format.and_then(|f| FORMATS.into_iter().find(|known| *known == f)) }
            }
        },
        "number" => FieldKind::Number,
        "integer" => FieldKind::Integer,
        "boolean" => FieldKind::Bool,
        "array" => FieldKind::MultiSelect { options: choices(property.get("items")?)?.0 },
        _ => return None,
    })
}

/// Reads the choices in any of their forms: `enum`, `enum` with `enumNames`, `oneOf` or `anyOf` of
/// constants with titles.
#[expect(clippy::type_complexity, reason = "a pair of what a field keeps, read in one place")]
fn choices(schema: Value<'_>) -> Option<(Vec<(String, Option<String>)>, TitleEncoding)> {
    if let Some(values) = schema.get("enum") {
        let mut names = schema.get("enumNames").into_iter().flat_map(Value::items);
        let options: Option<Vec<_>> = values
            .items()
            .map(|v| Some((v.as_str()?.to_owned(), names.next().and_then(Value::as_str).map(str::to_owned))))
            .collect();
        return Some((options?, TitleEncoding::EnumNames));
    }
    let titled = schema.get("oneOf").or_else(|| schema.get("anyOf"))?;
    let options: Option<Vec<_>> =
        titled.items().map(|o| Some((text(o, "const")?, text(o, "title")))).collect();
    Some((options?, TitleEncoding::OneOf))
}

fn sampling(params: Value<'_>) -> Option<Sampling> {
    let tokens = params.get("maxTokens")?;
    let tokens = tokens.as_u64().or_else(|| {
        tokens.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0 && *n < 9e15).map(|n| n as u64)
    })?;
    let mut sampling = Sampling::new(u32::try_from(tokens).unwrap_or(u32::MAX));
    for message in params.get("messages").filter(|m| m.kind() == Kind::Array)?.items() {
        let body = message.get("content")?;
        let blocks: Option<Vec<SamplingBlock>> = match body.kind() {
            Kind::Array => body.items().map(block).collect(),
            _ => block(body).map(|b| vec![b]),
        };
        sampling.messages.push((role(message)?, blocks?));
    }
    sampling.system = text(params, "systemPrompt");
    sampling.temperature = params.get("temperature").and_then(Value::as_f64);
    let stop = params.get("stopSequences").into_iter().flat_map(Value::items);
    sampling.stop = stop.filter_map(Value::as_str).map(str::to_owned).collect();
    if let Some(wishes) = params.get("modelPreferences") {
        let hints = wishes.get("hints").into_iter().flat_map(Value::items);
        sampling.hints = hints.filter_map(|h| text(h, "name")).collect();
        sampling.priorities = ["costPriority", "speedPriority", "intelligencePriority"]
            .map(|name| wishes.get(name).and_then(Value::as_f64));
    }
    let tools = params.get("tools").into_iter().flat_map(Value::items);
    sampling.tools = tools.map(tool).collect::<Option<_>>()?;
    sampling.tool_choice = match params.get("toolChoice") {
        None => None,
        Some(choice) => Some(match choice.get("mode").and_then(Value::as_str) {
            None | Some("auto") => ToolChoice::Auto,
            Some("required") => ToolChoice::Required,
            Some("none") => ToolChoice::None,
            Some(_) => return None,
        }),
    };
    sampling.metadata = params.get("metadata").filter(|m| m.kind() == Kind::Object).map(Value::to_json);
    Some(sampling)
}

impl SampleResponse {
    /// Reads a result in the form of the protocol: `model`, `content` and `stopReason`. `None` if
    /// it is something else.
    pub fn from_json(result: &Json) -> Option<SampleResponse> {
        let doc = result.to_doc();
        let content = doc.root().get("content")?;
        let blocks: Option<Vec<SamplingBlock>> = match content.kind() {
            Kind::Array => content.items().map(block).collect(),
            _ => block(content).map(|only| vec![only]),
        };
        let mut response = SampleResponse::new(text(doc.root(), "model")?);
        response.blocks = blocks?;
        response.stop_reason = text(doc.root(), "stopReason");
        Some(response)
    }
}

fn block(value: Value<'_>) -> Option<SamplingBlock> {
    Some(match value.get("type")?.as_str()? {
        "tool_use" => SamplingBlock::ToolUse(ToolUse {
            id: text(value, "id")?,
            name: text(value, "name")?,
            input: value.get("input").filter(|i| i.kind() == Kind::Object)?.to_json(),
        }),
        "tool_result" => SamplingBlock::ToolResult {
            id: text(value, "toolUseId")?,
            content: value.get("content").into_iter().flat_map(Value::items).map(content).collect(),
            is_error: value.get("isError").and_then(Value::as_bool) == Some(true),
        },
        _ => SamplingBlock::Content(content(value)),
    })
}
