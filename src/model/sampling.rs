//! Sampling: requests for a message of the client's model, with or without tools.
//!
//! Source: MCP client/sampling (2025-11-25, 2026-07-28). The revision 2026-07-28 deprecates
//! sampling; it works in every revision that has it.

use crate::json::{Doc, Json, Kind, Value};
use crate::model::catalog::Tool;
use crate::model::content::{Content, Role};

/// A request for one message of the model.
///
/// ```
/// use tinymcp::{Context, Sampling, ToolError};
///
/// fn summarize(ctx: &mut Context<'_>, text: &str) -> Result<String, ToolError> {
///     let request = Sampling::new(200)
///         .system("You summarize logs in one sentence.")
///         .user(text)
///         .model_hint("haiku")
///         .temperature(0.0);
///     Ok(ctx.sample("summary", request)?.text())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sampling {
    /// The conversation so far.
    pub messages: Vec<(Role, Vec<SamplingBlock>)>,
    /// Maximum number of tokens of the message.
    pub max_tokens: u32,
    /// System prompt.
    pub system: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Stop sequences: texts that end the message.
    pub stop: Vec<String>,
    /// Parts of names of models, in order of preference.
    pub hints: Vec<String>,
    /// Priorities of cost, speed and intelligence, each from 0 to 1.
    pub priorities: [Option<f64>; 3],
    /// Tools that the model may request.
    pub tools: Vec<Tool>,
    /// Rule for the use of tools.
    pub tool_choice: Option<ToolChoice>,
    /// Additional data for the model's provider, an object.
    pub metadata: Option<Json>,
}

/// One block of a sampling message.
///
/// A message of [`Sampling`] and a [`SampleResult`] consist of them.
#[derive(Clone, Debug)]
pub enum SamplingBlock {
    /// Text, a picture or a sound.
    Content(Content),
    /// The model requests a tool call.
    ToolUse(ToolUse),
    /// Result of a tool.
    ToolResult {
        /// Id of the tool use of this result.
        id: String,
        /// Result of the tool.
        content: Vec<Content>,
        /// The tool failed.
        is_error: bool,
    },
}

impl SamplingBlock {
    /// Returns the content: the block itself, or the result of a tool.
    fn contents(&self) -> &[Content] {
        match self {
            SamplingBlock::Content(content) => std::slice::from_ref(content),
            SamplingBlock::ToolResult { content, .. } => content,
            SamplingBlock::ToolUse(_) => &[],
        }
    }
}

/// A tool call that the model requests.
///
/// [`SampleResult::tool_uses`] returns them; see [`ToolChoice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// Id of this tool use.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Its arguments, an object.
    pub input: Json,
}

/// Rule for the model's use of tools.
///
/// ```
/// use tinymcp::{Context, Sampling, Tool, ToolChoice, ToolError, json};
///
/// fn classify(ctx: &mut Context<'_>, text: &str) -> Result<String, ToolError> {
///     let label = Tool::new("label").description("Stores the label").input_schema(json!({
///         "type": "object",
///         "properties": {"label": {"enum": ["fault", "noise"]}},
///         "required": ["label"]
///     }));
///     let request = Sampling::new(100).user(text).tool(label).tool_choice(ToolChoice::Required);
///     let message = ctx.sample("label", request)?;
///     let uses: Vec<String> = message.tool_uses().map(|call| call.input.as_str().to_owned()).collect();
///     Ok(uses.join("\n"))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// The model must use a tool.
    Required,
    /// The model must not use a tool.
    None,
}

impl ToolChoice {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ToolChoice::Auto => "auto",
            ToolChoice::Required => "required",
            ToolChoice::None => "none",
        }
    }
}

impl Sampling {
    /// Creates a request for at most this many tokens.
    pub fn new(max_tokens: u32) -> Sampling {
        Sampling {
            messages: Vec::new(),
            max_tokens,
            system: None,
            temperature: None,
            stop: Vec::new(),
            hints: Vec::new(),
            priorities: [None; 3],
            tools: Vec::new(),
            tool_choice: None,
            metadata: None,
        }
    }

    /// Adds a text message of the user.
    #[must_use]
    pub fn user(self, text: impl Into<String>) -> Sampling {
        self.message(Role::User, [SamplingBlock::Content(Content::text(text))])
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, role: Role, blocks: impl Into<Vec<SamplingBlock>>) -> Sampling {
        self.messages.push((role, blocks.into()));
        self
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Sampling {
        self.system = Some(text.into());
        self
    }

    /// Sets the sampling temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Sampling {
        self.temperature = Some(temperature);
        self
    }

    /// Adds a stop sequence: a text that ends the message.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Sampling {
        self.stop.push(text.into());
        self
    }

    /// Adds a part of a model's name, in order of preference.
    #[must_use]
    pub fn model_hint(mut self, name: impl Into<String>) -> Sampling {
        self.hints.push(name.into());
        self
    }

    /// Sets the priorities of cost, speed and intelligence, each from 0 to 1.
    #[must_use]
    pub fn priorities(
        mut self,
        cost: Option<f64>,
        speed: Option<f64>,
        intelligence: Option<f64>,
    ) -> Sampling {
        self.priorities = [cost, speed, intelligence];
        self
    }

    /// Adds a tool that the model may request. Requires a client that declares `sampling.tools`.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Sampling {
        self.tools.push(tool);
        self
    }

    /// Sets the rule for the model's use of tools.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Sampling {
        self.tool_choice = Some(choice);
        self
    }

    /// Sets additional data for the model's provider, an object.
    #[must_use]
    pub fn metadata(mut self, metadata: Json) -> Sampling {
        self.metadata = Some(metadata);
        self
    }

    pub(crate) fn offers_tools(&self) -> bool {
        !self.tools.is_empty() || self.tool_choice.is_some()
    }

    /// Every block of content, also of tool results.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &Content> {
        self.messages.iter().flat_map(|(_, blocks)| blocks).flat_map(SamplingBlock::contents)
    }

    /// Finds tool uses without a result and results without a use, which a client must reject (MCP
    /// client/sampling, "tool result content restriction" and "tool use and result balance").
    pub(crate) fn unpaired(&self) -> Option<&'static str> {
        let mut open: Vec<&str> = Vec::new();
        for (role, blocks) in &self.messages {
            let results = || {
                blocks.iter().filter_map(|b| match b {
                    SamplingBlock::ToolResult { id, .. } => Some(id.as_str()),
                    SamplingBlock::Content(_) | SamplingBlock::ToolUse(_) => None,
                })
            };
            let count = results().count();
            if count > 0 && (*role != Role::User || count != blocks.len()) {
                return Some("a user message with a tool result must contain only tool results");
            }
            if !open.is_empty() || count > 0 {
                let answered = results().all(|id| open.contains(&id))
                    && open.iter().all(|id| results().any(|r| r == *id));
                if !answered {
                    return Some("every tool use must have a tool result in the next user message");
                }
            }
            open = blocks
                .iter()
                .filter_map(|b| match b {
                    SamplingBlock::ToolUse(u) => Some(u.id.as_str()),
                    SamplingBlock::Content(_) | SamplingBlock::ToolResult { .. } => None,
                })
                .collect();
            if !open.is_empty() && *role != Role::Assistant {
                return Some("only assistant messages may contain tool uses");
            }
        }
        (!open.is_empty()).then_some("every tool use must have a tool result in the next user message")
    }
}

/// A client's response to a [`Sampling`]: one message of its model.
///
/// ```
/// use tinymcp::{Client, SampleResponse};
///
/// fn complete(prompt: &str) -> String {
///     // Calls a model.
///     format!("{} words", prompt.split(' ').count())
/// }
///
/// let builder = Client::builder("host", "1.0.0").on_sample(|request| {
///     let prompt = format!("{:?}", request.messages);
///     Ok(SampleResponse::new("small-model").text(complete(&prompt)).stop_reason("endTurn"))
/// });
/// ```
#[cfg(feature = "client")]
#[derive(Clone, Debug)]
pub struct SampleResponse {
    pub(crate) model: String,
    pub(crate) blocks: Vec<SamplingBlock>,
    pub(crate) stop_reason: Option<String>,
}

#[cfg(feature = "client")]
impl SampleResponse {
    /// Creates an empty message of the model with this name.
    pub fn new(model: impl Into<String>) -> SampleResponse {
        SampleResponse { model: model.into(), blocks: Vec::new(), stop_reason: None }
    }

    /// Adds a text block.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> SampleResponse {
        self.block(SamplingBlock::Content(Content::text(text)))
    }

    /// Adds a block.
    #[must_use]
    pub fn block(mut self, block: SamplingBlock) -> SampleResponse {
        self.blocks.push(block);
        self
    }

    /// Sets the stop reason: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a value of the
    /// provider.
    #[must_use]
    pub fn stop_reason(mut self, reason: impl Into<String>) -> SampleResponse {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Every block of content, also of tool results.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &Content> {
        self.blocks.iter().flat_map(SamplingBlock::contents)
    }
}

/// Checks that `answer` is a sampling result.
pub(super) fn check(answer: Value<'_>) -> Result<(), String> {
    if !matches!(answer.get("role").and_then(Value::as_str), Some("user" | "assistant")) {
        return Err("/role must be user or assistant".to_owned());
    }
    if answer.get("model").and_then(Value::as_str).is_none() {
        return Err("/model must be a string".to_owned());
    }
    let typed = |block: Value<'_>| block.get("type").and_then(Value::as_str).is_some();
    match answer.get("content") {
        Some(block) if block.kind() == Kind::Object && typed(block) => Ok(()),
        Some(blocks) if blocks.kind() == Kind::Array && blocks.items().all(typed) => Ok(()),
        _ => Err("/content must be a content block or an array of them".to_owned()),
    }
}

/// The model's message.
///
/// [`Context::sample`](crate::Context::sample) returns it; see [`Sampling`], and [`ToolChoice`] for
/// tools.
#[derive(Debug)]
pub struct SampleResult {
    doc: Doc,
}

impl SampleResult {
    pub(crate) fn new(doc: Doc) -> SampleResult {
        SampleResult { doc }
    }

    /// Returns the blocks of the message, as received.
    pub fn blocks(&self) -> impl Iterator<Item = Value<'_>> {
        let content = self.doc.root().get("content");
        let single = content.filter(|c| c.kind() == Kind::Object);
        single.into_iter().chain(content.into_iter().flat_map(Value::items))
    }

    /// Returns the text blocks of the message, joined.
    pub fn text(&self) -> String {
        self.blocks().filter_map(|b| b.get("text")?.as_str()).collect()
    }

    /// Returns the tool calls that the model requests.
    pub fn tool_uses(&self) -> impl Iterator<Item = ToolUse> {
        self.blocks().filter_map(|b| {
            (b.get("type")?.as_str()? == "tool_use").then_some(())?;
            Some(ToolUse {
                id: b.get("id")?.as_str()?.to_owned(),
                name: b.get("name")?.as_str()?.to_owned(),
                input: b.get("input")?.to_json(),
            })
        })
    }

    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        self.doc.root().get("model").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the stop reason: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a value of
    /// the provider.
    pub fn stop_reason(&self) -> Option<&str> {
        self.doc.root().get("stopReason")?.as_str()
    }
}
