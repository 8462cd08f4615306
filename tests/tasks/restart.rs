//! Servers that restart with the tasks of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tinymcp::{Context, ErrorKind, FileTaskStore, Limits, Server, TaskSupport, Tool, ToolError, ToolHints};

use crate::wire::{Gate, Nothing, Wire, add_tools, text, tool};

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tinymcp-tasks-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server whose tasks are in a file. `runs` counts the runs of the tools `once` and `again`.
fn server(file: &Path, gate: &Gate, runs: &Arc<AtomicUsize>) -> Server {
    let mut server = Server::new("s", "1");
    server.tasks(FileTaskStore::open(file).unwrap()).unwrap();
    add_tools(&mut server, gate).unwrap();
    let idempotent = ToolHints { idempotent: Some(true), ..ToolHints::default() };
    for (name, hints) in [("once", ToolHints::default()), ("again", idempotent)] {
        let (gate, runs) = (gate.clone(), Arc::clone(runs));
        let run = move |ctx: &mut Context<'_>, _: Nothing| -> Result<String, ToolError> {
            runs.fetch_add(1, Ordering::SeqCst);
            gate.pass(ctx)?;
            Ok("done".into())
        };
        server.tool(Tool::new(name).task(TaskSupport::Required).hints(hints), run).unwrap();
    }
    let gate = gate.clone();
    let asks = Tool::new("asks_again").task(TaskSupport::Required).hints(idempotent);
    server
        .tool(asks, move |ctx, _: Nothing| {
            let form = tinymcp::Form::new("?").field(tinymcp::Field::text("x").required());
            let answer = ctx.elicit("key", form)?;
            gate.pass(ctx)?;
            Ok(answer.text("x").unwrap_or_default().to_owned())
        })
        .unwrap();
    server
}

/// The file as it is when the process is killed now.
fn killed(folder: &Folder, name: &str, file: &Path) -> PathBuf {
    let copy = folder.file(name);
    std::fs::copy(file, &copy).unwrap();
    copy
}

#[test]
fn results_survive_and_unfinished_tasks_fail_or_run_again() {
    let folder = Folder::new("restart");
    let (gate, runs) = (Gate::default(), Arc::default());
    let file = folder.file("tasks");
    let mut limits = Limits::default();
    limits.tasks.workers = 4;
    let mut first = Wire::serve(server(&file, &gate, &runs), limits.clone());
    let finished = first.stateless("tools/call", tool("fails"));
    let result = first.over(&finished);
    let cancelled = first.stateless("tools/call", tool("sleeps"));
    first.stateless("tasks/cancel", json!({"taskId": cancelled["taskId"]}));
    let tasks = ["once", "again"].map(|name| first.stateless("tools/call", tool(name)));
    gate.await_arrivals(2);
    let copy = killed(&folder, "copy", &file);
    gate.open();

    let later = Gate::default();
    later.open();
    let again: Arc<AtomicUsize> = Arc::default();
    let mut second = Wire::serve(server(&copy, &later, &again), limits);
    let state =
        |wire: &mut Wire, task: &Value| wire.stateless("tasks/get", json!({"taskId": task["taskId"]}));
    assert_eq!(state(&mut second, &finished), result);
    assert_eq!(state(&mut second, &cancelled)["status"], "cancelled");
    let once = second.over(&tasks[0]);
    assert_eq!((&once["status"], &once["error"]["code"]), (&json!("failed"), &json!(-32603)));
    assert_eq!(once["statusMessage"], "The server was restarted before the task was over");
    assert_eq!(text(&second.over(&tasks[1])["result"]), "done");
    assert_eq!(again.load(Ordering::SeqCst), 1, "only the idempotent tool runs again");
    // A further restart changes nothing.
    let copy = killed(&folder, "further", &copy);
    let mut third = Wire::serve(server(&copy, &later, &again), Limits::default());
    for (task, known) in [(&finished, &result), (&tasks[0], &once)] {
        assert_eq!(&state(&mut third, task), known);
    }
    // The first server, which was not killed, has its own results.
    for task in &tasks {
        assert_eq!(text(&first.over(task)["result"]), "done");
    }
}

/// T26-08: a response that a restart lost is requested by another key.
#[test]
fn a_key_is_not_used_again_after_a_restart() {
    let folder = Folder::new("keys");
    let (gate, runs) = (Gate::default(), Arc::default());
    let file = folder.file("tasks");
    let mut first = Wire::serve(server(&file, &gate, &runs), Limits::default());
    let task = first.stateless("tools/call", tool("asks_again"));
    first.until(&task, |status| status == "input_required");
    let answer = |key: &str, x: &str| {
        let response = json!({"action": "accept", "content": {"x": x}});
        json!({"taskId": task["taskId"], "inputResponses": {key: response}})
    };
    first.stateless("tasks/update", answer("key", "first"));
    gate.await_arrivals(1);
    let copy = killed(&folder, "copy", &file);
    gate.open();
    let mut second = Wire::serve(server(&copy, &gate, &runs), Limits::default());
    let state = second.until(&task, |status| status == "input_required");
    assert_eq!(state["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["key.1"]);
    second.stateless("tasks/update", answer("key", "late"));
    second.stateless("tasks/update", answer("key.1", "second"));
    assert_eq!(text(&second.over(&task)["result"]), "second");
}

#[test]
fn a_task_that_ends_the_process_is_not_started_forever() {
    let folder = Folder::new("loop");
    let mut file = folder.file("tasks");
    let mut started = Vec::new();
    let mut task = json!(null);
    for round in 0..6 {
        let (gate, runs): (Gate, Arc<AtomicUsize>) = Default::default();
        let mut wire = Wire::serve(server(&file, &gate, &runs), Limits::default());
        if round == 0 {
            task = wire.stateless("tools/call", tool("again"));
        }
        let state = wire.stateless("tasks/get", json!({"taskId": task["taskId"]}));
        if state["status"] == "working" {
            gate.await_arrivals(1);
        }
        started.push(runs.load(Ordering::SeqCst));
        file = killed(&folder, &format!("copy{round}"), &file);
        gate.open();
    }
    assert_eq!(started, [1, 1, 1, 0, 0, 0]);
}

#[test]
fn a_file_is_used_by_one_store_at_a_time() {
    let folder = Folder::new("claim");
    let first = FileTaskStore::open(folder.file("tasks")).unwrap();
    let error = FileTaskStore::open(folder.file("tasks")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(first);
    FileTaskStore::open(folder.file("tasks")).unwrap();
    let error = FileTaskStore::open(folder.file("missing/tasks")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

/// A running task may finish within the grace period, and its result is there after the restart.
#[test]
fn a_running_task_finishes_when_the_server_stops() {
    let folder = Folder::new("stop");
    let file = folder.file("tasks");
    let (gate, runs) = (Gate::default(), Arc::default());
    let mut wire = Wire::serve(server(&file, &gate, &runs), Limits::default());
    let task = wire.stateless("tools/call", tool("once"));
    gate.await_arrivals(1);
    gate.open();
    drop(wire);
    let mut wire = Wire::serve(server(&file, &gate, &runs), Limits::default());
    assert_eq!(text(&wire.over(&task)["result"]), "done");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
