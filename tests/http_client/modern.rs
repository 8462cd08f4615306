//! Stateless requests: headers, tools with invalid annotations, at most one refresh.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use tinymcp::{ElicitResponse, ErrorKind, json};

use crate::detection::{META, discovered, error};
use crate::stage::{JSON, Next, Seen, Stage, answer, stream, write_text};
use crate::{TIMEOUT, client, member};

fn complete(id: &str, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete",{members}}}}}"#)
}

fn text(id: &str, text: &str) -> String {
    complete(id, &format!(r#""content":[{{"type":"text","text":"{text}"}}]"#))
}

fn tools(id: &str, tools: &str) -> String {
    complete(id, &format!(r#""tools":[{tools}],"ttlMs":0,"cacheScope":"private""#))
}

fn tool(name: &str, property: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"zone":{property}}}}}}}"#)
}

#[test]
fn every_post_carries_headers_that_agree_with_its_body() {
    let stage = Stage::new(|seen, to| {
        let id = member(&seen.body, "/id");
        let body = match member(&seen.body, "/method").as_str() {
            "server/discover" => discovered(&id),
            "tools/list" => tools(&id, &tool("paint é", r#"{"type":"string","x-mcp-header":"Zone"}"#)),
            "tools/call" => text(&id, "done"),
            "resources/read" => complete(&id, r#""contents":[],"ttlMs":0,"cacheScope":"private""#),
            "prompts/get" => complete(&id, r#""messages":[]"#),
            other => panic!("{other}"),
        };
        answer(to, "200 OK", JSON, &body)
    });
    let client = client().connect(stage.url()).unwrap();
    // Before the list is read, the call has no header for the argument.
    client.call_tool("paint é", json!({"zone": "a"})).unwrap();
    client.tools().unwrap();
    client.call_tool("paint é", json!({"zone": " b"})).unwrap();
    client.call_tool("paint é", json!({"zone": null})).unwrap();
    client.read_resource("file:///x y").unwrap();
    client.prompt("plain", &[]).unwrap();
    client.close();
    let seen = stage.rest();
    let mut rows = Vec::new();
    for seen in &seen {
        assert_eq!(seen.header("mcp-method"), Some(member(&seen.body, "/method").as_str()));
        assert_eq!(seen.header("mcp-protocol-version"), Some(member(&seen.body, META).as_str()));
        assert!(seen.header("mcp-session-id").is_none());
        rows.push((seen.header("mcp-name").unwrap_or("-"), seen.header("mcp-param-zone").unwrap_or("-")));
    }
    let name = "=?base64?cGFpbnQgw6k=?=";
    let want = [
        ("-", "-"),
        (name, "-"),
        ("-", "-"),
        (name, "=?base64?IGI=?="),
        (name, "-"),
        ("file:///x y", "-"),
        ("plain", "-"),
    ];
    assert_eq!(rows, want);
}

#[test]
fn the_last_list_determines_the_mirrored_arguments() {
    let lists = AtomicUsize::new(0);
    let stage = Stage::new(move |seen, to| {
        let id = member(&seen.body, "/id");
        let body = match member(&seen.body, "/method").as_str() {
            "server/discover" => discovered(&id),
            "tools/list" => {
                let header = ["A", "B", ""][lists.fetch_add(1, Ordering::Relaxed)];
                let annotation = format!(r#","x-mcp-header":"{header}""#);
                let annotation = if header.is_empty() { "" } else { &annotation };
                tools(&id, &tool("paint", &format!(r#"{{"type":"string"{annotation}}}"#)))
            }
            _ => text(&id, "done"),
        };
        answer(to, "200 OK", JSON, &body)
    });
    let client = client().connect(stage.url()).unwrap();
    let mut rows = Vec::new();
    for _ in 0..3 {
        client.tools().unwrap();
        client.call_tool("paint", json!({"zone": "z"})).unwrap();
        let call = stage.rest().pop().unwrap();
        rows.push(["a", "b"].map(|name| call.header(&format!("mcp-param-{name}")).is_some()));
    }
    assert_eq!(rows, [[true, false], [false, true], [false, false]]);
    client.close();
}

#[test]
fn an_interrupted_request_is_sent_again_once_if_that_is_safe() {
    let stage = Stage::new(|seen, to| {
        let id = member(&seen.body, "/id");
        match member(&seen.body, "/method").as_str() {
            "server/discover" => answer(to, "200 OK", JSON, &discovered(&id)),
            // The response arrives on its second connection.
            "tools/list" if seen.connection == 1 => answer(to, "200 OK", JSON, &tools(&id, "")),
            _ => Next::Close,
        }
    });
    let client = client().connect(stage.url()).unwrap();
    assert!(client.tools().unwrap().is_empty());
    assert_eq!(client.prompts().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(client.call_tool("t", json!({})).unwrap_err().kind(), ErrorKind::Io);
    let methods: Vec<String> = stage.rest().iter().map(|s| member(&s.body, "/method")).collect();
    let (list, prompts) = ("tools/list", "prompts/list");
    assert_eq!(methods, ["server/discover", list, list, prompts, prompts, "tools/call"]);
    client.close();
}

#[test]
fn tools_with_bad_annotations_are_left_out_and_reported() {
    let stage = Stage::new(|seen, to| {
        let id = member(&seen.body, "/id");
        let list = [
            tool("good", r#"{"type":"string","x-mcp-header":"A"}"#),
            tool("empty", r#"{"type":"string","x-mcp-header":""}"#),
            tool("number", r#"{"type":"number","x-mcp-header":"A"}"#),
            tool("inside", r#"{"items":{"type":"string","x-mcp-header":"A"}}"#),
            tool("plain", r#"{"type":"string"}"#),
        ];
        let body = match member(&seen.body, "/method").as_str() {
            "server/discover" => discovered(&id),
            _ => tools(&id, &list.join(",")),
        };
        answer(to, "200 OK", JSON, &body)
    });
    let lines = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&lines);
    let (sender, wait) = mpsc::channel();
    let client = client().on_stray_output(move |stray| {
        recorded.lock().unwrap().push(stray.to_owned());
        let _ = sender.send(());
    });
    let client = client.connect(stage.url()).unwrap();
    let names: Vec<String> = client.tools().unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["good", "plain"]);
    for _ in 0..3 {
        wait.recv_timeout(TIMEOUT).unwrap();
    }
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.contains("empty") && lines.contains("number") && lines.contains("inside"), "{lines}");
    client.close();
}

#[test]
fn mismatched_headers_are_corrected_once() {
    let calls = AtomicUsize::new(0);
    let stage = Stage::new(move |seen, to| {
        let id = member(&seen.body, "/id");
        let body = match member(&seen.body, "/method").as_str() {
            "server/discover" => discovered(&id),
            "tools/list" => tools(&id, &tool("paint", r#"{"type":"string","x-mcp-header":"Zone"}"#)),
            _ => {
                calls.fetch_add(1, Ordering::Relaxed);
                if seen.header("mcp-param-zone") == Some("a") {
                    text(&id, "done")
                } else {
                    return answer(to, "400 Bad Request", JSON, &error(&id, -32020, "null"));
                }
            }
        };
        answer(to, "200 OK", JSON, &body)
    });
    let client = client().connect(stage.url()).unwrap();
    assert_eq!(client.call_tool("paint", json!({"zone": "a"})).unwrap().texts(), "done");
    // A failure that a refresh does not correct is an error after one attempt.
    let failed = client.call_tool("paint", json!({"zone": "b"})).unwrap_err();
    assert_eq!((failed.kind(), failed.code()), (ErrorKind::Remote, Some(-32020)));
    let methods: Vec<String> = stage.rest().iter().map(|s| member(&s.body, "/method")).collect();
    let call = "tools/call";
    assert_eq!(methods, ["server/discover", call, "tools/list", call, call, "tools/list", call]);
    client.close();
}

#[test]
fn requests_are_in_the_result_and_responses_in_a_new_request() {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let known = Arc::clone(&ids);
    let stage = Stage::new(move |seen, to| {
        let id = member(&seen.body, "/id");
        if member(&seen.body, "/method") == "server/discover" {
            return answer(to, "200 OK", JSON, &discovered(&id));
        }
        known.lock().unwrap().push(id.clone());
        let round = member(&seen.body, "/params/requestState");
        let ask = |state: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"{state}","inputRequests":{{"q":{{"method":"elicitation/create","params":{{"message":"?","requestedSchema":{{"type":"object","properties":{{"n":{{"type":"integer"}}}}}}}}}}}}}}}}"#
            )
        };
        let body = match round.as_str() {
            "" => ask("one"),
            "one" => ask("two"),
            _ => text(&id, &member(&seen.body, "/params/inputResponses/q/content/n")),
        };
        // Once as events, once as JSON.
        if round.is_empty() {
            stream(to);
            write_text(to, &format!("data: {body}\n\n"));
            return Next::Close;
        }
        answer(to, "200 OK", JSON, &body)
    });
    let client =
        client().on_elicit(|_| Ok(ElicitResponse::accept(json!({"n": 7})))).connect(stage.url()).unwrap();
    assert_eq!(client.call_tool("ask", json!({})).unwrap().texts(), "7");
    client.close();
    let mut ids = ids.lock().unwrap().clone();
    ids.dedup();
    assert_eq!(ids.len(), 3, "every round has an id of its own: {ids:?}");
}

#[test]
fn a_cancelled_call_closes_its_stream_and_posts_nothing() {
    let (sender, receiver) = mpsc::channel::<Result<usize, ()>>();
    let stage = Stage::new(move |seen, to| {
        use std::io::Read;
        let id = member(&seen.body, "/id");
        if member(&seen.body, "/method") == "server/discover" {
            return answer(to, "200 OK", JSON, &discovered(&id));
        }
        stream(to);
        write_text(to, ": working\n\n");
        sender.send(Err(())).unwrap();
        let _ = sender.send(to.read(&mut [0]).map_err(drop));
        Next::Close
    });
    let client = client().connect(stage.url()).unwrap();
    let call = client.request_tool("slow", json!({})).start().unwrap();
    receiver.recv_timeout(TIMEOUT).unwrap().unwrap_err();
    let canceller = call.canceller();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| call.wait());
        canceller.cancel();
        assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    });
    let end = receiver.recv_timeout(TIMEOUT).expect("the server sees the end");
    assert!(matches!(end, Ok(0) | Err(())));
    client.close();
    let posts: Vec<Seen> = stage.rest();
    assert_eq!(posts.len(), 2);
}

#[test]
fn progress_is_reported_on_the_waiting_thread_and_never_after_the_result() {
    let stage = Stage::new(|seen, to| {
        let id = member(&seen.body, "/id");
        if member(&seen.body, "/method") == "server/discover" {
            return answer(to, "200 OK", JSON, &discovered(&id));
        }
        let token = member(&seen.body, "/params/_meta/progressToken");
        let token = if token.parse::<u64>().is_ok() { token } else { format!("\"{token}\"") };
        let progress = |n| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n}}}}}"#
            )
        };
        stream(to);
        write_text(to, &format!("data: {}\n\ndata: {}\n\n", progress(1), progress(2)));
        write_text(to, &format!("data: {}\n\ndata: {}\n\n", text(&id, "done"), progress(3)));
        Next::Close
    });
    let client = client().connect(stage.url()).unwrap();
    let here = std::thread::current().id();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&steps);
    let call = client.request_tool("slow", json!({})).on_progress(move |progress| {
        assert_eq!(std::thread::current().id(), here);
        recorded.lock().unwrap().push(progress.done);
    });
    assert_eq!(call.wait().unwrap().texts(), "done");
    client.close();
    assert_eq!(*steps.lock().unwrap(), [1.0, 2.0]);
}
