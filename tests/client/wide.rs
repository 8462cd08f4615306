//! Times, steps and numbers that do not fit in 32 bits, as clients see them: `cross/test armv7` runs this where
//! pointers have no more.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{Client, ErrorKind, Limits, Outcome, Protocol, json as ours};

use super::played::{SOON, call, connected, ok, plain};

/// What is 0 in 32 bits.
const FAR: u64 = 1 << 32;

#[test]
fn steps_of_progress_may_be_bytes_of_a_large_disk() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, played) = connected(plain(), era);
        let (tell, told) = mpsc::channel();
        let request = client.request_tool("t", ours!({})).on_progress(move |step| {
            tell.send((step.done, step.total)).unwrap();
        });
        let call = request.start().unwrap();
        let message = played.hear();
        let token = message["params"]["_meta"]["progressToken"].clone();
        let done = [(1 << 31) - 1, 1 << 31, FAR - 1, FAR, FAR + 1, (1 << 53) - 1];
        for n in done {
            let params = json!({"progressToken": token, "progress": n, "total": 1_u64 << 53});
            played.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        played.answer(&message["id"], ok());
        call.wait().unwrap();
        let steps: Vec<_> = told.iter().collect();
        let want: Vec<_> = done.iter().map(|n| (*n as f64, Some((1_u64 << 53) as f64))).collect();
        assert_eq!(steps, want);
    }
}

#[test]
fn what_stays_fresh_for_longer_than_32_bits_of_milliseconds_is_kept() {
    for ttl in [1 << 31, FAR, FAR + 1, 1 << 53, u64::MAX] {
        let (client, played) = connected(plain(), Protocol::Stateless);
        let listing = thread::spawn({
            let client = client.clone();
            move || client.tools().map(|tools| tools.len())
        });
        let id = played.asked("tools/list");
        let page = json!({"resultType": "complete", "tools": [], "ttlMs": ttl, "cacheScope": "private"});
        played.answer(&id, page);
        assert_eq!(listing.join().unwrap().unwrap(), 0);
        // Nobody answers: it is kept, or this fails.
        let kept = client.request_tools(None).timeout(SOON).wait().unwrap();
        assert_eq!(kept.entries.len(), 0, "{ttl}");
    }
}

#[test]
fn tasks_tell_times_beyond_32_bits() {
    let (client, played) = connected(plain(), Protocol::Stateless);
    for ms in [(1 << 31) + 1, FAR, FAR + 1, (1 << 53) + 1, u64::MAX] {
        let call = client.request_tool("t", ours!({})).as_task();
        let calling = thread::spawn(move || call.start().unwrap().wait_outcome());
        let id = played.asked("tools/call");
        played.answer(
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
        (limits.call_timeout, limits.call_longest, limits.probe_timeout) = (far, far, far);
        (limits.ask_timeout, limits.child_exit) = (far, far);
        for era in [Protocol::Session, Protocol::Stateless] {
            let (client, played) = connected(Client::builder("tester", "0").limits(limits.clone()), era);
            // With the time of the limits, and with one of its own.
            let calling = call(&client, "t");
            played.answer(&played.asked("tools/call"), ok());
            assert_eq!(calling.join().unwrap().unwrap(), "ok");
            let request = client.request_tool("t", ours!({})).timeout(far).extended_by_progress(far);
            let mut call = request.start().unwrap();
            let id = played.asked("tools/call");
            assert!(call.wait_until(std::time::Instant::now()).is_none(), "{far:?}");
            played.answer(&id, ok());
            assert_eq!(call.wait().unwrap().texts(), "ok");
        }
    }
}

#[test]
fn codes_beyond_32_bits_are_not_those_they_would_be_cut_to() {
    let (client, played) = connected(plain(), Protocol::Session);
    let answered = |code: Value| {
        let calling = call(&client, "t");
        let error = json!({"code": code, "message": "no"});
        let id = played.asked("tools/call");
        played.say(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        calling.join().unwrap().unwrap_err()
    };
    assert_eq!(answered(json!(-32601)).code(), Some(-32601));
    for code in [FAR as i64 - 32601, (FAR as i64) * 3 - 32602, i64::MAX, i64::MIN] {
        let error = answered(json!(code));
        assert_eq!((error.kind(), error.code()), (ErrorKind::PeerMisbehaved, None), "{code}");
    }
}
