//! Lazy mode of a served hub: the tools `tool_list`, `tool_schema` and `tool_invoke` instead of the
//! tools of its servers.
//!
//! A host then reads three descriptions instead of hundreds. `tool_invoke` forwards a call as if
//! the client had called the tool directly: progress, requests and results of the server are the
//! same.
//!
//! # Invariants
//! - The size of `tools/list` does not depend on the servers.
//! - All names, titles and descriptions in a list are bounded, and contain no control characters.
//!   Texts inside the schemas that `tool_schema` returns are those of the server.

use std::fmt::Write;
use std::sync::Arc;

use crate::error::Error;
use crate::json::{Doc, Json, Kind, Value, Writer};
use crate::model::Change;
use crate::model::catalog::{Tool, ToolHints};
use crate::model::content::{Content, ToolOutput};
use crate::server::{Checks, Context, Output, ToolEntry, ToolError, ToolHandler};
use crate::sync::lock;
use crate::terminal::is_control;

use super::super::member::{ServerState, ServerStatus};
use super::Export;
use super::nearest::nearest;

/// Number of tools of one page of `tool_list`.
const PAGE_SIZE: usize = 50;
/// Maximum number of characters of a description in `tool_list`.
const MAX_SHORT_DESCRIPTION: usize = 120;
/// Maximum number of characters of a description in `tool_schema`.
const MAX_DESCRIPTION: usize = 8192;
/// Maximum number of tools of one `tool_schema`.
const MAX_SCHEMAS: usize = 16;
/// Maximum number of bytes of the schemas of one `tool_schema`. The first schema may be longer.
const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// Maximum number of words of a query that are searched.
const MAX_WORDS: usize = 16;
/// Maximum number of characters of a client's text that an error quotes.
const MAX_QUOTED: usize = 64;
/// Maximum number of similar names in an error.
const MAX_SUGGESTIONS: usize = 5;
/// Maximum number of servers that `tool_list` reports as not listed.
const MAX_SERVERS: usize = 16;
/// Maximum number of characters of the reason in such a report.
const MAX_REASON: usize = 200;

const LIST: &str = "tool_list";
const SCHEMA: &str = "tool_schema";
const INVOKE: &str = "tool_invoke";

/// A tool that `tool_invoke` can call.
pub(super) struct LazyTool {
    /// Description under the name in the hub, without members that only hosts use.
    tool: Tool,
    /// The server's key.
    key: String,
    /// The name at the server.
    there: String,
}

impl LazyTool {
    pub(super) fn new(name: &str, key: &str, tool: &Tool) -> LazyTool {
        let tool_here = Tool {
            title: tool.title.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            output_schema: tool.output_schema.clone(),
            hints: tool.hints,
            ..Tool::new(name)
        };
        LazyTool { tool: tool_here, key: key.to_owned(), there: tool.name.clone() }
    }

    /// Returns title and description, for a search.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.tool.title.as_deref().into_iter().chain(self.tool.description.as_deref())
    }

    /// Returns name and start of the description, as one line.
    fn line(&self) -> String {
        let text = self.tool.description.as_deref().or(self.tool.title.as_deref()).unwrap_or_default();
        let text = bounded(
            text.split_whitespace().flat_map(|word| [" ", word]).flat_map(str::chars),
            MAX_SHORT_DESCRIPTION,
        );
        match text.is_empty() {
            true => self.tool.name.clone(),
            false => format!("{}:{text}", self.tool.name),
        }
    }

    /// Returns the whole description, as JSON.
    fn definition(&self) -> Json {
        let text = |text: &str| bounded(text.chars(), MAX_DESCRIPTION);
        let mut w = Writer::new();
        w.begin_object().key("name").string(&self.tool.name);
        for (name, value) in [("title", &self.tool.title), ("description", &self.tool.description)] {
            if let Some(value) = value {
                w.key(name).string(&text(value));
            }
        }
        for (name, schema) in
            [("inputSchema", &self.tool.input_schema), ("outputSchema", &self.tool.output_schema)]
        {
            if let Some(schema) = schema {
                w.key(name).json(schema);
            }
        }
        let ToolHints { read_only, destructive, idempotent, open_world } = self.tool.hints;
        let hints = [
            ("readOnlyHint", read_only),
            ("destructiveHint", destructive),
            ("idempotentHint", idempotent),
            ("openWorldHint", open_world),
        ];
        if hints.iter().any(|(_, hint)| hint.is_some()) {
            w.key("annotations").begin_object();
            for (name, hint) in hints {
                if let Some(hint) = hint {
                    w.key(name).bool(hint);
                }
            }
            w.end_object();
        }
        w.end_object();
        w.into_json()
    }
}

/// Returns the first characters of a text, without control characters and characters that hide or
/// reorder others.
fn bounded(text: impl Iterator<Item = char>, most: usize) -> String {
    let mut shown = text.filter(|c| matches!(c, '\n' | '\t') || !is_control(*c));
    let mut kept: String = shown.by_ref().take(most).collect();
    if shown.next().is_some() {
        kept.push('…');
    }
    kept
}

/// Returns the beginning of a client's text, to quote it in an error.
fn repeated(text: &str) -> String {
    format!("{:?}", bounded(text.chars(), MAX_QUOTED))
}

/// Registers the three tools.
///
/// # Errors
/// The server has a tool with one of the names.
pub(super) fn add_tools(export: &Arc<Export>) -> Result<(), Error> {
    let list = Tool::new(LIST).description(format!(
        "Lists the tools that {INVOKE} can call, {PAGE_SIZE} per page: each name with the start of its \
         description. With a query, the best matches come first."
    ));
    let list = list.input_schema(Json::constant(
        r#"{"type":"object","properties":{"query":{"type":"string","description":"Words to find in names and descriptions"},"page":{"type":"integer","minimum":1,"default":1}},"additionalProperties":false}"#,
    ));
    let schema = Tool::new(SCHEMA).description(format!(
        "Returns the full descriptions and argument schemas of tools. Use it before the first {INVOKE} of \
         a tool."
    ));
    let schema = schema.input_schema(Json::constant(
        r#"{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":16}},"required":["names"],"additionalProperties":false}"#,
    ));
    let invoke =
        Tool::new(INVOKE).description(format!("Calls a tool of {LIST} and returns the tool's result."));
    let invoke = invoke.input_schema(Json::constant(
        r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","description":"Arguments that match the inputSchema of the tool","additionalProperties":true}},"required":["name"],"additionalProperties":false}"#,
    ));
    let reads = ToolHints { read_only: Some(true), open_world: Some(false), ..ToolHints::default() };
    add(export, list.hints(reads), |export, _, arguments| export.list_tools(arguments))?;
    add(export, schema.hints(reads), |export, _, arguments| export.tool_schemas(arguments))?;
    // `tool_invoke` has no hints: hosts then assume that the call changes something.
    add(export, invoke, Export::invoke)
}

fn add(
    export: &Arc<Export>,
    tool: Tool,
    handler: fn(&Arc<Export>, &mut Context<'_>, Value<'_>) -> Result<Output, ToolError>,
) -> Result<(), Error> {
    let owner = Arc::clone(export);
    let run = move |ctx: &mut Context<'_>, arguments: Value<'_>| handler(&owner, ctx, arguments);
    // The handlers check their arguments.
    let checks = Checks { input: None, output: None };
    let entry = ToolEntry::new(tool, ToolHandler::Pooled(Arc::new(run)), checks)?;
    let mut added = Ok(());
    export.handle.edit(&Change::Tools, |registry| {
        added = registry.add_tool(entry);
        added.is_ok()
    })?;
    added
}

/// Returns an error if the arguments have an unknown member.
fn check_members(arguments: Value<'_>, allowed: &[&str]) -> Result<(), ToolError> {
    match arguments.members().find(|(name, _)| !allowed.contains(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let mut text =
                format!("unknown argument {}; expected `{}`", repeated(name), allowed.join("`, `"));
            if allowed.contains(&"arguments") {
                text.push_str(", which contains the arguments of the tool");
            }
            Err(ToolError::new(text))
        }
    }
}

/// Returns a member of the arguments; `None` if it is absent or `null`.
fn member<'d>(arguments: Value<'d>, name: &str) -> Option<Value<'d>> {
    arguments.get(name).filter(|value| !value.is_null())
}

impl Export {
    fn lazy_tools(&self) -> Arc<Vec<LazyTool>> {
        Arc::clone(&lock(&self.state).shown.lazy)
    }

    fn list_tools(&self, arguments: Value<'_>) -> Result<Output, ToolError> {
        check_members(arguments, &["query", "page"])?;
        let query = match member(arguments, "query") {
            None => "",
            Some(query) => query.as_str().ok_or_else(|| ToolError::new("`query` must be a string"))?,
        };
        let page = match member(arguments, "page") {
            None => 1,
            Some(page) => {
                let page = page.as_u64().filter(|page| *page > 0).and_then(|page| usize::try_from(page).ok());
                page.ok_or_else(|| ToolError::new("`page` must be an integer from 1"))?
            }
        };
        let tools = self.lazy_tools();
        let found = search(&tools, query);
        let pages = found.len().div_ceil(PAGE_SIZE).max(1);
        if page > pages {
            return Err(ToolError::new(format!("page {page} does not exist; the last page is {pages}")));
        }
        let first = (page - 1) * PAGE_SIZE;
        let shown = found.iter().skip(first).take(PAGE_SIZE);
        let mut text: String = shown.map(|tool| tool.line() + "\n").collect();
        match found.len() {
            0 if tools.is_empty() => text.push_str("No tools are available."),
            0 => _ = write!(text, "No tool matches {}{}.", repeated(query), suggestions(&tools, query)),
            all => {
                let last = all.min(first + PAGE_SIZE);
                _ = write!(text, "\nTools {} to {last} of {all}.", first + 1);
                if page < pages {
                    _ = write!(text, " The next ones are on page {}.", page + 1);
                }
            }
        }
        let missing = self.unlisted_servers();
        if !missing.is_empty() {
            let shown = missing.get(..MAX_SERVERS).unwrap_or(&missing).join("\n");
            _ = write!(text, "\nTools of these servers are missing:\n{shown}");
            text.push_str(if missing.len() > MAX_SERVERS { "\n…" } else { "" });
        }
        Ok(Output::Tool(ToolOutput::text(text)))
    }

    /// Returns the servers without a complete list, each with the reason.
    fn unlisted_servers(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for ServerStatus { server, state, .. } in self.all.hub.servers() {
            let is_listed = lock(&self.all.listings).is_listed(&server);
            let failed = |(key, why): &(String, String)| (*key == server).then(|| why.clone());
            let why = match state {
                _ if !self.offers(&server) => continue,
                ServerState::Running(_) if is_listed => {
                    match lock(&self.state).shown.failed.iter().find_map(failed) {
                        Some(why) => format!("the list failed: {why}"),
                        None => continue,
                    }
                }
                ServerState::Running(_) => "being listed".to_owned(),
                ServerState::Connecting => "connecting".to_owned(),
                ServerState::Down { why, .. } => format!("down: {why}"),
                ServerState::Removed => continue,
            };
            let line = why.chars().map(|c| if c == '\n' { ' ' } else { c });
            missing.push(format!("{server}: {}", bounded(line, MAX_REASON)));
        }
        missing
    }

    fn tool_schemas(&self, arguments: Value<'_>) -> Result<Output, ToolError> {
        check_members(arguments, &["names"])?;
        let expected =
            || ToolError::new(format!("`names` must be an array of 1 to {MAX_SCHEMAS} tool names"));
        let names = member(arguments, "names").ok_or_else(expected)?;
        let names: Vec<&str> = match names.as_str() {
            Some(name) => vec![name],
            None => names.items().map(Value::as_str).collect::<Option<_>>().ok_or_else(expected)?,
        };
        if names.is_empty() || names.len() > MAX_SCHEMAS {
            return Err(expected());
        }
        let tools = self.lazy_tools();
        let (mut output, mut unknown, mut omitted) = (ToolOutput::new(), Vec::new(), Vec::new());
        let mut bytes = 0;
        for name in &names {
            match find(&tools, name) {
                None => unknown.push(self.unknown(&tools, name)),
                Some(tool) => {
                    let definition = tool.definition();
                    let all = bytes + definition.as_str().len();
                    if bytes > 0 && all > MAX_SCHEMA_BYTES {
                        omitted.push(*name);
                        continue;
                    }
                    bytes = all;
                    output = output.content(Content::text(definition.as_str()));
                }
            }
        }
        if unknown.len() == names.len() {
            return Err(ToolError::new(unknown.join("\n")));
        }
        if !omitted.is_empty() {
            unknown.push(format!("omitted because of the size, request them alone: {}", omitted.join(", ")));
        }
        if !unknown.is_empty() {
            output = output.content(Content::text(unknown.join("\n")));
        }
        Ok(Output::Tool(output))
    }

    fn invoke(self: &Arc<Self>, ctx: &mut Context<'_>, arguments: Value<'_>) -> Result<Output, ToolError> {
        check_members(arguments, &["name", "arguments"])?;
        let name = member(arguments, "name").and_then(Value::as_str);
        let name = name.ok_or_else(|| ToolError::new("`name` must be the name of a tool"))?;
        let given = member(arguments, "arguments");
        let parsed = match given {
            None => Doc::parse("{}").ok(),
            // Some models encode objects within objects as text.
            Some(given) => given.as_str().and_then(|text| Doc::parse(text).ok()),
        };
        let passed = parsed.as_ref().map(Doc::root).or(given).filter(|passed| passed.kind() == Kind::Object);
        let passed = passed.ok_or_else(|| ToolError::new("`arguments` must be an object"))?;
        let tools = self.lazy_tools();
        let target = find(&tools, name).map(|tool| (tool.key.clone(), tool.there.clone()));
        let Some((key, there)) = target.or_else(|| self.unlisted(name)) else {
            return Err(ToolError::new(self.unknown(&tools, name)));
        };
        self.call_tool(ctx, (&key, &there), passed)
    }

    /// Returns the error for a name that is not on the list.
    fn unknown(&self, tools: &[LazyTool], name: &str) -> String {
        match self.unlisted(name) {
            Some((key, _)) => format!(
                "{} is not listed: the server {key:?} is connecting, being listed or down; try again later",
                repeated(name)
            ),
            None => {
                format!("unknown tool {}{}; {LIST} lists all names", repeated(name), suggestions(tools, name))
            }
        }
    }
}

fn find<'t>(tools: &'t [LazyTool], name: &str) -> Option<&'t LazyTool> {
    tools.iter().find(|tool| tool.tool.name == name)
}

/// Returns the similar names, to append to an error.
fn suggestions(tools: &[LazyTool], name: &str) -> String {
    let names = tools.iter().map(|tool| (&*tool.tool.name, &*tool.there));
    let near = nearest(name, names, MAX_SUGGESTIONS);
    match near.is_empty() {
        true => String::new(),
        false => format!("; nearest names: {}", near.join(", ")),
    }
}

/// Returns the tools with at least one word of a query, or all tools without a query. Tools with
/// more matching words come first, then tools with more matching words in the name.
fn search<'t>(tools: &'t [LazyTool], query: &str) -> Vec<&'t LazyTool> {
    let words = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.take(MAX_WORDS).map(str::to_ascii_lowercase).collect();
    if words.is_empty() {
        return tools.iter().collect();
    }
    let rank = |tool: &LazyTool| {
        let name = tool.tool.name.to_ascii_lowercase();
        let texts: Vec<String> = tool.texts().map(str::to_ascii_lowercase).collect();
        let in_name = |word: &&String| name.contains(&**word);
        let in_text = |word: &&String| texts.iter().any(|text| text.contains(&**word));
        let all = words.iter().filter(|word| in_name(word) || in_text(word)).count();
        (all, words.iter().filter(in_name).count())
    };
    let mut found: Vec<_> = tools.iter().map(|tool| (rank(tool), tool)).collect();
    found.retain(|((all, _), _)| *all > 0);
    found.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    found.into_iter().map(|(_, tool)| tool).collect()
}
