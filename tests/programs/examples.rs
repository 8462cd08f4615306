//! Tests of the examples and of the commands in their comments.
//!
//! The tests run `quickstart`, `host` and `ask_user`, and the commands in the comment of
//! `pipe_server` with the output that it documents. `board_server` has its own tests. `cargo test`
//! builds the programs; `cargo test --test programs` alone does not.
#![cfg(unix)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn program(name: &str) -> PathBuf {
    // Tests are in `deps`, examples in the folder `examples` next to it.
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    program
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[cfg(feature = "client")]
#[test]
fn quickstart_reports_that_all_responses_are_as_expected() {
    let output = Command::new(program("quickstart")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = text(&output);
    assert!(
        text.ends_with("Everything was answered as expected.\nNext: copy examples/adder.rs.\n"),
        "{text}"
    );
    assert_eq!(
        (text.matches("MCP 2025-11-25").count(), text.matches("MCP 2026-07-28").count()),
        (1, 1),
        "{text}"
    );
    assert_eq!(text.matches("Hello, Ada!").count(), 2, "{text}");
}

/// Commands of a comment, each with its documented output.
fn commands(source: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim_start);
    while lines.any(|line| line == "```sh") {
        let (mut command, mut output) = (String::new(), String::new());
        for line in lines.by_ref().take_while(|line| *line != "```") {
            let (part, line) = match line.strip_prefix("# ") {
                Some(announced) => (&mut output, announced),
                None => (&mut command, line),
            };
            part.push_str(line);
            part.push('\n');
        }
        blocks.push((command, output));
    }
    blocks
}

#[test]
fn the_commands_of_pipe_server_print_the_documented_output() {
    let server = program("pipe_server");
    let blocks = commands(include_str!("../../examples/pipe_server.rs"));
    assert_eq!(blocks.len(), 3);
    let jq = Command::new("jq").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    for (command, announced) in blocks {
        let command = command.replace("cargo run -q --example pipe_server", server.to_str().unwrap());
        if jq {
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(text(&output), announced, "{command}\n{output:?}");
        } else if let Some((command, _)) = command.split_once(" | jq") {
            // Without jq the lines are longer; the last one must be a result.
            if !command.contains("jq ") {
                let output = Command::new("sh").args(["-c", command]).output().unwrap();
                let text = text(&output);
                assert!(text.lines().last().is_some_and(|l| l.contains("\"result\"")), "{command}\n{text}");
            }
        }
    }
}

/// Runs an example with this input.
#[cfg(all(target_os = "linux", feature = "client"))]
fn run(name: &str, args: &[&str], input: &str) -> Output {
    use std::io::Write as _;
    let mut child = Command::new(program(name))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe may be closed: some examples do not read.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap()
}

#[test]
#[cfg(all(target_os = "linux", feature = "client"))]
fn ask_user_accepts_yes_no_an_empty_line_and_end_of_input() {
    program("board_server");
    for (typed, answer, note) in [
        ("perhaps\nyes\n", "all pins are 0\n", "Type yes or no; try again"),
        ("no\n", "nothing was changed\n", "The server asks: Set every pin to 0?"),
        ("\n", "nothing was changed\n", "declined"),
        ("", "nothing was changed\n", "cancelled"),
    ] {
        let output = run("ask_user", &[], typed);
        assert_eq!(text(&output), answer, "{typed:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(note), "{typed:?}: {output:?}");
    }
    let echo = program("echo_server");
    let output = run("ask_user", &["echo", r#"{"text":"hi"}"#, echo.to_str().unwrap()], "");
    assert_eq!(text(&output), "hi\n", "{output:?}");
}

#[test]
#[cfg(all(target_os = "linux", feature = "hub", feature = "http-client"))]
fn host_starts_the_available_servers_and_reports_missing_ones() {
    let config = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("host.json");
    let (board, echo) = (program("board_server"), program("echo_server"));
    let servers = format!(
        r#"{{"mcpServers": {{
            "board": {{"command": {board:?}}},
            "gone": {{"command": "/no/such/program"}},
            "off": {{"command": "/no/such/program", "disabled": true}},
            "echo": {{"command": {echo:?}, "args": ["--stdio"], "type": "stdio"}},
            "far": {{"url": "http://127.0.0.1:1/mcp"}}
        }}}}"#
    );
    std::fs::write(&config, servers).unwrap();
    let config = config.to_str().unwrap();
    let output =
        run("host", &[config, "echo__add", r#"{"a":1,"b":2}"#, "board__gpio_read", r#"{"pin":4}"#], "");
    let text = text(&output);
    assert!(output.status.success(), "{output:?}");
    for line in [
        "gone: down: ",
        "far: down: ",
        "echo: echo ",
        "\n  board__gpio_read ",
        "\n  echo__add ",
        "\n  board gpio://pin/{pin} ",
        "\n  board board://status ",
        "\nmissing\n  gone: ",
        "\n  far: ",
    ] {
        assert!(text.contains(line), "{line:?}: {text}");
    }
    assert!(!text.contains("off:"), "{text}");
    assert!(text.ends_with("\necho__add answers\n3\n\nboard__gpio_read answers\n0\n"), "{text}");
    // A server that fails does not affect the other servers.
    let output = run("host", &[config, "gone__x", "echo__nothing", "echo__echo", r#"{"text":"there"}"#], "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = self::text(&output);
    assert!(text.contains("gone__x failed") && text.contains("echo__nothing failed"), "{text}");
    assert!(text.ends_with("echo__echo answers\nthere\n"), "{text}");
    for args in [&["/no/such/file.json"][..], &[config, "{}"], &[config, "echo__echo", "{"], &[]] {
        assert_eq!(run("host", args, "").status.code(), Some(2), "{args:?}");
    }
}
