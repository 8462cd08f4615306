//! Option `--task` and command `task`: calls that the server continues by itself.
//!
//! `--task` prints the description of the task. `task` gets its state, waits for its result, or
//! cancels it, also in another process. `task wait` answers the questions of the task as `call`
//! does, and prints the states before the last one on standard error.

use std::time::Duration;

use tinymcp::json::Json;
use tinymcp::{Client, Error, ErrorKind, Outcome, Task, TaskStatus};

use super::super::args::Args;
use super::super::failure::{FAILED, Failure, Result};
use super::super::output::Output;
use super::super::{commands, connect, lists, print};
use super::print_result;
use crate::escape::one_line;

/// Calls a tool as a task. Prints the task, or the result of a server that makes none.
pub(super) fn call(args: &Args, client: &Client, output: &Output, name: &str, params: Json) -> Result<u8> {
    let request = commands::tool_call(args, client, params).as_task();
    match commands::wait_outcome(request).map_err(|error| super::failure(args, client, name, &error))? {
        Outcome::Task(task) => show(output, &task),
        Outcome::Complete(result) => print_result(output, &result),
        _ => Err("the tool asks a question, which is not possible in a task; call it without --task".into()),
    }
}

/// Runs the command `task`. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let ([action @ ("get" | "wait" | "cancel"), id], false) = (words, words.contains(&"")) else {
        return Err(
            "expected `task get ID`, `task wait ID` or `task cancel ID`; see `tinymcp help task`".into()
        );
    };
    // An id that begins with - would be an option.
    let id = id.strip_prefix(':').filter(|id| id.starts_with('-')).unwrap_or(id);
    let client = connect::connect(connect::builder(args)?, args)?;
    let failure = |error: Error| lists::request_failure(args, &error, String::new);
    match *action {
        "get" => show(output, &client.task(id).map_err(failure)?),
        "wait" => print_result(output, &wait(args, &client, id)?),
        _ => client.cancel_task(id).map(|()| 0).map_err(failure),
    }
}

fn show(output: &Output, task: &Task) -> Result<u8> {
    if output.is_text() {
        output.write(&format!("{}\n", line(task)))?;
    } else {
        output.print(task.source.to_doc().root())?;
    }
    Ok(0)
}

/// Returns the state on one line, as in `7 working: 1/2 half`.
fn line(task: &Task) -> String {
    let message = task.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    one_line(&format!("{} {}{message}", task.id, name(task.status)))
}

fn name(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "requires input",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        _ => "unknown",
    }
}

/// Waits until the task has ended, and returns its result.
fn wait(args: &Args, client: &Client, id: &str) -> Result<Json> {
    let (is_quiet, mut last) = (args.has("quiet"), String::new());
    let task = client.follow_task(id).timeout(args.timeout.unwrap_or(Duration::MAX)).on_state(move |task| {
        let line = line(task);
        if !is_quiet && !task.status.is_terminal() && line != last {
            print::progress_line(&line);
            last = line;
        }
    });
    let result = task.wait_json();
    print::progress_done();
    result.map_err(|error| match error.kind() {
        ErrorKind::Misuse => Failure::new(
            FAILED,
            format!("{error}: wait at a terminal, or give --answer, --answers, --sampler or --root"),
        ),
        _ => lists::request_failure(args, &error, String::new),
    })
}
