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

/// Width of a terminal that does not report it. A progress line is shorter than the terminal,
/// because only one line is cleared.
const DEFAULT_COLUMNS: usize = 80;
/// Prompt of `shell`.
pub(crate) const PROMPT: &str = "> ";
/// Largest number of notes that wait for the end of a line.
const MAX_NOTES: usize = 256;
/// Largest time left that is shown, in seconds.
const MAX_SECONDS_LEFT: f64 = 1e6;
/// Time after which the rate of progress is shown.
const FIRST_RATE: Duration = Duration::from_secs(1);
/// Shortest time between two progress lines of a terminal.
const PROGRESS_PAUSE: Duration = Duration::from_millis(50);
/// Shortest time between two progress lines of a pipe or a file.
const LINE_PAUSE: Duration = Duration::from_millis(250);

/// Progress on standard error.
struct Shown {
    is_shown: bool,
    last: Option<Instant>,
    /// Line for a pipe or a file that came too early. A later line replaces it.
    early: Option<String>,
    /// A prompt is open, so nothing else may write to the terminal.
    is_prompting: bool,
}

static SHOWN: Mutex<Shown> =
    Mutex::new(Shown { is_shown: false, last: None, early: None, is_prompting: false });

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a listener that prints progress on standard error, in place if that is a terminal.
pub(crate) fn progress(args: &Args) -> impl FnMut(Progress) + Send + 'static {
    let (is_quiet, began) = (args.has("quiet"), Instant::now());
    move |step| {
        if !is_quiet {
            print_progress(step, began);
        }
    }
}

fn print_progress(step: Progress, began: Instant) {
    let elapsed = io::stderr().is_terminal().then(|| began.elapsed());
    progress_line(&progress_text(step.done, step.total, step.message, elapsed));
}

/// Prints a line of progress, in place if standard error is a terminal. Drops a line that follows
/// another one too soon; for a pipe or a file, [`progress_done`] prints the last of them.
pub(crate) fn progress_line(line: &str) {
    let is_terminal = has_escapes(&io::stderr());
    let pause = if is_terminal { PROGRESS_PAUSE } else { LINE_PAUSE };
    let mut shown = shown();
    let is_early = shown.last.is_some_and(|last| last.elapsed() < pause);
    shown.early = (is_early && !is_terminal).then(|| format!("{line}\n"));
    if is_early || shown.is_prompting {
        return;
    }
    if is_terminal {
        let line: String = line.chars().take(columns(io::stderr()).saturating_sub(1)).collect();
        stderr::write(format!("\r\x1b[K{line}"));
    } else {
        stderr::write(format!("{line}\n"));
    }
    (shown.is_shown, shown.last) = (is_terminal, Some(Instant::now()));
}

/// Returns the progress on one line. With the time since the start, adds the rate and the time
/// left.
fn progress_text(
    done: f64,
    total: Option<f64>,
    message: Option<String>,
    elapsed: Option<Duration>,
) -> String {
    let mut text = number(done);
    if let Some(total) = total {
        text.push_str(&format!(" of {}", number(total)));
    }
    let elapsed = elapsed.filter(|elapsed| *elapsed >= FIRST_RATE && done > 0.0);
    if let Some(elapsed) = elapsed {
        let rate = done / elapsed.as_secs_f64();
        text.push_str(&format!(", {rate:.1}/s"));
        if let Some(left) =
            total.map(|total| (total - done) / rate).filter(|left| (0.0..MAX_SECONDS_LEFT).contains(left))
        {
            text.push_str(&format!(", {} left", time(left)));
        }
    }
    if let Some(message) = message {
        text.push_str(&format!(": {message}"));
    }
    one_line(&text)
}

/// Returns seconds as in `45 s`, `5:07` or `1:00:00`.
fn time(seconds: f64) -> String {
    let (minutes, seconds) = ((seconds.round() / 60.0).floor(), seconds.round() % 60.0);
    match minutes {
        minutes if minutes < 1.0 => format!("{seconds} s"),
        minutes if minutes < 60.0 => format!("{minutes}:{seconds:02}"),
        minutes => format!("{}:{:02}:{seconds:02}", number((minutes / 60.0).floor()), minutes % 60.0),
    }
}

/// Returns whether escape sequences have an effect there. The console of Windows prints them as
/// text unless a program enables them, which needs unsafe code.
fn has_escapes(place: &impl IsTerminal) -> bool {
    place.is_terminal() && !cfg!(windows)
}

/// Returns whether texts may have colours: only those for a terminal, and not if the user does not
/// want them (no-color.org).
pub(crate) fn has_colours(place: &impl IsTerminal) -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    has_escapes(place) && !is_dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns the width of a terminal.
#[cfg(unix)]
pub(crate) fn columns(terminal: impl std::os::fd::AsFd) -> usize {
    let width = rustix::termios::tcgetwinsize(terminal).ok().map(|size| size.ws_col);
    width.filter(|width| *width > 0).map_or(DEFAULT_COLUMNS, usize::from)
}

/// Returns the width of a terminal.
#[cfg(not(unix))]
pub(crate) fn columns<T>(_: T) -> usize {
    DEFAULT_COLUMNS
}

/// Formats a number, a long one with an exponent.
fn number(number: f64) -> String {
    if number.abs() < 1e15 { number.to_string() } else { format!("{number:e}") }
}

/// Line that is edited by `shell`, and the notes that wait for its end.
struct Edited {
    /// `Some(true)` while nothing is typed; `None` while no line is edited.
    is_empty: Option<bool>,
    notes: Vec<String>,
}

static EDITED: Mutex<Edited> = Mutex::new(Edited { is_empty: None, notes: Vec::new() });

/// Sets whether the line that is edited is empty; `None` at its end, which prints waiting notes.
#[cfg(unix)]
pub(crate) fn editing(is_empty: Option<bool>) {
    let mut edited = EDITED.lock().unwrap_or_else(PoisonError::into_inner);
    edited.is_empty = is_empty;
    if is_empty.is_none() {
        edited.notes.drain(..).for_each(stderr::write);
    }
}

/// Prints a note about the connection. Never blocks. An empty line of `shell` moves down. Other
/// lines end before the note is printed; notes beyond a limit are dropped.
pub(crate) fn note(text: &str) {
    let text = format!("{}\n", text.trim_end());
    let mut edited = EDITED.lock().unwrap_or_else(PoisonError::into_inner);
    match edited.is_empty.filter(|_| io::stderr().is_terminal()) {
        None => stderr::write(text),
        Some(true) => stderr::write(format!("\r\x1b[K{text}{PROMPT}")),
        Some(false) if edited.notes.len() < MAX_NOTES => edited.notes.push(text),
        Some(false) => {}
    }
}

/// Stops progress while a prompt is open, or resumes it.
pub(crate) fn prompting(is_prompting: bool) {
    shown().is_prompting = is_prompting;
}

/// Ends the progress: prints the last line, or clears it at a terminal.
pub(crate) fn progress_done() {
    let mut shown = shown();
    if let Some(line) = shown.early.take() {
        stderr::write(line);
    }
    if std::mem::take(&mut shown.is_shown) {
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
        if let Some(page) = app_page(entry) {
            text.push_str(&format!("      (page {})\n", one_line(page)));
        }
    }
}

/// Returns the URI of the page of a tool, which hosts show with its results (SEP-1865; servers of
/// older drafts name it in a separate member).
fn app_page(tool: Value<'_>) -> Option<&str> {
    let uri = tool.pointer("/_meta/ui/resourceUri").or_else(|| tool.pointer("/_meta/ui~1resourceUri"))?;
    uri.as_str().filter(|uri| uri.starts_with("ui://"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_a_rate_and_the_time_left() {
        let text = |done, total, seconds| {
            let message = Some("copying\n\u{1b}[2J".to_owned());
            progress_text(done, total, message, Some(Duration::from_secs(seconds)))
        };
        let message = ": copying\u{fffd}\u{fffd}[2J";
        assert_eq!(text(1.0, Some(4.0), 0), format!("1 of 4{message}"));
        assert_eq!(text(12.0, Some(100.0), 4), format!("12 of 100, 3.0/s, 29 s left{message}"));
        assert_eq!(text(1.0, Some(308.0), 1), format!("1 of 308, 1.0/s, 5:07 left{message}"));
        assert_eq!(text(1.0, Some(3661.0), 1), format!("1 of 3661, 1.0/s, 1:01:00 left{message}"));
        assert_eq!(text(2.0, None, 4), format!("2, 0.5/s{message}"));
        assert_eq!(text(5.0, Some(4.0), 5), format!("5 of 4, 1.0/s{message}"));
        assert_eq!(text(1.0, Some(1e300), 1), format!("1 of 1e300, 1.0/s{message}"));
        assert_eq!(text(0.0, Some(4.0), 9), format!("0 of 4{message}"));
    }
}
