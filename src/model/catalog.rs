//! Descriptors of tools, resources, resource templates and prompts.
//!
//! Descriptors are data; handlers are registered beside them. Schemas are stored as the JSON that
//! the program gave. The fields follow MCP server/tools, server/resources and server/prompts
//! (2026-07-28). `era` omits fields that an older revision does not have.

use crate::json::Json;

#[cfg(feature = "tasks")]
use super::task::TaskSupport;
pub use super::tool_hints::ToolHints;
use super::uri_template::{TemplateError, UriTemplate};

/// An icon for hosts that show one (MCP basic/index, icons).
///
/// ```
/// use tinymcp::{Icon, Tool};
///
/// let tool = Tool::new("lamp").icon(Icon::new("https://board.example/lamp.svg"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: String,
    /// Media type.
    pub mime_type: Option<String>,
    /// Sizes such as `48x48` or `any`.
    pub sizes: Vec<String>,
    /// `light` or `dark`.
    pub theme: Option<String>,
}

impl Icon {
    /// Creates an icon at this URI.
    pub fn new(src: impl Into<String>) -> Icon {
        Icon { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }
}

/// A tool's description.
///
/// [`Server::tool`](crate::Server::tool) registers it with its handler. Clients receive it in the
/// list of tools.
///
/// ```
/// use tinymcp::{Server, Tool};
///
/// tinymcp::record! {
///     struct Pin { pin: u8 [0..=27] }
/// }
///
/// let mut server = Server::new("board", "1.0.0");
/// let read = Tool::new("pin_read")
///     .title("Read a pin")
///     .description("Returns `high` or `low` for one pin of the board")
///     .read_only();
/// server.tool(read, |_, input: Pin| Ok(if input.pin == 4 { "high" } else { "low" }))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
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
    /// Effects of the tool. Do not trust them if the server is untrusted.
    pub hints: ToolHints,
    /// Icons.
    pub icons: Vec<Icon>,
    /// `_meta`: more data for programs, an object.
    pub meta: Option<Json>,
    /// The whole description as the server sent it; `None` for one that this program created.
    pub source: Option<Json>,
    /// Scopes that a call over HTTP requires.
    #[cfg(feature = "http-server")]
    pub(crate) scopes: Vec<String>,
    /// States whether calls run as tasks.
    #[cfg(feature = "tasks")]
    pub(crate) task: TaskSupport,
    /// The handler creates the task itself.
    #[cfg(feature = "tasks")]
    pub(crate) task_on_demand: bool,
}

impl Tool {
    /// Creates a tool with this name: 1 to 128 characters of `A-Z a-z 0-9 _ . -`. Some hosts accept
    /// at most 64.
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
            #[cfg(feature = "http-server")]
            scopes: Vec::new(),
            #[cfg(feature = "tasks")]
            task: TaskSupport::Forbidden,
            #[cfg(feature = "tasks")]
            task_on_demand: false,
        }
    }

    /// Sets the name for people.
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

    /// Sets the JSON Schema of the arguments, an object with `"type":"object"`. The default is
    /// [`ToolArguments::schema`](crate::ToolArguments::schema) of the handler's argument type.
    ///
    /// With the feature `schema`, or a compiler of
    /// [`Server::schema_compiler`](crate::Server::schema_compiler), the server validates arguments
    /// and their known formats before the handler runs. With neither, it validates neither the
    /// schema nor the arguments. Clients then receive an invalid schema unchanged, and a handler
    /// that takes [`Json`] must accept any object.
    #[must_use]
    pub fn input_schema(mut self, schema: Json) -> Tool {
        self.input_schema = Some(schema);
        self
    }

    /// Sets the JSON Schema of the structured result. Results are validated under the same
    /// conditions as arguments.
    #[must_use]
    pub fn output_schema(mut self, schema: Json) -> Tool {
        self.output_schema = Some(schema);
        self
    }

    /// Marks the tool as read-only.
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

    /// Adds an icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Tool {
        self.icons.push(icon);
        self
    }

    /// Requires scopes of a call over HTTP, separated by spaces; may be repeated. A call whose
    /// token lacks one of them gets 403 with the challenge `insufficient_scope`, which names all
    /// scopes of the tool. The handler does not run. The token check states the scopes
    /// ([`Principal::scopes`](crate::Principal::scopes)), so without one every call over HTTP is
    /// rejected. Over stdio and other links scopes have no effect: the process at the other end
    /// has the rights of the user who started the server.
    #[cfg(feature = "http-server")]
    #[must_use]
    pub fn requires_scope(mut self, scopes: &str) -> Tool {
        self.scopes.extend(scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned));
        self
    }

    /// Sets `_meta`: more data for programs, an object whose names have a prefix of your own (MCP
    /// basic/index, _meta). Registration rejects a value that
    /// [`ToolOutput::meta`](crate::ToolOutput::meta) would not send.
    #[must_use]
    pub fn meta(mut self, meta: Json) -> Tool {
        self.meta = Some(meta);
        self
    }
}

/// Audience and priority of a resource or a block of content (MCP server/resources, annotations).
///
/// ```
/// use tinymcp::{Annotations, Content};
///
/// let for_the_user = Annotations {
///     audience: vec!["user".to_owned()],
///     priority: Some(0.2),
///     ..Annotations::default()
/// };
/// let note = Content::text("3 files were skipped").annotated(for_the_user);
/// ```
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
///
/// ```
/// use tinymcp::{Resource, Server};
///
/// let mut server = Server::new("board", "1.0.0");
/// let log = Resource::new("file:///var/log/board.log", "board.log")
///     .description("Log of the last boot")
///     .mime_type("text/plain");
/// server.resource(log, |_, _uri| Ok(std::fs::read_to_string("/var/log/board.log")?))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resource {
    /// Its URI.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// Description of its contents.
    pub description: Option<String>,
    /// Media type of its contents.
    pub mime_type: Option<String>,
    /// Size of its contents in bytes.
    pub size: Option<u64>,
    /// Audience and priority.
    pub annotations: Option<Annotations>,
    /// Icons.
    pub icons: Vec<Icon>,
    /// `_meta`: more data for programs, an object.
    pub meta: Option<Json>,
    /// The whole description as the server sent it; `None` for one that this program created.
    pub source: Option<Json>,
}

impl Resource {
    /// Creates a resource at this URI.
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

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Resource {
        self.title = Some(title.into());
        self
    }

    /// Sets the description of its contents.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Resource {
        self.description = Some(text.into());
        self
    }

    /// Sets the media type of its contents.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Resource {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the size of its contents in bytes.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Resource {
        self.size = Some(bytes);
        self
    }

    /// Sets audience and priority.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Resource {
        self.annotations = Some(annotations);
        self
    }

    /// Adds an icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Resource {
        self.icons.push(icon);
        self
    }

    /// Sets `_meta`, as [`Tool::meta`] does.
    #[must_use]
    pub fn meta(mut self, meta: Json) -> Resource {
        self.meta = Some(meta);
        self
    }
}

/// A family of resources: a URI template (RFC 6570, levels 1 to 3) and its description.
///
/// ```
/// use tinymcp::{Server, Template, ToolError};
///
/// let mut server = Server::new("board", "1.0.0");
/// let pins = Template::new("gpio://pin/{number}", "pin")?.description("State of one pin");
/// server.template(pins, |_, uri, variables| match variables.get("number") {
///     Some("4") => Ok("high"),
///     _ => Err(ToolError::not_found(uri)),
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Template {
    pub(crate) uri: UriTemplate,
    /// Name of the family of resources.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// Description of the contents of its resources.
    pub description: Option<String>,
    /// Media type, if it is the same for all of them.
    pub mime_type: Option<String>,
    /// Audience and priority.
    pub annotations: Option<Annotations>,
    /// Icons.
    pub icons: Vec<Icon>,
    /// `_meta`: more data for programs, an object.
    pub meta: Option<Json>,
    /// The whole description as the server sent it; `None` for one that this program created.
    pub source: Option<Json>,
}

impl Template {
    /// Creates a family of resources from a URI template and a name.
    ///
    /// # Errors
    /// [`TemplateError`] has the kind and the position of the error.
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

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Template {
        self.title = Some(title.into());
        self
    }

    /// Returns the template itself, to expand it.
    pub fn uri_template(&self) -> &UriTemplate {
        &self.uri
    }

    /// Sets the description of the contents of its resources.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Template {
        self.description = Some(text.into());
        self
    }

    /// Sets the media type, if it is the same for all of them.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Template {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets audience and priority.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Template {
        self.annotations = Some(annotations);
        self
    }

    /// Adds an icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Template {
        self.icons.push(icon);
        self
    }

    /// Sets `_meta`, as [`Tool::meta`] does.
    #[must_use]
    pub fn meta(mut self, meta: Json) -> Template {
        self.meta = Some(meta);
        self
    }
}

/// A prompt's description.
///
/// ```
/// use tinymcp::{Argument, Prompt, PromptOutput, Server};
///
/// let mut server = Server::new("review", "1.0.0");
/// let review = Prompt::new("review")
///     .description("Reviews a change")
///     .argument(Argument::required("diff").description("The change as a unified diff"))
///     .argument(Argument::optional("focus"));
/// server.prompt(review, |_, arguments| {
///     let focus = arguments.get("focus").unwrap_or("correctness");
///     let text = format!("Review this change for {focus}:\n{}", arguments.required("diff")?);
///     Ok(PromptOutput::new().user(text))
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prompt {
    /// Its unique name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// Description of its purpose.
    pub description: Option<String>,
    /// Arguments, in display order.
    pub arguments: Vec<Argument>,
    /// Icons.
    pub icons: Vec<Icon>,
    /// `_meta`: more data for programs, an object.
    pub meta: Option<Json>,
    /// The whole description as the server sent it; `None` for one that this program created.
    pub source: Option<Json>,
}

/// An argument of a prompt; its value is always a string. See [`Prompt`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Argument {
    /// Its unique name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// Description of the expected value.
    pub description: Option<String>,
    /// A prompt request without this argument is rejected.
    pub required: bool,
}

impl Argument {
    /// Creates an optional argument.
    pub fn optional(name: impl Into<String>) -> Argument {
        Argument { name: name.into(), title: None, description: None, required: false }
    }

    /// Creates a required argument: a prompt request without it is rejected.
    pub fn required(name: impl Into<String>) -> Argument {
        Argument { required: true, ..Argument::optional(name) }
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Argument {
        self.title = Some(title.into());
        self
    }

    /// Sets the description of the expected value.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Argument {
        self.description = Some(text.into());
        self
    }
}

impl Prompt {
    /// Creates a prompt with this name.
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

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Prompt {
        self.title = Some(title.into());
        self
    }

    /// Sets the description of its purpose.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Prompt {
        self.description = Some(text.into());
        self
    }

    /// Adds an argument. Hosts show arguments in this order.
    #[must_use]
    pub fn argument(mut self, argument: Argument) -> Prompt {
        self.arguments.push(argument);
        self
    }

    /// Adds an icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Prompt {
        self.icons.push(icon);
        self
    }

    /// Sets `_meta`, as [`Tool::meta`] does.
    #[must_use]
    pub fn meta(mut self, meta: Json) -> Prompt {
        self.meta = Some(meta);
        self
    }
}

/// Tool descriptors as a catalog for the lint.
#[cfg(feature = "lint")]
mod linted {
    use std::borrow::Cow;

    use super::Tool;
    use crate::json::Writer;
    use crate::lint::{Snapshot, Tools};

    impl<T: AsRef<[Tool]> + ?Sized> Tools for T {
        fn snapshot(&self) -> Cow<'_, Snapshot> {
            let mut w = Writer::new();
            w.begin_array();
            for tool in self.as_ref() {
                w.begin_object().key("name").string(&tool.name);
                for (name, text) in [("title", &tool.title), ("description", &tool.description)] {
                    if let Some(text) = text {
                        w.key(name).string(text);
                    }
                }
                w.key("inputSchema");
                match &tool.input_schema {
                    Some(schema) => w.json(schema),
                    // A server sends this for a tool without arguments.
                    None => w.raw("{\"type\":\"object\"}"),
                };
                if let Some(schema) = &tool.output_schema {
                    w.key("outputSchema").json(schema);
                }
                w.end_object();
            }
            w.end_array();
            Cow::Owned(Snapshot::of_array(&w.into_json()))
        }
    }

    impl Tools for Tool {
        fn snapshot(&self) -> Cow<'_, Snapshot> {
            Cow::Owned(std::slice::from_ref(self).snapshot().into_owned())
        }
    }
}
