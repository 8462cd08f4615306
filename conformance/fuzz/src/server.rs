//! A server in memory: its responses to a sequence of frames equal the responses of fresh servers
//! to each frame.

use crate::input::Input;
use crate::rig::{answers, opening, server};

/// Methods that affect the responses to later frames.
const STATEFUL: [&str; 6] = [
    "initialize",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tasks/",
];

const REVISIONS: [Option<&str>; 5] =
    [None, Some("2024-11-05"), Some("2025-03-26"), Some("2025-06-18"), Some("2025-11-25")];

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let revision = input.pick(&REVISIONS);
    let Some(text) = input.rest() else { return };
    // Each message that the bounded link has to hold needs an object in a frame.
    if text.bytes().filter(|b| *b == b'{').count() > 60 {
        return;
    }
    let frames: Vec<&str> = text.split('\n').take(12).collect();
    let stateful = |value: &serde_json::Value| mentions(value);
    let parsed: Vec<Option<serde_json::Value>> = frames.iter().map(|f| serde_json::from_str(f).ok()).collect();
    if parsed.iter().flatten().any(stateful) {
        return;
    }
    let open = revision.map(opening);
    let opened = |frames: &[&str]| {
        let sent: Vec<&str> = open.as_deref().into_iter().chain(frames.iter().copied()).collect();
        let mut all = answers(server(false), &sent);
        drop(all.drain(..usize::from(open.is_some())));
        all
    };
    let lasting = opened(&frames);
    let mut fresh = Vec::new();
    for (frame, parsed) in frames.iter().zip(&parsed) {
        let all = opened(&[frame]);
        if parsed.is_none() && !frame.trim().is_empty() {
            // serde_json has a lower depth limit than we do; everything else that it rejects is not
            // JSON.
            let deep = frame.bytes().filter(|b| matches!(b, b'{' | b'[')).count() > 100;
            let error = all.len() == 1 && all[0].contains("\"error\"");
            assert!(deep || error, "{frame:?} is not JSON, and the answer is {all:?}");
        }
        fresh.extend(all);
    }
    assert_eq!(lasting, fresh);
    for message in &fresh {
        let message: serde_json::Value = serde_json::from_str(message).expect("the server sends JSON");
        let messages = message.as_array().cloned().unwrap_or_else(|| vec![message]);
        assert!(messages.iter().all(|m| m["jsonrpc"] == "2.0"), "{messages:?}");
    }
}

/// True if a string anywhere in the value names a method that changes the state of the server.
fn mentions(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) => STATEFUL.iter().any(|method| text.starts_with(method)),
        serde_json::Value::Array(items) => items.iter().any(mentions),
        serde_json::Value::Object(members) => members.values().any(mentions),
        _ => false,
    }
}
