//! What README.md says in figures and commands holds. Its Rust code is compiled by the doc tests.
#![cfg(unix)]

#[path = "readme/promises.rs"]
mod promises;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tinymcp::Limits;

const README: &str = include_str!("../../README.md");

/// An example that `cargo test` has built; `cargo test --test programs` alone does not build it.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    program
}

/// The rows of the tables of limits: variable, default, least, most.
fn rows() -> Vec<(&'static str, u64, u64, u64)> {
    let rows = README.lines().filter(|line| line.starts_with("| `TINYMCP_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (least, most) = cells[3].split_once(" to ").unwrap();
        let number = |text: &str| text.parse().unwrap();
        (cells[1].trim_matches('`'), number(cells[2]), number(least), number(most))
    })
    .collect()
}

/// The rows that this build knows the variables of.
fn known_rows() -> Vec<(&'static str, u64, u64, u64)> {
    let known = defaults();
    rows().into_iter().filter(|(variable, ..)| known.iter().any(|(name, _)| name == variable)).collect()
}

/// Variable and default of every limit that this build knows, in the order of the README.
fn defaults() -> Vec<(&'static str, u64)> {
    let d = Limits::default();
    let milliseconds = |time: std::time::Duration| time.as_millis() as u64;
    #[cfg_attr(not(any(feature = "client", feature = "http-server")), allow(unused_mut))]
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
        ("TINYMCP_SUBSCRIPTION_BYTES", d.subscription_bytes as u64),
        ("TINYMCP_LISTENS", d.listens as u64),
        ("TINYMCP_IN_FLIGHT_BYTES", d.in_flight_bytes as u64),
        ("TINYMCP_BACKLOG_BYTES", d.backlog_bytes as u64),
        ("TINYMCP_ADDRESS_SPACE", d.address_space),
    ];
    #[cfg(feature = "http-server")]
    {
        let h = &d.http;
        defaults.extend([
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
        ]);
    }
    #[cfg(feature = "client")]
    defaults.extend([
        ("TINYMCP_CALL_MS", milliseconds(d.call_timeout)),
        ("TINYMCP_CALL_LONGEST_MS", milliseconds(d.call_longest)),
        ("TINYMCP_PROBE_MS", milliseconds(d.probe_timeout)),
        ("TINYMCP_CALLS", d.calls as u64),
        ("TINYMCP_ROUNDS", d.rounds.into()),
        ("TINYMCP_LIST_ENTRIES", d.list_entries as u64),
        ("TINYMCP_LIST_BYTES", d.list_bytes as u64),
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
        ("TINYMCP_REFUSALS", d.refusals.into()),
    ]);
    #[cfg(feature = "hub")]
    defaults.extend([
        ("TINYMCP_SERVERS", d.servers as u64),
        ("TINYMCP_LIST_MS", milliseconds(d.list_timeout)),
        ("TINYMCP_RESTARTS", d.restarts.into()),
    ]);
    defaults
}

#[test]
fn every_limit_stands_in_the_readme_with_its_default() {
    let stated: Vec<_> =
        known_rows().into_iter().map(|(variable, default, ..)| (variable, default)).collect();
    assert_eq!(stated, defaults());
    let sources = [include_str!("../../src/limits.rs"), include_str!("../../src/limits/http.rs")];
    let known: usize = sources.iter().map(|text| text.matches("setting(\"TINYMCP_").count()).sum();
    assert_eq!(known, rows().len(), "src/limits.rs knows another number of variables");
    if cfg!(all(feature = "http-server", feature = "http-client", feature = "hub")) {
        assert_eq!(defaults().len(), rows().len());
    }
}

fn serve_nothing(variable: &str, value: u128) -> Output {
    let mut command = Command::new(program("echo_server"));
    command.env(variable, value.to_string()).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn every_limit_has_the_range_that_the_readme_states() {
    for (variable, _, least, most) in known_rows() {
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
fn unknown_limits_are_reported_on_standard_error() {
    let output = serve_nothing("TINYMCP_WORKRES", 2);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("TINYMCP_WORKRES"), "{output:?}");
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
