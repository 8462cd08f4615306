//! Calls that are cancelled, repeated, late, stuck or that panic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tinymcp::json::Json;
use tinymcp::{
    Completion, Context, Failure, Limits, Prompt, PromptOutput, Resource, ResourceContents, SchemaCheck,
    SchemaCompiler, Server, Tool, ToolOutput,
};

use super::process::{any, echo, never, plain};
use super::tests;
use super::wire::{MODERN, Peer, SOON, Wire, call, cancel, is_good, limits, request, text_of};

tests! {
    a_queued_call_that_is_cancelled_never_runs,
    a_running_call_that_is_cancelled_is_told_and_not_answered,
    a_cancellation_and_an_answer_make_one_outcome,
    cancelling_what_is_not_there_does_nothing,
    an_id_in_flight_is_refused_a_second_time,
    ids_of_subscriptions_are_in_flight_too,
    a_call_past_its_deadline_is_flagged_and_answered_once,
    deadlines_hold_while_the_server_ends,
    queued_calls_have_deadlines_too,
    everything_that_runs_has_a_deadline,
    stuck_handlers_stop_nothing_else,
    a_stuck_handler_that_used_to_be_quick_stops_nothing_else,
    deadlines_free_a_full_queue,
    panics_are_answered_and_their_words_kept,
    a_call_that_no_thread_can_run_is_answered,
    endless_times_are_times,
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

fn a_call_past_its_deadline_is_flagged_and_answered_once() {
    let gate = Gate::default();
    let (tell, told) = mpsc::channel();
    let mut server = plain();
    let pass = gate.clone();
    server
        .tool(any("late"), move |ctx, _: Json| {
            pass.pass();
            tell.send(ctx.cancelled())?;
            Ok("too late")
        })
        .unwrap();
    let wire =
        Wire::open(server, limits(|l| (l.handler_deadline, l.workers) = (Duration::from_millis(50), 2)));
    for _ in 0..3 {
        wire.send(call(1, "late", "{}"));
        let late = wire.receive();
        assert_eq!(late["result"]["isError"], true, "{late}");
        assert!(text_of(&late).contains("deadline"), "{late}");
        // What the handler gives now is dropped.
        gate.open(1);
        assert!(told.recv_timeout(SOON).unwrap(), "the handler is told");
        wire.quiet();
    }
    assert!(wire.end().is_empty());
}

fn deadlines_hold_while_the_server_ends() {
    for local in [false, true] {
        let mut server = plain();
        server
            .tool(any("patient"), |ctx, _: Json| {
                while !ctx.cancelled() {
                    thread::yield_now();
                }
                Ok("too late")
            })
            .unwrap();
        let limits = limits(|l| {
            (l.handler_deadline, l.grace) = (Duration::from_millis(100), Duration::from_secs(3600));
        });
        let wire = if local { Wire::open_local(server, limits) } else { Wire::open(server, limits) };
        wire.send(call(1, "patient", "{}"));
        // The grace period is long; what ends the call, and with it serving, is the deadline.
        let rest = wire.end();
        assert!(rest.len() == 1 && text_of(&rest[0]).contains("deadline"), "{rest:?}");
    }
}

fn queued_calls_have_deadlines_too() {
    let (server, gate, runs) = gated();
    let wire =
        Wire::open(server, limits(|l| (l.handler_deadline, l.workers) = (Duration::from_millis(50), 1)));
    wire.send((0..20).map(|id| call(id, "wait", "{}")).collect::<String>());
    runs.recv_timeout(SOON).unwrap();
    for answer in wire.answers(0..20) {
        assert!(text_of(&answer).contains("deadline"), "{answer}");
    }
    gate.open(1);
    assert!(wire.end().is_empty());
    assert!(runs.try_recv().is_err(), "a call ran after its answer");
}

fn everything_that_runs_has_a_deadline() {
    let mut server = plain();
    server
        .resource(Resource::new("res:never", "r"), |_, _| -> Result<ResourceContents, _> {
            loop {
                thread::park();
            }
        })
        .and_then(|s| {
            s.prompt(
                Prompt::new("never").argument(tinymcp::Argument::optional("a")),
                |_, _| -> Result<PromptOutput, _> {
                    loop {
                        thread::park();
                    }
                },
            )
        })
        .and_then(|s| {
            s.complete_prompt("never", "a", |_| -> Completion {
                loop {
                    thread::park();
                }
            })
        })
        .unwrap();
    let wire = Wire::open(
        server,
        limits(|l| (l.handler_deadline, l.grace) = (Duration::from_millis(50), Duration::from_millis(50))),
    );
    for (id, method, params) in [
        (1, "resources/read", r#"{"uri":"res:never"}"#),
        (2, "prompts/get", r#"{"name":"never"}"#),
        (
            3,
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"never"},"argument":{"name":"a","value":""}}"#,
        ),
    ] {
        wire.send(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        ));
        let answer = wire.receive();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id.into(), &(-32603).into()), "{answer}");
    }
    assert!(wire.end().is_empty());
}

fn stuck_handlers_stop_nothing_else() {
    for workers in [1, 2, 64] {
        let mut server = plain();
        server.inline_tool(any("inline"), echo).and_then(|s| s.tool(any("never"), never)).unwrap();
        let wire = Wire::open(
            server,
            limits(|l| {
                (l.workers, l.queue, l.handler_deadline) = (workers, 4, Duration::ZERO);
                l.grace = Duration::from_millis(50);
            }),
        );
        let stuck = workers as u64 + 4;
        for id in 0..stuck {
            wire.send(call(id, "never", "{}"));
            // One by one, so that no more than the workers and the queue hold are on their way.
            wire.quiet();
        }
        wire.send(request(100, "tools/list"));
        assert!(is_good(&wire.receive()));
        wire.send(call(101, "inline", "{}"));
        assert!(is_good(&wire.receive()));
        wire.send(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":102,\"method\":\"server/discover\",\"params\":{{{MODERN}}}}}\n"
        ));
        assert!(is_good(&wire.receive()));
        wire.send(request(103, "initialize"));
        assert!(wire.receive()["error"].is_object());
        // The queued ones can be cancelled, and make room.
        (workers as u64..stuck).for_each(|id| wire.send(cancel(id)));
        wire.quiet();
        (200..204).for_each(|id| wire.send(call(id, "echo", "{}")));
        wire.quiet();
        // All the others are answered at the end.
        let rest = wire.end();
        assert_eq!(rest.len(), workers + 4);
    }
}

fn a_stuck_handler_that_used_to_be_quick_stops_nothing_else() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for workers in [1, 2] {
        let stick = Arc::new(AtomicBool::new(false));
        let (tell, stuck) = mpsc::channel();
        let mut server = plain();
        for name in NAMES {
            let (stick, tell) = (Arc::clone(&stick), tell.clone());
            server
                .tool(any(name), move |_, _: Json| {
                    let thread = thread::current().name().unwrap_or_default().to_owned();
                    if stick.load(Ordering::Relaxed) {
                        tell.send((name, thread.clone()))?;
                    }
                    while stick.load(Ordering::Relaxed) {
                        thread::park();
                    }
                    Ok(thread)
                })
                .unwrap();
        }
        let wire = Wire::open(
            server,
            limits(|l| {
                (l.workers, l.queue, l.handler_deadline) = (workers, 8, Duration::ZERO);
                l.grace = Duration::from_millis(50);
            }),
        );
        // Quick so often that the thread that reads runs them itself.
        let mut trusted = 0;
        for round in 0_u64.. {
            let name = NAMES[round as usize % 4];
            wire.send(call(round, name, "{}"));
            trusted = if text_of(&wire.receive()).contains("reader") { trusted + 1 } else { 0 };
            if trusted > 8 {
                break;
            }
        }
        stick.store(true, Ordering::Relaxed);
        for (id, name) in ["a", "a", "b", "b", "c", "d"].iter().enumerate() {
            wire.send(call(id, name, "{}"));
            wire.quiet();
        }
        wire.send(cancel(0));
        wire.quiet();
        let stuck: Vec<(&str, String)> = stuck.try_iter().collect();
        let reads = stuck.iter().filter(|(_, thread)| thread.contains("reader"));
        assert!(reads.clone().count() <= workers, "no more threads than workers: {stuck:?}");
        assert!(reads.filter(|(name, _)| *name == "a").count() <= 1, "trusted while it was stuck: {stuck:?}");
        assert_eq!(wire.end().len(), 5);
    }
}

fn deadlines_free_a_full_queue() {
    for in_one_breath in [false, true] {
        let mut server = plain();
        server.tool(any("never"), never).unwrap();
        let wire = Wire::open(
            server,
            limits(|l| {
                (l.workers, l.queue, l.handler_deadline) = (1, 1, Duration::from_millis(50));
                l.grace = Duration::from_millis(50);
            }),
        );
        // Reading stops at the third; only the deadline lets it go on.
        let calls: Vec<String> = (0..12).map(|id| call(id, "never", "{}")).collect();
        match in_one_breath {
            true => wire.send(calls.concat()),
            false => calls.iter().for_each(|call| wire.send(call)),
        }
        wire.send(request(12, "ping"));
        let answers = wire.answers(0..13);
        assert!(answers[..12].iter().all(|a| text_of(a).contains("deadline")));
        assert!(wire.end().is_empty());
    }
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
    fn words(_: &mut Context<'_>, _: Json) -> Result<String, Failure> {
        panic!("secret words of a handler")
    }
    fn payload(_: &mut Context<'_>, _: Json) -> Result<String, Failure> {
        std::panic::panic_any(Grenade)
    }
    fn destructor(_: &mut Context<'_>, _: Json) -> Result<String, Failure> {
        let _grenade = Grenade;
        Ok("never".to_owned())
    }
    fn structured(_: &mut Context<'_>, _: Json) -> Result<ToolOutput, Failure> {
        Ok(ToolOutput::structured(Json::constant("{}")))
    }
    let mut server = Server::new("hostile", "1");
    server.schema_compiler(Arc::new(Panics));
    type Handler = fn(&mut Context<'_>, Json) -> Result<String, Failure>;
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
        (l.worker_stack, l.handler_deadline) = (1 << 47, Duration::ZERO);
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

fn endless_times_are_times() {
    for endless in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_millis(1 << 62)] {
        let wire = Wire::open(
            plain(),
            limits(|l| (l.handler_deadline, l.grace, l.ask_timeout) = (endless, endless, endless)),
        );
        wire.send(call(1, "echo", "{}"));
        assert!(is_good(&wire.receive()));
        assert!(wire.end().is_empty());
    }
}
