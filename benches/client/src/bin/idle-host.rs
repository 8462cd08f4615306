//! Memory of a host for idle servers: a hub starts children, lists their tools, calls each once,
//! and prints the growth of resident memory per child; see `idle.sh`.

use std::process::Command;
use std::time::{Duration, Instant};

use client_bench::kib;
use tinymcp::{Hub, Limits, ServerState, Upstream, json};

fn main() {
    let mut args = std::env::args().skip(1);
    let count: u64 = args.next().and_then(|n| n.parse().ok()).expect("CHILDREN COMMAND…");
    let command: Vec<String> = args.collect();
    let mut limits = Limits::default();
    // Fifty programs that start together start slowly.
    limits.client.probe_timeout = Duration::from_secs(60);
    let hub = Hub::builder("idle-host", "1.0.0").limits(limits).build().expect("a hub");
    let child = |key: String| {
        let command = command.clone();
        let start = move || {
            let mut child = Command::new(&command[0]);
            child.args(&command[1..]);
            child
        };
        hub.add(&key, Upstream::command(start)).expect("a place");
        hub.wait_settled(Instant::now() + Duration::from_secs(60));
        let answer = hub.call_tool(&format!("{key}:echo"), json!({"text": "hello"})).expect("an answer");
        assert_eq!(answer.texts(), "hello");
    };
    let held = || (kib("VmRSS:"), kib("RssAnon:"));
    // The first connection loads the code that all connections use; the system maps pages in
    // groups.
    let none = held();
    child("first".to_owned());
    hub.tools();
    let one = held();
    (0..count).for_each(|n| child(format!("child{n}")));
    assert_eq!(hub.tools().entries.len() as u64 % (count + 1), 0, "all have listed");
    assert!(hub.servers().iter().all(|s| matches!(s.state, ServerState::Running(_))));
    let all = held();
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let each = |a: u64, b: u64| a.saturating_sub(b) as f64 / count as f64;
    println!(
        "{count} children: {:.1} KiB resident each, {:.1} of it anonymous; {:.2} threads each",
        each(all.0, one.0),
        each(all.1, one.1),
        (threads - 1) as f64 / (count + 1) as f64
    );
    println!(
        "the first one: {} KiB resident, {} of it anonymous, with the code for all; the host without any: {} KiB",
        one.0 - none.0,
        one.1 - none.1,
        none.0
    );
    hub.close();
}
