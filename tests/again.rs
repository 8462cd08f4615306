//! A frame that is like the one before it is answered as if it were the first: whatever value differs,
//! and whatever changed meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::thread;
use std::time::Duration;

use tinymcp::{Context, Failure, Level, MemoryEnd, Server, Tool, json::Json, memory};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(20);

const OPEN: &str = r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const SESSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello","more":[{"n":1}]},"_meta":{"progressToken":"p"}}}"#;
const STATELESS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello","more":[{"n":1}]},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// What is written otherwise, all of it of the same shape, and mostly of the same length.
const CHANGES: &[(&str, &str)] = &[
    ("\"2.0\"", "\"2.1\""),
    ("\"id\":1", "\"id\":2"),
    ("\"id\":1", "\"id\":123456"),
    ("\"id\":1", "\"id\":1.5"),
    ("\"id\":1", "\"id\":99999999999999999999"),
    ("\"id\":1", "\"id\":\"one\""),
    ("tools/call", "tools/list"),
    ("tools/call", "tools/cull"),
    ("tools/call", "ping"),
    ("\"echo\"", "\"shout\""),
    ("\"echo\"", "\"none\""),
    ("hello", "hullo"),
    ("hello", "something longer than before"),
    ("hello", ""),
    ("hello", "a \\\"quoted\\\" word"),
    ("\"n\":1", "\"n\":22"),
    ("\"progressToken\":\"p\"", "\"progressToken\":\"q\""),
    ("\"progressToken\":7", "\"progressToken\":8"),
    ("\"progressToken\":7", "\"progressToken\":7.5"),
    ("2026-07-28", "2026-07-29"),
    ("2026-07-28", "2025-11-25"),
    ("\"arguments\":{\"text\"", "\"arguments\":{\"test\""),
];

fn echo(ctx: &mut Context<'_>, arguments: Json, loud: bool) -> Result<String, Failure> {
    ctx.log(Level::Info, None, "called")?;
    ctx.progress(1.0, Some(2.0), Some("half"));
    let text = arguments.as_str().to_owned();
    Ok(if loud { text.to_uppercase() } else { text })
}

/// Where handlers run.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    /// On the thread that reads.
    Inline,
    /// On a worker, and on the thread that reads when they have been quick.
    Pool,
    /// On a worker, always.
    Worker,
}

struct Client {
    end: MemoryEnd,
    serving: thread::JoinHandle<Result<(), tinymcp::Error>>,
    handle: tinymcp::Handle,
}

impl Client {
    /// A client of a fresh server, with a session if the frames to come need one.
    fn new(place: Where, base: &str) -> Client {
        let (link, end) = memory();
        let mut server = Server::new("again", "1");
        server.tools_may_change().logging();
        let handle = server.handle();
        for (name, loud) in [("echo", false), ("shout", true)] {
            let tool = Tool::new(name);
            if place == Where::Inline {
                server.inline_tool(tool, move |ctx, a: Json| echo(ctx, a, loud)).unwrap();
            } else {
                server.tool(tool, move |ctx: &mut Context<'_>, a: Json| echo(ctx, a, loud)).unwrap();
            }
        }
        let serving = thread::spawn(move || match place {
            Where::Worker => server.into_local().serve(link),
            _ => server.serve(link),
        });
        let client = Client { end, serving, handle };
        if base == SESSION {
            client.all_of(OPEN);
        }
        client
    }

    /// Everything that is said to a frame, up to its answer. Another frame marks the end: what reads
    /// and what runs it inline keep the order.
    fn all_of(&self, frame: &str) -> Vec<String> {
        assert!(self.end.send(frame));
        let mut said = Vec::new();
        loop {
            let message = self.end.receive(HANG).expect("an answer");
            let answer = !message.contains("\"method\"");
            said.push(message);
            if answer {
                return said;
            }
        }
    }

    fn end(mut self) {
        self.end.finish();
        self.serving.join().unwrap().unwrap();
    }
}

/// Every change, after enough calls of the usual form for the thread that reads to run them.
fn as_if_it_were_the_first(place: Where, base: &str) {
    for (from, to) in CHANGES {
        let changed = base.replace(from, to);
        if changed == base {
            continue;
        }
        let fresh = Client::new(place, base);
        let expected = fresh.all_of(&changed);
        fresh.end();
        let used = Client::new(place, base);
        let usual = used.all_of(base);
        for _ in 0..if place == Where::Inline { 2 } else { 20 } {
            assert_eq!(used.all_of(base), usual);
        }
        assert_eq!(used.all_of(&changed), expected, "{changed}");
        assert_eq!(used.all_of(base), usual, "after {changed}");
        used.end();
    }
}

#[test]
fn inline_tools_of_sessions() {
    as_if_it_were_the_first(Where::Inline, SESSION);
}

#[test]
fn inline_tools_without_sessions() {
    as_if_it_were_the_first(Where::Inline, STATELESS);
}

#[test]
fn pooled_tools_of_sessions() {
    as_if_it_were_the_first(Where::Pool, SESSION);
}

#[test]
fn pooled_tools_without_sessions() {
    as_if_it_were_the_first(Where::Pool, STATELESS);
}

#[test]
fn handed_over_tools_of_sessions() {
    as_if_it_were_the_first(Where::Worker, SESSION);
}

#[test]
fn handed_over_tools_without_sessions() {
    as_if_it_were_the_first(Where::Worker, STATELESS);
}

#[test]
fn a_tool_that_is_gone_is_not_called_again() {
    for base in [SESSION, STATELESS] {
        let client = Client::new(Where::Inline, base);
        for _ in 0..3 {
            assert!(client.all_of(base).last().unwrap().contains("hello"));
        }
        assert!(client.handle.remove_tool("echo").unwrap());
        let answer = client.all_of(base).pop().unwrap();
        assert!(answer.contains("Unknown tool"), "{answer}");
        client.end();
    }
}

#[test]
fn a_session_that_changed_is_noticed() {
    let client = Client::new(Where::Inline, SESSION);
    let all = client.all_of(SESSION);
    for (level, expected) in [("emergency", all.len() - 1), ("debug", all.len())] {
        client.all_of(&format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#
        ));
        for _ in 0..3 {
            assert_eq!(client.all_of(SESSION).len(), expected, "{level}");
        }
    }
    client.end();
}

#[test]
fn what_came_in_between_changes_nothing() {
    for base in [SESSION, STATELESS] {
        let client = Client::new(Where::Inline, base);
        // Without a second id that would have to be one.
        let base = &base.replace("progressToken", "example.com/x");
        let usual = client.all_of(base);
        for between in [r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "nonsense", "[]", r#"{"id":1}"#] {
            assert_eq!(client.all_of(between), client.all_of(between));
            assert_eq!(client.all_of(base), usual, "after {between}");
        }
        client.end();
    }
}
