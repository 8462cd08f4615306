//! Many tasks and many clients: cancellations and disconnections under load.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tinymcp::{
    Client, ErrorKind, Limits, MemoryTaskStore, Outcome, Protocol, Server, TaskSupport, Tool, json,
};

use crate::http::{client, serve};
use crate::wire::Gate;

tinymcp::record! {
    struct Number {
        number: u64,
    }
}

tinymcp::record! {
    struct Text {
        text: String,
    }
}

/// Threads of this process, and bytes of its memory.
fn usage() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0usize)
    };
    (value("Threads:"), value("VmRSS:") * 1024)
}

/// One client: creates tasks, disconnects, and fetches each result from a new connection.
struct Share {
    numbers: std::ops::Range<u64>,
    ids: Vec<(u64, String)>,
}

fn create(client: &Client, number: u64) -> String {
    let call = client.request_tool("work", json!({"number": number})).as_task().start().unwrap();
    match call.wait_outcome().unwrap() {
        Outcome::Task(task) => task.id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_result_is_delivered_once_despite_disconnects() {
    let long = std::env::var_os("TEST_LONG").is_some();
    let (tasks, clients) = if long { (10_000, 64) } else { (600, 8) };
    let gate = Gate::default();
    let runs = Arc::new(AtomicUsize::new(0));
    let mut server = Server::new("s", "1");
    server.tasks(MemoryTaskStore).unwrap();
    let (gated, counted) = (gate.clone(), Arc::clone(&runs));
    server
        .tool(Tool::new("work").task(TaskSupport::Required), move |ctx, work: Number| {
            gated.pass(ctx)?;
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(work.number.to_string())
        })
        .unwrap();
    let mut limits = Limits::default();
    (limits.tasks.entries, limits.tasks.workers) = (tasks as usize, 4);
    limits.tasks.poll = Duration::from_millis(10);
    let served = serve(server, limits, &[]);
    let (threads_before, memory_before) = usage();

    let share = tasks / clients;
    let mut shares: Vec<Share> =
        (0..clients).map(|n| Share { numbers: n * share..(n + 1) * share, ids: Vec::new() }).collect();
    std::thread::scope(|scope| {
        for share in &mut shares {
            scope.spawn(|| {
                let client = client(&served, Protocol::Stateless, "");
                share.ids = share.numbers.clone().map(|number| (number, create(&client, number))).collect();
            });
        }
    });
    gate.await_arrivals(4);
    // All tasks are in flight, and all clients have disconnected; their threads end soon.
    let until = Instant::now() + Duration::from_secs(20);
    while usage().0 > threads_before + 16 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (threads, memory) = usage();
    assert!(threads <= threads_before + 16, "{threads_before} and then {threads} threads");
    let each = memory.saturating_sub(memory_before) / usize::try_from(tasks).unwrap();
    // In an emulator its translated code and its own memory of each thread count: 20 MB for 600 tasks.
    let most = if std::env::var_os("TEST_EMULATED").is_some() { 128 << 10 } else { 16 << 10 };
    assert!(each < most, "{each} bytes for each task");

    let cancelled = |number: u64| number % 7 == 0;
    let delivered = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for share in &shares {
            let (delivered, gate) = (&delivered, gate.clone());
            let served = &served;
            scope.spawn(move || {
                let client = client(served, Protocol::Stateless, "");
                for (number, id) in share.ids.iter().filter(|(number, _)| cancelled(*number)) {
                    client.cancel_task(id).unwrap_or_else(|error| panic!("{number}: {error}"));
                }
                gate.open();
                for (number, id) in &share.ids {
                    match client.follow_task(id).wait() {
                        Ok(output) => {
                            assert_eq!(output.texts(), number.to_string());
                            assert!(delivered.lock().unwrap().insert(*number), "{number} twice");
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Cancelled, "{number}: {error}");
                            assert!(cancelled(*number), "{number}");
                        }
                    }
                }
            });
        }
    });
    let created = share * clients;
    let (delivered, runs) = (delivered.into_inner().unwrap().len(), runs.load(Ordering::SeqCst));
    let kept = (0..created).filter(|number| !cancelled(*number)).count();
    assert!(delivered >= kept, "{delivered} of {kept} results");
    // A cancelled task may have run, but no task runs twice.
    assert!(runs <= created as usize, "{runs} runs of {created} tasks");
}

/// Requests and results count against `TaskLimits::bytes`, and the process needs no more memory than that. In a process
/// of its own, because the memory of a process is measured.
#[cfg(target_os = "linux")]
#[test]
fn memory_for_tasks_is_bounded() {
    use crate::wire::{Wire, in_a_process_of_its_own};

    const BOUND: usize = 8 << 20;
    const CALLS: usize = 1000;
    const TEXT: usize = 64 << 10;
    if in_a_process_of_its_own("load::memory_for_tasks_is_bounded").is_some() {
        return;
    }
    // Bound for freed blocks that the allocator keeps and for other memory than that of tasks; for an emulator also
    // its own memory.
    let slack = if std::env::var_os("TEST_EMULATED").is_some() { 80 << 20 } else { 20 << 20 };
    let gate = Gate::default();
    let mut server = Server::new("s", "1");
    server.tasks(MemoryTaskStore).unwrap();
    let gated = gate.clone();
    server
        .tool(Tool::new("twice").task(TaskSupport::Required), move |ctx, text: Text| {
            gated.pass(ctx)?;
            Ok(text.text.repeat(2))
        })
        .unwrap();
    let mut limits = Limits::default();
    (limits.tasks.entries, limits.tasks.bytes) = (CALLS, BOUND);
    let mut wire = Wire::serve(server, limits);
    let call = serde_json::json!({"name": "twice", "arguments": {"text": "x".repeat(TEXT)}});
    let before = usage().1;
    let called: Vec<_> = (0..CALLS).map(|_| wire.stateless("tools/call", call.clone())).collect();
    let (tasks, rejected): (Vec<_>, Vec<_>) = called.iter().partition(|reply| reply["taskId"].is_string());
    let most = BOUND / TEXT;
    assert!((most - 4..=most).contains(&tasks.len()), "{} tasks", tasks.len());
    assert!(rejected.iter().all(|reply| reply["message"].as_str().unwrap().contains("too many tasks")));
    let grown = usage().1.saturating_sub(before);
    assert!(grown < BOUND + slack, "{grown} bytes for {} tasks", tasks.len());

    // Results are twice as long as the requests, so the last ones do not fit.
    gate.open();
    let states: Vec<_> = tasks.iter().map(|task| wire.over(task)).collect();
    let completed = states.iter().filter(|state| state["status"] == "completed").count();
    assert!(completed > 0 && completed * 2 * TEXT <= BOUND, "{completed} results");
    let why = "The result does not fit into the memory for tasks";
    let failed = states.iter().filter(|state| state["status"] == "failed" && state["statusMessage"] == why);
    assert_eq!(completed + failed.count(), tasks.len());
    drop(states);
    let grown = usage().1.saturating_sub(before);
    assert!(grown < BOUND + slack, "{grown} bytes for {completed} results");
}
