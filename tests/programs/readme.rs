//! Figures and commands of README.md, of the page about limits and of examples/README.md. Doc tests
//! compile the Rust code of README and manual.
#![cfg(unix)]

#[path = "readme/promises.rs"]
mod promises;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tinymcp::Limits;

const README: &str = include_str!("../../README.md");
const TESTING: &str = include_str!("../../src/manual/testing.md");
const LIMITS: &str = include_str!("../../src/manual/limits.md");

/// Path of an example that `cargo test` has built; `cargo test --test programs` alone does not
/// build it.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    program
}

/// Rows of the tables of limits: variable, default, minimum and maximum.
fn rows() -> Vec<(&'static str, u64, u64, u64)> {
    let rows = LIMITS.lines().filter(|line| line.starts_with("| `TINYMCP_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (least, most) = cells[3].split_once(" to ").unwrap();
        let number = |text: &str| text.parse().unwrap();
        (cells[1].trim_matches('`'), number(cells[2]), number(least), number(most))
    })
    .collect()
}

/// Rows whose variables exist in this build.
fn known_rows() -> Vec<(&'static str, u64, u64, u64)> {
    let known = defaults();
    rows().into_iter().filter(|(variable, ..)| known.iter().any(|(name, _)| name == variable)).collect()
}

/// Variable and default of every limit of this build, in the order of the page.
fn defaults() -> Vec<(&'static str, u64)> {
    let d = Limits::default();
    let milliseconds = |time: std::time::Duration| time.as_millis() as u64;
    #[cfg_attr(not(any(feature = "client", feature = "http-server", feature = "tasks")), allow(unused_mut))]
    let mut defaults = vec![
        ("TINYMCP_FRAME_BYTES", d.frame_bytes as u64),
        ("TINYMCP_JSON_DEPTH", d.json_depth.into()),
        ("TINYMCP_JSON_NODES", d.json_nodes.into()),
        ("TINYMCP_WORKERS", d.workers as u64),
        ("TINYMCP_QUEUE", d.queue as u64),
        ("TINYMCP_WORKER_STACK", d.worker_stack as u64),
        ("TINYMCP_DEADLINE_MS", milliseconds(d.handler_deadline)),
        ("TINYMCP_GRACE_MS", milliseconds(d.grace)),
        ("TINYMCP_PARENT_CHECK_MS", milliseconds(d.parent_check)),
        ("TINYMCP_IDLE_EXIT_MS", milliseconds(d.idle_exit)),
        ("TINYMCP_CLIENT_INPUT_MS", milliseconds(d.client_input_timeout)),
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
    #[cfg(feature = "tasks")]
    defaults.extend([
        ("TINYMCP_TASKS", d.tasks.entries as u64),
        ("TINYMCP_TASK_BYTES", d.tasks.bytes as u64),
        ("TINYMCP_TASK_WORKERS", d.tasks.workers as u64),
        ("TINYMCP_TASK_DEADLINE_MS", milliseconds(d.tasks.deadline)),
        ("TINYMCP_TASK_TTL_MS", milliseconds(d.tasks.ttl)),
        ("TINYMCP_TASK_POLL_MS", milliseconds(d.tasks.poll)),
    ]);
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
        ("TINYMCP_CALL_MS", milliseconds(d.client.call_timeout)),
        ("TINYMCP_CALL_TOTAL_MS", milliseconds(d.client.call_total_timeout)),
        ("TINYMCP_PROBE_MS", milliseconds(d.client.probe_timeout)),
        ("TINYMCP_CALLS", d.client.calls as u64),
        ("TINYMCP_ROUNDS", d.client.rounds.into()),
        ("TINYMCP_LIST_ENTRIES", d.client.list_entries as u64),
        ("TINYMCP_LIST_BYTES", d.client.list_bytes as u64),
        ("TINYMCP_LIST_PAGES", d.client.list_pages as u64),
        ("TINYMCP_HANDLERS", d.client.handlers as u64),
        ("TINYMCP_EVENTS", d.client.events as u64),
        ("TINYMCP_CACHE_BYTES", d.client.cache_bytes as u64),
        ("TINYMCP_CHILD_EXIT_MS", milliseconds(d.client.child_exit)),
        ("TINYMCP_STDERR_BYTES", d.client.stderr_bytes as u64),
    ]);
    #[cfg(feature = "http-client")]
    defaults.extend([
        ("TINYMCP_HTTP_THREADS", d.http_client.threads as u64),
        ("TINYMCP_CONNECT_MS", milliseconds(d.http_client.connect_timeout)),
        ("TINYMCP_RECONNECTS", d.http_client.reconnects.into()),
        ("TINYMCP_REFUSALS", d.http_client.refusals.into()),
    ]);
    #[cfg(feature = "hub")]
    defaults.extend([
        ("TINYMCP_SERVERS", d.hub.servers as u64),
        ("TINYMCP_LIST_MS", milliseconds(d.hub.list_timeout)),
        ("TINYMCP_RESTARTS", d.hub.restarts.into()),
    ]);
    defaults
}

#[test]
fn every_limit_is_on_the_page_with_its_default() {
    let stated: Vec<_> =
        known_rows().into_iter().map(|(variable, default, ..)| (variable, default)).collect();
    assert_eq!(stated, defaults());
    let source = include_str!("../../src/limits.rs");
    let known = source.matches(", \"TINYMCP_").count() - source.matches(", \"TINYMCP_SCHEMA_").count();
    assert_eq!(known, rows().len(), "src/limits.rs has another number of variables");
    if cfg!(all(feature = "http-server", feature = "http-client", feature = "hub", feature = "tasks")) {
        assert_eq!(defaults().len(), rows().len());
    }
}

fn serve_nothing(variable: &str, value: u128) -> Output {
    let mut command = Command::new(program("echo_server"));
    command.env(variable, value.to_string()).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn every_limit_has_the_range_that_the_page_states() {
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
fn the_limits_of_the_readme_are_those_of_the_page() {
    let cells = |row: &'static str| row.split('|').map(str::trim).collect::<Vec<_>>();
    let six: Vec<_> = README.lines().filter(|line| line.starts_with("| `TINYMCP_")).map(cells).collect();
    assert_eq!(six.len(), 6);
    for row in six {
        let same = rows()
            .into_iter()
            .any(|(name, default, ..)| row[1].trim_matches('`') == name && row[2].parse() == Ok(default));
        assert!(same, "{row:?}");
    }
}

#[test]
fn the_readme_is_short_and_its_server_is_the_example() {
    assert!(README.lines().count() <= 250, "{} lines", README.lines().count());
    assert!(
        !README.contains("\n# #[") && !README.contains("\n# fn "),
        "a line that only rustdoc hides is visible"
    );
    let block = README.split("```rust,no_run\n").nth(1).unwrap().split("```").next().unwrap();
    let example = include_str!("../../examples/adder.rs");
    assert_eq!(
        example.split_once('\n').unwrap().1,
        block,
        "examples/adder.rs is not the server of the README"
    );
}

/// Runs a command of a page with the programs that are already built.
fn shell(command: &str) -> Output {
    let programs = program("adder").parent().unwrap().to_owned();
    let path = std::env::join_paths([programs.clone(), programs.with_file_name("")]).unwrap();
    let path = format!("{}:{}", path.to_str().unwrap(), std::env::var("PATH").unwrap());
    Command::new("sh").args(["-c", command]).env("PATH", path).output().unwrap()
}

/// Returns the shell block of a page that starts with `start`; the command `run` is replaced by the
/// example that it runs.
fn command(page: &str, start: &str, run: &str, example: &str) -> String {
    let block = page.split("```").find(|block| block.starts_with(&format!("sh\n{start}"))).unwrap();
    assert!(block.contains(run), "{block}");
    block.trim_start_matches("sh\n").replace(run, example)
}

#[test]
fn the_shell_command_of_the_page_about_tests_calls_the_server_of_the_readme() {
    let output = shell(&command(TESTING, "printf", "cargo run -q", "adder"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(r#""text":"42""#), "{text}");
}

/// The command of the page that starts the example.
const PIPE_SERVER: &str = "cargo run -q --example pipe_server";

#[test]
fn the_shell_command_of_the_examples_counts_six_words() {
    let output =
        shell(&command(include_str!("../../examples/README.md"), "printf", PIPE_SERVER, "pipe_server"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(r#""structuredContent":{"lines":1,"words":6,"#), "{text}");
}

/// On a terminal the program prints text, in a pipeline JSON, so the commands of the transcript get
/// `--text`. In the reader's folder `cargo run` starts the example.
#[cfg(feature = "cli")]
#[test]
fn the_transcript_of_the_readme_is_what_the_program_prints() {
    let transcript = README.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let mut exchanges = 0;
    for exchange in transcript.split("$ ").skip(1) {
        let (command, printed) = exchange.split_once('\n').unwrap();
        let output =
            shell(&command.replace("tinymcp call", "tinymcp call --text").replace("cargo run -q", "adder"));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), printed, "{command}");
        exchanges += 1;
    }
    assert_eq!(exchanges, 3);
}

#[cfg(feature = "hub")]
#[test]
fn the_configuration_of_the_readme_can_be_read() {
    let block = README.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let config = tinymcp::Config::parse(block).unwrap();
    assert_eq!(config.keys().collect::<Vec<_>>(), ["adder"]);
}
