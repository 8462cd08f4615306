//! Tests of the board server through a client.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tinymcp::json::{Doc, Value};
use tinymcp::{MemoryEnd, memory};

use super::board::{self, Scratch};

const TIMEOUT: Duration = Duration::from_secs(20);

/// `_meta` of a modern request: the client supports forms and requests log messages.
const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info""#;

/// A client of a board server in a temporary folder.
struct Client {
    end: MemoryEnd,
    server: Option<JoinHandle<Result<(), tinymcp::Error>>>,
    scratch: Scratch,
}

impl Client {
    fn new() -> Client {
        let scratch = Scratch::new().unwrap();
        let server = board::server(scratch.path()).unwrap();
        let (link, end) = memory();
        Client { end, server: Some(thread::spawn(move || server.serve(link))), scratch }
    }

    fn legacy() -> Client {
        let client = Client::new();
        let hello = client.ask(
            r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}"#,
        );
        assert_eq!(text(&hello, "/result/serverInfo/name"), "board");
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    fn send(&self, message: &str) {
        assert!(self.end.send(message), "the server has ended");
    }

    fn receive(&self) -> Doc {
        Doc::parse(self.end.receive(TIMEOUT).expect("no message in time")).unwrap()
    }

    fn ask(&self, message: &str) -> Doc {
        self.send(message);
        self.receive()
    }

    /// A modern request without parameters of its own, or with some members.
    fn modern(&self, method: &str, members: &str) -> Doc {
        self.ask(&request(method, members))
    }

    fn call(&self, tool: &str, arguments: &str) -> Doc {
        self.modern("tools/call", &format!(r#""name":"{tool}","arguments":{arguments}"#))
    }

    fn pin(&self, pin: u8) -> String {
        fs::read_to_string(self.scratch.path().join(format!("gpio/gpio{pin}/value"))).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end.finish();
        if let Some(server) = self.server.take() {
            let result = server.join();
            if !thread::panicking() {
                result.expect("the server panicked").expect("the server failed");
            }
        }
    }
}

fn request(method: &str, members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{members}{comma}"_meta":{{"progressToken":"p",{META}}}}}}}"#
    )
}

#[track_caller]
fn at<'d>(doc: &'d Doc, pointer: &str) -> Value<'d> {
    doc.root().pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {}", doc.text()))
}

#[track_caller]
fn text<'d>(doc: &'d Doc, pointer: &str) -> &'d str {
    at(doc, pointer).as_str().unwrap_or_else(|| panic!("{pointer} is no string in {}", doc.text()))
}

fn names<'d>(doc: &'d Doc, list: &str, member: &str) -> Vec<&'d str> {
    at(doc, list).items().filter_map(|item| item.get(member)?.as_str()).collect()
}

#[test]
fn lists_name_what_the_board_offers() {
    let client = Client::new();
    let tools = client.modern("tools/list", "");
    assert_eq!(
        names(&tools, "/result/tools", "name"),
        ["system_status", "gpio_read", "gpio_write", "blink", "erase_pins", "file_write"]
    );
    assert_eq!(
        names(&client.modern("resources/list", ""), "/result/resources", "uri"),
        ["board://status", "file:///readme.txt"]
    );
    let templates = client.modern("resources/templates/list", "");
    assert_eq!(
        names(&templates, "/result/resourceTemplates", "uriTemplate"),
        ["gpio://pin/{pin}", "file:///{+path}"]
    );
    assert_eq!(names(&templates, "/result/resourceTemplates", "name"), ["pin", "file"]);
    assert_eq!(names(&client.modern("prompts/list", ""), "/result/prompts", "name"), ["diagnose"]);
}

#[test]
fn status_fits_its_schema_as_result_and_as_resource() {
    let client = Client::new();
    let status = client.call("system_status", "{}");
    let structured = at(&status, "/result/structuredContent");
    for name in ["memoryTotalKb", "memoryAvailableKb", "diskFreeKb"] {
        assert!(structured.get(name).and_then(Value::as_u64).is_some(), "{name} in {structured}");
    }
    assert!(structured.get("uptimeSeconds").and_then(Value::as_f64).is_some());
    let same = Doc::parse(text(&status, "/result/content/0/text")).unwrap();
    assert_eq!(same.root().raw(), structured.raw());
    let resource = client.modern("resources/read", r#""uri":"board://status""#);
    assert_eq!(text(&resource, "/result/contents/0/mimeType"), "application/json");
    let contents = Doc::parse(text(&resource, "/result/contents/0/text")).unwrap();
    assert!(contents.root().get("diskFreeKb").is_some());
}

#[test]
fn pins_are_set_read_and_refused() {
    let client = Client::new();
    assert_eq!(text(&client.call("gpio_read", r#"{"pin":17}"#), "/result/content/0/text"), "0");
    assert_eq!(
        text(&client.call("gpio_write", r#"{"pin":17,"value":1}"#), "/result/content/0/text"),
        "pin 17 is now 1"
    );
    assert_eq!(client.pin(17), "1\n");
    let read = client.call("gpio_read", r#"{"pin":17}"#);
    assert_eq!(text(&read, "/result/content/0/text"), "1");
    assert_eq!(at(&read, "/result/structuredContent").raw(), r#"{"pin":17,"value":1}"#);
    let resource = client.modern("resources/read", r#""uri":"gpio://pin/17""#);
    assert_eq!(text(&resource, "/result/contents/0/text"), "1");

    let refused = client.call("gpio_read", r#"{"pin":99}"#);
    assert_eq!(at(&refused, "/result/isError").as_bool(), Some(true));
    assert!(text(&refused, "/result/content/0/text").contains("/pin"));
    for uri in ["gpio://pin/28", "gpio://pin/017", "gpio://pin/+1", "gpio://pin/x"] {
        let missing = client.modern("resources/read", &format!(r#""uri":"{uri}""#));
        assert_eq!(at(&missing, "/error/code").as_i64(), Some(-32602), "{uri}");
    }
    assert_eq!(text(&client.call("fly", "{}"), "/error/message"), "Unknown tool: fly");
}

#[test]
fn writing_a_pin_notifies_its_subscribers() {
    let client = Client::legacy();
    client.ask(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"gpio://pin/5"}}"#);
    client.send(
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"gpio_write","arguments":{"pin":5,"value":1}}}"#,
    );
    // The two may come in either order.
    let (one, other) = (client.receive(), client.receive());
    let update = if one.root().get("method").is_some() { one } else { other };
    assert_eq!(text(&update, "/method"), "notifications/resources/updated");
    assert_eq!(text(&update, "/params/uri"), "gpio://pin/5");
}

#[test]
fn blinking_logs_and_counts() {
    let client = Client::new();
    let entry = client.call("blink", r#"{"pin":4,"times":2,"intervalMs":2}"#);
    assert_eq!(text(&entry, "/method"), "notifications/message");
    assert_eq!(
        (text(&entry, "/params/level"), text(&entry, "/params/logger"), text(&entry, "/params/data")),
        ("info", "gpio", "blinking pin 4")
    );
    for (done, message) in [(1, "blink 1 of 2"), (2, "blink 2 of 2")] {
        let progress = client.receive();
        assert_eq!(text(&progress, "/method"), "notifications/progress");
        assert_eq!(at(&progress, "/params/progress").as_f64(), Some(f64::from(done)));
        assert_eq!(at(&progress, "/params/total").as_f64(), Some(2.0));
        assert_eq!(text(&progress, "/params/message"), message);
    }
    assert_eq!(text(&client.receive(), "/result/content/0/text"), "pin 4 blinked 2 times");
}

#[test]
fn a_cancelled_blink_stops_and_leaves_the_pin_as_it_was() {
    let mut client = Client::legacy();
    client.ask(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"blink","arguments":{"pin":4,"times":100,"intervalMs":1000}}}"#,
    );
    // Its log entry is here, so it runs.
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let file = client.scratch.path().join("gpio/gpio4/value");
    client.end.finish();
    let server = client.server.take().unwrap();
    assert!(server.join().unwrap().is_ok());
    // Without the cancellation the call would have had its time of grace, and an answer at its end.
    assert_eq!(client.end.receive(TIMEOUT), None);
    assert_eq!(fs::read_to_string(file).unwrap(), "0\n");
}

#[test]
fn erasing_waits_for_the_user_in_a_session() {
    for (answer, outcome, left) in [
        (r#"{"action":"accept","content":{"sure":true}}"#, "all pins are 0", "0\n"),
        (r#"{"action":"accept","content":{"sure":false}}"#, "nothing was changed", "1\n"),
        (r#"{"action":"decline"}"#, "nothing was changed", "1\n"),
        (r#"{"action":"cancel"}"#, "nothing was changed", "1\n"),
    ] {
        let client = Client::legacy();
        client.ask(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gpio_write","arguments":{"pin":9,"value":1}}}"#,
        );
        let question =
            client.ask(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"erase_pins"}}"#);
        assert_eq!(text(&question, "/method"), "elicitation/create");
        assert_eq!(text(&question, "/params/message"), "Set every pin to 0?");
        assert_eq!(
            text(&question, "/params/requestedSchema/properties/sure/type"),
            "boolean",
            "{}",
            question.text()
        );
        assert_eq!(client.pin(9), "1\n", "changed before the answer");
        let id = at(&question, "/id");
        let result = client.ask(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{answer}}}"#));
        assert_eq!(text(&result, "/result/content/0/text"), outcome);
        assert_eq!(client.pin(9), left, "{answer}");
    }
}

#[test]
fn erasing_waits_for_the_user_without_a_session() {
    let client = Client::new();
    client.call("gpio_write", r#"{"pin":9,"value":1}"#);
    let asked = client.call("erase_pins", "{}");
    assert_eq!(text(&asked, "/result/resultType"), "input_required");
    assert_eq!(text(&asked, "/result/inputRequests/confirm/params/message"), "Set every pin to 0?");
    assert_eq!(client.pin(9), "1\n", "changed before the answer");
    let state = text(&asked, "/result/requestState");
    let result = client.modern(
        "tools/call",
        &format!(
            r#""name":"erase_pins","arguments":{{}},"requestState":"{state}","inputResponses":{{"confirm":{{"action":"accept","content":{{"sure":true}}}}}}"#
        ),
    );
    assert_eq!(text(&result, "/result/content/0/text"), "all pins are 0");
    assert_eq!(client.pin(9), "0\n");
}

#[test]
fn the_prompt_names_symptom_and_component() {
    let client = Client::new();
    let filled = client
        .modern("prompts/get", r#""name":"diagnose","arguments":{"symptom":"it smells","component":"cpu"}"#);
    let message = text(&filled, "/result/messages/0/content/text");
    assert!(message.contains("it smells") && message.contains("cpu"), "{message}");
    assert_eq!(at(&filled, "/result/messages").len(), 1);
    let refused = client.modern("prompts/get", r#""name":"diagnose""#);
    assert_eq!(at(&refused, "/error/code").as_i64(), Some(-32602));
}

#[test]
fn completion_offers_values_with_the_prefix() {
    let client = Client::new();
    for (reference, argument, typed, offered) in [
        (r#"{"type":"ref/prompt","name":"diagnose"}"#, "component", "", r#"["cpu","disk","gpio","memory"]"#),
        (r#"{"type":"ref/prompt","name":"diagnose"}"#, "component", "g", r#"["gpio"]"#),
        (r#"{"type":"ref/prompt","name":"diagnose"}"#, "component", "x", "[]"),
        (
            r#"{"type":"ref/resource","uri":"gpio://pin/{pin}"}"#,
            "pin",
            "2",
            r#"["2","20","21","22","23","24","25","26","27"]"#,
        ),
    ] {
        let completed = client.modern(
            "completion/complete",
            &format!(r#""ref":{reference},"argument":{{"name":"{argument}","value":"{typed}"}}"#),
        );
        assert_eq!(at(&completed, "/result/completion/values").raw(), offered);
    }
}

#[test]
fn files_are_written_and_read_back() {
    let client = Client::new();
    let readme = client.modern("resources/read", r#""uri":"file:///readme.txt""#);
    assert_eq!(text(&readme, "/result/contents/0/text"), "tinymcp board\n");
    let written = client.call("file_write", r#"{"path":"notes/today.txt","text":"dry"}"#);
    assert!(written.root().pointer("/result/isError").is_none(), "{}", written.text());
    let read = client.modern("resources/read", r#""uri":"file:///notes/today.txt""#);
    assert_eq!(text(&read, "/result/contents/0/text"), "dry");
    let escaped = client.call("file_write", r#"{"path":"../gpio/gpio3/value","text":"1\n"}"#);
    assert_eq!(at(&escaped, "/result/isError").as_bool(), Some(true));
    assert_eq!(client.pin(3), "0\n");
    for uri in ["file:///../gpio/gpio3/value", "file:///..%2Fgpio%2Fgpio3%2Fvalue", "file:////etc/passwd"] {
        let refused = client.modern("resources/read", &format!(r#""uri":"{uri}""#));
        assert_eq!(at(&refused, "/error/code").as_i64(), Some(-32602), "{uri}");
    }
}

#[test]
fn a_folder_or_key_that_cannot_be_used_is_named() {
    let options = board::Options { root: Some("/proc/no/board".into()), ..Default::default() };
    let why = board::run(&options).unwrap_err().to_string();
    assert!(why.starts_with("cannot use /proc/no/board for pins and files: "), "{why}");
    let scratch = Scratch::new().unwrap();
    let key = scratch.path().join("key");
    let path = key.display();
    for (bytes, expected) in [
        (None, format!("cannot read the key {path}: ")),
        (Some("short"), format!("the key {path} must have 32 bytes")),
    ] {
        if let Some(bytes) = bytes {
            fs::write(&key, bytes).unwrap();
        }
        let options = board::Options {
            root: Some(scratch.path().into()),
            key: Some(key.clone()),
            ..Default::default()
        };
        let why = board::run(&options).unwrap_err().to_string();
        assert!(why.starts_with(&expected), "{why}");
    }
}
