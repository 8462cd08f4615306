//! Servers of revision 2024-11-05: one stream carries the responses, and messages are posted to another URL.

use std::collections::HashSet;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;

use tinymcp::{Client, Limits, json};

use crate::stage::{Next, Seen, Stage, answer, stream, write_text};
use crate::{client, limits, member};

const CALLS: usize = 50;

/// A server that responds on the stream, before or after it accepts the message.
fn oldest(answers_first: bool, body: &'static str) -> Stage {
    let events: Mutex<Option<TcpStream>> = Mutex::default();
    Stage::new(move |seen: &Seen, to| {
        if seen.line.starts_with("GET ") {
            stream(to);
            *events.lock().unwrap() = Some(to.try_clone().unwrap());
            write_text(to, "event: endpoint\ndata: /post\n\n");
            // Until the client ends it.
            let _ = to.read(&mut [0]);
            return Next::Close;
        }
        if !seen.line.starts_with("POST /post ") {
            return answer(to, "405 Method Not Allowed", "", "");
        }
        let id = member(&seen.body, "/id");
        let text = match member(&seen.body, "/method").as_str() {
            "initialize" => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2024-11-05","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"old","version":"1"}}}}}}"#
            ),
            "tools/call" => {
                let text = member(&seen.body, "/params/arguments/n");
                let big = if text == "big" { "x".repeat(200_000) } else { text };
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{big}"}}]}}}}"#
                )
            }
            _ => String::new(),
        };
        if !answers_first {
            answer(to, "202 Accepted", "", body);
        }
        if !text.is_empty() {
            let mut events = events.lock().unwrap();
            write_text(events.as_mut().unwrap(), &format!("event: message\ndata: {text}\n\n"));
        }
        if answers_first {
            answer(to, "202 Accepted", "", body);
        }
        Next::Keep
    })
}

fn connected(stage: &Stage, limits: Limits) -> Client {
    client().limits(limits).connect(stage.url()).unwrap()
}

/// The connections that messages were posted over.
fn connections(stage: &Stage) -> HashSet<usize> {
    stage
        .rest()
        .iter()
        .filter(|seen| seen.line.starts_with("POST /post "))
        .map(|seen| seen.connection)
        .collect()
}

#[test]
fn messages_to_the_oldest_servers_share_connections() {
    for (answers_first, body) in [(false, ""), (false, "Accepted"), (true, ""), (true, "Accepted")] {
        let stage = oldest(answers_first, body);
        let client = connected(&stage, limits());
        for n in 0..CALLS {
            let text = client.call_tool("t", json!({"n": n})).unwrap().texts();
            assert_eq!(text, n.to_string());
        }
        client.close();
        let used = connections(&stage).len();
        assert!(used <= 3, "{used} connections, answers first: {answers_first}, body {body:?}");
    }
}

#[test]
fn calls_of_many_threads_to_the_oldest_servers_do_not_end_each_other() {
    for answers_first in [false, true] {
        let stage = oldest(answers_first, "Accepted");
        let client = connected(&stage, limits());
        thread::scope(|scope| {
            for thread in 0..4 {
                let client = &client;
                scope.spawn(move || {
                    for n in 0..CALLS {
                        let n = thread * CALLS + n;
                        let text = client.call_tool("t", json!({"n": n})).unwrap().texts();
                        assert_eq!(text, n.to_string());
                    }
                });
            }
        });
        client.close();
    }
}

#[test]
fn a_long_answer_of_the_oldest_servers_ends_its_call_at_once() {
    let mut limits = limits();
    limits.frame_bytes = 64 << 10;
    let stage = oldest(false, "");
    let client = connected(&stage, limits);
    let error = client.call_tool("t", json!({"n": "big"})).unwrap_err();
    assert_eq!(error.kind(), tinymcp::ErrorKind::Limit, "{error}");
    assert_eq!(client.call_tool("t", json!({"n": 1})).unwrap().texts(), "1");
    client.close();
}
