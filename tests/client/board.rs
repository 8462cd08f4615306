//! The example `board_server` as a child process: all its entries, called by a client in both eras.

use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tinymcp::{Body, Change, CompletionTarget, ElicitResponse, ErrorKind, Level, Protocol, json};

use super::scripted::{TIMEOUT, plain};

#[test]
fn a_client_uses_all_entries_of_the_board() {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join("board_server");
    assert!(program.exists(), "run `cargo build --examples` first");
    for era in [Protocol::Stateless, Protocol::Session] {
        let (change, changes) = mpsc::channel();
        let (log, logged) = mpsc::channel();
        let client = plain()
            .protocol(era)
            .on_change(move |c| change.send(c.clone()).unwrap())
            .on_log(Level::Info, move |entry| log.send(entry.data.as_str().to_owned()).unwrap())
            .on_elicit(|form| {
                assert_eq!((form.fields.len(), form.fields[0].required), (1, true));
                Ok(ElicitResponse::accept(json!({"sure": true})))
            })
            .spawn(Command::new(&program))
            .unwrap();
        let info = client.server();
        assert_eq!((info.name.as_str(), info.protocol), ("board", era));
        assert_eq!(info.title.as_deref(), Some("Linux board"));
        assert!(info.instructions.unwrap().contains("board://status"));
        assert!(client.tools().unwrap().iter().any(|t| t.name == "blink"));

        client.subscribe("gpio://pin/4").unwrap();
        assert_eq!(
            client.call_tool("gpio_write", json!({"pin": 4, "value": 1})).unwrap().texts(),
            "pin 4 is now 1"
        );
        assert_eq!(changes.recv_timeout(TIMEOUT).unwrap(), Change::ResourceUpdated("gpio://pin/4".into()));
        let read = client.read_resource("gpio://pin/4").unwrap();
        assert!(matches!(&read.contents[0].body, Body::Text(text) if text.trim() == "1"), "{read:?}");
        let output = client.call_tool("gpio_read", json!({"pin": 4})).unwrap();
        assert_eq!(output.structured.unwrap().to_doc().root().get("value").unwrap().as_i64(), Some(1));
        // Invalid arguments are a result for the model, not a protocol error.
        assert!(client.call_tool("gpio_read", json!({"pin": 99})).unwrap().is_error);

        let (step, steps) = mpsc::channel();
        let blink = json!({"pin": 5, "times": 3, "intervalMs": 4});
        let request = client.request_tool("blink", blink).on_progress(move |p| step.send(p).unwrap());
        assert_eq!(request.wait().unwrap().texts(), "pin 5 blinked 3 times");
        let steps: Vec<_> = steps.iter().collect();
        assert_eq!(steps.iter().map(|p| p.done).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert_eq!(steps[0].message.as_deref(), Some("blink 1 of 3"));
        assert_eq!(logged.recv_timeout(TIMEOUT).unwrap(), "\"blinking pin 5\"");

        let (step, steps) = mpsc::channel();
        let long = json!({"pin": 6, "times": 100, "intervalMs": 1000});
        let request = client.request_tool("blink", long).on_progress(move |p| step.send(p).unwrap());
        let mut call = request.start().unwrap();
        while steps.try_recv().is_err() {
            assert!(call.wait_until(Instant::now() + Duration::from_millis(5)).is_none());
        }
        let canceller = call.canceller();
        let waiting = std::thread::spawn(move || call.wait());
        canceller.cancel();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);

        assert_eq!(client.call_tool("erase_pins", json!({})).unwrap().texts(), "all pins are 0");
        assert_eq!(changes.recv_timeout(TIMEOUT).unwrap(), Change::ResourceUpdated("gpio://pin/4".into()));
        client.unsubscribe("gpio://pin/4").unwrap();

        assert!(client.resources().unwrap().iter().any(|r| r.uri == "board://status"));
        let templates = client.templates().unwrap();
        let pins = templates.iter().find(|t| t.name == "pin").unwrap();
        assert_eq!(pins.uri_template().expand(|_| Some("7")), "gpio://pin/7");
        let prompt = client.prompt("diagnose", &[("symptom", "no boot")]).unwrap();
        assert!(prompt.messages[0].1.as_text().unwrap().contains("no boot"));
        assert_eq!(client.prompt("diagnose", &[]).unwrap_err().code(), Some(-32602));
        let offered = client.complete(CompletionTarget::Prompt("diagnose"), "component", "d", &[]).unwrap();
        assert_eq!(offered.values, ["disk"]);
        let missing = client.read_resource("board://nothing").unwrap_err();
        assert_eq!(missing.code(), Some(if era == Protocol::Stateless { -32602 } else { -32002 }));
        assert_eq!((client.in_flight(), client.stats().stray_output), (0, 0));
    }
}
