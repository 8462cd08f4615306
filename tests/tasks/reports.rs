//! Faults of tasks that are reported only to the operator, on standard error.

use serde_json::{Value, json};
use tinymcp::json::Json;
use tinymcp::{Error, ErrorKind, Level, Limits, Server, StoredTask, TaskStore, TaskSupport, Tool};

use crate::wire::{Gate, Nothing, TASKS, Wire, add_tools, in_a_process_of_its_own, text, tool};

/// A store on a full disk: results do not fit, nor does a call of the tool `required`.
struct Full;

impl TaskStore for Full {
    fn load(&self) -> Result<Vec<StoredTask>, Error> {
        Ok(Vec::new())
    }

    fn accept(&self, _: &str, task: &Json) -> Result<(), Error> {
        match task.as_str().contains("required") {
            true => Err(Error::new(ErrorKind::Io, "no space for the call")),
            false => Ok(()),
        }
    }

    fn finish(&self, _: &str, _: &Json) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Io, "no space for the result"))
    }

    fn remove(&self, _: &str) {}
}

fn serve() {
    let mut server = Server::new("s", "1");
    server.tasks(Full).unwrap();
    server.logging();
    add_tools(&mut server, &Gate::default()).unwrap();
    let logs = Tool::new("logs").task(TaskSupport::Required);
    server
        .tool(logs, |ctx, _: Nothing| {
            ctx.log(Level::Debug, None, "not wanted")?;
            ctx.log(Level::Error, Some("lamp"), tinymcp::json!({"token": "secret", "lamp": 1}))?;
            Ok("logged")
        })
        .unwrap();
    let mut wire = Wire::serve(server, Limits::default());
    let rejected = wire.stateless("tools/call", tool("required"));
    assert_eq!(rejected["message"], "The task cannot be stored");
    let mut call = tool("logs");
    let mut meta = crate::wire::meta(&json!({"extensions": {TASKS: {}}}));
    meta["io.modelcontextprotocol/logLevel"] = json!("warning");
    call["_meta"] = meta;
    let id = wire.request("tools/call", call);
    let task = wire.response(id)["result"].clone();
    // The client gets a result that is not stored.
    assert_eq!(text(&wire.over(&task)["result"]), "logged");
    drop(wire);
    tinymcp::stderr::flush();
}

#[test]
fn faults_of_the_store_and_log_entries_without_a_session_are_reported() {
    let name = "reports::faults_of_the_store_and_log_entries_without_a_session_are_reported";
    let Some(text) = in_a_process_of_its_own(name) else { return serve() };
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("tinymcp: task ")).collect();
    for part in [
        "…: it is rejected, because it is not stored: no space for the call",
        "…: its outcome is not stored: no space for the result",
        "…: no session for message: {",
    ] {
        assert_eq!(lines.iter().filter(|line| line.contains(part)).count(), 1, "{part}: {text}");
    }
    let entry = lines.iter().find_map(|line| line.split_once("no session for message: ")).unwrap().1;
    let entry: Value = serde_json::from_str(entry).unwrap();
    assert_eq!((&entry["params"]["logger"], &entry["params"]["data"]["lamp"]), (&json!("lamp"), &json!(1)));
    assert!(!text.contains("secret"), "{text}");
}
