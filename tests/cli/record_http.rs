//! `tinymcp record --http`: clients over HTTP, a program or a URL as the server.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::super::serve_session::Process;
use super::program;
use super::run;

const ERAS: [&str; 2] = ["session", "stateless"];

/// Starts `record` with these arguments; its URL.
fn record(file: &Path, args: &[&str]) -> (Process, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinymcp"));
    command.arg("record").arg(file).args(["--http", "127.0.0.1:0"]).args(args);
    let process = Process::spawn(command);
    let url = process.reported("serving http").split("serving ").nth(1).unwrap().to_owned();
    (process, url)
}

fn entries(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn clients_over_http_are_recorded_and_replayed_both_ways() {
    let folder = super::folder("record-http");
    let board = program("board_server");
    let (_origin, origin) = record(&folder.join("origin.jsonl"), &["--", &board]);
    let calls = [
        (&["call", "gpio_write", "pin=7", "value=1"][..], "pin 7 is now 1\n"),
        (&["call", "blink", "pin=2", "times=2", "intervalMs=1"], "pin 2 blinked 2 times\n"),
        (&["call", "erase_pins", "--answer", "sure=yes"], "all pins are 0\n"),
    ];
    for era in ERAS {
        for (name, server) in [("program", ["--", &board]), ("url", ["--url", &origin])] {
            let file = folder.join(format!("{name}-{era}.jsonl"));
            let path = file.to_str().unwrap();
            let (process, url) = record(&file, &server);
            let text = |call: &[&str], server: &[&str]| {
                let (code, out, err) =
                    run(&[call, &["--protocol", era, "-q", "--text"], server].concat(), "");
                assert_eq!(code, 0, "{call:?}: {err}");
                out
            };
            // Several clients of one server.
            for (call, expected) in calls {
                assert_eq!(text(call, &["--url", &url]), expected, "{era}");
            }
            // It is killed, and the file has all frames that were forwarded.
            drop(process);
            let responses = entries(&file);
            let with_text = |expected: &str| {
                let is_it =
                    |entry: &&Value| entry["frame"]["result"]["content"][0]["text"] == expected.trim_end();
                responses.iter().find(is_it).unwrap()["conn"].as_u64().unwrap()
            };
            let connections = calls.map(|(_, expected)| with_text(expected));
            assert!(connections[0] < connections[1] && connections[1] < connections[2], "{connections:?}");
            for (call, expected) in calls {
                assert_eq!(text(call, &["--", env!("CARGO_BIN_EXE_tinymcp"), "replay", path]), expected);
            }
            // The same server behind a proxy gives the same answers. Only over HTTP the proxy has a title.
            let ignored = ["--ignore", "/result/serverInfo", "--ignore", "/result/_meta"];
            let proxy = ["--", env!("CARGO_BIN_EXE_tinymcp"), "proxy", "--", &board];
            let words = [&["replay", path, "--client"], &ignored[..], &proxy].concat();
            let (code, out, err) = run(&words, "");
            assert_eq!((code, out.as_str()), (0, ""), "{name} {era}: {err}");
        }
    }
}

#[test]
fn a_recording_over_http_has_no_credentials() {
    let folder = super::folder("record-http-masked");
    let echo = program("echo_server");
    let (_origin, origin) = record(&folder.join("origin.jsonl"), &["-e", "KEY=sk-0123456789", "--", &echo]);
    let (_process, url) =
        record(&folder.join("session.jsonl"), &["--bearer", "tk-9876543210", "--url", &origin]);
    for era in ERAS {
        let text = r#"text={"a":"sk-0123456789 tk-9876543210","token":"tk-hidden"}"#;
        let (_, out, err) = run(&["call", "echo", text, "--protocol", era, "--url", &url], "");
        assert!(out.contains("sk-0123456789"), "the client gets it: {out}{err}");
    }
    for (file, masked, others) in
        [("origin", "sk-0123456789", "tk-9876543210"), ("session", "tk-9876543210", "sk-")]
    {
        let text = std::fs::read_to_string(folder.join(file).with_extension("jsonl")).unwrap();
        assert!(!text.contains(masked) && !text.contains("tk-hidden"), "{text}");
        assert!(text.contains(others) && text.contains(r#"\"token\":\"[masked]\""#), "{text}");
    }
}

#[test]
fn a_recording_of_a_url_has_no_value_of_its_query() {
    let folder = super::folder("record-query");
    let (_origin, origin) = record(&folder.join("origin.jsonl"), &["--", &program("echo_server")]);
    let file = folder.join("query.jsonl");
    let url = format!("{origin}?key=qs-0123456789");
    let own = [env!("CARGO_BIN_EXE_tinymcp"), "record", file.to_str().unwrap(), "--url", &url];
    let call = ["call", "echo", "text=qs-0123456789", "-q", "--text", "--"];
    let (code, out, err) = run(&[&call[..], &own].concat(), "");
    assert!(code == 0 && out.contains("qs-0123456789") && !err.contains("TINYMCP_"), "{out} {err}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("[masked]") && !text.contains("qs-0123456789"), "{text}");
}

#[test]
fn wrong_options_of_a_recording_over_http_are_errors() {
    let folder = super::folder("record-http-errors");
    let file = folder.join("session.jsonl");
    let path = file.to_str().unwrap();
    for (args, named) in [
        (&["--http", "127.0.0.1:0"][..], "expected a server"),
        (&["--http", "127.0.0.1:0", "--url", "http://127.0.0.1:9/", "--", "/bin/cat"], "expected a server"),
        (&["--http", "300.0.0.1:1", "--", "/bin/cat"], "300.0.0.1:1"),
        (&["--http", "127.0.0.1:0", "--token-file", "/no/such/file", "--", "/bin/cat"], "/no/such/file"),
        (&["--allow-host", "board.local", "--", "/bin/cat"], "--allow-host requires --http"),
    ] {
        std::fs::write(&file, "old").unwrap();
        let (code, _, err) = run(&[&["record", path], args].concat(), "");
        assert!(code == 2 && err.contains(named), "{args:?}: {code} {err}");
        assert_eq!(std::fs::read(&file).unwrap(), b"old", "{args:?}");
    }
    let (code, _, err) = run(&["record", path, "--", "/no/such/program"], "");
    // The emulator reports a program that cannot be started as one that ends with status 127.
    let status = if std::env::var_os("TEST_EMULATED").is_some() { 127 } else { 4 };
    assert!(code == status && std::fs::read(&file).unwrap() == b"old", "{code} {err}");
    let (code, _, err) = run(&["list", "--http", "127.0.0.1:0", "--", "/bin/cat"], "");
    assert!(code == 2 && err.contains("--http"), "{err}");
}
