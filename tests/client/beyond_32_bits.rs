//! Times, steps and numbers beyond 32 bits in clients. `cross/test armv7` runs these tests with pointers of 32
//! bits.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{Client, ErrorKind, Limits, Outcome, Protocol, json as ours};

use super::scripted::{TIMEOUT, call, connected, ok, plain};

/// A number that is 0 in its lower 32 bits.
const FAR: u64 = 1 << 32;

#[test]
fn steps_of_progress_may_be_bytes_of_a_large_disk() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, scripted) = connected(plain(), era);
        let (sender, received) = mpsc::channel();
        let request = client.request_tool("t", ours!({})).on_progress(move |step| {
            sender.send((step.done, step.total)).unwrap();
        });
        let call = request.start().unwrap();
        let message = scripted.receive();
        let token = message["params"]["_meta"]["progressToken"].clone();
        let done = [(1 << 31) - 1, 1 << 31, FAR - 1, FAR, FAR + 1, (1 << 53) - 1];
        for n in done {
            let params = json!({"progressToken": token, "progress": n, "total": 1_u64 << 53});
            scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        scripted.answer(&message["id"], ok());
        call.wait().unwrap();
        let steps: Vec<_> = received.iter().collect();
        let want: Vec<_> = done.iter().map(|n| (*n as f64, Some((1_u64 << 53) as f64))).collect();
        assert_eq!(steps, want);
    }
}

#[test]
fn a_result_that_is_fresh_for_over_32_bits_of_milliseconds_is_cached() {
    for ttl in [1 << 31, FAR, FAR + 1, 1 << 53, u64::MAX] {
        let (client, scripted) = connected(plain(), Protocol::Stateless);
        let listing = thread::spawn({
            let client = client.clone();
            move || client.tools().map(|tools| tools.len())
        });
        let id = scripted.asked("tools/list");
        let page = json!({"resultType": "complete", "tools": [], "ttlMs": ttl, "cacheScope": "private"});
        scripted.answer(&id, page);
        assert_eq!(listing.join().unwrap().unwrap(), 0);
        // No response arrives, so the result must be cached for the call to succeed.
        let kept = client.request_tools(None).timeout(TIMEOUT).wait().unwrap();
        assert_eq!(kept.entries.len(), 0, "{ttl}");
    }
}

#[test]
fn tasks_have_times_beyond_32_bits() {
    let (client, scripted) = connected(plain(), Protocol::Stateless);
    for ms in [(1 << 31) + 1, FAR, FAR + 1, (1 << 53) + 1, u64::MAX] {
        let call = client.request_tool("t", ours!({})).as_task();
        let calling = thread::spawn(move || call.start().unwrap().wait_outcome());
        let id = scripted.asked("tools/call");
        scripted.answer(
            &id,
            json!({"resultType": "task", "taskId": "a", "status": "working", "ttlMs": ms, "pollIntervalMs": ms}),
        );
        let Outcome::Task(task) = calling.join().unwrap().unwrap() else { panic!("no task") };
        let time = Some(Duration::from_millis(ms));
        assert_eq!((task.ttl, task.poll_interval), (time, time));
    }
}

#[test]
fn times_beyond_32_bits_do_not_wrap() {
    for far in
        [Duration::from_millis(FAR), Duration::from_millis(FAR + 1), Duration::from_secs(FAR), Duration::MAX]
    {
        let mut limits = Limits::default();
        (limits.client.call_timeout, limits.client.call_total_timeout, limits.client.probe_timeout) =
            (far, far, far);
        (limits.client_input_timeout, limits.client.child_exit) = (far, far);
        for era in [Protocol::Session, Protocol::Stateless] {
            let (client, scripted) = connected(Client::builder("tester", "0").limits(limits.clone()), era);
            // With the timeout of the limits, and with its own.
            let calling = call(&client, "t");
            scripted.answer(&scripted.asked("tools/call"), ok());
            assert_eq!(calling.join().unwrap().unwrap(), "ok");
            let request = client.request_tool("t", ours!({})).timeout(far).reset_timeout_on_progress(far);
            let mut call = request.start().unwrap();
            let id = scripted.asked("tools/call");
            assert!(call.wait_until(std::time::Instant::now()).is_none(), "{far:?}");
            scripted.answer(&id, ok());
            assert_eq!(call.wait().unwrap().texts(), "ok");
        }
    }
}

#[test]
fn codes_beyond_32_bits_are_not_truncated() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let answered = |code: Value| {
        let calling = call(&client, "t");
        let error = json!({"code": code, "message": "no"});
        let id = scripted.asked("tools/call");
        scripted.say(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        calling.join().unwrap().unwrap_err()
    };
    assert_eq!(answered(json!(-32601)).code(), Some(-32601));
    for code in [FAR as i64 - 32601, (FAR as i64) * 3 - 32602, i64::MAX, i64::MIN] {
        let error = answered(json!(code));
        assert_eq!((error.kind(), error.code()), (ErrorKind::PeerMisbehaved, None), "{code}");
    }
}
