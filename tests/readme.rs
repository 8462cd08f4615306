//! What README.md says in figures and commands holds. Its Rust code is compiled by the doc tests.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tinymcp::Limits;

const README: &str = include_str!("../README.md");

/// An example that `cargo test` has built; `cargo test --test readme` alone does not build it.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    program
}

/// The rows of the tables of limits, as far as the features have them: variable, default, least,
/// most.
fn rows() -> Vec<(&'static str, u64, u64, u64)> {
    let (main, rest) = README.split_once("With the feature `http-server`:").unwrap();
    let (http, clients) = rest.split_once("Clients have more of them").unwrap();
    let [main, http, clients] =
        [main, http, clients].map(|text| text.lines().filter(|line| line.starts_with("| `TINYMCP_")));
    let of_clients = clients.clone().count();
    let of_clients = match (cfg!(feature = "client"), cfg!(feature = "http-client")) {
        (_, true) => of_clients,
        (true, false) => of_clients - 3,
        (false, false) => 0,
    };
    let of_http = if cfg!(feature = "http-server") { usize::MAX } else { 0 };
    let rows = main.chain(http.take(of_http)).chain(clients.take(of_clients));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (least, most) = cells[3].split_once(" to ").unwrap();
        let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{row}"));
        (cells[1].trim_matches('`'), number(cells[2]), number(least), number(most))
    })
    .collect()
}

#[test]
fn every_limit_stands_in_the_readme_with_its_default() {
    let d = Limits::default();
    let milliseconds = |time: std::time::Duration| time.as_millis() as u64;
    let mut defaults = vec![
        ("TINYMCP_FRAME_BYTES", d.frame_bytes as u64),
        ("TINYMCP_JSON_DEPTH", d.json_depth.into()),
        ("TINYMCP_JSON_NODES", d.json_nodes.into()),
        ("TINYMCP_WORKERS", d.workers as u64),
        ("TINYMCP_QUEUE", d.queue as u64),
        ("TINYMCP_WORKER_STACK", d.worker_stack as u64),
        ("TINYMCP_DEADLINE_MS", milliseconds(d.handler_deadline)),
        ("TINYMCP_GRACE_MS", milliseconds(d.grace)),
        ("TINYMCP_ASK_MS", milliseconds(d.ask_timeout)),
        ("TINYMCP_PARKED", d.parked as u64),
        ("TINYMCP_STATE_BYTES", d.state_bytes as u64),
        ("TINYMCP_PAGE", d.page as u64),
        ("TINYMCP_SUBSCRIPTIONS", d.subscriptions as u64),
        ("TINYMCP_LISTENS", d.listens as u64),
        ("TINYMCP_IN_FLIGHT_BYTES", d.in_flight_bytes as u64),
        ("TINYMCP_BACKLOG_BYTES", d.backlog_bytes as u64),
        ("TINYMCP_ADDRESS_SPACE", d.address_space),
    ];
    defaults.extend(http(&d));
    #[cfg(feature = "client")]
    defaults.extend([
        ("TINYMCP_CALL_MS", milliseconds(d.call_timeout)),
        ("TINYMCP_CALL_LONGEST_MS", milliseconds(d.call_longest)),
        ("TINYMCP_PROBE_MS", milliseconds(d.probe_timeout)),
        ("TINYMCP_CALLS", d.calls as u64),
        ("TINYMCP_ROUNDS", d.rounds.into()),
        ("TINYMCP_LIST_ENTRIES", d.list_entries as u64),
        ("TINYMCP_LIST_PAGES", d.list_pages as u64),
        ("TINYMCP_HANDLERS", d.handlers as u64),
        ("TINYMCP_EVENTS", d.events as u64),
        ("TINYMCP_CACHE_BYTES", d.cache_bytes as u64),
        ("TINYMCP_CHILD_EXIT_MS", milliseconds(d.child_exit)),
        ("TINYMCP_STDERR_BYTES", d.stderr_bytes as u64),
    ]);
    #[cfg(feature = "http-client")]
    defaults.extend([
        ("TINYMCP_HTTP_THREADS", d.http_threads as u64),
        ("TINYMCP_CONNECT_MS", milliseconds(d.connect_timeout)),
        ("TINYMCP_RECONNECTS", d.reconnects.into()),
    ]);
    let stated: Vec<_> = rows().into_iter().map(|(variable, default, ..)| (variable, default)).collect();
    assert_eq!(stated, defaults);
    if cfg!(all(feature = "http-client", feature = "http-server")) {
        let pages = [include_str!("../src/limits.rs"), include_str!("../src/limits/http.rs")];
        let known: usize = pages.map(|page| page.matches("variable: \"TINYMCP_").count()).iter().sum();
        assert_eq!(known, defaults.len(), "src/limits.rs knows another number of variables");
    }
}

#[cfg(feature = "http-server")]
fn http(limits: &Limits) -> Vec<(&'static str, u64)> {
    let milliseconds = |time: std::time::Duration| time.as_millis() as u64;
    let h = &limits.http;
    vec![
        ("TINYMCP_CONNECTIONS", h.connections as u64),
        ("TINYMCP_STREAMS", h.streams as u64),
        ("TINYMCP_HEAD_BYTES", h.head_bytes as u64),
        ("TINYMCP_HEAD_FIELDS", h.head_fields as u64),
        ("TINYMCP_HEAD_MS", milliseconds(h.head_timeout)),
        ("TINYMCP_IDLE_MS", milliseconds(h.idle_timeout)),
        ("TINYMCP_BODY_MS", milliseconds(h.body_timeout)),
        ("TINYMCP_BODY_RATE", h.body_rate as u64),
        ("TINYMCP_ARRIVING_BYTES", h.arriving_bytes as u64),
        ("TINYMCP_UNSENT_BYTES", h.unsent_bytes as u64),
        ("TINYMCP_STALL_MS", milliseconds(h.stall_timeout)),
        ("TINYMCP_COMMENT_MS", milliseconds(h.comment_interval)),
        ("TINYMCP_LINGER_MS", milliseconds(h.linger)),
        ("TINYMCP_SESSIONS", h.sessions as u64),
        ("TINYMCP_SESSION_MS", milliseconds(h.session_timeout)),
        ("TINYMCP_REPLAY", h.replay as u64),
        ("TINYMCP_REPLAY_BYTES", h.replay_bytes as u64),
        ("TINYMCP_RETRY_MS", milliseconds(h.retry)),
    ]
}

#[cfg(not(feature = "http-server"))]
fn http(_: &Limits) -> Vec<(&'static str, u64)> {
    Vec::new()
}

fn serve_nothing(variable: &str, value: u128) -> Output {
    let mut command = Command::new(program("echo_server"));
    command.env(variable, value.to_string()).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn every_limit_has_the_range_that_the_readme_states() {
    for (variable, _, least, most) in rows() {
        for bound in [least, most] {
            let output = serve_nothing(variable, bound.into());
            assert!(output.status.success(), "{variable}={bound}: {output:?}");
        }
        let below = u128::from(least).checked_sub(1);
        for beyond in below.into_iter().chain([u128::from(most) + 1]) {
            let output = serve_nothing(variable, beyond);
            assert_eq!(output.status.code(), Some(1), "{variable}={beyond}");
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(words.contains(variable), "{variable}={beyond}: {words}");
        }
    }
}

#[test]
fn the_command_line_counts_six_words() {
    let server = program("pipe_server");
    let block = README.split("```").find(|block| block.starts_with("sh\nprintf")).unwrap();
    let command = block
        .trim_start_matches("sh\n")
        .replace("cargo run -q --example pipe_server", server.to_str().unwrap());
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(r#""structuredContent":{"lines":1,"words":6,"#), "{text}");
}
