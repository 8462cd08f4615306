//! Content blocks and the results of tools, resources, prompts and completion.
//!
//! Shapes follow MCP server/tools (tool result), server/resources (reading), server/prompts
//! (getting) and server/utilities/completion, 2026-07-28. Binary data is held as bytes here and
//! becomes base64 (RFC 4648 §4) when written.

use crate::json::{Json, ToJson, Writer};

use super::catalog::{Annotations, Resource};

/// One block of content.
///
/// ```
/// use tinymcp::{Content, Resource, ToolOutput};
///
/// let output = ToolOutput::new()
///     .content(Content::text("Two frames of the camera:"))
///     .content(Content::image(b"\x89PNG".as_slice(), "image/png"))
///     .content(Content::resource_link(Resource::new("camera://frame/2", "frame 2")));
/// assert_eq!(output.content[0].as_text(), Some("Two frames of the camera:"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Content {
    /// Plain text.
    Text(String),
    /// An image.
    Image {
        /// Its bytes.
        data: Vec<u8>,
        /// Media type.
        mime_type: String,
    },
    /// A sound.
    Audio {
        /// Its bytes.
        data: Vec<u8>,
        /// Media type.
        mime_type: String,
    },
    /// A resource the client may read.
    ResourceLink(Box<Resource>),
    /// A resource's contents, embedded.
    Embedded(ResourceContents),
    /// Another block, with annotations and `_meta`.
    Annotated {
        /// The block. Of nested annotated blocks, the innermost annotations apply.
        content: Box<Content>,
        /// Audience and priority.
        annotations: Option<Annotations>,
        /// `_meta`: an object without reserved names, see [`ToolOutput::meta`].
        meta: Option<Json>,
    },
    /// A block of an unknown type, as received.
    Other(Json),
}

impl Content {
    /// Creates a block of plain text.
    pub fn text(text: impl Into<String>) -> Content {
        Content::Text(text.into())
    }

    /// Creates a block with an image of this media type.
    pub fn image(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Content {
        Content::Image { data: data.into(), mime_type: mime_type.into() }
    }

    /// Creates a block with a sound of this media type.
    pub fn audio(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Content {
        Content::Audio { data: data.into(), mime_type: mime_type.into() }
    }

    /// Creates a block with a resource that the client may read.
    pub fn resource_link(resource: Resource) -> Content {
        Content::ResourceLink(Box::new(resource))
    }

    /// Creates a block with the contents of a resource, text or bytes (MCP 2026-07-28 server/tools,
    /// embedded resources): `Content::embedded(ResourceContents::text("file:///a.txt", "…"))`.
    pub fn embedded(contents: ResourceContents) -> Content {
        Content::Embedded(contents)
    }

    /// Returns the text of a text block, annotated or not.
    pub fn as_text(&self) -> Option<&str> {
        let mut block = self;
        // The protocol has no nested annotated blocks, but a program may build one.
        while let Content::Annotated { content, .. } = block {
            block = content;
        }
        match block {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Adds annotations: audience and priority.
    #[must_use]
    pub fn annotated(self, annotations: Annotations) -> Content {
        Content::Annotated { content: Box::new(self), annotations: Some(annotations), meta: None }
    }
}

/// Contents of one resource.
///
/// A handler may also return a `String`, a `Vec<u8>` or a [`Json`], which get the requested URI.
/// Use this type for another URI or media type:
///
/// ```
/// use tinymcp::{Resource, ResourceContents, Server};
///
/// let mut server = Server::new("notes", "1.0.0");
/// server.resource(Resource::new("notes://all", "all notes"), |_, _uri| {
///     let text = ResourceContents::text("notes://1", "# Milk").mime_type("text/markdown");
///     let photo = ResourceContents::bytes("notes://1/photo", b"\x89PNG".as_slice());
///     Ok(vec![text, photo.mime_type("image/png")])
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceContents {
    /// Its URI.
    pub uri: String,
    /// Media type.
    pub mime_type: Option<String>,
    /// Text or bytes.
    pub body: Body,
    /// `_meta`: an object with data for programs.
    pub meta: Option<Json>,
}

/// Text or bytes. It is a field of [`ResourceContents`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Bytes; on the wire they are base64.
    Bytes(Vec<u8>),
}

impl ResourceContents {
    /// Creates text contents at this URI.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> ResourceContents {
        ResourceContents { uri: uri.into(), mime_type: None, body: Body::Text(text.into()), meta: None }
    }

    /// Creates binary contents at this URI.
    pub fn bytes(uri: impl Into<String>, bytes: impl Into<Vec<u8>>) -> ResourceContents {
        ResourceContents { uri: uri.into(), mime_type: None, body: Body::Bytes(bytes.into()), meta: None }
    }

    /// Sets the media type.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> ResourceContents {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets `_meta`: an object without reserved names, see [`ToolOutput::meta`].
    #[must_use]
    pub fn meta(mut self, meta: Json) -> ResourceContents {
        self.meta = Some(meta);
        self
    }
}

/// A tool's result.
///
/// A handler may also return text, [`Json`] or a type of [`record!`](crate::record!); the library
/// converts it. Return this type for several blocks, or for an error with structured data:
///
/// ```
/// use tinymcp::{Content, Server, Tool, ToolOutput, json};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tool(Tool::new("self_test"), |_, ()| {
///     let mut output = ToolOutput::structured(json!({"passed": 11, "failed": 1}));
///     output.is_error = true;
///     Ok(output.content(Content::text("the flash memory is worn")))
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// Blocks for the model.
    pub content: Vec<Content>,
    /// The structured result. `Some` of JSON `null` is a result.
    pub structured: Option<Json>,
    /// The call failed; the text states the reason for the model.
    pub is_error: bool,
    /// `_meta`: an object with data for programs.
    pub meta: Option<Json>,
}

impl ToolOutput {
    /// Creates an empty result.
    pub fn new() -> ToolOutput {
        ToolOutput::default()
    }

    /// Creates a result with one block of text.
    pub fn text(text: impl Into<String>) -> ToolOutput {
        ToolOutput { content: vec![Content::Text(text.into())], ..ToolOutput::default() }
    }

    /// Creates a structured result. If the result has no other content, its JSON is also sent as
    /// text, for clients that do not read structured results.
    pub fn structured(value: Json) -> ToolOutput {
        ToolOutput { structured: Some(value), ..ToolOutput::default() }
    }

    /// Creates the result of a failed call. State the reason and an alternative for the model.
    pub fn failed(text: impl Into<String>) -> ToolOutput {
        ToolOutput { is_error: true, ..ToolOutput::text(text) }
    }

    /// Returns the texts of all text blocks, joined by newlines.
    pub fn texts(&self) -> String {
        let mut all = String::new();
        for text in self.content.iter().filter_map(Content::as_text) {
            if !all.is_empty() {
                all.push('\n');
            }
            all.push_str(text);
        }
        all
    }

    /// Appends a block.
    #[must_use]
    pub fn content(mut self, content: Content) -> ToolOutput {
        self.content.push(content);
        self
    }

    /// Sets `_meta`, an object. If it is not an object, or has a duplicate or reserved name, the
    /// client gets an internal error instead of the result. A name is reserved if the second label
    /// of its prefix is `modelcontextprotocol` or `mcp` (MCP 2026-07-28 basic/index, `_meta`).
    /// Exception: `io.modelcontextprotocol/serverInfo` is removed, so that a handler can return a
    /// result of another server.
    #[must_use]
    pub fn meta(mut self, meta: Json) -> ToolOutput {
        self.meta = Some(meta);
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> ToolOutput {
        ToolOutput::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> ToolOutput {
        ToolOutput::text(text)
    }
}

impl From<Content> for ToolOutput {
    fn from(content: Content) -> ToolOutput {
        ToolOutput::new().content(content)
    }
}

impl From<Json> for ToolOutput {
    fn from(value: Json) -> ToolOutput {
        ToolOutput::structured(value)
    }
}

/// A value that becomes a tool's structured result.
///
/// Types of [`record!`](crate::record!) need no wrapper. Other types do, such as numbers, lists and
/// maps. They implement [`ToJson`], and [`FromJson`](crate::record::FromJson) for the schema:
///
/// ```
/// use tinymcp::{Server, Structured, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tool(Tool::new("pins"), |_, ()| Ok(Structured(vec![4, 17, 27])))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structured<T>(pub T);

impl<T: ToJson> From<Structured<T>> for ToolOutput {
    fn from(value: Structured<T>) -> ToolOutput {
        let mut w = Writer::new();
        value.0.write_json(&mut w);
        ToolOutput::structured(w.into_json())
    }
}

/// Result of reading a resource: usually one piece, several for a folder.
///
/// A handler returns anything that converts to it: text, bytes, [`Json`], or [`ResourceContents`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOutput {
    /// The pieces.
    pub contents: Vec<ResourceContents>,
}

impl From<ResourceContents> for ReadOutput {
    fn from(contents: ResourceContents) -> ReadOutput {
        ReadOutput { contents: vec![contents] }
    }
}

/// Text with the requested URI and the registered media type.
impl From<String> for ReadOutput {
    fn from(text: String) -> ReadOutput {
        ResourceContents::text("", text).into()
    }
}

/// Text with the requested URI and the registered media type.
impl From<&str> for ReadOutput {
    fn from(text: &str) -> ReadOutput {
        ResourceContents::text("", text).into()
    }
}

/// Bytes with the requested URI and the registered media type.
impl From<Vec<u8>> for ReadOutput {
    fn from(bytes: Vec<u8>) -> ReadOutput {
        ResourceContents::bytes("", bytes).into()
    }
}

/// JSON with the requested URI.
impl From<Json> for ReadOutput {
    fn from(value: Json) -> ReadOutput {
        ResourceContents::text("", value.as_str()).mime_type("application/json").into()
    }
}

impl ReadOutput {
    /// Fills in a missing URI with the requested one, and a missing media type with that of the
    /// registered resource.
    pub(crate) fn complete(mut self, uri: &str, mime_type: Option<&str>) -> ReadOutput {
        for contents in &mut self.contents {
            if contents.uri.is_empty() {
                contents.uri = uri.to_owned();
            }
            // Contents with another URI may have another media type.
            if contents.uri == uri {
                contents.mime_type = contents.mime_type.take().or_else(|| mime_type.map(str::to_owned));
            }
        }
        self
    }
}

impl From<Vec<ResourceContents>> for ReadOutput {
    fn from(contents: Vec<ResourceContents>) -> ReadOutput {
        ReadOutput { contents }
    }
}

/// Role of the speaker in a prompt or a sampling request.
///
/// See [`PromptOutput`] and [`Sampling`](crate::Sampling).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// A filled-in prompt.
///
/// ```
/// use tinymcp::{Content, PromptOutput, ResourceContents, Role};
///
/// let log = ResourceContents::text("file:///var/log/boot.log", "usb 1-1: reset");
/// let prompt = PromptOutput::new()
///     .description("Explains a log")
///     .message(Role::User, Content::embedded(log))
///     .user("Which of these lines is a fault?");
/// assert_eq!(prompt.messages.len(), 2);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PromptOutput {
    /// Description of the messages.
    pub description: Option<String>,
    /// The messages, each with its role.
    pub messages: Vec<(Role, Content)>,
}

impl PromptOutput {
    /// Creates an empty prompt.
    pub fn new() -> PromptOutput {
        PromptOutput::default()
    }

    /// Sets the description of the messages.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> PromptOutput {
        self.description = Some(text.into());
        self
    }

    /// Appends a message.
    #[must_use]
    pub fn message(mut self, role: Role, content: Content) -> PromptOutput {
        self.messages.push((role, content));
        self
    }

    /// Appends a text message of the user.
    #[must_use]
    pub fn user(self, text: impl Into<String>) -> PromptOutput {
        self.message(Role::User, Content::text(text))
    }

    /// Appends a text message of the model.
    #[must_use]
    pub fn assistant(self, text: impl Into<String>) -> PromptOutput {
        self.message(Role::Assistant, Content::text(text))
    }
}

/// Completion values of an argument, best first.
///
/// ```
/// use tinymcp::{Argument, Completion, Prompt, PromptOutput, Server};
///
/// let mut server = Server::new("weather", "1.0.0");
/// server.prompt(Prompt::new("forecast").argument(Argument::required("city")), |_, arguments| {
///     Ok(PromptOutput::new().user(format!("Weather in {}?", arguments.required("city")?)))
/// })?;
/// server.complete_prompt("forecast", "city", |request| {
///     Completion::matching(request.value, ["Berlin", "Bern", "Oslo"])
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The values, best first.
    pub values: Vec<String>,
    /// Total number of values, if known.
    pub total: Option<u64>,
    /// More values exist than `values` contains.
    pub more: bool,
}

impl Completion {
    /// Maximum number of values in one response (MCP server/utilities/completion).
    pub const MAX_VALUES: usize = 100;

    /// Creates a completion. Only the first [`Completion::MAX_VALUES`] values are sent; `total`
    /// counts all.
    pub fn new<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Completion {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let count = values.len();
        values.truncate(Completion::MAX_VALUES);
        Completion { more: count > values.len(), total: Some(count as u64), values }
    }

    /// Creates an empty completion.
    pub const fn none() -> Completion {
        Completion { values: Vec::new(), total: Some(0), more: false }
    }

    /// Creates a completion of the values that start with `typed`, ignoring case.
    pub fn matching<S: Into<String>>(typed: &str, values: impl IntoIterator<Item = S>) -> Completion {
        let typed = typed.to_lowercase();
        Completion::new(
            values.into_iter().map(Into::into).filter(|v: &String| v.to_lowercase().starts_with(&typed)),
        )
    }

    /// States that more values exist and that their number is unknown.
    #[must_use]
    pub fn open_ended(mut self) -> Completion {
        self.total = None;
        self.more = true;
        self
    }
}
