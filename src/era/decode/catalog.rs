//! Decoding of descriptors: tools, resources, templates, prompts.

use crate::json::{Kind, Value};
use crate::model::catalog::{Annotations, Argument, Icon, Prompt, Resource, Template, Tool, ToolHints};
use crate::model::uri_template::UriTemplate;

pub(super) fn text(value: Value<'_>, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn object(value: Value<'_>, name: &str) -> Option<crate::json::Json> {
    value.get(name).filter(|v| v.kind() == Kind::Object).map(Value::to_json)
}

/// Reads a tool; `None` without a name or an input schema.
pub(crate) fn tool(value: Value<'_>) -> Option<Tool> {
    let mut tool = Tool::new(text(value, "name")?);
    tool.input_schema = Some(object(value, "inputSchema")?);
    // `outputSchema` may be a boolean.
    tool.output_schema = value.get("outputSchema").filter(|v| !v.is_null()).map(Value::to_json);
    tool.description = text(value, "description");
    let annotations = value.get("annotations");
    // Display names in the order that the specification gives (schema, BaseMetadata).
    tool.title = text(value, "title").or_else(|| annotations.and_then(|a| text(a, "title")));
    if let Some(annotations) = annotations {
        let hint = |name: &str| annotations.get(name).and_then(Value::as_bool);
        tool.hints = ToolHints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        };
    }
    tool.icons = icons(value);
    tool.meta = object(value, "_meta");
    tool.source = Some(value.to_json());
    Some(tool)
}

/// Reads a resource; `None` without a URI. The name defaults to the URI.
pub(crate) fn resource(value: Value<'_>) -> Option<Resource> {
    let uri = text(value, "uri")?;
    let name = text(value, "name").unwrap_or_else(|| uri.clone());
    let mut resource = Resource::new(uri, name);
    resource.title = text(value, "title");
    resource.description = text(value, "description");
    resource.mime_type = text(value, "mimeType");
    resource.size = value.get("size").and_then(Value::as_u64);
    resource.annotations = annotations(value);
    resource.icons = icons(value);
    resource.meta = object(value, "_meta");
    resource.source = Some(value.to_json());
    Some(resource)
}

/// Reads a template; `None` without a template text. A text that does not parse is stored
/// unexpanded ([`UriTemplate::opaque`]).
pub(crate) fn template(value: Value<'_>) -> Option<Template> {
    let uri = value.get("uriTemplate")?.as_str()?;
    let name = text(value, "name").unwrap_or_else(|| uri.to_owned());
    let uri = UriTemplate::parse(uri).unwrap_or_else(|_| UriTemplate::opaque(uri));
    let mut template = Template::of(uri, name);
    template.title = text(value, "title");
    template.description = text(value, "description");
    template.mime_type = text(value, "mimeType");
    template.annotations = annotations(value);
    template.icons = icons(value);
    template.meta = object(value, "_meta");
    template.source = Some(value.to_json());
    Some(template)
}

/// Reads a prompt; `None` without a name.
pub(crate) fn prompt(value: Value<'_>) -> Option<Prompt> {
    let mut prompt = Prompt::new(text(value, "name")?);
    prompt.title = text(value, "title");
    prompt.description = text(value, "description");
    for argument in value.get("arguments").into_iter().flat_map(Value::items) {
        let Some(name) = text(argument, "name") else { continue };
        let required = argument.get("required").and_then(Value::as_bool) == Some(true);
        let mut read = if required { Argument::required(name) } else { Argument::optional(name) };
        read.title = text(argument, "title");
        read.description = text(argument, "description");
        prompt.arguments.push(read);
    }
    prompt.icons = icons(value);
    prompt.meta = object(value, "_meta");
    prompt.source = Some(value.to_json());
    Some(prompt)
}

pub(super) fn icons(value: Value<'_>) -> Vec<Icon> {
    let icons = value.get("icons").into_iter().flat_map(Value::items);
    icons
        .filter_map(|icon| {
            let mut read = Icon::new(text(icon, "src")?);
            read.mime_type = text(icon, "mimeType");
            let sizes = icon.get("sizes").into_iter().flat_map(Value::items);
            read.sizes = sizes.filter_map(Value::as_str).map(str::to_owned).collect();
            read.theme = text(icon, "theme");
            Some(read)
        })
        .collect()
}

pub(super) fn annotations(value: Value<'_>) -> Option<Annotations> {
    let annotations = value.get("annotations").filter(|a| a.kind() == Kind::Object)?;
    let audience = annotations.get("audience").into_iter().flat_map(Value::items);
    Some(Annotations {
        audience: audience.filter_map(Value::as_str).map(str::to_owned).collect(),
        priority: annotations.get("priority").and_then(Value::as_f64),
        last_modified: text(annotations, "lastModified"),
    })
}
