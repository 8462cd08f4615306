//! Deadlines of calls, and handlers that never return.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tinymcp::json::Json;
use tinymcp::{Completion, Prompt, PromptOutput, Resource, ResourceContents};

use super::call::{Gate, gated};
use super::in_time::in_time;
use super::process::{any, echo, never, plain};
use super::wire::{MODERN, Peer, TIMEOUT, Wire, call, cancel, is_success, limits, request, text_of};
use crate::tests;

tests! {
    a_call_past_its_deadline_is_flagged_and_gets_one_response,
    deadlines_expire_while_the_server_ends,
    queued_calls_have_deadlines,
    every_kind_of_handler_has_a_deadline,
    stuck_handlers_do_not_block_other_requests,
    deadlines_free_a_full_queue,
    unlimited_durations_are_accepted,
}

/// True if the handler of this response never ran: the machine was too slow for the deadline.
fn never_ran(response: &Value) -> bool {
    text_of(response).contains("never started")
}

fn a_call_past_its_deadline_is_flagged_and_gets_one_response() {
    in_time(Duration::from_millis(50), flagged_with_one_response);
}

fn flagged_with_one_response(deadline: Duration) -> Option<()> {
    let gate = Gate::default();
    let (tx, rx) = mpsc::channel();
    let mut server = plain();
    let pass = gate.clone();
    server
        .tool(any("late"), move |ctx, _: Json| {
            pass.pass();
            tx.send(ctx.cancelled())?;
            Ok("too late")
        })
        .unwrap();
    let wire = Wire::open(server, limits(|l| (l.handler_deadline, l.workers) = (deadline, 2)));
    for _ in 0..3 {
        wire.send(call(1, "late", "{}"));
        let late = wire.receive();
        assert_eq!(late["result"]["isError"], true, "{late}");
        assert!(text_of(&late).contains("deadline"), "{late}");
        if never_ran(&late) {
            return None;
        }
        // The result of the handler is dropped.
        gate.open(1);
        assert!(rx.recv_timeout(TIMEOUT).unwrap(), "the handler sees no cancellation");
        wire.assert_no_more();
    }
    assert!(wire.end().is_empty());
    Some(())
}

fn deadlines_expire_while_the_server_ends() {
    for local in [false, true] {
        let mut server = plain();
        server
            .tool(any("until_cancelled"), |ctx, _: Json| {
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
        wire.send(call(1, "until_cancelled", "{}"));
        // The grace period is long. The deadline ends the call and then the server.
        let rest = wire.end();
        assert!(rest.len() == 1 && text_of(&rest[0]).contains("deadline"), "{rest:?}");
    }
}

fn queued_calls_have_deadlines() {
    in_time(Duration::from_millis(50), |deadline| {
        let (server, gate, runs) = gated();
        let wire = Wire::open(server, limits(|l| (l.handler_deadline, l.workers) = (deadline, 1)));
        wire.send((0..20).map(|id| call(id, "wait", "{}")).collect::<String>());
        let responses = wire.responses(0..20);
        for response in &responses {
            assert!(text_of(response).contains("deadline"), "{response}");
        }
        if never_ran(&responses[0]) {
            return None;
        }
        runs.recv_timeout(TIMEOUT).unwrap();
        gate.open(1);
        assert!(wire.end().is_empty());
        assert!(runs.try_recv().is_err(), "a call ran after its response");
        Some(())
    });
}

fn every_kind_of_handler_has_a_deadline() {
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
        let response = wire.receive();
        assert_eq!(
            (&response["id"], &response["error"]["code"]),
            (&id.into(), &(-32603).into()),
            "{response}"
        );
    }
    assert!(wire.end().is_empty());
}

fn stuck_handlers_do_not_block_other_requests() {
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
            // One at a time, so that workers and queue hold all of them.
            wire.assert_no_more();
        }
        wire.send(request(100, "tools/list"));
        assert!(is_success(&wire.receive()));
        wire.send(call(101, "inline", "{}"));
        assert!(is_success(&wire.receive()));
        wire.send(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":102,\"method\":\"server/discover\",\"params\":{{{MODERN}}}}}\n"
        ));
        assert!(is_success(&wire.receive()));
        wire.send(request(103, "initialize"));
        assert!(wire.receive()["error"].is_object());
        // Cancelled queued calls make room.
        (workers as u64..stuck).for_each(|id| wire.send(cancel(id)));
        wire.assert_no_more();
        (200..204).for_each(|id| wire.send(call(id, "echo", "{}")));
        wire.assert_no_more();
        // The end of the input completes the remaining calls.
        let rest = wire.end();
        assert_eq!(rest.len(), workers + 4);
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
        // The reader blocks at the third call until a deadline expires.
        let calls: Vec<String> = (0..12).map(|id| call(id, "never", "{}")).collect();
        match in_one_breath {
            true => wire.send(calls.concat()),
            false => calls.iter().for_each(|call| wire.send(call)),
        }
        wire.send(request(12, "ping"));
        let responses = wire.responses(0..13);
        assert!(responses[..12].iter().all(|a| text_of(a).contains("deadline")));
        assert!(wire.end().is_empty());
    }
}

fn unlimited_durations_are_accepted() {
    for endless in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_millis(1 << 62)] {
        let (tx, rx) = mpsc::channel();
        let mut server = plain();
        server
            .tool(any("waits"), move |ctx, _: Json| {
                tx.send(true)?;
                let waited = ctx.wait(endless);
                tx.send(waited.is_ok())?;
                Ok("result after the cancellation")
            })
            .unwrap();
        let wire = Wire::open(
            server,
            limits(|l| (l.handler_deadline, l.grace, l.client_input_timeout) = (endless, endless, endless)),
        );
        wire.send(call(1, "echo", "{}"));
        assert!(is_success(&wire.receive()));
        wire.send(call(2, "waits", "{}"));
        assert!(rx.recv_timeout(TIMEOUT).unwrap());
        wire.send(cancel(2));
        assert!(!rx.recv_timeout(TIMEOUT).unwrap(), "the wait did not end with the cancellation");
        assert!(wire.end().is_empty());
    }
}
