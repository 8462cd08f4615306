//! Tools of `tinymcp serve` in both protocols: results, confirmation, progress, timeout,
//! cancellation, and the end of processes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use tinymcp::{Body, Client, Content, ElicitResponse, ErrorKind, json};

use super::serve_session::{ERAS, Session, TIMEOUT, folder};

const DEFINITION: &str = r#"{
    "server": {"name": "tools", "version": "1.2", "instructions": "Read the page."},
    "tools": {
        "echo": {
            "description": "d",
            "input": {"text": "string", "note?": "string", "tags?": "string[]"},
            "run": ["printf", "<%s>", "{text}", "{?note}", "{tags...}"]
        },
        "json": {
            "description": "d",
            "run": ["printf", "{{\"level\": 7}}"],
            "output": "json",
            "outputSchema": {"type": "object", "properties": {"level": {"type": "integer"}}, "required": ["level"]}
        },
        "image": {"description": "d", "run": ["printf", "\\211PNG"], "output": "image/png"},
        "lines": {"description": "d", "run": ["printf", "one\ntwo\n\nlast\n"], "output": "lines"},
        "stdin": {"description": "d", "input": {"n": "integer"}, "run": ["cat"], "stdin": "json"},
        "fails": {"description": "d", "run": ["sh", "-c", "echo out; echo broken valve >&2; exit 3"]},
        "slow": {"description": "d", "run": ["sleep", "600"], "timeout": 1},
        "notes": {"description": "d", "run": ["sh", "-c", "printf 'low \\033[31mwater\\n\\n  twice\\r\\n' >&2; echo out"]},
        "waits": {"description": "d", "run": ["sh", "-c", "echo $$ > pid; cat started; exec sleep 600"], "timeout": 600},
        "valve": {"description": "d", "input": {"bed": "integer 1..8"}, "run": ["echo", "open"], "confirm": "Open the valve of bed {bed}?"}
    }
}"#;

/// A tool that runs one slow call at a time, a fast one, and two without their programs.
const SLOW: &str = r#"{"tools": {
    "slow": {"description": "d", "run": ["sleep", "100"], "concurrency": 1, "timeout": 600},
    "fast": {"description": "d", "run": ["echo", "fast"]},
    "absent": {"description": "d", "run": ["no-such-program"]},
    "missing": {"description": "d", "run": ["./missing"]}
}}"#;

fn example(name: &str) -> std::path::PathBuf {
    let folder = folder(name);
    fs::write(folder.join("s.json"), DEFINITION).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("started")).status().unwrap().success());
    folder
}

#[test]
fn results_have_the_kind_of_the_output() {
    let folder = example("results");
    for era in ERAS {
        let session = Session::start(era, &["s.json"], &folder);
        let call =
            |tool: &str, arguments: tinymcp::json::Json| session.client.call_tool(tool, arguments).unwrap();
        assert_eq!(call("echo", json!({"text": "-a $(id)\n'\""})).texts(), "<-a $(id)\n'\">");
        let all = json!({"text": "", "note": "n", "tags": ["x", ""]});
        assert_eq!(call("echo", all).texts(), "<><n><x><>");
        let output = call("json", json!({}));
        assert_eq!(output.structured.unwrap().as_str(), r#"{"level": 7}"#);
        match &call("image", json!({})).content[0] {
            Content::Image { data, mime_type, .. } => {
                assert_eq!((data.as_slice(), mime_type.as_str()), (&b"\x89PNG"[..], "image/png"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(call("stdin", json!({"n": 3})).texts(), "{\"n\":3}\n");
        let failed = call("fails", json!({}));
        assert!(failed.is_error && failed.texts().contains("broken valve"), "{failed:?}");
        let invalid = session.client.call_tool("echo", json!({"text": 1}));
        assert!(!matches!(&invalid, Ok(output) if !output.is_error), "{invalid:?}");
        let (sender, messages) = mpsc::channel();
        let request = session.client.request_tool("lines", json!({}));
        let output = request.on_progress(move |p| drop(sender.send(p.message))).wait().unwrap();
        assert!(output.texts().contains("last"), "{output:?}");
        assert_eq!(messages.recv_timeout(TIMEOUT).unwrap().as_deref(), Some("one"));
        let info = session.client.server();
        assert_eq!((info.name.as_str(), info.version.as_str()), ("tools", "1.2"));
        assert_eq!(info.instructions.as_deref(), Some("Read the page."));
    }
}

#[test]
fn a_tool_is_confirmed_by_the_user() {
    let folder = example("confirm");
    for era in ERAS {
        for (accept, runs) in [(true, true), (false, false)] {
            let (sender, questions) = mpsc::channel();
            let answers = move |client: tinymcp::ClientBuilder| {
                client.on_elicit(move |form| {
                    let _ = sender.send(form.message.clone());
                    Ok(if accept { ElicitResponse::accept(json!({})) } else { ElicitResponse::decline() })
                })
            };
            let session = Session::with(answers, era, &["s.json"], &folder);
            let output = session.client.call_tool("valve", json!({"bed": 3})).unwrap();
            assert_eq!((output.is_error, output.texts() == "open\n"), (!runs, runs), "{output:?}");
            assert_eq!(questions.recv_timeout(TIMEOUT).unwrap(), "Open the valve of bed 3?");
        }
        // Without a handler the client does not offer elicitation.
        let session = Session::start(era, &["s.json"], &folder);
        let refused = session.client.call_tool("valve", json!({"bed": 3}));
        assert!(!matches!(&refused, Ok(output) if !output.is_error), "{refused:?}");
    }
}

/// Starts the tool that waits; returns the call and the id of its process.
fn wait_for_process(client: &Client, folder: &Path) -> (tinymcp::Call<tinymcp::ToolOutput>, u32) {
    let call = client.request_tool("waits", json!({})).start().unwrap();
    // Blocks until the program has written its id and reads.
    fs::write(folder.join("started"), "").unwrap();
    (call, fs::read_to_string(folder.join("pid")).unwrap().trim().parse().unwrap())
}

/// Waits until a process is gone.
fn ended(id: u32) {
    let id = rustix::process::Pid::from_raw(id as i32).unwrap();
    let until = std::time::Instant::now() + TIMEOUT;
    while rustix::process::test_kill_process(id).is_ok() {
        assert!(std::time::Instant::now() < until, "the process still runs");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn processes_end_with_their_call_and_their_client() {
    for era in ERAS {
        let folder = example("ends");
        let session = Session::start(era, &["s.json"], &folder);
        let late = session.client.call_tool("slow", json!({})).unwrap();
        assert!(late.is_error && late.texts().contains("1 s"), "{late:?}");
        let (call, id) = wait_for_process(&session.client, &folder);
        call.cancel();
        ended(id);
        // A slow call does not block a call of another tool.
        let (call, id) = wait_for_process(&session.client, &folder);
        assert_eq!(session.client.call_tool("echo", json!({"text": "x"})).unwrap().texts(), "<x>");
        let Session { client, mut process, .. } = session;
        client.close();
        assert!(matches!(call.wait().unwrap_err().kind(), ErrorKind::Closed | ErrorKind::Cancelled));
        drop(client);
        assert_eq!(process.end(), 0);
        ended(id);
    }
}

#[test]
fn calls_that_wait_for_a_slow_tool_do_not_block_another_tool() {
    let folder = folder("slow");
    fs::write(folder.join("s.json"), SLOW).unwrap();
    for era in ERAS {
        let session = Session::start(era, &["s.json"], &folder);
        let start = || session.client.request_tool("slow", json!({})).start().unwrap();
        // More calls than threads: those that find no place fail at once.
        let calls: Vec<_> = (0..100).map(|_| start()).collect();
        assert_eq!(session.client.call_tool("fast", json!({})).unwrap().texts(), "fast\n");
        calls.into_iter().for_each(tinymcp::Call::cancel);
        // The server ends its processes.
        let Session { client, mut process, .. } = session;
        client.close();
        assert_eq!(process.end(), 0);
    }
}

#[test]
fn standard_error_of_a_success_is_logged() {
    let folder = example("stderr");
    for era in ERAS {
        let session = Session::start(era, &["s.json"], &folder);
        assert_eq!(session.client.call_tool("notes", json!({})).unwrap().texts(), "out\n");
        assert_eq!(session.process.reported("notes: low"), "notes: low \u{fffd}[31mwater");
        assert_eq!(session.process.reported("notes: "), "notes:   twice");
    }
}

#[test]
fn missing_programs_are_logged() {
    let folder = folder("missing");
    fs::write(folder.join("s.json"), SLOW).unwrap();
    // A client is connected, so the server waits for SIGHUP.
    let Session { client, process, .. } = Session::start(ERAS[0], &["s.json"], &folder);
    let absent = process.reported("/tools/absent");
    assert!(absent.contains("the program \"no-such-program\" is not in PATH, which is "), "{absent}");
    let missing = process.reported("/tools/missing");
    assert!(missing.ends_with("/missing\" does not exist or is not executable"), "{missing}");
    fs::write(folder.join("s.json"), SLOW.replace("./missing", "./gone")).unwrap();
    process.hang_up();
    let gone = process.reported("/tools/missing");
    assert!(gone.ends_with("/gone\" does not exist or is not executable"), "{gone}");
    drop(client);
}

#[test]
fn the_rest_of_an_output_is_a_resource() {
    let folder = folder("rest");
    let text = r#"{"tools": {"long": {"description": "d", "run": ["seq", "100000"], "outputLimit": 1000, "rest": "link"}}}"#;
    fs::write(folder.join("s.json"), text).unwrap();
    for era in ERAS {
        let session = Session::start(era, &["s.json"], &folder);
        let output = session.client.call_tool("long", json!({})).unwrap();
        let link = output.content.iter().find_map(|content| match content {
            Content::ResourceLink(resource, ..) => Some(resource.uri.clone()),
            _ => None,
        });
        let read = session.client.read_resource(&link.unwrap()).unwrap();
        match &read.contents[0].body {
            Body::Text(text) => assert!(text.ends_with("\n99999\n100000\n"), "{}", text.len()),
            other => panic!("{other:?}"),
        }
        assert!(session.client.read_resource("output://long/999").is_err());
    }
}
