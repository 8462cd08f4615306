//! A server in memory, and the messages of its client.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{
    Context, Error, Field, Form, Limits, MemoryEnd, MemoryTaskStore, Server, TaskSupport, Tool, ToolError,
    memory,
};

/// Long enough that only a hang reaches it.
pub(crate) const HANG: Duration = Duration::from_secs(20);

tinymcp::record! {
    /// No arguments.
    pub(crate) struct Nothing {}
}

/// A gate at which handlers wait.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Passed>, Condvar)>);

#[derive(Default)]
struct Passed {
    open: bool,
    /// Handlers that have arrived.
    arrived: usize,
}

impl Gate {
    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().open = true;
        self.0.1.notify_all();
    }

    /// Waits until so many handlers have arrived.
    pub(crate) fn await_arrivals(&self, most: usize) {
        let (state, timed_out) = self
            .0
            .1
            .wait_timeout_while(self.0.0.lock().unwrap(), HANG, |passed| passed.arrived < most)
            .unwrap();
        assert!(!timed_out.timed_out(), "{} handlers arrived", state.arrived);
    }

    /// Waits in a handler until the gate opens.
    pub(crate) fn pass(&self, ctx: &Context<'_>) -> Result<(), ToolError> {
        let mut passed = self.0.0.lock().unwrap();
        passed.arrived += 1;
        self.0.1.notify_all();
        while !passed.open {
            if ctx.cancelled() {
                return Err(ToolError::new("cancelled"));
            }
            passed = self.0.1.wait_timeout(passed, Duration::from_millis(5)).unwrap().0;
        }
        Ok(())
    }
}

/// A server with one tool of each kind. The tool `gated` waits at the gate.
pub(crate) fn server(gate: &Gate) -> Server {
    let mut server = Server::new("s", "1");
    server.tasks(MemoryTaskStore).unwrap();
    add_tools(&mut server, gate).unwrap();
    server
}

pub(crate) fn add_tools(server: &mut Server, gate: &Gate) -> Result<(), Error> {
    let (gate, asked) = (gate.clone(), gate.clone());
    let tool = |name: &str, support| Tool::new(name).task(support);
    server
        .tool(Tool::new("plain"), |_, _: Nothing| Ok("plain"))?
        .tool(tool("gated", TaskSupport::Optional), move |ctx, _: Nothing| {
            ctx.progress(1.0, Some(2.0), Some("half"));
            gate.pass(ctx)?;
            Ok(format!("{:?} {}", ctx.principal(), ctx.task_id().is_some()))
        })?
        .tool(tool("required", TaskSupport::Required), |_, _: Nothing| Ok("required"))?
        .tool(tool("fails", TaskSupport::Optional), |_, _: Nothing| -> Result<(), _> {
            Err(ToolError::new("it failed"))
        })?
        .tool(tool("faults", TaskSupport::Optional), |_, _: Nothing| -> Result<(), _> {
            Err(ToolError::protocol(7, "the lamp is broken", Some(tinymcp::json!({"lamp": 1}))))
        })?
        .tool(tool("panics", TaskSupport::Optional), |_, _: Nothing| -> Result<(), _> {
            panic!("a handler of a test panics")
        })?
        .tool(tool("sleeps", TaskSupport::Optional), |ctx, _: Nothing| {
            ctx.wait(Duration::from_secs(3600))?;
            Ok("awake")
        })?
        .tool(tool("asks", TaskSupport::Optional), |ctx, _: Nothing| {
            let form = || Form::new("?").field(Field::text("x").required());
            let (a, b) = (ctx.elicit("a", form()), ctx.elicit("b", form()));
            let (a, b) = (a?, b?);
            let c = ctx.elicit("c", form())?;
            let texts = [a, b, c].map(|answer| answer.text("x").unwrap_or("-").to_owned());
            Ok(texts.join(" "))
        })?
        .tool(tool("asks_then_waits", TaskSupport::Optional), move |ctx, _: Nothing| {
            let answer = ctx.elicit("a", Form::new("?").field(Field::text("x").required()))?;
            asked.pass(ctx)?;
            Ok(answer.text("x").unwrap_or("-").to_owned())
        })?
        .tool(Tool::new("first_asks").task_on_demand(TaskSupport::Required), |ctx, _: Nothing| {
            let name = ctx.elicit("name", Form::new("Who?").field(Field::text("x").required()))?;
            ctx.start_task()?;
            Ok(format!("{} {}", name.text("x").unwrap_or("-"), ctx.task_id().is_some()))
        })?;
    Ok(())
}

/// A client of a server in memory.
pub(crate) struct Wire {
    end: Option<MemoryEnd>,
    serving: Option<JoinHandle<Result<(), Error>>>,
    last_id: u64,
    /// Messages that were read while a response was awaited.
    others: VecDeque<Value>,
}

impl Wire {
    pub(crate) fn serve(mut server: Server, limits: Limits) -> Wire {
        server.limits(limits);
        let (link, end) = memory();
        let serving = std::thread::spawn(move || server.serve(link));
        Wire { end: Some(end), serving: Some(serving), last_id: 0, others: VecDeque::new() }
    }

    fn end(&self) -> &MemoryEnd {
        self.end.as_ref().unwrap()
    }

    pub(crate) fn send(&self, message: &Value) {
        assert!(self.end().send(&message.to_string()));
    }

    pub(crate) fn receive(&self) -> Value {
        let text = self.end().receive(HANG).expect("a message");
        serde_json::from_str(&text).unwrap()
    }

    /// Sends a request and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}));
        self.last_id
    }

    /// The response to a request. Other messages are kept.
    pub(crate) fn response(&mut self, id: u64) -> Value {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        if let Some(at) = self.others.iter().position(is_it) {
            return self.others.remove(at).unwrap();
        }
        loop {
            let message = self.receive();
            if is_it(&message) {
                return message;
            }
            self.others.push_back(message);
        }
    }

    /// The next message that is not awaited as a response.
    pub(crate) fn other(&mut self) -> Value {
        self.others.pop_front().unwrap_or_else(|| self.receive())
    }

    /// Sends a stateless request of a client with tasks; the result or the error.
    pub(crate) fn stateless(&mut self, method: &str, params: Value) -> Value {
        self.stateless_as(&json!({"elicitation": {}, "extensions": {TASKS: {}}}), method, params)
    }

    pub(crate) fn stateless_as(&mut self, capabilities: &Value, method: &str, mut params: Value) -> Value {
        params["_meta"] = meta(capabilities);
        let id = self.request(method, params);
        outcome(self.response(id))
    }

    pub(crate) fn session(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        outcome(self.response(id))
    }

    /// Opens a session.
    pub(crate) fn open(&mut self, revision: &str) -> Value {
        let opening = json!({"protocolVersion": revision, "capabilities": {"elicitation": {}},
                             "clientInfo": {"name": "c", "version": "1"}});
        let greeting = self.session("initialize", opening);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        greeting
    }

    /// The state of a task once it is over.
    pub(crate) fn over(&mut self, task: &Value) -> Value {
        self.until(task, |status| !matches!(status, "working" | "input_required"))
    }

    pub(crate) fn until(&mut self, task: &Value, accept: impl Fn(&str) -> bool) -> Value {
        let deadline = Instant::now() + HANG;
        loop {
            let state = self.stateless("tasks/get", json!({"taskId": task["taskId"]}));
            if accept(state["status"].as_str().unwrap_or_else(|| panic!("{state}"))) {
                return state;
            }
            assert!(Instant::now() < deadline, "{state}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.end = None;
        let served = self.serving.take().unwrap().join();
        if !std::thread::panicking() {
            served.unwrap().unwrap();
        }
    }
}

pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

pub(crate) fn meta(capabilities: &Value) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
           "io.modelcontextprotocol/clientCapabilities": capabilities})
}

pub(crate) fn outcome(message: Value) -> Value {
    let mut outcome =
        message.get("result").or(message.get("error")).unwrap_or_else(|| panic!("{message}")).clone();
    // The name of the server, which every stateless result has.
    if let Some(meta) = outcome.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove("io.modelcontextprotocol/serverInfo");
        if meta.is_empty() {
            outcome.as_object_mut().unwrap().remove("_meta");
        }
    }
    outcome
}

/// Runs a test again in a process of its own, and returns what that writes to standard error. `None` in that process, where
/// the test runs.
pub(crate) fn in_a_process_of_its_own(test: &str) -> Option<String> {
    const CHILD: &str = "TEST_TASKS_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args([test, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// A call of a tool without arguments.
pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

/// Text of the first block of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}
