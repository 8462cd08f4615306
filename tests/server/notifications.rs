//! Notifications: of shutdown and cancellation to handlers, and of handlers and programs to clients.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Json};
use tinymcp::{ErrorKind, Level, Limits, MemoryEnd, Server, Tool, json, memory};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(20);

fn open_session(client: &mut MemoryEnd) {
    let who = json!({"name": "t", "version": "1"});
    let opening = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who});
    let answer = client.request("initialize", opening, HANG).expect("a greeting");
    assert!(answer.as_str().contains("2025-11-25"), "{answer:?}");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
}

fn text(answer: &Json) -> String {
    let doc = answer.to_doc();
    let text = doc.root().pointer("/result/content/0/text").and_then(|text| text.as_str());
    text.unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

#[test]
fn a_handler_is_notified_that_the_server_is_stopping() {
    let (link, mut client) = memory();
    let (sender, running) = channel();
    let mut server = Server::new("stopping", "1");
    server
        .tool(Tool::new("until_the_end"), move |ctx, (): ()| {
            assert!(!ctx.stopping());
            sender.send(())?;
            while !ctx.stopping() {
                ctx.wait(Duration::from_millis(5))?;
            }
            Ok("cut short")
        })
        .unwrap();
    let serving = thread::spawn(move || server.serve(link));
    let caller = thread::spawn(move || {
        open_session(&mut client);
        client.send(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"until_the_end"}}"#);
        running.recv_timeout(HANG).expect("the handler runs");
        client.finish();
        let answer = client.receive(HANG).expect("an answer");
        Doc::parse(answer).unwrap().root().to_json()
    });
    assert_eq!(text(&caller.join().unwrap()), "cut short");
    serving.join().unwrap().unwrap();
}

#[test]
fn a_program_logs_to_the_sessions_that_want_it() {
    let (link, mut client) = memory();
    let mut server = Server::new("log", "1");
    server.tool(Tool::new("nothing"), |_, (): ()| Ok("")).unwrap();
    let handle = server.handle();
    let refused = handle.log(Level::Error, None, "too early").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misuse);
    server.logging();
    let serving = thread::spawn(move || server.serve(link));
    // No client is connected.
    handle.log(Level::Emergency, None, "nobody").unwrap();
    open_session(&mut client);
    client.request("logging/setLevel", json!({"level": "warning"}), HANG).expect("an answer");
    handle.log(Level::Notice, None, "not wanted").unwrap();
    handle.log(Level::Warning, Some("disk"), json!({"free": 3, "password": "x"})).unwrap();
    assert_eq!(
        client.receive(HANG).expect("an entry"),
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"disk","data":{"free":3,"password":"[masked]"}}}"#
    );
    client.finish();
    serving.join().unwrap().unwrap();
}

#[test]
fn a_request_gets_its_own_answer() {
    let (link, mut client) = memory();
    let mut server = Server::new("request", "1");
    server.tool(Tool::new("twice"), |_, n: Json| Ok(n)).unwrap();
    let serving = thread::spawn(move || server.serve(link));
    open_session(&mut client);
    client.send(r#"{"jsonrpc":"2.0","id":"other","method":"ping"}"#);
    let answer = client.request("tools/call", json!({"name": "twice", "arguments": {"n": 2}}), HANG);
    assert_eq!(text(&answer.unwrap()), r#"{"n": 2}"#.replace(": ", ":"));
    let refused = client.request("no/such", json!({}), HANG).unwrap();
    assert_eq!(refused.to_doc().root().pointer("/error/code").and_then(|c| c.as_i64()), Some(-32601));
    client.finish();
    assert!(client.request("ping", json!({}), HANG).is_none());
    serving.join().unwrap().unwrap();
}

/// Both lines arrive in one read, and the handler of the second one does not end.
#[cfg(unix)]
#[test]
fn answers_do_not_wait_for_a_slow_inline_tool() {
    use std::io::{BufRead, BufReader, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    let (theirs, mut input) = UnixStream::pair().unwrap();
    let ours = theirs.try_clone().unwrap();
    let mut output = BufReader::new(input.try_clone().unwrap());
    let (open, opened) = channel::<()>();
    let opened = Arc::new(Mutex::new(opened));
    let mut server = Server::new("slow", "1");
    server
        .inline_tool(Tool::new("slow"), move |_, (): ()| {
            // Longer than the answers before it may take.
            opened.lock().unwrap().recv_timeout(3 * HANG)?;
            Ok("at last")
        })
        .unwrap();
    let link = tinymcp::Link::lines(theirs, ours, &Limits::default());
    let serving = thread::spawn(move || server.serve(link));
    let lines = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow"}}"#,
        "\n",
    );
    input.write_all(lines.as_bytes()).unwrap();
    let (sender, answers) = channel();
    let reading = thread::spawn(move || {
        let mut line = String::new();
        while output.read_line(&mut line).unwrap() > 0 {
            sender.send(std::mem::take(&mut line)).unwrap();
        }
    });
    answers.recv_timeout(HANG).expect("the greeting");
    assert!(answers.recv_timeout(HANG).expect("an answer").contains(r#""id":2"#));
    open.send(()).unwrap();
    assert!(answers.recv_timeout(HANG).expect("an answer").contains("at last"));
    input.shutdown(Shutdown::Write).unwrap();
    serving.join().unwrap().unwrap();
    reading.join().unwrap();
}

/// A call that never started can be repeated without a second effect.
#[test]
fn the_error_of_a_late_call_states_whether_it_started() {
    // On a machine that starts the first call later than that, both calls miss the deadline.
    let is_reported = [20, 200, 2000].map(Duration::from_millis).into_iter().any(first_call_started);
    assert!(is_reported, "the first call was never started in time");
}

/// Returns whether the first of two calls started within the deadline. Both get an error.
fn first_call_started(deadline: Duration) -> bool {
    let (link, mut client) = memory();
    let (sender, running) = channel();
    let (open, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let mut limits = Limits::default();
    limits.workers = 1;
    limits.handler_deadline = deadline;
    let mut server = Server::new("late", "1");
    server.limits(limits);
    server
        .tool(Tool::new("deaf"), move |_, (): ()| {
            sender.send(())?;
            opened.lock().unwrap().recv_timeout(HANG)?;
            Ok("at last")
        })
        .unwrap();
    let serving = thread::spawn(move || server.serve(link));
    open_session(&mut client);
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deaf"}}"#);
    if running.recv_timeout(deadline * 5).is_err() {
        return false;
    }
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"deaf"}}"#);
    let mut answers = [client.receive(HANG).expect("an answer"), client.receive(HANG).expect("an answer")];
    answers.sort_unstable();
    assert!(answers[0].contains(r#""id":1"#) && answers[0].contains("did not finish"), "{answers:?}");
    assert!(answers[1].contains(r#""id":2"#) && answers[1].contains("did not start"), "{answers:?}");
    open.send(()).unwrap();
    client.finish();
    serving.join().unwrap().unwrap();
    true
}
