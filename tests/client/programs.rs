//! Child processes on every system: answers, exit status, stderr, and the end of all processes.
//!
//! The programs are this test program itself, with a role in the environment.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use tinymcp::{ErrorKind, Protocol, Server, Stderr, Tool};

use super::scripted::{TIMEOUT, plain};

const ROLE: &str = "TEST_CHILD_ROLE";

/// The program with this role.
fn program(role: &str) -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "programs::acts_as_a_program", "--nocapture"]).env(ROLE, role);
    program
}

#[test]
fn acts_as_a_program() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "serves" => serve(),
        "fails" => {
            eprintln!("no board is attached");
            std::process::exit(7);
        }
        "starts another" => {
            let mut other = program("listens").spawn().unwrap();
            serve();
            // The input has ended, and neither program ends.
            other.wait().unwrap();
        }
        "listens" => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // One write, because two programs share this pipe.
            let line = format!("port {}\n", listener.local_addr().unwrap().port());
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            listener.incoming().for_each(drop);
        }
        _ => panic!("{role}"),
    }
}

fn serve() {
    let mut server = Server::new("child", "1.0.0");
    server.tool(Tool::new("hello"), |_, ()| Ok("hello")).unwrap();
    server.serve_stdio().unwrap();
}

#[test]
fn a_program_answers_in_both_protocols_and_ends_with_its_input() {
    for protocol in [Protocol::Stateless, Protocol::Session] {
        let client = plain().protocol(protocol).stderr(Stderr::Piped).spawn(program("serves")).unwrap();
        for _ in 0..3 {
            assert_eq!(client.call_tool("hello", ()).unwrap().texts(), "hello", "{protocol:?}");
        }
        let since = Instant::now();
        client.close();
        assert!(since.elapsed() < TIMEOUT, "{protocol:?}");
    }
}

#[test]
fn the_exit_status_and_stderr_of_a_program_are_reported() {
    let error = plain().stderr(Stderr::Piped).spawn(program("fails")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let message = error.to_string();
    assert!(message.contains("status 7") && message.contains("no board is attached"), "{message}");
}

#[test]
fn processes_that_a_program_started_end_with_the_connection() {
    let client = plain().stderr(Stderr::Piped).spawn(program("starts another")).unwrap();
    assert_eq!(client.call_tool("hello", ()).unwrap().texts(), "hello");
    let port = within(|| {
        let stderr = client.stderr()?;
        let line = stderr.lines().find_map(|line| line.strip_prefix("port "))?;
        line.parse::<u16>().ok()
    });
    let port = port.expect("the other program reports its port");
    TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    client.close();
    within(|| TcpStream::connect(("127.0.0.1", port)).err()).expect("it has ended");
}

/// Tries until there is a result.
fn within<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let since = Instant::now();
    loop {
        let result = attempt();
        if result.is_some() || since.elapsed() > TIMEOUT {
            return result;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
