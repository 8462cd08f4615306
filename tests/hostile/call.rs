//! Calls that are cancelled, repeated, late or stuck, and calls that panic.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tinymcp::json::Json;
use tinymcp::{Context, Limits, SchemaCheck, SchemaCompiler, Server, Tool, ToolError, ToolOutput};

use super::process::{any, echo, plain};
use super::wire::{MODERN, Peer, TIMEOUT, Wire, call, cancel, is_success, limits, request, text_of};
use crate::tests;

tests! {
    a_queued_call_that_is_cancelled_never_runs,
    a_cancelled_running_call_is_flagged_and_gets_no_response,
    a_call_racing_with_its_cancellation_gets_one_response_at_most,
    cancelling_an_unknown_id_has_no_effect,
    an_id_in_flight_is_rejected,
    ids_of_open_subscriptions_are_rejected,
    panics_are_errors_without_the_panic_text,
    a_call_without_a_worker_thread_gets_an_error,
}

/// Blocks handlers until the test opens it.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<usize>, Condvar)>);

impl Gate {
    /// Lets this many more handlers pass.
    pub fn open(&self, count: usize) {
        *self.0.0.lock().unwrap() += count;
        self.0.1.notify_all();
    }

    pub fn pass(&self) {
        let passes = self.0.0.lock().unwrap();
        let mut passes = self.0.1.wait_while(passes, |passes| *passes == 0).unwrap();
        *passes -= 1;
        self.0.1.notify_all();
    }

    /// Waits until all opened passes are used.
    pub fn wait_until_used(&self) {
        let passes = self.0.0.lock().unwrap();
        let (passes, _) = self.0.1.wait_timeout_while(passes, TIMEOUT, |passes| *passes > 0).unwrap();
        assert_eq!(*passes, 0, "no handler passed the gate");
    }
}

/// Server with a tool `wait` that reports its start and blocks until the gate opens.
pub fn gated() -> (Server, Gate, mpsc::Receiver<String>) {
    let gate = Gate::default();
    let (tx, runs) = mpsc::channel();
    let mut server = plain();
    let pass = gate.clone();
    server
        .tool(any("wait"), move |_, arguments: Json| {
            tx.send(arguments.as_str().to_owned())?;
            pass.pass();
            Ok("waited")
        })
        .unwrap();
    (server, gate, runs)
}

fn a_queued_call_that_is_cancelled_never_runs() {
    let (server, gate, runs) = gated();
    let wire = Wire::open(server, limits(|l| l.workers = 1));
    wire.send(call(1, "wait", "{\"n\":1}"));
    assert_eq!(runs.recv_timeout(TIMEOUT).unwrap(), "{\"n\":1}");
    wire.send(call(2, "wait", "{\"n\":2}"));
    wire.assert_no_more();
    wire.send(cancel(2));
    // The id is free immediately. The last call is cancelled in the same read that delivers it.
    wire.send(call(2, "wait", "{\"n\":3}") + &call(4, "wait", "{\"n\":4}") + &cancel(4));
    wire.assert_no_more();
    gate.open(2);
    wire.responses([1, 2]);
    assert_eq!(runs.recv_timeout(TIMEOUT).unwrap(), "{\"n\":3}");
    assert!(wire.end().is_empty());
    assert!(runs.recv_timeout(TIMEOUT).is_err(), "a cancelled call ran");
}

fn a_cancelled_running_call_is_flagged_and_gets_no_response() {
    let (tx, rx) = mpsc::channel();
    let mut server = plain();
    server
        .tool(any("until_cancelled"), move |ctx, _: Json| {
            tx.send("runs")?;
            while !ctx.cancelled() {
                thread::yield_now();
            }
            ctx.progress(1.0, None, Some("progress after the cancellation"));
            tx.send("ends")?;
            Ok("result after the cancellation")
        })
        .unwrap();
    let wire = Wire::open(server, limits(|l| l.workers = 1));
    for _ in 0..3 {
        wire.send(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"until_cancelled","_meta":{"progressToken":1}}}"#
                .to_owned()
                + "\n",
        );
        assert_eq!(rx.recv_timeout(TIMEOUT).unwrap(), "runs");
        wire.send(cancel(1));
        assert_eq!(rx.recv_timeout(TIMEOUT).unwrap(), "ends");
        wire.assert_no_more();
    }
    assert!(wire.end().is_empty());
}

fn a_call_racing_with_its_cancellation_gets_one_response_at_most() {
    let rounds = if super::long() { 100_000 } else { 3_000 };
    for workers in [1, 2, 64] {
        let wire = Wire::open(plain(), limits(|l| l.workers = workers));
        let mut completed = vec![0_u8; rounds as usize];
        let mut take = |response: Value| {
            assert!(is_success(&response), "{response}");
            completed[response["id"].as_u64().unwrap() as usize] += 1;
        };
        let mut open = 0;
        for id in 0..rounds {
            // Sends the call and its cancellation in one read or in two.
            let (call, cancel) = (call(id, "echo", "{}"), cancel(id));
            if id % 2 == 0 {
                wire.send(call + &cancel);
            } else {
                wire.send(call);
                wire.send(cancel);
            }
            wire.send(request("\"round\"", "ping"));
            open += 1;
            while open > 100 || (id == rounds - 1 && open > 0) {
                match wire.receive() {
                    response if response["id"] == "round" => open -= 1,
                    response => take(response),
                }
            }
        }
        wire.end().into_iter().for_each(&mut take);
        assert!(completed.iter().all(|n| *n < 2), "a call has two responses");
    }
}

fn cancelling_an_unknown_id_has_no_effect() {
    let wire = Wire::open(plain(), Limits::default());
    for id in ["0", "1", "\"open\"", "null", "1.5", "{}", "[]", "18446744073709551616", "\"\\u0000\""] {
        wire.send(cancel(id));
        wire.send(cancel(id));
        wire.assert_no_more();
    }
}

fn an_id_in_flight_is_rejected() {
    let (server, gate, runs) = gated();
    let wire = Wire::open(server, limits(|l| l.workers = 4));
    wire.send(call(1, "wait", "{}"));
    runs.recv_timeout(TIMEOUT).unwrap();
    for again in [call(1, "wait", "{}"), call(1, "echo", "{}"), call(1, "wait", "{}") + &request(9, "ping")] {
        let more = again.lines().count() > 1;
        wire.send(again);
        let refused = wire.receive();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&1.into(), &(-32600).into()), "{refused}");
        if more {
            assert_eq!(wire.receive()["id"], 9);
        }
    }
    // The same id of another JSON type is a different id.
    wire.send(call("\"1\"", "wait", "{}"));
    runs.recv_timeout(TIMEOUT).unwrap();
    gate.open(2);
    let mut ids = [wire.receive()["id"].clone(), wire.receive()["id"].clone()];
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, [Value::from("1"), Value::from(1)]);
    // The id is free again. Two requests with one id arrive in one read.
    wire.send(call(1, "wait", "{}") + &call(1, "wait", "{}"));
    let refused = wire.receive();
    assert!(refused["error"].is_object(), "{refused}");
    runs.recv_timeout(TIMEOUT).unwrap();
    gate.open(1);
    assert_eq!(text_of(&wire.receive()), "waited");
    assert!(wire.end().is_empty());
    assert!(runs.try_recv().is_err());
}

fn ids_of_open_subscriptions_are_rejected() {
    let (mut server, gate, runs) = gated();
    server.tools_may_change();
    let wire = Wire::start(server, Limits::default());
    let listen = |id: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{{MODERN},\"notifications\":{{\"toolsListChanged\":true}}}}}}\n"
        )
    };
    let modern = |id: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{MODERN},\"name\":\"wait\"}}}}\n"
        )
    };
    wire.send(listen("1"));
    assert_eq!(wire.receive()["method"], "notifications/subscriptions/acknowledged");
    for line in [listen("1"), modern("1")] {
        wire.send(line);
        assert_eq!(wire.receive()["error"]["code"], -32600);
    }
    wire.send(modern("2"));
    runs.recv_timeout(TIMEOUT).unwrap();
    wire.send(listen("2"));
    assert_eq!(wire.receive()["error"]["code"], -32600);
    gate.open(1);
    assert_eq!(wire.receive()["id"], 2);
    // A subscription that ends frees its id.
    wire.send(cancel(1) + &listen("1"));
    assert_eq!(wire.receive()["method"], "notifications/subscriptions/acknowledged");
    let rest = wire.end();
    assert_eq!(rest.iter().filter(|m| m["id"] == 1).count(), 1, "{rest:?}");
}

/// Accepts every schema and panics in each check.
struct Panics;

impl SchemaCheck for Panics {
    fn check(&self, _: tinymcp::json::Value<'_>) -> Result<(), tinymcp::record::Violation> {
        panic!("secret text of a check")
    }
}

impl SchemaCompiler for Panics {
    fn compile(&self, schema: tinymcp::json::Value<'_>) -> Result<Arc<dyn SchemaCheck>, String> {
        match schema.get("x-check").is_some() {
            true => Ok(Arc::new(Panics)),
            false => Ok(Arc::new(AcceptsAll)),
        }
    }
}

struct AcceptsAll;

impl SchemaCheck for AcceptsAll {
    fn check(&self, _: tinymcp::json::Value<'_>) -> Result<(), tinymcp::record::Violation> {
        Ok(())
    }
}

/// Panics when it is dropped, also as the payload of a panic.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("secret text of a destructor")
    }
}

fn panics_are_errors_without_the_panic_text() {
    const CHECKED: Json = Json::constant(r#"{"type":"object","x-check":true}"#);
    fn words(_: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
        panic!("secret text of a handler")
    }
    fn payload(_: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
        std::panic::panic_any(PanicsOnDrop)
    }
    fn destructor(_: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
        let _grenade = PanicsOnDrop;
        Ok("never".to_owned())
    }
    fn structured(_: &mut Context<'_>, _: Json) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::structured(Json::constant("{}")))
    }
    let mut server = Server::new("hostile", "1");
    server.schema_compiler(Arc::new(Panics));
    type Handler = fn(&mut Context<'_>, Json) -> Result<String, ToolError>;
    let tools: [(&str, Handler); 3] = [("words", words), ("payload", payload), ("destructor", destructor)];
    let mut names = Vec::new();
    for (name, handler) in tools {
        server.tool(any(name), handler).unwrap();
        server.inline_tool(any(&format!("{name}.inline")), handler).unwrap();
        names.extend([name.to_owned(), format!("{name}.inline")]);
    }
    let output = |name: &str| {
        Tool::new(name).input_schema(Json::constant(r#"{"type":"object"}"#)).output_schema(CHECKED)
    };
    server.tool(Tool::new("input").input_schema(CHECKED), echo).unwrap();
    server.inline_tool(Tool::new("input.inline").input_schema(CHECKED), echo).unwrap();
    server.tool(output("output"), structured).unwrap();
    server.inline_tool(output("output.inline"), structured).unwrap();
    names.extend(["input", "input.inline", "output", "output.inline"].map(str::to_owned));
    let wire = Wire::open(server, limits(|l| (l.workers, l.handler_deadline) = (1, Duration::ZERO)));
    for id in 0..names.len() * 20 {
        wire.send(call(id, &names[id % names.len()], "{}"));
        let response = wire.receive();
        assert_eq!(response["id"], id, "{response}");
        assert_eq!(response["error"]["code"], -32603, "{response}");
        assert!(!response.to_string().contains("secret"), "{response}");
    }
    assert!(wire.end().is_empty());
}

fn a_call_without_a_worker_thread_gets_an_error() {
    let mut server = plain();
    server.limits(limits(|l| {
        // More than any address space: no worker can start, and the thread that calls `serve`
        // reads.
        (l.worker_stack, l.handler_deadline) = (usize::MAX / 16 * 15, Duration::ZERO);
    }));
    let (link, mut end) = tinymcp::memory();
    let serving = thread::spawn(move || server.into_local().serve(link));
    for line in super::wire::handshake("2025-11-25").lines() {
        end.send(line);
    }
    assert!(end.receive(TIMEOUT).unwrap().contains("\"open\""));
    for id in 0..3 {
        end.send(&call(id, "echo", "{}"));
        let response = end.receive(TIMEOUT).expect("no response although no thread could start");
        let response: Value = serde_json::from_str(&response).unwrap();
        assert_eq!(response["id"], id);
        assert_eq!(response["result"]["isError"], true, "{response}");
    }
    end.finish();
    serving.join().unwrap().unwrap();
}
