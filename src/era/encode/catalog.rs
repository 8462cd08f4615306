//! Encoding of descriptors: tools, resources, templates, prompts, implementations.

use crate::json::Writer;
use crate::model::Identity;
use crate::model::catalog::{Annotations, Icon, Prompt, Resource, Template, Tool, ToolHints};

use super::super::version::Features;

/// Writes a tool. `outputSchema` is written only in revisions that have it.
pub(in crate::era) fn tool(w: &mut Writer, features: &Features, tool: &Tool) {
    w.begin_object();
    w.key("name").string(&tool.name);
    named(w, features, &tool.title, &tool.description);
    w.key("inputSchema");
    match &tool.input_schema {
        Some(schema) => w.json(schema),
        None => w.raw("{\"type\":\"object\"}"),
    };
    if let Some(schema) = tool.output_schema.as_ref().filter(|_| features.structured) {
        if features.any_structured || has_object_type(schema.as_str()) {
            w.key("outputSchema").json(schema);
        }
    }
    if features.annotations && tool.hints != ToolHints::default() {
        w.key("annotations").begin_object();
        let hints = [
            ("readOnlyHint", tool.hints.read_only),
            ("destructiveHint", tool.hints.destructive),
            ("idempotentHint", tool.hints.idempotent),
            ("openWorldHint", tool.hints.open_world),
        ];
        for (name, hint) in hints {
            if let Some(hint) = hint {
                w.key(name).bool(hint);
            }
        }
        w.end_object();
    }
    #[cfg(feature = "tasks")]
    if features.task_support {
        super::super::task::support(w, tool.task);
    }
    icons(w, features, &tool.icons);
    meta(w, features, &tool.meta);
    // The server that runs a tool decides about tasks, so the member `execution` of another server
    // is not passed on.
    others(w, &tool.source, &["inputSchema", "outputSchema", "execution"]);
    w.end_object();
}

/// Copies the unknown members of another server's descriptor. `own` lists the known members of this
/// kind of descriptor, in addition to the common ones.
fn others(w: &mut Writer, source: &Option<crate::json::Json>, own: &[&str]) {
    const COMMON: [&str; 6] = ["name", "title", "description", "annotations", "icons", "_meta"];
    let Some(source) = source else { return };
    for (name, value) in source.to_doc().root().members() {
        if !COMMON.contains(&name) && !own.contains(&name) {
            w.key(name).raw(value.raw());
        }
    }
}

/// Returns `true` if a schema's root has `"type":"object"`, which older revisions require of an
/// output schema (2025-06-18, 2025-11-25 server/tools).
fn has_object_type(schema: &str) -> bool {
    let doc = crate::json::Doc::parse(schema.as_bytes());
    doc.is_ok_and(|d| d.root().get("type").and_then(|t| t.as_str()) == Some("object"))
}

/// Writes a resource, which is also the body of a resource link.
pub(in crate::era) fn resource(w: &mut Writer, features: &Features, resource: &Resource) {
    w.begin_object();
    resource_members(w, features, resource);
    others(w, &resource.source, &["uri", "mimeType", "size", "type"]);
    w.end_object();
}

pub(super) fn resource_members(w: &mut Writer, features: &Features, resource: &Resource) {
    w.key("uri").string(&resource.uri);
    w.key("name").string(&resource.name);
    named(w, features, &resource.title, &resource.description);
    optional(w, "mimeType", &resource.mime_type);
    if let Some(size) = resource.size {
        w.key("size").u64(size);
    }
    annotations(w, features, resource.annotations.as_ref());
    icons(w, features, &resource.icons);
    meta(w, features, &resource.meta);
}

pub(in crate::era) fn template(w: &mut Writer, features: &Features, template: &Template) {
    w.begin_object();
    w.key("uriTemplate").string(template.uri.as_str());
    w.key("name").string(&template.name);
    named(w, features, &template.title, &template.description);
    optional(w, "mimeType", &template.mime_type);
    annotations(w, features, template.annotations.as_ref());
    icons(w, features, &template.icons);
    meta(w, features, &template.meta);
    others(w, &template.source, &["uriTemplate", "mimeType"]);
    w.end_object();
}

pub(in crate::era) fn prompt(w: &mut Writer, features: &Features, prompt: &Prompt) {
    w.begin_object();
    w.key("name").string(&prompt.name);
    named(w, features, &prompt.title, &prompt.description);
    if !prompt.arguments.is_empty() {
        w.key("arguments").begin_array();
        for argument in &prompt.arguments {
            w.begin_object();
            w.key("name").string(&argument.name);
            named(w, features, &argument.title, &argument.description);
            if argument.required {
                w.key("required").bool(true);
            }
            w.end_object();
        }
        w.end_array();
    }
    icons(w, features, &prompt.icons);
    meta(w, features, &prompt.meta);
    others(w, &prompt.source, &["arguments"]);
    w.end_object();
}

/// Writes the identity of a server or client (`Implementation`).
pub(in crate::era) fn implementation(w: &mut Writer, features: &Features, identity: &Identity) {
    w.begin_object();
    w.key("name").string(&identity.name);
    w.key("version").string(&identity.version);
    if features.titles {
        optional(w, "title", &identity.title);
    }
    if features.icons {
        optional(w, "description", &identity.description);
        optional(w, "websiteUrl", &identity.website);
        icons(w, features, &identity.icons);
    }
    w.end_object();
}

fn named(w: &mut Writer, features: &Features, title: &Option<String>, description: &Option<String>) {
    if features.titles {
        optional(w, "title", title);
    }
    optional(w, "description", description);
}

pub(in crate::era) fn optional(w: &mut Writer, name: &str, text: &Option<String>) {
    if let Some(text) = text {
        w.key(name).string(text);
    }
}

pub(super) fn annotations(w: &mut Writer, features: &Features, annotations: Option<&Annotations>) {
    let Some(annotations) = annotations else { return };
    w.key("annotations").begin_object();
    if !annotations.audience.is_empty() {
        w.key("audience").begin_array();
        for who in &annotations.audience {
            w.string(who);
        }
        w.end_array();
    }
    if let Some(priority) = annotations.priority {
        w.key("priority").f64(priority);
    }
    if features.titles {
        optional(w, "lastModified", &annotations.last_modified);
    }
    w.end_object();
}

pub(in crate::era) fn icons(w: &mut Writer, features: &Features, icons: &[Icon]) {
    if icons.is_empty() || !features.icons {
        return;
    }
    w.key("icons").begin_array();
    for icon in icons {
        w.begin_object();
        w.key("src").string(&icon.src);
        optional(w, "mimeType", &icon.mime_type);
        if !icon.sizes.is_empty() {
            w.key("sizes").begin_array();
            for size in &icon.sizes {
                w.string(size);
            }
            w.end_array();
        }
        optional(w, "theme", &icon.theme);
        w.end_object();
    }
    w.end_array();
}

pub(super) fn meta(w: &mut Writer, features: &Features, meta: &Option<crate::json::Json>) {
    if let Some(meta) = meta.as_ref().filter(|_| features.titles) {
        w.key("_meta").json(meta);
    }
}
