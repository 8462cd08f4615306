//! Line editor of `shell`.
//!
//! Notes about the connection appear immediately if the line is empty, otherwise after the line.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustyline::completion::{Completer, Pair};
use rustyline::config::{Behavior, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use tinymcp::json::Value;
use tinymcp::stderr;

use super::super::args::Args;
use super::super::ask::forms;
use super::super::commands::on_notification;
use super::super::failure::{Failure, Result};
use super::super::names::Names;
use super::super::output::Output;
use super::super::print::PROMPT;
use super::super::{connect, print, signals};
use super::history::History;
use super::{LineEnd, Session};
use crate::escape::one_line;
use crate::mask::{Mask, parts};
use crate::mutex::lock;
use crate::shell_words::{Dialect, split};

/// Largest number of candidates that are shown without asking.
const MAX_SHOWN: usize = 100;

/// Returns whether a user can edit lines.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Reads and runs lines until the end of the input. Returns the exit status.
pub(super) fn run(args: &Args, output: &Output) -> Result<u8> {
    let stale = Arc::new(AtomicBool::new(false));
    let changed = Arc::clone(&stale);
    let client = on_notification(connect::builder(args)?, move |event| {
        let doc = event.to_doc();
        let is_log = doc.root().get("event").and_then(Value::as_str) == Some("log");
        changed.fetch_or(!is_log, Ordering::SeqCst);
        print::note(&print::result(doc.root()));
    });
    let label = connect::name(args);
    let client =
        client.on_end(move |why| print::note(&one_line(&Failure::of_connection(&label, why).message)));
    let session = Session { args, client: connect::connect(client, args)?, output };
    let names = Arc::new(Mutex::new(Names::load(&session.client)));
    let mut editor = editor(&names).map_err(|e| e.to_string())?;
    let (mut history, lines) = History::open(Mask::new(args.server.secrets().flat_map(parts).collect()));
    for line in lines {
        // OK to drop: a line that repeats the one before is not added.
        let _ = editor.add_history_entry(line);
    }
    let server = session.client.server();
    let welcome = format!("{} {}; `help` lists the commands, Ctrl-D ends", server.name, server.version);
    if !args.has("quiet") {
        print::note(&one_line(&welcome));
    }
    while session.client.ended().is_none() {
        if stale.swap(false, Ordering::SeqCst) {
            let loaded = Names::load(&session.client);
            *lock(&names) = loaded;
        }
        let line = {
            let _terminal = forms::Terminal::for_line();
            stderr::flush();
            print::editing(Some(true));
            let line = editor.readline(PROMPT);
            print::editing(None);
            line
        };
        let line = match line {
            Ok(line) if !line.trim().is_empty() => line,
            Ok(_) | Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(0),
            Err(error) => return Err(format!("the terminal: {error}").into()),
        };
        // OK to drop: a line that repeats the one before is not added.
        let _ = editor.add_history_entry(line.as_str());
        history.add(&line, lock(&names).schema(&tool(&line)));
        match session.line(&line) {
            Ok(LineEnd::Quit) => return Ok(0),
            Ok(LineEnd::Status(_)) => {}
            Err(failure) => failure.print(),
        }
        stderr::flush();
        signals::reset();
    }
    let label = connect::name(args);
    let why = session.client.ended();
    Err(why.map_or_else(|| label.as_str().into(), |why| Failure::of_connection(&label, &why)))
}

/// Returns the tool that a line calls.
fn tool(line: &str) -> String {
    let words = split(line, Dialect::Shlex).unwrap_or_default();
    words.into_iter().find(|word| word != "call").unwrap_or_default()
}

fn editor(names: &Arc<Mutex<Names>>) -> rustyline::Result<Editor<Completion, DefaultHistory>> {
    let config = Config::builder()
        .behavior(Behavior::Stdio)
        .completion_type(CompletionType::List)
        .completion_prompt_limit(MAX_SHOWN)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Completion(Arc::clone(names))));
    signals::restore_at_end();
    Ok(editor)
}

/// Completion with the names of the server.
struct Completion(Arc<Mutex<Names>>);

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Validator for Completion {}

/// The editor requires this trait; no hints are shown.
impl Hinter for Completion {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        print::editing(Some(line.is_empty()));
        None
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = lock(&self.0).complete(line.get(..at).unwrap_or_default());
        let pair = |text: String| Pair { display: one_line(text.trim_end()), replacement: text };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}
