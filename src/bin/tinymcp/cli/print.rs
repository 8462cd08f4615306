//! Text output of results and progress.
//!
//! Control characters of the server are replaced, so that they cannot control the terminal.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tinymcp::json::{Kind, Value};
use tinymcp::{Progress, stderr};

use super::args::Args;
use super::schema::Input;
use crate::escape::{one_line, plain};

/// Characters of a progress line: a longer one would take two lines of a terminal, of which only
/// one is cleared.
const PROGRESS_WIDTH: usize = 79;
/// Shortest time between two progress lines of a terminal.
const PROGRESS_PAUSE: Duration = Duration::from_millis(50);

/// Progress on a terminal.
struct Shown {
    is_shown: bool,
    last: Option<Instant>,
    /// A prompt is open, so nothing else may write to the terminal.
    is_prompting: bool,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown { is_shown: false, last: None, is_prompting: false });

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a listener that prints progress on standard error, in place if that is a terminal.
pub(crate) fn progress(args: &Args) -> fn(Progress) {
    if args.has("quiet") { |_| () } else { print_progress }
}

fn print_progress(step: Progress) {
    let total = step.total.map(|total| format!(" of {}", number(total))).unwrap_or_default();
    let message = step.message.map(|m| format!(": {m}")).unwrap_or_default();
    let line = one_line(&format!("{}{total}{message}", number(step.done)));
    if !io::stderr().is_terminal() {
        stderr::write(format!("{line}\n"));
        return;
    }
    let mut shown = shown();
    if shown.is_prompting || shown.last.is_some_and(|last| last.elapsed() < PROGRESS_PAUSE) {
        return;
    }
    let line: String = line.chars().take(PROGRESS_WIDTH).collect();
    stderr::write(format!("\r\x1b[K{line}"));
    (shown.is_shown, shown.last) = (true, Some(Instant::now()));
}

/// Returns a number; a long one with an exponent.
fn number(number: f64) -> String {
    if number.abs() < 1e15 { number.to_string() } else { format!("{number:e}") }
}

/// Stops progress while a prompt is open, or lets it go on.
pub(crate) fn prompting(is_prompting: bool) {
    shown().is_prompting = is_prompting;
}

/// Clears the progress line, if there is one.
pub(crate) fn progress_done() {
    if std::mem::take(&mut shown().is_shown) {
        stderr::write("\r\x1b[K");
        // Standard output is often the same terminal.
        stderr::flush();
    }
}

/// Formats a result or an event as text. Values without a text form are printed as JSON.
pub(crate) fn result(result: Value<'_>) -> String {
    let mut text = String::new();
    for (name, value) in result.members() {
        match name {
            "tools" | "resources" | "resourceTemplates" | "prompts" => list(&mut text, name, value),
            "content" => value.items().for_each(|block| content(&mut text, block)),
            "contents" => value.items().for_each(|part| contents(&mut text, part)),
            "messages" => value.items().for_each(|message| {
                let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
                text.push_str(&format!("{}: ", one_line(role)));
                match message.get("content") {
                    Some(block) => content(&mut text, block),
                    None => text.push('\n'),
                }
            }),
            "completion" => {
                for value in value.get("values").into_iter().flat_map(Value::items) {
                    line(&mut text, &one_line(value.as_str().unwrap_or(value.raw())));
                }
            }
            "event" => event(&mut text, result),
            _ => {}
        }
    }
    // A tool result may have structured content only.
    match result.get("structuredContent") {
        Some(structure) if text.is_empty() => line(&mut text, structure.raw()),
        _ => {}
    }
    text
}

fn line(text: &mut String, words: &str) {
    text.push_str(&plain(words));
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

fn list(text: &mut String, name: &str, entries: Value<'_>) {
    if !text.is_empty() {
        text.push('\n');
    }
    let title = if name == "resourceTemplates" { "templates" } else { name };
    text.push_str(&format!("{title} ({})\n", entries.len()));
    for entry in entries.items() {
        let key = ["uri", "uriTemplate", "name"].into_iter().find_map(|k| entry.get(k)?.as_str());
        let signature = match name {
            "tools" => entry.get("inputSchema").map(|schema| Input(schema).signature()),
            "prompts" => Some(parameters(entry)),
            _ => None,
        };
        let signature = signature.unwrap_or_default();
        text.push_str(&format!("  {}\n", one_line(&format!("{}{signature}", key.unwrap_or_default()))));
        let about = ["description", "title"].into_iter().find_map(|k| entry.get(k)?.as_str());
        let about = about.unwrap_or_default().trim_start();
        if let Some(about) = about.lines().next() {
            text.push_str(&format!("      {}\n", one_line(about)));
        }
    }
}

/// Returns the parameters of a prompt, as in `(topic, [note])`.
fn parameters(prompt: Value<'_>) -> String {
    let parameter = |parameter: Value<'_>| {
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
        match parameter.get("required").and_then(Value::as_bool) {
            Some(true) => name.to_owned(),
            _ => format!("[{name}]"),
        }
    };
    let parameters = prompt.get("arguments").into_iter().flat_map(Value::items).map(parameter);
    format!("({})", parameters.collect::<Vec<_>>().join(", "))
}

fn content(text: &mut String, block: Value<'_>) {
    let word = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match word("type") {
        "text" => line(text, word("text")),
        "resource_link" => line(text, &one_line(word("uri"))),
        "resource" => block.get("resource").into_iter().for_each(|part| contents(text, part)),
        "image" | "audio" => binary(text, word("type"), word("mimeType"), word("data")),
        _ => line(text, block.raw()),
    }
}

fn contents(text: &mut String, part: Value<'_>) {
    let word = |name: &str| part.get(name).filter(|v| v.kind() == Kind::String)?.as_str();
    match (word("text"), word("blob")) {
        (Some(words), _) => line(text, words),
        (None, Some(blob)) => binary(text, "data", word("mimeType").unwrap_or_default(), blob),
        (None, None) => line(text, part.raw()),
    }
}

fn binary(text: &mut String, what: &str, mime_type: &str, base64: &str) {
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    line(text, &one_line(&format!("[{what} {mime_type}, {bytes} bytes]")));
}

fn event(text: &mut String, event: Value<'_>) {
    let word = |name: &str| event.get(name).and_then(Value::as_str);
    match (word("event").unwrap_or_default(), event.get("data")) {
        ("log", Some(data)) => {
            let logger = word("logger").map(|l| format!(" {l}")).unwrap_or_default();
            let level = word("level").unwrap_or_default();
            line(text, &one_line(&format!("{level}{logger}: {}", data.as_str().unwrap_or(data.raw()))));
        }
        ("updated", _) => line(text, &one_line(&format!("updated {}", word("uri").unwrap_or_default()))),
        (list, _) => line(text, &format!("{list} changed")),
    }
}
