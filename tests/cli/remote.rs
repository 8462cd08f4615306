//! The commands that ask a server, against the examples and against a server of a few lines of shell.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc;

use serde_json::{Value, json};

use super::{PATIENCE, run, server};

/// An example that `cargo test` has built; `cargo test --test programs` alone does not build it.
fn program(name: &str) -> String {
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    program.to_str().unwrap().to_owned()
}

/// Asks a program; its exit status, what it printed, and what it said.
fn ask(words: &[&str], server: &str) -> (i32, String, String) {
    let program = program(server);
    run(&[words, &["--", &program]].concat(), "")
}

/// The same, for JSON.
fn asked(words: &[&str], server: &str) -> Value {
    let (code, out, err) = ask(words, server);
    assert_eq!(code, 0, "{words:?}: {err}");
    assert_eq!(out.lines().count(), 1, "one line for pipelines: {out}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_list_holds_what_was_asked_for() {
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
fn a_list_goes_through_all_pages() {
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
        // Only one of them says what kind of result it is.
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
fn what_the_server_says_no_to_is_1() {
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
    // Questions are refused: nobody is there to answer them.
    assert_eq!(ask(&["call", "erase_pins"], "board_server").0, 1);
}

#[test]
fn what_cannot_be_used_or_reached_is_2() {
    for (args, word) in [
        (&["list", "tools"][..], "--url"),
        (&["list", "gadgets", "--", "/bin/false"], "gadgets"),
        (&["list", "--json", "--text", "--", "/bin/false"], "exclude"),
        (&["call", "--", "/bin/false"], "arguments"),
        (&["call", "echo", "{", "--", "/bin/false"], "JSON"),
        (&["call", "echo", "[1]", "--", "/bin/false"], "not a JSON object"),
        (&["call", "echo", "null", "--", "/bin/false"], "not a JSON object"),
        (&["call", "echo", "\"text\"", "--", "/bin/false"], "not a JSON object"),
        (&["get", "p", "novalue", "--", "/bin/false"], "novalue"),
        (&["complete", "tool", "x", "a=b", "--", "/bin/false"], "tool"),
        (&["list", "--", "/no/such/program"], "/no/such/program"),
        (&["list", "--", "/bin/false"], "/bin/false"),
        (&["list", "--url", "http://127.0.0.1:1/mcp"], "127.0.0.1:1"),
        (&["list", "--url", "nonsense"], "nonsense"),
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
fn every_command_has_help_of_its_own() {
    for command in
        ["list", "call", "read", "get", "complete", "watch", "schema-lint", "schema-simplify", "validate"]
    {
        let usage = format!("  tinymcp {command} ");
        for args in [&[command, "--help"][..], &[command, "x", "-h"], &["help", command]] {
            let (code, out, err) = run(args, "");
            assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
            assert!(out.starts_with(&usage), "{args:?}: {out}");
            assert_eq!(out.contains("SERVER is"), command != "validate", "{args:?}: {out}");
        }
    }
    // An option of the server's own.
    assert_eq!(run(&["list", "--", "/bin/false", "--help"], "").0, 2);
    for args in [&["lst"][..], &["help", "lst"], &["lst", "--help"]] {
        let (code, out, err) = run(args, "");
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("\"lst\"; expected one of: list, call, "), "{err}");
    }
}

#[test]
fn help_of_a_command_names_the_options_that_it_accepts() {
    let options = |help: &str| -> BTreeSet<String> {
        let words = help.split(|c: char| c.is_whitespace() || "[]:,|".contains(c));
        words.filter(|word| word.len() > 2 && word.starts_with("--")).map(str::to_owned).collect()
    };
    let all = options(&run(&["help"], "").1);
    assert!(all.len() > 15, "{all:?}");
    for command in ["list", "call", "watch", "schema-lint", "schema-simplify", "validate"] {
        let named = options(&run(&["help", command], "").1);
        let accepted = all.iter().filter(|option| {
            let error = run(&[command, option], "").2;
            !error.contains(&format!("unknown option {option}; see `tinymcp help {command}`"))
        });
        assert_eq!(named, accepted.cloned().collect(), "{command}");
    }
}

#[test]
fn a_call_without_an_answer_is_2() {
    let script =
        server("{}").replace("*'\"notifications/'*)", "*tools/call*) exit 3;;\n*'\"notifications/'*)");
    let (code, out, err) = run(&["call", "t", "--", "/bin/sh", "-c", &script], "");
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.starts_with("tinymcp: /bin/sh: "), "{err}");
    let long = r#"{"pin":2,"times":100,"intervalMs":1000}"#;
    let (code, out, err) = ask(&["call", "blink", long, "--timeout", "0.5"], "board_server");
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
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
    assert_eq!(code, 2, "{err}");
    let took = began.elapsed().as_secs_f64();
    assert!((2.0..3.5).contains(&took), "{took}");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let (code, _, err) = run(&["list", "--protocol", "session", "--timeout", "0.2", "--", "/bin/cat"], "");
    assert_eq!(code, 2, "{err}");
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
        // Values of options are no names.
        ("uvx", &["--from", "git+https://token@host/x", "y"], ""),
        ("python3", &["-c", "code"], ""),
        ("python-lsp", &["a"], ""),
    ] {
        let program = folder.join(runner);
        // A program that ends at once.
        std::os::unix::fs::symlink("/bin/false", &program).unwrap();
        let program = program.to_str().unwrap();
        let (code, _, err) = run(&[&["list", "--", program], words].concat(), "");
        assert_eq!(code, 2, "{err}");
        let label = if label.is_empty() { program } else { label };
        assert!(err.starts_with(&format!("tinymcp: {label}: ")), "{runner}: {err}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A program that says its process id and neither answers nor minds the end of its input.
#[cfg(unix)]
const DEAF: [&str; 4] = ["--", "sh", "-c", "echo $$ >&2; exec sleep 600"];

#[cfg(unix)]
#[test]
fn an_interruption_ends_the_server_too() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let mut asking = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
            .args(["call", "echo", "--timeout", "600", "--protocol", "stateless"])
            .args(DEAF)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(asking.stderr.take().unwrap()).lines();
        let server = told.next().unwrap().unwrap();
        let kill =
            |words: [&str; 2]| Command::new("kill").args(words).stderr(Stdio::null()).status().unwrap();
        assert!(kill(["-0", &server]).success());
        assert!(kill([signal, &asking.id().to_string()]).success());
        assert_eq!(asking.wait().unwrap().signal(), Some(number));
        assert!(!kill(["-0", &server]).success(), "the server still runs");
        assert!(told.next().is_none(), "nothing is said of it");
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
        let output = end.recv_timeout(PATIENCE).expect("the program ends");
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(status), status != 0), "{tool}");
    }
}

#[test]
fn resources_prompts_and_completion_are_asked_for() {
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
fn people_read_text_and_progress_is_beside_it() {
    let (code, out, err) =
        ask(&["call", "blink", r#"{"pin":2,"times":2,"intervalMs":1}"#, "--text"], "board_server");
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains('{') && out.ends_with('\n'), "{out}");
    assert!(err.contains("of 2"), "{err}");
    let (_, out, _) = ask(&["list", "--text"], "board_server");
    for words in ["tools (", "  gpio_read", "Reads a pin\n", "\nprompts (1)\n", "  gpio://pin/{pin}"] {
        assert!(out.contains(words), "{words:?}: {out}");
    }
    let (_, out, _) = ask(&["get", "diagnose", "symptom=x", "--text"], "board_server");
    assert!(out.starts_with("user: Something is wrong"), "{out}");
    let (_, out, _) = ask(&["complete", "prompt", "diagnose", "component=", "--text"], "board_server");
    assert_eq!(out, "cpu\ndisk\ngpio\nmemory\n");
    // What a server wrote does not steer the terminal.
    let (_, out, _) = ask(&["call", "echo", r#"{"text":"a\u001b[31mb"}"#, "--text"], "echo_server");
    assert_eq!(out, "a\u{fffd}[31mb\n");
}

/// A server that tells something as soon as the session is open, and does `last` when it was asked
/// for log entries.
fn teller(last: &str) -> String {
    let tell = concat!(
        r#"printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';"#,
        r#"printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"sh","data":"hot"}}'"#,
    );
    let level = r#"printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{}}'"#;
    let script = server("{}")
        .replace(
            "*'\"notifications/'*) ;;",
            &format!("*initialized*) {tell};;\n*setLevel*) {level}; {last};;"),
        )
        .replace(r#"{"tools":{}}"#, r#"{"tools":{"listChanged":true},"logging":{}}"#);
    assert!(script.contains("list_changed") && script.contains("listChanged"), "the script has changed");
    script
}

#[test]
fn what_is_told_is_printed_until_enough_came() {
    let script = teller(":");
    let (code, out, err) =
        run(&["watch", "--count", "2", "--protocol", "session", "--", "/bin/sh", "-c", &script], "");
    let told: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, err.as_str()), (0, "tinymcp: watching /bin/sh\n"));
    assert_eq!(
        told,
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
    assert_eq!((code, out.lines().count()), (2, 2), "{out}{err}");
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
    fn proxy_variables_are_ignored() {
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
