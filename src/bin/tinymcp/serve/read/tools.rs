//! Tools of a definition file.

use std::path::PathBuf;
use std::time::Duration;

use tinymcp::{Tool, ToolHints};

use super::super::definition::{Grants, Mode, Output, Program, Stdin, ToolDefinition};
use super::super::programs::sandbox::SYSTEM_WORD;
use super::super::template::{Argv, Properties, Text};
use super::super::words::{self, join, nearest};
use super::document::Node;
use super::members::{Problems, absolute};
use super::{schema, script, source};

/// Members of a tool.
pub(crate) const MEMBERS: &str = "description title input outputSchema run worker stdin env cwd timeout \
     output outputLimit rest confirm concurrency sandbox readOnly destructive idempotent openWorld";

/// Members that only `run` has: a worker exchanges lines of JSON.
const RUN_ONLY: [&str; 2] = ["stdin", "output"];

/// Default of `timeout` in seconds.
const TIMEOUT: f64 = 30.0;
/// Maximum `timeout` in seconds.
const MAX_TIMEOUT: f64 = 3600.0;
/// Default of `concurrency`: calls at the same time.
const CONCURRENCY: u64 = 4;
const MAX_CONCURRENCY: u64 = 64;
/// Default of `outputLimit`: bytes of output in a result.
const OUTPUT_LIMIT: u64 = 64 << 10;
const MAX_OUTPUT_LIMIT: u64 = 16 << 20;

/// Reads a tool. Returns `None` if nothing useful can be made of it; the result is used only if no
/// problem was reported.
pub(super) fn tool(name: &str, node: &Node<'_>, problems: &mut Problems) -> Option<ToolDefinition> {
    check_name("tool", name, node, problems);
    if !problems.object(node, MEMBERS) {
        return None;
    }
    let input = schema::input(node.get("input"), problems);
    let mut tool = Tool::new(name).input_schema(input.schema);
    tool.title = problems.text(node, "title");
    tool.description = problems.text(node, "description");
    tool.output_schema = node.get("outputSchema").and_then(|node| schema::output(&node, problems));
    tool.hints = hints(node, problems);
    let (argv, mode) = program(node, &input.properties, problems);
    let confirm = template(node.get("confirm"), &input.properties, problems);
    let timeout = timeout(node, problems);
    let rest = problems.word(node, "rest", &["cut", "link"]);
    let env = env(node, &input.properties, problems);
    let cwd = node.get("cwd").map_or_else(|| Some(node.document().folder.clone()), |cwd| problems.path(&cwd));
    let sandbox = node.get("sandbox").map(|node| grants(&node, problems));
    let concurrency = problems.integer(node, "concurrency", 1..=MAX_CONCURRENCY).unwrap_or(CONCURRENCY);
    let output_limit = problems.integer(node, "outputLimit", 1..=MAX_OUTPUT_LIMIT).unwrap_or(OUTPUT_LIMIT);
    Some(ToolDefinition {
        tool,
        source: source(node),
        defaults: input.defaults,
        program: Program { argv: argv?, env, cwd: cwd?, sandbox },
        mode,
        confirm,
        timeout,
        concurrency: concurrency as usize,
        output_limit: output_limit as usize,
        link_rest: rest == Some("link"),
    })
}

/// Checks the name of a tool or prompt.
pub(super) fn check_name(kind: &str, name: &str, node: &Node<'_>, problems: &mut Problems) {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if !(1..=128).contains(&name.len()) || !name.bytes().all(allowed) {
        problems.add(
            node,
            format!("invalid {kind} name {name:?}: allowed are 1 to 128 characters of A-Z a-z 0-9 _ . -"),
        );
    }
}

fn hints(node: &Node<'_>, problems: &mut Problems) -> ToolHints {
    let hints = ToolHints {
        read_only: problems.flag(node, "readOnly"),
        destructive: problems.flag(node, "destructive"),
        idempotent: problems.flag(node, "idempotent"),
        open_world: problems.flag(node, "openWorld"),
    };
    if hints.read_only == Some(true) && hints.destructive == Some(true) {
        problems.add(node, "the tool is both `readOnly` and `destructive`; remove one of them");
    }
    hints
}

/// Reads `run` or `worker` with the members that depend on them.
fn program(node: &Node<'_>, properties: &Properties, problems: &mut Problems) -> (Option<Argv>, Mode) {
    let (run, worker) = (node.get("run"), node.get("worker"));
    if run.is_some() && worker.is_some() {
        problems.add(node, "the tool has both `run` and `worker`; remove one of them");
    }
    if let Some(worker) = worker {
        for member in RUN_ONLY.iter().filter_map(|name| node.get(name)) {
            problems.add(&member, "only tools with `run` have this member: a worker exchanges lines of JSON");
        }
        return (argv(&worker, None, problems), Mode::Worker);
    }
    let stdin = stdin(node, properties, problems);
    let output = output(node, problems);
    if output != Output::Json {
        if let Some(member) = node.get("outputSchema") {
            problems.add(&member, "`outputSchema` requires \"output\": \"json\"");
        }
    }
    let Some(run) = run else {
        // An unknown member, which is reported already, may be a misspelt `run`.
        if node.members().all(|(name, _)| words::has(MEMBERS, name)) {
            problems.add(node, "missing member `run`, the command line, such as [\"/usr/bin/df\", \"-h\"]");
        }
        return (None, Mode::Worker);
    };
    (argv(&run, Some(properties), problems), Mode::PerCall { stdin, output })
}

/// Reads a command line; without placeholders if there are no properties.
fn argv(node: &Node<'_>, properties: Option<&Properties>, problems: &mut Problems) -> Option<Argv> {
    if let Some(line) = node.value.as_str() {
        let words = quoted_words(line);
        problems.expected(node, &format!("an array with one text for each argument, such as [{words}]"));
        return None;
    }
    let items: Vec<Node<'_>> = node.items().collect();
    if items.is_empty() {
        problems.expected(node, "an array of strings: the program and its arguments");
        return None;
    }
    let elements: Option<Vec<&str>> = items.iter().map(|item| problems.string(item)).collect();
    let mut elements = elements?;
    let folder = &node.document().folder;
    let relative = elements.first().copied().zip(items.first());
    let program = relative.and_then(|(program, item)| program_path(program, folder, item, problems));
    if let (Some(first), Some(program)) = (elements.first_mut(), &program) {
        *first = program;
    }
    let closed = Properties::default();
    // Element by element, so that each problem is reported.
    let before = problems.list.len();
    for (at, (element, item)) in elements.iter().zip(&items).enumerate() {
        let line = ["program", element];
        let line = if at == 0 { line.get(1..) } else { line.get(..) }.unwrap_or_default();
        match properties {
            None if script::has_placeholder(element) => problems.add(
                item,
                "a worker gets the arguments of a call as JSON, so its command line has no placeholders; \
                 write `{{` for a literal brace",
            ),
            _ => {
                if let Err((_, message)) = Argv::parse(line, properties.unwrap_or(&closed)) {
                    problems.add(item, message);
                }
            }
        }
    }
    if problems.list.len() > before {
        return None;
    }
    if let Some((at, language)) = script::placeholder(&elements) {
        problems.add(items.get(at).unwrap_or(node), script::problem(language));
        return None;
    }
    Argv::parse(&elements, properties.unwrap_or(&closed)).ok()
}

/// Returns the words of a command line as elements of an array.
fn quoted_words(line: &str) -> String {
    join(&mut line.split_whitespace().map(|word| format!("{word:?}")), ", ")
}

/// Returns the absolute template of a relative program with a folder, such as `./plugin`.
fn program_path(
    program: &str,
    folder: &std::path::Path,
    item: &Node<'_>,
    problems: &mut Problems,
) -> Option<String> {
    if program.starts_with(['~', '$']) {
        problems.path(item);
        return None;
    }
    let first = program.split_whitespace().next().unwrap_or_default();
    if first.len() < program.len() && !first.contains('/') {
        let words = quoted_words(program);
        problems.add(
            item,
            format!("the program {program:?} has a space: write one text for each argument: [{words}]"),
        );
        return None;
    }
    if program.starts_with('/') || !program.contains('/') {
        return None;
    }
    let Some(folder) = folder.to_str() else {
        problems.add(item, "the path of this file is not UTF-8; write the absolute path of the program");
        return None;
    };
    let folder = folder.replace('{', "{{").replace('}', "}}");
    // OK to skip paths that are not UTF-8: both parts are.
    absolute(folder.as_ref(), program).to_str().map(str::to_owned)
}

/// Reads a text with placeholders.
fn template(node: Option<Node<'_>>, properties: &Properties, problems: &mut Problems) -> Option<Text> {
    let node = node?;
    if node.value.as_str().is_none() {
        problems.expected(&node, "a text such as \"Open valve {bed}?\"");
        return None;
    }
    let text = problems.string(&node)?;
    if text.is_empty() {
        problems.add(&node, "the text must not be empty");
    }
    Text::parse(text, properties).map_err(|message| problems.add(&node, message)).ok()
}

fn stdin(node: &Node<'_>, properties: &Properties, problems: &mut Problems) -> Stdin {
    let Some(member) = node.get("stdin") else { return Stdin::None };
    match member.value.as_str() {
        Some("none") => Stdin::None,
        Some("json") => Stdin::Json,
        Some(text) if script::has_placeholder(text) => {
            template(Some(member), properties, problems).map_or(Stdin::None, Stdin::Text)
        }
        _ => {
            problems.expected(&member, "\"none\", \"json\" or a text with an argument, such as \"{text}\"");
            Stdin::None
        }
    }
}

fn output(node: &Node<'_>, problems: &mut Problems) -> Output {
    let Some(member) = node.get("output") else { return Output::Text };
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    match member.value.as_str() {
        Some("text") => Output::Text,
        Some("json") => Output::Json,
        Some("lines") => Output::Lines,
        Some(media) if media.split_once('/').is_some_and(|(a, b)| is_token(a) && is_token(b)) => {
            Output::Media(media.to_ascii_lowercase())
        }
        word => {
            let near = word.and_then(|word| nearest(word, &mut "text json lines".split(' ')));
            let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            let got = super::members::described(member.value);
            problems.add(
                &member,
                format!("expected \"text\", \"json\", \"lines\" or a media type such as \"image/png\", got {got}{near}"),
            );
            Output::Text
        }
    }
}

fn timeout(node: &Node<'_>, problems: &mut Problems) -> Duration {
    let seconds = node.get("timeout").map_or(Some(TIMEOUT), |member| {
        // Shorter than a millisecond is a mistake, not a timeout.
        let seconds = member.value.as_f64().filter(|s| (0.001..=MAX_TIMEOUT).contains(s));
        if seconds.is_none() {
            problems.expected(&member, "a number of seconds above 0, at most 3600");
        }
        seconds
    });
    // Smaller than `from_secs_f64`, which has 128-bit arithmetic.
    Duration::from_micros((seconds.unwrap_or(TIMEOUT) * 1e6 + 0.5) as u64)
}

/// Reads `env`: replaces `${NAME}` by variables of this process, `$${` by `${`.
fn env(node: &Node<'_>, properties: &Properties, problems: &mut Problems) -> Vec<(String, String)> {
    let Some(member) = node.get("env") else { return Vec::new() };
    if !problems.any_object(&member) {
        return Vec::new();
    }
    let mut env = Vec::new();
    for (name, value) in member.members() {
        if name.is_empty() || name.contains(['=', '\0']) {
            problems.add(&value, format!("invalid name of a variable {name:?}: it has `=` or is empty"));
            continue;
        }
        let Some(text) = problems.string(&value) else { continue };
        if let Some((argument, _)) = properties.names.iter().find(|(n, _)| text.contains(&format!("{{{n}}}")))
        {
            if !text.contains(&format!("${{{argument}}}")) {
                problems.add(
                    &value,
                    format!(
                        "arguments are not inserted into variables: pass {{{argument}}} in `run` or `stdin`"
                    ),
                );
                continue;
            }
        }
        match expand_variables(text) {
            Ok(text) => env.push((name.to_owned(), text)),
            Err(message) => problems.add(&value, message),
        }
    }
    env
}

fn expand_variables(text: &str) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            return Err("`${` without `}`; write `$${` for the characters themselves".to_owned());
        };
        let Some(value) = std::env::var_os(name).filter(|_| !name.is_empty() && !name.contains(['=', '\0']))
        else {
            return Err(format!(
                "the variable ${{{name}}} is not set; set it where the server starts, or write `$${{{name}}}` \
                 for the characters themselves"
            ));
        };
        let value = value.into_string();
        expanded.push_str(&value.map_err(|_| format!("the variable ${{{name}}} is not UTF-8"))?);
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn grants(node: &Node<'_>, problems: &mut Problems) -> Grants {
    if !problems.object(node, "read write net") {
        return Grants::default();
    }
    Grants {
        read: paths(node, "read", true, problems),
        write: paths(node, "write", false, problems),
        net: problems.flag(node, "net").unwrap_or(false),
    }
}

/// Reads an array of paths. `system` is a word if allowed, otherwise a problem.
fn paths(node: &Node<'_>, name: &str, system: bool, problems: &mut Problems) -> Vec<PathBuf> {
    let Some(member) = node.get(name) else { return Vec::new() };
    if member.value.kind() != tinymcp::json::Kind::Array {
        problems.expected(&member, "an array of paths");
    }
    let mut paths = Vec::new();
    for item in member.items() {
        match item.value.as_str() {
            Some(SYSTEM_WORD) if system => paths.push(PathBuf::from(SYSTEM_WORD)),
            Some(SYSTEM_WORD) => {
                problems.add(
                    &item,
                    "\"system\" is a word of `read`; write \"./system\" for a folder of that name",
                );
            }
            _ => paths.extend(problems.path(&item)),
        }
    }
    paths
}
