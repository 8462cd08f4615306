//! What the examples and their comments promise, done as a reader would do it.
//!
//! Runs `quickstart`, and the command lines in the comment of `pipe_server` with the output they
//! announce. `board_server` has tests of its own beside it. The programs are those that
//! `cargo test` builds; `cargo test --test examples` alone does not build them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn program(name: &str) -> PathBuf {
    // Tests are in `deps`, examples in `examples` beside it.
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    program
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn quickstart_says_that_everything_was_answered() {
    let output = Command::new(program("quickstart")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = text(&output);
    assert!(text.ends_with("Everything was answered as expected.\n"), "{text}");
    assert_eq!(text.matches("Hello, Ada!").count(), 2, "{text}");
}

/// The commands of a comment, each with the output it announces.
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
fn the_command_lines_of_pipe_server_print_what_they_announce() {
    let server = program("pipe_server");
    let blocks = commands(include_str!("../examples/pipe_server.rs"));
    assert_eq!(blocks.len(), 3);
    let jq = Command::new("jq").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    for (command, announced) in blocks {
        let command = command.replace("cargo run -q --example pipe_server", server.to_str().unwrap());
        if jq {
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(text(&output), announced, "{command}\n{output:?}");
        } else if let Some((command, _)) = command.split_once(" | jq") {
            // Without jq the lines are longer, and the last one must still be a result.
            if !command.contains("jq ") {
                let output = Command::new("sh").args(["-c", command]).output().unwrap();
                let text = text(&output);
                assert!(text.lines().last().is_some_and(|l| l.contains("\"result\"")), "{command}\n{text}");
            }
        }
    }
}
