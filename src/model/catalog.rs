//! What a server offers: tools, resources, resource templates and prompts, as they are described
//! to clients.
//!
//! Descriptors are data: a name, words for people and models, schemas kept as the JSON they were
//! given as. Handlers are registered beside them. The fields follow MCP server/tools,
//! server/resources and server/prompts (2026-07-28); what an older revision does not know, its
//! era leaves out.

use crate::json::Json;

use super::uri_template::{TemplateError, UriTemplate};

/// A picture of something, for hosts that show one (MCP basic/index, icons).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: String,
    /// Media type.
    pub mime_type: Option<String>,
    /// Such as `48x48` or `any`.
    pub sizes: Vec<String>,
    /// `light` or `dark`.
    pub theme: Option<String>,
}

impl Icon {
    /// A picture at this URI.
    pub fn new(src: impl Into<String>) -> Icon {
        Icon { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }
}

/// Effects of a tool; hints that clients may show (MCP server/tools, annotations).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// Changes nothing. Clients assume `false`.
    pub read_only: Option<bool>,
    /// May destroy something. Clients assume `true`.
    pub destructive: Option<bool>,
    /// Calling it twice is the same as calling it once. Clients assume `false`.
    pub idempotent: Option<bool>,
    /// Reaches beyond this machine. Clients assume `true`.
    pub open_world: Option<bool>,
}

/// A tool's description.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tool {
    /// Its unique name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// Description for the model.
    pub description: Option<String>,
    /// The arguments' JSON Schema.
    pub input_schema: Option<Json>,
    /// The JSON Schema of the structured result.
    pub output_schema: Option<Json>,
    /// Effects of the tool. From an untrusted server these are mere claims.
    pub hints: ToolHints,
    /// Pictures.
    pub icons: Vec<Icon>,
    /// More for programs, an object.
    pub meta: Option<Json>,
    /// The whole description as the server sent it; nothing for one that was made here.
    pub source: Option<Json>,
}

impl Tool {
    /// A tool with this name: 1 to 128 characters of `A-Z a-z 0-9 _ . -`. Some hosts accept no more
    /// than 64.
    pub fn new(name: impl Into<String>) -> Tool {
        Tool {
            name: name.into(),
            title: None,
            description: None,
            input_schema: None,
            output_schema: None,
            hints: ToolHints::default(),
            icons: Vec::new(),
            meta: None,
            source: None,
        }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Tool {
        self.title = Some(title.into());
        self
    }

    /// Sets the description for the model. Every tool should have one.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Tool {
        self.description = Some(text.into());
        self
    }

    /// The JSON Schema of the arguments, an object with `"type":"object"`. Without one the tool has
    /// [`ToolArguments::schema`](crate::ToolArguments::schema) of its handler's argument type.
    ///
    /// With the feature `schema`, or a compiler of
    /// [`Server::schema_compiler`](crate::Server::schema_compiler), arguments are checked against it before the handler runs, known formats included. With neither, nothing
    /// checks the schema or the arguments: an unknown `type` or an invalid pattern is sent to
    /// clients as it is, and a handler that takes [`Json`] must expect any object.
    #[must_use]
    pub fn input_schema(mut self, schema: Json) -> Tool {
        self.input_schema = Some(schema);
        self
    }

    /// The JSON Schema of the structured result; results are held to it under the same conditions.
    #[must_use]
    pub fn output_schema(mut self, schema: Json) -> Tool {
        self.output_schema = Some(schema);
        self
    }

    /// It changes nothing.
    #[must_use]
    pub fn read_only(mut self) -> Tool {
        self.hints.read_only = Some(true);
        self
    }

    /// Sets the hints about the effects of the tool.
    #[must_use]
    pub fn hints(mut self, hints: ToolHints) -> Tool {
        self.hints = hints;
        self
    }

    /// A picture.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Tool {
        self.icons.push(icon);
        self
    }

    /// More for programs, an object whose names carry a prefix of yours (MCP basic/index, _meta).
    /// Registering refuses one that [`ToolOutput::meta`](crate::ToolOutput::meta) would not send.
    #[must_use]
    pub fn meta(mut self, meta: Json) -> Tool {
        self.meta = Some(meta);
        self
    }
}

/// For whom something is meant, and how much it matters (MCP server/resources, annotations).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// `user`, `assistant` or both.
    pub audience: Vec<String>,
    /// From 0 (optional) to 1 (required).
    pub priority: Option<f64>,
    /// ISO 8601.
    pub last_modified: Option<String>,
}

/// A resource's description.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resource {
    /// Its URI.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it holds.
    pub description: Option<String>,
    /// Media type of its contents.
    pub mime_type: Option<String>,
    /// Bytes of its contents.
    pub size: Option<u64>,
    /// For whom it is meant.
    pub annotations: Option<Annotations>,
    /// Pictures.
    pub icons: Vec<Icon>,
    /// More for programs, an object.
    pub meta: Option<Json>,
    /// The whole description as the server sent it; nothing for one that was made here.
    pub source: Option<Json>,
}

impl Resource {
    /// A resource at this URI.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Resource {
        Resource {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            annotations: None,
            icons: Vec::new(),
            meta: None,
            source: None,
        }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Resource {
        self.title = Some(title.into());
        self
    }

    /// What it holds.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Resource {
        self.description = Some(text.into());
        self
    }

    /// Media type of its contents.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Resource {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Bytes of its contents.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Resource {
        self.size = Some(bytes);
        self
    }

    /// For whom it is meant.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Resource {
        self.annotations = Some(annotations);
        self
    }

    /// A picture.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Resource {
        self.icons.push(icon);
        self
    }

    /// More for programs, as with [`Tool::meta`].
    #[must_use]
    pub fn meta(mut self, meta: Json) -> Resource {
        self.meta = Some(meta);
        self
    }
}

/// A family of resources: a URI template (RFC 6570, levels 1 to 3) and its description.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Template {
    pub(crate) uri: UriTemplate,
    /// Name of the family of resources.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What its resources hold.
    pub description: Option<String>,
    /// Media type, where all of them have the same.
    pub mime_type: Option<String>,
    /// For whom they are meant.
    pub annotations: Option<Annotations>,
    /// Pictures.
    pub icons: Vec<Icon>,
    /// More for programs, an object.
    pub meta: Option<Json>,
    /// The whole description as the server sent it; nothing for one that was made here.
    pub source: Option<Json>,
}

impl Template {
    /// Resources whose URIs this template produces.
    ///
    /// # Errors
    /// [`TemplateError`] names what is wrong with the template and where.
    pub fn new(uri_template: &str, name: impl Into<String>) -> Result<Template, TemplateError> {
        Ok(Template::of(UriTemplate::parse(uri_template)?, name.into()))
    }

    pub(crate) fn of(uri: UriTemplate, name: String) -> Template {
        Template {
            uri,
            name,
            title: None,
            description: None,
            mime_type: None,
            annotations: None,
            icons: Vec::new(),
            meta: None,
            source: None,
        }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Template {
        self.title = Some(title.into());
        self
    }

    /// The template itself, to expand it.
    pub fn uri_template(&self) -> &UriTemplate {
        &self.uri
    }

    /// What its resources hold.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Template {
        self.description = Some(text.into());
        self
    }

    /// Media type, where all of them have the same.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Template {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// For whom they are meant.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Template {
        self.annotations = Some(annotations);
        self
    }

    /// A picture.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Template {
        self.icons.push(icon);
        self
    }

    /// More for programs, as with [`Tool::meta`].
    #[must_use]
    pub fn meta(mut self, meta: Json) -> Template {
        self.meta = Some(meta);
        self
    }
}

/// A prompt's description.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prompt {
    /// Its unique name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Arguments, in display order.
    pub arguments: Vec<Argument>,
    /// Pictures.
    pub icons: Vec<Icon>,
    /// More for programs, an object.
    pub meta: Option<Json>,
    /// The whole description as the server sent it; nothing for one that was made here.
    pub source: Option<Json>,
}

/// An argument of a prompt; its value is always a string.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Argument {
    /// Its unique name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What to put there.
    pub description: Option<String>,
    /// The prompt is refused without it.
    pub required: bool,
}

impl Argument {
    /// An argument that may be left out.
    pub fn optional(name: impl Into<String>) -> Argument {
        Argument { name: name.into(), title: None, description: None, required: false }
    }

    /// An argument without which the prompt is refused.
    pub fn required(name: impl Into<String>) -> Argument {
        Argument { required: true, ..Argument::optional(name) }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Argument {
        self.title = Some(title.into());
        self
    }

    /// What to put there.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Argument {
        self.description = Some(text.into());
        self
    }
}

impl Prompt {
    /// A prompt with this name.
    pub fn new(name: impl Into<String>) -> Prompt {
        Prompt {
            name: name.into(),
            title: None,
            description: None,
            arguments: Vec::new(),
            icons: Vec::new(),
            meta: None,
            source: None,
        }
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Prompt {
        self.title = Some(title.into());
        self
    }

    /// What it is for.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Prompt {
        self.description = Some(text.into());
        self
    }

    /// An argument, in the order in which hosts show them.
    #[must_use]
    pub fn argument(mut self, argument: Argument) -> Prompt {
        self.arguments.push(argument);
        self
    }

    /// A picture.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Prompt {
        self.icons.push(icon);
        self
    }

    /// More for programs, as with [`Tool::meta`].
    #[must_use]
    pub fn meta(mut self, meta: Json) -> Prompt {
        self.meta = Some(meta);
        self
    }
}
