//! Calls that send an elicitation, and clients that respond late, twice, wrongly or never.

use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::json::Json;
use tinymcp::{Field, Form, Limits, Server};

use super::call::gated;
use super::in_time::in_time;
use super::process::{any, ask, never, plain};
use super::wire::{Peer, TIMEOUT, Wire, call, cancel, handshake, limits, request, text_of};
use crate::tests;

tests! {
    eliciting_calls_and_a_full_queue_do_not_deadlock,
    calls_beyond_the_parked_limit_are_rejected,
    an_elicitation_without_a_response_times_out,
    the_end_of_input_fails_parked_calls,
    a_cancelled_call_cancels_its_elicitation,
    invalid_responses_are_dropped_or_fail_the_call,
    early_responses_are_dropped,
    racing_response_and_cancellation_complete_a_call_once,
    a_resumed_call_has_a_deadline,
    many_calls_with_many_elicitations_complete,
    a_batch_response_waits_for_parked_calls,
    every_batch_is_completed,
    inline_tools_can_send_elicitations,
}

/// Server with the tools `ask` and `never`.
fn server_that_asks() -> Server {
    let mut server = plain();
    server.tool(any("ask"), ask).and_then(|s| s.tool(any("never"), never)).unwrap();
    server
}

/// Receives the next elicitation and returns its id.
fn elicitation(wire: &Wire) -> Value {
    let elicitation = wire.receive();
    assert_eq!(elicitation["method"], "elicitation/create", "{elicitation}");
    elicitation["id"].clone()
}

fn accept(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"yes": true}}}).to_string()
        + "\n"
}

fn eliciting_calls_and_a_full_queue_do_not_deadlock() {
    for workers in [1, 2] {
        let (mut server, gate, runs) = gated();
        server.tool(any("ask"), ask).unwrap();
        let wire = Wire::open(server, limits(|l| (l.workers, l.queue) = (workers, 4)));
        (0..4).for_each(|id| wire.send(call(id, "ask", "{}")));
        let elicitations: Vec<Value> = (0..4).map(|_| elicitation(&wire)).collect();
        // All workers are busy, the queue is full, and one more call is blocked in the reader
        // thread together with the responses.
        let full = workers as u64 + 4 + 1;
        for id in 10..10 + full {
            wire.send(call(id, "wait", "{}"));
        }
        (0..workers).for_each(|_| drop(runs.recv_timeout(TIMEOUT).unwrap()));
        elicitations.iter().rev().for_each(|id| wire.send(accept(id)));
        gate.open(full as usize);
        let responses = wire.responses((0..4).chain(10..10 + full));
        assert!(responses[..4].iter().all(|a| text_of(a) == "Accept"), "{responses:?}");
        assert!(wire.end().is_empty());
    }
}

fn calls_beyond_the_parked_limit_are_rejected() {
    let wire = Wire::open(server_that_asks(), limits(|l| (l.parked, l.workers) = (3, 2)));
    let mut open = Vec::new();
    for id in 0..3 {
        wire.send(call(id, "ask", "{}"));
        open.push(elicitation(&wire));
    }
    for id in 3..6 {
        wire.send(call(id, "ask", "{}"));
        assert_eq!(wire.receive()["error"]["code"], -32603);
    }
    open.iter().for_each(|id| wire.send(accept(id)));
    wire.responses(0..3);
    wire.send(call(9, "ask", "{}"));
    wire.send(accept(&elicitation(&wire)));
    assert_eq!(text_of(&wire.receive()), "Accept");
    assert!(wire.end().is_empty());
}

fn an_elicitation_without_a_response_times_out() {
    let wire = Wire::open(server_that_asks(), limits(|l| l.client_input_timeout = Duration::from_millis(50)));
    for id in 0..3 {
        wire.send(call(id, "ask", "{}"));
        let elicitation = elicitation(&wire);
        let (mut cancelled, mut completed) = (false, false);
        while !(cancelled && completed) {
            let message = wire.receive();
            if message["method"] == "notifications/cancelled" {
                assert_eq!(message["params"]["requestId"], elicitation);
                cancelled = true;
            } else {
                assert_eq!((&message["id"], &message["result"]["isError"]), (&id.into(), &true.into()));
                completed = true;
            }
        }
        // Too late.
        wire.send(accept(&elicitation));
        wire.assert_no_more();
    }
    assert!(wire.end().is_empty());
}

fn the_end_of_input_fails_parked_calls() {
    let mut wire = Wire::open(server_that_asks(), Limits::default());
    (0..5).for_each(|id| wire.send(call(id, "ask", "{}")));
    (0..5).for_each(|_| drop(elicitation(&wire)));
    // The server reads these calls only after the input has ended: no response to them can arrive.
    wire.send((5..9).map(|id| call(id, "ask", "{}")).collect::<String>());
    wire.finish();
    let responses = wire.responses(0..9);
    assert!(responses.iter().all(|a| a["result"]["isError"] == true), "{responses:?}");
    let rest = wire.end();
    assert!(rest.iter().all(|m| m["method"] == "notifications/cancelled"), "{rest:?}");
}

fn a_cancelled_call_cancels_its_elicitation() {
    let wire = Wire::open(server_that_asks(), Limits::default());
    for _ in 0..3 {
        wire.send(call(1, "ask", "{}"));
        let elicitation = elicitation(&wire);
        wire.send(cancel(1));
        let back = wire.receive();
        assert_eq!(back["method"], "notifications/cancelled");
        assert_eq!(back["params"]["requestId"], elicitation);
        wire.send(accept(&elicitation));
        wire.assert_no_more();
    }
    assert!(wire.end().is_empty());
}

fn invalid_responses_are_dropped_or_fail_the_call() {
    let wire = Wire::open(server_that_asks(), Limits::default());
    wire.send(call(1, "ask", "{}"));
    let elicitation = elicitation(&wire);
    let number = elicitation.as_u64().unwrap();
    for id in
        [json!(number + 1), json!(number.to_string()), json!(-1), json!(null), json!(1.5), json!(u64::MAX)]
    {
        wire.send(accept(&id));
        wire.assert_no_more();
    }
    // Three responses in one read: only the first counts.
    let refused = json!({"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "no"}});
    wire.send(accept(&elicitation) + &accept(&elicitation) + &refused.to_string() + "\n");
    assert_eq!(text_of(&wire.receive()), "Accept");
    wire.assert_no_more();
    // Responses without a valid shape, then valid responses whose content does not fit the form,
    // then an error.
    for (response, expected) in [
        (json!({"result": true}), 0),
        (json!({"error": {}}), 0),
        (json!({"result": {}, "error": {"code": 1, "message": ""}}), 0),
        (json!({"result": {"action": "accept", "content": {"yes": "maybe"}}}), -32602),
        (json!({"result": {"action": "perhaps"}}), -32602),
        (json!({"result": {}}), -32602),
        (json!({"error": {"code": -1, "message": "no"}}), 0),
    ] {
        wire.send(call(2, "ask", "{}"));
        let mut response = response;
        response["jsonrpc"] = "2.0".into();
        response["id"] = self::elicitation(&wire);
        wire.send(response.to_string() + "\n");
        let received = wire.receive();
        match expected {
            0 => assert_eq!(received["result"]["isError"], true, "{received}"),
            code => assert_eq!(received["error"]["code"], code, "{received}"),
        }
    }
    assert!(wire.end().is_empty());
}

fn early_responses_are_dropped() {
    let wire = Wire::open(server_that_asks(), limits(|l| l.workers = 1));
    for id in 1..200 {
        // The client can guess the ids of elicitations. A response that arrives too early is
        // dropped.
        let guess = json!(id);
        wire.send(accept(&guess) + &call(id, "ask", "{}") + &accept(&guess) + &accept(&guess));
        let mut completed = false;
        while !completed {
            let message = wire.receive();
            match message.get("method") {
                Some(_) => wire.send(accept(&message["id"])),
                None => {
                    assert_eq!((message["id"].as_u64(), text_of(&message)), (Some(id), "Accept"));
                    completed = true;
                }
            }
        }
    }
    // A guess may be accepted before its elicitation is written. The elicitation is then written
    // last.
    wire.send(request("\"quiet\"", "ping"));
    assert_eq!(wire.response()["id"], "quiet");
}

fn racing_response_and_cancellation_complete_a_call_once() {
    let rounds = if super::long() { 20_000 } else { 500 };
    for workers in [1, 2] {
        let wire = Wire::open(server_that_asks(), limits(|l| l.workers = workers));
        let mut completed = vec![0_u8; rounds as usize];
        let mut elicited = vec![0_u8; rounds as usize];
        let mut take =
            |message: &Value, call: Option<u64>| match message.get("method").and_then(Value::as_str) {
                Some("elicitation/create") => {
                    let call = call.unwrap() as usize;
                    elicited[call] += 1;
                }
                Some("notifications/cancelled") => {}
                _ => completed[message["id"].as_u64().unwrap_or_else(|| panic!("{message}")) as usize] += 1,
            };
        for id in 0..rounds {
            wire.send(call(id, "ask", "{}"));
            let elicitation = loop {
                let message = wire.receive();
                take(&message, Some(id));
                if message["method"] == "elicitation/create" {
                    break message["id"].clone();
                }
            };
            match id % 3 {
                0 => wire.send(accept(&elicitation) + &cancel(id)),
                1 => wire.send(cancel(id) + &accept(&elicitation)),
                _ => {
                    wire.send(accept(&elicitation));
                    wire.send(cancel(id));
                }
            }
        }
        wire.end().iter().for_each(|message| take(message, None));
        assert!(elicited.iter().all(|n| *n == 1));
        assert!(completed.iter().all(|n| *n < 2), "a call has two responses");
        // Calls cancelled first never get a response.
        assert!(completed.iter().skip(1).step_by(3).all(|n| *n == 0));
    }
}

fn a_resumed_call_has_a_deadline() {
    in_time(Duration::from_millis(50), deadline_after_resumption);
}

fn deadline_after_resumption(deadline: Duration) -> Option<()> {
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
        let elicitation = wire.receive();
        if elicitation.get("method").is_none() {
            assert!(
                text_of(&elicitation).contains("deadline"),
                "the deadline expired before the elicitation: {elicitation}"
            );
            return None;
        }
        wire.send(accept(&elicitation["id"]));
        assert!(text_of(&wire.receive()).contains("deadline"));
    }
    assert!(wire.end().is_empty());
    Some(())
}

fn many_calls_with_many_elicitations_complete() {
    for workers in [1, 2, 64] {
        let mut server = plain();
        server
            .tool(any("chain"), |ctx, _: Json| {
                let form = || Form::new("Go on?").field(Field::boolean("yes"));
                let mut accepted = 0;
                for round in 0..5 {
                    let first = ctx.elicit(&format!("{round}a"), form());
                    let second = ctx.elicit(&format!("{round}b"), form());
                    accepted += u32::from(first?.accepted()) + u32::from(second?.accepted());
                }
                Ok(accepted.to_string())
            })
            .unwrap();
        let wire = Wire::open(server, limits(|l| (l.workers, l.queue) = (workers, 2)));
        let calls = 60;
        (0..calls).for_each(|id| wire.send(call(id, "chain", "{}")));
        let (mut open, mut elicitations) = (calls, 0);
        while open > 0 {
            let message = wire.receive();
            if message.get("method").is_some() {
                elicitations += 1;
                wire.send(accept(&message["id"]));
            } else {
                assert_eq!(text_of(&message), "10");
                open -= 1;
            }
        }
        assert_eq!(elicitations, calls * 10);
        assert!(wire.end().is_empty());
    }
}

fn a_batch_response_waits_for_parked_calls() {
    let server = || {
        let mut server = server_that_asks();
        server.tool(any("roots"), |ctx, _: Json| Ok(ctx.roots("roots")?.len().to_string())).unwrap();
        server
    };
    let open = |limits| {
        let wire = Wire::start(server(), limits);
        wire.send(handshake("2025-03-26").replace("\"elicitation\":{}", "\"roots\":{}"));
        assert_eq!(wire.receive()["id"], "open");
        wire
    };
    let batch = |lines: &[String]| format!("[{}]\n", lines.join(",").replace('\n', ""));
    let roots = |roots_request: &Value| {
        json!({"jsonrpc": "2.0", "id": roots_request["id"], "result": {"roots": [{"uri": "file:///r"}]}})
            .to_string()
            + "\n"
    };
    let wire = open(limits(|l| l.workers = 1));
    wire.send(batch(&[call(1, "roots", "{}"), request(2, "ping"), call(3, "echo", "{}")]));
    let roots_request = wire.receive();
    assert_eq!(roots_request["method"], "roots/list");
    wire.assert_no_more();
    wire.send(roots(&roots_request));
    let response = wire.receive();
    assert_eq!(response.as_array().map(Vec::len), Some(3), "{response}");
    // A call of a batch is cancelled while it is parked. The rest of the batch is complete.
    wire.send(batch(&[call(1, "roots", "{}"), request(2, "ping")]));
    let roots_request = wire.receive();
    wire.send(cancel(1));
    let mut rest = [wire.receive(), wire.receive()];
    rest.sort_by_key(|m| m.is_array());
    assert_eq!(rest[0]["params"]["requestId"], roots_request["id"]);
    assert_eq!(rest[1][0]["id"], 2);
    assert_eq!(rest[1].as_array().map(Vec::len), Some(1));
    // Both responses to the requests arrive in one batch.
    wire.send(batch(&[call(4, "roots", "{}"), call(5, "roots", "{}")]));
    let roots_requests = [wire.receive(), wire.receive()];
    wire.send(batch(&[roots(&roots_requests[1]), roots(&roots_requests[0])]));
    assert_eq!(wire.receive().as_array().map(Vec::len), Some(2));
    // Calls of a batch have deadlines, and the end of the input completes them.
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

fn every_batch_is_completed() {
    let wire = Wire::start(plain(), limits(|l| (l.workers, l.queue) = (1, 1)));
    wire.send(handshake("2025-03-26"));
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
    // Batches with nothing to respond to, with errors only, and nested batches.
    wire.send("[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n");
    wire.assert_no_more();
    for (line, len) in [("[1,2,3]", 3), ("[[]]", 1), ("[[[1]],{}]", 2), ("[\"\",null]", 2)] {
        wire.send(line.to_owned() + "\n");
        let response = wire.receive();
        assert_eq!(response.as_array().map(Vec::len), Some(len), "{response}");
    }
    // The same id twice in one batch, and a cancellation next to its call.
    wire.send("[".to_owned() + call(1, "echo", "{}").trim() + "," + call(1, "echo", "{}").trim() + "]\n");
    let response = wire.receive();
    assert_eq!(response.as_array().map(Vec::len), Some(2), "{response}");
    wire.send("[".to_owned() + call(1, "echo", "{}").trim() + "," + cancel(1).trim() + "]\n");
    wire.assert_no_more();
    assert!(wire.end().is_empty());
}

fn inline_tools_can_send_elicitations() {
    let mut server = plain();
    server.inline_tool(any("ask"), ask).unwrap();
    let wire = Wire::open(server, limits(|l| l.parked = 2));
    wire.send(call(1, "ask", "{}") + &call(1, "ask", "{}") + &call(2, "ask", "{}") + &call(3, "ask", "{}"));
    let mut elicitations = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..4 {
        let message = wire.receive();
        if message.get("method").is_some() {
            elicitations.push(message["id"].clone());
        } else {
            errors.push(message["error"]["code"].as_i64());
        }
    }
    errors.sort_unstable();
    assert_eq!(errors, [Some(-32603), Some(-32600)]);
    elicitations.iter().rev().for_each(|id| wire.send(accept(id)));
    wire.responses([1, 2]);
    assert!(wire.end().is_empty());
}
