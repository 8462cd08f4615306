//! Agent host without a model: starts the servers of a configuration file, prints their entries, and calls
//! tools.
//!
//! ```sh
//! cargo run --features hub,http-client --example host -- servers.json
//! cargo run --features hub,http-client --example host -- servers.json 'board__gpio_read' '{"pin": 4}'
//! cargo run --features hub,oauth --example host -- servers.json # for servers that require sign-in
//! ```
//!
//! The file has the format that hosts have in common; `board` is the key in the names of its tools:
//!
//! ```json
//! {"mcpServers": {
//!     "board": {"command": "target/debug/examples/board_server", "args": ["--root", "/tmp/board"]},
//!     "notes": {"url": "http://127.0.0.1:8080/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
//! }}
//! ```
//!
//! Servers start, lists are requested and tools are called in parallel. A slow or dead server is reported
//! beside the results of the others. The exit status is 1 when a call failed, and 2 when the file or an
//! argument cannot be used.

use std::process::ExitCode;
use std::time::{Duration, Instant};

#[cfg(all(feature = "oauth", unix))]
use tinymcp::Endpoint;
use tinymcp::json::Json;
#[cfg(all(feature = "oauth", unix))]
use tinymcp::oauth::{FileStore, OAuth, SignIn};
use tinymcp::{Config, Entry, Error, ErrorKind, Hub, Merged, ServerState, json};

/// Longest wait for the servers.
const START_TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((file, calls)) = words.split_first() else {
        eprintln!("usage: host CONFIG [SERVER__TOOL [JSON]]…");
        return ExitCode::from(2);
    };
    let ready = calls_of(calls).and_then(|calls| Ok((calls, start(file)?)));
    let (calls, hub) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            eprintln!("host: {error}");
            return ExitCode::from(2);
        }
    };
    show(&hub);
    let failed = call(&hub, calls);
    hub.close();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Names of tools, each with the JSON object after it, if there is one.
fn calls_of(words: &[String]) -> Result<Vec<(&str, Json)>, Error> {
    let mut calls: Vec<(&str, Json)> = Vec::new();
    for word in words {
        if !word.trim_start().starts_with('{') {
            calls.push((word, json!({})));
            continue;
        }
        let arguments = Json::parse(word.clone())
            .map_err(|e| Error::new(ErrorKind::Invalid, format!("{word} is not JSON: {e}")))?;
        match calls.last_mut() {
            Some((_, last)) => *last = arguments,
            None => return Err(Error::new(ErrorKind::Invalid, "arguments must follow the name of a tool")),
        }
    }
    Ok(calls)
}

fn start(file: &str) -> Result<Hub, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::new(ErrorKind::Io, format!("{file} cannot be read")).with_source(e))?;
    let hub = Hub::builder("host", env!("CARGO_PKG_VERSION")).build()?;
    let config = Config::parse(&text)?;
    #[cfg(all(feature = "oauth", unix))]
    let upstreams = config.into_upstreams_with_endpoints(with_sign_in);
    #[cfg(not(all(feature = "oauth", unix)))]
    let upstreams = config.into_upstreams();
    for (key, upstream) in upstreams {
        // A bad entry fails that server only.
        if let Err(error) = upstream.and_then(|upstream| hub.add(&key, upstream)) {
            eprintln!("host: {error}");
        }
    }
    Ok(hub)
}

/// Lets the user sign in at a server that requires it. The tokens are stored for the next start.
#[cfg(all(feature = "oauth", unix))]
fn with_sign_in(_: &str, endpoint: Endpoint) -> Endpoint {
    let show = |url: &str| {
        eprintln!("host: to sign in, open {url}");
        Ok(())
    };
    match FileStore::user() {
        Ok(store) => endpoint.oauth(OAuth::new(store).on_sign_in(SignIn::loopback(show))),
        Err(_) => endpoint,
    }
}

/// Prints the state of each server, and all entries.
fn show(hub: &Hub) {
    for status in hub.wait_settled(Instant::now() + START_TIMEOUT) {
        match status.state {
            ServerState::Running(info) => {
                say(&format!(
                    "{}: {} {}, revision {}",
                    status.server, info.name, info.version, info.revision
                ));
            }
            ServerState::Down { why, .. } => say(&format!("{}: down: {why}", status.server)),
            _ => say(&format!("{}: still connecting", status.server)),
        }
    }
    let mut missing = Vec::new();
    section("tools", hub.tools(), &mut missing, |tool| (tool.name.clone(), tool.description.as_deref()));
    section("prompts", hub.prompts(), &mut missing, |prompt| {
        (prompt.name.clone(), prompt.description.as_deref())
    });
    // Named by server and URI, because two servers may have the same URI.
    section("resources", hub.resources(), &mut missing, |found| {
        (format!("{} {}", found.server, found.uri), found.description.as_deref())
    });
    section("templates", hub.templates(), &mut missing, |found| {
        (format!("{} {}", found.server, found.uri_template().as_str()), found.description.as_deref())
    });
    if !missing.is_empty() {
        say(&format!("\nmissing\n  {}", missing.join("\n  ")));
    }
}

/// Prints a list; collects failed servers, because a server often fails for every list.
fn section<T>(
    title: &str,
    merged: Merged<T>,
    missing: &mut Vec<String>,
    words: fn(&Entry<T>) -> (String, Option<&str>),
) {
    say(&format!("\n{title}"));
    for entry in &merged.entries {
        let (name, about) = words(entry);
        let about = about.and_then(|text| text.lines().next()).unwrap_or_default();
        say(format!("  {name:28} {about}").trim_end());
    }
    for part in merged.missing {
        let line = format!("{}: {}", part.server, part.error);
        if !missing.contains(&line) {
            missing.push(line);
        }
    }
}

/// Makes all calls in parallel, prints their results in order, and returns the number of failures.
fn call(hub: &Hub, calls: Vec<(&str, Json)>) -> usize {
    let started: Vec<_> = calls
        .into_iter()
        .map(|(name, arguments)| {
            (name, hub.request_tool(name, arguments).and_then(|request| request.start()))
        })
        .collect();
    let mut failed = 0;
    for (name, call) in started {
        let (words, ok) = match call.and_then(|call| call.wait()) {
            Ok(output) => (output.texts(), !output.is_error),
            Err(error) => (error.to_string(), false),
        };
        failed += usize::from(!ok);
        say(&format!("\n{name} {}\n{words}", if ok { "answers" } else { "failed" }));
    }
    failed
}

/// Prints text of a server without terminal control characters.
#[allow(clippy::print_stdout)]
fn say(text: &str) {
    let plain = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    println!("{}", text.chars().map(plain).collect::<String>());
}
