//! Calls that are cancelled, repeated, late, stuck or that panic.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tinymcp::json::Json;
use tinymcp::{Context, Limits, SchemaCheck, SchemaCompiler, Server, Tool, ToolError, ToolOutput};

use super::process::{any, echo, plain};
use super::wire::{MODERN, Peer, SOON, Wire, call, cancel, is_good, limits, request, text_of};
use crate::tests;

tests! {
    a_queued_call_that_is_cancelled_never_runs,
    a_running_call_that_is_cancelled_is_told_and_not_answered,
    a_cancellation_and_an_answer_make_one_outcome,
    cancelling_what_is_not_there_does_nothing,
    an_id_in_flight_is_refused_a_second_time,
    ids_of_subscriptions_are_in_flight_too,
    panics_are_answered_and_their_words_kept,
    a_call_that_no_thread_can_run_is_answered,
}

/// Holds handlers back until the test lets them go on.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<usize>, Condvar)>);

impl Gate {
    /// Lets so many more through.
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

    /// Waits until all that were let through have gone.
    pub fn passed(&self) {
        let passes = self.0.0.lock().unwrap();
        let (passes, _) = self.0.1.wait_timeout_while(passes, SOON, |passes| *passes > 0).unwrap();
        assert_eq!(*passes, 0, "nobody came through the gate");
    }
}

/// A server with a tool `wait` that says when it runs and goes on when the gate lets it.
pub fn gated() -> (Server, Gate, mpsc::Receiver<String>) {
    let gate = Gate::default();
    let (tell, runs) = mpsc::channel();
    let mut server = plain();
    let pass = gate.clone();
    server
        .tool(any("wait"), move |_, arguments: Json| {
            tell.send(arguments.as_str().to_owned())?;
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
    assert_eq!(runs.recv_timeout(SOON).unwrap(), "{\"n\":1}");
    wire.send(call(2, "wait", "{\"n\":2}"));
    wire.quiet();
    wire.send(cancel(2));
    // Its id is free at once; and one that is cancelled in the breath that called it.
    wire.send(call(2, "wait", "{\"n\":3}") + &call(4, "wait", "{\"n\":4}") + &cancel(4));
    wire.quiet();
    gate.open(2);
    wire.answers([1, 2]);
    assert_eq!(runs.recv_timeout(SOON).unwrap(), "{\"n\":3}");
    assert!(wire.end().is_empty());
    assert!(runs.recv_timeout(SOON).is_err(), "a cancelled call ran");
}

fn a_running_call_that_is_cancelled_is_told_and_not_answered() {
    let (tell, told) = mpsc::channel();
    let mut server = plain();
    server
        .tool(any("patient"), move |ctx, _: Json| {
            tell.send("runs")?;
            while !ctx.cancelled() {
                thread::yield_now();
            }
            ctx.progress(1.0, None, Some("nobody wants to know"));
            tell.send("ends")?;
            Ok("nobody wants this")
        })
        .unwrap();
    let wire = Wire::open(server, limits(|l| l.workers = 1));
    for _ in 0..3 {
        wire.send(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"patient","_meta":{"progressToken":1}}}"#
                .to_owned()
                + "\n",
        );
        assert_eq!(told.recv_timeout(SOON).unwrap(), "runs");
        wire.send(cancel(1));
        assert_eq!(told.recv_timeout(SOON).unwrap(), "ends");
        wire.quiet();
    }
    assert!(wire.end().is_empty());
}

fn a_cancellation_and_an_answer_make_one_outcome() {
    let rounds = if super::long() { 100_000 } else { 3_000 };
    for workers in [1, 2, 64] {
        let wire = Wire::open(plain(), limits(|l| l.workers = workers));
        let mut answered = vec![0_u8; rounds as usize];
        let mut take = |answer: Value| {
            assert!(is_good(&answer), "{answer}");
            answered[answer["id"].as_u64().unwrap() as usize] += 1;
        };
        let mut open = 0;
        for id in 0..rounds {
            // Now in one breath, now as two.
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
                    answer if answer["id"] == "round" => open -= 1,
                    answer => take(answer),
                }
            }
        }
        wire.end().into_iter().for_each(&mut take);
        assert!(answered.iter().all(|n| *n < 2), "an answer came twice");
    }
}

fn cancelling_what_is_not_there_does_nothing() {
    let wire = Wire::open(plain(), Limits::default());
    for id in ["0", "1", "\"open\"", "null", "1.5", "{}", "[]", "18446744073709551616", "\"\\u0000\""] {
        wire.send(cancel(id));
        wire.send(cancel(id));
        wire.quiet();
    }
}

fn an_id_in_flight_is_refused_a_second_time() {
    let (server, gate, runs) = gated();
    let wire = Wire::open(server, limits(|l| l.workers = 4));
    wire.send(call(1, "wait", "{}"));
    runs.recv_timeout(SOON).unwrap();
    for again in [call(1, "wait", "{}"), call(1, "echo", "{}"), call(1, "wait", "{}") + &request(9, "ping")] {
        let more = again.lines().count() > 1;
        wire.send(again);
        let refused = wire.receive();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&1.into(), &(-32600).into()), "{refused}");
        if more {
            assert_eq!(wire.receive()["id"], 9);
        }
    }
    // Another type is another id.
    wire.send(call("\"1\"", "wait", "{}"));
    runs.recv_timeout(SOON).unwrap();
    gate.open(2);
    let mut ids = [wire.receive()["id"].clone(), wire.receive()["id"].clone()];
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, [Value::from("1"), Value::from(1)]);
    // Free again; and twice in one breath.
    wire.send(call(1, "wait", "{}") + &call(1, "wait", "{}"));
    let refused = wire.receive();
    assert!(refused["error"].is_object(), "{refused}");
    runs.recv_timeout(SOON).unwrap();
    gate.open(1);
    assert_eq!(text_of(&wire.receive()), "waited");
    assert!(wire.end().is_empty());
    assert!(runs.try_recv().is_err());
}

fn ids_of_subscriptions_are_in_flight_too() {
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
    runs.recv_timeout(SOON).unwrap();
    wire.send(listen("2"));
    assert_eq!(wire.receive()["error"]["code"], -32600);
    gate.open(1);
    assert_eq!(wire.receive()["id"], 2);
    // A subscription that ends leaves its id.
    wire.send(cancel(1) + &listen("1"));
    assert_eq!(wire.receive()["method"], "notifications/subscriptions/acknowledged");
    let rest = wire.end();
    assert_eq!(rest.iter().filter(|m| m["id"] == 1).count(), 1, "{rest:?}");
}

/// Accepts every schema, and panics when it checks.
struct Panics;

impl SchemaCheck for Panics {
    fn check(&self, _: tinymcp::json::Value<'_>) -> Result<(), tinymcp::record::Violation> {
        panic!("secret words of a check")
    }
}

impl SchemaCompiler for Panics {
    fn compile(&self, schema: tinymcp::json::Value<'_>) -> Result<Arc<dyn SchemaCheck>, String> {
        match schema.get("x-check").is_some() {
            true => Ok(Arc::new(Panics)),
            false => Ok(Arc::new(Lenient)),
        }
    }
}

struct Lenient;

impl SchemaCheck for Lenient {
    fn check(&self, _: tinymcp::json::Value<'_>) -> Result<(), tinymcp::record::Violation> {
        Ok(())
    }
}

/// Panics when it is dropped, also as the payload of a panic.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("secret words of a destructor")
    }
}

fn panics_are_answered_and_their_words_kept() {
    const CHECKED: Json = Json::constant(r#"{"type":"object","x-check":true}"#);
    fn words(_: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
        panic!("secret words of a handler")
    }
    fn payload(_: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
        std::panic::panic_any(Grenade)
    }
    fn destructor(_: &mut Context<'_>, _: Json) -> Result<String, ToolError> {
        let _grenade = Grenade;
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
        let answer = wire.receive();
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
    assert!(wire.end().is_empty());
}

fn a_call_that_no_thread_can_run_is_answered() {
    let mut server = plain();
    server.limits(limits(|l| {
        // More than any address space: a worker cannot start. The thread that calls serve reads.
        (l.worker_stack, l.handler_deadline) = (usize::MAX / 16 * 15, Duration::ZERO);
    }));
    let (link, mut end) = tinymcp::memory();
    let serving = thread::spawn(move || server.into_local().serve(link));
    for line in super::wire::greeting("2025-11-25").lines() {
        end.send(line);
    }
    assert!(end.receive(SOON).unwrap().contains("\"open\""));
    for id in 0..3 {
        end.send(&call(id, "echo", "{}"));
        let answer = end.receive(SOON).expect("an answer although no thread could start");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    end.finish();
    serving.join().unwrap().unwrap();
}
