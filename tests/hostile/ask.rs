//! Calls that ask the client, and clients that answer late, twice, wrongly or never.

use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::json::Json;
use tinymcp::{Field, Form, Limits, Server};

use super::call::gated;
use super::process::{any, ask, never, plain};
use super::wire::{Peer, SOON, Wire, call, cancel, greeting, in_time, limits, request, text_of};
use crate::tests;

tests! {
    asking_calls_and_a_full_queue_do_not_deadlock,
    calls_beyond_the_cap_are_refused,
    a_question_that_is_never_answered_times_out,
    the_end_of_input_answers_calls_that_wait,
    a_cancelled_call_takes_its_question_back,
    wrong_answers_change_nothing,
    answers_before_the_question_do_no_harm,
    answers_race_with_cancellations,
    a_resumed_call_has_its_deadline,
    many_rounds_of_many_calls,
    a_batch_waits_for_its_questions,
    a_batch_has_an_end,
    asking_inline_is_asking,
}

/// A server that asks, and may never end.
fn asking() -> Server {
    let mut server = plain();
    server.tool(any("ask"), ask).and_then(|s| s.tool(any("never"), never)).unwrap();
    server
}

/// The id of the question that comes next.
fn question(wire: &Wire) -> Value {
    let question = wire.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    question["id"].clone()
}

fn accept(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"yes": true}}}).to_string()
        + "\n"
}

fn asking_calls_and_a_full_queue_do_not_deadlock() {
    for workers in [1, 2] {
        let (mut server, gate, runs) = gated();
        server.tool(any("ask"), ask).unwrap();
        let wire = Wire::open(server, limits(|l| (l.workers, l.queue) = (workers, 4)));
        (0..4).for_each(|id| wire.send(call(id, "ask", "{}")));
        let questions: Vec<Value> = (0..4).map(|_| question(&wire)).collect();
        // All workers are busy, the queue is full, and one more call than fits waits at the door
        // together with the answers.
        let full = workers as u64 + 4 + 1;
        for id in 10..10 + full {
            wire.send(call(id, "wait", "{}"));
        }
        (0..workers).for_each(|_| drop(runs.recv_timeout(SOON).unwrap()));
        questions.iter().rev().for_each(|id| wire.send(accept(id)));
        gate.open(full as usize);
        let answers = wire.answers((0..4).chain(10..10 + full));
        assert!(answers[..4].iter().all(|a| text_of(a) == "Accept"), "{answers:?}");
        assert!(wire.end().is_empty());
    }
}

fn calls_beyond_the_cap_are_refused() {
    let wire = Wire::open(asking(), limits(|l| (l.parked, l.workers) = (3, 2)));
    let mut open = Vec::new();
    for id in 0..3 {
        wire.send(call(id, "ask", "{}"));
        open.push(question(&wire));
    }
    for id in 3..6 {
        wire.send(call(id, "ask", "{}"));
        assert_eq!(wire.receive()["error"]["code"], -32603);
    }
    open.iter().for_each(|id| wire.send(accept(id)));
    wire.answers(0..3);
    wire.send(call(9, "ask", "{}"));
    wire.send(accept(&question(&wire)));
    assert_eq!(text_of(&wire.receive()), "Accept");
    assert!(wire.end().is_empty());
}

fn a_question_that_is_never_answered_times_out() {
    let wire = Wire::open(asking(), limits(|l| l.ask_timeout = Duration::from_millis(50)));
    for id in 0..3 {
        wire.send(call(id, "ask", "{}"));
        let question = question(&wire);
        let (mut withdrawn, mut answered) = (false, false);
        while !(withdrawn && answered) {
            let message = wire.receive();
            if message["method"] == "notifications/cancelled" {
                assert_eq!(message["params"]["requestId"], question);
                withdrawn = true;
            } else {
                assert_eq!((&message["id"], &message["result"]["isError"]), (&id.into(), &true.into()));
                answered = true;
            }
        }
        // Too late.
        wire.send(accept(&question));
        wire.quiet();
    }
    assert!(wire.end().is_empty());
}

fn the_end_of_input_answers_calls_that_wait() {
    let mut wire = Wire::open(asking(), Limits::default());
    (0..5).for_each(|id| wire.send(call(id, "ask", "{}")));
    (0..5).for_each(|_| drop(question(&wire)));
    // Not even read when the input ends: these ask when nobody can answer any more.
    wire.send((5..9).map(|id| call(id, "ask", "{}")).collect::<String>());
    wire.finish();
    let answers = wire.answers(0..9);
    assert!(answers.iter().all(|a| a["result"]["isError"] == true), "{answers:?}");
    let rest = wire.end();
    assert!(rest.iter().all(|m| m["method"] == "notifications/cancelled"), "{rest:?}");
}

fn a_cancelled_call_takes_its_question_back() {
    let wire = Wire::open(asking(), Limits::default());
    for _ in 0..3 {
        wire.send(call(1, "ask", "{}"));
        let question = question(&wire);
        wire.send(cancel(1));
        let back = wire.receive();
        assert_eq!(back["method"], "notifications/cancelled");
        assert_eq!(back["params"]["requestId"], question);
        wire.send(accept(&question));
        wire.quiet();
    }
    assert!(wire.end().is_empty());
}

fn wrong_answers_change_nothing() {
    let wire = Wire::open(asking(), Limits::default());
    wire.send(call(1, "ask", "{}"));
    let question = question(&wire);
    let number = question.as_u64().unwrap();
    for id in
        [json!(number + 1), json!(number.to_string()), json!(-1), json!(null), json!(1.5), json!(u64::MAX)]
    {
        wire.send(accept(&id));
        wire.quiet();
    }
    // Twice, in one breath: the first counts.
    let refused = json!({"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "no"}});
    wire.send(accept(&question) + &accept(&question) + &refused.to_string() + "\n");
    assert_eq!(text_of(&wire.receive()), "Accept");
    wire.quiet();
    // Of no shape, so that no other is to come; of the right one, with contents that do not fit the form; and refused.
    for (answer, expected) in [
        (json!({"result": true}), 0),
        (json!({"error": {}}), 0),
        (json!({"result": {}, "error": {"code": 1, "message": ""}}), 0),
        (json!({"result": {"action": "accept", "content": {"yes": "maybe"}}}), -32602),
        (json!({"result": {"action": "perhaps"}}), -32602),
        (json!({"result": {}}), -32602),
        (json!({"error": {"code": -1, "message": "no"}}), 0),
    ] {
        wire.send(call(2, "ask", "{}"));
        let mut answer = answer;
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = self::question(&wire);
        wire.send(answer.to_string() + "\n");
        let came = wire.receive();
        match expected {
            0 => assert_eq!(came["result"]["isError"], true, "{came}"),
            code => assert_eq!(came["error"]["code"], code, "{came}"),
        }
    }
    assert!(wire.end().is_empty());
}

fn answers_before_the_question_do_no_harm() {
    let wire = Wire::open(asking(), limits(|l| l.workers = 1));
    for id in 1..200 {
        // The ids of questions can be guessed; whoever answers too soon, answers nothing.
        let guess = json!(id);
        wire.send(accept(&guess) + &call(id, "ask", "{}") + &accept(&guess) + &accept(&guess));
        let mut answered = false;
        while !answered {
            let message = wire.receive();
            match message.get("method") {
                Some(_) => wire.send(accept(&message["id"])),
                None => {
                    assert_eq!((message["id"].as_u64(), text_of(&message)), (Some(id), "Accept"));
                    answered = true;
                }
            }
        }
    }
    // A guess may have been right before the question was out: then the question comes last.
    wire.send(request("\"quiet\"", "ping"));
    assert_eq!(wire.answer()["id"], "quiet");
}

fn answers_race_with_cancellations() {
    let rounds = if super::long() { 20_000 } else { 500 };
    for workers in [1, 2] {
        let wire = Wire::open(asking(), limits(|l| l.workers = workers));
        let mut answered = vec![0_u8; rounds as usize];
        let mut asked = vec![0_u8; rounds as usize];
        let mut take =
            |message: &Value, call: Option<u64>| match message.get("method").and_then(Value::as_str) {
                Some("elicitation/create") => {
                    let call = call.unwrap() as usize;
                    asked[call] += 1;
                }
                Some("notifications/cancelled") => {}
                _ => answered[message["id"].as_u64().unwrap_or_else(|| panic!("{message}")) as usize] += 1,
            };
        for id in 0..rounds {
            wire.send(call(id, "ask", "{}"));
            let question = loop {
                let message = wire.receive();
                take(&message, Some(id));
                if message["method"] == "elicitation/create" {
                    break message["id"].clone();
                }
            };
            match id % 3 {
                0 => wire.send(accept(&question) + &cancel(id)),
                1 => wire.send(cancel(id) + &accept(&question)),
                _ => {
                    wire.send(accept(&question));
                    wire.send(cancel(id));
                }
            }
        }
        wire.end().iter().for_each(|message| take(message, None));
        assert!(asked.iter().all(|n| *n == 1));
        assert!(answered.iter().all(|n| *n < 2), "an answer came twice");
        // Cancelled first: never answered.
        assert!(answered.iter().skip(1).step_by(3).all(|n| *n == 0));
    }
}

fn a_resumed_call_has_its_deadline() {
    in_time(Duration::from_millis(50), resumed_and_late);
}

fn resumed_and_late(deadline: Duration) -> Option<()> {
    let mut server = plain();
    server
        .tool(any("ask_then_never"), |ctx, arguments: Json| {
            ask(ctx, arguments.clone())?;
            never(ctx, arguments)
        })
        .unwrap();
    let wire = Wire::open(
        server,
        limits(|l| {
            l.handler_deadline = deadline;
            l.grace = Duration::from_millis(50);
        }),
    );
    for id in 0..3 {
        wire.send(call(id, "ask_then_never", "{}"));
        let question = wire.receive();
        if question.get("method").is_none() {
            assert!(text_of(&question).contains("deadline"), "late before it asked: {question}");
            return None;
        }
        wire.send(accept(&question["id"]));
        assert!(text_of(&wire.receive()).contains("deadline"));
    }
    assert!(wire.end().is_empty());
    Some(())
}

fn many_rounds_of_many_calls() {
    for workers in [1, 2, 64] {
        let mut server = plain();
        server
            .tool(any("chain"), |ctx, _: Json| {
                let form = || Form::new("Go on?").field(Field::boolean("yes"));
                let mut said = 0;
                for round in 0..5 {
                    let first = ctx.elicit(&format!("{round}a"), form());
                    let second = ctx.elicit(&format!("{round}b"), form());
                    said += u32::from(first?.accepted()) + u32::from(second?.accepted());
                }
                Ok(said.to_string())
            })
            .unwrap();
        let wire = Wire::open(server, limits(|l| (l.workers, l.queue) = (workers, 2)));
        let calls = 60;
        (0..calls).for_each(|id| wire.send(call(id, "chain", "{}")));
        let (mut open, mut questions) = (calls, 0);
        while open > 0 {
            let message = wire.receive();
            if message.get("method").is_some() {
                questions += 1;
                wire.send(accept(&message["id"]));
            } else {
                assert_eq!(text_of(&message), "10");
                open -= 1;
            }
        }
        assert_eq!(questions, calls * 10);
        assert!(wire.end().is_empty());
    }
}

fn a_batch_waits_for_its_questions() {
    let server = || {
        let mut server = asking();
        server.tool(any("roots"), |ctx, _: Json| Ok(ctx.roots("roots")?.len().to_string())).unwrap();
        server
    };
    let open = |limits| {
        let wire = Wire::start(server(), limits);
        wire.send(greeting("2025-03-26").replace("\"elicitation\":{}", "\"roots\":{}"));
        assert_eq!(wire.receive()["id"], "open");
        wire
    };
    let batch = |lines: &[String]| format!("[{}]\n", lines.join(",").replace('\n', ""));
    let roots = |question: &Value| {
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": "file:///r"}]}})
            .to_string()
            + "\n"
    };
    let wire = open(limits(|l| l.workers = 1));
    wire.send(batch(&[call(1, "roots", "{}"), request(2, "ping"), call(3, "echo", "{}")]));
    let question = wire.receive();
    assert_eq!(question["method"], "roots/list");
    wire.quiet();
    wire.send(roots(&question));
    let answer = wire.receive();
    assert_eq!(answer.as_array().map(Vec::len), Some(3), "{answer}");
    // A call of a batch that is cancelled while it waits: the rest of the batch is complete.
    wire.send(batch(&[call(1, "roots", "{}"), request(2, "ping")]));
    let question = wire.receive();
    wire.send(cancel(1));
    let mut rest = [wire.receive(), wire.receive()];
    rest.sort_by_key(|m| m.is_array());
    assert_eq!(rest[0]["params"]["requestId"], question["id"]);
    assert_eq!(rest[1][0]["id"], 2);
    assert_eq!(rest[1].as_array().map(Vec::len), Some(1));
    // Two answers to questions in a batch of their own.
    wire.send(batch(&[call(4, "roots", "{}"), call(5, "roots", "{}")]));
    let questions = [wire.receive(), wire.receive()];
    wire.send(batch(&[roots(&questions[1]), roots(&questions[0])]));
    assert_eq!(wire.receive().as_array().map(Vec::len), Some(2));
    // Calls of a batch have deadlines, and the end of input answers them.
    wire.send(batch(&[call(6, "roots", "{}"), call(7, "echo", "{}")]));
    wire.receive();
    let rest = wire.end();
    assert_eq!(rest.iter().filter(|m| m.as_array().is_some_and(|a| a.len() == 2)).count(), 1, "{rest:?}");
    let wire = open(limits(|l| {
        l.handler_deadline = Duration::from_millis(50);
        l.grace = Duration::from_millis(50);
    }));
    wire.send(batch(&[call(8, "never", "{}"), call(9, "echo", "{}")]));
    assert_eq!(wire.receive().as_array().map(Vec::len), Some(2));
    assert!(wire.end().is_empty());
}

fn a_batch_has_an_end() {
    let wire = Wire::start(plain(), limits(|l| (l.workers, l.queue) = (1, 1)));
    wire.send(greeting("2025-03-26"));
    wire.receive();
    let batch = |count: u64| {
        let calls: Vec<String> = (0..count).map(|id| call(id, "echo", "{}").replace('\n', "")).collect();
        format!("[{}]\n", calls.join(","))
    };
    wire.send(batch(100));
    assert_eq!(wire.receive().as_array().map(Vec::len), Some(100));
    for count in [101, 10_000] {
        wire.send(batch(count));
        assert_eq!(wire.receive()["error"]["code"], -32600);
    }
    // Nothing to answer, nothing but errors, batches in batches.
    wire.send("[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n");
    wire.quiet();
    for (line, len) in [("[1,2,3]", 3), ("[[]]", 1), ("[[[1]],{}]", 2), ("[\"\",null]", 2)] {
        wire.send(line.to_owned() + "\n");
        let answer = wire.receive();
        assert_eq!(answer.as_array().map(Vec::len), Some(len), "{answer}");
    }
    // The same id twice in one batch, and a cancellation beside its call.
    wire.send("[".to_owned() + call(1, "echo", "{}").trim() + "," + call(1, "echo", "{}").trim() + "]\n");
    let answer = wire.receive();
    assert_eq!(answer.as_array().map(Vec::len), Some(2), "{answer}");
    wire.send("[".to_owned() + call(1, "echo", "{}").trim() + "," + cancel(1).trim() + "]\n");
    wire.quiet();
    assert!(wire.end().is_empty());
}

fn asking_inline_is_asking() {
    let mut server = plain();
    server.inline_tool(any("ask"), ask).unwrap();
    let wire = Wire::open(server, limits(|l| l.parked = 2));
    wire.send(call(1, "ask", "{}") + &call(1, "ask", "{}") + &call(2, "ask", "{}") + &call(3, "ask", "{}"));
    let mut questions = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..4 {
        let message = wire.receive();
        if message.get("method").is_some() {
            questions.push(message["id"].clone());
        } else {
            errors.push(message["error"]["code"].as_i64());
        }
    }
    errors.sort_unstable();
    assert_eq!(errors, [Some(-32603), Some(-32600)]);
    questions.iter().rev().for_each(|id| wire.send(accept(id)));
    wire.answers([1, 2]);
    assert!(wire.end().is_empty());
}
