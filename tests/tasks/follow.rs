//! Clients of this library follow tasks of servers of this library.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tinymcp::{
    Client, ElicitResponse, ErrorKind, Limits, Link, Outcome, Protocol, TaskStatus, json, memory_links,
};

use crate::wire::{Gate, HANG, server};

/// A client and a server that polls quickly.
fn connected(gate: &Gate, protocol: Protocol) -> Client {
    let mut limits = Limits::default();
    limits.tasks.poll = Duration::from_millis(10);
    let mut server = server(gate);
    server.limits(limits);
    let (link, other): (Link, Link) = memory_links();
    std::thread::spawn(move || server.serve(other));
    Client::builder("c", "1")
        .protocol(protocol)
        .on_elicit(|form| {
            assert!(!form.message.is_empty());
            Ok(ElicitResponse::accept(json!({"x": "yes"})))
        })
        .over(link)
        .unwrap()
}

const BOTH: [Protocol; 2] = [Protocol::Session, Protocol::Stateless];

#[test]
fn a_call_waits_until_its_task_is_over() {
    for protocol in BOTH {
        let gate = Gate::default();
        gate.open();
        let client = connected(&gate, protocol);
        let output = client.request_tool("gated", json!({})).as_task().wait().unwrap();
        assert_eq!(output.texts(), "None true");
        let output = client.request_tool("plain", json!({})).as_task().wait();
        // In a session only tools that allow it may be called as tasks.
        match protocol {
            Protocol::Session => assert_eq!(output.unwrap_err().code(), Some(-32601)),
            _ => assert_eq!(output.unwrap().texts(), "plain"),
        }
        let output = client.request_tool("fails", json!({})).as_task().wait().unwrap();
        assert!(output.is_error);
        let error = client.request_tool("faults", json!({})).as_task().wait().unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Remote, Some(7)));
    }
}

#[test]
fn the_handlers_answer_the_questions_of_a_task() {
    for protocol in BOTH {
        let client = connected(&Gate::default(), protocol);
        let output = client.request_tool("asks", json!({})).as_task().wait().unwrap();
        assert_eq!(output.texts(), "yes yes yes");
        let output = client.request_tool("first_asks", json!({})).as_task().wait().unwrap();
        assert_eq!(output.texts(), "yes true");
    }
}

#[test]
fn a_task_is_followed_by_its_id() {
    for protocol in BOTH {
        let gate = Gate::default();
        let client = connected(&gate, protocol);
        let call = client.request_tool("gated", json!({})).as_task().start().unwrap();
        let Outcome::Task(task) = call.wait_outcome().unwrap() else { panic!("no task") };
        gate.await_arrivals(1);
        let states = Arc::new(Mutex::new(Vec::new()));
        let (seen, opened) = (Arc::clone(&states), gate.clone());
        let output = client
            .follow_task(&task.id)
            .on_state(move |task| {
                seen.lock().unwrap().push((task.status, task.message.clone()));
                opened.open();
            })
            .wait()
            .unwrap();
        assert_eq!(output.texts(), "None true");
        let states = states.lock().unwrap();
        assert_eq!(states.first().unwrap(), &(TaskStatus::Working, Some("1/2 half".to_owned())));
        assert_eq!(states.last().unwrap().0, TaskStatus::Completed);
        // Again, as after a restart of the client.
        assert_eq!(client.follow_task(&task.id).wait().unwrap().texts(), "None true");
        let error = client.follow_task("unknown").wait().unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Remote, Some(-32602)));
    }
}

/// The states after the response are reported, too; in a session while `tasks/result` waits.
#[test]
fn the_states_after_a_question_are_reported() {
    for protocol in BOTH {
        let gate = Gate::default();
        let client = connected(&gate, protocol);
        let call = client.request_tool("asks_then_waits", json!({})).as_task().start().unwrap();
        let Outcome::Task(task) = call.wait_outcome().unwrap() else { panic!("no task") };
        let deadline = Instant::now() + HANG;
        while client.task(&task.id).unwrap().status != TaskStatus::InputRequired {
            assert!(Instant::now() < deadline);
        }
        let states = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&states);
        let followed = client.follow_task(&task.id).on_state(move |task| {
            seen.lock().unwrap().push(task.status);
            // The task ends only after its state `working` was seen again.
            if task.status == TaskStatus::Working {
                gate.open();
            }
        });
        assert_eq!(followed.timeout(HANG).wait().unwrap().texts(), "yes");
        let mut states = states.lock().unwrap();
        states.dedup();
        let expected = [TaskStatus::InputRequired, TaskStatus::Working, TaskStatus::Completed];
        assert_eq!(states[..], expected, "{protocol:?}");
    }
}

#[test]
fn a_cancelled_question_is_reported_as_cancelled() {
    for protocol in BOTH {
        let client = connected(&Gate::default(), protocol);
        let call = client.request_tool("asks", json!({})).as_task().start().unwrap();
        let Outcome::Task(task) = call.wait_outcome().unwrap() else { panic!("no task") };
        client.cancel_task(&task.id).unwrap();
        let error = client.follow_task(&task.id).wait_json().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{protocol:?}: {error}");
    }
}

#[test]
fn a_client_cancels_a_task_and_gives_up_on_one() {
    for protocol in BOTH {
        let client = connected(&Gate::default(), protocol);
        let call = client.request_tool("sleeps", json!({})).as_task().start().unwrap();
        let Outcome::Task(task) = call.wait_outcome().unwrap() else { panic!("no task") };
        let error = client.follow_task(&task.id).timeout(Duration::from_millis(1)).wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        client.cancel_task(&task.id).unwrap();
        let error = client.follow_task(&task.id).wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(client.task(&task.id).unwrap().status, TaskStatus::Cancelled);
    }
}
