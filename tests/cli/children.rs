//! Servers that are programs, on every system: results, errors at their start, and their end.
//!
//! Some of the programs are this test program itself, with a role in the environment.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{Server, Tool};

use super::{folder, program, run};

const ROLE: &str = "TEST_CHILD_ROLE";
/// Bound for the end of a program. It ends anyway after 60 s, when the test harness writes to its closed output.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The words of a command, with the program of this role as its server.
fn with_role<'a>(words: &[&'a str], variable: &'a str, this: &'a str) -> Vec<&'a str> {
    let program =
        ["--env", variable, "--", this, "--exact", "cli::children::acts_as_a_program", "--nocapture"];
    [words, &program].concat()
}

fn this() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn acts_as_a_program() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "has roots" => {
            let mut server = Server::new("child", "1.0.0");
            let tool = |ctx: &mut tinymcp::Context<'_>, ()| Ok(ctx.roots("roots")?[0].uri.clone());
            server.tool(Tool::new("root"), tool).unwrap();
            server.serve_stdio().unwrap();
        }
        // Neither answers nor ends with its input.
        "listens" => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let line = format!("port {}\n", listener.local_addr().unwrap().port());
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            listener.incoming().for_each(drop);
        }
        _ => panic!("{role}"),
    }
}

#[test]
fn commands_start_a_server_and_print_its_results() {
    let server = program("echo_server");
    let (code, out, err) = run(&["list", "tools", "--", &server], "");
    assert_eq!((code, err.as_str()), (0, ""));
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["tools"][0]["name"], "echo");
    for protocol in ["session", "stateless"] {
        let words = ["call", "add", "a=1", "b=2", "--text", "--protocol", protocol, "--", &server];
        assert_eq!(run(&words, ""), (0, "3\n".to_owned(), String::new()), "{protocol}");
    }
    let lines = "echo text=one\r\necho text='two words'\n";
    let ended = run(&["run", "-", "--text", "--", &server], lines);
    assert_eq!(ended, (0, "one\ntwo words\n".to_owned(), String::new()));
    let (code, out, err) = run(&["call", "nope", "--", &server], "");
    assert!(code == 1 && out.is_empty() && err.contains("Unknown tool: nope; it has echo, add"), "{err}");
}

#[test]
fn a_server_of_a_configuration_file_is_started() {
    let file = folder("children").join("mcp.json");
    let servers =
        json!({"mcpServers": {"echo": {"command": program("echo_server"), "args": ["--many", "1"]}}});
    fs::write(&file, servers.to_string()).unwrap();
    let words = ["call", "echo:generated_0", "text=x", "--text", "--config", file.to_str().unwrap()];
    assert_eq!(run(&words, ""), (0, "x\n".to_owned(), String::new()));
}

#[test]
fn programs_that_do_not_start_or_end_at_once_are_reported() {
    let (code, out, err) = run(&["list", "--", "no-such-program"], "");
    assert_eq!((code, out.as_str()), (4, ""), "{err}");
    // Under the emulator the program starts and ends.
    if std::env::var_os("TEST_EMULATED").is_none() {
        let why = "tinymcp: no-such-program: cannot start the program \"no-such-program\"";
        assert!(err.starts_with(why), "{err}");
    }
    let (code, out, err) = run(&["list", "--", &program("echo_server"), "--bogus"], "");
    assert_eq!((code, out.as_str()), (4, ""), "{err}");
    assert!(err.contains("unknown argument --bogus") && err.contains("exited with status 2"), "{err}");
}

#[test]
fn roots_are_uris_of_this_system() {
    let root = folder("children_roots").join("a b");
    fs::create_dir(&root).unwrap();
    let (this, variable) = (this(), format!("{ROLE}=has roots"));
    let words = ["call", "root", "--text", "--root", root.to_str().unwrap()];
    let (code, out, err) = run(&with_role(&words, &variable, &this), "");
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("file:///") && out.ends_with("/children_roots/a%20b\n"), "{out}");
    assert!(!out.contains("%5C") && !out.contains("%3F"), "{out}");
}

#[test]
fn a_program_that_does_not_answer_is_ended_at_the_timeout() {
    let (this, variable) = (this(), format!("{ROLE}=listens"));
    let (code, out, err) = run(&with_role(&["list", "--timeout", "1"], &variable, &this), "");
    assert_eq!((code, out.as_str()), (5, ""), "{err}");
    assert!(err.contains("no response in time"), "{err}");
    is_closed(port(&err).unwrap());
}

#[cfg(not(unix))]
#[test]
fn commands_that_require_unix_say_so_and_have_their_help() {
    for command in ["serve", "proxy", "record", "replay", "login", "logout", "auth"] {
        let message = format!("tinymcp: `tinymcp {command}` requires Unix\n");
        assert_eq!(run(&[command, "x"], ""), (2, String::new(), message));
        let (code, out, err) = run(&["help", command], "");
        assert!(code == 0 && err.is_empty() && out.contains(&format!("tinymcp {command}")), "{out}{err}");
    }
}

/// On Windows Ctrl-C ends this program without a handler, as the end from outside does here.
#[cfg(windows)]
#[test]
fn the_server_ends_with_the_command() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let (this, variable) = (this(), format!("{ROLE}=listens"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
        .args(with_role(&["list"], &variable, &this))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(command.stderr.take().unwrap()).lines();
    let port = lines.find_map(|line| port(&line.unwrap())).unwrap();
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    command.kill().unwrap();
    command.wait().unwrap();
    is_closed(port);
}

/// Returns the port that a program reports.
fn port(errors: &str) -> Option<u16> {
    errors.lines().find_map(|line| line.strip_prefix("port ")?.parse().ok())
}

/// Waits until no program listens.
fn is_closed(port: u16) {
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(since.elapsed() < TIMEOUT, "the program has not ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}
