//! The commands that send requests to a server: the examples, or a server of a few lines of shell.

use std::sync::mpsc;

use serde_json::{Value, json};

use super::terminal::{Terminal, tinymcp};
use super::{TIMEOUT, folder, program, run, server};

/// Runs a command with a server. Returns the exit status, standard output and standard error.
pub(crate) fn ask(words: &[&str], server: &str) -> (i32, String, String) {
    let program = program(server);
    run(&[words, &["--", &program]].concat(), "")
}

/// The same, for JSON.
fn asked(words: &[&str], server: &str) -> Value {
    asked_with(0, words, server)
}

fn asked_with(status: i32, words: &[&str], server: &str) -> Value {
    let (code, out, err) = ask(words, server);
    assert_eq!(code, status, "{words:?}: {err}");
    assert_eq!(out.lines().count(), 1, "one line for pipelines: {out}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_list_contains_the_requested_kinds() {
    let all = asked(&["list"], "board_server");
    let kinds: Vec<&str> = all.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(kinds, ["prompts", "resourceTemplates", "resources", "tools"]);
    let some = asked(&["list", "prompts", "tools"], "board_server");
    assert_eq!(some.as_object().unwrap().len(), 2);
    assert_eq!((&some["tools"], &some["prompts"]), (&all["tools"], &all["prompts"]));
    assert_eq!(some["prompts"][0]["name"], "diagnose");
    // A server without resources and prompts has only tools to list.
    let echo = asked(&["list"], "echo_server");
    assert_eq!(echo.as_object().unwrap().len(), 1);
    assert_eq!(echo["tools"][0]["name"], "echo");
}

#[test]
fn a_list_contains_all_pages() {
    let program = program("echo_server");
    let (code, out, _) = run(&["list", "tools", "--", &program, "--many", "300"], "");
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, list["tools"].as_array().unwrap().len()), (0, 302));
}

#[test]
fn both_eras_answer() {
    for era in ["session", "stateless"] {
        let answer = asked(&["call", "add", r#"{"a":1.5,"b":2}"#, "--protocol", era], "echo_server");
        assert_eq!(answer["content"][0]["text"], "3.5", "{era}");
        // Only stateless results have a `resultType`.
        assert_eq!(answer.as_object().unwrap().len() > 1, era == "stateless", "{answer}");
    }
}

#[test]
fn arguments_come_from_standard_input_too() {
    let program = program("echo_server");
    let (code, out, _) = run(&["call", "echo", "-", "--", &program], r#"{"text": "from a pipe"}"#);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &answer["content"][0]["text"]), (0, &json!("from a pipe")));
}

#[test]
fn arguments_get_their_types_from_the_schema() {
    for era in ["session", "stateless"] {
        let call = |words: &[&str]| ask(&[words, &["--protocol", era]].concat(), "board_server");
        let (code, out, err) = call(&["call", "gpio_write", "pin=4", "value:=1", "--text"]);
        assert_eq!((code, out.as_str()), (0, "pin 4 is now 1\n"), "{err}");
        for (words, named) in [
            (&["call", "gpio_write", "pin=4"][..], "missing value; the tool is gpio_write(pin: integer, "),
            (&["call", "gpio_write", "pin=x", "value=1"], "pin: expected integer, got \"x\""),
            (&["call", "gpio_write", "pins=4", "value=1"], "no argument \"pins\"; did you mean \"pin\"?"),
            (&["call", "gpio_write", "pin=4", "pin=5", "value=1"], "\"pin\" is given twice"),
        ] {
            let (code, out, err) = call(words);
            assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
            assert!(err.contains(named), "{words:?}: {err}");
        }
        let (code, _, err) = call(&["call", "gpio_wrote", "pin=4"]);
        assert_eq!(code, 1);
        assert!(err.contains("did you mean \"gpio_write\"?"), "{err}");
        let (code, _, err) = call(&["get", "diagnos", "symptom=x"]);
        assert_eq!(code, 1);
        assert!(err.contains("did you mean \"diagnose\"?"), "{err}");
    }
    let file = super::folder("arguments").join("pin.json");
    std::fs::write(&file, r#"{"pin": 4}"#).unwrap();
    let file = format!("@{}", file.display());
    let words = ["call", "gpio_write", &file, "value=0", "--field", "content/0/text"];
    assert_eq!(ask(&words, "board_server").1, "pin 4 is now 0\n");
}

#[test]
fn each_line_of_standard_input_is_a_call() {
    let program = program("board_server");
    let call = |words: &[&str], input: &str| run(&[words, &["--", &program]].concat(), input);
    let lines = "{\"pin\":4}\n\n{\"pin\":99}\n{\"pin\":5}";
    let (code, out, err) = call(&["call", "gpio_read", "-", "--field", "content/0/text"], lines);
    assert_eq!((code, out.lines().count()), (1, 3), "{out}{err}");
    assert!(out.lines().nth(1) == Some("null") && err.contains("got 99"), "{out}{err}");
    let lines = r#"{"name":"gpio_read","arguments":{"pin":4}}
        {"name":"gpio_reed"}"#;
    let (code, out, err) = call(&["call", "-"], lines);
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, answers[0]["structuredContent"]["pin"].as_u64()), (1, Some(4)), "{err}");
    assert_eq!(answers[1]["error"]["message"], "Unknown tool: gpio_reed; did you mean \"gpio_read\"?");
    // One object may take several lines.
    let (code, out, err) = call(&["call", "gpio_read", "-", "--structured"], "{\n \"pin\":\n 4\n}\n");
    assert_eq!((code, out.lines().count()), (0, 1), "{err}");
    for (input, named) in [("", "no arguments"), ("{\"pin\":4}\nx", "line 2: "), ("[1]", "line 1: ")] {
        let (code, _, err) = call(&["call", "gpio_read", "-"], input);
        assert_eq!(code, 2);
        assert!(err.contains(named), "{input}: {err}");
    }
    let (code, _, err) = call(&["call", "-"], "{\"pin\":4}");
    assert_eq!(code, 2);
    assert!(err.contains("expected a call such as"), "{err}");
}

#[test]
fn a_server_and_a_tool_are_described() {
    for era in ["session", "stateless"] {
        let info = asked(&["info", "--protocol", era], "board_server");
        assert_eq!((&info["name"], &info["protocol"]), (&json!("board"), &json!(era)));
        assert!(info["capabilities"]["tools"].is_object(), "{info}");
        assert!(asked(&["ping", "--protocol", era], "board_server")["milliseconds"].is_number());
    }
    let (_, out, _) = ask(&["info", "--text"], "board_server");
    assert!(out.starts_with("board ") && out.contains("\ncapabilities  tools, "), "{out}");
    let (_, out, _) = ask(&["info", "gpio_write", "--text"], "board_server");
    let program = program("board_server");
    for text in [
        "gpio_write(pin: integer, value: integer)\n  Sets a pin\n",
        "\nARGUMENT  TYPE           REQUIRED  DESCRIPTION\npin       integer 0..27  yes       Pin number",
        &format!("\nExample: tinymcp call gpio_write pin=0 value=0 -- {program}\n"),
    ] {
        assert!(out.contains(text), "{text}: {out}");
    }
    assert_eq!(asked(&["info", "gpio_write"], "board_server")["name"], "gpio_write");
    let (code, _, err) = ask(&["info", "gpio_wrote"], "board_server");
    assert_eq!(code, 1);
    assert!(err.contains("no tool \"gpio_wrote\"; did you mean \"gpio_write\"?"), "{err}");
}

#[test]
fn a_changed_description_is_a_difference() {
    let folder = super::folder("diff");
    let saved = folder.join("saved.json");
    let path = saved.to_str().unwrap();
    assert_eq!(ask(&["list", "-o", path], "board_server").0, 0);
    assert_eq!(ask(&["diff", path], "board_server"), (0, String::new(), String::new()));
    let text = std::fs::read_to_string(&saved).unwrap();
    std::fs::write(&saved, text.replace("Reads a pin", "Reads two pins")).unwrap();
    let (code, out, err) = ask(&["diff", path, "--text"], "board_server");
    let expected = "~ tool gpio_read /description: \"Reads two pins\" is now \"Reads a pin\"\n";
    assert_eq!((code, out.as_str()), (1, expected), "{err}");
    let line = asked_with(1, &["diff", path], "board_server");
    assert_eq!((&line["name"], &line["pointer"]), (&json!("gpio_read"), &json!("/description")));
    let (code, out, _) = run(&["diff", path, path], "");
    assert_eq!((code, out.as_str()), (0, ""));
    for (text, named) in [("{}", "no list of tools"), ("{", "saved.json:1:2: ")] {
        std::fs::write(&saved, text).unwrap();
        let (code, _, err) = run(&["diff", path, path], "");
        assert_eq!(code, 2);
        assert!(err.contains(named), "{err}");
    }
}

/// Words that call a tool of a server that the program itself runs.
fn through<'a>(call: &[&'a str], own: &[&'a str]) -> Vec<&'a str> {
    [call, &["-q", "--text", "--", env!("CARGO_BIN_EXE_tinymcp")], own].concat()
}

#[test]
fn a_recorded_session_is_replayed_both_ways() {
    let folder = super::folder("recorded");
    let program = program("board_server");
    for (number, (call, text)) in [
        (&["call", "gpio_write", "pin=7", "value=1"][..], "pin 7 is now 1\n"),
        (&["call", "blink", "pin=2", "times=2", "intervalMs=1"], "pin 2 blinked 2 times\n"),
        (&["call", "erase_pins", "--answer", "sure=yes"], "all pins are 0\n"),
        (&["get", "diagnose", "symptom=x"], ""),
    ]
    .into_iter()
    .enumerate()
    {
        for era in ["session", "stateless"] {
            let file = folder.join(format!("{number}-{era}.jsonl"));
            let file = file.to_str().unwrap();
            let call = [call, &["--protocol", era]].concat();
            let (code, recorded, err) = run(&through(&call, &["record", file, "--", &program]), "");
            assert!(code == 0 && recorded.ends_with(text), "{call:?} {recorded}{err}");
            let (code, replayed, err) = run(&through(&call, &["replay", file]), "");
            assert_eq!((code, &replayed), (0, &recorded), "{call:?}: {err}");
            // The same server gives the same responses.
            let (code, out, err) = run(&["replay", file, "--client", "--", &program], "");
            assert_eq!((code, out.as_str()), (0, ""), "{call:?}: {err}");
        }
    }
    // A batch is replayed as single messages; a number, which is not a message, is ignored.
    let file = folder.join("0-session.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let batch = text.replace("\"frame\":{", "\"frame\":[1,{").replace("}\n", "]}\n");
    let number = r#"{"t":0,"dir":"s2c","frame":7}"#;
    let batches = folder.join("batches.jsonl");
    std::fs::write(&batches, format!("{number}\n{batch}")).unwrap();
    let batches = batches.to_str().unwrap();
    let replayed = run(&["replay", batches, "--client", "--", &program], "");
    assert_eq!(replayed, (0, String::new(), String::new()));
    // A request that was not recorded gets an error that names the nearest recorded one.
    let file = folder.join("0-session.jsonl");
    let path = file.to_str().unwrap();
    let other = through(&["call", "gpio_write", "pin=8", "value=1"], &["replay", path]);
    let (code, _, err) = run(&other, "");
    assert!(code == 1 && err.contains(r#"the nearest request is tools/call {"arguments":{"pin":7"#), "{err}");
    // A response that differs is reported, unless the difference is ignored.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("pin 7 is now 1", "pin 7 is on")).unwrap();
    let drive = ["replay", path, "--client", "--text", "--", &program];
    let (code, out, err) = run(&drive, "");
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("tools/call gpio_write /result/content/0/text: \"pin 7 is on\" is now"), "{out}");
    let ignoring = ["--ignore", "/result/content", "replay", path, "--client", "--", &program];
    assert_eq!(run(&ignoring, ""), (0, String::new(), String::new()));
}

#[test]
fn a_recording_has_no_credentials_and_every_frame() {
    let file = super::folder("masked").join("session.jsonl");
    let path = file.to_str().unwrap();
    let script = server("{}");
    let own = ["record", path, "-e", "KEY=sk-0123456789", "--", "/bin/sh", "-c", &script];
    let call = ["call", "t", r#"{"password":"x","note":"key sk-0123456789"}"#];
    // The longer file is replaced.
    std::fs::write(&file, "old\n".repeat(1 << 14)).unwrap();
    assert_eq!(run(&through(&call, &own), "").0, 1);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#""password":"[masked]","note":"key [masked]""#), "{text}");
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert!(entry["t"].is_u64() && ["c2s", "s2c", "err"].contains(&entry["dir"].as_str().unwrap()));
    }
    for (args, text, named) in [
        (&["replay", path][..], "{}\n", "dir"),
        (&["replay", path], "{\n", "session.jsonl:1:"),
        (&["replay", path], "", "no frames"),
        (&["replay", "/no/such/file"], "", "/no/such/file"),
        (&["replay", path, "--", "/bin/false"], "{\"dir\":\"c2s\",\"frame\":{}}\n", "--client"),
        (&["record", path], "", "expected a server"),
        (&["record", "/no/such/folder/x", "--", "/bin/false"], "", "/no/such/folder/x"),
    ] {
        std::fs::write(&file, text).unwrap();
        let (code, _, err) = run(args, "");
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(named), "{args:?}: {err}");
    }
}

#[test]
fn questions_are_answered_on_the_command_line() {
    for era in ["session", "stateless"] {
        let call = |words: &[&str]| ask(&[words, &["--protocol", era, "--text"]].concat(), "board_server");
        let (code, out, err) = call(&["call", "erase_pins", "--answer", "sure=yes"]);
        assert_eq!((code, out.as_str()), (0, "all pins are 0\n"), "{err}");
        let (code, out, err) = call(&["call", "erase_pins", "--answer", "sure=perhaps"]);
        assert_eq!(code, 1);
        assert!(format!("{out}{err}").contains("expected yes or no"), "{out}{err}");
        let (code, out, err) = call(&["call", "erase_pins", "--answer", "yes"]);
        assert_eq!(code, 1);
        assert!(err.contains("--answer sure=VALUE"), "{out}{err}");
    }
}

#[test]
fn frames_are_shown_without_credentials_and_control_characters() {
    for era in ["session", "stateless"] {
        let words = ["-v", "-e", "KEY=sk-0123456789", "--protocol", era, "call", "echo"];
        let text = r#"{"text":"key sk-0123456789 \u009b2J","token":"x"}"#;
        let (_, out, err) = ask(&[&words[..], &[text]].concat(), "echo_server");
        assert_eq!(out.lines().count(), 1, "{err}");
        let call = err.lines().find(|line| line.starts_with("> ") && line.contains("tools/call")).unwrap();
        let frame = call.splitn(3, ' ').nth(2).unwrap();
        let frame: Value = serde_json::from_str(frame).unwrap();
        assert_eq!(frame["params"]["arguments"]["text"], "key [masked] \u{9b}2J");
        assert_eq!(frame["params"]["arguments"]["token"], "[masked]");
        assert!(err.lines().any(|line| line.starts_with("< ") && line.contains("\"content\"")), "{err}");
        assert!(!err.contains('\u{9b}') && !err.contains("sk-0123456789"), "{err}");
    }
    let file = super::folder("verbose").join("session.jsonl");
    let path = file.to_str().unwrap();
    let program = program("echo_server");
    let (_, _, err) = run(&through(&["list"], &["record", "-v", path, "--", &program]), "");
    let recorded = std::fs::read_to_string(&file).unwrap().lines().count();
    assert_eq!(err.lines().filter(|line| line.starts_with(['<', '>'])).count(), recorded, "{err}");
    let (_, _, err) = run(&["replay", "-v", path, "--client", "--", &program], "");
    assert!(err.starts_with("> ") && err.contains("\n< "), "{err}");
}

/// The server's standard error passes unchanged in a pipe (`an_interruption_ends_the_server_too`).
#[test]
fn the_standard_error_of_a_server_does_not_control_the_terminal() {
    let script = format!("printf '\\033[2J\\302\\233evil\\n' >&2; {}", server("{}"));
    let file = super::folder("diagnostics").join("session.jsonl");
    let path = file.to_str().unwrap();
    let words = ["list", "--protocol", "session", "--", "/bin/sh", "-c", &script];
    let (code, screen) = Terminal::start(tinymcp(&words)).end();
    assert!(code == 0 && screen.contains("/bin/sh: ?[2J?evil"), "{screen:?}");
    assert!(run(&words, "").2.contains("\u{1b}[2J\u{9b}evil"));
    let own = ["record", path, "--", "/bin/sh", "-c", &script];
    run(&through(&words[..3], &own), "");
    let other = format!("{path}.other");
    let own = ["record", &other, "--", "/bin/sh", "-c", &script];
    for words in [&own[..], &["replay", path, "--client", "--", "/bin/sh", "-c", &script]] {
        let mut terminal = Terminal::start(tinymcp(words));
        terminal.wait_for("\u{fffd}[2J\u{fffd}evil");
        terminal.child.kill().unwrap();
        terminal.child.wait().unwrap();
    }
}

#[test]
fn forms_are_filled_in_at_a_terminal() {
    for era in ["session", "stateless"] {
        let program = program("board_server");
        let words = ["call", "erase_pins", "--protocol", era, "--", &program];
        let mut terminal = Terminal::start(tinymcp(&words));
        terminal.wait_for("yes or no");
        terminal.type_keys("perhaps\n");
        terminal.wait_for("expected yes or no");
        terminal.type_keys("yes\n");
        let (code, rest) = terminal.end();
        assert!(code == 0 && rest.ends_with("all pins are 0\r\n"), "{rest:?}");
    }
}

/// A server whose texts contain a line end, an imitation of a message of the program, and a sequence
/// that clears the screen.
#[test]
fn no_text_of_a_server_imitates_a_line_or_controls_the_terminal() {
    let evil = r"x\ntinymcp: imitated\u001b[2J\u009b2J\u202e";
    let tool = format!(
        r#"{{"name":"{evil}","description":"{evil}","inputSchema":{{"properties":{{"{evil}":{{"enum":["{evil}"],"description":"{evil}"}}}},"required":["{evil}"]}}}}"#
    );
    let folder = super::folder("hostile");
    std::fs::write(folder.join("list"), format!(r#"{{"tools":[{tool}]}}"#)).unwrap();
    let error = format!(r#"{{"code":-32000,"message":"{evil}","data":"{evil}"}}"#);
    std::fs::write(folder.join("error"), error).unwrap();
    let say = |name: &str, file: &str| {
        format!(r#"printf '{{"jsonrpc":"2.0","id":%s,"{name}":%s}}\n' "$id" "$(cat {file})""#)
    };
    let (list, error) = (say("result", "list"), say("error", "error"));
    let cases = format!("*tools/list*) {list};;\n*tools/call*) {error};;\n*unused*)");
    let script = server("{}").replace("*'\"tools/list\"'*)", &cases);
    assert!(script.contains("*unused*)"), "the script has changed");
    let tail = ["--cwd", folder.to_str().unwrap(), "--protocol", "session", "--", "/bin/sh", "-c", &script];
    let name: String = serde_json::from_str(&format!("\"{evil}\"")).unwrap();
    for (words, status) in [
        (&["list", "--text"][..], 0),
        (&["list", "--json"], 0),
        (&["list", "--pretty"], 0),
        (&["info", &name, "--text"], 0),
        (&["info", "y"], 1),
        (&["call", "y"], 1),
        (&["call", &name, "a=1"], 2),
        (&["call", &name, "{}", "--text"], 1),
    ] {
        let (code, out, err) = run(&[words, &tail].concat(), "");
        assert_eq!(code, status, "{words:?}: {err}");
        let imitated = out.lines().chain(err.lines()).any(|line| line.starts_with("tinymcp: imitated"));
        assert!(!imitated, "{words:?}: {out}{err}");
        let controls = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!out.contains(controls) && !err.contains(controls), "{words:?}: {out:?}{err:?}");
    }
}

#[test]
fn options_may_precede_the_command_and_results_may_go_to_a_file() {
    let file = super::folder("output").join("result");
    let path = file.to_str().unwrap();
    let words = ["--pretty", "-o", path, "call", "gpio_read", "pin=4", "--structured"];
    let (code, out, err) = ask(&words, "board_server");
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    let pretty = std::fs::read_to_string(&file).unwrap();
    assert!(pretty.starts_with("{\n  \"pin\": 4,\n  \"value\": "), "{pretty}");
    // After a failure the old file is unchanged.
    assert_eq!(ask(&["-o", path, "call", "gpio_reed"], "board_server").0, 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), pretty);
    let (code, _, err) = ask(&["-o", "/no/such/folder/x", "list"], "board_server");
    assert!(code == 2 && err.contains("/no/such/folder/x: "), "{err}");
    assert_eq!(asked(&["info", "gpio_read", "--field", "/name", "--json"], "board_server"), "gpio_read");
    // `--field` does not hide the error of the tool.
    let (code, out, err) = ask(&["call", "gpio_read", "pin=99", "--structured"], "board_server");
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("the tool failed: Invalid arguments") && err.contains("got 99"), "{err}");
    let (code, _, err) = ask(&["call", "gpio_read", "pin=4", "--field", "/nothing"], "board_server");
    assert_eq!(code, 1);
    assert!(err.contains("the result has no /nothing; it has "), "{err}");
    let (code, _, err) = ask(&["-q", "call", "blink", "pin=2", "times=2", "intervalMs=1"], "board_server");
    assert_eq!((code, err.as_str()), (0, ""));
    let error = run(&["--watch", "serve", "x.json"], "").2;
    assert!(error.contains("the options of serve must follow the command"), "{error}");
}

#[test]
fn the_program_gets_its_variables_and_folder() {
    let folder = super::folder("started");
    std::fs::write(folder.join("reply"), "here").unwrap();
    let answer = concat!(
        r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "#,
        r#""$id" "$WORD $(cat reply)""#
    );
    let script = server("{}")
        .replace("*'\"notifications/'*)", &format!("*tools/call*) {answer};;\n*'\"notifications/'*)"));
    let args = ["call", "t", "-e", "WORD=a b", "--cwd", folder.to_str().unwrap(), "--protocol", "session"];
    let args = [&args[..], &["--field", "content/0/text", "--", "/bin/sh", "-c", &script]].concat();
    let (code, out, err) = run(&args, "");
    assert_eq!((code, out.as_str()), (0, "a b here\n"), "{err}");
}

#[cfg(unix)]
#[test]
fn a_configuration_must_be_a_regular_file() {
    let (code, _, error) = run(&["list", "--server", "x", "--config", "/dev/null"], "");
    assert_eq!((code, error.trim_end()), (2, "tinymcp: /dev/null: not a regular file"));
}

#[test]
fn shells_complete_commands_options_servers_and_tools() {
    let folder = super::folder("completed");
    let config = folder.join("mcp.json");
    let servers =
        json!({"mcpServers": {"board": {"command": program("board_server")}, "x": {"command": "x"}}});
    std::fs::write(&config, servers.to_string()).unwrap();
    let config = config.to_str().unwrap();
    let complete = |words: &[&str]| {
        let (code, out, err) = run(&[&["__complete"], words].concat(), "");
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["re"]), ["read", "record", "replay"]);
    assert_eq!(complete(&["list", "t"]), ["tools", "templates"]);
    assert_eq!(complete(&["call", "--str"]), ["--structured"]);
    assert_eq!(complete(&["validate", "--b"]), ["--batch"]);
    assert_eq!(complete(&["serve", "--ch"]), ["--check"]);
    assert_eq!(complete(&["list", "--config", config, "--server", ""]), ["board", "x"]);
    assert_eq!(complete(&["--config", config, "call", ""]), ["board:", "x:"]);
    assert_eq!(complete(&["--config", config, "call", "board:gpio_r"]), ["board:gpio_read"]);
    let words = ["--config", config, "--server", "board", "call", "gpio_w"];
    assert_eq!(complete(&words), ["gpio_write"]);
    assert_eq!(complete(&["--config", config, "call", "x:a"]), [""; 0]);
    assert_eq!(complete(&["call", "x", "--", "--"]), [""; 0]);
    // Every option of the commands is known.
    assert_eq!(complete(&["list", "-c", "x", "--server=b", "--config", config, "--server=b"]), [""; 0]);
    assert_eq!(complete(&["list", "--config", config, "--server=b"]), ["--server=board"]);
    let words = ["-qv", "--bearer", "call", "-H", "a: b", "--config", config, "call", "b"];
    assert_eq!(complete(&words), ["board:"]);
    assert_eq!(complete(&["schema-lint", "x", "--profile", "gem"]), ["gemini"]);
    let words = ["call", "--timeout", "9", "board:gpio_write", "--config", config, "pin=4", "v"];
    assert_eq!(complete(&words), ["value="]);
    assert_eq!(complete(&["--config", config, "get", "board:d"]), ["board:diagnose"]);
    assert_eq!(complete(&["--config", config, "get", "board:diagnose", "s"]), ["symptom="]);
    let answers = folder.join("missing");
    let words = ["call", "--answers", answers.to_str().unwrap(), "--config", config, "b"];
    assert_eq!(complete(&words), [""; 0]);
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&["completions", shell], "");
        assert!(code == 0 && out.contains("tinymcp __complete"), "{out}");
    }
    assert_eq!(run(&["completions", "tcsh"], "").0, 2);
    // The script works in a shell.
    let script = r#"eval "$(tinymcp completions bash)"; COMP_WORDS=(tinymcp ex); COMP_CWORD=1; _tinymcp; echo "${COMPREPLY[@]}""#;
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_tinymcp")).parent().unwrap();
    let path = format!("{}:{}", programs.to_str().unwrap(), std::env::var("PATH").unwrap());
    let bash = |script: &str| {
        let output = std::process::Command::new("bash").args(["-c", script]).env("PATH", &path).output();
        output.map(|output| String::from_utf8(output.stdout).unwrap())
    };
    let Ok(shown) = bash(script) else { return };
    assert_eq!(shown, "explain\n");
    // A name of a server is never expanded, and Bash splits words at `=`.
    let touched = folder.join("touched");
    let evil = format!("t$(touch${{IFS}}{})", touched.display());
    let schema = r#"{"properties":{"mode":{"enum":["fast"]}}}"#;
    let list = format!(r#"{{"name":"{evil}"}},{{"name":"t","description":"d","inputSchema":{schema}"#);
    let script = server("@").replace(r#"{"name":"t","description":"d","inputSchema":@"#, &list);
    let list_file = folder.join("server.sh");
    std::fs::write(&list_file, script.replace("'\''", "'")).unwrap();
    let words = ["(\"call\" \"t\")", "(call t mode =)", "(call t mode = f)"];
    for (words, expected) in words.into_iter().zip(["t", "fast", "fast"]) {
        let servers = json!({"mcpServers": {"e": {"command": "sh", "args": [list_file]}}});
        std::fs::write(config, servers.to_string()).unwrap();
        let words =
            words.replacen('(', &format!("(tinymcp --protocol session --server e --config {config} "), 1);
        let script = format!(
            r#"eval "$(tinymcp completions bash)"; COMP_WORDS={words}; COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _tinymcp; echo "${{COMPREPLY[@]}}""#
        );
        assert_eq!(bash(&script).unwrap(), format!("{expected}\n"), "{words}");
    }
    assert!(!touched.exists(), "a name of the server was expanded");
}

#[test]
fn tools_with_unusual_names_are_called() {
    let schema = r#"{"properties":{"a=b":{"type":"integer"}},"additionalProperties":false}"#;
    let answer = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":%s}}\n' "$id" "$(echo "$line" | sed 's/.*"params"://; s/}$//')""#;
    let script = server(schema)
        .replace(r#"{"name":"t""#, r#"{"name":"-x""#)
        .replace("*'\"notifications/'*)", &format!("*tools/call*) {answer};;\n*'\"notifications/'*)"));
    let tail = ["--protocol", "session", "--", "/bin/sh", "-c", &script];
    for words in
        [&["call", ":-x", "a=b=1", "--structured"][..], &["call", "--structured", ":-x", r#"{"a=b":1}"#]]
    {
        let (code, out, err) = run(&[words, &tail].concat(), "");
        assert_eq!(code, 0, "{err}");
        let params: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&params["name"], &params["arguments"]), (&json!("-x"), &json!({"a=b": 1})));
    }
    let (code, out, _) = run(&[&["info", ":-x", "--text"], &tail[..]].concat(), "");
    assert!(code == 0 && out.starts_with("-x([a=b: integer])\n"), "{out}");
    let (_, out, err) =
        run(&[&["run", "-", "--field", "structuredContent/name"], &tail[..]].concat(), ":-x\ncall :-x\n");
    assert_eq!(out, "-x\n-x\n", "{err}");
}

#[test]
fn the_key_of_a_configured_server_may_precede_its_tool() {
    let folder = super::folder("configured");
    let config = folder.join("mcp.json");
    let servers = json!({"mcpServers": {"board": {"command": program("board_server")}}});
    std::fs::write(&config, servers.to_string()).unwrap();
    let config = config.to_str().unwrap();
    let args = ["call", "board:gpio_read", "pin=4", "--config", config, "--field", "structuredContent/pin"];
    assert_eq!(run(&args, "").1, "4\n");
    let (_, out, _) = run(&["info", "board:gpio_read", "--config", config, "--text"], "");
    let example = format!("Example: tinymcp call gpio_read pin=0 --server board --config {config}\n");
    assert!(out.ends_with(&example), "{out}");
}

#[test]
fn an_error_of_the_server_is_status_1() {
    let (code, out, err) = ask(&["call", "gpio_read", r#"{"pin":99}"#], "board_server");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &answer["isError"], err.as_str()), (1, &json!(true), ""));
    for words in [
        &["call", "no_such_tool"][..],
        &["read", "file:///no/such"],
        &["get", "no_such_prompt"],
        &["complete", "prompt", "no_such_prompt", "a="],
    ] {
        let (code, out, err) = ask(words, "board_server");
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
        assert!(err.starts_with("tinymcp: ") && err.contains("board_server: "), "{words:?}: {err}");
    }
    // There is no terminal, so the user cannot answer the tool's form.
    let (code, _, err) = ask(&["call", "erase_pins"], "board_server");
    assert_eq!(code, 1);
    assert!(err.contains("give --answer"), "{err}");
}

#[test]
fn usage_errors_are_2() {
    for (args, word) in [
        (&["list", "tools"][..], "expected a server: either URL, "),
        (&["list", "gadgets", "--", "/bin/false"], "gadgets"),
        (&["list", "--json", "--text", "--", "/bin/false"], "exclude"),
        (&["call", "--", "/bin/false"], "name of a tool"),
        (&["call", "echo", "{", "--", "/bin/false"], "JSON"),
        (&["call", "echo", "[1]", "--", "/bin/false"], "not a JSON object"),
        (&["call", "echo", "null", "--", "/bin/false"], "not a JSON object"),
        (&["call", "echo", "\"text\"", "--", "/bin/false"], "not a JSON object"),
        (&["get", "p", "novalue", "--", "/bin/false"], "novalue"),
        (&["complete", "tool", "x", "a=b", "--", "/bin/false"], "tool"),
        (&["call", "echo", "a:=x", "--", "/bin/false"], "not JSON"),
        (&["call", "echo", "@/no/such/file", "--", "/bin/false"], "/no/such/file"),
        (&["info", "a", "b", "--", "/bin/false"], "one tool"),
        (&["ping", "a", "--", "/bin/false"], "no arguments"),
        (&["list", "--url", "ftp://nonsense"], "ftp://nonsense"),
        (&["list", "--env", "A=b", "--url", "http://127.0.0.1:1/mcp"], "--env"),
        (&["list", "--cwd", "/no/such/folder", "--", "/bin/false"], "/no/such/folder"),
        (&["list", "--pretty", "--text", "--", "/bin/false"], "exclude"),
        (&["call", "t", "--field", "a", "--structured", "--", "/bin/false"], "exclude"),
        (&["list", "--url", "http://127.0.0.1:1/mcp", "--", "/bin/false"], "more than one server"),
        (&["list", "--url", "http://x/", "--bearer", "a", "-H", "authorization: b"], "more than one Auth"),
        (&["call", "a:b"], "\"a\": write --config FILE"),
        (&["list", "--answer", "perhaps", "--", "/bin/false"], "NAME=VALUE"),
        (&["list", "--root", "/no/such/folder", "--", "/bin/false"], "/no/such/folder"),
        (&["list", "--url", "http://127.0.0.1:1/mcp", "--header", "x"], "NAME:VALUE"),
        (&["list", "--header", "a: b", "--", "/bin/false"], "--header"),
        (&["list", "--protocol", "stone", "--", "/bin/false"], "stone"),
        (&["list", "--timeout", "0", "--", "/bin/false"], "0"),
        (&["list", "--count", "1", "--", "/bin/false"], "--count"),
    ] {
        let (code, out, err) = run(args, "");
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.starts_with("tinymcp: ") && err.contains(word), "{args:?}: {err}");
    }
}

#[test]
fn a_server_that_is_not_reached_is_4() {
    for (args, word) in [
        (&["list", "--", "/no/such/program"][..], "/no/such/program"),
        (&["list", "--", "/bin/false"], "/bin/false"),
        (&["ping", "--url", "http://127.0.0.1:1/mcp"], "127.0.0.1:1"),
        (&["schema-lint", "--url", "http://127.0.0.1:1/mcp"], "127.0.0.1:1"),
    ] {
        let (code, out, err) = run(args, "");
        assert_eq!((code, out.as_str()), (4, ""), "{args:?}: {err}");
        assert!(err.starts_with("tinymcp: ") && err.contains(word), "{args:?}: {err}");
    }
}

#[test]
fn a_call_without_an_answer_is_4_and_a_timeout_5() {
    let script =
        server("{}").replace("*'\"notifications/'*)", "*tools/call*) exit 3;;\n*'\"notifications/'*)");
    let (code, out, err) = run(&["call", "t", "--", "/bin/sh", "-c", &script], "");
    assert_eq!((code, out.as_str()), (4, ""), "{err}");
    assert!(err.starts_with("tinymcp: /bin/sh: "), "{err}");
    let long = r#"{"pin":2,"times":100,"intervalMs":1000}"#;
    let (code, out, err) = ask(&["call", "blink", long, "--timeout", "0.5"], "board_server");
    assert_eq!((code, out.as_str()), (5, ""), "{err}");
}

#[test]
fn a_list_that_the_server_does_not_have_is_empty_or_named() {
    // It declares resources, and answers every request but the first with -32601.
    let missing = r#"printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}'"#;
    let script = server("{}")
        .replace("*'\"notifications/'*)", &format!("*resources/*) {missing};;\n*'\"notifications/'*)"))
        .replace(r#"{"tools":{}}"#, r#"{"resources":{}}"#);
    let (code, out, err) = run(&["list", "--protocol", "session", "--", "/bin/sh", "-c", &script], "");
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(out.trim(), r#"{"resources":[],"resourceTemplates":[]}"#);
    for (words, named) in [
        (&["list", "prompts"][..], "no prompts"),
        (&["get", "p"], "no prompts"),
        (&["call", "t"], "no tools"),
    ] {
        let args = [words, &["--protocol", "session", "--", "/bin/sh", "-c", &script]].concat();
        let (code, out, err) = run(&args, "");
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.starts_with("tinymcp: /bin/sh: the server has ") && err.contains(named), "{err}");
    }
}

#[test]
fn one_timeout_covers_both_handshakes() {
    let began = std::time::Instant::now();
    let (code, _, err) =
        run(&["list", "--timeout", "2", "--", "/bin/sh", "-c", "while read line; do :; done"], "");
    assert_eq!(code, 5, "{err}");
    let took = began.elapsed().as_secs_f64();
    assert!((2.0..3.5).contains(&took), "{took}");
}

#[cfg(unix)]
#[test]
fn the_timeout_shortens_the_wait_for_a_server_that_does_not_end() {
    let began = std::time::Instant::now();
    let script = "trap '' TERM; while :; do sleep 1; done";
    let (code, _, err) = run(&["list", "--timeout", "1", "--", "/bin/sh", "-c", script], "");
    assert_eq!(code, 5, "{err}");
    // Without `--timeout`, closing would wait two seconds after the end of the input and two after
    // SIGTERM.
    let took = began.elapsed().as_secs_f64();
    assert!((1.0..4.5).contains(&took), "{took}");
}

#[test]
fn a_silent_server_is_a_timeout() {
    let (code, _, err) = run(&["list", "--protocol", "session", "--timeout", "0.2", "--", "/bin/cat"], "");
    assert!(code == 4 || code == 5, "{code} {err}");
}

#[cfg(unix)]
#[test]
fn errors_name_the_script_and_not_its_interpreter() {
    let folder = std::env::temp_dir().join(format!("tinymcp-runners-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (runner, words, label) in [
        ("node", &["dist/server.js", "x"][..], "dist/server.js"),
        ("npx", &["-y", "@scope/server"], "@scope/server"),
        ("tinymcp", &["serve", "garden.json"], "garden.json"),
        ("python3.11", &["server.py"], "server.py"),
        ("uv", &["run", "server"], "server"),
        // Values of options are not server names.
        ("uvx", &["--from", "git+https://token@host/x", "y"], ""),
        ("python3", &["-c", "code"], ""),
        ("python-lsp", &["a"], ""),
    ] {
        let program = folder.join(runner);
        // A program that ends at once.
        std::os::unix::fs::symlink("/bin/false", &program).unwrap();
        let program = program.to_str().unwrap();
        let (code, _, err) = run(&[&["list", "--", program], words].concat(), "");
        assert_eq!(code, 4, "{err}");
        let label = if label.is_empty() { program } else { label };
        assert!(err.starts_with(&format!("tinymcp: {label}: ")), "{runner}: {err}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A program that prints its process id, sends no response and ignores the end of its input.
#[cfg(unix)]
const DEAF: [&str; 4] = ["--", "sh", "-c", "echo $$ >&2; exec sleep 600"];

#[cfg(unix)]
#[test]
fn an_interruption_ends_the_server_too() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    for signal in ["-INT", "-TERM"] {
        let mut asking = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
            .args(["call", "echo", "--timeout", "600", "--protocol", "stateless"])
            .args(DEAF)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr_lines = BufReader::new(asking.stderr.take().unwrap()).lines();
        let server = stderr_lines.next().unwrap().unwrap();
        let kill =
            |words: [&str; 2]| Command::new("kill").args(words).stderr(Stdio::null()).status().unwrap();
        assert!(kill(["-0", &server]).success());
        assert!(kill([signal, &asking.id().to_string()]).success());
        assert_eq!(asking.wait().unwrap().code(), Some(5));
        assert!(!kill(["-0", &server]).success(), "the server still runs");
        assert!(stderr_lines.next().is_none(), "unexpected line on standard error");
    }
}

pub(super) fn send_signal(signal: &str, program: &std::process::Child) {
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args([signal, &program.id().to_string()]).status().unwrap().success());
}

#[test]
fn an_interruption_cancels_the_call_and_a_second_ends_at_once() {
    for (era, signal) in [("session", "-INT"), ("stateless", "-TERM")] {
        let file = super::folder("cancelled").join("session.jsonl");
        let own = ["record", file.to_str().unwrap(), "--", &program("board_server")];
        let call = ["call", "blink", "pin=2", "times=100", "intervalMs=1000", "--protocol", era];
        let words = [&call[..], &["--", env!("CARGO_BIN_EXE_tinymcp")], &own].concat();
        let mut terminal = Terminal::start(tinymcp(&words));
        terminal.wait_for("1 of 100");
        send_signal(signal, &terminal.child);
        let (code, rest) = terminal.end();
        assert_eq!(code, 5, "{rest}");
        assert!(rest.contains(": the call was cancelled\r\n"), "{rest}");
        let recorded = std::fs::read_to_string(&file).unwrap();
        assert!(recorded.contains("notifications/cancelled"), "{recorded}");
    }
    // The call ends, too, while the user is asked.
    let mut terminal = Terminal::start(tinymcp(&["call", "erase_pins", "--", &program("board_server")]));
    terminal.wait_for("yes or no");
    send_signal("-INT", &terminal.child);
    assert_eq!(terminal.end().0, 5);
    // This server ignores the end of its input and SIGTERM, so closing it after the first signal
    // takes a while.
    let pid = folder("second-signal").join("pid");
    let pid = pid.to_str().unwrap();
    let script = format!("echo $$ >{pid}; trap '' TERM; {}; while :; do sleep 1; done", server("{}"));
    let script =
        script.replace("*'\"notifications/'*) ;;", "*tools/call*) echo called >&2;; *notifications/*) ;;");
    let words = ["call", "-v", "t", "--protocol", "session", "--", "/bin/sh", "-c", &script];
    let mut terminal = Terminal::start(tinymcp(&words));
    terminal.wait_for("called");
    send_signal("-INT", &terminal.child);
    terminal.wait_for("notifications/cancelled");
    send_signal("-INT", &terminal.child);
    let status = terminal.child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
    let pid = std::fs::read_to_string(pid).unwrap();
    // A killed process ends some time after the signal. While it is not reaped, it has no command line.
    let command = || std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    let deadline = std::time::Instant::now() + TIMEOUT;
    while !command().is_empty() {
        assert!(std::time::Instant::now() < deadline, "the server still runs");
        std::thread::yield_now();
    }
}

#[cfg(unix)]
#[test]
fn a_full_standard_error_that_is_never_read_delays_neither_results_nor_the_end() {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    let (_unread, full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while (&full).write(&[b'.'; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let program = program("board_server");
    // The first reports progress, the second an error of the server.
    for (tool, status) in [("blink", 0), ("missing", 1)] {
        let asking = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
            .args(["call", tool, r#"{"pin":2,"times":2,"intervalMs":1}"#, "--", &program])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(OwnedFd::from(full.try_clone().unwrap()))
            .spawn()
            .unwrap();
        let (finished, end) = mpsc::channel();
        std::thread::spawn(move || finished.send(asking.wait_with_output().unwrap()));
        let output = end.recv_timeout(TIMEOUT).expect("the program ends");
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(status), status != 0), "{tool}");
    }
}

#[test]
fn resources_prompts_and_completions_are_printed() {
    let read = asked(&["read", "gpio://pin/4"], "board_server");
    assert_eq!(read["contents"][0]["uri"], "gpio://pin/4");
    let got = asked(&["get", "diagnose", "symptom=it smells", "component=cpu"], "board_server");
    assert!(got["messages"][0]["content"]["text"].as_str().unwrap().contains("Symptom: it smells"));
    let found = asked(&["complete", "prompt", "diagnose", "component=d", "symptom=x"], "board_server");
    assert_eq!(found["completion"]["values"], json!(["disk"]));
    let pins = asked(&["complete", "template", "gpio://pin/{pin}", "pin=2"], "board_server");
    assert!(pins["completion"]["values"].as_array().unwrap().contains(&json!("27")), "{pins}");
}

#[test]
fn progress_in_a_pipe_is_a_few_lines_and_the_last_one() {
    let began = std::time::Instant::now();
    let (code, _, err) = ask(
        &["call", "blink", "pin=2", "times=100", "intervalMs=10", "--protocol", "session"],
        "board_server",
    );
    // One at the start, one for each quarter of a second, and the last one.
    let most = 2 + began.elapsed().as_millis() / 250;
    let lines: Vec<&str> = err.lines().collect();
    assert!(code == 0 && (2..=most).contains(&(lines.len() as u128)), "{most}: {err}");
    assert!(lines[0].starts_with("1 of 100") && lines[lines.len() - 1].starts_with("100 of 100"), "{err}");
}

#[test]
fn people_read_text_and_progress_is_beside_it() {
    let (code, out, err) =
        ask(&["call", "blink", r#"{"pin":2,"times":2,"intervalMs":1}"#, "--text"], "board_server");
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains('{') && out.ends_with('\n'), "{out}");
    assert!(err.contains("of 2"), "{err}");
    let (_, out, _) = ask(&["list", "--text"], "board_server");
    for words in [
        "tools (",
        "  gpio_read(pin: integer)\n      Reads a pin\n",
        "[times: integer]",
        "\nprompts (1)\n  diagnose(symptom, [component])\n",
        "  gpio://pin/{pin}\n",
    ] {
        assert!(out.contains(words), "{words:?}: {out}");
    }
    let shown = "load()\n      Shows the load of the machine\n      (page ui://board/gauge)\n";
    let (_, out, _) = ask(&["list", "--text"], "app_gauge");
    assert!(out.contains(shown), "{out}");
    let (_, out, _) = ask(&["info", "load", "--text"], "app_gauge");
    assert!(out.contains("\n  (page ui://board/gauge)\n"), "{out}");
    let older = r#""_meta":{"ui/resourceUri":"ui://a\u001b[2J"},"description":"d""#;
    let script = server("{}").replace(r#""description":"d""#, older);
    let (_, out, _) = run(&["list", "--text", "--", "/bin/sh", "-c", &script], "");
    assert!(out.ends_with("      (page ui://a\u{fffd}[2J)\n"), "{out}");
    let (_, out, _) = ask(&["get", "diagnose", "symptom=x", "--text"], "board_server");
    assert!(out.starts_with("user: Something is wrong"), "{out}");
    let (_, out, _) = ask(&["complete", "prompt", "diagnose", "component=", "--text"], "board_server");
    assert_eq!(out, "cpu\ndisk\ngpio\nmemory\n");
    // Text of a server does not control the terminal.
    let (_, out, _) = ask(&["call", "echo", r#"{"text":"a\u001b[31mb"}"#, "--text"], "echo_server");
    assert_eq!(out, "a\u{fffd}[31mb\n");
}

/// A server that sends a notification as soon as the session is open, and runs `last` after a
/// request for log entries.
fn teller(last: &str) -> String {
    let notify = concat!(
        r#"printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';"#,
        r#"printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"sh","data":"hot"}}'"#,
    );
    let level = r#"printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{}}'"#;
    let script = server("{}")
        .replace(
            "*'\"notifications/'*) ;;",
            &format!("*initialized*) {notify};;\n*setLevel*) {level}; {last};;"),
        )
        .replace(r#"{"tools":{}}"#, r#"{"tools":{"listChanged":true},"logging":{}}"#);
    assert!(script.contains("list_changed") && script.contains("listChanged"), "the script has changed");
    script
}

#[test]
fn watch_prints_events_up_to_the_count() {
    let script = teller(":");
    let (code, out, err) =
        run(&["watch", "--count", "2", "--protocol", "session", "--", "/bin/sh", "-c", &script], "");
    let printed: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, err.as_str()), (0, "tinymcp: watching /bin/sh\n"));
    assert_eq!(
        printed,
        [
            json!({"event": "tools"}),
            json!({"event": "log", "level": "warning", "logger": "sh", "data": "hot"})
        ]
    );
    let args = ["watch", "--text", "--count", "2", "--protocol", "session", "--", "/bin/sh", "-c", &script];
    assert_eq!(run(&args, "").1, "tools changed\nwarning sh: hot\n");
}

#[test]
fn the_end_of_the_server_ends_watching() {
    let script = teller("exit 3");
    let (code, out, err) = run(&["watch", "--protocol", "session", "--", "/bin/sh", "-c", &script], "");
    assert_eq!((code, out.lines().count()), (4, 2), "{out}{err}");
    assert!(err.starts_with("tinymcp: watching /bin/sh\ntinymcp: /bin/sh: "), "{err}");
}

#[cfg(feature = "http-server")]
mod over_http {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use serde_json::json;

    use super::{program, run};

    /// A server over HTTP, ended with the test.
    struct Board(Child, String);

    impl Board {
        fn start() -> Board {
            let mut child = Command::new(program("board_server"))
                .args(["--http", "127.0.0.1:0"])
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
            Board(child, line.trim().strip_prefix("board_server: ").unwrap().to_owned())
        }
    }

    impl Drop for Board {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn updates_at_a_url_are_watched_in_both_eras() {
        let board = Board::start();
        let url = board.1.as_str();
        for (n, era) in ["session", "stateless"].into_iter().enumerate() {
            let mut watch = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
                .args(["watch", "gpio://pin/5", "--url", url, "--protocol", era, "--count", "1"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = String::new();
            BufReader::new(watch.stderr.take().unwrap()).read_line(&mut said).unwrap();
            assert_eq!(said, format!("tinymcp: watching {url}\n"));
            let value = json!({"pin": 5, "value": 1 - n}).to_string();
            let (code, out, err) =
                run(&["call", "gpio_write", &value, "--url", url, "--header", "X-From: test"], "");
            assert_eq!(code, 0, "{out}{err}");
            let output = watch.wait_with_output().unwrap();
            assert_eq!(
                String::from_utf8(output.stdout).unwrap().trim(),
                r#"{"event":"updated","uri":"gpio://pin/5"}"#
            );
            assert_eq!(output.status.code(), Some(0));
        }
    }

    #[test]
    fn a_server_on_this_machine_is_reached_without_a_proxy() {
        let board = Board::start();
        // Nothing listens at port 1: a client that used the proxy would fail.
        let proxy = "http://127.0.0.1:1";
        let output = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
            .args(["list", "tools", "--url", board.1.as_str()])
            .envs(
                ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"]
                    .map(|name| (name, proxy)),
            )
            .env_remove("no_proxy")
            .env_remove("NO_PROXY")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("gpio_read"), "{output:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_a_server_like_a_url() {
    let path = std::env::temp_dir().join(format!("tinymcp-cli-{}.sock", std::process::id()));
    let address = format!("unix:{}", path.display());
    let mut server = tinymcp::Server::new("local", "1.0.0");
    server.tool(tinymcp::Tool::new("hello"), |_, ()| Ok("hello")).unwrap();
    let handle = server.handle();
    let bound = server.http().no_signal_handlers().bind(&address).unwrap();
    let served = std::thread::spawn(move || bound.serve().unwrap());
    for words in [&["call", "hello", "--text", &address][..], &["call", "hello", "--text", "--url", &address]]
    {
        assert_eq!(run(words, ""), (0, "hello\n".to_owned(), String::new()), "{words:?}");
    }
    let (code, out, err) = run(&[&address], "");
    assert!(code == 0 && out.contains("local"), "{out}{err}");
    handle.stop();
    served.join().unwrap();
}
