//! Responses beyond the limits of a message: the call ends immediately with an error that names the limit.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{Client, ErrorKind, Limits, Link, Protocol, json as ours};

use super::in_time::in_time;
use super::scripted::{TIMEOUT, call, connected, ok, plain};
use super::socket_pair::socket_pair;

/// Bytes of a message that the client accepts.
const LIMIT: usize = 16 << 10;

fn small() -> Limits {
    let mut limits = Limits::default();
    limits.frame_bytes = LIMIT;
    limits
}

/// A server over a byte stream that answers every `tools/call` with the lines that `answer` gives for its id.
fn streamed(answer: impl Fn(u64) -> String + Send + 'static) -> Client {
    use std::io::{BufRead, BufReader, Write};

    let (ours, theirs) = socket_pair();
    std::thread::spawn(move || {
        let mut write = theirs.try_clone().unwrap();
        for line in BufReader::new(theirs).lines() {
            let Ok(line) = line else { return };
            let message: Value = serde_json::from_str(&line).unwrap();
            let Some(id) = message["id"].as_u64() else { continue };
            let answer = match message["method"].as_str() {
                Some("tools/call") => answer(id),
                Some("ping") => json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string(),
                _ => json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-11-25",
                    "serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}}}})
                .to_string(),
            };
            if writeln!(write, "{answer}").is_err() {
                return;
            }
        }
    });
    let limits = small();
    let link = Link::lines(ours.try_clone().unwrap(), ours, &limits);
    plain().limits(limits).protocol(Protocol::Session).over(link).unwrap()
}

fn too_long(client: &Client) {
    let began = Instant::now();
    let error = client.call_tool("t", ours!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("16384 bytes"), "{error}");
    assert!(began.elapsed() < TIMEOUT, "it waited for its deadline");
    client.ping().expect("the connection works");
}

#[test]
fn an_answer_beyond_the_frame_limit_ends_its_call_at_once() {
    let big = "x".repeat(3 * LIMIT);
    let text = json!({"content": [{"type": "text", "text": big}]}).to_string();
    // Servers write the id first, last, or in between, with any spaces.
    for shape in [
        r#"{"jsonrpc":"2.0","id":ID,"result":RESULT}"#,
        r#"{"id":ID,"jsonrpc":"2.0","result":RESULT}"#,
        r#"{"result":RESULT,"jsonrpc":"2.0","id":ID}"#,
        r#"{"result":RESULT,"id":ID,"jsonrpc":"2.0"}"#,
        r#" { "result" : RESULT , "id" : ID } "#,
        r#"{"_meta":{"id":77,"a":"\"id\":77}"},"jsonrpc":"2.0","id":ID,"result":RESULT}"#,
    ] {
        let text = text.clone();
        let client = streamed(move |id| shape.replace("RESULT", &text).replace("ID", &id.to_string()));
        too_long(&client);
        assert_eq!(client.in_flight(), 0);
    }
}

/// A response whose result has this value, with the id before or after it.
fn response(id: &Value, value: &str, id_first: bool) -> String {
    match id_first {
        true => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":{value}}}}}"#),
        false => format!(r#"{{"result":{{"x":{value}}},"jsonrpc":"2.0","id":{id}}}"#),
    }
}

#[test]
fn of_several_calls_only_the_one_with_the_long_answer_ends() {
    for id_first in [true, false] {
        let (client, scripted) = connected(plain().limits(small()), Protocol::Session);
        let (long, short) = (call(&client, "long"), call(&client, "short"));
        let delivered = [scripted.receive(), scripted.receive()];
        let id_of =
            |name: &str| delivered.iter().find(|m| m["params"]["name"] == name).unwrap()["id"].clone();
        // A link in memory has no frame limit, so the limit of the depth is exceeded.
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let id = id_of("long");
        assert!(scripted.end.send(&response(&id, &deep, id_first)));
        let error = long.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains("nested"), "{error}");
        scripted.answer(&id_of("short"), ok());
        assert_eq!(short.join().unwrap().unwrap(), "ok");
    }
}

#[test]
fn an_answer_with_too_many_values_ends_its_call() {
    let mut limits = Limits::default();
    limits.json_nodes = 1000;
    for id_first in [true, false] {
        let (client, scripted) = connected(plain().limits(limits.clone()), Protocol::Session);
        let call = call(&client, "wide");
        let id = scripted.receive()["id"].clone();
        let wide = format!("[{}0]", "0,".repeat(2000));
        assert!(scripted.end.send(&response(&id, &wide, id_first)));
        let error = call.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    }
}

#[test]
fn an_answer_whose_id_cannot_be_read_ends_every_call_that_it_may_belong_to() {
    let big = "x".repeat(3 * LIMIT);
    let client = streamed(move |_| format!(r#"{{"result":{{"a":"{big}"}},"id":7,"more":"{big}"}}"#));
    too_long(&client);
}

#[test]
fn long_requests_and_stray_output_end_no_call() {
    let big = "x".repeat(3 * LIMIT);
    for stray in [
        format!(
            r#"{{"method":"notifications/message","params":{{"level":"info","data":"{big}"}},"jsonrpc":"2.0"}}"#
        ),
        format!(r#"{{"method":"sampling/createMessage","params":{{"a":"{big}"}},"jsonrpc":"2.0","id":ID}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":ID,"method":"roots/list","params":{{"a":"{big}"}}}}"#),
        big.clone(),
    ] {
        let client = streamed(move |id| {
            let stray = stray.replace("ID", &id.to_string());
            format!("{stray}\n{}", json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}))
        });
        client.call_tool("t", ours!({})).unwrap();
        assert_eq!(client.stats().stray_output, 1);
    }
}

#[test]
fn a_silent_server_has_one_deadline_for_both_probes() {
    in_time(Duration::from_millis(400), |timeout| {
        let (link, scripted) = super::scripted::ScriptedPeer::new();
        let mut limits = Limits::default();
        limits.client.call_timeout = timeout;
        let began = Instant::now();
        let error = plain().limits(limits).over(link).unwrap_err();
        let took = began.elapsed();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(took >= timeout, "{took:?}");
        assert_eq!(scripted.receive()["method"], "server/discover");
        assert_eq!(scripted.receive()["method"], "initialize", "the older handshake was tried as well");
        // Two deadlines would take twice the time.
        (took < timeout * 7 / 4).then_some(())
    });
}
